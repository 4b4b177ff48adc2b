"""`faber-ledger status`: where a run stands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.doctor.hooks import MERGES, read_hook_log
from faber_ledger.cli.reports.run_list import count_at_work, later_states, position_lines, stop_lines
from faber_ledger.cli.reports.usage import usage_data
from faber_ledger.cli.sync.agreement import hint_at_remote
from faber_ledger.cli.sync.refs import METADATA, STATE
from faber_ledger.cli.sync.versions import due_files
from faber_ledger.cli.ui.git_words import command_to_fetch, in_git_data, in_git_line, ways_to_unfinished
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import absorb_first, choose_run, quiet_run_argument
from faber_ledger.cli.ui.words import CLIENT, SESSIONS_UNKNOWN, ago, events_shown, plural, publishing_hint
from faber_ledger.context.branch import (
    MAY_BE_AT_REMOTE,
    branch_of_run,
    describe_other_branch,
    is_of_another,
    not_in_tree,
    where_files_are,
)
from faber_ledger.context.elsewhere import describe_newer_ref
from faber_ledger.context.notes import notes_of
from faber_ledger.context.position import recorded_branch
from faber_ledger.ledger.clock import now, seconds_of, utc_text
from faber_ledger.ledger.command_errors import NoActiveRun
from faber_ledger.ledger.disk import FileRefused
from faber_ledger.ledger.errors import StateMissing
from faber_ledger.ledger.event_types import RECORDED_BY_LOOKS
from faber_ledger.ledger.foreign import missing_in_file
from faber_ledger.ledger.queries import Summary, summarize
from faber_ledger.projections.difference import differing_blocks
from faber_ledger.projections.fold import blocks_of, entry_of, fold, newest_open, open_sessions, session_history
from faber_ledger.projections.history import SessionFacts, agent_shown, summarize_sessions
from faber_ledger.projections.usage import Usage
from faber_ledger.recording.adoption import list_unknown
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.sessions import View, is_open_here, live_start, session_of
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.active import active_run
from faber_ledger.runs.carry import Consent, SyncedNote, consent_of, describe_unsynced
from faber_ledger.runs.clone import OUT_OF_THE_WAY, find_obstacle, known_writer
from faber_ledger.runs.conflicts import paths_in_conflict
from faber_ledger.runs.git import branch_of, is_tracked
from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.kept import run_ids_here
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.of_work import describe_other_runs
from faber_ledger.runs.progress import FINISHED, STATUSES, branch_name, current_phase, resume_point, text_of
from faber_ledger.runs.projecting import known_members
from faber_ledger.runs.publish import AS_FINISHED, carries_refs, why_not_published
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.seen import TreeNote, client_here, is_alive
from faber_ledger.runs.sent import Sent, describe_unsent, may_lack
from faber_ledger.runs.set_aside import list_notices
from faber_ledger.runs.set_up import SET_UP, lacks_driver

if TYPE_CHECKING:
    from faber_ledger.context.notes import Note
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks

MOST_NAMED = 3  # of the other open sessions
QUIET_SECONDS = 7200  # after which an open session is shown with when its client was heard of last


@click.command(short_help="Show where a run stands.")
@quiet_run_argument  # the report names the other runs of a work item
@json_option
def status(run: str | None, as_json: bool) -> None:
    """Show where RUN stands (default: the active run): its phase, its session and its ledger.

    \b
    Example: faber-ledger status
    Exit codes: 0 done; 1 its state cannot be read; 2 wrong usage; 10 no such run;
    12 newer format; 20 the ledger is damaged.
    """
    root = find_root(os.getcwd())
    active = active_run(root)
    obstacle = find_obstacle(root)
    if obstacle is not None:
        warn(f"note: {obstacle}: nothing is recorded; {OUT_OF_THE_WAY}")
    try:
        meant = choose_run(root, run, active)
    except NoActiveRun as error:
        _warn_of_conflict(root)
        error.hint = hint_at_remote(root) or error.hint
        raise
    state = _read_state(meant)  # raises if git has stopped at it
    absorb_first(meant)
    is_stopped = _warn_of_conflict(root)
    finished = state_write.finished_copy(meant, state)
    found, is_set_up = _read_ledger(meant, state), not lacks_driver(root)
    later = finished or (later_states(root, {meant.run_id: state}).get(meant.run_id) if meant.is_kept else None)
    if later is not None:  # what is here is of the time before
        state, found = later, found._replace(missing=0, agrees=True)
    data = _data(meant, state, found) | {"in_git": None, "is_set_up": is_set_up}
    elsewhere = "" if meant.is_kept else describe_other_branch(meant, state, found.branch)  # else another line says it
    is_unnamed = run is None and state.get("status") in FINISHED
    is_at_remote = is_unnamed and is_of_another(meant)
    at_work = _at_work(meant) if is_unnamed and not is_at_remote and not as_json else []
    lines = list(_status_lines(meant, state, found, elsewhere, at_work))
    survey = GitSurvey(root)
    missing = survey.find_missing(meant)
    if missing is None or not survey.is_merged(missing):  # else the default branch is to be pulled, and no more
        lines += _not_in_file_lines(meant, state, found)
    if meant.is_kept and missing is None and state.get("status") not in FINISHED:
        lines.append(not_in_tree(meant, found.branch))
    if missing is not None:
        data["in_git"] = in_git_data(survey, missing) if not meant.is_kept else None
        seal = "faber-ledger seal" if meant.run_id == active.run_id else f"faber-ledger seal {meant.run_id}"
        folder = os.path.relpath(meant.own_directory)
        is_off = is_stopped or finished or elsewhere  # nothing is to be committed on a wrong branch
        line = None if is_off else in_git_line(survey, missing, seal, folder)
        lines += [f"In git: {line}"] if line is not None else []
    if carries_refs(root):
        data["sent"], sent_lines = _sent(meant, state, found, survey)
        lines += sent_lines if found.log is not None else []
    if Consent(root).server:
        data["server"], server_line = _synced(root)
        lines.append(server_line)
    if not is_set_up and not (carries_refs(root) and consent_of(root) is None):  # to agree sets it up, too
        lines.append(f"This clone: git has no driver that merges the run's files: `{SET_UP}` sets it up")
    said = _hook_lines(meant, state, found) if meant.run_id == active.run_id else ()
    if is_at_remote:
        lines.append(MAY_BE_AT_REMOTE.capitalize())
    show(data, [*lines, *_waiting_lines(meant), *said], as_json=as_json)


def _warn_of_conflict(root: str) -> bool:
    """Warn of the runs' files at which git has stopped, if there are any; return whether there are."""
    paths = [path for paths in paths_in_conflict(root).values() for path in paths]
    if paths:
        warn(f"note: git has stopped at {' and '.join(paths)}: run `faber-ledger resolve`")
    return bool(paths)


