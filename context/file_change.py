"""A user's file that is to be made, changed or removed: shown first, then done wholly or not at all."""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import LedgerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class FileChange:
    """What a file holds now and what it shall hold; None is no file."""

    def __init__(self, path: str, before: bytes | None, after: bytes | None, *, executable: bool = False) -> None:
        self.path = path
        self.target = os.path.realpath(path)  # a settings file is often a link into somebody's dotfiles: it stays one
        self.before = before
        self.after = after
        self.executable = executable

    @property
    def action(self) -> str:
        """Name what happens to the file: created, changed, removed or unchanged."""
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "changed"


def read_file(path: str) -> bytes | None:
    """Read a file, through a link; None if there is none. Raises LedgerError if it is no regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failed("read", path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LedgerError(f"{path} is not a regular file", hint="put a regular file in its place, or nothing")
    with open(descriptor, "rb") as file:
        return file.read()


def make_changes(changes: Iterable[FileChange]) -> None:
    """Make the changes: all new contents are on the disk before the first one is put in place.

    Raises LedgerError if one cannot be written or is no longer what was read; what was staged is taken away then.
    """
    due = [change for change in changes if change.action != "unchanged"]
    made: list[str] = []
    try:
        staged = [(change, _staged(change, made)) for change in due]
        for change in due:
            if read_file(change.target) != change.before:
                raise LedgerError(f"{change.path} was changed meanwhile", hint="run the command again")
        for change, temporary in staged:
            try:
                if temporary is None:
                    os.unlink(change.target)
                else:
                    os.replace(temporary, change.target)
                whole_file.sync_directory(os.path.dirname(change.target))
            except OSError as error:
                raise _failed("write", change.path, error) from error
    except BaseException:
        _remove(made)
        raise


def _staged(change: FileChange, made: list[str]) -> str | None:
    """Write the new content beside its file and give the path; every path that is made goes into `made`."""
    if change.after is None:
        return None
    temporary = f"{change.target}.{os.getpid()}.tmp"
    try:
        _make_folder(os.path.dirname(change.target), made)
        made.append(temporary)
        like = os.stat(change.target) if change.before is not None else None
        whole_file.write(temporary, change.after, like=like, mode=0o777 if change.executable else 0o666)
    except OSError as error:
        raise _failed("write", change.path, error) from error
    return temporary


def _make_folder(folder: str, made: list[str]) -> None:
    if not os.path.isdir(folder):
        _make_folder(os.path.dirname(folder), made)
        os.mkdir(folder)
        made.append(folder)


def _remove(made: list[str]) -> None:
    for path in reversed(made):
        try:
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        except OSError:
            pass  # renamed into its place already, or in use by now


def _failed(verb: str, path: str, error: OSError) -> LedgerError:
    return LedgerError(
        f"cannot {verb} {path}: {error.strerror}", hint="check that the folder is there and is yours to change"
    )
