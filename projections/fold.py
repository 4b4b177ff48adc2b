"""The projector: folds a run's events into the blocks of `state.json`.

Total, pure, and independent of how the log was written: any split of a history folds to the same bytes, because
nothing but the blocks themselves is carried from one event to the next.
"""

from __future__ import annotations

from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.ledger.plain_json import encoder, loads
from faber_ledger.projections.blocks import (
    blocks_of,
    current_session,
    empty,
    has_environment,
    is_named,
    is_too_deep,
    session_history,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from faber_ledger.ledger.events import (
        AnswerLost,
        ArtifactLoaded,
        ContextReloaded,
        Environment,
        Recorded,
        RunAdopted,
        SessionEnded,
        SessionStarted,
    )
    from faber_ledger.projections.blocks import Blocks, Entry

NOT_GIVEN = ("pointer", "deferred")
_encode = encoder(allow_nan=False)
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

    def _start(self, event: SessionStarted, at: str) -> None:
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

    def _end(self, event: SessionEnded, at: str) -> None:
        entry = self._entry_to_change(event["session_id"], at)
        if entry is None:
            return
        if event["inferred"] and entry.get("ended_at"):
            return
        if not isinstance(entry.get("started_at"), str):
            _put(entry, "started_at", _last_reload(self.blocks) or at, after="session_id")
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

    def _load(self, event: ArtifactLoaded, at: str) -> None:
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
        kept.append(
            {
                "artifact_id": artifact_id,
                "loaded_at": at,
                "load_trigger": event["trigger"],
                "source": event["source"],
                "size_bytes": event["size_bytes"],
            }
        )
        metadata["artifacts_in_context"] = kept

    def _lose(self, event: AnswerLost) -> None:
        """Take away what was loaded for a session so far: its start was never answered."""
        entry = self.index.get(event["session_id"])
        if entry is None:
            return
        _list(entry, "artifacts_loaded").clear()
        if self._is_newest(event["session_id"]):
            self._metadata()["artifacts_in_context"] = []

    def _reload(self, event: ContextReloaded, at: str) -> None:
        entry = self._entry_to_change(event["session_id"], at)
        if entry is not None:
            _fill(entry, event.get("environment"))
        self._sessions()
        metadata = self._metadata()
        count = metadata.get("reload_count")
        metadata["reload_count"] = (count if isinstance(count, int) else 0) + 1
        _put(metadata, "last_artifact_reload", at, after=None)

    def _adopt(self, event: RunAdopted, at: str) -> None:
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
        _encode(adopted)
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
        "started_at": _last_reload(blocks) or at,
        "phases_completed": [],
        "artifacts_loaded": [],
    }


def _last_reload(blocks: Blocks) -> str | None:
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


def _environment(environment: dict[str, Any] | Environment) -> dict[str, Any]:
    """Return an environment with its members in the documents' order, others last."""
    given = dict(environment)
    return {name: given[name] for name in ("hostname", "platform", "cwd", "git_commit") if name in given} | given


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
