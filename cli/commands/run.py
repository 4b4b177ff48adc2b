"""`faber-ledger run`: the runs of a project, listed, finished and forgotten; its group has `start` and `resume`."""

import os
import shutil
from collections.abc import Container, Iterable, Iterator
from typing import Any

import click

from faber_ledger.cli.commands.run_start import resume, start
from faber_ledger.cli.reports.run_list import RunFacts, count_events, list_runs, places_of, read_facts
from faber_ledger.cli.reports.usage import week_lines
from faber_ledger.cli.sync.arrival import list_remote_runs, required_remote
from faber_ledger.cli.sync.purge import forget_at_remote
from faber_ledger.cli.ui.attention import Filters, attention_table, describe, filter_options, list_by_need, total_line
from faber_ledger.cli.ui.git_words import no_runs_text, ways_to_unfinished
from faber_ledger.cli.ui.output import json_option, show, warn, warn_of
from faber_ledger.cli.ui.progress import waiting_for
from faber_ledger.cli.ui.which_run import check_in_tree, choose_run, match_run, run_argument
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.cli.worktrees.survey import update_registry
from faber_ledger.context.branch import has_files, where_files_are
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import GitFailed, NotReleased, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.projections.usage import Usage
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.start import complete_record
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.carry import start_sending
from faber_ledger.runs.clone import known_writer, lock_run
from faber_ledger.runs.copies import runs_in_other_work_trees
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.kept_summaries import summary_paths
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import has_log
from faber_ledger.runs.progress import FINISHED, phase_statuses
from faber_ledger.runs.projecting import is_committed
from faber_ledger.runs.run import Run, find_root, inbox_path

MOST_ASKED = 20  # runs without files here; where those are git is asked twice for each


@click.group()
def run() -> None:
    """Start, resume, finish, list and forget the runs of this project."""


@run.command("list", short_help="List the runs of this project.")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N runs.")
@click.option(
    "--remote",
    "at_remote",
    is_flag=True,
    help="The runs at the remote, where ledgers travel in git refs; `run resume RUN` brings one.",
)
@json_option
def run_list(limit: int | None, at_remote: bool, as_json: bool, **wanted: Any) -> None:
    """List the runs that this clone has, those that need somebody first; the active one is marked with `*`.

    A run waits (for an approval, an answer, feedback), has failed, is stale, at work or done. An open session of this
    clone is working or idle while its client lives. `last event` is how long ago that was; with --remote it is `sent`.
    `~` marks a run whose files this work tree does not have; where it has no unfinished run, those of other branches,
    as last fetched, are named. `≥` before tokens: at least so many; `?`: not known here. With --since and --mine their
    sum follows, with --mine also what this clone's own sessions of these runs cost by week, and how long they were at
    work.

    \b
    Example: faber-ledger run list --status in_progress --limit 10
    Exit codes: 0 done; 1 no refs are exchanged here; 2 wrong usage; 13 the remote does not answer.
    """
    root, filters = find_root(os.getcwd()), Filters(**wanted)
    facts_of: dict[str, RunFacts] = {}

    def read(run: Run) -> RunFacts:
        return facts_of.setdefault(run.run_id, read_facts(run))

    rows = list_by_need(_list_at_remote(root, filters) if at_remote else list_runs(root, filters, read))
    ways = [] if at_remote or as_json else _ways_elsewhere(rows, filters, root)
    left_out = len(rows[limit:]) if limit is not None else 0
    rows = rows[:limit]
    remote = attention_table(rows) if rows else ["no run matches at the remote"]
    missing = {} if at_remote else {row["run_id"]: row["branch"] for row in rows if _lacks_files(row, root)}
    lines = [*(remote if at_remote else _table(rows, filters, missing) if rows or not ways else ())]
    if (filters.mine or filters.since is not None) and not at_remote and any([row["usage"] for row in rows]):
        lines.append(total_line(rows))
    if filters.mine and not at_remote:
        own = Usage()
        for row in rows:
            own.add(facts_of[row["run_id"]].usage.by("writer").get(known_writer(root), Usage()))
        lines += week_lines(own)
    if left_out:
        lines.append(f"{plural(left_out, 'more run')} not shown")
    lines += _lines_about_files(missing, root)
    lines += ["runs of other branches:", *[f"  {way}" for way in ways]] if ways else []
    show(rows, lines, as_json=as_json)


