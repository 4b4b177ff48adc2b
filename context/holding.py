"""Which worktree of a clone holds a run.

The active file is committed, so a fresh worktree has it checked out and names a run that goes on elsewhere. Where a run
is taken up, its id is kept in the worktree's own git directory, which no commit carries and which goes with the
worktree: an active file without it is merely inherited.
"""

from __future__ import annotations

import os

from faber_ledger.context import git_tracks
from faber_ledger.context import state as states
from faber_ledger.context.git import Question, place_of
from faber_ledger.context.project import ACTIVE_FILES, TAKEN_UP, find_run, run_in_file, taken_up
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, StateInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CONFLICT = "<<<<<<<"


def hold(root: str, run_id: str) -> None:
    """Keep in the work tree's own git directory that a run was taken up here; raises LedgerError."""
    place = place_of(root)
    if place is None:
        return
    path = os.path.join(place.own, TAKEN_UP)
    try:
        whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the git directory"
        ) from error


def own_word_counts(root: str, named: str, mine: str) -> bool:
    """Tell whether `mine`, which was taken up here, goes on although git brought an active file that names another run.

    Not where something was recorded on that one here, and not where a tool wrote the file: a file that git brought is
    as the index has it, or names a run that is finished or held by another worktree, or has the marks of a conflict.
    """
    if _status(root, mine) not in states.ACTIVE:
        return False
    if named.startswith(CONFLICT) or holder_elsewhere(root, named) is not None:
        return True
    return not _was_recorded(root, named) and (_status(root, named) in states.FINISHED or _is_in_index(root, named))


def tell_kept(root: str, named: str, mine: str, tell: Callable[[str], None]) -> None:
    """Tell, once for each run that git brings, that the active file names it and `mine` goes on all the same."""
    place = place_of(root)
    if place is None:
        return
    path = os.path.join(place.own, TAKEN_UP)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read(4096).split("\n")[1:2] == [named]:
                return
        tell(
            f"git brought an active file that names {named:.80}; {mine}, which was taken up here, goes on"
            f" - `faber-ledger run resume {named:.80}` makes the other one active"
        )
        whole_file.put(path, f"{mine}\n{named}\n".encode(), durable=False, locked=False)
    except (OSError, ValueError):
        pass  # it is told again the next time


def is_theirs_our_own(root: str, ours: str, theirs: str) -> bool:
    """Tell whether, of the two sides of an active file, `theirs` names the run that was taken up in this work tree.

    Where a stash is applied, and in a rebase, git's own side is the one that came. Without a word of this work tree
    that run is its own on which something was recorded here.
    """
    mine = taken_up(root)
    if mine in (ours, theirs):
        return mine == theirs
    return _was_recorded(root, theirs) and not _was_recorded(root, ours)


def _status(root: str, run_id: str) -> object:
    """Give a run's status; that of a backup if its state is broken meanwhile, as a merge that stopped leaves it."""
    try:
        run = find_run(root, run_id)
        try:
            return states.read_state(run).value.get("status")
        except StateInvalid:
            backup = states.read_backup(run)
            return backup[1].value.get("status") if backup else None
    except LedgerError:
        return None


def _is_in_index(root: str, named: str) -> bool:
    """Tell whether the active file in the index names the same run; one that only a tool has written is not there."""
    for name in ACTIVE_FILES:
        text = Question(["cat-file", "blob", f":./{name}"], root).answer()
        if text is not None:
            return text.strip().split("\n")[0].strip() == named
    return False


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
        if is_mine or _status(root, run_id) in states.FINISHED:
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
    place, named, mine = place_of(root), run_in_file(root), taken_up(root)
    if place is None or named is None:
        return False
    if mine == run_id:
        return named == run_id or (_status(root, named) in states.FINISHED and _status(root, mine) in states.ACTIVE)
    return named == run_id and not place.is_linked and _was_recorded(root, run_id)


def _was_recorded(root: str, run_id: str) -> bool:
    """Tell whether something was recorded on the run here: its lock file is made then.

    One that git tracks came with a commit, and says nothing.
    """
    try:
        path = find_run(root, run_id).lock_path
    except InvalidRunId:
        return False
    return os.path.exists(path) and git_tracks(path) is not True
