"""The projector: folds events into the two blocks of `state.json`, and reads these (SPEC, State File Enhancement).

Total, pure, and independent of how the log was written: any split of a history folds to the same bytes, because
nothing but the blocks themselves is carried from one event to the next.
"""

from __future__ import annotations

from faber_ledger.ledger.encoding import encoder, loads
from faber_ledger.ledger.event_types import ENVIRONMENT, is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from faber_ledger.ledger import events
    from faber_ledger.ledger.events import Recorded

    Blocks: TypeAlias = dict[str, Any]
    Entry: TypeAlias = dict[str, Any]


NOT_GIVEN = ("pointer", "deferred")
_encode_strictly = encoder(allow_nan=False)
FOLDED = frozenset(  # the types that change the blocks
    ["artifact_loaded", "session_started", "session_ended", "context_reloaded", "answer_lost", "run_adopted"]
)
PROJECTOR = 4  # raised whenever the same events fold to other blocks than before


def fold(events: Iterable[Recorded], blocks: Blocks | None = None) -> Blocks:
    """Fold events, in `(seq, id)` order, onto the blocks of those before them, which are changed in place."""
    return Projector(empty() if blocks is None else blocks).fold(events)


class Projector:
    """Blocks on which events are folded, with an index of the session history that is rebuilt from them."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.index: dict[str, Entry] = {}
        self.open: dict[str, None] = {}
        self._reindex()

    def fold(self, events: Iterable[Recorded]) -> Blocks:
        """Fold the events and return the blocks."""
        for recorded in events:
            self.apply(recorded)
        return self.blocks

    def apply(self, recorded: Recorded) -> None:
        """Fold one event; one of an unknown type or version changes nothing."""
        if not is_foldable(recorded):
            return
        event, at = recorded["event"], recorded["at"]
        if event["type"] == "artifact_loaded":
            self._load(event, at)
        elif event["type"] == "session_started":
            self._start(event, at)
        elif event["type"] == "session_ended":
            self._end(event, at)
        elif event["type"] == "context_reloaded":
            self._reload(event, at)
        elif event["type"] == "answer_lost":
            self._lose(event)
        elif event["type"] == "run_adopted":
            self._adopt(event, at)

    # What each fact does

    def _start(self, event: events.SessionStarted, at: str) -> None:
        sessions = self._sessions()
        entry = self.index.get(event["session_id"])
        if entry is None:
            entry = {
                "session_id": event["session_id"],
                "started_at": at,
                "phases_completed": [],
                "environment": _environment(event["environment"]),
                "artifacts_loaded": [],
            }
            self._add(entry)
        if not entry.get("ended_at"):
            sessions["current_session_id"] = event["session_id"]
        metadata = self._metadata()
        if event["empties_context"]:
            metadata["artifacts_in_context"] = []
        if event["source"] == "compact":
            detected = {"detected_at": at, "action_taken": "reload_critical_artifacts"}
            for name, value in (("phase", event.get("phase")), ("step", event.get("step"))):
                if isinstance(value, str):
                    detected[name] = value
            compactions = _list(metadata, "compaction_events")
            if detected not in compactions:  # copies of a clone may both have recorded a start
                compactions.append(detected)

    def _end(self, event: events.SessionEnded, at: str) -> None:
        entry = self._entry_to_change(event["session_id"], at)
        if entry is None:
            return
        if event["inferred"] and "delivery" not in event and entry.get("ended_at"):
            return  # a late end that the client sent says more than one that was inferred when the next session began
        if not isinstance(entry.get("started_at"), str):
            _put(entry, "started_at", last_reload(self.blocks) or at, after="session_id")
        _put(entry, "ended_at", at, after="started_at")
        entry["end_reason"] = event["reason"]
        entry["phases_completed"] = list(event["phases_completed"])
        _fill(entry, event.get("environment"))
        loaded = _list(entry, "artifacts_loaded")
        also = event.get("also_loaded")
        loaded.extend([name for name in also if name not in loaded] if isinstance(also, list) else [])
        self.open.pop(event["session_id"], None)
        sessions = self._sessions()
        if sessions.get("current_session_id") == event["session_id"]:
            sessions["current_session_id"] = next(reversed(self.open), None)

    def _load(self, event: events.ArtifactLoaded, at: str) -> None:
        """Note an artifact that the agent was given, whole or as an outline: any other it does not have."""
        if event.get("given") in NOT_GIVEN:
            return
        entry = self._entry_to_change(event["session_id"], at)
        if entry is None:
            return
        loaded, artifact_id = _list(entry, "artifacts_loaded"), event["artifact_id"]
        if artifact_id not in loaded:
            loaded.append(artifact_id)
            self._sessions()
        if not self._is_newest(event["session_id"]):
            return
        metadata = self._metadata()
        kept = [
            load
            for load in _list(metadata, "artifacts_in_context")
            if not (isinstance(load, dict) and load.get("artifact_id") == artifact_id)
        ]
        newest = {
            "artifact_id": artifact_id,
            "loaded_at": at,
            "load_trigger": event["trigger"],
            "source": event["source"],
            "size_bytes": event["size_bytes"],
        }
        metadata["artifacts_in_context"] = [*kept, newest]

    def _lose(self, event: events.AnswerLost) -> None:
        """Take away what was loaded for a session so far: its start was never answered."""
        entry = self.index.get(event["session_id"])
        if entry is None:
            return
        _list(entry, "artifacts_loaded").clear()
        if self._is_newest(event["session_id"]):
            self._metadata()["artifacts_in_context"] = []

    def _reload(self, event: events.ContextReloaded, at: str) -> None:
        entry = self._entry_to_change(event["session_id"], at)
        if entry is not None:
            _fill(entry, event.get("environment"))
        self._sessions()
        metadata = self._metadata()
        count = metadata.get("reload_count")
        metadata["reload_count"] = (count if isinstance(count, int) else 0) + 1
        _put(metadata, "last_artifact_reload", at, after=None)

    def _adopt(self, event: events.RunAdopted, at: str) -> None:
        adopted = _parse_adopted(event["blocks"])
        if adopted is None:
            return
        if self.blocks in ({}, empty()):
            self.blocks.clear()
            self.blocks.update(adopted)
            self._reindex()
            return
        for entry in session_history(adopted):
            if is_named(entry) and entry["session_id"] not in self.index:
                self._add(entry)
        current = current_session(adopted)
        if current is not None and current not in self.index and current != current_session(self.blocks):
            self._add(_entry_of_current(current, adopted, at))

    # The blocks, completed where an older tool left them incomplete

    def _reindex(self) -> None:
        self.index = {entry["session_id"]: entry for entry in session_history(self.blocks) if is_named(entry)}
        self.open = {name: None for name, entry in self.index.items() if not entry.get("ended_at")}

    def _sessions(self) -> dict[str, Any]:
        sessions = self.blocks.get("sessions")
        if not isinstance(sessions, dict):
            sessions = empty()["sessions"]
            _put(self.blocks, "sessions", sessions, after=None)
            self._reindex()
        history = _list(sessions, "session_history")
        sessions["total_sessions"] = len(history)
        return sessions

    def _metadata(self) -> dict[str, Any]:
        metadata = self.blocks.get("context_metadata")
        if not isinstance(metadata, dict):
            metadata = self.blocks["context_metadata"] = empty()["context_metadata"]
        return metadata

    def _add(self, entry: Entry) -> None:
        sessions = self._sessions()
        sessions["session_history"].append(entry)
        sessions["total_sessions"] = len(sessions["session_history"])
        self.index[entry["session_id"]] = entry
        if not entry.get("ended_at"):
            self.open[entry["session_id"]] = None

    def _entry_to_change(self, session_id: str, at: str) -> Entry | None:
        """Return a session's entry; a current session that the history lacks is added to it (END, Step 3)."""
        entry = self.index.get(session_id)
        if entry is None and session_id == current_session(self.blocks):
            entry = _entry_of_current(session_id, self.blocks, at)
            self._add(entry)
        return entry

    def _is_newest(self, session_id: str) -> bool:
        current = current_session(self.blocks)
        if current is not None:
            return current == session_id
        history = session_history(self.blocks)
        return bool(history) and isinstance(history[-1], dict) and history[-1].get("session_id") == session_id


