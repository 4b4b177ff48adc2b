"""What this clone has seen of its clients: one small file per client session id, below the git directory.

It says since when a client is known here, and which run its newest session is on (DECISIONS 37). Nothing is kept
without git, or in a project that has no `.fractary` folder; and of each client for 30 days after its last delivery.
Whatever is read is checked: a git directory, too, can be a copy of somebody else's.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.plain_json import dumps, loads
from faber_ledger.runs.clone import clients_folder
from faber_ledger.runs.run import is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


KEPT_SECONDS = 30 * 24 * 3600
MAX_CLIENTS = 1000
MAX_BYTES = 32 * 1024
LATEST = 253_402_300_800  # the end of the year 9999
TEXT, TIME = (str,), (int, float)
# A member's name, the types of its value, and whether it may be null.
MEMBERS = (
    ("client", TEXT, False),
    ("pid", TEXT, True),
    ("first_at", TIME, False),
    ("last_at", TIME, False),
    ("run_id", TEXT, True),
    ("root", TEXT, True),
    ("session_at", TIME, True),
)


class SeenClient:
    """What this clone has seen of a client; times are in seconds since 1970.

    `pid` is its newest process that is known. `run_id` is the run of its newest session, `root` the project in the work
    tree that the session began in, and `session_at` its beginning; all None if it has had no session here.
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
    ) -> None:
        self.client = client
        self.pid = pid
        self.first_at = first_at
        self.last_at = last_at
        self.run_id = run_id
        self.root = root
        self.session_at = session_at


def seen_client(root: str, client: str | None) -> SeenClient | None:
    """Return what this clone has seen of a client so far; None if it is not known here."""
    path = _path(root, client)
    found = _read(path) if path is not None else None
    return found if found is not None and found.client == client else None


def note_delivery(
    root: str, client: str | None, pid: str | None, at: float, *, is_end: bool = False
) -> SeenClient | None:
    """Note that a client has made a delivery, and return what was known of it before.

    An end alone makes no client known: a client that only lists its plugins sends one, twice where the hooks are
    installed twice.
    """
    path = _path(root, client)
    if path is None or client is None:
        return None
    before = seen_client(root, client)
    if before is not None and at - before.last_at > KEPT_SECONDS:
        before = None
    if before is None and is_end:
        return None
    if before is None:
        _sweep(os.path.dirname(path), at)
    _write(path, _heard_of(before, client, pid, at))
    return before


def note_session(root: str, client: str | None, pid: str | None, run_id: str, at: float) -> None:
    """Note that a client's newest session is on a run, since `at`, in the work tree of `root`."""
    path = _path(root, client)
    if path is None or client is None:
        return
    noted = _heard_of(seen_client(root, client), client, pid, at)
    noted.run_id, noted.root, noted.session_at = run_id, os.path.abspath(root), at
    _write(path, noted)


def _heard_of(before: SeenClient | None, client: str, pid: str | None, at: float) -> SeenClient:
    """Return what is known of a client after a delivery of it, or a command in it."""
    if before is None:
        return SeenClient(client, pid, at, at)
    last_at = max(at, before.last_at)
    return SeenClient(
        client, pid or before.pid, before.first_at, last_at, before.run_id, before.root, before.session_at
    )


def client_of_process(root: str, pid: str | None) -> SeenClient | None:
    """Return the client of a process that had a session here, of several the one heard of last; None if there is none.

    A process gets a new client id with `/clear` and with a fork.
    """
    folder = clients_folder(root)
    if folder is None or pid is None:
        return None
    found = [_read(os.path.join(folder, name)) for name in _names(folder)]
    same = [one for one in found if one is not None and one.pid == pid and one.run_id is not None]
    return max(same, key=lambda one: one.last_at, default=None)


def _path(root: str, client: str | None) -> str | None:
    """Return the path of a client's file, whose name no client can choose; None where nothing is kept."""
    folder = clients_folder(root)
    if folder is None or not client or not os.path.isdir(os.path.join(root, ".fractary")):
        return None
    return os.path.join(folder, sha256(client.encode("utf-8", "surrogatepass")).hexdigest()[:32])


def _read(path: str) -> SeenClient | None:
    try:
        found = loads(read_regular(path, MAX_BYTES).decode("utf-8", "surrogatepass"))
    except (FileRefused, OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    if not all([name in found and _has(found[name], kinds, may) for name, kinds, may in MEMBERS]):
        return None
    run_id, root, session_at = found["run_id"], found["root"], found["session_at"]
    if run_id is None or root is None or session_at is None or not is_run_id(run_id):
        run_id = root = session_at = None
    return SeenClient(found["client"], found["pid"], found["first_at"], found["last_at"], run_id, root, session_at)


def _has(value: Any, kinds: tuple[type, ...], may_be_null: bool) -> bool:
    if value is None:
        return may_be_null
    return type(value) in kinds and (kinds == TEXT or 0 <= value < LATEST)


def _write(path: str, seen: SeenClient) -> None:
    """Write a client's file; one that cannot be written is not worth a message: the next delivery tries again."""
    folder = os.path.dirname(path)
    content = dumps({name: getattr(seen, name) for name, _, _ in MEMBERS}).encode("utf-8", "surrogatepass") + b"\n"
    try:
        for missing in (os.path.dirname(folder), folder):
            if not os.path.isdir(missing):
                os.mkdir(missing)  # not git's own directory: a project renamed at this moment is not made again
        if not os.path.islink(folder):
            whole_file.put(path, content, mode=0o600, durable=False, locked=False)
    except OSError:
        pass


def _sweep(folder: str, at: float) -> None:
    """Remove the files of clients that were last heard of 30 days ago, and the oldest where there are too many."""
    ages = sorted([(_changed_at(os.path.join(folder, name)), name) for name in _names(folder)])
    surplus = len(ages) - MAX_CLIENTS + 1
    for number, (changed_at, name) in enumerate(ages):
        if number < surplus or at - changed_at > KEPT_SECONDS:
            whole_file.remove(os.path.join(folder, name))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
