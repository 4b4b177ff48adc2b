"""`faber-ledger resolve`: resolve the conflicts of runs' files that a merge left in the index."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.setup.ignored import is_left_out
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import project_again
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.change import read_file
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.union import merge_rows, rows_of, write_union
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import state_write
from faber_ledger.runs.active import theirs_is_claimed_here
from faber_ledger.runs.clone import is_recovery_due
from faber_ledger.runs.conflicts import BASE, OURS, THEIRS, Conflict, find_conflicts
from faber_ledger.runs.git_command import git, top_of
from faber_ledger.runs.recovery import recover
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.set_up import SET_UP, lacks_driver
from faber_ledger.runs.state_merge import add_edits, fill_gutted, is_state, merge_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.runs.state_merge import Left

    Result = dict[str, Any]


LONGEST = 300
UNREADABLE = (
    "`git checkout --ours PATH` or `git checkout --theirs PATH` uses the readable side, then stage it with `git add`"
)


@click.command(short_help="Resolve the conflicts that a merge left in runs' files.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
@json_option
def resolve(dry_run: bool, as_json: bool) -> int:
    """Resolve conflicts in the index, as a clone without the merge driver or a hosting site leaves them.

    \b
    Ledgers are united, our blocks of state.json are written again, the active file stays
    ours, and all of them are staged. Where both sides changed the same key of another tool,
    both values are shown and the conflict is left.
    Example: faber-ledger resolve --dry-run
    Exit codes: 0 all resolved, or nothing to resolve; 1 a conflict is left; 2 wrong usage; 11 locked.
    """
    root = find_root(os.getcwd())
    top = top_of(root)
    if top is None:
        raise GitFailed("this is not a git repository", hint="run it in the clone whose merge stopped")
    found = find_conflicts(root, top)
    results = [_resolve(root, conflict, dry_run) for conflict in found]
    if not dry_run:
        _project(found, results)
    show({"dry_run": dry_run, "files": results}, _lines(results, dry_run), as_json=as_json)
    if lacks_driver(root):
        warn(f"note: git has no driver that merges these files in this clone: `{SET_UP}` sets it up")
    return 1 if any(not result["mended"] for result in results) else 0


def _resolve(root: str, conflict: Conflict, dry_run: bool) -> Result:
    path = os.path.join(root, *conflict.path.split("/"))
    result: Result = {"path": conflict.path, "mended": True, "how": "", "keys": []}
    try:
        if conflict.is_ledger and conflict.run is not None:
            result["how"] = _unite(conflict.run, conflict, dry_run)
        else:
            result["how"], content, left = _choose(root, conflict, path)
            if not dry_run and content is not None:
                _put_resolved(conflict, path, content)
            if left:
                keys = [{"key": key, "ours": ours, "theirs": theirs} for key, ours, theirs in left]
                result |= {"mended": False, "keys": keys}
        if not dry_run and not conflict.is_state:
            git("add", "--", path)
    except (LedgerError, sqlite3.Error) as error:
        result |= {"mended": False, "how": str(error)}
    return result


def _unite(run: Run, conflict: Conflict, dry_run: bool) -> str:
    """Unite the sides, and what hooks have appended to the file since the merge stopped, into the ledger."""
    from faber_ledger.schemas.events import check_event  # at its use: `--help` loads every command

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        sides = []
        for stage in (OURS, THEIRS):
            content = conflict.side(stage)
            if content is not None:
                sides.append(os.path.join(folder, f"{stage}.db"))
                _put(sides[-1], content)
                _check_readable(sides[-1], stage)
        if dry_run:
            events = write_union(sides, os.path.join(folder, "united.db"), check_event)
        else:
            os.makedirs(run.directory, exist_ok=True)
            with RunLock(run.lock_path):
                if is_recovery_due(run):
                    recover(run, warn)
                events = write_union([*sides, *_list_readable(run.ledger_path)], run.ledger_path, check_event)
    return f"{'both sides' if len(sides) == 2 else 'the side that has it'}, {events_shown(events)}"


def _check_readable(path: str, stage: str) -> None:
    """Raise IntegrityError, which names the side, if a side is not a ledger."""
    try:
        with open_untrusted(path) as log:
            for _ in merge_rows([rows_of(log)]):
                pass
    except (LedgerError, sqlite3.Error) as error:
        side = "our side (stage 2)" if stage == OURS else "their side (stage 3)"
        reason = str(error).replace(path, "it")
        raise IntegrityError(f"{side} of the ledger cannot be united: {reason}") from error


def _list_readable(path: str) -> list[str]:
    try:
        open_untrusted(path).close()
    except (LedgerError, OSError):
        return []
    return [path]


def _choose(root: str, conflict: Conflict, path: str) -> tuple[str, bytes | None, list[Left]]:
    """Return how another file is resolved, its bytes (None: it is right as it is), and the keys that are left."""
    base, ours, theirs = (conflict.side(stage) for stage in (BASE, OURS, THEIRS))
    here = read_file(path)
    if ours is None or theirs is None:
        side = ours if theirs is None else theirs
        if side is not None and conflict.is_state:
            side = fill_gutted(side, base or b"")
        return "the side that has it", side, []
    if not conflict.is_state:
        named = [side.decode(errors="replace").strip() for side in (ours, theirs)]
        own = theirs if theirs_is_claimed_here(root, *named) else ours
        return "ours stays", None if here is not None and b"<<<<<<<" not in here else own, []
    merged, left = merge_states(base or b"", ours, theirs)
    if here is not None and is_state(here):
        merged, left = add_edits(base or b"", ours, merged, left, here)
    return "both sides changed the same key" if left else "our blocks, and both sides' keys", merged, left


def _project(found: list[Conflict], results: list[Result]) -> None:
    """Write the blocks of the runs whose ledger or state was resolved, and stage their states."""
    left = {result["path"] for result in results if not result["mended"]}
    runs = {conflict.run.run_id: conflict.run for conflict in found if conflict.run is not None}
    for run in runs.values():
        if run.shown(run.state_path) in left or run.shown(run.ledger_path) in left:
            continue
        try:
            if os.path.lexists(run.ledger_path):
                record_before_projecting(run, now(), warn=warn)
                project_again(run, rebuild=True)
                git("add", "--", run.ledger_path)
            is_in_conflict = run.shown(run.state_path) in [conflict.path for conflict in found]
            if is_in_conflict or (os.path.lexists(run.state_path) and not is_left_out(run.state_path, run.root)):
                git("add", "--", run.state_path)
        except LedgerError as error:
            for result in results:
                if result["path"] == run.shown(run.state_path):
                    result |= {"mended": False, "how": error.message}
            warn(f"note: {run.run_id}: {error.message}")


def _lines(results: list[Result], dry_run: bool) -> Iterator[str]:
    if not results:
        yield "no files of runs are in conflict"
    for result in results:
        done = ("would resolve" if dry_run else "resolved") if result["mended"] else "left"
        yield f"{done:<8}  {result['path']}: {result['how']}"
        for key in result["keys"]:
            yield f"  {key['key']}"
            yield f"    ours:   {_short(key['ours'])}"
            yield f"    theirs: {_short(key['theirs'])}"
    if any(not result["mended"] for result in results):
        if any(result["keys"] for result in results):
            yield "the file has our value: edit it as you need, then stage it with `git add`"
        if any(not result["mended"] and not result["keys"] for result in results):
            yield f"files that cannot be read are left: {UNREADABLE}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _put_resolved(conflict: Conflict, path: str, content: bytes) -> None:
    """Write a resolved file; raises StateNotWritten for a state.json that is not writable."""
    if conflict.run is not None and os.path.lexists(path):
        state_write.check_writable(conflict.run, os.lstat(path))
    _put(path, content)


def _put(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = whole_file.own_name(path)
    whole_file.put(path, content, durable=False, temporary=beside)  # git has it