def _lacks_files(row: dict[str, Any], root: str) -> bool:
    """Return whether no work tree has the files of a run that somebody may go on with."""
    is_here = row["in_work_tree"] or row["active"] or row["status"] in FINISHED
    return not (is_here or runs_in_other_work_trees(find_run(root, row["run_id"])))


def _lines_about_files(branches: dict[str, str | None], root: str) -> Iterable[str]:
    """Return where the files are of runs that this work tree lacks, by their branches, and how they come here."""
    lines: dict[str, None] = {}
    for run_id, branch in [*branches.items()][:MOST_ASKED]:
        run = find_run(root, run_id)
        if has_files(run, branch):
            lines["~ not in this work tree, but on its branch"] = None
        else:
            lines[f"~ {run_id} has no files in this work tree: {where_files_are(run, branch)}"] = None
    if (left := len(branches) - MOST_ASKED) > 0:
        has = "has" if left == 1 else "have"
        lines[f"~ {left} more {has} no files here: `faber-ledger status RUN` says where they are"] = None
    return lines


def _ways_elsewhere(rows: list[dict[str, Any]], filters: Filters, root: str) -> list[str]:
    """Return where unfinished runs of other branches are, if the work tree has none; only --work-id filters them."""
    work_id, at_work = filters.work_id, [row for row in rows if row["status"] not in FINISHED]
    if filters != Filters(work_id=work_id) or any([row["in_work_tree"] for row in at_work]):
        return []
    return ways_to_unfinished(root, work_id)


def _list_at_remote(root: str, filters: Filters) -> list[dict[str, Any]]:
    """Return the runs at the remote as their newest commits describe them, the newest first."""
    remote = required_remote(root)
    try:
        with waiting_for(remote.name):
            found = list_remote_runs(remote, root)
    except GitFailed as error:
        raise ServerUnavailable(f"{remote.name} does not answer: {error.message}", hint=error.hint) from error
    rows = []
    for one in found:
        sent_at, is_mine = utc_text(one.at), one.writer == known_writer(root)
        about = {"is_mine": is_mine, "last_sent_at": sent_at, "last_heard_at": sent_at}
        row = {**one._asdict(), **about, "is_here": has_log(find_run(root, one.run_id))}
        rows.append(describe(row, one.state(), filters, root, None, is_open=bool(one.open_session)))
    return [row for row in rows if filters.fit(row)]


def _table(rows: list[dict[str, Any]], filters: Filters, missing: Container[str]) -> Iterator[str]:
    if not rows and filters == Filters():
        yield no_runs_text(find_root(os.getcwd()))
        return
    if not rows:
        yield "no run has a session of this clone" if filters == Filters(mine=True) else "no run matches"
        return
    yield from attention_table(rows, lambda row: "* " if row["active"] else "~ " if row["run_id"] in missing else "  ")
    for row in rows:
        for problem in filter(None, [row["problem"], row["ledger_problem"]]):
            yield f"{row['run_id']}: {problem}"


