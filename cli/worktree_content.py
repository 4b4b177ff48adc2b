"""What stands in a worktree that git has, has not, or was told not to look at."""

from __future__ import annotations

import os

from faber_ledger.cli.worktree_git import Tree, asked, git, own_directory

ALL = ("--untracked-files=all", "--ignore-submodules=none")


def changes(tree: Tree, commit: str | None) -> list[str]:
    """Name the files that differ from a worktree's commit, untracked and in submodules too; raises GitFailed."""
    if tree.head is not None:
        printed = git("status", "--porcelain", "-z", "--no-renames", *ALL, at=tree.path)
        return [entry[3:] for entry in os.fsdecode(printed).split("\0") if len(entry) > 3]
    against = [commit] if commit else ["--cached"]
    differing = os.fsdecode(git("diff", "--name-only", "-z", *against, at=tree.path))
    return [*differing.split("\0")[:-1], *untracked(tree)]


def untracked(tree: Tree) -> list[str]:
    """Name the files of a worktree that git neither has nor leaves out; raises GitFailed."""
    listed = git("ls-files", "--others", "--exclude-standard", "-z", at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def left_out(tree: Tree, names: list[str]) -> list[str]:
    """Name those of some files, relative to the worktree, that its rules keep out of git; raises GitFailed."""
    literal = [f":(literal){name}" for name in names]
    listed = git("ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *literal, at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def ignored(tree: Tree) -> list[str]:
    """Name the files of a worktree that its rules keep out of git, a whole folder as one; raises GitFailed."""
    listed = git("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def hidden_changes(tree: Tree) -> list[str]:
    """Name the files that differ from the index and that git was told not to look at; raises GitFailed.

    A file that a sparse checkout leaves out is none.
    """
    listed = os.fsdecode(git("ls-files", "-v", "-z", at=tree.path)).split("\0")[:-1]
    flagged = [entry[2:] for entry in listed if entry[0] == "S" or entry[0].islower()]
    there = [name for name in flagged if os.path.lexists(os.path.join(tree.path, name))]
    return [name for name in there if _is_edited(tree, name)]


def _is_edited(tree: Tree, name: str) -> bool:
    staged = git("ls-files", "--stage", "-z", "--", f":(literal){name}", at=tree.path).split()
    if os.path.islink(os.path.join(tree.path, name)):
        target = os.fsencode(os.readlink(os.path.join(tree.path, name)))
        return git("hash-object", "--stdin", at=tree.path, content=target).strip() != staged[1]
    return asked("hash-object", "--", name, at=tree.path).stdout.strip() != staged[1]


HALF_DONE = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def half_done(tree: Tree) -> str | None:
    """Name what git was asked for in a worktree and has not ended; None if nothing is."""
    own = own_directory(tree)
    found = [what for name, what in HALF_DONE.items() if own and os.path.lexists(os.path.join(own, name))]
    return next(iter(found), None)


def staged_without_folder(tree: Tree, elsewhere: str, commit: str | None) -> list[str]:
    """Name the files that differ from the commit in the index of a worktree whose folder is not there."""
    own = own_directory(tree, elsewhere)
    if own is None or commit is None or not os.path.isfile(os.path.join(own, "index")):
        return []
    done = asked("--git-dir", own, "diff-index", "--cached", "--name-only", "-z", commit, at=own)
    return os.fsdecode(done.stdout).split("\0")[:-1]


def has_submodules(tree: Tree) -> bool:
    """Tell whether submodules are, or were, checked out in a worktree: git removes none that has them."""
    own = own_directory(tree)
    if own is not None and os.path.isdir(os.path.join(own, "modules")):
        return True
    listed = asked("submodule", "status", at=tree.path).stdout.decode("utf-8", "replace").splitlines()
    return any([not line.startswith("-") for line in listed])
