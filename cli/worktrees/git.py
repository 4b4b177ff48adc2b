"""What git says about work trees: listing, adding, removing, and what a removal would lose."""

from __future__ import annotations

import functools
import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.ledger.errors import GitFailed, LedgerError, NoWorkTree
from faber_ledger.runs import git_command
from faber_ledger.runs.git import FOREIGN, WorkTree, forget_work_trees, top_above, work_tree_of

if TYPE_CHECKING:
    from collections.abc import Callable


# These ask about other work trees: what a git hook that calls us says about its own would answer for them.
asked = functools.partial(git_command.asked, without=FOREIGN)
git = functools.partial(git_command.git, without=FOREIGN)


class Tree(NamedTuple):
    """A work tree as `git worktree list` has it; `head` is None where there is no commit."""

    path: str
    head: str | None
    branch: str | None
    is_main: bool
    locked: str | None
    why_gone: str | None


def require_work_tree(root: str) -> None:
    """Check that git has a work tree here; raises NoWorkTree."""
    done = asked("rev-parse", "--is-inside-work-tree", at=root)
    if done.returncode:
        if is_forgotten(root):
            raise NoWorkTree(
                "git knows this worktree no more: what its file `.git` names is not there",
                hint="if the main work tree was moved, run `git worktree repair` in it; else make a new one with"
                " `git worktree add`, and copy into it what you need from here",
            )
        raise NoWorkTree("no git repository is here, and worktrees are git's", hint="run `git init` and make a commit")
    if done.stdout.strip() != b"true":
        raise _bare()


def is_forgotten(root: str) -> bool:
    """Tell whether a file `.git` is here whose git directory is not."""
    return os.path.isfile(os.path.join(top_above(root) or root, ".git")) and work_tree_of(root) is None


def refuse_bare(root: str) -> None:
    """Raise NoWorkTree in a bare repository: nothing that is written there would ever be in a commit."""
    try:
        is_bare = asked("rev-parse", "--is-bare-repository", at=root).stdout.strip() == b"true"
    except LedgerError:
        return  # without git there is none
    if is_bare:
        raise _bare()


def _bare() -> NoWorkTree:
    hint = "make a worktree with `git worktree add ../main main`, and run the command in it"
    return NoWorkTree("this is a bare repository: it has no work tree for a run", hint=hint)


def trees(root: str) -> list[Tree]:
    """List the work trees of the clone, the main one first; a bare repository is none. Raises GitFailed.

    Of a submodule git names its git directory in the main work tree's place: the work tree itself is given.
    """
    done = asked("worktree", "list", "--porcelain", "-z", at=root)
    if done.returncode == 0:
        entries = os.fsdecode(done.stdout).split("\0\0")
        parts = [entry.split("\0") for entry in entries]
    else:  # a git older than 2.36
        listed = os.fsdecode(git("worktree", "list", "--porcelain", at=root))
        parts = [entry.split("\n") for entry in listed.split("\n\n")]
    place, found = work_tree_of(root), []
    for number, lines in enumerate(parts):
        values = {name: value for name, _, value in (line.partition(" ") for line in lines if line)}
        if not values or "bare" in values:
            continue
        branch, head = values.get("branch"), values.get("HEAD", "0")
        found.append(
            Tree(
                path=place.top if number == 0 and place and not place.is_linked else values["worktree"],
                head=None if set(head) == {"0"} else head,
                branch=branch.removeprefix("refs/heads/") if branch else None,
                is_main=number == 0,
                locked=(" ".join(values["locked"].split()) or "no reason given") if "locked" in values else None,
                why_gone=values.get("prunable"),
            )
        )
    return found


def can_add(root: str) -> bool:
    """Tell whether git can make a worktree here: not without a repository, and not without a commit."""
    try:
        return asked("rev-parse", "--verify", "--quiet", "HEAD^{commit}", at=root).returncode == 0
    except GitFailed:
        return False


def add(root: str, folder: str, branch: str, warn: Callable[[str], None]) -> None:
    """Make a worktree on a new branch from where HEAD is; what exists already is told and never overwritten.

    A hook of the user's that fails afterwards is told alone. Raises LedgerError, and nothing is left then.
    """
    shown = os.path.relpath(folder, os.getcwd())
    if not can_add(root):
        raise LedgerError(
            "the repository has no commit yet, so no worktree can be made of it", hint="make the first commit"
        )
    if asked("check-ref-format", f"refs/heads/{branch}", at=root).returncode:
        raise LedgerError(
            f"{branch} is no name for a branch", hint="make the worktree with `git worktree add` yourself"
        )
    if os.path.lexists(folder):
        raise LedgerError(
            f"the folder {shown} exists already, and nothing in it was touched",
            hint=f"go there if it is the worktree (`cd {shlex.quote(shown)}`), or make one elsewhere with"
            " `git worktree add`",
        )
    refs = git("for-each-ref", "--format=%(refname)", f"refs/heads/{branch}", "refs/remotes", at=root)
    known = [ref for ref in os.fsdecode(refs).splitlines() if _is_branch(ref, branch)]
    if known:
        raise LedgerError(
            f"the branch {branch} exists already ({known[0].removeprefix('refs/')}), and was not touched",
            hint=f"`git worktree add {shlex.quote(shown)} {branch}` takes it as it is; start the run there",
        )
    done = asked("worktree", "add", "--quiet", "-b", branch, "--", folder, at=root)
    forget_work_trees()
    if done.returncode == 0:
        return
    # Where git itself fails it exits with 128, or takes its folder back: 1 is the answer of a hook after all is there.
    if done.returncode == 1 and os.path.isfile(os.path.join(folder, ".git")):
        warn(f"⚠️  the hook post-checkout failed in the new worktree, which is there: {git_command.complaint(done)}")
        return
    take_back(root, folder, branch)
    raise GitFailed(
        f"`git worktree add` failed: {git_command.complaint(done)}",
        hint="see what `git worktree list` says, and run it again",
    )


