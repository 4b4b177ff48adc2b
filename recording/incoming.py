"""A hook call about a run: what is known when it arrives, and the facts that it becomes, at once or later.

`arrival_of` gathers everything before the run is locked. `facts_of` decides from an arrival and a view of the log
alone, whoever records the delivery and whenever. The delivery decides the first letters of the facts' ids, and the
log's heads the others: copies of a clone may each record what waited when the clone was copied, at different positions.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import clock
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import sha256
from faber_ledger.projections.fold import current_session, has_ended_for, open_sessions
from faber_ledger.recording import sessions
from faber_ledger.recording.call import agent_of, checkout_after, checkout_at_start, read_environment
from faber_ledger.recording.inbox import VERSION
from faber_ledger.recording.sessions import infer_start, is_last_heard, was_seen_at_work
from faber_ledger.runs import progress
from faber_ledger.runs.clone import keyed_digest
from faber_ledger.runs.seen import SeenClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import CompactionCompleted, Delivery, Draft, Recorded
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.inbox import Arrival
    from faber_ledger.recording.sessions import Caller, Reason, View
    from faber_ledger.runs.run import Run


ENDS = ("PreCompact", "SessionEnd")
WORDS = {"SessionStart": "source", "PreCompact": "trigger", "PostCompact": "trigger", "SessionEnd": "reason"}
LONGEST_SUMMARY = 64 * 1024  # characters: a longer one is masked and shortened before it is written anywhere
INFERRED = ("compaction", "abandoned", "normal")  # the ends of a session after which it may have gone on
LATE_SECONDS = 60  # after which an end says nothing of when a session ended
NO_SESSION = "has no session on"
DECIDED_LETTERS = 18  # the first of an id, which the delivery decides: its time, and 40 random bits


class Decided:
    """What becomes of a delivery.

    `is_repeated` says whether it repeats a recorded one, `has_moved` whether the client is on this run from now on,
    `is_unheard_of` that its client has no session here: one that only lists its plugins sends such a call. `summary` is
    to be kept in this clone alone.
    """

    def __init__(
        self,
        facts: list[Draft] | None = None,
        *,
        is_repeated: bool = False,
        has_moved: bool = False,
        is_unheard_of: bool = False,
    ) -> None:
        self.facts = facts or []
        self.is_repeated = is_repeated
        self.has_moved = has_moved
        self.is_unheard_of = is_unheard_of
        self.summary = ""


def arrival_of(
    call: Call, run: Run, at: float, state: dict[str, Any], seen: SeenClient | None, *, has_summaries_in_git: bool
) -> Arrival:
    """Gather what the facts of a call need, from files alone; `seen` is what this clone knew of its client before."""
    summary = call.compact_summary if call.hook == "PostCompact" and call.text("agent_id") is None else ""
    if len(summary) > LONGEST_SUMMARY:
        from faber_ledger.recording.secrets.mask import clean_summary

        summary = clean_summary(summary)
    arrival: Arrival = {
        "inbox": VERSION,
        "id": clock.event_id(at, os.urandom(10)),
        "salt": os.urandom(16).hex(),
        "run_id": run.run_id,
        "hook": call.hook,
        "at": at,
        "session_id": clock.session_id(at, os.urandom(6)),
        "client": call.client,
        "pid": call.pid,
        "digest": keyed_digest(run.root, call.sha256),
        "word": call.text(WORDS[call.hook]),
        "agent_id": call.text("agent_id"),
        "by": agent_of(os.environ),
        "summary": summary,
        "has_summaries_in_git": has_summaries_in_git,
        "environment": read_environment(run.root, call.text("cwd")),
        "checkout": checkout_at_start(run),
        "progress": progress.snapshot(state),
        "status": progress.text_of(state, "status"),
        "started_at": progress.text_of(state, "started_at"),
        "finished_at": progress.finished_at(state),
        "seen": None if seen is None else {"first_at": seen.first_at, "last_at": seen.last_at, "run_id": seen.run_id},
        "loads": None,
    }
    if (heard_at := call.heard_at()) is not None:
        arrival["heard_at"] = heard_at
    return arrival


def facts_of(arrival: Arrival, view: View, writer: str, loads: list[Draft] | None = None) -> Decided:
    """Decide which facts are appended for a delivery, in the clone `writer`.

    `loads` are those of the artifacts that its living hook is about to give; None if somebody else records it. The
    facts have the same ids and salts whoever records it after the same events: they are the same down to their hashes.
    """
    loads = arrival["loads"] if loads is None else loads
    known = find_recorded(arrival["id"], view)
    if known is not None:
        decided = _facts_after_first(arrival, view, loads)
        decided.is_repeated = known["event"].get("reason") == "repeated"
        return decided
    caller = _caller_of(arrival, writer)
    delivery: Delivery = {"hook": arrival["hook"], "digest": arrival["digest"], "pid": arrival["pid"]}
    is_repeated = is_repeat(view, caller, delivery) or _is_second_start(arrival, view, caller)
    if changes_nothing(arrival, view.blocks):
        return Decided(is_repeated=is_repeated)
    if is_repeated and is_finished(arrival) and not open_sessions(view.blocks):
        return Decided(is_repeated=True)
    if is_repeated:
        facts = sessions.ignore_delivery(caller, delivery, "repeated")
        unanswered = view.unanswered_session(caller["client"]) if arrival["hook"] == "SessionStart" else None
        if unanswered is not None:  # this hook answers for the one that died, in its session
            given = _with_ids(arrival, view, [_of_session(load, unanswered) for load in loads or []], "load")
            return Decided([*_with_ids(arrival, view, facts), *given], has_moved=True)
        if arrival.get("by", {}).get("agent", "claude") != "claude":
            facts = []  # other agents send an end up to three times, or run two files of hooks: nothing to tell anybody
        decided = Decided(facts, is_repeated=True, has_moved=arrival["hook"] in ENDS and _is_new_here(arrival))
    elif arrival["agent_id"] is not None and arrival["hook"] != "PostCompact":
        decided = Decided(sessions.ignore_delivery(caller, delivery, "subagent"))
    elif arrival["hook"] == "SessionStart":
        source = arrival["word"] or "unknown"
        opening = sessions.open_session(view, caller, arrival["session_id"], source, delivery=delivery)
        facts = [*opening, *checkout_after(opening[-1], arrival["checkout"])]
        given = _with_ids(arrival, view, loads or [], "load")
        return Decided([*_with_ids(arrival, view, facts), *given], has_moved=True)
    elif arrival["hook"] == "PostCompact":
        decided = _compaction(arrival, view, caller, delivery)
    else:
        decided = _end(arrival, view, caller, delivery)
    if "usage" in arrival:
        from faber_ledger.recording.usage import facts_of_usage  # only where a client has a transcript

        decided.facts += facts_of_usage(arrival["usage"], view.log, arrival["client"])
    decided.facts = _with_ids(arrival, view, decided.facts)
    return decided


def _of_session(load: Draft, session_id: str) -> Draft:
    event: Any = {**load["event"], "session_id": session_id}
    return {**load, "event": event}


def _facts_after_first(arrival: Arrival, view: View, loads: list[Draft] | None) -> Decided:
    """Decide what follows of a delivery whose first fact the log has.

    A living hook, whose delivery was recorded by somebody else, adds its loads. Anybody else finds the file of a hook
    that was killed between its append and its answer: what it had loaded for a session was not given.
    """
    if arrival["hook"] != "SessionStart" or view.log.start_of(arrival["session_id"]) is None:
        return Decided()
    if loads is not None:
        return Decided(facts_missing(_with_ids(arrival, view, loads, "load"), view), has_moved=True)
    lost: Draft = {"event": {"type": "answer_lost", "session_id": arrival["session_id"]}, "client": arrival["client"]}
    return Decided(facts_missing(_with_ids(arrival, view, [lost], "lost"), view))


def _with_ids(arrival: Arrival, view: View, facts: list[Draft], kind: str = "") -> list[Draft]:
    """Return facts of a delivery with ids and salts; the first one's id without a `kind` begins as the arrival's."""
    made: list[Draft] = []
    for number, fact in enumerate(facts):
        digest = sha256(f"{arrival['salt']}{kind}{number}".encode()).digest()
        name = clock.event_id(arrival["at"], digest[16:]) if number or kind else arrival["id"]
        made.append({**fact, "id": name, "salt": digest[:16].hex()})
    return place_facts(made, view)


def place_facts(facts: list[Draft], view: View) -> list[Draft]:
    """Return facts that have ids with those that they get after the log's heads."""
    ending = clock.event_id(0, sha256(view.log.heads_text().encode()).digest())[DECIDED_LETTERS:]
    return [{**fact, "id": fact["id"][:DECIDED_LETTERS] + ending} for fact in facts]


