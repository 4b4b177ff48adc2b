"""`faber-ledger resolve`: resolve the conflicts of runs' files that a merge left in the index."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.setup.ignored import is_left_out
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import project_again
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.conflict_markers import has_markers
from faber_ledger.files.text import quote_word
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import IntegrityError, LedgerError, UnionConflict
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.union import merge_rows, write_union
from faber_ledger.recording.masked_state import mask_alike
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.conflicts import (
    OURS,
    THEIRS,
    Conflict,
    base_of_markers,
    find_conflicts,
    find_marked,
    find_other_projects_in_conflict,
    names_set_aside,
    read_here,
)
from faber_ledger.runs.git_command import git, top_of
from faber_ledger.runs.git_operation import Operation, stopped_operation
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.projecting import find_committed
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.set_up import SET_UP, lacks_driver
from faber_ledger.runs.state_merge import (
    Newer,
    add_edits,
    fill_gutted,
    find_newer,
    is_state,
    merge_states,
    settle_markers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.runs.state_merge import Left

    Result = dict[str, Any]
    Settled = tuple[bytes, list[Left]]


LONGEST = 300
UNREADABLE = (
    "`git checkout --ours PATH` or `git checkout --theirs PATH` uses the readable side, then stage it with `git add`"
)


class Resolved(NamedTuple):
    """A state that is resolved, and how.

    `keys` are those that both sides changed; `newer` is the side that was updated later, if one was, and
    `is_taken` whether the keys have that side's values.
    """

    how: str
    content: bytes
    keys: list[Left]
    newer: Newer | None = None
    is_taken: bool = False


@click.command(short_help="Resolve the conflicts that a merge left in runs' files.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
@click.option(
    "--newer",
    "takes_newer",
    is_flag=True,
    help="Where both sides changed the same key of state.json, take the values of the side updated later.",
)
@json_option
def resolve(dry_run: bool, takes_newer: bool, as_json: bool) -> int:
    """Resolve conflicts in the index or committed with their markers, as a clone without the merge driver leaves them.

    \b
    Ledgers are united, our blocks of state.json are written again, and both are staged. Where
    both sides changed the same key of another tool, both values are shown and the conflict is
    left; --newer takes all such keys from the side whose updated_at is later, and says which
    side that is. A side that cannot be read as a state is replaced by the newest valid state
    in git.
    Of a run that one side lacks or has deleted, the side that has it holds.
    Example: faber-ledger resolve --dry-run
    Exit codes: 0 all resolved, or nothing to resolve; 1 a conflict is left; 2 wrong usage; 11 locked.
    """
    root = find_root(os.getcwd())
    top = top_of(root)
    if top is None:
        raise GitFailed("this is not a git repository", hint="run it in the clone whose merge stopped")
    found = find_conflicts(root, top)
    known = {conflict.path for conflict in found}
    found += [conflict for conflict in find_marked(root) if conflict.path not in known]
    links, found = [one for one in found if one.links], [one for one in found if not one.links]
    operation = stopped_operation(root)
    results = [
        _remove(root, conflict, dry_run=dry_run)
        if conflict.is_gone
        else _resolve(root, conflict, operation, dry_run=dry_run, takes_newer=takes_newer)
        for conflict in found
    ]
    results += [_describe_link(root, conflict, operation) for conflict in links]
    if not dry_run:
        _project([one for one in found if not one.is_gone], results)
    others = find_other_projects_in_conflict(root, top)
    data = {"dry_run": dry_run, "files": results, "other_projects": others}
    show(data, _lines(results, others, dry_run), as_json=as_json)
    if lacks_driver(root):
        warn(f"note: git has no driver that merges these files in this clone: `{SET_UP}` sets it up")
    return 1 if others or any(not result["mended"] for result in results) else 0


def _remove(root: str, conflict: Conflict, *, dry_run: bool) -> Result:
    """Remove a file that both sides have deleted."""
    if not dry_run:
        whole_file.remove(os.path.join(root, *conflict.path.split("/")))
        git("update-index", "--force-remove", "--", conflict.path, at=root)
    return {"path": conflict.path, "mended": True, "how": "both sides have deleted it", "keys": []}


def _resolve(root: str, conflict: Conflict, operation: Operation, *, dry_run: bool, takes_newer: bool) -> Result:
    path = os.path.join(root, *conflict.path.split("/"))
    result: Result = {"path": conflict.path, "mended": True, "how": "", "keys": []}
    try:
        if conflict.is_ledger:
            result["how"] = _unite(conflict.run, conflict, dry_run)
        else:
            resolved = _choose(conflict.run, conflict, operation, takes_newer=takes_newer)
            if not dry_run:
                _put_resolved(conflict, path, resolved.content)
            result["how"] = resolved.how
            if resolved.keys:
                result["keys"] = [{"key": key, "ours": ours, "theirs": theirs} for key, ours, theirs in resolved.keys]
                result["mended"] = resolved.is_taken
                result["newer"] = resolved.newer._asdict() if resolved.newer is not None else None
        if not dry_run and not conflict.is_state:
            git("add", "--", path)
    except UnionConflict as error:
        name = quote_word(conflict.path)
        how = f"{error.lines[0].rstrip(':')}; `git checkout --ours -- {name}`, then `git add {name}`, keeps ours"
        result |= {"mended": False, "how": how}
    except (LedgerError, sqlite3.Error) as error:
        result |= {"mended": False, "how": str(error)}
    return result


def _describe_link(root: str, conflict: Conflict, operation: Operation) -> Result:
    """Return the result of a file that is a link on one side: it is left, with the commands that take the file."""
    how = "a link is in its place, which is not followed: "
    revision = "HEAD" if OURS not in conflict.links else operation.other
    if (THEIRS in conflict.links and OURS in conflict.links) or revision is None:
        how += "end the merge with `git merge --abort`, or put a file there and stage it with `git add`"
    else:
        commands = [f"git checkout {revision[:12]} -- {quote_word(conflict.path)}"]
        aside = names_set_aside(root, conflict)
        commands += [f"git rm --quiet -- {' '.join([quote_word(name) for name in aside])}"] if aside else []
        how += f"`{' && '.join(commands)}` takes the side with a file; then `faber-ledger resolve` again"
    return {"path": conflict.path, "mended": False, "how": how, "keys": [], "is_link": True}


def _unite(run: Run, conflict: Conflict, dry_run: bool) -> str:
    """Unite the sides, and what hooks have appended to the file since the merge stopped, into the ledger."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        sides = []
        for stage in (OURS, THEIRS):
            content = conflict.side(stage)
            if content is not None:
                sides.append(os.path.join(folder, f"{stage}.db"))
                _put(sides[-1], content)
                _check_readable(sides[-1], stage)
        if dry_run:
            united = write_union(sides, os.path.join(folder, "united.db"), adopts=True)
        else:
            os.makedirs(run.directory, exist_ok=True)
            with lock_run(run):
                united = write_union([*sides, *_list_readable(run.ledger_path)], run.ledger_path, adopts=True)
    for line in united.lines_left_out():
        warn(line)
    return f"{'both sides' if len(sides) == 2 else 'the side that has it'}, {events_shown(united.count)}"


