"""Whether a work tree may be removed: what would be lost, and what else is in it."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.at_work import find_projects, list_other_projects, list_other_runs
from faber_ledger.cli.worktrees.hand_back import HandBack, plan_hand_back
from faber_ledger.cli.worktrees.survey import record_of
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import progress
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_run, run_ids
from faber_ledger.runs.run import LOGS, STATE_BACKUP, with_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.worktrees.survey import Site
    from faber_ledger.runs.worktree_registry import Record


HERE = "you are in it"
# Locks, backups and logs, which are not anyone's work: they never keep a worktree from being removed.
EXPENDABLE = (
    *[f"*/{with_suffix(STATE_BACKUP, part)}" for part in ("", "*")],
    "*/faber/writer",
)
ENDINGS = {"bisect": "reset"}


def list_blockers(site: Site, records: list[Record], here: str, *, named: bool) -> list[str]:
    """Return the reasons against removing a worktree; `named` means that the user gave it by name."""
    if site.tree.is_main:
        return ["it is the main work tree"]
    record = record_of(site, records)
    if site.run_id is None and record is None and site.is_there:
        return ["no run is in it: `git worktree remove` is for worktrees of other work"]
    found = [HERE] if _is_in(site, here) else []
    if site.tree.locked is not None:
        found.append(f"it is locked: {site.tree.locked}; `git worktree unlock` unlocks it")
    if site.session is not None:
        found.append(f"its session {site.session} is open")
    if site.problem is not None and site.orphan != "workflow_abandoned":
        found.append(site.problem)
    unfinished = site.status not in progress.FINISHED
    if unfinished and not (named and site.orphan):
        found.append(f"its run is {site.status or 'unknown'}")
    if not named and site.orphan == "branch_deleted":
        found.append("its branch was deleted, so it is removed only by name")
    if not named and record is not None and record.get("auto_cleanup") is False:
        found.append("its record says `auto_cleanup: false`, so it is removed only by name")
    try:
        roots = find_projects(site.tree.path) if site.is_there else []
        found += list_other_projects(site, roots)
        if not site.is_there:
            return found + _commits_left(site, here, named)
        return [
            *found,
            *_work_left(site, [site.root, *[root for root in roots if root != site.root]], named),
            *list_other_runs(site, records, named=named),
            *_list_nested(site),
        ]
    except LedgerError as error:
        return [*found, error.message]


def find_merged_base(site: Site) -> str | None:
    """Return the base that contains the work of a worktree; None if there is none. Raises GitFailed."""
    commit = git.find_last_commit(site.tree)
    return git.find_base_containing(commit, site.tree.path) if commit else None


def list_leftovers(site: Site) -> list[str]:
    """Return our own untracked files, which git does not ignore where `init` was not run; raises GitFailed.

    They are locks, backups and logs: no user's work.
    """
    below = os.path.normpath(os.path.join(os.path.relpath(site.root, site.tree.path), ".fractary")).replace(os.sep, "/")
    logs = f"{below}/{LOGS.removeprefix('.fractary/')}/"
    untracked = [name for name in git.list_untracked(site.tree) if name.startswith(f"{below}/")]
    return [name for name in untracked if _is_expendable(name) or name.startswith(logs)]


def _is_expendable(name: str) -> bool:
    return any([fnmatchcase(name, pattern) for pattern in EXPENDABLE])


def _join_some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def list_ignored_files(site: Site) -> list[str]:
    """Return the ignored files that are removed with a worktree, a folder as one entry; without our own."""
    below = os.path.normpath(os.path.join(os.path.relpath(site.root, site.tree.path), ".fractary")).replace(os.sep, "/")
    return [name for name in git.list_ignored(site.tree) if not name.startswith(f"{below}/")]


def _is_in(site: Site, here: str) -> bool:
    """Return whether the user is in the worktree, even if it was moved without git's knowledge."""
    work_tree = work_tree_of(here)
    moved = work_tree is not None and work_tree.is_linked and git.folder_of(work_tree) == site.tree.path
    inside = os.path.join(os.path.realpath(here), "").startswith(os.path.join(os.path.realpath(site.tree.path), ""))
    return moved or inside


