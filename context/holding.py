"""Which worktree of a clone holds a run.

The active file is committed, so a fresh worktree has it checked out and names a run that goes on elsewhere. Where a run
is taken up, its id is kept in the worktree's own git directory, which no commit carries and which goes with the
worktree: an active file without it is merely inherited.
"""

from __future__ import annotations

import os

from faber_ledger.context import state as states
from faber_ledger.context.git import place_of
from faber_ledger.context.project import TAKEN_UP, active_file, find_run, taken_up
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
    """Tell whether the active file came with a merge, while `mine` goes on.

    It does if it names a finished run on which nothing was recorded here, or one that another worktree holds.
    """
    if holder_elsewhere(root, named) is None and (
        _was_recorded(root, named) or not _has_status(root, named, states.FINISHED)
    ):
        return False
    return _has_status(root, mine, states.ACTIVE)


def holder_elsewhere(root: str, run_id: str) -> str | None:
    """Give the root of another worktree that holds the run, if this one merely has its name from git; else None.

    Another one holds a run if its own active file names it and the run was taken up there, in the main one: if
    something was recorded there. The main one, where other tools make runs too, has for its own what was recorded there
    as long as nothing else was taken up in it, and what has come home finished.
    """
    place = place_of(root)
    mine = taken_up(root)
    if place is None or mine == run_id:
        return None
    if not place.is_linked:
        is_mine = mine is None and _was_recorded(root, run_id)
        if is_mine or _has_status(root, run_id, states.FINISHED):
            return None
    inside = os.path.relpath(root, place.top)
    others = [os.path.normpath(os.path.join(top, inside)) for top in place.other_tops()]
    return next((other for other in others if _is_held(other, run_id)), None)


def is_inherited(root: str, run_id: str) -> bool:
    """Tell whether the active file's run came from git: held elsewhere, or nothing was ever recorded on it here.

    What the main worktree has pulled, and no other one holds, is resumed there (SPEC, Example 2).
    """
    place = place_of(root)
    if place is None or taken_up(root) == run_id:
        return False
    return holder_elsewhere(root, run_id) is not None or (place.is_linked and not _was_recorded(root, run_id))


def _is_held(root: str, run_id: str) -> bool:
    """Tell whether a worktree has a run for its own; a finished run's name that a merge brought does not end that."""
    place, named, mine = place_of(root), active_file(root), taken_up(root)
    if place is None or named is None:
        return False
    if mine == run_id:
        return named == run_id or (_has_status(root, named, states.FINISHED) and _has_status(root, mine, states.ACTIVE))
    return named == run_id and not place.is_linked and _was_recorded(root, run_id)


def _has_status(root: str, run_id: str, statuses: tuple[str, ...]) -> bool:
    try:
        return states.read_state(find_run(root, run_id)).value.get("status") in statuses
    except LedgerError:
        return False


def _was_recorded(root: str, run_id: str) -> bool:
    """Tell whether something was recorded on the run here: its lock file is made then, and never committed."""
    try:
        return os.path.exists(find_run(root, run_id).lock_path)
    except InvalidRunId:
        return False
