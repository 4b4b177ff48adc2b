"""`faber-ledger resolve`: mends the conflicts of runs' files that a merge has left in the index."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.conflicts import BASE, OURS, THEIRS, Conflict, conflicts
from faber_ledger.cli.git import GitFailed, git, top_of
from faber_ledger.cli.merge_driver import merged_state
from faber_ledger.cli.output import json_option, show, warn
from faber_ledger.cli.words import events_shown
from faber_ledger.context.file_change import read_file
from faber_ledger.context.mirror_path import is_recovery_due
from faber_ledger.context.project import Run, find_root
from faber_ledger.context.recover import recover
from faber_ledger.context.regenerate import regenerated
from faber_ledger.context.state_merge import conflicting_keys, is_state, with_one_shape
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import opened
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.union import write_union

if TYPE_CHECKING:
    from collections.abc import Iterator

    Result = dict[str, Any]

LONGEST = 300


@click.command(short_help="Mend the conflicts of runs' files that a merge has left.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing.")
@json_option
def resolve(dry_run: bool, as_json: bool) -> int:
    """Mend conflicts that are in the index already: a clone without the merge driver, or a hosting site, made them.

    \b
    Ledgers are united, our blocks of state.json are written anew, the active file stays
    ours, and all of it is staged. Where both sides changed the same of somebody's keys,
    both are shown and the conflict is left.
    Example: faber-ledger resolve --dry-run
    Exit codes: 0 all mended, or nothing to mend; 1 a conflict is left; 2 wrong usage; 11 locked.
    """
    root = find_root(os.getcwd())
    top = top_of(root)
    if top is None:
        raise GitFailed("this is no git repository", hint="run it in the clone whose merge has stopped")
    found = conflicts(root, top)
    results = [_mended(root, conflict, dry_run) for conflict in found]
    if not dry_run:
        _project(found, results)
    show({"dry_run": dry_run, "files": results}, _lines(results, dry_run), as_json=as_json)
    return 1 if any(not result["mended"] for result in results) else 0


def _mended(root: str, conflict: Conflict, dry_run: bool) -> Result:
    path = os.path.join(root, *conflict.path.split("/"))
    result: Result = {"path": conflict.path, "mended": True, "how": "", "keys": []}
    try:
        if conflict.name == "ledger.db" and conflict.run is not None:
            result["how"] = _united(conflict.run, conflict, dry_run)
        else:
            result["how"], content = _chosen(conflict, path)
            if not dry_run and content is not None:
                _put(path, content)
        if not dry_run and conflict.name != "state.json":
            git("add", "--", path)
    except (LedgerError, sqlite3.Error) as error:
        result |= {"mended": False, "how": str(error), "keys": _keys(conflict)}
    return result


def _united(run: Run, conflict: Conflict, dry_run: bool) -> str:
    """Unite the sides, and what hooks have appended to the file since the merge stopped, into the ledger."""
    from faber_ledger.schemas.events import check_event  # at its use: `--help` loads every command

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        sides = []
        for stage in (OURS, THEIRS):
            content = conflict.side(stage)
            if content is not None:
                sides.append(os.path.join(folder, f"{stage}.db"))
                _put(sides[-1], content)
        if dry_run:
            events = write_union(sides, os.path.join(folder, "united.db"), check_event)
        else:
            os.makedirs(run.directory, exist_ok=True)
            with RunLock(run.lock_path):
                if is_recovery_due(run.ledger_path):
                    recover(run)
                events = write_union([*sides, *_readable(run.ledger_path)], run.ledger_path, check_event)
    return f"{'both sides' if len(sides) == 2 else 'the side that has it'}, {events_shown(events)}"


def _readable(path: str) -> list[str]:
    try:
        opened(path).close()
    except (LedgerError, OSError):
        return []
    return [path]


def _chosen(conflict: Conflict, path: str) -> tuple[str, bytes | None]:
    """Say how a state or the active file is mended, and give its bytes; None if the file is right as it is."""
    base, ours, theirs = (conflict.side(stage) for stage in (BASE, OURS, THEIRS))
    here = read_file(path)
    if ours is None or theirs is None:
        return "the side that has it", ours if theirs is None else theirs
    if conflict.name != "state.json":
        return "ours stays", None if here is not None and b"<<<<<<<" not in here else ours
    if here is not None and is_state(here):
        ours = here  # a hook, or somebody's editor, has been at it since
    return "our blocks, and both sides' keys", merged_state(base or b"", ours, theirs)


def _project(found: list[Conflict], results: list[Result]) -> None:
    """Write the blocks of the runs whose ledger or state was mended, and stage their states."""
    left = {result["path"] for result in results if not result["mended"]}
    runs = {conflict.run.run_id: conflict.run for conflict in found if conflict.run is not None}
    for run in runs.values():
        if run.shown("state.json") in left or run.shown("ledger.db") in left:
            continue
        try:
            if os.path.lexists(run.ledger_path):
                regenerated(run, rebuild=True, warn=warn)
                git("add", "--", run.ledger_path)
            git("add", "--", run.state_path)
        except LedgerError as error:
            for result in results:
                if result["path"] == run.shown("state.json"):
                    result |= {"mended": False, "how": error.message}
            warn(f"note: {run.run_id}: {error.message}")


def _keys(conflict: Conflict) -> list[dict[str, str]]:
    if conflict.name != "state.json":
        return []
    try:
        keys = conflicting_keys(*with_one_shape(*[conflict.side(stage) or b"" for stage in (BASE, OURS, THEIRS)]))
    except ValueError:
        return []
    return [{"key": key, "ours": ours, "theirs": theirs} for key, ours, theirs in keys]


def _lines(results: list[Result], dry_run: bool) -> Iterator[str]:
    if not results:
        yield "no run's file is in conflict"
    for result in results:
        done = ("would mend" if dry_run else "mended") if result["mended"] else "left"
        yield f"{done:<6}  {result['path']}: {result['how']}"
        for key in result["keys"]:
            yield f"  {key['key']}"
            yield f"    ours:   {_short(key['ours'])}"
            yield f"    theirs: {_short(key['theirs'])}"
    if any(not result["mended"] for result in results):
        yield "edit what is left until it says what you mean, then stage it with `git add`"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _put(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(content)
    os.replace(temporary, path)
