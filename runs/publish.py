"""Publish: write a run's log out to the work tree's `ledger.db`, and decide when (DECISIONS 51).

The file is a byte copy under a temporary name, then renamed: it is never opened for writing, and no journal or lock is
ever beside it.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger import disk
from faber_ledger.ledger.encoding import loads
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import progress
from faber_ledger.runs.active import Here
from faber_ledger.runs.git import REMOTES, commit_of, default_ref, is_git_at_work, named_commit, work_tree_of
from faber_ledger.runs.run import CARRY, CONSENT, PROJECT_FILE, REFS, TREE, clone_folder
from faber_ledger.runs.seen import NEWER, TreeNote, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.git import WorkTree
    from faber_ledger.runs.log import RunLog
    from faber_ledger.runs.run import Run


PIECE = 1 << 20
LARGEST_SETTINGS = 65_536
AS_FINISHED = "the run was committed as finished"
ENDED_BY_COMMIT = ("merge", "cherry-pick", "revert")  # of the commands that stop; a rebase writes commits again


def why_not_published(
    run: Run, state: dict[str, Any] | None, note: TreeNote, log: Log | None = None, *, on_purpose: bool = False
) -> str | None:
    """Return why neither the file nor the blocks of a run are written into the work tree now; None if they are.

    `state` is the run's `state.json`, None if it cannot be read; `note` is the work tree's; `log` is the run's log if
    it is open. What is barred is not written `on_purpose` either.
    """
    if note.barred:
        return "the file there is of a newer format" if note.barred == NEWER else "the file there is another run's"
    if on_purpose:
        return None
    if run.is_kept or not os.path.lexists(run.state_path):
        return "this work tree does not have the run's state.json"
    here = Here(run.root)
    if run.run_id not in here.used.taken_up:
        return "this clone has not taken the run up"
    tree = work_tree_of(run.root)
    if tree is None:
        return None
    is_commit = _is_in_commit(tree)
    command = stopped_command(tree)
    if command is not None and not (is_commit and command in ENDED_BY_COMMIT):
        return f"git {command} has stopped here"
    if is_git_at_work(run.root) and not is_commit:
        return "git is changing this work tree"
    if state is not None:
        here.know(run, state)
    if here.branch is not None and not here.may_be_home_of(run, log):
        return f"the branch {here.branch} is not the run's"
    if state is not None and state.get("status") in progress.FINISHED and is_finished_in_head(run):
        return AS_FINISHED
    is_on_default = here.branch is not None and here.branch == here.default  # there git pull brings what is merged
    return "the run is merged" if not is_on_default and _is_merged(run, tree, note) else None


def _is_in_commit(tree: WorkTree) -> bool:
    """Return whether git commits in a work tree now, and has called a hook for that."""
    if "GIT_INDEX_FILE" not in os.environ:
        return False
    from faber_ledger.runs.git_query import index_of  # most hooks are not git's

    return index_of(tree.top, tree.own) is not None


def is_finished_in_head(run: Run) -> bool:
    """Return whether git's last commit has the work tree's ledger as it is, and the run as finished.

    Where git ignores `state.json`, the one here decides; where ledgers travel in git refs, it stands for the ledger.
    """
    from faber_ledger.runs.copies import is_as_in_head, read_in_head  # only of a finished run
    from faber_ledger.runs.state_file import parse_state

    if not is_as_in_head(run, run.state_path if carries_refs(run.root) else run.ledger_path):
        return False
    committed = read_in_head(run, run.state_path)
    try:
        return committed is None or parse_state(run, committed).value.get("status") in progress.FINISHED
    except LedgerError:
        return False


def _is_merged(run: Run, tree: WorkTree, note: TreeNote) -> bool:
    """Return whether the default branch of the remote has the run, by `is_merged_into`.

    A repository that was not cloned does not know the remote's default branch: the local one's name stands for it. Git
    is asked once for each pair of that branch and HEAD, while the answer is no.
    """
    ref = default_ref(run.root) or "refs/heads/"
    branch = ref.removeprefix("refs/heads/")
    refs = [ref] if branch == ref else [f"refs/remotes/{remote}/{branch}" for remote in REMOTES]
    tip = next(filter(None, [named_commit(tree, one) for one in refs]), None)
    if tip is None or (both := f"{tip} {commit_of(run.root)}") == note.unmerged_at:
        return False
    from faber_ledger.runs.copies import is_merged_into

    if is_merged_into(run, tip):
        return True
    note.unmerged_at = both
    return False


_meant: dict[str, str | None] = {}  # by the project
# What `carries_refs` has found: REFS, TREE for a server alone, None for nothing.
agreed_carry: dict[str, str | None] = {}


def carries_refs(root: str) -> bool:
    """Return whether a project's ledgers travel in git refs: then no `ledger.db` is written into its work tree.

    Where the settings do not say, as on a branch that is older than the switch, a clone that has agreed decides.
    """
    meant = meant_carry(root)
    if meant != REFS and root not in agreed_carry:
        folder = clone_folder(root)
        path = f"{folder}/{CONSENT}"
        agreed_carry[root] = _read_agreed(path) if folder is not None and os.path.lexists(path) else None
    return meant == REFS or (meant is None and agreed_carry[root] == REFS)


def _read_agreed(path: str) -> str:
    """Return how ledgers travel from a clone that has agreed to git refs, or to a server alone."""
    try:
        remote = loads(disk.read_regular(path, LARGEST_SETTINGS).decode())["remote"]
    except (disk.FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
        return REFS
    return TREE if remote == "" else REFS


def meant_carry(root: str) -> str | None:
    """Return how a project's settings say that its ledgers travel; None if they do not. They are read once."""
    if root not in _meant:
        try:
            content = disk.read_regular(f"{root}/{PROJECT_FILE}", LARGEST_SETTINGS)
            found = loads(content.decode())[CARRY] if CARRY.encode() in content else None
        except (disk.FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
            found = None
        _meant[root] = found if found in (TREE, REFS) else None
    return _meant[root]


def assume_carry(root: str, carry: str) -> None:
    """Let this process go on as if ledgers travelled so: `init` is about to write it."""
    _meant[root] = carry


def forget_carry() -> None:
    """Read again how ledgers travel: a process that stays may live through a change of it."""
    _meant.clear()
    agreed_carry.clear()


def publish(run: Run, opened: RunLog, warn: Callable[[str], None]) -> None:
    """Write the work tree's file if it is not what the log is, which was committed; what fails is a warning.

    Where ledgers travel in git refs there is none. The caller saves the log's note.
    """
    if carries_refs(run.root):
        return
    note, heads = opened.note, opened.log.heads_text()
    if note.heads == heads and note.shape == shape_of(run.ledger_path) and note.shape is not None:
        return
    try:
        note.shape = _replace(run)
    except OSError as error:
        warn(f"{run.shown(run.ledger_path)} cannot be written: {error.strerror or error}; the log has all events")
        return
    note.heads = note.published = heads
    note.barred = ""


def _replace(run: Run) -> list[int] | None:
    disk.sweep(run.ledger_path)
    temporary = disk.own_name(run.ledger_path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    target = os.open(temporary, flags, 0o666)
    try:
        _narrow(run, target)
        _copy(run.log_path, target)
        os.rename(temporary, run.ledger_path)
        return shape_of(target)
    except BaseException:
        disk.remove(temporary)
        raise
    finally:
        os.close(target)


def _narrow(run: Run, target: int) -> None:
    """Give the file the permissions of the one that it replaces; only who may read the state may read a new one."""
    try:
        try:
            there = os.lstat(run.ledger_path)
        except FileNotFoundError:
            there = None
        if there is not None and stat.S_ISREG(there.st_mode):  # a link has every permission
            disk.keep_owner(target, there)
        else:
            mode, allowed = os.fstat(target).st_mode & 0o777, os.stat(run.state_path).st_mode & 0o777
            if mode != mode & (allowed | 0o700):
                os.fchmod(target, mode & (allowed | 0o700))
    except OSError:
        return  # there is no state, or the file system has no permissions


def _copy(path: str, target: int) -> None:
    source = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        try:
            while os.copy_file_range(source, target, 1 << 30):
                pass
        except (OSError, AttributeError):  # another file system, or a system without the call
            os.lseek(source, 0, os.SEEK_SET)
            os.ftruncate(target, 0)
            os.lseek(target, 0, os.SEEK_SET)
            while piece := os.read(source, PIECE):
                left = memoryview(piece)
                while left:
                    left = left[os.write(target, left) :]
    finally:
        os.close(source)


STOPPED = {  # what each operation leaves in a work tree's git directory while it waits for the user
    "rebase-merge": "rebase",
    os.path.join("rebase-apply", "applying"): "am",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


def stopped_command(tree: WorkTree) -> str | None:
    """Return the git command that has stopped in a work tree and waits for the user; None if none has left a trace."""
    found = [command for name, command in STOPPED.items() if os.path.exists(os.path.join(tree.own, name))]
    return found[0] if found else None
