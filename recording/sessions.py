"""Decide which facts are appended when a session starts or ends, from the log and the call alone.

The client's own session id is data, never a key: it survives compaction and resume, one run has many of them, and two
processes can share one.
"""

from __future__ import annotations

from faber_ledger.ledger.clock import event_id, seconds_of
from faber_ledger.ledger.disk import around
from faber_ledger.projections import fold
from faber_ledger.projections.fold import current_session, entry_of, open_sessions, session_history
from faber_ledger.recording.call import agent_of
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.progress import snapshot, text_of
from faber_ledger.runs.run import clone_folder, other_roots
from faber_ledger.runs.seen import SeenClient, client_here, hostname, is_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, TypedDict

    from faber_ledger.ledger.events import Delivery, Draft, Environment, Event, Recorded, SessionEnded, SessionStarted
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Caller(TypedDict):
        """Who asks for something to be recorded, where and when; `at` is in seconds since 1970, `by` the agent."""

        client: str | None
        pid: str | None
        writer: str
        at: float
        environment: Environment | None
        progress: Snapshot
        by: dict[str, str]

    Reason = Literal["compaction", "normal", "manual", "abandoned"]
    WhyIgnored = Literal["repeated", "subagent"]


UNKNOWN: Environment = {"hostname": None, "platform": None, "cwd": None, "git_commit": None}


def client_of(environ: Mapping[str, str]) -> str | None:
    """Return the client's id of the session that a command runs in; None outside a client."""
    return environ.get("CLAUDE_CODE_SESSION_ID") or None


def caller_of(
    environ: Mapping[str, str], state: dict[str, Any], at: float, writer: str, environment: Environment | None
) -> Caller:
    """Return who runs a command; inside a client, its variables name the client's session and process."""
    return {
        "client": client_of(environ),
        "pid": environ.get("CLAUDE_PID") or None,
        "writer": writer,
        "at": at,
        "environment": environment,
        "progress": snapshot(state),
        "by": agent_of(environ),
    }


class View:
    """What a log says, read piece by piece so that a hook pays only for what it needs."""

    def __init__(self, log: Log, blocks: Blocks) -> None:
        self.log = log
        self.blocks = blocks
        self.unanswered: set[str] = set()  # sessions whose starts' hooks were found dead, and had given nothing

    def unanswered_session(self, client: str | None) -> str | None:
        """Return a client's newest session if the hook of its start was found dead, else None."""
        newest = [session_of(start) for start in self.log.starts_of(client)[:1]]
        return newest[0] if newest and newest[0] in self.unanswered else None

    def last_delivery(self, client: str | None) -> tuple[Recorded, Delivery] | None:
        """Return a client's last recorded delivery among the newest events."""
        for recorded in self.log.newest_by(client):
            delivery = delivery_of(recorded["event"])
            if delivery is not None:
                return recorded, delivery
        return None

    def has_inferred_end(self, session_id: str, client: str | None) -> bool:
        """Return whether the newest end of a client's session was only inferred."""
        for recorded in self.log.newest_by(client):
            event = recorded["event"]
            if event["type"] == "session_ended" and event["session_id"] == session_id:
                return event["inferred"]
        return False

    def last_ended_by(self, client: str, writer: str) -> str | None:
        """Return the session that a client's last end in a clone was about, if it is among the newest events."""
        for recorded in self.log.newest_by(client):
            event = recorded["event"]
            if event["type"] == "session_ended" and "delivery" in event and recorded["writer"] == writer:
                return event["session_id"]
        return None


def delivery_of(event: Event) -> Delivery | None:
    """Return the hook call that a fact came from."""
    values: dict[str, object] = event  # type: ignore[assignment]  # a TypedDict is a dict; most facts lack the key
    found = values.get("delivery")
    return found if isinstance(found, dict) else None  # type: ignore[return-value]  # its writer gave it this shape


def ignore_delivery(caller: Caller, delivery: Delivery, reason: WhyIgnored) -> list[Draft]:
    """Return the fact that a delivery changed nothing."""
    return [{"event": {"type": "delivery_ignored", "reason": reason, "delivery": delivery}, "client": caller["client"]}]


