"""Which run, and which session on it, a delivery is about (DECISIONS 37).

The run is that of the client's newest session, or the active one; the session is the client's newest on that run.

A client stays with its run: a checkout of main in the middle of a conversation, or a merge that brings a colleague's
run, changes nothing for it. Only a tool or a command in its work tree, or the client itself, moves it to another.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import event_id, seconds_of
from faber_ledger.projections import blocks
from faber_ledger.recording import sessions
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clients import client_of_process, note_answer
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Delivery, Recorded
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.sessions import Caller, View
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.clients import SeenClient

TIMESTAMP = 10  # characters, with which an event's id begins
# Hooks that are installed twice start at the same time. A client that is killed and resumed within seconds sends the
# same bytes again: only its process tells the two apart. A compaction that failed can be asked for again at once.
REPEAT_SECONDS = 2
REPEAT_SECONDS_OF_ONE_PROCESS = 30


class Subject:
    """The run that a delivery is about, in the project `root` of one of the clone's work trees.

    `run_id` is None if there is none; `reason_none` then says why, or is empty if there is no active file. On a run
    that `is_shown` nothing is recorded. `active` is the active run of that work tree.
    """

    def __init__(self, root: str, run_id: str, active: ActiveRun) -> None:
        self.root = root
        self.run_id: str | None = run_id
        self.active = active
        self.is_shown = active.is_shown and active.run_id == run_id
        self.reason_none = ""

    @classmethod
    def of_active(cls, root: str, active: ActiveRun) -> Subject:
        """Return the active run as the subject; none if no run is active, or it is not here."""
        subject = cls(root, active.run_id or "", active)
        problem = active.find_problem()
        if active.run_id is None:
            subject.run_id, subject.reason_none = None, active.reason_none
        elif problem is not None:
            subject.run_id, subject.reason_none = None, f"{problem.message} - {problem.hint}"
        return subject


def subject_of(call: Call, root: str, seen: SeenClient | None) -> Subject:
    """Return the run that a delivery is about; `seen` is what this clone knew of its client before.

    `root` is the project that the client was launched in. The client's `cwd` decides only if the client has a session
    there, since it follows every `cd`.
    """
    elsewhere = _other_root(call.text("cwd"), root)
    if elsewhere is not None and seen is not None and seen.run_id is not None:
        there = active_run(elsewhere)
        if there.run_id == seen.run_id and not there.is_shown:
            return Subject(elsewhere, seen.run_id, there)
    active = active_run(root)
    own = _client_before(call, root, seen)
    if own is not None and own.run_id is not None and own.session_at is not None:
        at = _root_of_session(root, own.root or root, own.run_id)
        since = active.named_since(own.session_at, own.run_id)
        if at is not None and since is None:
            return Subject(at, own.run_id, active if at == root else active_run(at))
        if since is not None and call.hook != "SessionStart" and active.run_id == own.run_id:
            # The client worked on another run, which is finished, so that the one that it left is active again.
            return Subject(root, since, active)
    return Subject.of_active(root, active)


def _client_before(call: Call, root: str, seen: SeenClient | None) -> SeenClient | None:
    """Return the client whose run this delivery stays with; None if it begins something new.

    With `/clear`, and with a fork, the client has a new id, and its process the one that it had before.
    """
    source = call.text("source") if call.hook == "SessionStart" else None
    if source in ("clear", "fork"):
        return client_of_process(root, call.pid, call.client)
    return seen if call.hook != "SessionStart" or source in ("compact", "resume") else None


def _other_root(cwd: str | None, root: str) -> str | None:
    """Return the project in another work tree of the clone, if `cwd` lies in that work tree; else None."""
    here = work_tree_of(root)
    there = work_tree_of(cwd) if cwd is not None and cwd != root and os.path.isabs(cwd) else None
    if here is None or there is None or there.own == here.own or not _is_same(there.common, here.common):
        return None
    return os.path.normpath(os.path.join(there.top, os.path.relpath(root, here.top)))


def _root_of_session(root: str, of_session: str, run_id: str) -> str | None:
    """Return where a client's session goes on: in the work tree that it began in, else in this one.

    None if the run is neither there nor in this clone's mirror.
    """
    if of_session != root and find_run(of_session, run_id).is_recorded():
        return of_session
    if find_run(root, run_id).is_recorded():
        return root
    from faber_ledger.runs.kept import kept_run  # only where the work tree lacks the run

    return root if kept_run(root, run_id) is not None else None


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


# Which session


def is_repeated(view: View, caller: Caller, delivery: Delivery) -> bool:
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
    is_like_it = (
        before["hook"] == delivery["hook"]
        and before["digest"] == delivery["digest"]
        and before["digest"] != ""
        and sessions.may_be_same(before["pid"], delivery["pid"])
    )
    if not is_like_it:
        return False
    at = seconds_of(recorded["at"])  # checked last, since parsing a time is expensive
    return at is not None and abs(caller["at"] - at) < seconds


def is_first_answer(call: Call, root: str, at: float) -> bool:
    """Return whether no equal delivery was answered just now, where the log cannot say so; note that this one is."""
    is_long = call.pid is not None and call.hook != "PreCompact"
    seconds = REPEAT_SECONDS_OF_ONE_PROCESS if is_long else REPEAT_SECONDS
    return note_answer(root, call.client, f"{call.hook} {call.sha256} {call.pid}", at, seconds=seconds)


def find_session(view: View, caller: Caller, seen: SeenClient | None) -> str | None:
    """Return the session that a client's delivery is about; None if there is none.

    It is the newest of this clone with this client's session id, by preference one of the same process. A client that
    has none on this run gets the open session of this clone that no client opened, if another delivery of it was `seen`
    here while that session was open. One that an older tool wrote on this machine is such a client's too, also one that
    began after that delivery: it is the session that would be inferred. A call without an id gets the open session of
    this clone.
    """
    starts = [start for start in view.starts_of(caller["client"]) if start["writer"] == caller["writer"]]
    same = [start for start in starts if caller["pid"] is not None and _is_same_process(start, caller)]
    if starts:
        return sessions.session_id_of((same or starts)[0])
    if caller["client"] is None:
        current = blocks.current_session(view.blocks)
        start = view.start_of(current) if current is not None else None
        return current if start is None or start["writer"] == caller["writer"] else None
    taken = view.last_ended_by(caller["client"], caller["writer"])
    if taken is not None:  # earlier, as below
        return taken
    if seen is None:
        return None
    for name in reversed(blocks.open_sessions(view.blocks)):
        start = view.start_of(name)
        if start is None:
            if sessions.may_be_of_this_machine(view.blocks, name):
                return name
        elif start["client"] is None and start["writer"] == caller["writer"]:
            began = seconds_of(start["at"])
            if began is None or seen.last_at >= began:
                return name
    return None


def infer_start(view: View, caller: Caller, seen: SeenClient | None, state: dict[str, Any]) -> float:
    """Return when a client's session on this run must have begun, if no start of it came.

    The latest of: the client's first delivery here, the run's start, the end of the run's previous session. One that is
    still open has lasted at least until its own start.
    """
    moments = [seconds_of(state.get("started_at"))]
    for entry in blocks.session_history(view.blocks):
        if isinstance(entry, dict):
            moments.append(seconds_of(entry.get("ended_at") or entry.get("started_at")))
    latest = max([moment for moment in moments if moment is not None], default=0.0)
    return min(caller["at"], max(latest, seen.first_at if seen is not None else caller["at"]))


def was_seen_at_work(seen: SeenClient | None, state: dict[str, Any]) -> bool:
    """Return whether a client was seen in this clone before a finished run was finished; not, if that is unknown."""
    finished_at = seconds_of(state.get("completed_at") or state.get("updated_at"))
    return seen is not None and finished_at is not None and seen.first_at < finished_at


def is_last_heard(recorded: Recorded, seen: SeenClient | None) -> bool:
    """Return whether a recorded delivery of a client is the last that was seen of it in this clone."""
    return seen is not None and recorded["id"][:TIMESTAMP] == event_id(seen.last_at, bytes(10))[:TIMESTAMP]


def open_sessions_of(view: View, client: str | None, writer: str) -> list[str]:
    """Return the sessions that a client has open on a run, of those that were started in this clone."""
    found = []
    for name in blocks.open_sessions(view.blocks) if client is not None else ():
        start = view.start_of(name)
        if start is not None and (start["client"], start["writer"]) == (client, writer):
            found.append(name)
    return found


def _is_same_process(start: Recorded, caller: Caller) -> bool:
    return sessions.pid_of(start) == caller["pid"] and start["writer"] == caller["writer"]
