"""Create, change and remove users' files: all changes are shown first, then made together or not at all.

Our lines in a user's file are a block between two markers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, FileTooLarge, folder_around, read_regular
from faber_ledger.ledger.errors import LedgerError

LARGEST = 10_000_000  # an archive can bring a file of any size that takes no room


class FileChange:
    """What a file contains now and what it will contain; None means no file."""

    def __init__(self, path: str, before: bytes | None, after: bytes | None, *, executable: bool = False) -> None:
        self.path = path
        self.target = os.path.realpath(path)  # a link into the user's dotfiles stays a link
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
    """Read a file of at most 10 MB, through a link; None if there is none. Raises LedgerError for anything else."""
    try:
        return read_regular(path, LARGEST, follow=True)
    except FileNotFoundError:
        return None
    except FileTooLarge as error:
        hint = "put a smaller file in its place, or nothing"
        raise LedgerError(f"{path} is too large: {error}", hint=hint) from error
    except FileRefused as error:
        raise LedgerError(
            f"{path} is not a regular file", hint="put a regular file in its place, or nothing"
        ) from error
    except OSError as error:
        raise _error("read", path, error) from error


def read_inside(path: str, root: str) -> bytes | None:
    """Read a file of a project as `read_file` does; raises LedgerError, too, if a link leads out of the project."""
    if folder_around(path, [root]) is None:
        message = f"{os.path.relpath(path, root)} is behind a link that leads out of the project"
        raise LedgerError(f"{message}, to {os.path.realpath(path)}", hint="replace the link with what it leads to")
    return read_file(path)


def make_changes(changes: Iterable[FileChange]) -> None:
    """Make the changes; all new contents are on the disk before the first is put in place.

    Raises LedgerError, and removes what was staged, if a file cannot be written or has changed since it was read.
    """
    due = [change for change in changes if change.action != "unchanged"]
    made: list[str] = []
    try:
        staged = [(change, _stage(change, made)) for change in due]
        for change in due:
            if read_file(change.target) != change.before:
                raise LedgerError(f"{change.path} was changed meanwhile", hint="run the command again")
        for change, temporary in staged:
            try:
                if temporary is None:
                    os.unlink(change.target)
                else:
                    os.replace(temporary, change.target)
                disk.sync_directory(os.path.dirname(change.target))
            except OSError as error:
                raise _error("write", change.path, error) from error
    except BaseException:
        _remove(made)
        raise


def _stage(change: FileChange, made: list[str]) -> str | None:
    """Write the new content beside its file and return its path; add every path created to `made`."""
    if change.after is None:
        return None
    temporary = f"{change.target}.{os.getpid()}.tmp"
    try:
        _make_folder(os.path.dirname(change.target), made)
        made.append(temporary)
        like = os.stat(change.target) if change.before is not None else None
        disk.write(temporary, change.after, like=like, mode=0o777 if change.executable else 0o666)
    except OSError as error:
        raise _error("write", change.path, error) from error
    return temporary


def _make_folder(folder: str, made: list[str]) -> None:
    if not os.path.isdir(folder):
        _make_folder(os.path.dirname(folder), made)
        os.mkdir(folder)
        made.append(folder)


def _remove(made: list[str]) -> None:
    for path in reversed(made):
        with suppress(OSError):  # renamed into its place already, or in use by now
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def _error(verb: str, path: str, error: OSError) -> LedgerError:
    hint = "check that the folder is there and is yours to change"
    return LedgerError(f"cannot {verb} {path}: {error.strerror}", hint=hint)


LAST = "# <<< faber-ledger"
REMOVAL = "(`faber-ledger uninstall` removes this block)"
START = b"# >>> faber-ledger:"


def block_lines(purpose: str, *lines: str) -> tuple[str, ...]:
    """Return the lines of a block, its markers included."""
    return f"{START.decode()} {purpose} {REMOVAL}", *lines, LAST


def with_block(content: bytes, block: tuple[str, ...], *, after_first_line: bool = False) -> bytes:
    """Return a file's content with the block, in place of older ones; else at the end or after the first line."""
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    text = newline.join([line.encode() for line in block])
    span = _block(content)
    if span:
        return content[: span[0]] + text + without_block(content[span[1] :])
    if after_first_line:
        first, end, rest = content.partition(b"\n")
        return first + (end or b"\n") + text + newline + rest
    if content and not content.endswith(b"\n"):
        return content + newline + text  # no newline at the end: so `without_block` restores the old end
    return content + text + newline


def without_block(content: bytes) -> bytes:
    """Return a file's content as it was before `with_block`."""
    span = _block(content)
    if not span:
        return content
    before, after = content[: span[0]], without_block(content[span[1] :])
    if after:
        return before + after.removeprefix(b"\r").removeprefix(b"\n")
    return before.removesuffix(b"\n").removesuffix(b"\r")


def has_block(content: bytes) -> bool:
    """Return whether a file has our block."""
    return _block(content) is not None


def _block(content: bytes) -> tuple[int, int] | None:
    """Find our block, from the start of its first marker to the end of its last one; it needs both."""
    end = content.find(LAST.encode())
    start = content.rfind(START, 0, max(end, 0))
    return None if start < 0 or end < 0 else (start, end + len(LAST))
