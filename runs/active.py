"""Which run is active in a work tree: the one that hooks record on.

`active_run` alone decides it. Before starting or switching work, also ask `came_with_git`: whether the active file only
came with a commit. A command
may choose another unfinished run for itself (`cli/ui/which_run.py`); that makes none active.

The active file is committed, so a fresh work tree has a copy of it that names a run which another work tree is working
on. The claim is a run's id in the work tree's own git directory: it says which run this work tree is working on, and no
commit carries it.
"""

from __future__ import annotations

import errno
import os

from faber_ledger.files.untrusted import FileRefused, folder_around, open_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, StateInvalid
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.git import GitQuery, is_tracked, other_roots, work_tree_of
from faber_ledger.runs.run import ACTIVE_FILES, find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


CLAIM_FILE = "faber-ledger-run"  # in the work tree's own git directory
CLAIM_BYTES = 4096
ACTIVE_FILE_BYTES = 512  # more than any run's id has
CONFLICT = "<<<<<<<"
TEMPORARY_ERRORS = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


class ActiveRun:
    """Which run is active in a work tree, and what was read to decide it.

    `run_id` is None if no run is active; `reason_none` then says why, or is empty if there is no active file.
    `named_in_file` is the first line of the active file, whoever wrote it; `claim` is this work tree's claim.
    """

    def __init__(self, run_id: str | None, named_in_file: str | None, claim: str | None, reason_none: str = "") -> None:
        self.run_id = run_id
        self.named_in_file = named_in_file
        self.claim = claim
        self.reason_none = reason_none


def active_run(root: str) -> ActiveRun:
    """Return which run is active in a project's work tree.

    It is the run that the active file names, with two exceptions. If git brought a file that names another run, the
    claimed run stays active. If the named run is claimed in another work tree, no run is active here.
    """
    claim = claimed_run(root)
    named, problems = _read_active_file(root, claim)
    if named is None:
        return ActiveRun(None, None, claim, "; ".join(problems))
    if named == claim:
        return ActiveRun(named, named, claim)
    elsewhere = claimed_in_worktree(root, named)
    if claim is not None and _is_claim_stronger(root, claim, named, elsewhere):
        return ActiveRun(claim, named, claim)
    if elsewhere is not None:
        reason = f"the active file came with the commit, and {named} is active in {elsewhere}"
        return ActiveRun(None, named, claim, reason)
    return ActiveRun(named, named, claim)


def _is_claim_stronger(root: str, claim: str, named: str, elsewhere: str | None) -> bool:
    """Return whether this work tree's claim wins over the run named in an active file that git checked out.

    The file came from git if it is as the index has it, if its run is finished or claimed `elsewhere`, or if it has the
    marks of a conflict. It did not if something was recorded on its run here: then a tool wrote it.
    """
    if _status(root, claim) not in progress.ACTIVE:
        return False
    if named.startswith(CONFLICT) or elsewhere is not None:
        return True
    return not _was_recorded(root, named) and (_status(root, named) in progress.FINISHED or _is_in_index(root, named))


def came_with_git(root: str, active: ActiveRun) -> bool:
    """Return whether git brought the active file, and its run was never worked on in this work tree.

    The run is claimed elsewhere, or this is a linked work tree in which nothing was ever recorded on it. A run that the
    main work tree has pulled, and that no other one has claimed, is resumed there (SPEC, Example 2).
    """
    if active.run_id is None:
        return active.named_in_file is not None
    tree = work_tree_of(root)
    if tree is None or active.claim == active.run_id:
        return False
    return tree.is_linked and not _was_recorded(root, active.run_id)


def other_active_run(root: str, run_id: str) -> tuple[str, str | None] | None:
    """Return the run other than `run_id` that this work tree is working on, and its status (None if unreadable)."""
    active = active_run(root)
    if active.run_id is None or active.run_id == run_id or came_with_git(root, active):
        return None
    try:
        status = state_file.read_state(find_run(root, active.run_id)).value.get("status")
    except LedgerError:
        status = None
    return active.run_id, status if isinstance(status, str) else None


# The claim


def claim_run(root: str, run_id: str) -> None:
    """Write in the work tree's own git directory that it is working on a run; raises LedgerError."""
    tree = work_tree_of(root)
    if tree is None:
        return
    path = os.path.join(tree.own, CLAIM_FILE)
    try:
        whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the git directory"
        ) from error


def claim_if_active(root: str, active: ActiveRun, run_id: str, warn: Callable[[str], None]) -> None:
    """Claim a run if it is the active one, so that an active file that git brings does not switch it."""
    if active.run_id == run_id != active.claim:
        try:
            claim_run(root, run_id)
        except LedgerError as error:  # what happened on the run is in its ledger
            warn(f"{error.message} - {error.hint}")


def claimed_run(root: str) -> str | None:
    """Return the run that was last started or resumed in this work tree; None if there is none, or without git."""
    tree = work_tree_of(root)
    if tree is None:
        return None
    try:
        with open(os.path.join(tree.own, CLAIM_FILE), encoding="utf-8") as file:
            return file.read(CLAIM_BYTES).strip().split("\n")[0] or None
    except (OSError, ValueError):
        return None