@run.command(short_help="Remove a run's log, or its ref at the remote.")
@run_argument
@click.option("--remote", "at_remote", is_flag=True, help="Delete the run's git ref at the remote, and nothing here.")
@click.option("--yes", is_flag=True, help="Remove it; without this, the command says what would be removed.")
@json_option
def forget(run: str | None, at_remote: bool, yes: bool, as_json: bool) -> None:
    """Remove the log of a run that is gone from every worktree and branch; or its ref at the remote.

    With the log go the copy of its state, the summaries beside it, and deliveries that wait to be recorded. With
    --remote the ref's events are fetched into this clone's log before; any other clone that has the run restores the
    ref at its next sync.

    \b
    Example: faber-ledger run forget myproject-258-20260105-143022-a1b2c3
    Exit codes: 0 done; 1 the run still exists, or --yes is needed; 2 wrong usage;
    10 the run has no log, or the remote no ref of it; 13 the remote does not answer; 14 it refuses.
    """
    if run is None:
        raise click.UsageError("Give RUN or --work-id.")
    root = find_root(os.getcwd())
    meant, run_id = find_run(root, run), run
    if not at_remote and not has_log(meant):
        meant = match_run(root, run)
        run_id = meant.run_id
    if at_remote:
        remote = required_remote(root)
        with waiting_for(remote.name):
            found = forget_at_remote(remote, meant, warn, is_sure=yes)
        gone = f"its ref, with {found.has}, is deleted" if found.has else "its ref is gone already"
        lines = [
            f"{meant.run_id}: {gone} at {remote.name}",
            f"  this clone sends it again only by its name: `faber-ledger sync {meant.run_id}`",
            "  another clone that has recorded on it may send it again",
        ]
        show({"run_id": meant.run_id, "deleted": True, "events": found.events}, lines, as_json=as_json)
        return
    if not has_log(meant):
        raise RunNotFound(f"this clone has no log of a run {run_id}", hint="run `faber-ledger run list`")
    places = places_of(meant)
    if places:
        raise LedgerError(f"the run {run_id} still exists: {', '.join(places)}", hint="a run that exists keeps its log")
    events, waiting, summaries = count_events(meant.log_path), len(list_waiting(meant)), len(summary_paths(meant))
    what = f"the log of {run_id}, with {events_shown(events)}"
    if waiting:
        what += f" and {plural(waiting, 'delivery', 'deliveries')} never recorded"
    if not yes:
        only = "" if is_committed(meant) else "; no commit has the run"
        raise LedgerError(
            f"this would remove {what}{only}",
            hint=f"`faber-ledger run resume {run_id}` restores the run; --yes removes what is left of it",
        )
    shutil.rmtree(meant.private_folder)
    shutil.rmtree(inbox_path(meant), ignore_errors=True)
    data = {"run_id": run_id, "events": events, "summaries": summaries, "waiting": waiting}
    show(data, [f"removed {what}"], as_json=as_json)


WHEN_MERGED = "  When it is committed and merged, `faber-ledger worktree cleanup` in another worktree removes this one"


@run.command(short_help="Complete a released run.")
@run_argument
@json_option
def finish(run: str | None, as_json: bool) -> None:
    """Complete RUN (default: the active run), whose Release phase is completed.

    \b
    Example: faber-ledger run finish
    Exit codes: 0 done; 1 Release is not completed, or the state cannot be read or
    written; 2 wrong usage; 10 no such run.
    """
    root, at = find_root(os.getcwd()), now()
    chosen = check_in_tree(choose_run(root, run, records=True))
    _complete(chosen, at)
    ended = complete_record(chosen, at=at, environ=os.environ, warn=warn)
    start_sending(root)
    update_registry(root, at=at, warn=warn)
    work_tree = work_tree_of(root)
    top = work_tree.top if work_tree and work_tree.is_linked else None
    lines = [f"✓ Workflow completed: {chosen.run_id}", *[f"  Session ended: {name}" for name in ended]]
    lines += [WHEN_MERGED] if top else []
    show({"run_id": chosen.run_id, "worktree": top}, lines, as_json=as_json)


def _complete(run: Run, at: float) -> None:
    """Write into the state that the run is completed; raises NotReleased, and as `write_members`."""
    with lock_run(run):
        state = state_file.read_state(run).value
        if state.get("status") == "completed":
            return
        release = phase_statuses(state).get("release", "pending")
        if state.get("status") not in progress.ACTIVE or release != "completed":
            hint = f"when it is released, set phases.release.status to completed in {run.shown(run.state_path)}"
            raise NotReleased(
                f"the run {run.run_id} is {state.get('status')}, and its Release phase {release}",
                hint=hint if state.get("status") in progress.ACTIVE else "",
            )
        moment = utc_text(at)
        members = {"status": "completed", "completed_at": moment, "updated_at": moment}
        state_write.write_members(run, members, warn=warn_of)


for command in (start, resume):
    run.add_command(command)