def _commits_left(site: Site, here: str, named: bool) -> list[str]:
    """Return what would be lost with a worktree whose folder does not exist: commits that only it still names."""
    found = [] if named else ["its folder does not exist"]
    if site.why and os.path.lexists(site.tree.path):
        found.append(site.why)
    if site.session is not None:
        found.append(
            "if its folder was moved: `git worktree repair NEW-PATH`; if it is gone for good: `git worktree prune`"
        )
    commit = git.find_last_commit(site.tree, here)
    staged = git.list_staged(site.tree, here, commit)
    if staged:
        repair = "if its folder was moved: `git worktree repair NEW-PATH`"
        found.append(f"{_join_some(staged)} staged and not committed; {repair}")
    left = git.count_unnamed(commit, here) if commit else 0
    if left and commit:
        commits = f"{plural(left, 'commit')} of it in no branch and no tag"
        found.append(f"{commits}; `git branch NAME {commit[:12]}` keeps them")
    return found


def find_hand_back(site: Site) -> HandBack | None:
    """Return what a merged worktree's run recorded after the merge; None if nothing, or it cannot be handed back.

    Raises GitFailed.
    """
    return plan_hand_back(site, _list_changed(site)) if site.is_there and find_merged_base(site) else None


def _list_changed(site: Site) -> list[str]:
    ours = list_leftovers(site)
    return [name for name in git.list_changes(site.tree, git.find_last_commit(site.tree)) if name not in ours]


def _work_left(site: Site, roots: list[str], named: bool) -> list[str]:
    found, commit = [], git.find_last_commit(site.tree)
    merged = commit is not None and git.find_base_containing(commit, site.tree.path) is not None
    changed = _list_changed(site)
    home = plan_hand_back(site, changed) if merged else None
    changed = [name for name in changed if home is None or name not in home.names]
    if changed:
        found.append(f"uncommitted work: {_join_some(changed)}")
    hidden = git.list_hidden_changes(site.tree)
    if hidden:
        found.append(f"changes in files that git is set not to look at (`git ls-files -v`): {_join_some(hidden)}")
    operation = git.find_operation(site.tree)
    if operation:
        found.append(
            f"a {operation} is in progress in it: finish it, or `git {operation} {ENDINGS.get(operation, '--abort')}`"
        )
    paths = [path for root in roots for run_id in run_ids(root) for path in find_run(root, run_id).required_paths]
    if paths:
        files = [os.path.relpath(path, site.tree.path) for path in paths]
        ignored = git.filter_ignored(site.tree, files)
        if ignored:
            found.append(f"git ignores {_join_some(ignored)}: copy the run's folder, then `git worktree remove`")
    if git.has_submodules(site.tree):
        found.append(
            "submodules are or were checked out in it, and git does not remove such a worktree: make sure that"
            f" their commits are pushed, then `git worktree remove --force {quote_word(site.tree.path)}`"
        )
    if commit is None or merged:
        return found
    if not (named and site.orphan):
        found.append(f"{site.tree.branch or 'its commit'} is not merged")
    left, where = git.count_unkept(commit, site.tree.path)
    if left:
        back = (
            f"; `git branch {quote_word(site.tree.branch or 'NAME')} {commit[:12]}` restores it"
            if site.tree.head is None
            else ""
        )
        found.append(f"{plural(left, 'commit')} of it {where}{back}")
    return found


BARE = {"HEAD", "objects", "refs"}


def _list_nested(site: Site) -> list[str]:
    """Return which worktrees of the clone and which other repositories are in a worktree's folder; raises GitFailed.

    Git itself does not look into ignored folders. An unreadable folder is reported: anything may be in it.
    """
    top = os.path.realpath(site.tree.path)
    inside = os.path.join(top, "")
    trees = [os.path.realpath(tree.path) for tree in git.list_trees(site.tree.path)]
    contained = sorted(path for path in trees if path.startswith(inside))
    found = [f"a worktree is in it: {path}" for path in contained]
    unread: list[str] = []
    found += [f"a repository is in it: {path}" for path in _repositories(top, unread) if path not in contained]
    return found + [f"its content is not readable: {path}" for path in unread]


def _repositories(top: str, unread: list[str]) -> Iterator[str]:
    """Return the folders below `top` that are repositories; those that cannot be read are added to `unread`."""
    for at, folders, files in os.walk(top, onerror=lambda error: unread.append(str(error.filename))):
        names = {*folders, *files}
        if at == top:
            folders[:] = [name for name in folders if name != ".git"]
        elif ".git" in names or names >= BARE:
            folders.clear()  # what is in it goes or stays with it
            yield at
