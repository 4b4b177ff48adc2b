"""Folders and files of ours that are their owner's alone, or shared as git's: how they are made, and their modes.

One of them is the random key of this clone: what is hashed with it, nobody else can guess.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.plain_json import keyed_hash, sha256
from faber_ledger.runs.git import clone_folder, common_directory, read_config

# What git understands by a word in `core.sharedRepository`; a number is the file's own permissions.
SHARED = {
    **dict.fromkeys(("1", "true", "yes", "on", "group"), 0o660),
    **dict.fromkeys(("2", "all", "world", "everybody"), 0o664),
}
KEY_BYTES = 32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def state_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project without git, which may not exist."""
    return os.path.join(_state_base(), "faber-ledger", sha256(os.fsencode(os.path.realpath(root))).hexdigest())


def _state_base() -> str:
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):  # the specification ignores any other
        return given
    home = os.path.expanduser("~")
    return os.path.join(os.sep if home == "~" else home, ".local", "state")


_modes: dict[str | None, int] = {}  # by the git directory


def file_mode(path: str) -> int:
    """Return the permissions of a file of ours at `path`: 0600, or what `core.sharedRepository` makes of that."""
    common = common_directory(os.path.dirname(path))
    if common not in _modes:
        _modes[common] = _shared_mode(common) if common is not None else whole_file.OWN
    return _modes[common]


def _shared_mode(common: str) -> int:
    word = read_config(common, "core", "sharedrepository")
    if word is None or word in SHARED:
        return SHARED[word] if word is not None else whole_file.OWN
    try:
        mode = int(word, 8) & 0o666
    except ValueError:
        return whole_file.OWN
    return mode if len(word) > 2 and mode & whole_file.OWN == whole_file.OWN else whole_file.OWN


def make_below(base: str, folder: str, *, durable: bool = True) -> None:
    """Make a folder and those between it and `base`, which is not made; raises OSError, as where one is a link.

    The folders are their owner's alone, or shared as git's. Those of the user's own folder for state are all made.
    """
    if folder.startswith(os.path.join(_state_base(), "faber-ledger", "")):
        base = os.path.join(_state_base(), "faber-ledger")
        os.makedirs(os.path.dirname(base), 0o700, exist_ok=True)
        os.makedirs(base, 0o700, exist_ok=True)
    if is_behind_link(folder, base):
        raise OSError(f"{folder} is a link, or behind one")
    missing = []
    while not os.path.isdir(folder):
        if not folder.startswith(os.path.join(base, "")):
            raise missing_error(base)
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue  # another process has made it
        if file_mode(os.path.join(folder, "")) != whole_file.OWN:
            set_folder_mode(folder)
        if durable:
            whole_file.sync_directory(os.path.dirname(folder))


def missing_error(folder: str) -> FileNotFoundError:
    """Return the error for a folder that does not exist."""
    from errno import ENOENT  # rarely needed

    return FileNotFoundError(ENOENT, os.strerror(ENOENT), folder)


def set_folder_mode(folder: str) -> None:
    """Let those enter a folder of ours who may read the files in it; another user's folder stays as it is.

    In a shared repository it gets git's group, and what is made in it gets that group too.
    """
    mode = file_mode(os.path.join(folder, ""))
    is_shared = mode != whole_file.OWN
    try:
        if is_shared and hasattr(os, "chown"):
            os.chown(folder, -1, os.stat(common_directory(os.path.dirname(folder)) or folder).st_gid)
        os.chmod(folder, mode | (mode & 0o444) >> 2 | (stat.S_ISGID if is_shared else 0))
    except OSError:
        pass


def is_behind_link(folder: str, base: str) -> bool:
    """Return whether a folder, or one between it and `base`, is a link, which may lead anywhere."""
    while len(folder) > len(base):
        if os.path.islink(folder):
            return True
        folder = os.path.dirname(folder)
    return False


def key_of(root: str) -> bytes:
    """Return the random key of this clone (32 bytes), which others than git's group never read; empty without one.

    A hash that is made with it says whether two texts of this clone are the same, and lets nobody else guess a text.
    The first use makes it.
    """
    folder = clone_folder(root) or state_folder(root)
    path = os.path.join(folder, "key")
    known = _keys.get(path) or _read_key(path)
    if known:
        _keys[path] = known
        return known
    try:
        make_below(common_directory(root) or folder, folder, durable=False)
        write_once(path, os.urandom(KEY_BYTES), _read_key, at_most=0o660)
    except OSError:
        pass
    return _read_key(path)


_keys: dict[str, bytes] = {}  # read once: a start asks for each artifact


def write_once(
    path: str, content: bytes, read: Callable[[str], object], *, mode: int = whole_file.OWN, at_most: int | None = None
) -> None:
    """Write a file that the first of two processes makes; what `read` cannot read is replaced. Raises OSError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    whole_file.write(temporary, content, mode=mode, durable=False)
    if at_most is not None:
        os.chmod(temporary, os.stat(temporary).st_mode & at_most)
    try:
        os.link(temporary, path)
    except FileExistsError:
        if not read(path):
            os.replace(temporary, path)
    whole_file.remove(temporary)


def _read_key(path: str) -> bytes:
    try:
        key = read_regular(path, KEY_BYTES)
    except (FileRefused, OSError):
        return b""
    return key if len(key) == KEY_BYTES else b""


def keyed_digest(root: str, digest: str) -> str:
    """Return a SHA-256 (hex) hashed again with the clone's key, as HMAC-SHA256 (hex); empty without a key."""
    key = key_of(root)
    return keyed_hash(key, bytes.fromhex(digest)).hex() if key else ""
