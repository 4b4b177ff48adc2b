"""The inbox of a clone: each delivery about a run is a file from its hook's first act until its facts are in the log.

Its hook holds the file's lock as long as it lives, so whoever can take the lock may record the delivery. A file gets
its name when it is whole and locked. Files are not synced: a power cut may take the newest.
"""

from __future__ import annotations

import os
import time

from faber_ledger.ledger.clock import LATEST, is_event_id
from faber_ledger.ledger.disk import OWN, FileRefused, fcntl, is_hex_id, make_private, open_regular, remove
from faber_ledger.ledger.encoding import dumps, loads
from faber_ledger.ledger.event_types import ENVIRONMENT, EVENT_TYPES, has_required
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.clone import is_behind_link, make_private_folder
from faber_ledger.runs.run import inbox_path, quoted_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NotRequired, TypedDict, final

    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.recording.call import Checkout
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Seen(TypedDict):
        """What this clone knew of the client before the delivery; times are in seconds since 1970."""

        first_at: float
        last_at: float
        run_id: str | None

    @final
    class Arrival(TypedDict):
        """A hook call about a run, with everything that its facts need; it is what the inbox holds.

        `id` is the id of its first fact; the other ids, and the salts, derive from `salt`. `at` is in seconds since
        1970. `session_id` is for the session that the call may open. `word` is the client's source, trigger or reason.
        `summary` is the client's own, with its secrets; `has_summaries_in_git` says whether the log may hold it.
        `status`, `started_at` and `finished_at` are the run's. `checkout` is None outside git. `loads` are those of a
        start that was answered and not recorded. `by` is the agent, as `agent_of` returns it. The clone that records
        it is its writer: where the clone's folder cannot be written, a hook does not know the clone's id.
        """

        inbox: int
        id: str
        salt: str
        run_id: str
        hook: str
        at: float
        session_id: str
        client: str | None
        pid: str | None
        digest: str
        word: str | None
        agent_id: str | None
        summary: str
        has_summaries_in_git: bool
        environment: Environment
        checkout: Checkout | None
        progress: Snapshot
        status: str | None
        started_at: str | None
        finished_at: str | None
        seen: Seen | None
        loads: list[Draft] | None
        by: NotRequired[dict[str, str]]
        heard_at: NotRequired[float]  # of an end that may come long after the session's
        usage: NotRequired[list[dict[str, Any]]]  # events of what responses cost

    @final
    class LeftFacts(TypedDict):
        """Facts that a command decided where it could not record them; `id` is the first one's."""

        inbox: int
        id: str
        run_id: str
        at: float
        facts: list[Draft]


ENDING, UNFINISHED = ".json", ".tmp"
LARGEST = 16 * 1024 * 1024
ABANDONED_SECONDS = 3600
VERSION = 1
# A shape is a tuple of types, or the members of an object.
TEXT, OPTIONAL, TIME = (str,), (str, type(None)), (int, float)
CHECKOUT = {"has_run": (bool,), "branch": OPTIONAL, "uncommitted": (bool, type(None))}
PROGRESS = {"phase": OPTIONAL, "step": OPTIONAL, "phases_completed": (list,)}
SEEN = {"first_at": TIME, "last_at": TIME, "run_id": OPTIONAL}
ARRIVAL: dict[str, Any] = {
    "inbox": (int,),
    **dict.fromkeys(("id", "salt", "run_id", "hook", "session_id", "digest", "summary"), TEXT),
    **dict.fromkeys(("client", "pid", "word", "agent_id", "status", "started_at", "finished_at"), OPTIONAL),
    "at": (float,),
    "has_summaries_in_git": (bool,),
    "environment": dict.fromkeys(ENVIRONMENT, OPTIONAL),
    "progress": PROGRESS,
    "loads": (list, type(None)),
}
LEFT = {"inbox": (int,), "id": TEXT, "run_id": TEXT, "at": (float,), "facts": (list,)}
LOAD = {"event": (dict,), "client": OPTIONAL}
FACT = {**LOAD, "id": TEXT, "salt": TEXT}
OF_COMMANDS = frozenset(
    [
        *("session_started", "session_ended", "checkout_recorded", "note_recorded"),
        *("artifact_loaded", "artifact_failed", "artifact_skipped", "context_reloaded", "context_reconstituted"),
    ]
)