def warn_claim_kept(root: str, active: ActiveRun, warn: Callable[[str], None]) -> None:
    """Warn, once for each run that git brings, that the active file names it and the claimed run stays active.

    The claim's second line is the run that was last warned of.
    """
    tree, named, mine = work_tree_of(root), active.named_in_file, active.run_id
    if tree is None or named is None or mine is None or named == mine:
        return
    path = os.path.join(tree.own, CLAIM_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read(CLAIM_BYTES).split("\n")[1:2] == [named]:
                return
        warn(
            f"git brought an active file that names {named:.80}; {mine}, which is claimed here, stays active"
            f" - `faber-ledger run resume {named:.80}` makes the other one active"
        )
        whole_file.put(path, f"{mine}\n{named}\n".encode(), durable=False, locked=False)
    except (OSError, ValueError):
        pass  # the next hook warns again


def theirs_is_claimed_here(root: str, ours: str, theirs: str) -> bool:
    """Return whether, of the two sides of an active file in a merge, `theirs` is the run of this work tree.

    When a stash is applied, and in a rebase, git calls "ours" the side that came. Without a claim, the run of this work
    tree is the one on which something was recorded here.
    """
    mine = claimed_run(root)
    if mine in (ours, theirs):
        return mine == theirs
    return _was_recorded(root, theirs) and not _was_recorded(root, ours)


# Other work trees of the clone


def claimed_in_worktree(root: str, run_id: str) -> str | None:
    """Return the project's root in another work tree that is working on the run, if this one is not; else None.

    Another work tree is working on a run if its active file names it and its claim does; in the main one, if something
    was recorded on it. Two kinds of run count as the main work tree's own, and None is returned there: a run that was
    recorded in it while it has no claim, and a run that is finished in its copy.
    """
    tree, others = work_tree_of(root), other_roots(root)
    mine = claimed_run(root) if others else None
    if tree is None or not others or mine == run_id:
        return None
    if not tree.is_linked:
        is_mine = mine is None and _was_recorded(root, run_id)
        if is_mine or _status(root, run_id) in progress.FINISHED:
            return None
    return next((other for other in others if _is_claimed(other, run_id)), None)


def check_not_claimed_elsewhere(root: str, run_id: str, command: str) -> None:
    """Raise LedgerError if another work tree is working on a run: the copy here is what a merge brought.

    `command` is what the hint says to run in the other work tree.
    """
    elsewhere = claimed_in_worktree(root, run_id)
    if elsewhere is not None:
        from shlex import quote  # only for the hint

        hint = f"run `cd {quote(elsewhere)} && faber-ledger {command}`"
        raise LedgerError(f"the run {run_id} is active in {elsewhere}", hint=hint)


def _is_claimed(root: str, run_id: str) -> bool:
    """Return whether a work tree is working on a run, also if a merge brought it the name of a finished run."""
    tree, mine = work_tree_of(root), claimed_run(root)
    named, _ = _read_active_file(root, mine)
    if tree is None or named is None:
        return False
    if mine == run_id:
        return named == run_id or (_status(root, named) in progress.FINISHED and _status(root, mine) in progress.ACTIVE)
    return named == run_id and not tree.is_linked and _was_recorded(root, run_id)


def _was_recorded(root: str, run_id: str) -> bool:
    """Return whether something was recorded on the run here: that makes its lock file.

    A lock file that git tracks came with a commit and proves nothing.
    """
    try:
        path = find_run(root, run_id).lock_path
    except InvalidRunId:
        return False
    return os.path.exists(path) and is_tracked(path) is not True


def _status(root: str, run_id: str) -> object:
    """Return a run's status, from a backup if its state is broken at the moment, as by a merge that stopped."""
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
    """Return whether the active file in git's index names the run; what only a tool has written is not there."""
    for name in ACTIVE_FILES:
        text = GitQuery(["cat-file", "blob", f":./{name}"], root).answer()
        if text is not None:
            return text.strip().split("\n")[0].strip() == named
    return False


# The active file


def _read_active_file(root: str, claim: str | None) -> tuple[str | None, list[str]]:
    """Return the first line of the active file, and what kept a file from being read.

    White space around it, CRLF, a missing newline and a byte-order mark are tolerated; an empty or unreadable file
    counts as none (END, Step 1). The claim stands in for a file that the system cannot read at the moment
    (`TEMPORARY_ERRORS`). Of a longer line the beginning is returned, which is not a run's id.
    """
    problems: list[str] = []
    for name in ACTIVE_FILES:
        try:
            with open(open_regular(os.path.join(root, *name.split("/"))), "rb") as file:
                content = file.read(ACTIVE_FILE_BYTES)
            text = content.decode(errors="strict" if len(content) < ACTIVE_FILE_BYTES else "ignore")
        except FileNotFoundError:
            continue
        except OSError as error:
            if claim is not None and error.errno in TEMPORARY_ERRORS:
                return claim, problems
            problems.append(f"{name} cannot be read: {error.strerror}")
            continue
        except (FileRefused, UnicodeDecodeError) as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
            problems.append(f"{name} cannot be read: {reason}")
            continue
        lines = text.removeprefix("\ufeff").strip().splitlines()
        if lines:
            return lines[0].strip(), problems
    return None, problems


def check_active_folder(root: str) -> None:
    """Raise LedgerError if a link leads from the active file's folder out of the project."""
    folder = os.path.dirname(os.path.join(root, *ACTIVE_FILES[0].split("/")))
    if folder_around(folder, [root]) is None:
        message = f"{folder} is behind a link that leads out of the project, to {os.path.realpath(folder)}"
        raise LedgerError(message, hint="put the folder itself in the link's place")


def write_active_file(root: str, run_id: str) -> None:
    """Name a run in this work tree's active file (SPEC, Active Run ID Tracking Mechanism); raises LedgerError.

    FABER's own tools read the second file alone: it is written where it or its folder exists.
    """
    check_active_folder(root)
    first, second = [os.path.join(root, *name.split("/")) for name in ACTIVE_FILES]
    is_read = os.path.isdir(os.path.dirname(second)) and folder_around(os.path.dirname(second), [root]) is not None
    for path in (second, first) if is_read else (first,):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
        except OSError as error:
            raise LedgerError(
                f"cannot write {path}: {error.strerror}", hint="check the permissions of the .fractary folder"
            ) from error
