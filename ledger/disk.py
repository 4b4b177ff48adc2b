"""Read files that came with a repository, and replace a file completely or not at all; lock one while it is written.

The one way to open an untrusted file: where it may be, of what kind, how large. A new content is written beside a file,
then renamed into place. The lock of a run is a private file beside its log, tried every 5 ms: the slowest of 32 writers
took 0.30 to 0.34 s, and 1 to 3 s with SQLite's own busy handler. Whoever may open the file may hold the lock, so only
its owner may.
"""

from __future__ import annotations

import os
import stat
import time

from faber_ledger import ledger
from faber_ledger.ledger import BACKUP_ENDING
from faber_ledger.ledger.clock import time_left
from faber_ledger.ledger.errors import Locked, NotWritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["fcntl"]
KINDS = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link", stat.S_IFIFO: "a named pipe"}
HEX = "0123456789abcdef"
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
    """Return a regular file's size in bytes, None if it is missing; raises FileRefused for any other kind."""
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
    """Return a regular file's text, None if it is missing; links are followed.

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
    """Return the error for a file of another kind."""
    return FileRefused(f"{KINDS.get(stat.S_IFMT(status.st_mode), 'a special file')}, not a regular file")


# Written whole

OWN = 0o600  # the permissions of files of ours, or more in a shared repository
OURS = ".faber-ledger.tmp"  # the ending of names that no other program uses


def put(
    path: str,
    content: bytes,
    *,
    like: os.stat_result | None = None,
    mode: int = 0o666,
    durable: bool = True,
    locked: bool = True,
    temporary: str | None = None,
) -> None:
    """Replace a file's content; raises OSError, and then the file has its old content, or the new one, not synced.

    The file gets the owner and permissions of another file (`like`), else `mode` as the process masks it; OWN is for a
    file of ours, which a shared repository shares. If not `durable`, a power cut may leave the old content, or none. A
    caller without a lock (not `locked`) gets a temporary name of its own: of two writers under one name, one would
    rename what the other has half written. For a file that other programs write too, pass a name from `own_name` as
    `temporary`.
    """
    temporary = temporary or path + (".tmp" if locked else f".{os.getpid()}.tmp")
    try:
        write(temporary, content, like=like, mode=mode, durable=durable)
        os.replace(temporary, path)
    except BaseException:
        remove(temporary)
        raise
    if durable:
        sync_directory(os.path.dirname(path))


def own_name(path: str) -> str:
    """Return a path for the next content of a file, under a name that no other program uses."""
    folder, name = os.path.split(path)
    return f"{folder}{os.sep}.{name}.{os.urandom(8).hex()}{OURS}"


def sweep(path: str) -> None:
    """Remove what killed writers of a file, or of its backup, left under names from `own_name`.

    The caller holds the lock under which they are written, so that none is in use.
    """
    folder, name = os.path.split(path)
    try:
        left = [one for one in os.listdir(folder) if is_own_name(one, name)]
    except OSError:
        return  # the write that follows reports it
    for one in left:
        remove(os.path.join(folder, one))


def is_own_name(name: str, of: str) -> bool:
    """Return whether a name is one that `own_name` gives for the file `of` or for its backup."""
    if not (name.endswith(OURS) and name.startswith(f".{of}.")):
        return False
    random = name.removeprefix(f".{of}").removeprefix(BACKUP_ENDING).removesuffix(OURS)
    return not random[1:].strip(HEX)


def is_hex_id(text: str) -> bool:
    """Return whether a text is 16 bytes as 32 hex digits: the id of a clone, the name of a client's file, a salt."""
    return len(text) == 32 and not text.strip(HEX)


def write(
    path: str, content: bytes, *, like: os.stat_result | None = None, mode: int = 0o666, durable: bool = True
) -> None:
    """Write a new file as `put` does; a killed writer's leftover, or a link, is removed first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    opening = mode if like is None else 0o600
    try:
        descriptor = os.open(path, flags, opening)
    except FileExistsError:
        remove(path)
        descriptor = os.open(path, flags, opening)
    try:
        if like is not None:
            keep_owner(descriptor, like)
        elif mode == OWN:
            make_private(descriptor, path)
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file if possible; the write that follows reports one that cannot be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def keep_owner(file: int | str, like: os.stat_result) -> None:
    """Give a file, open or by its path, the owner and permissions of another, as far as this process may."""
    mine = os.stat(file)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        for owner in (like.st_uid, -1):
            try:
                os.chown(file, owner, like.st_gid)
                break
            except OSError:  # only root may change owners, and not to a user that its container does not know
                continue  # the content matters more than the owner
    if isinstance(file, str) or os.chmod in os.supports_fd:
        os.chmod(file, stat.S_IMODE(like.st_mode))


def make_private(file: int | str, path: str) -> None:
    """Let only its owner open a file of ours at `path`; `file` is its descriptor or its path.

    Another user's file, as in a shared repository, keeps its own.
    """
    mode = ledger.private_mode(path)
    try:
        if stat.S_IMODE(os.stat(file).st_mode) != mode and (isinstance(file, str) or os.chmod in os.supports_fd):
            os.chmod(file, mode)
    except OSError:
        pass


def sync_directory(directory: str) -> None:
    """Make a rename in a directory durable, where the system can."""
    try:
        descriptor = os.open(directory or ".", os.O_RDONLY)
    except OSError:  # Windows cannot open a directory
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        from errno import EINVAL, ENOTSUP  # only file systems that cannot sync a directory need it

        if error.errno not in (EINVAL, ENOTSUP):
            raise
    finally:
        os.close(descriptor)


try:
    import fcntl
except ImportError:  # Windows: only SQLite's own lock is left, which polls
    fcntl = None  # type: ignore[assignment]  # None means below that there is no lock

LOCK_SECONDS = 10.0  # how long a command waits; hooks give up sooner
BETWEEN_TRIES = 0.005


class RunLock:
    """Hold the lock file at `path`; raises Locked after `seconds`, or at a hook's deadline."""

    def __init__(self, path: str, seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self.seconds = seconds
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise NotWritable(
                f"cannot open the lock file {self.path}: {error.strerror}",
                hint="check that the folder exists and is writable",
            ) from error
        try:
            self._wait()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _open(self) -> int:
        """Open the file and return its descriptor; raises OSError."""
        flags = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            descriptor = os.open(self.path, flags | os.O_CREAT, 0o600)
            make_private(descriptor, self.path)
            return descriptor

    def _wait(self) -> None:
        """Try until the lock is free; raises Locked."""
        if fcntl is None:
            return
        end = time.monotonic() + time_left(self.seconds)
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise self._locked_error() from None
            time.sleep(BETWEEN_TRIES)

    def _locked_error(self) -> Locked:
        return Locked(
            f"another process has held {self.path} for longer than the {self.seconds:g} seconds that this one waits",
            hint="wait for it to end, or find it with `fuser` and the path of the lock file",
        )
