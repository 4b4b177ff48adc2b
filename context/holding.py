"""Which worktree of a clone holds a run.

The active file is committed, so a fresh worktree has it checked out and names a run that goes on elsewhere. Where a run
is taken up, its id is kept in the worktree's own git directory, which no commit carries and which goes with the
worktree: an active file without it is merely inherited.
"""

from __future__ import annotations

import os

from faber_ledger.context.git import place_of
from faber_ledger.context.project import TAKEN_UP, find_run, named_run, taken_up
from faber_ledger.ledger.errors import InvalidRunId, LedgerError


def hold(root: str, run_id: str) -> None:
    """Keep in the work tree's own git directory that a run was taken up here; raises LedgerError."""
    place = place_of(root)
    if place is None:
        return
    path = os.path.join(place.own, TAKEN_UP)
    try:
        with open(path + ".tmp", "w", encoding="utf-8", newline="\n") as file:
            file.write(run_id + "\n")
        os.replace(path + ".tmp", path)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the git directory"
        ) from error


def ends_nothing(root: str, named: str, mine: str) -> bool:
    """Tell whether the active file names a finished run on which nothing was recorded here, while `mine` goes on."""
    from faber_ledger.context import state as states

    if _was_recorded(root, named):
        return False
    try:
        finished, going_on = [states.read_state(find_run(root, run_id)).value.get("status") for run_id in (named, mine)]
    except LedgerError:
        return False
    return finished in states.FINISHED and going_on in states.ACTIVE


def holder_elsewhere(root: str, run_id: str) -> str | None:
    """Give the root of another worktree that holds the run, if this one merely inherited its name; else None.

    Another one holds a run if its own active file names it and the run was taken up there, in the main one: if
    something was recorded there.
    """
    place = place_of(root)
    if place is None or not place.is_linked or taken_up(root) == run_id:
        return None
    inside = os.path.relpath(root, place.top)
    for top in place.other_tops():
        other = os.path.normpath(os.path.join(top, inside))
        if named_run(other) == run_id and _is_held(other, run_id):
            return other
    return None


def is_inherited(root: str, run_id: str) -> bool:
    """Tell whether the active file's run came with the commit: held elsewhere, or nothing was ever recorded on it here.

    The main worktree inherits nothing: what it has pulled is resumed there (SPEC, Example 2).
    """
    place = place_of(root)
    if place is None or not place.is_linked or taken_up(root) == run_id:
        return False
    return holder_elsewhere(root, run_id) is not None or not _was_recorded(root, run_id)


def _is_held(root: str, run_id: str) -> bool:
    place = place_of(root)
    if place is None:
        return False
    return taken_up(root) == run_id if place.is_linked else _was_recorded(root, run_id)


def _was_recorded(root: str, run_id: str) -> bool:
    """Tell whether something was recorded on the run here: its lock file is made then, and never committed."""
    try:
        return os.path.exists(find_run(root, run_id).lock_path)
    except InvalidRunId:
        return False
