"""`faber-ledger project`: write the two blocks of state.json from the log."""

import os
from typing import Any

import click

from faber_ledger.cli.ui.output import json_option, say, show
from faber_ledger.cli.ui.which_run import run_argument, run_to_project
from faber_ledger.cli.ui.words import publishing_hint
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.foreign import missing_in_file
from faber_ledger.projections.difference import differing_blocks
from faber_ledger.projections.fold import fold
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.conflicts import check_not_in_conflict
from faber_ledger.runs.log import read_log
from faber_ledger.runs.projecting import reproject, restore_backup
from faber_ledger.runs.publish import carries_refs, why_not_published
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import TreeNote


@click.command()
@run_argument
@click.option("--rebuild", is_flag=True, help="Fold the whole log, even if state.json shows it already.")
@click.option("--restore", is_flag=True, help="Replace a broken state.json with its newest readable backup.")
@json_option
def project(run: str | None, rebuild: bool, restore: bool, as_json: bool) -> None:
    """Write the blocks `sessions` and `context_metadata` of state.json from RUN's log (default: the active run).

    \b
    Example: faber-ledger project --rebuild
    Exit codes: 0 done; 1 a file cannot be read or written; 2 wrong usage;
    10 no such run or ledger; 11 locked; 12 newer format; 20 the ledger is damaged.
    """
    if rebuild and restore:
        raise click.UsageError("Give one of --rebuild and --restore.")
    chosen = run_to_project(run, needs_ledger=not restore)
    had_backup = os.path.lexists(chosen.backup_path)
    result = _project_run(chosen, rebuild=rebuild, restore=restore)
    if had_backup and not os.path.lexists(chosen.backup_path):
        result["removed"] = os.path.basename(chosen.backup_path)
    show(result, _lines(chosen, result), as_json=as_json)


def _project_run(run: Run, *, rebuild: bool, restore: bool) -> dict[str, Any]:
    """Write a run's blocks, restoring a backup first if needed, and return the outcome; raises as `reproject`.

    Raises StateInvalid, too, for a state in conflict: a projection or a backup would lose one side's keys.
    """
    check_not_in_conflict(run)
    missing = not os.path.lexists(run.state_path)
    if restore:
        used, has_events = restore_backup(run, warn=say)
        if has_events:
            record_before_projecting(run, now(), warn=say)
            reproject(run, rebuild=True, warn=say)
        name = os.path.basename(used)
        return {"run_id": run.run_id, "outcome": "restored", "backup": name, "projected": has_events}
    has_adopted = record_before_projecting(run, now(), warn=say)
    result = reproject(run, rebuild=rebuild, warn=say, defaults={})
    if result.source is not None:
        return {"run_id": run.run_id, "outcome": "restored", "backup": result.source, "projected": True}
    if missing:
        return {"run_id": run.run_id, "outcome": "made", "unknown": result.unknown}
    if result.is_changed:
        return {"run_id": run.run_id, "outcome": "written"}
    with read_log(run) as log:
        state = state_write.read_known(run)
        why = None if state.shows(log) else why_not_published(run, state.value, TreeNote(run), log, on_purpose=rebuild)
        is_there = carries_refs(run.root) or not missing_in_file(log, run.ledger_path)
        is_whole = is_there and not differing_blocks(fold(log.stream()), state.value)
    if why is not None and not is_whole:
        return {"run_id": run.run_id, "outcome": "not_published", "why": why}
    return {"run_id": run.run_id, "outcome": "written" if has_adopted else "unchanged"}


def _lines(run: Run, result: dict[str, Any]) -> list[str]:
    run_id, outcome = run.run_id, result["outcome"]
    removed = [f"{run_id}: {result['removed']} removed, since the run is finished"] if "removed" in result else []
    if outcome == "made":
        return [
            f"{run_id}: state.json was missing and was created; the log does not know: {', '.join(result['unknown'])}",
            f"  hint: add what you know, or run `faber-ledger run resume {run_id}` to continue it",
        ]
    if outcome == "not_published":
        hint = publishing_hint(run, TreeNote(run), state_file.read_state(run).value)
        return [*removed, f"{run_id}: nothing is written, because {result['why']}; {hint}"]
    words = {
        "written": "sessions and context_metadata written from the log",
        "unchanged": "state.json already shows what the log says",
        "restored": f"state.json restored from {result.get('backup')}, "
        + ("and the log projected onto it" if result.get("projected") else "as it is: there are no events to project"),
    }
    return [f"{run_id}: {words[outcome]}", *removed]
