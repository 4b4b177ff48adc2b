"""The runs of a clone: what `run list` says of each, where one stands, and in which work trees it is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.reports.usage import lacks_last_end, list_not_counted, usage_data, weeks_data
from faber_ledger.cli.ui.attention import Filters, Row, describe
from faber_ledger.cli.ui.which_run import match_run
from faber_ledger.cli.ui.words import SESSIONS_UNKNOWN
from faber_ledger.context.position import APPROVAL, REJECTED, UNCLEAR, say_what_stops
from faber_ledger.context.workflow import load_workflow, steps_in_order
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.encoding import loads_object
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, RunNotFound
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import summarize
from faber_ledger.projections.fold import blocks_of, current_session, fold, newest_open, session_history
from faber_ledger.projections.history import count_compactions, machines_of, summarize_sessions
from faber_ledger.projections.usage import Usage
from faber_ledger.recording.adoption import list_unknown
from faber_ledger.recording.sessions import View, live_start
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.copies import runs_in_other_work_trees
from faber_ledger.runs.git import REMOTES, default_branch, is_safe
from faber_ledger.runs.git_command import run_git, top_of
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.layouts import places_of as places_in_layouts
from faber_ledger.runs.log import has_log, lacks_ledger, read_log
from faber_ledger.runs.of_work import with_states
from faber_ledger.runs.progress import (
    DEFAULT_WORKFLOW,
    FINISHED,
    branch_name,
    current_phase,
    current_step,
    phase_statuses,
    phases_completed,
    place_of,
    resume_point,
    target_of,
    text_of_value,
)
from faber_ledger.runs.projecting import find_restorable, known_members
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import changed_at, machine_of
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import is_state_ignored, read_state, state_copy_path, workflow_id_of
from faber_ledger.runs.state_write import KnownState, finished_copy, refresh_copy_if_newer

if TYPE_CHECKING:
    from faber_ledger.context.notes import Note
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.postgres.fleet import Found
    from faber_ledger.projections.fold import Blocks


def list_runs(root: str, filters: Filters, read: Callable[[Run], RunFacts]) -> list[Row]:
    """Return each run that this clone has and `filters` fit, newest first: by its last event, or its state's time.

    `read` returns what `read_facts` does, and is called with every run. `in_work_tree` is false for a run that the work
    tree lacks.
    """
    active, rows, runs = active_run(root).run_id, [], [(run, read(run)) for run in runs_here(root)]
    later = later_states(root, {run.run_id: known.state for run, known in runs if run.is_kept})
    for run, facts in runs:
        known = facts
        if (state := later.get(run.run_id)) is not None:
            shown = {"work_id": state.get("work_id"), "status": state.get("status"), "phase": current_phase(state)}
            machine = next(reversed(machines_of([*summarize_sessions(blocks_of(state))])), None)
            shown |= {"problem": None, "machine": machine}
            known = facts._replace(row={**facts.row, **shown}, state=state)
        row = describe_facts(run, known, filters)
        row["usage_is_partial"] |= run.run_id in later
        if not filters.fit(row):
            continue
        about = {"run_id": run.run_id, "active": run.run_id == active, "in_work_tree": not run.is_kept}
        rows.append((row["last_event_at"] or utc_text(changed_at(run.state_path) or 0), run.run_id, {**about, **row}))
    return [row for _, _, row in sorted(rows, key=itemgetter(0, 1), reverse=True)]


def later_states(root: str, states: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the later states that runs at work have on their own branches, or the remotes' default, as last fetched.

    Git is asked once for all; nothing is known where it does not answer.
    """
    default = default_branch(root)
    at_work = [run_id for run_id, state in states.items() if state.get("status") not in FINISHED]
    places = {
        f"{ref}:./{one.shown(one.state_path)}": run_id
        for run_id in at_work
        for ref in _refs_of(default, branch_name(states[run_id]))
        for one in places_in_layouts(root, run_id)
    }
    found: dict[str, dict[str, Any]] = {}
    for run_id, there in zip(places.values(), _read_blobs(root, [*places]), strict=False):
        known = found.get(run_id, states[run_id])
        is_over = there.get("status") in FINISHED and _updated_at(there) >= _updated_at(known)
        if is_over or _updated_at(there) > _updated_at(known):
            found[run_id] = there
    return found


