"""Files that a repository names: where they may lie, what they may be, and how large."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileRefused(Exception):
    """The file is not read, and why."""


class FileTooLarge(FileRefused):
    """The file is larger than the limit, which was seen before it was opened."""


def folder_around(path: str, folders: Iterable[str]) -> str | None:
    """Give the first of the folders that a path lies in once links are resolved, as a real path; None for none of them.

    Raises FileRefused for a text that can be no path.
    """
    return around(real_path(path), map(os.path.realpath, folders))


def around(real: str, folders: Iterable[str]) -> str | None:
    """Give the first of the folders that a path lies in, all without links; None for none of them."""
    for folder in folders:
        if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
            return folder
    return None


def real_path(path: str) -> str:
    """Resolve a path's links; raises FileRefused for a text that can be no path."""
    try:
        return os.path.realpath(path)
    except (ValueError, OSError) as error:  # a NUL byte, a lone surrogate
        raise FileRefused("this text can be no path") from error


def size_of(path: str) -> int | None:
    """Give a regular file's size in bytes, None if there is no file; raises FileRefused for any other kind."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    except ValueError as error:
        raise FileRefused("this text can be no path") from error
    return _regular(status)


def read_text(path: str, limit: int) -> str | None:
    """Give a regular file's text, None if there is no file.

    Raises FileTooLarge above `limit` bytes and FileRefused for another kind of file or for content that is no UTF-8
    text. A byte-order mark is dropped.
    """
    size = size_of(path)
    if size is None:
        return None
    try:
        # What lies here may have been replaced by a pipe since: then do not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            size = max(_regular(os.fstat(descriptor)), 0)
            content = file.read(limit + 1) if size <= limit else b""
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    check_size(max(size, len(content)), limit)
    if b"\0" in content:
        raise FileRefused("binary content")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise FileRefused(f"not UTF-8 text (byte {error.start:,})") from error


def check_size(size: int, limit: int) -> None:
    """Raise FileTooLarge above `limit` bytes."""
    if size > limit:
        raise FileTooLarge(f"{size:,} bytes, and at most {limit:,} are read")


def _regular(status: os.stat_result) -> int:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileRefused(f"{KINDS.get(kind, 'a special file')}, not a regular file")
    return status.st_size
