"""What `verify` finds wrong with a run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from faber_ledger.cli.reports.anchors import hint_to_restore
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.which_run import recheck_under_lock
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError, ProjectionDiffers, StateInvalid, StateMissing
from faber_ledger.ledger.journal import find_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.problems import FORGED, LogProblem
from faber_ledger.ledger.redaction import command_for, still_holds_payload
from faber_ledger.ledger.union import hash_in, runs_in
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.projections.difference import differing_blocks
from faber_ledger.projections.fold import fold
from faber_ledger.recording.adoption import list_unknown, list_written
from faber_ledger.runs.copies import WORK_TREE, copies_of, mirror_with_events
from faber_ledger.runs.kept import recorded_alone
from faber_ledger.runs.lost import loss_of_events
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import is_state_ignored, read_state
from faber_ledger.runs.united import read_log

if TYPE_CHECKING:
    from faber_ledger.projections.blocks import Blocks


def run_findings(run: Run, *, is_one_of_many: bool = False) -> list[LogProblem]:
    """Return everything that is wrong with a run's log, its mirror and its state.json; raises as `find_problems`.

    A progress bar is shown for a long log, if the run is not one of many.
    """
    from faber_ledger.schemas.events import check_event  # at its use: `--help` loads every command

    found: list[LogProblem] = []
    with progress(run, "verifying", is_one_of_many=is_one_of_many) as advance:
        found += find_problems(run.ledger_path, check_event=check_event, advance=advance)
    changed = {finding.event for finding in found if finding.kind == "hash" and finding.event is not None}
    hint = hint_to_restore(run, changed) if changed else None
    if hint is not None:
        found = [finding._replace(hint=hint) if finding.kind == "hash" else finding for finding in found]
    is_damaged = any(finding.is_damage for finding in found)
    with suppress(LedgerError, sqlite3.DatabaseError):  # one that cannot be read has been reported above
        found += _foreign_runs(run)
    with suppress(LedgerError, sqlite3.DatabaseError):  # a mirror that cannot be read proves nothing
        found += _rollback_findings(run, is_damaged=is_damaged)
    with suppress(LedgerError, sqlite3.DatabaseError):
        lost = _events_lost(run) if all(finding.kind != "rolled_back" for finding in found) else None
        if lost is not None:
            return [*found, lost]  # state.json agrees again once the ledger is back
    if run.is_kept:
        return [*found, _not_in_tree(run)]
    with suppress(IntegrityError, sqlite3.DatabaseError):  # a log that cannot be read has been reported above
        found += recheck_under_lock(run, lambda: list(_projection_findings(run, is_damaged=is_damaged)))
    return found


def _not_in_tree(run: Run) -> LogProblem:
    """Return the note on a kept run; the copy of its state is for this program alone, and is not compared."""
    what = "not in this work tree: the log that this clone keeps below the git directory was verified"
    hint = f"check its branch out, or run `faber-ledger run resume {run.run_id}` to bring its files here"
    return LogProblem("not_in_tree", None, what, hint)


def _events_lost(run: Run) -> LogProblem | None:
    """Return a problem if the log has no event and git's last commit has another log."""
    with Log.read(run.ledger_path, allow_incomplete=True) as log:
        if log.connection.execute("SELECT 1 FROM event LIMIT 1").fetchone() is not None:
            return None
    lost = loss_of_events(run)
    return None if lost is None else LogProblem("rolled_back", None, *lost)


def _foreign_runs(run: Run) -> Iterator[LogProblem]:
    """Yield a problem if the log has the start of another run, too: two ledgers were mixed."""
    with Log.read(run.ledger_path, allow_incomplete=True) as log:
        named = runs_in(log)
    if len(named) > 1:
        others = ", ".join(sorted([f"{name:.80}" for name in named - {run.run_id}])[:3])
        hint = "restore ledger.db from git, from before the two were mixed; the run's own events are there"
        yield LogProblem("foreign_run", None, f"it holds the start of another run, too: {others}", hint)