def find_recorded(name: str, view: View) -> Recorded | None:
    """Return the event with which a fact of this id was recorded, whatever the log's heads were; None if it was not."""
    return view.log.event_beginning(name[:DECIDED_LETTERS])


def facts_missing(facts: list[Draft], view: View) -> list[Draft]:
    """Return those of some facts with ids that are not recorded."""
    return [fact for fact in facts if find_recorded(fact["id"], view) is None]


def _caller_of(arrival: Arrival, writer: str) -> Caller:
    return {
        "client": arrival["client"],
        "pid": arrival["pid"],
        "writer": writer,
        "at": arrival["at"],
        "environment": arrival["environment"],
        "progress": arrival["progress"],
        "by": arrival.get("by") or {},
    }


def _seen_of(arrival: Arrival) -> SeenClient | None:
    seen = arrival["seen"]
    if seen is None:
        return None
    return SeenClient(arrival["client"] or "", None, seen["first_at"], seen["last_at"], seen["run_id"])


def is_finished(arrival: Arrival) -> bool:
    """Return whether the run was finished when the delivery came."""
    return arrival["status"] in progress.FINISHED


def changes_nothing(arrival: Arrival, known: Blocks) -> bool:
    """Return whether the run is finished and the call cannot end a session of it.

    It can if a session is open, or if its client was at work when the run was finished: that client may have a session
    whose start has not come yet. It can, too, if its client is known and a session may have gone on after its recorded
    end: after an inferred end, or one before a compaction that has not come yet.
    """
    if not is_finished(arrival):
        return False
    if arrival["hook"] not in ENDS or arrival["agent_id"] is not None:
        return True
    seen = _seen_of(arrival)
    if open_sessions(known) or was_seen_at_work(seen, arrival["finished_at"]):
        return False
    return seen is None or not has_ended_for(known, INFERRED)