class Malformed(Exception):
    """A file in the inbox is not a delivery; the message says why."""


class InboxFile:
    """A delivery's file, whose lock this process holds until it is removed or the process ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def remove(self) -> None:
        """Remove the file."""
        remove(self.path)
        self.close()

    def replace(self, arrival: Arrival) -> None:
        """Write the file again, and leave it; raises OSError."""
        _put(os.path.dirname(self.path), arrival).close()
        self.close()

    def close(self) -> None:
        """Release the lock, and leave the file."""
        os.close(self.descriptor)

    def read(self) -> Arrival | LeftFacts:
        """Return the delivery, or what a command left; raises Malformed and OSError."""
        size = os.fstat(self.descriptor).st_size
        if size > LARGEST:
            raise Malformed(f"it is larger than {LARGEST:,} bytes")
        content = bytearray()
        while piece := os.read(self.descriptor, size + 1 - len(content)):
            content += piece
        try:
            found = loads(content.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"it is not JSON: {error}") from error
        if not (is_arrival(found) or is_left(found)):
            raise Malformed("it is not a delivery of this version")
        read: Arrival | LeftFacts = found
        return read


def put(run: Run, arrival: Arrival) -> tuple[Arrival, InboxFile]:
    """Write a delivery into the inbox, locked, and return it as written; raises OSError.

    Where the clone cannot be written, it goes into the project, without secrets.
    """
    folder = inbox_path(run)
    try:
        make_private_folder(run, folder, durable=False)
        return arrival, _put(folder, arrival)
    except OSError:
        without_secrets = masked(arrival)
        return without_secrets, put_in_tree(run, without_secrets)


def put_in_tree(run: Run, arrival: Arrival | LeftFacts) -> InboxFile:
    """Write what has no secrets into the project's folder that git ignores; raises OSError."""
    folder = inbox_in_tree(run)
    if is_behind_link(folder, run.root) or not os.path.isdir(os.path.join(run.root, ".fractary")):
        raise OSError(f"{folder} is behind a link, or its project is gone")
    os.makedirs(folder, 0o700, exist_ok=True)
    ignored = os.path.join(os.path.dirname(folder), ".gitignore")
    if not os.path.lexists(ignored):
        with open(ignored, "w", encoding="utf-8") as file:
            file.write("*\n")
    return _put(folder, arrival)


def _put(folder: str, arrival: Arrival | LeftFacts) -> InboxFile:
    path = os.path.join(folder, _name_of(arrival))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path + UNFINISHED, flags, OWN)
    try:
        _lock(descriptor)
        make_private(descriptor, path)
        left = memoryview(dumps(arrival).encode("utf-8", "surrogatepass"))
        while left:
            left = left[os.write(descriptor, left) :]
        os.rename(path + UNFINISHED, path)
    except BaseException:
        remove(path + UNFINISHED)
        os.close(descriptor)
        raise
    return InboxFile(path, descriptor)


def _name_of(arrival: Arrival | LeftFacts) -> str:
    """Return the name of a delivery's file; names sort by time of arrival and id."""
    return f"{int(arrival['at'] * 1_000_000):017d}-{arrival['id']}{ENDING}"


def list_waiting(run: Run) -> list[str]:
    """Return the paths of a run's deliveries that no living hook holds, in order of arrival."""
    found = list(take(run))
    for file in found:
        file.close()
    return [file.path for file in found]


def take(run: Run) -> Iterator[InboxFile]:
    """Yield a run's deliveries that no living hook holds, in order of arrival, each with its lock.

    Those in the project's own folder come last, and none that git tracks.
    """
    for path in _list_files(inbox_path(run)):
        if (file := _take(path)) is not None:
            yield file
    folder = inbox_in_tree(run)
    in_tree = _list_files(folder) if os.path.isdir(folder) and not is_behind_link(folder, run.root) else []
    if in_tree:
        from faber_ledger.runs.git import is_tracked  # only where the git directory could not be written

        for path in in_tree:
            if not is_tracked(path) and (file := _take(path)) is not None:
                yield file


def has_files(run: Run) -> bool:
    """Return whether a run has deliveries that are not recorded yet, whoever holds them."""
    for folder in (inbox_path(run), inbox_in_tree(run)):
        try:
            if os.path.isdir(folder) and os.listdir(folder):
                return True
        except OSError:
            continue  # it cannot be read
    return False