def _rollback_findings(run: Run, *, is_damaged: bool) -> Iterator[LogProblem]:
    """Compare the log with its mirror, which no checkout touches."""
    path = mirror_with_events(run)
    if path is None:
        return
    why = find_fault(path)
    if why is not None:
        what = f"the journal beside this clone's mirror is never played: it {why}"
        hint = f"run `faber-ledger project {run.run_id}`, which moves it aside"
        yield LogProblem("mirror_journal", None, what, hint)
    with Log.read(path) as mirror, Log.read(run.ledger_path, allow_incomplete=True) as log:
        found = effective_redactions(log.connection, mirror.connection)
        kept = {one.target for name, one in found.gone.items() if still_holds_payload(mirror.connection, [name])}
        for name in sorted(kept):
            what = "it is redacted, and this clone's mirror still holds its payload"
            hint = f"run `{command_for(name, found.by_event.get(name, []))}`, which finishes the redaction"
            yield LogProblem("not_redacted", name, what, hint)
        for name in sorted(found.forged.keys() - effective_redactions(log.connection).forged.keys()):
            what = f"it is forged: {found.forged[name]}, in this clone's mirror"
            hint = f"run `faber-ledger project {run.run_id}`, which restores the payload"
            yield LogProblem(FORGED, name, what, hint)
        if mirror.heads() == log.heads() and not is_damaged:
            return
        rows = mirror.connection.execute("SELECT id, at FROM event ORDER BY seq, id")
        lost = {name: at for name, at in rows if hash_in(log, name) is None}
    for tree in copies_of(run, (WORK_TREE,)) if lost else ():  # they share the mirror
        with suppress(LedgerError, sqlite3.DatabaseError), Log.read(tree.path) as theirs:
            seen = [name for (name,) in theirs.connection.execute("SELECT id FROM event") if name in lost]
            if seen:
                what = f"the worktree {tree.run.root} has {_many(lost, seen)}, which the log here lacks"
                hint = f"run `faber-ledger project {run.run_id}` to add them"
                yield LogProblem("in_another_worktree", None, what, hint)
            for name in seen:
                del lost[name]
    alone = recorded_alone(run) if lost and not is_damaged else set()
    waits = [name for name in lost if name in alone]
    if waits:
        what = f"not in the file yet: {_many(lost, waits)}, which this clone recorded while the file stayed as it is"
        hint = f"run `faber-ledger seal {run.run_id}` to add them; so does the next event on the run"
        yield LogProblem("not_in_file", None, what, hint)
    for name in waits:
        del lost[name]
    if lost:
        what = f"this clone's mirror has {_many(lost, list(lost))}, which the file lacks: git restored an older version"
        hint = f"run `faber-ledger project {run.run_id}` to restore them"
        if is_damaged:
            what = what.removesuffix(": git restored an older version")
            hint = f"unite the two: run `faber-ledger union ledger.db {path} -o ledger.db` in the run's folder"
        yield LogProblem("rolled_back", None, what, hint)


def _many(times: dict[str, str], names: list[str]) -> str:
    first, last = times[names[0]], times[names[-1]]
    return f"{events_shown(len(names))}, " + (f"of {first}" if len(names) == 1 else f"from {first} to {last}")


def _projection_findings(run: Run, *, is_damaged: bool) -> Iterator[LogProblem]:
    hint = f"run `faber-ledger project {run.run_id}` to write the two blocks from the log"
    if is_damaged:
        hint = "fix the log first: what it projects now is not reliable"
    with Log.read(run.ledger_path, allow_incomplete=True) as log:
        blocks = fold(log.stream())
        if not is_damaged and not log.heads():
            hint = "the log has no event yet, and its first one adopts what state.json says: run"
            hint += f" `faber-ledger session-load --run-id {run.run_id}`"
    try:
        state = read_state(run).value
    except (StateMissing, StateInvalid) as error:
        if is_state_ignored(run):
            what = f"git ignores {run.shown(run.state_path)}, and it is not here: there is nothing to compare"
            hint = f"you need not run anything; `faber-ledger run resume {run.run_id}` continues the run here"
            yield LogProblem("state_ignored", None, what, hint)
            return
        yield LogProblem(ProjectionDiffers.code, None, f"state.json cannot be compared: {error.message}", error.hint)
        return
    differing = differing_blocks(blocks, state)
    if differing and not is_damaged:
        hint = _hint_for_unknown(run, blocks_of(state)) or hint
    for name in differing:
        yield LogProblem(
            ProjectionDiffers.code, None, f"the block `{name}` in state.json is not what the log says", hint
        )


def _hint_for_unknown(run: Run, found: Blocks) -> str | None:
    """Return what to do about sessions that the log does not know; None if it knows all."""
    try:
        with read_log(run) as log:
            folded = fold(log.stream())
            unknown = {entry["session_id"] for entry in list_unknown(folded, found)}
            if not (unknown and log.heads()):
                return None
    except LedgerError:
        return None
    left = unknown - {entry["session_id"] for entry in list_written(run, folded, found)}
    if not left:
        what = plural(len(unknown), "session")
        return f"run `faber-ledger project {run.run_id}` to take over the {what} that another tool wrote into the block"
    path = run.shown(run.state_path)
    return (
        f"copy {path} if you need its session {min(left)}, which the log does not know: git brought it,"
        " or it began while another was open, and the next hook writes the block from the log"
    )
