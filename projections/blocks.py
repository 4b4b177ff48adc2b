"""The two blocks of `state.json` that are folded from the log, and their shape (SPEC, State File Enhancement)."""

from __future__ import annotations

from faber_ledger.ledger.plain_json import encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Blocks: TypeAlias = dict[str, Any]
    Entry: TypeAlias = dict[str, Any]

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


def may_have_inferred_end(blocks: Blocks) -> bool:
    """Return whether the end of a session may be inferred: from what came next, or from the run's end."""
    reasons = ("abandoned", "normal")
    return any(is_named(entry) and entry.get("end_reason") in reasons for entry in session_history(blocks))


def has_ended_for_compaction(blocks: Blocks) -> bool:
    """Return whether a session ended for a compaction, and no later end has replaced that one."""
    return any(is_named(entry) and entry.get("end_reason") == "compaction" for entry in session_history(blocks))


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
