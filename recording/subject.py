"""Which run, and which session on it, a delivery is about (DECISIONS 37).

A client goes on with the run that it is on: a checkout of main in the middle of a conversation changes nothing for it.
What begins something new is about the run in whose folder the client was launched, or about the active run.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import event_id, seconds_of
from faber_ledger.projections.fold import current_session, open_sessions, session_history
from faber_ledger.recording import sessions
from faber_ledger.runs.active import active_run, is_finished, named_since
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import RUNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Delivery, Recorded
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.sessions import Caller, View
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.clients import SeenClient
    from faber_ledger.runs.run import Run

TIMESTAMP = 10  # characters, with which an event's id begins
# Hooks that are installed twice start at the same time. A client that is killed and resumed within seconds sends the
# same bytes again: only its process tells the two apart. A compaction that failed can be asked for again at once.
REPEAT_SECONDS = 2
REPEAT_SECONDS_OF_ONE_PROCESS = 30


class Subject:
    """The run that a delivery is about, in the project `root` of one of the clone's work trees.

    `run_id` is None if there is none. `active` is the active run of that work tree, None where it was not looked for.
    """

    def __init__(self, root: str, run_id: str | None, active: ActiveRun | None = None) -> None:
        self.root = root
        self.run_id = run_id
        self.active = active


def subject_of(call: Call, root: str, seen: SeenClient | None) -> Subject:
    """Return the run that a delivery is about; `seen` is what this clone knew of its client before.

    `root` is the project that the client was launched in.
    """
    is_start = call.hook == "SessionStart"
    if seen is not None and (not is_start or call.text("source") in ("compact", "resume")):
        own = _subject_of_client(call, root, seen)
        if own is not None:
            return own
    launched = _runs_of_folder(root, call.directory)
    if launched is not None:
        return Subject(root, launched[0] if len(launched) == 1 else None)
    elsewhere = _other_root(call.text("cwd"), root)
    if elsewhere is not None:
        active = active_run(elsewhere, by_author=is_start)
        if active.run_id is not None:
            return Subject(elsewhere, active.run_id, active)
    active = active_run(root, by_author=is_start)
    return Subject(root, active.run_id, active)


def _subject_of_client(call: Call, root: str, seen: SeenClient) -> Subject | None:
    """Return the run of a client's newest session, if the client goes on with it; an end is always about that run."""
    if seen.run_id is None or seen.session_at is None:
        return None
    began_in = seen.root or root
    run = _run_of_session(root, began_in, seen.run_id)
    if run is None:
        return None
    is_end = call.hook == "SessionEnd"
    is_left = not is_end and (is_finished(run) or named_since(began_in, seen.session_at, seen.run_id))
    return None if is_left else Subject(run.root, seen.run_id)


def _runs_of_folder(root: str, folder: str | None) -> list[str] | None:
    """Return the runs of the run's or plan's folder that a client was launched in; None if it was in no such folder.

    FABER starts a client for each step in the plan's folder, also where no run has a state.
    """
    if folder is None or ".fractary" not in folder:
        return None
    real = os.path.realpath(folder)
    above = [os.path.join(os.path.realpath(root), *runs.split("/"), "") for runs in RUNS]
    if not real.startswith(tuple(above)):
        return None
    from faber_ledger.runs.layouts import run_ids  # only there

    return [run_id for run_id in run_ids(root) if _is_in_folder(find_run(root, run_id), real)]


def _is_in_folder(run: Run, folder: str) -> bool:
    own = os.path.realpath(run.directory)
    is_inside = not run.suffix and folder.startswith(os.path.join(own, ""))
    return own == folder or own.startswith(os.path.join(folder, "")) or is_inside


def _other_root(cwd: str | None, root: str) -> str | None:
    """Return the project in another work tree of the clone, if `cwd` lies in that work tree; else None."""
    here = work_tree_of(root)
    there = work_tree_of(cwd) if cwd is not None and cwd != root and os.path.isabs(cwd) else None
    if here is None or there is None or there.own == here.own or not _is_same(there.common, here.common):
        return None
    return os.path.normpath(os.path.join(there.top, os.path.relpath(root, here.top)))


def _run_of_session(root: str, began_in: str, run_id: str) -> Run | None:
    """Return the run where a client's session goes on: in the work tree that it began in, else in this one.

    None if the run is neither there nor kept by this clone.
    """
    for at in dict.fromkeys((began_in, root)):
        run = find_run(at, run_id)
        if run.is_recorded():
            return run
    from faber_ledger.runs.kept import kept_run  # only where the work tree lacks the run

    return kept_run(root, run_id)


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


# Which session


def is_repeated(view: View, caller: Caller, delivery: Delivery) -> bool:
    """Return whether a delivery repeats the client's last one, as happens when its hooks are installed twice.

    That is: same hook, same bytes, less than 30 seconds ago from the same process; less than 2 seconds ago where one of
    the two calls names no process, and for a PreCompact. A start does not repeat one whose hook has died unanswered.
    """
    last = view.last_delivery(caller["client"])
    if last is None or (delivery["hook"] == "SessionStart" and last[0]["id"] in view.unanswered):
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


def find_session(view: View, caller: Caller, seen: SeenClient | None) -> str | None:
    """Return the session that a client's delivery is about; None if there is none.

    1. The newest that this client started in this clone, by preference one of the same process.
    2. For a call that names no client: the open session, if this clone or another tool started it.
    3. For a client that started none on this run: the session that its last recorded end in this clone was about.
    4. For one that was `seen` here: the newest open session that another tool wrote on this machine, or that no client
       started in this clone, unless the latter began after the client's last delivery.
    """
    starts = [start for start in view.starts_of(caller["client"]) if start["writer"] == caller["writer"]]
    same = [start for start in starts if caller["pid"] is not None and sessions.pid_of(start) == caller["pid"]]
    if starts:
        return sessions.session_id_of((same or starts)[0])
    if caller["client"] is None:
        current = current_session(view.blocks)
        start = view.start_of(current) if current is not None else None
        return current if start is None or start["writer"] == caller["writer"] else None
    taken = view.last_ended_by(caller["client"], caller["writer"])
    if taken is not None:
        return taken
    if seen is None:
        return None
    for name in reversed(open_sessions(view.blocks)):
        start = view.start_of(name)
        if start is None:
            if sessions.may_be_of_this_machine(view.blocks, name):
                return name
        elif start["client"] is None and start["writer"] == caller["writer"]:
            began = seconds_of(start["at"])
            if began is None or seen.last_at >= began:
                return name
    return None


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


def was_seen_at_work(seen: SeenClient | None, finished_at: str | None) -> bool:
    """Return whether a client was seen in this clone before a finished run was finished; not, if that is unknown."""
    at = seconds_of(finished_at)
    return seen is not None and at is not None and int(seen.first_at) <= at  # which is a whole second


def is_last_heard(recorded: Recorded, seen: SeenClient | None) -> bool:
    """Return whether a recorded delivery of a client is the last that was seen of it in this clone."""
    return seen is not None and recorded["id"][:TIMESTAMP] == event_id(seen.last_at, bytes(10))[:TIMESTAMP]


def open_sessions_of(view: View, client: str | None, writer: str) -> list[str]:
    """Return the sessions that a client has open on a run, of those that were started in this clone."""
    found = []
    for name in open_sessions(view.blocks) if client is not None else ():
        start = view.start_of(name)
        if start is not None and (start["client"], start["writer"]) == (client, writer):
            found.append(name)
    return found