def _check_readable(path: str, stage: str) -> None:
    """Raise IntegrityError, which names the side, if a side is not a ledger."""
    try:
        with open_untrusted(path, check_values=False) as log:
            for _ in merge_rows([log]):
                pass
    except (LedgerError, sqlite3.Error) as error:
        side = "our side (stage 2)" if stage == OURS else "their side (stage 3)"
        reason = str(error).replace(path, "it")
        raise IntegrityError(f"{side} of the ledger cannot be united: {reason}") from error


def _list_readable(path: str) -> list[str]:
    try:
        open_untrusted(path, check_values=False).close()
    except (LedgerError, OSError):
        return []
    return [path]


def _choose(run: Run, conflict: Conflict, operation: Operation, *, takes_newer: bool) -> Resolved:
    """Resolve a state; with `takes_newer` the keys that both sides changed come from the side updated later."""
    base, ours, theirs = conflict.sides()
    here = read_here(run.root, conflict.path)
    side = ours if ours is not None else theirs
    if side is None:
        raise LedgerError("both sides have deleted it: remove it with `git rm`")
    if ours is None or theirs is None:
        return Resolved("the side that has it", fill_gutted(side, base or b""), [])
    if conflict.marked is not None:
        base = base_of_markers(run.root, conflict.path, "HEAD", operation.other)
        return _settle(run, (base, ours, theirs), conflict.marked, takes_newer=takes_newer)
    return _merge(run, (base or b"", ours, theirs), here, operation, takes_newer=takes_newer)


def _settle(run: Run, sides: tuple[bytes, bytes, bytes], marked: bytes, *, takes_newer: bool) -> Resolved:
    """Resolve a state with conflict markers, which are around the two sides."""
    newer = find_newer(*sides[1:])
    takes_theirs = _takes_theirs(newer, takes_newer)
    settled = settle_markers(marked, sides[0], align=mask_alike, takes_theirs=takes_theirs)
    if settled is None:
        name, state = _take_committed(run, "HEAD")
        return Resolved(f"its markers are not around two states, so it is taken from {name}", state, [])
    return _describe(*settled, newer, takes_newer=takes_newer)


def _takes_theirs(newer: Newer | None, takes_newer: bool) -> bool:
    return takes_newer and newer is not None and newer.side == "theirs"


