"""What git says about work trees: which there are, and what the removal of one would lose."""

import os
from typing import NamedTuple

from faber_ledger.ledger.command_errors import GitFailed, NoWorkTree
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.git_command import complaint, git, run_git

HINT_NO_WORK_TREE = (
    "see what `git status` says: a repository needs `git init` and a commit, and `git worktree repair` in the main work"
    " tree restores a worktree that was moved"
)
HINT_GONE = "if it was moved, `git worktree repair NEW-PATH`; if it is gone for good, `git worktree remove PATH`"


class Tree(NamedTuple):
    """A work tree as `git worktree list` has it; `head` is None where there is no commit."""

    path: str
    head: str | None
    branch: str | None
    is_main: bool
    locked: str | None
    problem: str | None


def require_work_tree(root: str) -> None:
    """Raise NoWorkTree unless git has a work tree here."""
    refuse_bare(root)
    done = run_git("rev-parse", "--is-inside-work-tree", at=root)
    if done.stdout.strip() != b"true":
        raise NoWorkTree(f"git has no work tree here: {complaint(done)}", hint=HINT_NO_WORK_TREE)


def require_project(root: str) -> None:
    """Raise LedgerError outside a project."""
    if not os.path.isdir(os.path.join(root, ".fractary")) and not os.path.lexists(os.path.join(root, ".git")):
        raise LedgerError(
            f"no project found: neither {root} nor a folder above it has .fractary or .git",
            hint="run the command in a project; `faber-ledger init` sets one up",
        )


def refuse_bare(root: str) -> None:
    """Raise NoWorkTree in a bare repository: nothing that is written there could ever be committed."""
    try:
        done = run_git("rev-parse", "--is-bare-repository", at=root)
    except LedgerError:
        return  # without git there is no repository
    if done.stdout.strip() == b"true" or b"safe.bareRepository" in done.stderr:  # which our calls of git set
        hint = "create a worktree with `git worktree add ../main main`, and run the command in it"
        raise NoWorkTree("this is a bare repository: it has no work tree for a run", hint=hint)


def list_trees(root: str) -> list[Tree]:
    """Return the work trees of the clone, the main one first; a bare repository is not one. Raises GitFailed.

    For a submodule git names its git directory instead of the main work tree: the work tree is returned.
    """
    listed = os.fsdecode(git("worktree", "list", "--porcelain", at=root))  # git has -z since 2.36
    work_tree, found = work_tree_of(root), []
    for number, entry in enumerate(listed.split("\n\n")):
        values = {name: value for name, _, value in (line.partition(" ") for line in entry.split("\n") if line)}
        if not values or "bare" in values:
            continue
        branch, head = values.get("branch"), values.get("HEAD", "0")
        found.append(
            Tree(
                path=work_tree.top if number == 0 and work_tree and not work_tree.is_linked else values["worktree"],
                head=None if set(head) == {"0"} else head,
                branch=branch.removeprefix("refs/heads/") if branch else None,
                is_main=number == 0,
                locked=values["locked"] or "no reason given" if "locked" in values else None,
                problem=f"git says: {values['prunable']}; {HINT_GONE}" if "prunable" in values else None,
            )
        )
    return found


def can_add(root: str) -> bool:
    """Return whether git can create a worktree here: it needs a repository with a commit."""
    try:
        return run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", at=root).returncode == 0
    except GitFailed:
        return False


def find_base_containing(tree: Tree) -> str | None:
    """Return a base that contains a worktree's commit, itself or squashed into one commit; None if there is none.

    Bases are the main branch of each remote; without a remote, the branch of the main work tree.
    """
    commit, at = tree.head, tree.path
    if commit is None:
        return None
    remotes = os.fsdecode(git("remote", at=at)).splitlines()
    names = [f"{remote}/{name}" for remote in remotes for name in ("HEAD", "main", "master")]
    if not remotes:
        names = [tree.branch for tree in list_trees(at) if tree.is_main and tree.branch] + ["main", "master"]
    prefix = "refs/remotes/" if remotes else "refs/heads/"
    return next((name for name in names if _has(f"{prefix}{name}", commit, at)), None)


def _has(base: str, commit: str, at: str) -> bool:
    fork = run_git("merge-base", base, commit, at=at)
    if fork.returncode:
        return False  # the two have no commit in common
    parent = fork.stdout.decode().strip()
    if parent == commit:
        return True
    identity = ["-c", "user.name=faber-ledger", "-c", "user.email=faber-ledger@localhost"]
    squash = ["commit-tree", f"{commit}^{{tree}}", "-p", parent, "-m", "squashed"]
    squashed = run_git(*identity, *squash, at=at).stdout.decode().strip()
    return run_git("cherry", base, squashed, at=at).stdout.startswith(b"-")


def list_changes(tree: Tree) -> list[str]:
    """Return the files that differ from a worktree's commit, also untracked ones and submodules; raises GitFailed."""
    options = ("--no-renames", "--untracked-files=all", "--ignore-submodules=none")
    listed = os.fsdecode(git("status", "--porcelain", "-z", *options, at=tree.path)).split("\0")
    return [entry[3:] for entry in listed if entry]


def list_ignored(tree: Tree, paths: tuple[str, ...] = ()) -> list[str]:
    """Return which of these files of a worktree git ignores, by their paths in it; raises GitFailed.

    Without paths it is all that git ignores there, a whole folder as one entry.
    """
    options = ("--others", "--ignored", "--exclude-standard", "-z", *([] if paths else ["--directory"]), "--")
    return os.fsdecode(git("--literal-pathspecs", "ls-files", *options, *paths, at=tree.path)).split("\0")[:-1]
