"""Open files that came with a repository, or that it names: where they may be, of what kind, and how large.

The one way to open an untrusted file; `ledger/file.py` opens a ledger's header with the same care, since the ledger
imports nothing from here.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger.whole_file import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NO_PATH = "this text cannot be a path"
CHUNK = 4096  # bytes read beyond the size that a file had: it may have grown


class FileRefused(Exception):
    """The file must not be read; the text says why."""


class FileTooLarge(FileRefused):
    """The file is larger than its limit; `size` is in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size:,} bytes, and at most {limit:,} are read")
        self.size = size


def folder_around(path: str, folders: Iterable[str]) -> str | None:
    """Return the first of the folders that contains a path once links are resolved, as a real path, or None.

    Raises FileRefused for a text that cannot be a path.
    """
    return around(real_path(path), map(os.path.realpath, folders))


def around(real: str, folders: Iterable[str]) -> str | None:
    """Return the first of the folders that contains a path, or None; none of them may have links in it."""
    for folder in folders:
        if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
            return folder
    return None


def real_path(path: str) -> str:
    """Resolve a path's links; raises FileRefused for a text that cannot be a path."""
    try:
        return os.path.realpath(path)
    except (ValueError, OSError) as error:  # a NUL byte, a lone surrogate
        raise FileRefused(NO_PATH) from error


def open_regular(path: str) -> int:
    """Open a regular file for reading and return its descriptor; raises FileRefused, also for a link, and OSError."""
    return _open_regular(path, follow=False)[0]


def _open_regular(path: str, *, follow: bool) -> tuple[int, int]:
    """Open a regular file for reading and return its descriptor and its size; a link is refused unless `follow`.

    Raises FileRefused for another kind of file, and OSError. A pipe is never waited for, a device never opened: the
    kind is checked before the file is opened, and again once it is, since it may have been replaced meanwhile.
    """
    found = os.stat(path) if follow else os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(found)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not stat.S_ISREG((found := os.fstat(descriptor)).st_mode):
            raise _refusal(found)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found.st_size


def read_regular(path: str, limit: int, *, follow: bool = False) -> bytes:
    """Read a regular file of at most `limit` bytes; raises FileTooLarge, and as `open_regular`."""
    descriptor, size = _open_regular(path, follow=follow)
    content = b""
    try:
        while size <= limit and (piece := os.read(descriptor, size + CHUNK)):
            content += piece
            size = max(size, len(content))
    finally:
        os.close(descriptor)
    if size > limit:
        raise FileTooLarge(size, limit)
    return content


def append_line(path: str, line: str) -> None:
    """Append a line to a file that only its owner may read, and make it if there is none; raises OSError.

    No link is followed and no pipe waited for. Two processes that append at once both succeed.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags, 0o600), "a", encoding="utf-8", newline="\n") as file:
        make_private(file.fileno(), path)
        file.write(f"{line}\n")


def size_of(path: str) -> int | None:
    """Return a regular file's size in bytes, None if there is no file; raises FileRefused for any other kind."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    except ValueError as error:
        raise FileRefused(NO_PATH) from error
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(status)
    return status.st_size


def read_text(path: str, limit: int) -> str | None:
    """Return a regular file's text, None if there is no file; links are followed.

    Raises FileTooLarge above `limit` bytes, and FileRefused for another kind of file and for content that is not UTF-8
    text. A byte-order mark is dropped.
    """
    try:
        content = read_regular(path, limit, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    except ValueError as error:
        raise FileRefused(NO_PATH) from error
    if b"\0" in content:
        raise FileRefused("binary content")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise FileRefused(f"not UTF-8 text (byte {error.start:,})") from error


def _refusal(status: os.stat_result) -> FileRefused:
    """Return the error for what is no regular file."""
    return FileRefused(f"{KINDS.get(stat.S_IFMT(status.st_mode), 'a special file')}, not a regular file")
