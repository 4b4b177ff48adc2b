"""What the sessions of a run were, made from the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

from faber_ledger.ledger.event_types import REDACTED
from faber_ledger.projections.fold import session_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Event, Recorded
    from faber_ledger.projections.fold import Blocks


class SessionSummary(TypedDict):
    """A session; `newly_completed` are the phases that it completed, and not one that ended before it.

    `worked_in` are the other phases in which it used tokens; of an abandoned one, also the last that it named. `agent`
    and `agent_version` are the client's; null if no start in the log names them. `last_event_at` is when the session
    itself was heard of last, null if that was not noted: all that is known of when an abandoned one ended.
    """

    session_id: str
    agent: str | None
    agent_version: str | None
    hostname: str | None
    platform: str | None
    started_at: str | None
    last_event_at: str | None
    ended_at: str | None
    end_reason: str | None
    worked_in: list[str]
    newly_completed: list[str]
    artifacts_loaded: list[str]


ABANDONED = "abandoned"  # the reason of an end that was inferred when another session started


def is_heard(event: Event) -> bool:
    """Return whether an event says that its session was heard of: others infer its end, and count its cost later."""
    return event["type"] != "usage_recorded" and not (event["type"] == "session_ended" and event.get("inferred"))


class SessionFacts:
    """What the events that were noted say of each session: its agent, when it was heard of last, and what was done."""

    def __init__(self, events: Iterable[Recorded] = ()) -> None:
        self._of: dict[str, tuple[str | None, str | None]] = {}
        self.last_event_at: dict[str, str] = {}
        self.done_before: dict[str, list[str]] = {}  # the phases that were completed when it began
        self.phases_used: dict[str, dict[str, None]] = {}  # in which it used tokens
        self.last_phase: dict[str, str] = {}
        for recorded in events:
            self.note(recorded)

    def note(self, recorded: Recorded) -> None:
        """Note what an event says: a session's agent, when it was heard of, and in which phases it was."""
        event = recorded["event"]
        if is_heard(event):
            self.last_event_at[str(event.get("session_id"))] = recorded["at"]
            if isinstance(phase := event.get("phase"), str):
                self.last_phase[str(event.get("session_id"))] = phase
        if event["type"] == "usage_recorded" and isinstance(phase := event.get("in_phase"), str):
            self.phases_used.setdefault(str(event.get("session_id")), {})[phase] = None
        if event["type"] == "session_started":
            name, version = event.get("agent"), event.get("agent_version")
            known = name if isinstance(name, str) else None, version if isinstance(version, str) else None
            self._of[str(event.get("session_id"))] = known
            self.done_before[str(event.get("session_id"))] = _texts(event.get("phases_completed"))

    def phases_of(self, session_id: str, *, is_abandoned: bool) -> list[str]:
        """Return the phases in which a session used tokens; of one whose tokens may be unknown, also its last one."""
        last = self.last_phase.get(session_id, "")
        is_new = is_abandoned and last and last not in self.done_before.get(session_id, ())
        return [*(self.phases_used.get(session_id, {}) | ({last: None} if is_new else {}))]

    def find(self, session_id: str | None) -> tuple[str | None, str | None]:
        """Return a session's agent and its version."""
        return self._of.get(session_id or "", (None, None))


def agent_shown(agent: str | None, version: str | None = None) -> str:
    """Return an agent for people, as `codex 0.169.0`; `-` for none."""
    return " ".join(filter(None, [agent, version])) or "-"


def summarize_sessions(blocks: Blocks, facts: SessionFacts | None = None) -> Iterator[SessionSummary]:
    """Yield the sessions of a run, oldest first, without entries that an older tool left unreadable."""
    history = [entry for entry in session_history(blocks) if isinstance(entry, dict)]
    noted = facts or SessionFacts()
    by_end = sorted(history, key=lambda one: (not one.get("ended_at"), str(one.get("ended_at"))))
    ended = [(phase, entry) for entry in by_end for phase in _texts(entry.get("phases_completed"))]
    during = [one for one in ended if one[0] not in noted.done_before.get(str(one[1].get("session_id")), ())]
    first: dict[str, int] = {}  # which session's end said first that a phase is completed
    for phase, entry in [*during, *ended]:  # what was done before every session is the first one's
        first.setdefault(phase, id(entry))
    for entry in sorted(history, key=lambda one: str(one.get("started_at") or "")):
        environment = entry.get("environment")
        where = environment if isinstance(environment, dict) else {}
        completed = _texts(entry.get("phases_completed"))
        session_id = str(entry.get("session_id"))
        agent, version = noted.find(session_id)
        completed_first = [phase for phase in completed if first[phase] == id(entry)]
        phases = noted.phases_of(session_id, is_abandoned=entry.get("end_reason") == ABANDONED)
        yield {
            "session_id": session_id,
            "agent": agent,
            "agent_version": version,
            "hostname": where.get("hostname"),
            "platform": where.get("platform"),
            "started_at": entry.get("started_at"),
            "last_event_at": noted.last_event_at.get(session_id),
            "ended_at": entry.get("ended_at"),
            "end_reason": entry.get("end_reason"),
            "worked_in": [phase for phase in phases if phase not in completed_first],
            "newly_completed": completed_first,
            "artifacts_loaded": _texts(entry.get("artifacts_loaded")),
        }


def machines_of(sessions: Iterable[SessionSummary]) -> list[str]:
    """Return the machine of each session that names one."""
    names = [session["hostname"] for session in sessions]
    return [name for name in names if isinstance(name, str) and name != REDACTED]


def count_compactions(sessions: Iterable[SessionSummary]) -> int:
    """Return how many sessions ended for a compaction."""
    return sum([session["end_reason"] == "compaction" for session in sessions])


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
