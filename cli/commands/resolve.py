"""`faber-ledger resolve`: resolve the conflicts of runs' files that a merge left in the index."""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.setup.tracking import is_left_out
from faber_ledger.cli.sync.agreement import take_whole
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import match_run, run_option
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.text import quote_word
from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError, NewerFormat, UnionConflict
from faber_ledger.recording.merged_blocks import fold_union
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import state_write
from faber_ledger.runs.conflicts import BASE, OURS, THEIRS, Conflict, find_conflicts, read_here
from faber_ledger.runs.git_command import git, top_of
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.projecting import read_older_states, reproject
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import LEDGER, find_root
from faber_ledger.runs.set_up import SET_UP, lacks_driver
from faber_ledger.runs.state_merge import Merged, is_state, merge_ledgers, merge_states

Result = dict[str, Any]


BOTH = "faber-ledger's two blocks, and both sides' keys"
ONE = "the side that has it"
SIDES = {OURS: "ours", THEIRS: "theirs"}  # as git says it, by its stages


@click.command()
@run_option
@click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
@json_option
def resolve(run: str | None, dry_run: bool, as_json: bool) -> int:
    """Resolve conflicts in git's index, as a clone without the merge driver leaves them.

    \b
    Ledgers are united, state.json is merged key by key, and both are staged. A side that cannot be
    read is left out; if one side lacks or has deleted a run, the run stays. Where ledgers travel in
    git refs, they go into the log, and leave git. docs/guides/GIT.md has the rules.
    Example: faber-ledger resolve --dry-run
    Exit codes: 0 all resolved, or nothing to resolve; 1 a conflict is left; 2 wrong usage; 11 locked.
    """
    root = find_root(os.getcwd())
    top = top_of(root)
    if top is None:
        raise GitFailed("this is not a git repository", hint="run it in the clone whose merge stopped")
    found = find_conflicts(root, top)
    if run is not None:
        run_id = match_run(root, run).run_id
        found = [conflict for conflict in found if conflict.run.run_id == run_id]
    results = [_resolve(root, conflict, found, dry_run=dry_run) for conflict in found]
    if not dry_run:
        _project([one for one in found if not one.is_gone], results)
    show({"dry_run": dry_run, "files": results}, _lines(results, dry_run), as_json=as_json)
    if lacks_driver(root):
        warn(f"note: git has no driver that merges these files in this clone: `{SET_UP}` sets it up")
    return 1 if any(not result["mended"] for result in results) else 0


def _resolve(root: str, conflict: Conflict, found: list[Conflict], *, dry_run: bool) -> Result:
    result: Result = {"path": conflict.path, "mended": True, "how": "", "keys": []}
    try:
        if conflict.has_link:
            raise LedgerError(
                "a link is in its place, which is not followed: take the file from the commit that has it,"
                f" `git checkout COMMIT -- {quote_word(conflict.path)}`"
            )
        if conflict.is_gone:
            result["how"] = _remove(root, conflict, dry_run=dry_run)
        elif conflict.kind == LEDGER:
            result["how"] = _unite(conflict, dry_run=dry_run)
        else:
            merged = _merge(conflict, found)
            if not dry_run:
                _put_state(conflict, merged.content)
            result["how"] = merged.remark
            result["keys"] = [{**loss._asdict(), "text": str(loss)} for loss in merged.losses]
    except (NewerFormat, UnionConflict) as error:
        name = quote_word(conflict.path)
        how = f"{error.lines[0].rstrip(':')}; `git checkout --ours -- {name}`, then `git add {name}`, keeps ours"
        result |= {"mended": False, "how": how}
    except LedgerError as error:
        result |= {"mended": False, "how": error.message}
    return result


def _remove(root: str, conflict: Conflict, *, dry_run: bool) -> str:
    if not dry_run:
        disk.remove(os.path.join(root, *conflict.path.split("/")))
        git("update-index", "--force-remove", "--", conflict.path, at=root)
    return "both sides have deleted it"


