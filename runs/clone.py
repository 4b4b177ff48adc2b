"""What this clone keeps of its runs under the common git directory: mirrors, spool, the writer's id."""

from __future__ import annotations

import errno
import os
import stat

from faber_ledger.ledger.log import RECOVERED
from faber_ledger.ledger.whole_file import sync_directory
from faber_ledger.runs.git import common_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def is_recovery_due(path: str) -> bool:
    """Tell whether a journal stands beside a log, or a recovery of it that was killed before its last step."""
    return os.path.lexists(path + "-journal") or is_recovery(path + RECOVERED)


def is_recovery(path: str) -> bool:
    """Return whether an unfinished recovery made the file at `path`; what git tracks came with a commit."""
    if not os.path.isfile(path):
        return False
    from faber_ledger.runs.git import is_tracked  # only after a kill, or with such a file in a commit

    return is_tracked(path) is False


def is_empty(path: str) -> bool:
    """Tell whether a file has no bytes, or is not there."""
    try:
        return os.path.getsize(path) == 0
    except FileNotFoundError:
        return True


def mirror_path(run: Run) -> str | None:
    """Give where a run's mirror stands; None without git."""
    common = common_directory(run.root)
    return os.path.join(common, "faber-ledger", "runs", *run.run_id.split("/"), "ledger.db") if common else None


def spool_path(run: Run) -> str:
    """Give the folder of a run's waiting deliveries: `git clean` would delete one in the work tree."""
    common = common_directory(run.root)
    if common is None:
        return os.path.join(run.directory, "spool")
    return os.path.join(common, "faber-ledger", "spool", *run.run_id.split("/"))


def make_kept_folder(run: Run, folder: str) -> None:
    """Make a folder below git's directory, or the run's own without git, with those between; raises OSError.

    Git's and the run's are not made: they are missing when somebody renames the project under a running hook. Nor is a
    link followed: it may lead anywhere.
    """
    if os.path.islink(folder):
        raise OSError(f"{folder} is a link")
    base = common_directory(run.root) or run.directory
    missing = []
    while not os.path.isdir(folder):
        if not folder.startswith(os.path.join(base, "")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), base)
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            continue  # another process's
        sync_directory(os.path.dirname(folder))


def writer_of(root: str) -> str:
    """Give the random id of this clone (32 hex digits), kept where git never tracks it and made at first use."""
    common = common_directory(root)
    path = (
        os.path.join(common, "faber-ledger", "writer") if common else os.path.join(root, ".fractary", "faber", "writer")
    )
    known = _read_writer(path)
    if known:
        return known
    if common is None:
        from faber_ledger.files.untrusted import folder_around  # most projects have git

        if folder_around(os.path.dirname(path), [root]) is None:
            return os.urandom(16).hex()  # behind a link that leads out of the project: an id for this process alone
    made = os.urandom(16).hex()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        try:
            os.mkdir(os.path.dirname(path))  # alone: a project that is renamed at this moment is not made anew
        except FileExistsError:
            pass  # as nearly always; or another first hook was faster
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(made + "\n")
        try:
            os.link(temporary, path)  # the first of two processes wins, and both read its id
        except FileExistsError:
            if not _read_writer(path):
                os.replace(temporary, path)
        if os.path.exists(temporary):
            os.unlink(temporary)
    except OSError:
        return _read_writer(path) or made  # a folder that cannot be written: an id for this process alone
    return _read_writer(path) or made


def _read_writer(path: str) -> str | None:
    try:
        # In a project without git the file may have come along: a pipe is not waited for.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, encoding="utf-8") as file:
            text = file.read(64).strip() if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
    except (OSError, ValueError, TypeError):  # a pipe read at once gives None
        return None
    return text if len(text) == 32 and all([letter in "0123456789abcdef" for letter in text]) else None