def _parse_adopted(text: str) -> Blocks | None:
    """Parse adopted blocks; None for what state.json cannot hold, since no such file can have been adopted."""
    try:
        adopted = blocks_of(loads(text))
        if is_too_deep(adopted):
            return None
        _encode_strictly(adopted)
    except (ValueError, TypeError, RecursionError):
        return None
    return adopted


def _list(holder: dict[str, Any], name: str) -> list[Any]:
    found = holder.get(name)
    if not isinstance(found, list):
        found = holder[name] = []
    return found


def _entry_of_current(session_id: str, blocks: Blocks, at: str) -> Entry:
    """Make the entry of a current session that an older tool left out of the history (END, Step 3)."""
    return {
        "session_id": session_id,
        "started_at": last_reload(blocks) or at,
        "phases_completed": [],
        "artifacts_loaded": [],
    }


def last_reload(blocks: Blocks) -> str | None:
    """Return when artifacts were last reloaded; None without a time."""
    metadata = blocks.get("context_metadata")
    reloaded = metadata.get("last_artifact_reload") if isinstance(metadata, dict) else None
    return reloaded if isinstance(reloaded, str) and reloaded else None


def _put(holder: dict[str, Any], name: str, value: Any, *, after: str | None) -> None:
    """Set a member; a new one goes after `after`, else first, as the documents show it."""
    if name not in holder:
        members = list(holder.items())
        place = list(holder).index(after) + 1 if after in holder else 0
        members.insert(place, (name, value))
        holder.clear()
        holder.update(members)
    holder[name] = value