def _end(arrival: Arrival, view: View, caller: Caller, delivery: Delivery) -> Decided:
    """Decide on the end of the client's session; one that nothing was heard of yet is opened first, as inferred."""
    seen = _seen_of(arrival)
    session_id = find_session(view, caller, seen)
    if session_id is None and not _has_begun(arrival, seen):
        return Decided(is_unheard_of=not is_finished(arrival))
    has_ended = session_id is not None and session_id not in open_sessions(view.blocks)
    if has_ended and is_finished(arrival) and not _may_replace_end(view, caller, session_id, seen):
        return Decided()
    opening: list[Draft] = []
    if has_moved := session_id is None:
        session_id, at = arrival["session_id"], infer_start(view, caller, seen, arrival["started_at"])
        opening = sessions.open_session(view, caller, session_id, "inferred", inferred_at=at)
    reason: Reason = "compaction" if arrival["hook"] == "PreCompact" else "normal"
    heard_at = _heard_before_late_end(arrival, seen)
    about: Any = {"delivery": delivery, "is_new": bool(opening), "is_inferred": heard_at is not None}
    end = sessions.end_session(view, caller, session_id, reason, _masked_word(arrival["word"]), **about)
    if heard_at is not None:
        end["at"] = heard_at
    has_moved |= _is_new_here(arrival)
    facts = [*opening, end, *checkout_after(end, arrival["checkout"])]
    return Decided(facts, has_moved=has_moved)


def _heard_before_late_end(arrival: Arrival, seen: SeenClient | None) -> float | None:
    """Return when a client was heard of last, if its end comes more than a minute later; else None."""
    heard_at = max(arrival.get("heard_at", arrival["at"]), seen.last_at if seen is not None else 0.0)
    return heard_at if arrival["at"] - heard_at > (LATE_SECONDS if arrival["hook"] == "SessionEnd" else 0) else None


def _is_new_here(arrival: Arrival) -> bool:
    """Return whether the client's newest session, as far as this clone knew, was on no run or another one."""
    return arrival["seen"] is None or arrival["seen"]["run_id"] != arrival["run_id"]


def _masked_word(said: str | None) -> str | None:
    """Return why the client says that a session ends, without secrets."""
    if said is None or said.replace("_", "").isalpha():  # a word of the client's, as `prompt_input_exit`
        return said
    from faber_ledger.recording.secrets.mask import mask_text

    return mask_text(said)


def _has_begun(arrival: Arrival, seen: SeenClient | None) -> bool:
    """Return whether the client must have a session on this run, though no start of it came."""
    if arrival["client"] is None:
        return False
    if is_finished(arrival):
        return was_seen_at_work(seen, arrival["finished_at"])
    return arrival["hook"] == "PreCompact" or seen is not None


def _may_replace_end(view: View, caller: Caller, session_id: str | None, seen: SeenClient | None) -> bool:
    """Return whether a session's end on a finished run was only inferred, or its client went on after a PreCompact.

    No start is recorded on such a run, so the PreCompact must be the last delivery of it that was seen here.
    """
    if view.has_inferred_end(session_id or "", caller["client"]):
        return True
    end = sessions.uncompacted_end(view.log, caller["client"], caller["writer"], caller["pid"])
    if end is None or end["event"].get("session_id") != session_id:
        return False
    return is_last_heard(end, seen)