def end_session(
    view: View,
    caller: Caller,
    session_id: str,
    reason: Reason,
    client_reason: str | None = None,
    *,
    delivery: Delivery | None = None,
    is_new: bool = False,
    is_inferred: bool = False,
) -> Draft:
    """Return the fact of a session's end; an `abandoned` one is always inferred, from what came next.

    If the session `is_new`, its start is recorded together with its end.
    """
    start = view.log.start_of(session_id)
    event: SessionEnded = {
        "type": "session_ended",
        "session_id": session_id,
        "reason": reason,
        "client_reason": client_reason,
        "inferred": is_inferred or reason == "abandoned",
        "phase": caller["progress"]["phase"],
        "step": caller["progress"]["step"],
        "phases_completed": caller["progress"]["phases_completed"],
    }
    is_known = not is_new and reason != "abandoned"
    if caller["environment"] is not None and is_known and lacks_environment(view, session_id):
        event["environment"] = caller["environment"]
    if start is None and not is_new:  # an older tool's: what is in context at its end was loaded in it (END, Step 4)
        loads = fold.artifacts_in_context(view.blocks)
        event["also_loaded"] = [name for load in loads if isinstance(name := load.get("artifact_id"), str)]
    if delivery is not None:
        event["delivery"] = delivery
        return {"event": event, "client": caller["client"]}
    return {"event": event, "client": start["client"] if start is not None else None}


def lacks_environment(view: View, session_id: str) -> bool:
    """Return whether a session's environment is incomplete; its end, or a load, replaces it (END, Step 4)."""
    return not fold.has_environment(entry_of(view.blocks, session_id) or {})


def open_session(
    view: View,
    caller: Caller,
    session_id: str,
    source: str,
    *,
    delivery: Delivery | None = None,
    inferred_at: float | None = None,
) -> list[Draft]:
    """Return the fact of a session's start, after the inferred end of every session that is still open.

    Whoever opens a session, its context is empty: nothing that an earlier one loaded may be skipped in it. Of a start
    that is inferred, at `inferred_at`, neither the run's progress nor the context at that moment is known.
    """
    is_inferred = inferred_at is not None
    event: SessionStarted = {
        "type": "session_started",
        "session_id": session_id,
        "source": source,
        "environment": caller["environment"] or UNKNOWN,
        "phase": None if is_inferred else caller["progress"]["phase"],
        "step": None if is_inferred else caller["progress"]["step"],
        "phases_completed": [] if is_inferred else caller["progress"]["phases_completed"],
        "empties_context": not is_inferred,
        "pid": caller["pid"],
    }
    if delivery is not None:
        event["delivery"] = delivery
    if "agent" in caller["by"]:
        event["agent"] = caller["by"]["agent"]
    if "agent_version" in caller["by"]:
        event["agent_version"] = caller["by"]["agent_version"]
    drafts = [end_session(view, caller, name, "abandoned") for name in open_sessions(view.blocks)]
    drafts.append({"event": event, "client": caller["client"]})
    if inferred_at is not None:
        for draft in drafts:
            draft["at"] = inferred_at
    return drafts


def is_own_session(view: View, caller: Caller) -> bool:
    """Return whether this very client process opened the open session."""
    current = current_session(view.blocks)
    start = view.log.start_of(current) if current else None
    if start is None or caller["client"] is None:
        return False
    is_of_client = (start["client"], start["writer"]) == (caller["client"], caller["writer"])
    return is_of_client and may_be_same(dict(start["event"]).get("pid"), caller["pid"])


def live_start(run: Run, view: View, client: str | None = None) -> Recorded | None:
    """Return the event that began the newest session that lives in this clone: of the `client` that asks, or of any.

    It may have been given up for lost on another machine, where nobody can know whether its client lives.
    """
    for entry in reversed([one for one in session_history(view.blocks) if fold.is_named(one)]):
        start, is_given_up = view.log.start_of(entry["session_id"]), entry.get("end_reason") == "abandoned"
        if start is None or (entry.get("ended_at") and not is_given_up) or client not in (None, start["client"]):
            continue
        lives = start["writer"] == known_writer(run.root) if client is not None else _may_live(run, start)
        if lives is False or (is_given_up and not (lives and view.log.starts_of(start["client"])[0] == start)):
            continue
        return start
    return None


def _may_live(run: Run, start: Recorded) -> bool | None:
    """Return whether the client of a session is at work on the run here; None if it may be."""
    seen = client_here(run.root, start)
    return is_alive(seen.pid) if seen is not None and seen.run_id in (None, run.run_id) else False


def session_to_load_into(view: View, caller: Caller, *, is_start: bool) -> str | None:
    """Return the session that a session-load goes on with; None if it opens one.

    A load that counts as a client's start (`is_start`) goes on only with this client process's own session. Any other
    goes on with the open session of this machine and clone unless it is another client's, and with the session of this
    client that ended for a compaction which has not come.
    """
    current = fold.newest_open(view.blocks)
    if current is not None and (is_own_session(view, caller) if is_start else is_continued(view, caller)):
        return current
    return None if is_start else uncompacted_session(view, caller)


