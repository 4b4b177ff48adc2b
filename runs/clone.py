"""What this clone keeps of its runs below the common git directory, where no checkout, clean or commit reaches.

Folders and files of ours are their owner's alone, or shared as git's. One of them is the random key of this clone: what
is hashed with it, nobody else can guess.

In `.git/faber-ledger/`, with the locks of what a clone does once:

- `runs/`: a private folder for each run, with its log (`log.py`), its lock, the copy of its `state.json`, the notes on
  work trees (`seen.py`), events that wait for a parent, and its kept summaries
- `inbox/`: the deliveries that are not recorded yet
- `clients/`: what was seen of each client
- `set-aside/`: what was refused or removed; `notices/`: what the next start of a run says of that
- `sync/`: what was exchanged with a team's server last
- `writer`: the id of this clone; `key`: its key
- `set-up-checked`: there once a hook has looked whether `init` was run in this clone

Of a project in a folder below the repository's top, `runs/`, `inbox/` and `clients/` are in a folder of its own,
`projects/<key>/` (`project_key`). Without git the same is in `$XDG_STATE_HOME/faber-ledger/<key>/`, where the key is
the SHA-256 of the project's real path.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import (
    LOCK_SECONDS,
    FileRefused,
    RunLock,
    append_line,
    folder_around,
    is_hex_id,
    open_regular,
    read_regular,
)
from faber_ledger.ledger.encoding import keyed_hash
from faber_ledger.ledger.errors import NotWritable
from faber_ledger.runs.git import read_config
from faber_ledger.runs.run import (
    ATTRIBUTES_FILE,
    clone_folder,
    common_directory,
    path_in_clone,
    private_folder,
    state_base,
    state_folder,
)

SET_UP_CHECKED = "set-up-checked"
OUT_OF_THE_WAY = "move it aside; faber-ledger makes the folder"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


def make_private_folder(run: Run, folder: str, *, durable: bool = True) -> None:
    """Make a private folder of a run; raises OSError.

    Nothing is made for a project that was renamed under a running hook. No link is followed, since it may lead
    anywhere.
    """
    if not os.path.isdir(run.root):
        raise missing_error(run.root)
    make_below(run.root, folder, durable=durable)


def lock_run(run: Run, seconds: float = LOCK_SECONDS) -> RunLock:
    """Return the lock under which a run is recorded on; its folder is made. Raises NotWritable."""
    try:
        make_private_folder(run, run.private_folder)
    except OSError as error:
        raise not_writable(run.root, run.private_folder, error) from error
    return RunLock(run.lock_path, seconds)


def not_writable(root: str, path: str, error: OSError) -> NotWritable:
    """Return the error for a path of what this clone keeps that cannot be written."""
    obstacle = find_obstacle(root)
    if obstacle is not None:
        return NotWritable(obstacle, hint=OUT_OF_THE_WAY)
    return NotWritable(
        f"cannot write {path}: {error.strerror or error}", hint="check the permissions of the git directory"
    )


def find_obstacle(root: str) -> str | None:
    """Return what is in the place of this clone's folder and is not a folder, as a sentence; None if nothing is."""
    folder = clone_folder(root)
    if folder is None or not os.path.lexists(folder) or (os.path.isdir(folder) and not os.path.islink(folder)):
        return None
    return f"{folder} is {'a link' if os.path.islink(folder) else 'a file'}, where faber-ledger needs its own folder"


def writer_of(root: str) -> str:
    """Return the random id of this clone (32 hex digits); the first use makes it, where git never tracks it.

    Without git it is in the project, since it is not secret and has to stay the same where the project is renamed.
    """
    folder = clone_folder(root)
    path = os.path.join(folder or os.path.join(root, ".fractary", "faber"), "writer")
    if known := _read_writer(path):
        return known
    if folder is None and folder_around(os.path.dirname(path), [root]) is None:
        return os.urandom(16).hex()  # behind a link that leads out of the project: an id for this process alone
    made = os.urandom(16).hex()
    try:
        # Not the parents: a project renamed at this moment is not made again.
        try:
            if folder is not None:
                make_below(root, folder, durable=False)
            else:
                os.mkdir(os.path.dirname(path))
        except FileExistsError:
            pass  # as nearly always; or another first hook was faster
        mode = disk.OWN if folder is not None else 0o666
        write_once(path, f"{made}\n".encode(), _read_writer, mode=mode)
    except OSError:
        pass  # the folder is not writable: an id for this process alone
    return _read_writer(path) or made