class Found(NamedTuple):
    """What a run's log says; `missing` counts the events that the published file lacks, `why` says why it does.

    `current` is the session that is open, whose `start` is recorded, and which runs here if it `is_here`. `branch` is
    the run's by its state or its log. Of a run whose ledger travels in git refs, `unsent` says what was not sent, and
    `unknown` counts the sessions of its state whose events were not fetched.
    """

    log: Summary | None
    blocks: Blocks
    current: str | None
    start: Recorded | None
    is_here: bool
    branch: object
    missing: int = 0
    why: str | None = None
    agrees: bool = True
    unsent: str | None = None
    unknown: int = 0
    notes: Sequence[Note] = ()
    usage: Usage = Usage()


def _read_ledger(run: Run, state: dict[str, Any]) -> Found:
    known = blocks_of(state)
    if lacks_ledger(run):
        current = newest_open(known)
        is_here = is_open_here(None, known, current or "", run.root)
        return Found(None, known, current, None, is_here, branch_name(state))
    with read_log(run, warn) as log:
        blocks = fold(log.stream())
        live = live_start(run, View(log, blocks))
        current = session_of(live) or newest_open(blocks)
        # Git may have brought the end of an open session in state.json before its events.
        ended = [name for name in open_sessions(blocks) if (entry_of(known, name) or {}).get("ended_at")]
        start, is_here = live or log.start_of(current or ""), is_open_here(log, blocks, current or "", run.root)
        current = None if live is None and current in ended else current
        branch = branch_name(state) or recorded_branch(run, state, log)
        notes, usage = [note for note, _ in notes_of(log)], Usage(log.usage())
        found = Found(summarize(log), blocks, current, start, is_here, branch, notes=notes, usage=usage)
        lacking = set() if carries_refs(run.root) or run.is_kept else missing_in_file(log, run.ledger_path)
        missing = len(lacking) if log.has_others(lacking, RECORDED_BY_LOOKS) else 0
        if carries_refs(run.root):
            # a client that lives sends what it recorded when it ends
            own = client_here(run.root, log.last_start(before=None, writer=known_writer(run.root)))
            is_open = live is not None or (own is not None and is_alive(own.pid) is True)
            unsent = describe_unsent(run, log, is_start=False, is_open=is_open) or _unsent_files(run, is_open=is_open)
            found = found._replace(unsent=unsent, unknown=len(list_unknown(blocks, known)) + len(ended))
    if not run.is_kept:
        found = found._replace(missing=missing, why=why_not_published(run, state, TreeNote(run)))
        if state.get("status") in FINISHED and branch and branch_of(run.root) not in (None, branch):
            found = found._replace(missing=0)  # they stay in this clone: nobody commits to the branch now
    return found._replace(agrees=found.why is not None or not differing_blocks(found.blocks, state))


