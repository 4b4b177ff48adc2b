"""What this clone has seen, in small private files: of its clients, and of a run's files in its work trees.

A client has two files for its session id, below the git directory. One says since when it is known here, the other
which run its newest session is on (DECISIONS 37). They are two because each is replaced whole, without a lock: a
delivery cannot undo what another one says of the session. Nothing is kept without git, nor in a project that has no
`.fractary` folder; and of each client for 30 days after its last delivery. Whatever is read is checked: a git
directory, too, can be a copy of somebody else's, with links in it.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, is_hex_id, read_regular
from faber_ledger.ledger.encoding import dumps, loads, sha256
from faber_ledger.runs.clone import is_behind_link, known_writer, put_note
from faber_ledger.runs.layouts import tree_name
from faber_ledger.runs.run import common_directory, is_run_id, other_roots, project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Checkpoint
    from faber_ledger.runs.run import Run


KEPT_SECONDS = 30 * 24 * 3600
MAX_BYTES = 32 * 1024
LATEST = 253_402_300_800  # the end of the year 9999
TEXT, TIME = (str,), (int, float)
# A member's name, the types of its value, and whether it may be null.
HEARD = (
    ("client", TEXT, False),
    ("pid", TEXT, True),
    ("first_at", TIME, False),
    ("last_at", TIME, False),
    ("transcript", TEXT, True),
)
SESSION = (("client", TEXT, False), ("run_id", TEXT, False), ("root", TEXT, False), ("session_at", TIME, False))
SESSION_ENDING = ".session"  # of the second file's name
DUE_ENDING = ".due"  # of the file of a client whose next prompt is a start
DUE = (("source", TEXT, False),)


class SeenClient:
    """What this clone has seen of a client; times are in seconds since 1970.

    `pid` is its newest process that is known. `run_id` is the run of its newest session, `root` the project in the work
    tree of this clone that the session began in, and `session_at` when the client came to that run; all None if it has
    had no session here. `transcript` is the file into which the client writes its conversation.
    """

    def __init__(
        self,
        client: str,
        pid: str | None,
        first_at: float,
        last_at: float,
        run_id: str | None = None,
        root: str | None = None,
        session_at: float | None = None,
        transcript: str | None = None,
    ) -> None:
        self.client = client
        self.pid = pid
        self.first_at = first_at
        self.last_at = last_at
        self.run_id = run_id
        self.root = root
        self.session_at = session_at
        self.transcript = transcript

    def heard_at(self) -> float:
        """Return when the client was heard of last, by a delivery or a change of its transcript."""
        return max(self.last_at, changed_at(self.transcript) or 0.0)


def seen_client(root: str, client: str | None) -> SeenClient | None:
    """Return what this clone has seen of a client so far; None if it is not known here."""
    path = client_path(root, client)
    if path is None:
        return None
    heard = _read(path, HEARD)
    if heard is None or heard["client"] != client:
        return None
    session = _read(path + SESSION_ENDING, SESSION)
    if session is None or session["client"] != client or not is_run_id(session["run_id"]):
        return SeenClient(**heard)
    return SeenClient(**{**heard, **session, "root": _root_here(root, session["root"])})


def note_delivery(
    root: str, client: str | None, pid: str | None, at: float, transcript: str | None = None, *, is_end: bool = False
) -> SeenClient | None:
    """Note that a client has made a delivery, and return what was known of it before.

    An end alone makes no client known: a client that only lists its plugins sends one, twice where the hooks are
    installed twice.
    """
    path = client_path(root, client)
    if path is None or client is None:
        return None
    before = seen_client(root, client)
    if before is not None and at - before.last_at > KEPT_SECONDS:
        disk.remove(path + SESSION_ENDING)
        before = None
    if before is None and is_end:
        return None
    if before is None:
        _sweep(os.path.dirname(path), at)
    _write_heard(root, path, before, client, pid, at, transcript)
    return before


def note_session(root: str, client: str | None, pid: str | None, run_id: str, at: float) -> None:
    """Note that a client's newest session is on a run, since `at`, in the work tree of `root`."""
    path = client_path(root, client)
    if path is None or client is None:
        return
    before = seen_client(root, client)
    if before is None or before.last_at < at or pid not in (None, before.pid):  # else its delivery was just noted
        _write_heard(root, path, before, client, pid, at, None)
    session = {"client": client, "run_id": run_id, "root": os.path.abspath(root), "session_at": at}
    _write(root, path + SESSION_ENDING, session)