def _list_files(folder: str) -> list[str]:
    """Return the paths of a folder's deliveries; what a killed hook left of one an hour ago is removed."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        if name.endswith(UNFINISHED):
            _remove_abandoned(os.path.join(folder, name))
    return [os.path.join(folder, name) for name in names if name.endswith(ENDING)]


def _remove_abandoned(path: str) -> None:
    try:
        if abs(time.time() - os.lstat(path).st_mtime) > ABANDONED_SECONDS:
            os.unlink(path)
    except OSError:
        pass


def _take(path: str) -> InboxFile | None:
    """Open and lock a file; None if a living hook holds it, or has removed it meanwhile, or it is not a file."""
    try:
        descriptor = open_regular(path)
    except (OSError, FileRefused):
        return None
    try:
        _lock(descriptor, is_shared=True)
        if os.fstat(descriptor).st_nlink:
            return InboxFile(path, descriptor)
    except OSError:
        pass
    os.close(descriptor)
    return None


def _lock(descriptor: int, *, is_shared: bool = False) -> None:
    """Take a file's lock; raises BlockingIOError if another process has it.

    Where the file system has no locks, the file waits all the same: nothing can be recorded there either.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def masked(arrival: Arrival) -> Arrival:
    """Return an arrival without secrets in its texts."""
    from faber_ledger.recording.secrets.mask import clean_summary, mask_text

    word, summary = arrival["word"], arrival["summary"]
    return {**arrival, "word": mask_text(word) if word else word, "summary": clean_summary(summary) if summary else ""}


def is_arrival(found: Any) -> bool:
    """Return whether a value is what a hook of this version writes, so that it becomes only facts of a hook."""
    if not (type(found) is dict and {"checkout", "seen"} <= found.keys() and _has(found, ARRIVAL | _or_none(found))):
        return False
    return (
        found["inbox"] == VERSION
        and _is_time(found["at"])
        and found["hook"] in HOOKS
        and is_event_id(found["id"])
        and is_hex_id(found["salt"])
        and found["session_id"] != ""
        and all([type(phase) is str for phase in found["progress"]["phases_completed"]])
        and all([_is_fact(load, LOAD) for load in found["loads"] or []])
        and all([_is_usage(event) for event in found.get("usage", [])])
    )


def is_left(found: Any) -> bool:
    """Return whether a value is what a command of this version leaves, so that it becomes only facts of a command."""
    if not (_has(found, LEFT) and found["inbox"] == VERSION and is_event_id(found["id"]) and _is_time(found["at"])):
        return False
    facts = found["facts"]
    return all([_is_fact(fact, FACT) and is_event_id(fact["id"]) and is_hex_id(fact["salt"]) for fact in facts])


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= LATEST


def _is_fact(fact: Any, shape: dict[str, Any]) -> bool:
    if not _has(fact, shape):
        return False
    kind = fact["event"].get("type")
    return kind in OF_COMMANDS and has_required(kind, EVENT_TYPES[kind].version, fact["event"])


def _is_usage(event: Any) -> bool:
    kind = "usage_recorded"
    known = {"type", "session_id", *EVENT_TYPES[kind].redacted}
    is_one = type(event) is dict and event.keys() == known and event["type"] == kind
    return is_one and has_required(kind, EVENT_TYPES[kind].version, event)


def _or_none(found: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes of the members that are an object or null, and of those that may be left out."""
    shapes = {"checkout": CHECKOUT, "seen": SEEN}
    by: dict[str, Any] = {"by": dict.fromkeys(found["by"], TEXT)} if type(found.get("by")) is dict else {}
    by |= {name: (kind,) for name, kind in (("heard_at", float), ("usage", list)) if name in found}
    return by | {name: (type(None),) if found[name] is None else shape for name, shape in shapes.items()}


def _has(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return type(value) is dict and value.keys() == shape.keys() and all([_has(value[k], shape[k]) for k in shape])
    return type(value) in shape


def inbox_in_tree(run: Run) -> str:
    """Return where a run's deliveries are left if this clone's folder cannot be written (DECISIONS 58)."""
    return os.path.join(run.root, ".fractary", "inbox", quoted_form(run.run_id))
