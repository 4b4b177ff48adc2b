"""`faber-ledger session-save`: end the open session of a run (AGENT, Session Save; END)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui import texts
from faber_ledger.cli.ui.output import documents_codes, json_option, show, warn_of
from faber_ledger.cli.ui.which_run import choose_run, run_option, warn_if_kept
from faber_ledger.cli.ui.words import duration
from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.ledger.errors import NotWritable, RunNotFound, StateInvalid, StateMissing
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.projections.fold import entry_of, newest_open, session_history
from faber_ledger.projections.history import SessionFacts, summarize_sessions
from faber_ledger.recording import sessions
from faber_ledger.recording.call import checkout_after, checkout_at_end, read_environment
from faber_ledger.recording.leaving import add_cost
from faber_ledger.recording.left_facts import record_or_leave
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.sessions import is_last_heard
from faber_ledger.runs import state_file
from faber_ledger.runs.active import ActiveRun, active_run
from faber_ledger.runs.carry import start_sending
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log
from faber_ledger.runs.progress import FINISHED, current_phase, phase_statuses
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.seen import seen_client

if TYPE_CHECKING:
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.recording.sessions import Caller, Reason


@click.command("session-save")
@documents_codes
@run_option
@click.option(
    "--reason",
    type=click.Choice(["compaction", "normal", "manual"]),
    default="manual",
    show_default=True,
    help="Why the session is ending.",
)
@click.option("--verbose", is_flag=True, help="Print the whole report, as on a terminal.")
@json_option
def session_save(run: str | None, reason: Reason, verbose: bool, as_json: bool) -> None:
    """Save session metadata before the session ends or the context is compacted.

    \b
    Example: faber-ledger session-save --reason compaction
    Exit codes: 0 saved, or there was nothing to save; 1 it could not be saved;
    2 wrong usage.
    """
    root, at = find_root(os.getcwd()), now()
    active = active_run(root)
    if run is None and active.run_id is None:
        if active.problem:
            warn_of(active.problem)
        show({"saved": False, "run_id": None}, texts.NO_WORKFLOW_TO_SAVE.split("\n"), as_json=as_json)
        return
    meant = _run(root, run, active)
    writer, checkout, is_written = writer_of(root), checkout_at_end(meant), False
    try:
        with record_or_leave(meant, at=at, writer=writer, warn=warn_of) as recording:
            state_file.check_required(meant, recording.state)
            caller = sessions.caller_of(os.environ, recording.state, at, writer, None)
            session_id = _session_to_end(recording, caller, reason)
            if session_id is not None:
                if sessions.lacks_environment(recording.view, session_id):
                    caller["environment"] = read_environment(root)
                end = sessions.end_session(recording.view, caller, session_id, reason)
                add_cost(recording, seen_client(root, caller["client"]))
                recording.append([end, *checkout_after(end, checkout)])
            else:
                is_written = recording.project()
    except StateMissing as error:
        error.block = texts.state_not_found(meant)
        raise
    except StateInvalid as error:
        error.block = texts.state_not_parsed(meant, error)
        raise
    except NotWritable as error:
        error.block = texts.state_not_saved(meant, error)
        raise
    if session_id is None:
        _show_nothing_to_end(meant, recording, is_written, as_json)
        return
    start_sending(root)
    entry = entry_of(recording.blocks, session_id) or {}
    completed = _newly_completed(meant, recording.blocks, session_id)
    lines = _report(entry, recording.state, completed, is_whole=verbose or sys.stdout.isatty())
    show({"saved": True, "run_id": meant.run_id, "session": entry}, lines, as_json=as_json)


def _newly_completed(run: Run, blocks: Blocks, session_id: str) -> list[str]:
    """Return the phases that a session completed, and none before it (DECISIONS 15)."""
    facts = SessionFacts(find_events(partial(read_log, run), EventQuery(types=("session_started",))))
    found = {session["session_id"]: session["newly_completed"] for session in summarize_sessions(blocks, facts)}
    return found.get(session_id, [])


def _run(root: str, named: str | None, active: ActiveRun) -> Run:
    try:
        run = choose_run(root, named, active, records=True)
    except RunNotFound:
        run = find_run(root, named or "")
    warn_if_kept(run)
    return run


def _session_to_end(recording: Recording, caller: Caller, reason: Reason) -> str | None:
    """Return the caller's session: a client's own, else the one that lives here, else the one that is open here.

    Without one it is the client's that ended for a compaction which has not happened yet. A finished run records no
    start: there the compaction has happened if the client has sent anything since.
    """
    view = recording.view
    live = sessions.live_start(recording.run, view, caller["client"])
    current = sessions.session_of(live) or newest_open(view.blocks)
    is_recorded = current is not None and view.log.start_of(current) is not None  # else an older tool's
    if is_recorded and not sessions.is_open_here(view.log, view.blocks, current or "", recording.run.root):
        current = None
    if current is not None or reason == "compaction" or caller["client"] is None:
        return current
    end = sessions.uncompacted_end(view.log, caller["client"], caller["writer"], caller["pid"])
    if end is None:
        return None
    is_finished = recording.state.get("status") in FINISHED
    if is_finished and not is_last_heard(end, seen_client(recording.run.root, caller["client"])):
        return None
    return sessions.session_of(end)


def _show_nothing_to_end(run: Run, recording: Recording, is_written: bool, as_json: bool) -> None:
    history = session_history(recording.blocks)
    last = next((entry for entry in reversed(history) if isinstance(entry, dict) and entry.get("ended_at")), None)
    lines = ["⚠️  No current session to end"]
    if last is not None:
        lines += [
            "⚠️  Session already ended",
            f"   Session ID: {last.get('session_id')}",
            f"   Ended at: {last.get('ended_at')}",
            "",
            *([] if is_written else ["   No changes made to state.json"]),
        ]
    if is_written:
        lines.append("✓ state.json did not show the ledger: its sessions and context were written again")
    show({"saved": False, "run_id": run.run_id, "session": last}, lines, as_json=as_json)


def _report(
    entry: dict[str, Any], state: dict[str, Any], newly_completed: list[str], *, is_whole: bool
) -> Iterator[str]:
    started, ended = seconds_of(entry.get("started_at")), seconds_of(entry.get("ended_at"))
    current = current_phase(state)
    at_work = [name for name, status in phase_statuses(state).items() if status == "in_progress"]
    running = [f"{name} (partial)" for name in at_work if current in (None, name)]
    loaded = [str(name) for name in entry.get("artifacts_loaded") or []]
    yield "✓ Session ended and saved"
    yield f"  Session ID: {entry.get('session_id')}"
    yield f"  Reason: {entry.get('end_reason')}"
    yield f"  Duration: {duration(None if started is None or ended is None else ended - started)}"
    completed = entry.get("phases_completed") or []
    own = f"; in this session: {', '.join(newly_completed)}" if newly_completed not in ([], completed) else ""
    yield f"  Phases completed: {', '.join([*completed, *running]) or 'none'}{own}"
    if completed and not (newly_completed or running):
        yield "  None of these in this session"
    if is_whole:
        yield f"  Artifacts loaded: {len(loaded)}{' (' + ', '.join(loaded) + ')' if loaded else ''}"