def _unite(conflict: Conflict, *, dry_run: bool) -> str:
    """Replace the file with the union of the sides, which the log absorbs, and stage it or remove it."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        sides = {}
        for stage, name in SIDES.items():
            content = conflict.side(stage)
            if content is not None:
                sides[name] = os.path.join(folder, f"{name}.db")
                _put(sides[name], content)
        united = os.path.join(folder, "united.db")
        count, lines = merge_ledgers(sides, united)
        if not dry_run:
            with open(united, "rb") as file:
                _put(conflict.run.ledger_path, file.read())
            if carries_refs(conflict.run.root):
                _leave_the_tree(conflict)
            else:
                git("add", "--", conflict.run.ledger_path)
    for line in lines:
        warn(f"{conflict.path}: {line}")
    if carries_refs(conflict.run.root):
        return f"its events are in the log, and it is removed: ledgers travel in git refs, {events_shown(count)}"
    return f"{'both sides' if len(sides) == len(SIDES) else ONE}, {events_shown(count)}"


def _leave_the_tree(conflict: Conflict) -> None:
    """Take a united ledger into the log, and remove it here and from git's index; raises LedgerError."""
    if not take_whole(conflict.run, warn):
        raise LedgerError(f"it is not taken into the log whole; `git rm -- {quote_word(conflict.path)}` leaves it out")
    _remove(conflict.run.root, conflict, dry_run=False)


def _merge(conflict: Conflict, found: list[Conflict]) -> Merged:
    """Merge the sides of a state; a file that a person has merged already stays. Its ledger may be among `found`."""
    run = conflict.run
    sides = [conflict.side(stage) for stage in (BASE, OURS, THEIRS)]
    base, ours, theirs = [side or b"" for side in sides]
    here = read_here(run.root, conflict.path) or b""
    if is_state(here) and here not in sides:
        return Merged(here, [], "the file as it was edited")
    if None in sides[1:]:
        return Merged(ours or theirs, [], ONE)
    of_run = [one for one in found if one.kind == LEDGER and one.run.run_id == run.run_id]
    ledgers = [content for one in of_run for stage in SIDES if (content := one.side(stage)) is not None]
    merged = merge_states(base, ours, theirs, fold_union(ledgers, (ours, theirs)))
    if is_state(merged.content):
        return merged._replace(remark=merged.remark or BOTH)
    older = next(read_older_states(run), None)
    if older is None:
        raise LedgerError("neither side can be read, nor an older copy: write it, then stage it with `git add`")
    return Merged(older[1].text.encode(), [], f"neither side can be read: {older[0]} is used")


def _put_state(conflict: Conflict, content: bytes) -> None:
    """Write a resolved state; raises StateNotWritten for one that is not writable."""
    path = conflict.run.state_path
    if os.path.lexists(path):
        state_write.check_writable(conflict.run, os.lstat(path))
    _put(path, content)


def _project(found: list[Conflict], results: list[Result]) -> None:
    """Write the blocks of the runs whose ledger or state was resolved, and stage their states."""
    left = {result["path"] for result in results if not result["mended"]}
    runs = {conflict.run.run_id: conflict.run for conflict in found}
    for run in runs.values():
        if run.shown(run.state_path) in left or run.shown(run.ledger_path) in left:
            continue
        try:
            if not lacks_ledger(run):
                record_before_projecting(run, now(), warn=warn)
                reproject(run, rebuild=True, warn=warn)
                if os.path.lexists(run.ledger_path) and not carries_refs(run.root):
                    git("add", "--", run.ledger_path)
            is_in_conflict = run.shown(run.state_path) in [conflict.path for conflict in found]
            if is_in_conflict or (os.path.lexists(run.state_path) and not is_left_out(run.state_path, run.root)):
                git("add", "--", run.state_path)
        except LedgerError as error:
            for result in results:
                if result["path"] == run.shown(run.state_path):
                    result |= {"mended": False, "how": error.message, "keys": []}
            warn(f"note: {run.run_id}: {error.message}{f'; {error.hint}' if error.hint else ''}")


def _lines(results: list[Result], dry_run: bool) -> Iterator[str]:
    if not results:
        yield "no files of runs are in conflict"
    for result in results:
        done = ("would resolve" if dry_run else "resolved") if result["mended"] else "left"
        yield f"{done:<8}  {result['path']}: {result['how']}"
        for key in result["keys"]:
            yield f"  {key['text']}"


def _put(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = disk.own_name(path)
    disk.put(path, content, durable=False, temporary=beside)  # git has it