def _refs_of(default: str | None, branch: object) -> list[str]:
    names = [name for name in (branch, default) if isinstance(name, str) and is_safe(name)]
    own = [f"refs/heads/{branch}"] if branch in names else []
    return [*own, *[f"refs/remotes/{remote}/{name}" for remote in REMOTES for name in names]]


def count_at_work(root: str, *, besides: str) -> int:
    """Return how many other runs of this clone are at work."""
    found = [one for one in with_states(runs_here(root)) if one[0].run_id != besides]
    states = {run.run_id: finished_copy(run, state) or state for run, state in found}
    later = later_states(root, {run.run_id: state for run, state in found if run.is_kept})
    return len([state for state in (states | later).values() if state.get("status") not in FINISHED])


def _updated_at(state: dict[str, Any]) -> float:
    return seconds_of(state.get("updated_at")) or 0.0


def _read_blobs(root: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that git has by these names, an empty one for each that it has not."""
    content = "".join([f"{name}\n" for name in names]).encode("utf-8", "surrogateescape")
    printed = GitQuery(["cat-file", "--batch"], root, limit=LARGEST, content=content).answer_bytes() if names else None
    left = printed or b""
    while left:  # a line with name, kind and size, then the content and a newline; or that it is missing
        line, _, left = left.partition(b"\n")
        size = line.rpartition(b" ")[2]
        is_there = size.isdigit()
        yield loads_object(left[: int(size)]) if is_there else {}
        left = left[int(size) + 1 :] if is_there else left


class RunFacts(NamedTuple):
    """What a run's state and log say of it; `start` began the session that is open, else the newest one."""

    row: Row
    state: dict[str, Any]
    start: Recorded | None
    is_open: bool
    usage: Usage


def describe_facts(run: Run, known: RunFacts, filters: Filters) -> Row:
    """Return a run as the lists show it, by what was read of it; whether it is idle or stale is judged now."""
    row = dict(known.row)
    if filters.mine:
        row["own_weeks"] = weeks_data(known.usage.by("writer").get(known_writer(run.root), Usage()))
    return describe(row, known.state, filters, run.root, known.start, is_open=known.is_open)


def describe_found(found: Found, filters: Filters, root: str, role: str) -> Row:
    """Return a run of the server as the lists show it; `role` is the login that asks."""
    run, last = found.run, found.run["last_event"]
    is_mine = found.login == role if found.login else (found.start or last)["writer"] == known_writer(root)
    about = {"who": found.login or run["machine"], "is_mine": is_mine, "last_heard_at": last["at"]}
    about["usage"] = usage_data(found.usage)
    about["brought_by"] = None if found.brought_by == found.login else found.brought_by
    about["state_by"] = None if found.state_by in (found.login, found.brought_by) else found.state_by
    return describe({**run, **about}, found.state, filters, root, found.start, is_open=bool(run["open_sessions"]))


def read_facts(run: Run) -> RunFacts:
    """Read what a run's state and log say of it; `problem` and `ledger_problem` say why one cannot be read."""
    try:
        document = read_state(run)
        state, problem, ledger_problem = finished_copy(run, document.value) or document.value, None, None
    except LedgerError as error:
        document = JsonText("{}")
        state, problem, ledger_problem = {}, None if is_state_ignored(run) else error.message, None
    is_ignored = not state and problem is None
    log, live, start, blocks, usage, lacks_end = None, None, None, blocks_of(state), Usage(), False
    writer, is_mine = known_writer(run.root), False
    branch = text_of_value(branch_name(state))
    try:
        if not lacks_ledger(run):
            with read_log(run) as opened:
                log, usage = summarize(opened), Usage(opened.usage())
                state = known_members(opened, run) if is_ignored else state
                is_shown = not is_ignored and KnownState(document).shows(opened)
                folded = blocks if is_shown else fold(opened.stream())
                ledger_problem = describe_unknown(run, folded, blocks)
                blocks = folded
                lacks_end = lacks_last_end(opened, writer, state)
                is_mine = writer is not None and opened.last_start(before=None, writer=writer) is not None
                live = live_start(run, View(opened, blocks))
                newest = [one["session_id"] for one in summarize_sessions(blocks)][-1:]
                start = live or opened.start_of(newest_open(blocks) or "".join(newest))
                if state and not is_ignored:
                    refresh_copy_if_newer(run, document, lambda message: None)
                branch = branch or opened.first_branch(besides=default_branch(run.root)) or ""
    except (LedgerError, sqlite3.DatabaseError) as error:
        ledger_problem = str(error)
    sessions = list(summarize_sessions(blocks))
    not_counted = list_not_counted(usage, sessions)
    row = {
        "work_id": state.get("work_id"),
        "status": state.get("status"),
        "phase": current_phase(state),
        "worktree": state.get("worktree"),
        "branch": branch or None,
        "machine": machine_of(start) or next(reversed(machines_of(sessions)), None),
        "is_mine": is_mine,
        "sessions": len(session_history(blocks)),
        "compactions": count_compactions(sessions),
        "open_session": current_session(blocks),
        "agent": log.agent if log else None,
        "events": log.events if log else 0,
        "last_event_at": log.last_at if log else None,
        "last_heard_at": log.last_at if log else None,
        "usage": usage_data(usage),
        "usage_is_partial": log is None or lacks_end or ledger_problem is not None or bool(not_counted),
        "problem": problem,
        "ledger_problem": ledger_problem,
    }
    return RunFacts(row, state, start, live is not None or newest_open(blocks) is not None, usage)


def describe_unknown(run: Run, folded: Blocks, found: Blocks) -> str | None:
    """Return that `found`, of the run's state, has sessions whose events the log lacks, since git brought it first."""
    unknown = list_unknown(folded, found) if carries_refs(run.root) else []
    return SESSIONS_UNKNOWN if unknown else None


OTHER_ID = "give another --run-id, or none to have one made"


def check_is_new(root: str, run_id: str, *, everywhere: bool) -> None:
    """Raise LedgerError if an id cannot be a run's, or is used here or, with `everywhere`, anywhere in the clone.

    Worktrees share a run's log, so a second run with that id would get the events of the first.
    """
    try:
        run = find_run(root, run_id)
    except InvalidRunId as error:
        error.hint = OTHER_ID
        raise
    message = f"the run {run.run_id} exists already"
    if os.path.lexists(run.directory):
        resumable = os.path.lexists(run.state_path)
        hint = f"run `faber-ledger run resume {run.run_id}`" if resumable else "take another id"
        raise LedgerError(message, hint=hint)
    places = places_of(run) if everywhere else []
    if places:
        raise LedgerError(f"{message}: {', '.join(places)}", hint=OTHER_ID)
    if everywhere and has_log(run):
        hint = f"`faber-ledger run resume {run.run_id}` goes on with it; for a new run give another --run-id"
        raise LedgerError(f"{message}: its folder is gone, but this clone's log still has its events", hint=hint)


def places_of(run: Run) -> list[str]:
    """Return the folders of a run in all worktrees, which share its log; if none, the refs that have it."""
    there = [one.directory for one in (run, *runs_in_other_work_trees(run)) if one.is_recorded()]
    return [os.path.realpath(folder) for folder in there] or _refs(run)


def _refs(run: Run) -> list[str]:
    """Return the refs that have a run and are not at HEAD's commit: it is not gone, but elsewhere.

    From HEAD's own commit it was deleted here.
    """
    if top_of(run.root) is None:
        return []
    head = run_git("rev-parse", "--verify", "--quiet", "HEAD", at=run.root).stdout.decode().strip() or "-"
    form = "--format=%(objectname) %(*objectname) %(refname)"
    listed = run_git("for-each-ref", form, at=run.root).stdout.decode("utf-8", "surrogateescape").splitlines()
    names = [line.split(" ", 2)[2] for line in listed if head not in line.split(" ", 2)[:2]]
    places = [run, *places_in_layouts(run.root, run.run_id)]
    files = dict.fromkeys([run.shown(path) for one in places for path in one.required_paths])
    wanted = [(name, f"{name}:./{path}") for name in names for path in files]
    answers = run_git(
        "cat-file",
        "--batch-check=%(objecttype)",
        at=run.root,
        content="".join([f"{question}\n" for _, question in wanted]).encode("utf-8", "surrogateescape"),
    ).stdout.splitlines()
    return list(dict.fromkeys([name for (name, _), answer in zip(wanted, answers, strict=False) if answer == b"blob"]))


def count_events(path: str) -> int | None:
    """Return how many events a log has; None if it cannot be read."""
    try:
        with Log.read(path) as log:
            return log.count_events()
    except LedgerError:
        return None


MAX_LINE = 200
LARGEST = 64 * 1024 * 1024  # bytes that git prints


def state_facts(state: dict[str, Any]) -> dict[str, str | None]:
    """Return what a state says of the run, by the facts' names."""
    is_over = state.get("status") in FINISHED
    return {
        "work item": text_of_value(state.get("work_id")),
        "target": target_of(state),
        "workflow": text_of_value(state.get("workflow_id")),
        "status": text_of_value(state.get("status")),
        "phase": None if is_over else current_phase(state),
        "step": None if is_over else current_step(state),
        "phases completed": ", ".join(phases_completed(state)),
    }


def position_lines(run: Run, state: dict[str, Any]) -> Iterator[str]:
    """Yield what a state says of the run, a fact on each line; nothing of the shipped default workflow."""
    facts = state_facts(state)
    if facts["workflow"] == DEFAULT_WORKFLOW:
        del facts["workflow"]
    is_all = state.get("status") == "completed" and {*phase_statuses(state).values()} <= {"completed"}
    if facts["phase"] or is_all:
        del facts["phases completed"]  # those before the phase
    yield from _lines_of(facts | _phase_facts(run, state))


def phase_lines(run: Run, state: dict[str, Any]) -> Iterator[str]:
    """Yield in which phase and step a run is, a fact on each line."""
    yield from _lines_of(_phase_facts(run, state))


def _lines_of(facts: dict[str, str | None]) -> Iterator[str]:
    yield from (one_line(f"{name.capitalize()}: {value}", MAX_LINE) for name, value in facts.items() if value)


def _phase_facts(run: Run, state: dict[str, Any]) -> dict[str, str | None]:
    """Return phase and step, and the resume point if it is another; of a completed phase the next one, and no step."""
    point = resume_point(state)
    is_same = point and (point["phase"], point["step"]) == (current_phase(state), current_step(state))
    is_said = point is None or (is_same and point["mode"] != "start") or not place_of(point)
    resume = f"{place_of(point)} ({point['mode']})" if point and not is_said else None
    phase = current_phase(state)
    if point and is_same and point["mode"] == "continue" and phase in phases_completed(state):
        following = _phase_after(run, state, phase)
        return {"phase": f"{phase} is done{f', {following} is next' if following else ''}", "step": None}
    return {"phase": phase, "step": current_step(state), "resume point": resume} if point else {}


def stop_lines(run: Run, state: dict[str, Any], notes: Sequence[Note] = ()) -> Iterator[str]:
    """Yield what must be settled before work goes on, without what a label in brackets tells the agent to do."""
    for line in say_what_stops(run, state, notes):
        label = next((label for label in (APPROVAL, UNCLEAR, REJECTED) if line.startswith(label)), "")
        yield f"{label.partition(' (')[0]}: {line.removeprefix(label)}" if label else line


def _phase_after(run: Run, state: dict[str, Any], phase: str | None) -> str | None:
    """Return the phase of the workflow that comes after one and is not completed; None if it is not known."""
    workflow_id = text_of_value(workflow_id_of(run, state))
    try:
        workflow = load_workflow(run.root, workflow_id, read_user_config()["plugin_roots"])
    except LedgerError:
        return None
    names = [*dict.fromkeys([step["phase"] for step in steps_in_order(workflow["lineage"])])]
    later = names[names.index(phase) + 1 :] if phase in names else []
    return next((name for name in later if name not in phases_completed(state)), None)


def is_lacking(root: str, text: str) -> bool:
    """Return whether this clone lacks a run or its state; raises AmbiguousRun."""
    run = find_here(root, text)
    if run is None:
        return True
    if not run.is_recorded() or run.is_kept:
        return not os.path.lexists(state_copy_path(run) or run.state_path)
    return not os.path.lexists(run.state_path)


def find_here(root: str, text: str) -> Run | None:
    """Return the run of this clone that a text names; None if there is none. Raises AmbiguousRun.

    FABER's files alone, which may be committed, are none.
    """
    try:
        run = find_restorable(root, text) or match_run(root, text)
    except RunNotFound:
        return None
    return run if run.is_recorded() or has_log(run) else None