def is_open_here(log: Log | None, known: Blocks, session_id: str, root: str) -> bool:
    """Return whether a session runs on this machine and in this clone; `log` is None if the run has none."""
    start = log.start_of(session_id) if log is not None else None
    if start is None or clone_folder(root) is None:  # then at most the machine is known
        return may_be_of_this_machine(known, session_id)
    return start["writer"] == known_writer(root) and may_be_of_this_machine(known, session_id)


def is_continued(view: View, caller: Caller) -> bool:
    """Return whether a session-load continues the open session: same machine, same clone, and no other client's."""
    current = fold.newest_open(view.blocks)
    if current is None or not may_be_of_this_machine(view.blocks, current):
        return False
    start = view.log.start_of(current)
    if start is None:
        return True
    return start["writer"] == caller["writer"] and may_be_same(start["client"], caller["client"])


def may_be_of_this_machine(known: Blocks, session_id: str) -> bool:
    """Return whether a session may be of this machine: that is all that is known of an older tool's session.

    Where not even that is known, a load goes on with it, since it must not end an open session on a guess, and the
    session gets this machine's environment.
    """
    machine = text_of((entry_of(known, session_id) or {}).get("environment"), "hostname")
    return machine in (None, hostname())


def uncompacted_session(view: View, caller: Caller) -> str | None:
    """Return this client's session that its last PreCompact ended, if no start and no compaction followed."""
    client = caller["client"]
    end = uncompacted_end(view.log, client, caller["writer"], caller["pid"]) if client is not None else None
    return session_of(end)


def uncompacted_end(log: Log, client: str | None, writer: str, pid: str | None = None) -> Recorded | None:
    """Return the end that a client's last PreCompact recorded in a clone, if no start and no compaction followed."""
    for recorded in log.newest_by(client):
        if recorded["writer"] != writer:
            continue
        event = recorded["event"]
        if event["type"] == "session_started":
            return None
        if event["type"] == "compaction_completed" and event["agent_id"] is None:
            return None
        if event["type"] == "session_ended":
            by = event.get("delivery")
            is_intent = by is not None and by["hook"] == "PreCompact" and may_be_same(by["pid"], pid)
            return recorded if is_intent else None
    return None


def session_of(recorded: Recorded | None) -> str | None:
    """Return the session that an event is about; None for one of the run, and for none."""
    found = dict(recorded["event"]).get("session_id") if recorded is not None else None
    return found if isinstance(found, str) else None


def may_be_same(one: object, other: object) -> bool:
    """Return whether two names may be of the same client, process or machine: None is an unknown one."""
    return one is None or other is None or one == other


NEWEST_SESSIONS = 8  # of a run, that are asked where they ran


def sessions_elsewhere(state: dict[str, Any], root: str) -> list[bool]:
    """Return for each of a run's newest sessions, newest first, whether it ran on another machine or in another clone.

    It looks at the state alone, since every start asks.
    """
    sessions = state.get("sessions")
    history = sessions.get("session_history") if isinstance(sessions, dict) else None
    newest = history[-NEWEST_SESSIONS:] if isinstance(history, list) else []
    return [_is_elsewhere(entry, root) for entry in reversed(newest)]


def _is_elsewhere(entry: object, root: str) -> bool:
    environment = entry.get("environment") if isinstance(entry, dict) else None
    if not isinstance(environment, dict):
        return False
    machine, cwd = environment.get("hostname"), environment.get("cwd")
    if isinstance(machine, str) and machine != hostname():
        return True
    return isinstance(cwd, str) and around(cwd, [root]) is None and around(cwd, other_roots(root)) is None


TIMESTAMP = 10  # characters, with which an event's id begins


def was_seen_at_work(seen: SeenClient | None, finished_at: str | None) -> bool:
    """Return whether a client was seen in this clone before a finished run was finished; not, if that is unknown."""
    at = seconds_of(finished_at)
    return seen is not None and at is not None and int(seen.first_at) <= at  # which is a whole second


def is_last_heard(recorded: Recorded, seen: SeenClient | None) -> bool:
    """Return whether a recorded delivery of a client is the last that was seen of it in this clone."""
    return seen is not None and recorded["id"][:TIMESTAMP] == event_id(seen.last_at, bytes(10))[:TIMESTAMP]


def infer_start(view: View, caller: Caller, seen: SeenClient | None, started_at: str | None) -> float:
    """Return when a client's session on this run must have begun, if no start of it came.

    The latest of: the client's first delivery here, the run's start, the end of the run's previous session. One that is
    still open has lasted at least until its own start.
    """
    moments = [seconds_of(started_at)]
    for entry in session_history(view.blocks):
        if isinstance(entry, dict):
            moments.append(seconds_of(entry.get("ended_at") or entry.get("started_at")))
    latest = max([moment for moment in moments if moment is not None], default=0.0)
    return min(caller["at"], max(latest, seen.first_at if seen is not None else caller["at"]))