def hostname() -> str:
    """Return this machine's name, or `FABER_LEDGER_HOSTNAME` where the real one must not be recorded."""
    given = os.environ.get("FABER_LEDGER_HOSTNAME") or os.environ.get("COMPUTERNAME", "")
    return given or (os.uname().nodename if hasattr(os, "uname") else "")


def client_here(root: str, start: Recorded | None) -> SeenClient | None:
    """Return what is known of a session's client by the event that began it, if that was in this clone and machine."""
    if start is None or start["writer"] != known_writer(root):
        return None
    return seen_client(root, start["client"]) if machine_of(start) in (None, hostname()) else None


def machine_of(start: Recorded | None) -> str | None:
    """Return the machine on which a session began; None if the event does not say it."""
    environment = dict(start["event"]).get("environment") if start is not None else None
    machine = environment.get("hostname") if isinstance(environment, dict) else None
    return machine if isinstance(machine, str) else None


def is_alive(pid: str | None) -> bool | None:
    """Return whether a process of this user lives; None if its id is not known."""
    if not (pid and pid.isascii() and pid.isdecimal() and 0 < int(pid[:10]) < 2**31):
        return None
    try:
        os.kill(int(pid), 0)
    except OSError:
        return False
    return True


def client_of_process(root: str, pid: str | None, client: str | None) -> SeenClient | None:
    """Return which other client than `client` a process was when it was heard of last; None if that is not known.

    A process gets a new client id with `/clear` and with a fork. A process id is used again: an older client of it may
    have been another process.
    """
    folder = _folder(root)
    if folder is None or pid is None:
        return None
    found = [_read(os.path.join(folder, name), HEARD) for name in names_in(folder) if is_hex_id(name)]
    same = [one for one in found if one is not None and one["pid"] == pid and one["client"] != client]
    newest = max(same, key=lambda one: one["last_at"], default=None)
    return seen_client(root, newest["client"]) if newest is not None else None


def _folder(root: str) -> str | None:
    """Return the folder of the files; None without git, and if a link is in its place."""
    folder, base = f"{project_folder(root)}/clients", common_directory(root)
    return None if base is None or is_behind_link(folder, base) else folder


def client_path(root: str, client: str | None) -> str | None:
    """Return the path of a client's first file, whose name no client can choose; None where nothing is kept."""
    folder = _folder(root)
    if folder is None or not client or not os.path.isdir(os.path.join(root, ".fractary")):
        return None
    return os.path.join(folder, _name_of(client))