def _unsent_files(run: Run, *, is_open: bool) -> str | None:
    """Return which of a run's files are to be sent, and how; not those that git tracks: they come with a commit."""
    consent, sent = consent_of(run.root), Sent(run)
    kept: list[str] = []
    due = due_files(run, sent, kept.append) if sent.commit and not sent.is_forgotten else []
    paths = {STATE: run.state_path, METADATA: run.metadata_path}
    due = [name for name in due if not is_tracked(paths[name])]
    has, it = ("have", "them") if due[1:] else ("has", "it")
    is_automatic = is_open and consent is not None and consent.is_automatic and not sent.problem
    due = [] if is_automatic else due  # the session's end sends them
    what = [f"{' and '.join(due)} here {has} changed since: `faber-ledger sync` sends {it} to {sent.remote}"]
    return "; ".join([*(what if due else []), *kept]) or None


def _data(run: Run, state: dict[str, Any], found: Found) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "work_id": state.get("work_id"),
        "target": state.get("target"),
        "workflow_id": state_file.workflow_id_of(run, state),
        "status": state.get("status"),
        "current_phase": current_phase(state),
        "resume_point": resume_point(state),
        "sessions": found.blocks.get("sessions"),
        "agent": found.log.agent if found.log else None,
        "context_metadata": found.blocks.get("context_metadata"),
        "events": found.log.events if found.log else 0,
        "not_in_file": found.missing,
        "last_event_at": found.log.last_at if found.log else None,
        "usage": usage_data(found.usage),
        "state_agrees": found.agrees,
        "waiting": len(list_waiting(run)),
    }


def _read_state(run: Run) -> dict[str, Any]:
    """Return a run's state; what the log knows of it where git ignores the file and it is not here."""
    try:
        found = state_file.read_state(run)
    except StateMissing as error:
        if not state_file.is_state_ignored(run):
            error.hint = where_files_are(run, branch_of_run(run)) if run.is_kept else error.hint
            raise
        with read_log(run) as log:
            state = {**known_members(log, run), **fold(log.stream())}
        warn(
            f"note: git ignores {run.shown(run.state_path)}, and it is not here: this is what the ledger knows;"
            f" `faber-ledger run resume {run.run_id}` continues the run here"
        )
        return state
    state_write.refresh_copy_if_newer(run, found, warn)
    return found.value


def _at_work(run: Run) -> list[str]:
    """Return a line about the other runs that are at work, here or on branches as last fetched; nothing without any."""
    count = count_at_work(run.root, besides=run.run_id) + len(ways_to_unfinished(run.root, None))
    return [f"This clone knows {plural(count, 'other run')} at work: `faber-ledger run list`"] if count else []


def _status_lines(run: Run, state: dict[str, Any], found: Found, elsewhere: str, at_work: list[str]) -> Iterator[str]:
    """Yield where a run stands; of a finished one only what asks for something."""
    blocks, log, is_over = found.blocks, found.log, state.get("status") in FINISHED
    yield f"Run: {run.run_id}"
    yield from position_lines(run, state)
    if not is_over:
        yield from stop_lines(run, state, found.notes)
    yield from at_work or describe_other_runs(run, state)
    if elsewhere:
        yield f"Branch: {found.branch}{elsewhere}"
    if found.current is not None:
        yield f"Session: {_session_text(run, found.current, found)}"
    if log is None:
        by_ref = f"not here; `faber-ledger {command_to_fetch(run.root)}` on this branch fetches it, if it was sent"
        yield f"Ledger: {by_ref if carries_refs(run.root) else 'none yet; the first event creates it'}"
        return
    last = f", the last at {log.last_at}" if log.events else ""
    if not (is_over or session_history(blocks)):
        yield f"Ledger: {events_shown(log.events)}{last}"
    if found.unknown:
        yield SESSIONS_UNKNOWN


def _not_in_file_lines(run: Run, state: dict[str, Any], found: Found) -> Iterator[str]:
    if found.missing and found.why != AS_FINISHED:
        because = f", because {found.why}" if found.why is not None else ""
        what = f"{events_shown(found.missing)} of the log{because}; {publishing_hint(run, TreeNote(run), state)}"
        yield f"Not yet in {run.shown(run.ledger_path)}: {what}"


