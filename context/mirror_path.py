"""Where this clone keeps what no checkout touches: a run's mirror, and the deliveries that wait for it."""

from __future__ import annotations

import errno
import os

from faber_ledger.context.git import common_directory
from faber_ledger.ledger.log import RECOVERED
from faber_ledger.ledger.whole_file import sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.project import Run


def is_recovery_due(path: str) -> bool:
    """Tell whether a journal stands beside a log, or a recovery of it that was killed before its last step."""
    return os.path.lexists(path + "-journal") or is_recovery(path + RECOVERED)


def is_recovery(path: str) -> bool:
    """Return whether an unfinished recovery made the file at `path`; what git tracks came with a commit."""
    if not os.path.isfile(path):
        return False
    from faber_ledger.context.tracked import is_tracked  # only after a kill, or with such a file in a commit

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