def is_set_up_unchecked(root: str, *more: str) -> bool:
    """Return whether the project was set up, and no hook has looked at this clone.

    Our attributes, or one of the files `more`, say that it was set up. Few looks, since every start asks.
    """
    folder = clone_folder(root)
    return (
        folder is not None
        and any([os.path.lexists(os.path.join(root, name)) for name in (ATTRIBUTES_FILE, *more)])
        and not os.path.lexists(os.path.join(folder, SET_UP_CHECKED))
    )


def note_set_up_checked(root: str) -> bool:
    """Note that a hook has looked; return whether this process was the first to note it."""
    folder = clone_folder(root)
    try:
        if folder is None:
            return False
        make_below(root, folder, durable=False)
        os.close(os.open(os.path.join(folder, SET_UP_CHECKED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def known_writer(root: str) -> str | None:
    """Return this clone's id if it has one; without git none is known to be this clone's, since it may be copied."""
    path = path_in_clone(root, "writer")
    return _read_writer(path) if path else None


def _read_writer(path: str) -> str | None:
    try:
        text = read_regular(path, 64, follow=True).decode().strip()
    except (FileRefused, OSError, ValueError):
        return None
    return text if is_hex_id(text) else None


def is_empty(path: str) -> bool:
    """Return whether a file is empty, missing or not accessible."""
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return True


# What git understands by a word in `core.sharedRepository`; a number is the file's own permissions.
SHARED = {
    **dict.fromkeys(("1", "true", "yes", "on", "group"), 0o660),
    **dict.fromkeys(("2", "all", "world", "everybody"), 0o664),
}
KEY_BYTES = 32

_modes: dict[str, int] = {}  # by the folder, of which git's directory is one


def file_mode(path: str) -> int:
    """Return the permissions of a file of ours at `path`: 0600, or what `core.sharedRepository` makes of that."""
    folder = os.path.dirname(path)
    if folder not in _modes:
        common = common_directory(folder)
        if common is not None and common not in _modes:
            _modes[common] = _shared_mode(common)
        _modes[folder] = _modes[common] if common is not None else disk.OWN
    return _modes[folder]


def _shared_mode(common: str) -> int:
    word = read_config(common, "sharedrepository")
    if word is None or word in SHARED:
        return SHARED[word] if word is not None else disk.OWN
    try:
        mode = int(word, 8) & 0o666
    except ValueError:
        return disk.OWN
    return mode if len(word) > 2 and mode & disk.OWN == disk.OWN else disk.OWN


def put_note(root: str, path: str, content: bytes) -> None:
    """Write a small file that only saves work, in what this clone keeps of a project; nothing if that fails."""
    try:
        make_below(root, os.path.dirname(path), durable=False)
        disk.put(path, content, mode=disk.OWN, durable=False, locked=False)
    except OSError:
        pass  # the next one tries again


def make_below(root: str, folder: str, *, durable: bool = True) -> None:
    """Make a folder of what this clone keeps of a project; raises OSError, as where it is behind a link.

    Git's own directory is not made: a project renamed at this moment is not made again. The folders are their owner's
    alone, or shared as git's.
    """
    base = common_directory(root)
    if base is None:
        base = os.path.join(state_base(), "faber-ledger")
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
        except FileExistsError as error:
            if not os.path.isdir(folder):
                raise NotADirectoryError(
                    error.errno, "a file is in the folder's place: move it aside", folder
                ) from error
            continue  # another process has made it
        if file_mode(os.path.join(folder, "")) != disk.OWN:
            set_folder_mode(folder)
        if durable:
            disk.sync_directory(os.path.dirname(folder))


def missing_error(folder: str) -> FileNotFoundError:
    """Return the error for a folder that does not exist."""
    from errno import ENOENT  # rarely needed

    return FileNotFoundError(ENOENT, os.strerror(ENOENT), folder)


def set_folder_mode(folder: str) -> None:
    """Let those enter a folder of ours who may read the files in it; another user's folder stays as it is.

    In a shared repository it gets git's group, and what is made in it gets that group too.
    """
    mode = file_mode(os.path.join(folder, ""))
    is_shared = mode != disk.OWN
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
    if known := _keys.get(root):
        return known
    folder = clone_folder(root) or state_folder(root)
    path = os.path.join(folder, "key")
    if known := _read_key(path):
        _keys[root] = known
        return known
    try:
        make_below(root, folder, durable=False)
        write_once(path, os.urandom(KEY_BYTES), _read_key, at_most=0o660)
    except OSError:
        pass
    return _read_key(path)


_keys: dict[str, bytes] = {}  # read once: a start asks for each artifact


def write_once(
    path: str, content: bytes, read: Callable[[str], object], *, mode: int = disk.OWN, at_most: int | None = None
) -> None:
    """Write a file that the first of two processes makes; what `read` cannot read is replaced. Raises OSError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    disk.write(temporary, content, mode=mode, durable=False)
    if at_most is not None:
        os.chmod(temporary, os.stat(temporary).st_mode & at_most)
    try:
        os.link(temporary, path)
    except FileExistsError:
        if not read(path):
            os.replace(temporary, path)
    disk.remove(temporary)


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


# The runs in use: a line for each fact, the newest last, which begins with a run's id. This clone has recorded on that
# run. If a tab follows, a command has taken the run up here; after the tab is the branch on which `run start` or `run
# resume` named the run, or nothing.
USED_FILE = "used-runs"
MOST_BYTES = 1024 * 1024  # of the notes that are read, the newest


class UsedRuns:
    """The runs that a clone has used."""

    def __init__(self, lines: list[str]) -> None:
        """Take the file's lines."""
        self.recorded: dict[str, None] = {}  # in the order of their first use
        self.taken_up: set[str] = set()
        self.branches: dict[str, list[str]] = {}
        for line in lines:
            run_id, *fields = line.split("\t")
            self.recorded[run_id] = None
            if fields:
                self.taken_up.add(run_id)
            if fields and fields[0]:
                self.branches.setdefault(run_id, []).append(fields[0])


def read_used_runs(root: str) -> UsedRuns:
    """Return the runs that this clone has used; none if the file cannot be read."""
    try:
        found = os.lstat(os.path.join(private_folder(root), USED_FILE))
    except OSError:
        return UsedRuns([])
    version = found.st_ino, found.st_size, found.st_mtime_ns
    before, known = _used.get(root, (None, None))
    if known is None or version != before:
        known = UsedRuns(_read_lines(root))
        _used[root] = version, known
    return known


_used: dict[str, tuple[tuple[int, int, int], UsedRuns]] = {}  # as it was read last


def note_use(root: str, run_id: str, *, is_taken_up: bool = False, branch: str | None = None) -> None:
    """Note that this clone has recorded on a run; with `is_taken_up` or a `branch`, that it has taken the run up.

    A note that cannot be written is not worth an error: what was recorded is in the log.
    """
    lines = _read_lines(root)
    is_known = run_id in [line.partition("\t")[0] for line in lines]
    line = f"{run_id}\t{branch or ''}" if is_taken_up or branch else run_id
    if line in lines or (line == run_id and is_known):
        return
    folder = private_folder(root)
    try:
        make_below(root, folder, durable=False)
        append_line(os.path.join(folder, USED_FILE), line)
    except OSError:
        pass


def _read_lines(root: str) -> list[str]:
    try:
        with open(open_regular(os.path.join(private_folder(root), USED_FILE)), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
            return file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (FileRefused, OSError):
        return []