def _sent(run: Run, state: dict[str, Any], found: Found, survey: GitSurvey) -> tuple[dict[str, Any], list[str]]:
    """Return when a run, whose ledger travels in git refs, was sent last, and what is not, as data and as lines."""
    consent, sent = consent_of(run.root), Sent(run)
    remote, at = consent.remote if consent else None, utc_text(sent.at) if sent.at else None
    due, when = found.unsent or "", f"last sent to {sent.remote} at {at}" if at else ""
    newer, is_newer = describe_newer_ref(run, state)
    if is_newer:
        due, when = newer or "", ""
    elif may_lack(run, state) and not found.unknown:
        due, when = f"{sent.remote} may have more, since the run's branch went on there: `faber-ledger sync`", ""
    elif not due and (there := survey.find_finished(run)) is not None:
        due, when = f"{there.name} has the run finished: `{survey.pull_command(there)}`", ""
    lines = [f"Git ref: {'; '.join(filter(None, [when, due]))}"] if due else []
    return {"remote": remote, "at": at, "unsent": found.unsent}, lines


def _synced(root: str) -> tuple[dict[str, Any], str]:
    """Return when this clone last exchanged with the server, and why not since, as data and as a line."""
    note, problem = SyncedNote(root), describe_unsynced(root)
    at = utc_text(note.at) if note.at else None
    times = [f"last exchanged at {at}"] if at else []
    times += [f"{note.run} alone at {utc_text(note.run_at)}"] if note.run_at > note.at else []
    parts = [", ".join(times), problem or ("" if at else "each session's end is exchanged")]
    return {"at": at, "problem": problem}, f"Server: {'; '.join(filter(None, parts))}"


def _waiting_lines(run: Run) -> Iterator[str]:
    count = len(list_waiting(run))
    if count:
        waits = f"{plural(count, 'delivery', 'deliveries')} {'waits' if count == 1 else 'wait'}"
        command = f", and so does `faber-ledger project {run.run_id}`" if not lacks_ledger(run) else ""
        yield f"{waits} to be recorded: the next hook records it{command}"


def _hook_lines(run: Run, state: dict[str, Any], found: Found) -> Iterator[str]:
    """Yield the last five messages of hooks since the newest session began that still matter.

    What a merge has left out does until somebody writes the state.
    """
    history = session_history(found.blocks)
    began = (seconds_of(history[-1].get("started_at")) if history else None) or 0.0
    written = max(began, seconds_of(state.get("updated_at")) or 0.0)
    over = ["Cannot read state file", "No active workflow found"]  # this command has read it
    over += ["Invalid state status"] if state.get("status") in STATUSES else []
    over += [] if list_waiting(run) else ["not recorded"]
    over += ["state.json was not written"] if found.agrees else []
    over += [" is not sent: "] if found.unsent is None else []
    with suppress(FileRefused):  # doctor says why
        over += [f": {name}: " for name in run_ids_here(run.root) if name != run.run_id]
        log = [
            message
            for _, seconds, message in read_hook_log(run.root)
            if seconds >= (written if any([words in message for words in MERGES]) else began)
        ]
        said = [message for message in dict.fromkeys(log) if not any([words in message for words in over])]
        yield from [f"A hook said: {message}" for message in said[-5:]]
    yield from [f"Noted for the next start: {message}" for message, _ in list_notices(run)]


def _session_text(run: Run, current: str, found: Found) -> str:
    """Return which session is open; an end is proposed only in the clone that it runs in (DECISIONS 48)."""
    blocks = found.blocks
    count = len(session_history(blocks))
    count += entry_of(blocks, current) is None  # SPEC-00027's example has its open session in the total alone
    entry = entry_of(blocks, current) or {}
    since = entry.get("started_at") or "an unknown time"
    machine = text_of(entry.get("environment"), "hostname") or "an unknown machine"
    agent, version = SessionFacts([found.start] if found.start is not None else []).find(current)
    machine += f" ({agent_shown(agent, version)})" if (agent, version) not in ((None, None), (CLIENT, None)) else ""
    others = [one for one in summarize_sessions(blocks) if not one["ended_at"] and one["session_id"] != current]
    named = [f"{one['session_id']} on {one['hostname'] or 'an unknown machine'}" for one in others]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    all_open = f"{count} in all{'; also open: ' if named else ''}{', '.join(named[:MOST_NAMED])}{more}"
    if not found.is_here:
        return f"{current}, begun on {machine} at {since}; whether it is over is not known here ({all_open})"
    if (seen := client_here(run.root, found.start)) is None:
        return f"{current}, open since {since} on {machine} ({all_open})"
    quiet = now() - seen.heard_at()
    if is_alive(seen.pid) is False:
        return f"{current} on {machine} broke off: its client is gone, last heard {ago(quiet)} ({all_open})"
    heard = f", last heard {ago(quiet)}" if quiet >= QUIET_SECONDS else ""
    return f"{current}, open since {since} on {machine}{heard} ({all_open})"
