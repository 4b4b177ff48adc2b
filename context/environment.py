"""The machine, directory and commit that a session runs on, and the clone it writes from."""

from __future__ import annotations

import os
import stat
import sys

from faber_ledger.context.git import Question, common_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Environment


class Whereabouts:
    """Where this process runs, with git asked in the background for the commit."""

    def __init__(self, root: str, cwd: str | None = None) -> None:
        self.cwd = cwd or _working_directory() or root
        self._commit = Question(["rev-parse", "--short", "HEAD"], root)

    def environment(self) -> Environment:
        """Give hostname, platform, cwd and git_commit (AGENT, Environment collection); null for what cannot be had."""
        return {
            "hostname": hostname(),
            "platform": os.uname().sysname.lower() if hasattr(os, "uname") else sys.platform,
            "cwd": self.cwd,
            "git_commit": self._commit.answer() or None,
        }


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed since this process was started
        return None


def hostname() -> str:
    """Give this machine's name; `FABER_LEDGER_HOSTNAME` stands in for it where the real one shall not be recorded."""
    given = os.environ.get("FABER_LEDGER_HOSTNAME")
    if given:
        return given
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


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