def _merge(
    run: Run, sides: tuple[bytes, bytes, bytes], here: bytes | None, operation: Operation, *, takes_newer: bool
) -> Resolved:
    """Resolve a state in conflict; `here` is the file, which a person may have edited meanwhile.

    A side that cannot be read as a state is replaced by the newest valid one of its commits; without any, the other
    side is used alone.
    """
    base, ours, theirs = sides
    mine, about_mine = _read_side(run, ours, "HEAD", "our side")
    other, about_other = _read_side(run, theirs, operation.other, "their side")
    if mine is None and other is None:
        raise LedgerError("neither side can be read, nor a commit with it")
    first, left = mine or other or (b"", [])
    state = first
    newer = None
    if mine is not None and other is not None:
        is_nested = mine[1] or other[1]  # a side has markers of another merge, which has sides of its own
        newer = None if is_nested else find_newer(mine[0], other[0])
        takes_theirs = _takes_theirs(newer, takes_newer)
        state, found = merge_states(base, mine[0], other[0], align=mask_alike, takes_theirs=takes_theirs)
        left = [*left, *other[1], *found]
    if here is not None and is_state(here):
        state, left = add_edits(base, first, state, left, here)
    resolved = _describe(state, left, newer, takes_newer=takes_newer)
    return resolved._replace(how="; ".join([resolved.how, *filter(None, [about_mine, about_other])]))


def _read_side(run: Run, side: bytes, revision: str | None, name: str) -> tuple[Settled | None, str]:
    """Return one side's state with the keys that its own markers leave, and a remark if the side cannot be read."""
    base = base_of_markers(run.root, run.shown(run.state_path), revision) if revision and has_markers(side) else b""
    settled = settle_markers(side, base, align=mask_alike)
    if settled is not None:
        return settled, ""
    found = find_committed(run, revision) if revision else None
    if found is None:
        return None, f"{name} cannot be read and is left out"
    return (found[1], []), f"{name} cannot be read, and {found[0]} is in its place"


def _take_committed(run: Run, revision: str) -> tuple[str, bytes]:
    found = find_committed(run, revision)
    if found is None:
        raise LedgerError("its markers are not around two states, and no commit has a valid one")
    return found


def _describe(state: bytes, keys: list[Left], newer: Newer | None, *, takes_newer: bool) -> Resolved:
    if not keys:
        return Resolved("our blocks, and both sides' keys", state, [])
    how = "both sides changed the same key"
    if takes_newer:
        how += f": {newer}, is taken" if newer is not None else ", and `updated_at` does not say which is newer"
    return Resolved(how, state, keys, newer, takes_newer and newer is not None)


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
                project_again(run, rebuild=True)
                git("add", "--", run.ledger_path)
            is_in_conflict = run.shown(run.state_path) in [conflict.path for conflict in found]
            if is_in_conflict or (os.path.lexists(run.state_path) and not is_left_out(run.state_path, run.root)):
                git("add", "--", run.state_path)
        except LedgerError as error:
            for result in results:
                if result["path"] == run.shown(run.state_path):
                    result |= {"mended": False, "how": error.message, "keys": []}
            warn(f"note: {run.run_id}: {error.message}")


def _lines(results: list[Result], others: list[str], dry_run: bool) -> Iterator[str]:
    if not results and not others:
        yield "no files of runs are in conflict"
    for result in results:
        done = ("would resolve" if dry_run else "resolved") if result["mended"] else "left"
        yield f"{done:<8}  {result['path']}: {result['how']}"
        for key in result["keys"]:
            yield f"  {key['key']}"
            yield f"    ours:   {_short(key['ours'])}"
            yield f"    theirs: {_short(key['theirs'])}"
        if result["keys"] and not result["mended"] and result["newer"] is not None:
            yield f"  `faber-ledger resolve --newer` takes {Newer(**result['newer'])}"
    if any(not result["mended"] for result in results):
        if any(result["keys"] and not result["mended"] for result in results):
            yield "the file has our value: edit it as you need, then stage it with `git add`"
        if any(not (result["mended"] or result["keys"] or result.get("is_link")) for result in results):
            yield f"files that cannot be read are left: {UNREADABLE}"
    for other in others:
        folder = os.path.relpath(other, os.path.realpath(os.getcwd()))
        way = f"`cd {quote_word(folder)} && faber-ledger resolve`"
        yield f"left      files of runs of another project, {folder}, are in conflict: {way}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _put_resolved(conflict: Conflict, path: str, content: bytes) -> None:
    """Write a resolved file; raises StateNotWritten for a state.json that is not writable."""
    if os.path.lexists(path):
        state_write.check_writable(conflict.run, os.lstat(path))
    _put(path, content)


def _put(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = whole_file.own_name(path)
    whole_file.put(path, content, durable=False, temporary=beside)  # git has it