def _name_of(client: str) -> str:
    return sha256(client.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _root_here(root: str, noted: str) -> str:
    """Return the project in the work tree that is noted; the one of `root` if this clone has no such work tree.

    The clone may have been copied or moved, and the work tree removed.
    """
    if noted == root:
        return root
    real = os.path.realpath(noted)
    return next((other for other in other_roots(root) if os.path.realpath(other) == real), root)


def _read(path: str, members: tuple[tuple[str, tuple[type, ...], bool], ...]) -> dict[str, Any] | None:
    try:
        found = loads(read_regular(path, MAX_BYTES).decode("utf-8", "surrogatepass"))
    except (FileRefused, OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    values = {name: found.get(name) for name, _, _ in members}
    for name, kinds, may_be_null in members:
        value = values[name]
        is_right = may_be_null if value is None else type(value) in kinds and (kinds == TEXT or 0 <= value < LATEST)
        if not is_right:
            return None
    return values


def _write_heard(
    root: str, path: str, before: SeenClient | None, client: str, pid: str | None, at: float, transcript: str | None
) -> None:
    """Write what is known of a client after a delivery of it, or a command in it."""
    first_at, last_at = (at, at) if before is None else (before.first_at, max(at, before.last_at))
    pid = pid if pid or before is None else before.pid
    transcript = transcript if transcript or before is None else before.transcript
    heard = {"client": client, "pid": pid, "first_at": first_at, "last_at": last_at, "transcript": transcript}
    _write(root, path, heard)


def _write(root: str, path: str, members: dict[str, Any]) -> None:
    """Write a client's file; one that cannot be written is not worth a message: the next delivery tries again."""
    put_note(root, path, dumps(members).encode("utf-8", "surrogatepass") + b"\n")


def _sweep(folder: str, at: float) -> None:
    """Remove the files of clients that were written 30 days ago."""
    for name in names_in(folder):
        path = os.path.join(folder, name)
        at_last = changed_at(path)
        if at_last is not None and at - at_last > KEPT_SECONDS:
            disk.remove(path)


def names_in(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def is_of_session(path: str, client: str) -> bool:
    """Return whether a client names its transcript, or the folder of it, after a session."""
    return client in path or os.path.splitext(path)[0].endswith(f"-{client[:8]}")


def changed_at(path: str | None) -> float | None:
    """Return when a regular file was changed; None for anything else."""
    try:
        status = os.lstat(path or "")
    except (OSError, ValueError):
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None


# Which clients wait for their packet: those that send no start after a compaction, or take none with their start


def note_due(root: str, client: str | None, source: str) -> None:
    """Note that a client's next prompt is a start with this source; where that fails, it has no packet until a start.

    Of a compaction that a client announces nothing else may be heard.
    """
    path = client_path(root, client)
    if path is not None:
        _write(root, path + DUE_ENDING, {"source": source})


def take_due(root: str, client: str | None) -> str | None:
    """Return the source of the start that a client's prompt is, and forget it; None for none.

    Of two calls at the same time, one gets it.
    """
    path = client_path(root, client)
    found = _read(path + DUE_ENDING, DUE) if path is not None else None
    if path is None or found is None:
        return None
    try:
        os.unlink(path + DUE_ENDING)
    except OSError:
        return None
    source: str = found["source"]
    return source


# Work trees: what each last published or absorbed of a run


LARGEST = 4 * 1024 * 1024  # bytes; a log of many clones has many heads
PREFIX, ENDING = "tree-", ".json"
NEWER, FOREIGN = "newer", "foreign"  # a file that is never published over


class Note:
    """A note as a JSON object: its members are the attributes that the class annotates, with what each is at first.

    One that cannot be written, or is lost or wrong, costs a comparison: a member of another type is as at first, which
    for a list is None or empty.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            found = loads(read_regular(path, LARGEST).decode())
        except (FileRefused, OSError, ValueError, RecursionError):
            return
        for name in type(self).__annotations__ if isinstance(found, dict) else ():
            first, value = getattr(self, name), found.get(name)
            if isinstance(value, type(first) if isinstance(first, (str, int, float)) else list):
                setattr(self, name, value)

    def save(self, *, durable: bool = False) -> None:
        """Write the note; raises OSError only where it must be `durable`."""
        content = dumps({name: getattr(self, name) for name in type(self).__annotations__})
        try:
            disk.put(self.path, content.encode(), mode=disk.OWN, durable=durable, locked=False)
        except OSError:
            if durable:
                raise


class TreeNote(Note):
    """The note of one work tree; without a readable one nothing is known.

    `shape` tells the published file as it was last seen here (inode, size, times), None if there was none. `heads` are
    those of the log that it holds completely, empty if it lacks something; `published` are those that this work tree
    published last, whatever git has done to the file since. `barred` says why it is never published over.
    `unmerged_at` names the commits of the remote's default branch and HEAD at which the run was not merged.
    `checkpoint` says which log the blocks in `state.json` were folded from, and their digest.
    """

    shape: list[int] | None = None
    heads: str = ""
    published: str = ""
    barred: str = ""
    unmerged_at: str = ""
    checkpoint: Checkpoint | None = None

    def __init__(self, run: Run) -> None:
        name = f"{PREFIX}{tree_name(run)}{ENDING}"
        super().__init__(os.path.join(run.private_folder, name))


def forget_checkpoints(run: Run) -> None:
    """Forget what all work trees show of a run: a payload has come back, which changes no head."""
    try:
        names = os.listdir(run.private_folder)
    except OSError:
        return
    for name in names:
        if name.startswith(PREFIX) and name.endswith(ENDING):
            disk.remove(os.path.join(run.private_folder, name))


def shape_of(file: int | str) -> list[int] | None:
    """Return the inode, size and times of a file, open or by its path; None if there is none."""
    try:
        found = os.stat(file, follow_symlinks=False) if isinstance(file, str) else os.fstat(file)
    except OSError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