def _compaction(arrival: Arrival, view: View, caller: Caller, delivery: Delivery) -> Decided:
    is_subagents = arrival["agent_id"] is not None
    session_id = None if is_subagents else find_session(view, caller, _seen_of(arrival))
    if session_id is None and not is_subagents:
        return Decided(is_unheard_of=True)
    event: CompactionCompleted = {
        "type": "compaction_completed",
        "trigger": arrival["word"],
        "agent_id": arrival["agent_id"],
        "phase": caller["progress"]["phase"],
        "step": caller["progress"]["step"],
        "delivery": delivery,
    }
    if session_id is not None:
        event["session_id"] = session_id
    decided, summary = Decided(), arrival["summary"]
    if summary:
        from faber_ledger.recording.secrets.mask import clean_summary  # most calls bring no summary

        summary = clean_summary(summary)
    if summary and arrival["has_summaries_in_git"]:
        event["summary"] = summary
    elif summary:
        decided.summary = summary
    decided.facts = [{"event": event, "client": caller["client"]}]
    return decided


# Hooks that are installed twice start at the same time. A client that is killed and resumed within seconds sends the
# same bytes again: only its process tells the two apart. A compaction that failed can be asked for again at once.
REPEAT_SECONDS = 2
REPEAT_SECONDS_OF_ONE_PROCESS = 30


def _is_second_start(arrival: Arrival, view: View, caller: Caller) -> bool:
    """Return whether a start after a compaction follows a start at once: Codex sends both where a resume compacts."""
    is_asked = arrival["word"] == "compact" and caller["by"].get("agent", "claude") != "claude"
    last = view.last_delivery(caller["client"]) if is_asked else None
    is_start = last is not None and last[1]["hook"] == arrival["hook"]
    return last is not None and is_start and caller["at"] - (seconds_of(last[0]["at"]) or 0) < REPEAT_SECONDS


def is_repeat(view: View, caller: Caller, delivery: Delivery) -> bool:
    """Return whether a delivery repeats the client's last one, as happens when its hooks are installed twice.

    That is: same hook, same bytes, less than 30 seconds ago from the same process; less than 2 seconds ago where one of
    the two calls names no process, and for a PreCompact.
    """
    last = view.last_delivery(caller["client"])
    if last is None:
        return False
    recorded, before = last
    is_of_one_process = before["pid"] is not None and before["pid"] == delivery["pid"]
    is_long = is_of_one_process and delivery["hook"] != "PreCompact"
    seconds = REPEAT_SECONDS_OF_ONE_PROCESS if is_long else REPEAT_SECONDS
    is_equal = (before["hook"], before["digest"]) == (delivery["hook"], delivery["digest"]) and before["digest"] != ""
    if not (is_equal and sessions.may_be_same(before["pid"], delivery["pid"])):
        return False
    at = seconds_of(recorded["at"])  # checked last, since parsing a time is expensive
    return at is not None and abs(caller["at"] - at) < seconds


def find_session(view: View, caller: Caller, seen: SeenClient | None) -> str | None:
    """Return the session that a client's delivery is about; None if there is none.

    1. The newest that this client started in this clone, by preference one of the same process.
    2. For a call that names no client: the open session, if this clone or another tool started it.
    3. For a client that started none on this run: the session that its last recorded end in this clone was about.
    4. For one that was `seen` here: the newest open session that another tool wrote on this machine, or that no client
       started in this clone, unless the latter began after the client's last delivery.
    """
    starts = [start for start in view.log.starts_of(caller["client"]) if start["writer"] == caller["writer"]]
    same = [start for start in starts if caller["pid"] is not None and dict(start["event"]).get("pid") == caller["pid"]]
    if starts:
        return sessions.session_of((same or starts)[0])
    if caller["client"] is None:
        current = current_session(view.blocks)
        start = view.log.start_of(current) if current is not None else None
        return current if start is None or start["writer"] == caller["writer"] else None
    taken = view.last_ended_by(caller["client"], caller["writer"])
    if taken is not None:
        return taken
    if seen is None:
        return None
    for name in reversed(open_sessions(view.blocks)):
        start = view.log.start_of(name)
        if start is None:
            if sessions.may_be_of_this_machine(view.blocks, name):
                return name
        elif start["client"] is None and start["writer"] == caller["writer"]:
            began = seconds_of(start["at"])
            if began is None or seen.last_at >= began:
                return name
    return None