def take_back(root: str, folder: str, branch: str) -> None:
    """Remove a worktree that was made a moment ago, and its branch: nobody has worked in it."""
    asked("worktree", "remove", "--force", "--", folder, at=root)
    forget_work_trees()
    asked("branch", "-D", "--", branch, at=root)


def remove(tree: Tree, at: str) -> None:
    """Remove a worktree as git does, which looks for uncommitted work once more; raises GitFailed.

    To git every file of a worktree whose branch is gone is uncommitted: there the look that `changes` took has to do.
    """
    force = ["--force"] if tree.head is None and tree.why_gone is None else []
    git("worktree", "remove", *force, "--", tree.path, at=at)
    forget_work_trees()


def branch_exists(tree: Tree) -> bool:
    """Tell whether the branch that a worktree is on is there; a worktree with a detached head has none to lose."""
    return tree.branch is None or tree.head is not None


def last_commit(tree: Tree, elsewhere: str | None = None) -> str | None:
    """Give the commit that a worktree is at: of one whose branch is gone, the one its own log of HEAD tells.

    `elsewhere` is another work tree of the clone, to ask git in if the folder is not there; None: it had no commit.
    """
    if tree.head is not None:
        return tree.head
    own = own_directory(tree, elsewhere)
    if own is None:
        return None
    try:
        with open(os.path.join(own, "logs", "HEAD"), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n").rpartition("\n")[2].split(" ")[1]
    except (OSError, IndexError):
        return None


def folder_of(place: WorkTree) -> str | None:
    """Give the folder that git believes a linked worktree to be in; None if it says none."""
    try:
        with open(os.path.join(place.own, "gitdir"), "rb") as file:
            return os.path.dirname(os.path.normpath(os.path.join(place.own, os.fsdecode(file.read(4096)).strip())))
    except OSError:
        return None


def own_directory(tree: Tree, elsewhere: str | None = None) -> str | None:
    """Find a worktree's own git directory, from its folder or, if that is not there, from the clone's."""
    place = work_tree_of(tree.path if elsewhere is None else elsewhere)
    if place is None or elsewhere is None:
        return place.own if place else None
    admin = os.path.join(place.common, "worktrees")
    names = os.listdir(admin) if os.path.isdir(admin) else []
    known = [WorkTree(tree.path, os.path.join(admin, name), place.common) for name in names]
    return next((one.own for one in known if folder_of(one) == tree.path), None)


def merged_into(commit: str, at: str) -> str | None:
    """Name a base that has a commit's work, itself or squashed into one commit; None if there is none.

    Bases are each remote's main branch; without a remote, the branch of the main work tree.
    """
    return next((base for base in _bases(at) if _has(base, commit, at)), None)


def unkept(commit: str, at: str) -> tuple[int, str]:
    """Count the commits that are on no remote; in a clone without a remote, those in no branch and no tag."""
    if not _remotes(at):
        return unnamed(commit, at), "in no branch and no tag"
    return int(git("rev-list", "--count", commit, "--not", "--remotes", at=at)), "on no remote"


def unnamed(commit: str, at: str) -> int:
    """Count the commits that no branch has, no tag, and no remote's branch; raises GitFailed."""
    return int(git("rev-list", "--count", commit, "--not", "--branches", "--tags", "--remotes", at=at))


def commit_time(commit: str, at: str) -> float:
    """Give when a commit was made, in seconds since 1970."""
    return float(git("show", "--no-patch", "--format=%ct", commit, at=at).split()[-1])


def _is_branch(ref: str, branch: str) -> bool:
    if ref.startswith("refs/heads/"):
        return ref == f"refs/heads/{branch}"
    return ref.removeprefix("refs/remotes/").partition("/")[2] == branch


def _remotes(at: str) -> list[str]:
    return os.fsdecode(git("remote", at=at)).split("\n")[:-1]


def _bases(at: str) -> list[str]:
    remotes = _remotes(at)
    names = [f"{remote}/{name}" for remote in remotes for name in ("HEAD", "main", "master")]
    if not remotes:
        names = [tree.branch for tree in trees(at) if tree.is_main and tree.branch] + ["main", "master"]
    prefix = "refs/remotes/" if remotes else "refs/heads/"
    known = [asked("rev-parse", "--verify", "--quiet", f"{prefix}{name}^{{commit}}", at=at) for name in names]
    return [name for name, done in zip(names, known, strict=True) if done.returncode == 0]


def _has(base: str, commit: str, at: str) -> bool:
    if asked("merge-base", "--is-ancestor", commit, base, at=at).returncode == 0:
        return True
    fork = asked("merge-base", base, commit, at=at)
    if fork.returncode:
        return False
    identity = ["-c", "user.name=faber-ledger", "-c", "user.email=faber-ledger@localhost"]
    tree, parent = f"{commit}^{{tree}}", fork.stdout.decode().strip()
    squashed = asked(*identity, "commit-tree", tree, "-p", parent, "-m", "squashed", at=at).stdout.decode().strip()
    answer = asked("cherry", base, squashed, at=at)
    return answer.returncode == 0 and answer.stdout.startswith(b"-")


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
