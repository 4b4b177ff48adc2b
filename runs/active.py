"""Which run is active in a work tree.

The active file is committed, so a fresh work tree has it checked out and names a run that another one works on. The
claim, a run's id in the work tree's own git directory, says which run this work tree works on; no commit carries it.
"""

from __future__ import annotations

import errno
import os
import stat

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, StateInvalid
from faber_ledger.runs import git_tracks, progress, state_file
from faber_ledger.runs.git import Question, place_of
from faber_ledger.runs.run import ACTIVE_FILES, find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    if _status(root, mine) not in progress.ACTIVE:
        return False
    if named.startswith(CONFLICT) or holder_elsewhere(root, named) is not None:
        return True
    return not _was_recorded(root, named) and (_status(root, named) in progress.FINISHED or _is_in_index(root, named))


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
            return state_file.read_state(run).value.get("status")
        except StateInvalid:
            backup = state_file.read_backup(run)
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
        if is_mine or _status(root, run_id) in progress.FINISHED:
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
        return named == run_id or (_status(root, named) in progress.FINISHED and _status(root, mine) in progress.ACTIVE)
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


OF_THE_SYSTEM = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)  # errors that pass
TAKEN_UP = "faber-ledger-run"  # in the work tree's own git directory

ACTIVE_BYTES = 512  # more than any run's id has


def read_active_run(root: str) -> str | None:
    """Read the id of the active run, as it stands in the file; None if no file has one.

    None too where the file came with a commit or a merge, while the run is active in another worktree.
    """
    run_id = named_run(root)
    place = place_of(root) if run_id else None
    if run_id and place and (place.is_linked or os.path.isdir(os.path.join(place.common, "worktrees"))):
        return None if holder_elsewhere(root, run_id) else run_id
    return run_id


def named_run(root: str) -> str | None:
    """Give the run that the active file names; None if no file names one.

    A merge or a pull can bring an active file that names another run: that ends nothing, and the run that was taken up
    here goes on.
    """
    run_id = run_in_file(root)
    mine = taken_up(root) if run_id else None
    if run_id is None or mine is None or mine == run_id:
        return run_id

    return mine if own_word_counts(root, run_id, mine) else run_id


def taken_up(root: str) -> str | None:
    """Read which run was last started or resumed in this work tree; None where none was, or without git."""
    place = place_of(root)
    try:
        with open(os.path.join(place.own if place else root, TAKEN_UP), encoding="utf-8") as file:
            return (file.read(4096).strip().split("\n")[0] or None) if place else None
    except (OSError, ValueError):
        return None


def run_in_file(root: str) -> str | None:
    """Read the id in the active file, whoever wrote it.

    White space around it, CRLF, a missing newline and a byte-order mark are tolerated; an empty or unreadable file
    is none (END, Step 1). For one that the system does not give for a moment (`OF_THE_SYSTEM`) stands the run that was
    taken up in this work tree. Of a longer text its beginning is given, which is no run's id.
    """
    return next(_names(root, []), None)


def _names(root: str, problems: list[str]) -> Iterator[str]:
    """Give what each active file names, or stands in for it as `run_in_file` says.

    What keeps one from being read is added to `problems`.
    """
    for name in ACTIVE_FILES:
        path = os.path.join(root, *name.split("/"))
        try:
            # No link is followed and no pipe waited for: the file may have come with the repository.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            text = _beginning(os.open(path, flags))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            mine = taken_up(root) if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM else None
            if mine is not None:
                yield mine  # the file is right, as far as anybody knows
            told = error.strerror if isinstance(error, OSError) else str(error)
            told = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else told
            problems.append(f"{name} cannot be read: {'a link' if os.path.islink(path) else told}")
            continue
        lines = text.removeprefix("\ufeff").strip().splitlines()
        if lines:
            yield lines[0].strip()


def _beginning(descriptor: int) -> str:
    """Read the beginning of a regular file and close it; raises ValueError for anything else."""
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ValueError("a directory" if stat.S_ISDIR(mode) else "a pipe or device, not a regular file")
        content = os.read(descriptor, ACTIVE_BYTES)
    finally:
        os.close(descriptor)
    return content.decode(errors="strict" if len(content) < ACTIVE_BYTES else "ignore")


def why_none(root: str) -> str:
    """Say why no run is active although there is an active file, as the end of a sentence; empty if there is none.

    It cannot be read, or it came with the commit while its run goes on in another worktree.
    """
    problems: list[str] = []
    named = next(_names(root, problems), None)
    holder = holder_elsewhere(root, named) if named else None
    if holder:
        return f": the active file came with the commit, and {named} is active in {holder}"
    return f": {'; '.join(problems)}" if problems and not named else ""


def check_active_place(root: str) -> None:
    """Check that the active file's folder is the project's; raises LedgerError where a link leads out of it."""
    from faber_ledger.files.untrusted import folder_around  # hooks write none

    folder = os.path.dirname(os.path.join(root, *ACTIVE_FILES[0].split("/")))
    if folder_around(folder, [root]) is None:
        told = f"{folder} is behind a link that leads out of the project, to {os.path.realpath(folder)}"
        raise LedgerError(told, hint="put the folder itself in the link's place")


def write_active_run(root: str, run_id: str) -> None:
    """Make a run the active one of this worktree (SPEC, Active Run ID Tracking Mechanism)."""
    path = os.path.join(root, *ACTIVE_FILES[0].split("/"))
    check_active_place(root)
    from faber_ledger.ledger import whole_file  # hooks write none

    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the .fractary folder"
        ) from error
