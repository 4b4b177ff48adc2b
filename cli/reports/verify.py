"""What `verify` finds wrong with a run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.reports.anchors import hint_to_restore
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.which_run import recheck_under_lock
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError, StateInvalid, StateMissing
from faber_ledger.ledger.file import HINT_RESTORE
from faber_ledger.ledger.journal import find_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.problems import FORGED, UNFIT, LogProblem
from faber_ledger.ledger.redaction import command_for, still_holds_payload
from faber_ledger.ledger.roots import find_foreign_roots, roots_in, starts_in
from faber_ledger.ledger.row import PAYLOAD, TYPE, parse_payload
from faber_ledger.ledger.union import IS_PLACE, NAMING, hash_in
from faber_ledger.ledger.verify import find_problems, name_of
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.projections.difference import differing_blocks
from faber_ledger.projections.fold import fold
from faber_ledger.recording.adoption import list_adoptable, list_unknown
from faber_ledger.runs.copies import WORK_TREE, copies_of, mirror_with_events
from faber_ledger.runs.kept import recorded_alone
from faber_ledger.runs.lost import loss_of_events
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import is_state_ignored, read_state
from faber_ledger.runs.unaccepted import open_unaccepted, read_accepted
from faber_ledger.runs.united import read_log

if TYPE_CHECKING:
    from faber_ledger.projections.blocks import Blocks


EVENTS = f"SELECT id, at, hash FROM event WHERE NOT ({IS_PLACE}) ORDER BY seq, id"
FOREIGN, CHANGED = "foreign_run", "changed_event"


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
    if is_damaged or any(finding.kind == UNFIT for finding in found):
        found = _with_quarantine(run, found, changed if hint is not None else set())
    found = _with_accept(run, found)
    with suppress(LedgerError, sqlite3.DatabaseError):  # one that cannot be read has been reported above
        found += _foreign_runs(run)
    with suppress(LedgerError, sqlite3.DatabaseError):  # a mirror that cannot be read proves nothing
        is_foreign = any(finding.kind == FOREIGN for finding in found)
        found += _rollback_findings(run, is_damaged=is_damaged, is_foreign=is_foreign)
    is_apart = any(finding.kind in (FOREIGN, CHANGED) for finding in found)  # readers show the mirror, not the file
    with suppress(LedgerError, sqlite3.DatabaseError):
        lost = _events_lost(run) if all(finding.kind != "rolled_back" for finding in found) else None
        if lost is not None:
            return [*found, lost]  # state.json agrees again once the ledger is back
    if run.is_kept:
        return [*found, _not_in_tree(run)]
    with suppress(IntegrityError, sqlite3.DatabaseError):  # a log that cannot be read has been reported above
        found += recheck_under_lock(run, lambda: list(_projection_findings(run, is_damaged=is_damaged or is_apart)))
    return found


def _with_quarantine(run: Run, found: list[LogProblem], intact_elsewhere: set[str]) -> list[LogProblem]:
    """Return the findings, with the hint that takes a refused event out, or mends a file whose indexes lie."""
    from faber_ledger.runs.quarantine import judge  # only for a damaged log

    try:
        judgement = judge(run)
        refused = {name_of(one.refused.id) for one in judgement.refused if one.is_in_file} - intact_elsewhere
    except (LedgerError, OSError, sqlite3.Error):
        return found
    hint = f"run `faber-ledger quarantine {run.run_id}`, which takes it out of the file and keeps it aside"
    dropped = {name for name, _ in judgement.dropped}
    out = f"run `{_take_out(run)}`, which takes its payload out, then `faber-ledger redact EVENT --yes`, which says so"
    found = [
        finding._replace(hint=out.replace("EVENT", quote_word(finding.event or "")))
        if finding.kind == UNFIT and finding.event in dropped
        else finding
        for finding in found
    ]
    if judgement.fault is not None:
        rewrite = f"run `{_take_out(run)}`, which writes the file again from what this clone has of the run"
        found = [
            finding._replace(hint=rewrite) if finding.kind == "damaged" or finding.hint == HINT_RESTORE else finding
            for finding in found
        ]
    return [
        finding._replace(hint=f"{finding.hint}; or {hint}" if finding.kind == "missing_parent" else hint)
        if finding.is_damage and finding.event in refused
        else finding
        for finding in found
    ]


def _with_accept(run: Run, found: list[LogProblem]) -> list[LogProblem]:
    """Return the findings, with the hint that keeps what a redaction from elsewhere hides until it is accepted."""
    if mirror_with_events(run) is None or all([finding.kind != "not_redacted" for finding in found]):
        return found
    accepted = read_accepted(run)
    with Log.read(run.ledger_path, allow_incomplete=True) as log:
        gone = effective_redactions(log.connection).gone
    hint = (
        f"run `faber-ledger project {run.run_id}`, which takes it out of the file; what this clone keeps of it is"
        f" listed, and removed, by `faber-ledger redact --accept {run.run_id}`"
    )
    elsewhere = {name for name, one in gone.items() if one.id not in accepted}
    return [
        finding._replace(hint=hint) if finding.kind == "not_redacted" and finding.event in elsewhere else finding
        for finding in found
    ]


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
    """Yield a problem if the log has the start of another run: two ledgers were mixed, or have one id."""
    with Log.read(run.ledger_path, allow_incomplete=True) as log:
        first, foreign = roots_in(log.connection), _foreign_roots(run, log)
        roots = first.keys()
        named = {_run_named(row) for row in first.values()} - {None}
        starts = starts_in(log.connection)
    others = ", ".join(sorted([f"{name:.80}" for name in named if name not in (None, run.run_id)])[:3])
    what = f"it holds the start of another run, too: {others or run.run_id + ', which was started twice'}"
    hint = "restore ledger.db from git, from before the two were mixed; the run's own events are there"
    if foreign:
        hint = f"run `{_take_out(run)}`, or check out the branch that has the run of this clone"
        if roots <= foreign:
            what = "it is another run's than this clone's mirror: they share no first event, two runs have this id"
    if foreign or len(named) > 1 or len(starts) > 1:
        yield LogProblem(FOREIGN, None, what, hint)


def _run_named(row: tuple[Any, ...]) -> str | None:
    """Return the run that a first event names; any later event may say what it likes."""
    named = (parse_payload(row[PAYLOAD] or "") or {}).get("run_id") if row[TYPE] in NAMING else None
    return named if isinstance(named, str) else None


def _foreign_roots(run: Run, log: Log) -> set[bytes]:
    """Return the first events that make a log another run's than this clone's mirror."""
    path = mirror_with_events(run)
    with suppress(LedgerError, sqlite3.DatabaseError):
        if path is not None:
            with Log.read(path) as mirror:
                return find_foreign_roots(mirror, log)
    return set()


def _take_out(run: Run) -> str:
    return f"faber-ledger quarantine {run.run_id}"


def _rollback_findings(run: Run, *, is_damaged: bool, is_foreign: bool) -> Iterator[LogProblem]:
    """Compare the log with its mirror, which no checkout touches.

    What the file lacks is not added to it while it contradicts the mirror, or `is_foreign`.
    """
    path = mirror_with_events(run)
    if path is None:
        return
    why = find_fault(path)
    if why is not None:
        what = f"the journal beside this clone's mirror is never played: it {why}"
        hint = f"run `faber-ledger project {run.run_id}`, which moves it aside"
        yield LogProblem("mirror_journal", None, what, hint)
    with ExitStack() as stack:
        mirror = stack.enter_context(Log.read(path))
        log = stack.enter_context(Log.read(run.ledger_path, allow_incomplete=True))
        waiting = open_unaccepted(run)
        copies = [log, mirror, *([stack.enter_context(waiting)] if waiting is not None else [])]
        found = effective_redactions(*[copy.connection for copy in copies])
        accepted = read_accepted(run)
        kept = {one.target for name, one in found.gone.items() if still_holds_payload(mirror.connection, [name])}
        for name in sorted(kept):
            what = "it is redacted, and this clone's mirror still holds its payload"
            several = found.by_event.get(name, [])
            if not any([one.id in accepted for one in several]):
                continue  # it came from elsewhere: the next append keeps it aside
            hint = f"run `{command_for(name, several)}`, which finishes the redaction"
            yield LogProblem("not_redacted", name, what, hint)
        for name in sorted(found.forged.keys() - effective_redactions(log.connection).forged.keys()):
            what = f"it is forged: {found.forged[name]}, in this clone's mirror"
            hint = f"run `faber-ledger show {quote_word(name)}` to see who wrote it, and when"
            if still_holds_payload(mirror.connection, [found.by_id[name].target]):
                hint = f"run `faber-ledger project {run.run_id}`, which restores the payload"
            yield LogProblem(FORGED, name, what, hint)
        if mirror.heads() == log.heads() and not is_damaged:
            return
        lost = {}
        for name, at, digest in mirror.connection.execute(EVENTS):
            there = hash_in(log, name)
            if there is None:
                lost[name] = at
            elif there != digest:
                what = "this clone's mirror has it with other content: somebody has rewritten the history of the run"
                hint = f"ask who pushed it; `{_take_out(run)}` keeps the mirror's, and the other aside"
                is_foreign = True
                yield LogProblem(CHANGED, name, what, hint)
    for tree in copies_of(run, (WORK_TREE,)) if lost else ():  # they share the mirror
        with suppress(LedgerError, sqlite3.DatabaseError), Log.read(tree.path) as theirs:
            seen = [name for (name,) in theirs.connection.execute("SELECT id FROM event") if name in lost]
            if seen:
                what = f"the worktree {tree.run.root} has {_many(lost, seen)}, which the log here lacks"
                hint = f"run `faber-ledger project {run.run_id}` to add them"
                yield LogProblem("in_another_worktree", None, what, hint)
            for name in seen:
                del lost[name]
    if lost and is_foreign:
        what = f"not in the file: {_many(lost, list(lost))}, which this clone's mirror has and the commands show"
        yield LogProblem("not_in_file", None, what, f"run `{_take_out(run)}`, which adds them")
        return
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
            hint = (
                f"unite the two: run `faber-ledger union ledger.db {quote_word(path)} -o ledger.db` in the run's folder"
            )
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
    left = unknown - {entry["session_id"] for entry in list_adoptable(folded, found)}
    if not left:
        what = plural(len(unknown), "session")
        return f"run `faber-ledger project {run.run_id}` to take over the {what} that another tool wrote into the block"
    path = run.shown(run.state_path)
    return (
        f"copy {path} if you need its session {min(left)}, which the log does not know: git brought it,"
        " or it began while another was open, and the next hook writes the block from the log"
    )