def _environment(environment: dict[str, Any] | events.Environment) -> dict[str, Any]:
    """Return an environment with its members in the documents' order, others last."""
    given = dict(environment)
    return {name: given[name] for name in ENVIRONMENT if name in given} | given


def _fill(entry: Entry, environment: Any) -> None:
    """Replace an entry's environment if it is incomplete (END, Step 4): what it has may be another machine's.

    Members that no environment of ours has stay.
    """
    if not isinstance(environment, dict) or has_environment(entry):
        return
    known = entry.get("environment")
    if isinstance(known, dict):
        known.update(_environment(environment))
    else:
        _put(entry, "environment", _environment(environment), after="phases_completed")


NAMES = ("sessions", "context_metadata")
_encode = encoder(separators=(",", ":"))
MAX_DEPTH = 200  # levels that every version of Python can write as well as read


def empty() -> Blocks:
    """Return the blocks of a run in which nothing has happened yet."""
    return {
        "sessions": {"current_session_id": None, "total_sessions": 0, "session_history": []},
        "context_metadata": {"reload_count": 0, "artifacts_in_context": []},
    }


def blocks_of(state: dict[str, Any]) -> Blocks:
    """Return the blocks that a state has; raises TypeError for a state that is not an object."""
    return {name: state[name] for name in NAMES if name in state}


def text_of(blocks: Blocks) -> str:
    """Write blocks as one line of JSON, keys in their order."""
    return _encode(blocks)


def session_history(blocks: Blocks) -> list[Any]:
    """Return the session history; an empty list where there is none."""
    sessions = blocks.get("sessions")
    history = sessions.get("session_history") if isinstance(sessions, dict) else None
    return history if isinstance(history, list) else []


def current_session(blocks: Blocks) -> str | None:
    """Return the id of the open session, or None."""
    sessions = blocks.get("sessions")
    current = sessions.get("current_session_id") if isinstance(sessions, dict) else None
    return current if isinstance(current, str) and current else None


def entry_of(blocks: Blocks, session_id: str) -> Entry | None:
    """Return a session's entry in the history, or None."""
    for entry in reversed(session_history(blocks)):
        if isinstance(entry, dict) and entry.get("session_id") == session_id:
            return entry
    return None


def is_named(entry: object) -> bool:
    """Return whether an entry of the history names its session; an older tool's may not."""
    return isinstance(entry, dict) and isinstance(entry.get("session_id"), str) and entry["session_id"] != ""


def open_sessions(blocks: Blocks) -> list[str]:
    """Return the sessions that have not ended, oldest first; the current one is among them."""
    found = [entry["session_id"] for entry in session_history(blocks) if is_named(entry) and not entry.get("ended_at")]
    current = current_session(blocks)
    return found if current is None or current in found else [*found, current]


def newest_open(blocks: Blocks) -> str | None:
    """Return the session that is open: the current one, else the newest of those that another tool left open."""
    return current_session(blocks) or next(reversed(open_sessions(blocks)), None)


def has_ended_for(blocks: Blocks, reasons: tuple[str, ...]) -> bool:
    """Return whether a session ended for one of these reasons, and no later end has replaced that one."""
    return any(is_named(entry) and entry.get("end_reason") in reasons for entry in session_history(blocks))


def has_environment(entry: Entry) -> bool:
    """Return whether a session's environment is complete; a `git_commit` of null is: it ran outside git."""
    known = entry.get("environment")
    if not isinstance(known, dict) or "git_commit" not in known:
        return False
    return all([known.get(name) is not None for name in ("hostname", "platform", "cwd")])


def artifacts_in_context(blocks: Blocks) -> list[Entry]:
    """Return the readable entries of the loads that are in context now."""
    metadata = blocks.get("context_metadata")
    loads = metadata.get("artifacts_in_context") if isinstance(metadata, dict) else None
    return [load for load in loads if isinstance(load, dict)] if isinstance(loads, list) else []


def is_too_deep(value: Any) -> bool:
    """Return whether a value is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
