"""What git says about work trees: listing, adding, removing, and what a removal would lose."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import GitFailed, NoWorkTree
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import git_command
from faber_ledger.runs.git import WorkTree, forget_work_trees, top_above, work_tree_of
from faber_ledger.runs.git_query import FOREIGN

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


# These ask about other work trees: the variables that a git hook sets for its own would change the answers.
run_git = functools.partial(git_command.run_git, without=FOREIGN)
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
    """Raise NoWorkTree unless git has a work tree here."""
    done = run_git("rev-parse", "--is-inside-work-tree", at=root)
    if _is_refused_bare(done):
        raise _bare()
    if done.returncode:
        if is_forgotten(root):
            raise NoWorkTree(
                "git no longer knows this worktree: the git directory that its file `.git` names does not exist",
                hint="if the main work tree was moved, run `git worktree repair` in it; if not, create a new one with"
                " `git worktree add`, and copy what you need into it",
            )
        raise NoWorkTree("there is no git repository here", hint="run `git init` and make a commit")
    if done.stdout.strip() != b"true":
        raise _bare()


def is_forgotten(root: str) -> bool:
    """Return whether the file `.git` here names a git directory that does not exist."""
    return os.path.isfile(os.path.join(top_above(root) or root, ".git")) and work_tree_of(root) is None


def refuse_bare(root: str) -> None:
    """Raise NoWorkTree in a bare repository: nothing that is written there could ever be committed."""
    try:
        done = run_git("rev-parse", "--is-bare-repository", at=root)
    except LedgerError:
        return  # without git there is no repository
    if done.stdout.strip() == b"true" or _is_refused_bare(done):
        raise _bare()


def _is_refused_bare(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Return whether git did not look into a bare repository, since nothing but its being there names it."""
    return done.returncode != 0 and b"safe.bareRepository" in done.stderr


def _bare() -> NoWorkTree:
    hint = "create a worktree with `git worktree add ../main main`, and run the command in it"
    return NoWorkTree("this is a bare repository: it has no work tree for a run", hint=hint)


def list_trees(root: str) -> list[Tree]:
    """Return the work trees of the clone, the main one first; a bare repository is not one. Raises GitFailed.

    For a submodule git names its git directory instead of the main work tree: the work tree is returned.
    """
    done = run_git("worktree", "list", "--porcelain", "-z", at=root)
    if done.returncode == 0:
        entries = os.fsdecode(done.stdout).split("\0\0")
        parts = [entry.split("\0") for entry in entries]
    else:  # a git older than 2.36
        listed = os.fsdecode(git("worktree", "list", "--porcelain", at=root))
        parts = [entry.split("\n") for entry in listed.split("\n\n")]
    work_tree, found = work_tree_of(root), []
    for number, lines in enumerate(parts):
        values = {name: value for name, _, value in (line.partition(" ") for line in lines if line)}
        if not values or "bare" in values:
            continue
        branch, head = values.get("branch"), values.get("HEAD", "0")
        found.append(
            Tree(
                path=work_tree.top if number == 0 and work_tree and not work_tree.is_linked else values["worktree"],
                head=None if set(head) == {"0"} else head,
                branch=branch.removeprefix("refs/heads/") if branch else None,
                is_main=number == 0,
                locked=(" ".join(values["locked"].split()) or "no reason given") if "locked" in values else None,
                why_gone=values.get("prunable"),
            )
        )
    return found


def can_add(root: str) -> bool:
    """Return whether git can create a worktree here: it needs a repository with a commit."""
    try:
        return run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", at=root).returncode == 0
    except GitFailed:
        return False


def add(root: str, folder: str, branch: str, warn: Callable[[str], None]) -> None:
    """Create a worktree on a new branch that starts at HEAD; existing folders and branches are never overwritten.

    If only a hook of the user fails afterwards, `warn` gets it. Raises LedgerError, and leaves nothing behind then.
    """
    shown = os.path.relpath(folder, os.getcwd())
    if not can_add(root):
        raise LedgerError("the repository has no commit yet, so it can have no worktree", hint="make the first commit")
    if run_git("check-ref-format", f"refs/heads/{branch}", at=root).returncode:
        raise LedgerError(
            f"{branch} is not a valid branch name", hint="create the worktree with `git worktree add` yourself"
        )
    if os.path.lexists(folder):
        raise LedgerError(
            f"the folder {shown} exists already, and nothing in it was changed",
            hint=f"go there if it is the worktree (`cd {quote_word(shown)}`), or create one elsewhere with"
            " `git worktree add`",
        )
    refs = git("for-each-ref", "--format=%(refname)", f"refs/heads/{branch}", "refs/remotes", at=root)
    known = [ref for ref in os.fsdecode(refs).splitlines() if _is_branch(ref, branch)]
    if known:
        raise LedgerError(
            f"the branch {branch} exists already ({known[0].removeprefix('refs/')}), and was not changed",
            hint=f"`git worktree add {quote_word(shown)} {quote_word(branch)}` uses it as it is; start the run there",
        )
    done = run_git("worktree", "add", "--quiet", "-b", branch, "--", folder, at=root)
    forget_work_trees()
    if done.returncode == 0:
        return
    # If git itself fails, it exits with 128 or removes the folder: 1 comes from a hook that ran at the end.
    if done.returncode == 1 and os.path.isfile(os.path.join(folder, ".git")):
        warn(f"⚠️  the worktree was created, but its post-checkout hook failed: {git_command.complaint(done)}")
        return
    take_back(root, folder, branch)
    raise GitFailed(
        f"`git worktree add` failed: {git_command.complaint(done)}",
        hint="see what `git worktree list` says, and run it again",
    )


def take_back(root: str, folder: str, branch: str) -> None:
    """Remove a worktree that was created a moment ago, and its branch: no work is in it yet."""
    run_git("worktree", "remove", "--force", "--", folder, at=root)
    forget_work_trees()
    run_git("branch", "-D", "--", branch, at=root)


def remove(tree: Tree, common: str) -> None:
    """Remove a worktree of the git directory `common` with git, which checks for uncommitted work once more.

    Raises GitFailed.

    If its branch was deleted, every file is uncommitted to git: there only `changes` has checked.
    """
    force = ["--force"] if tree.head is None and tree.why_gone is None else []
    git(f"--git-dir={common}", "worktree", "remove", *force, "--", tree.path, at=common)
    forget_work_trees()


def branch_exists(tree: Tree) -> bool:
    """Return whether a worktree's branch exists; true for a detached head."""
    return tree.branch is None or tree.head is not None


def find_last_commit(tree: Tree, elsewhere: str | None = None) -> str | None:
    """Return the commit that a worktree is at, from its reflog of HEAD if its branch was deleted; None if it had none.

    If its folder does not exist, `elsewhere` is another work tree of the clone, in which git is asked.
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


def folder_of(work_tree: WorkTree) -> str | None:
    """Return the folder that git has recorded for a linked worktree; None if it has none."""
    try:
        with open(os.path.join(work_tree.own, "gitdir"), "rb") as file:
            return os.path.dirname(os.path.normpath(os.path.join(work_tree.own, os.fsdecode(file.read(4096)).strip())))
    except OSError:
        return None


def own_directory(tree: Tree, elsewhere: str | None = None) -> str | None:
    """Return a worktree's own git directory, found from its folder or, if that does not exist, from the clone's."""
    work_tree = work_tree_of(tree.path if elsewhere is None else elsewhere)
    if work_tree is None or elsewhere is None:
        return work_tree.own if work_tree else None
    admin = os.path.join(work_tree.common, "worktrees")
    names = os.listdir(admin) if os.path.isdir(admin) else []
    known = [WorkTree(tree.path, os.path.join(admin, name), work_tree.common) for name in names]
    return next((one.own for one in known if folder_of(one) == tree.path), None)


def find_base_containing(commit: str, at: str) -> str | None:
    """Return a base that contains a commit, itself or squashed into one commit; None if there is none.

    Bases are the main branch of each remote; without a remote, the branch of the main work tree.
    """
    return next((base for base in _bases(at) if _has(base, commit, at)), None)


def count_unkept(commit: str, at: str) -> tuple[int, str]:
    """Return how many commits are on no remote, or without a remote in no branch and no tag; and which of the two."""
    if not _remotes(at):
        return count_unnamed(commit, at), "in no branch and no tag"
    return int(git("rev-list", "--count", commit, "--not", "--remotes", at=at)), "on no remote"


def count_unnamed(commit: str, at: str) -> int:
    """Return how many commits are in no branch, no tag and no remote branch; raises GitFailed."""
    return int(git("rev-list", "--count", commit, "--not", "--branches", "--tags", "--remotes", at=at))


def read_commit_time(commit: str, at: str) -> float:
    """Return the time of a commit, in seconds since 1970."""
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
        names = [tree.branch for tree in list_trees(at) if tree.is_main and tree.branch] + ["main", "master"]
    prefix = "refs/remotes/" if remotes else "refs/heads/"
    known = [run_git("rev-parse", "--verify", "--quiet", f"{prefix}{name}^{{commit}}", at=at) for name in names]
    return [name for name, done in zip(names, known, strict=True) if done.returncode == 0]


def _has(base: str, commit: str, at: str) -> bool:
    if run_git("merge-base", "--is-ancestor", commit, base, at=at).returncode == 0:
        return True
    fork = run_git("merge-base", base, commit, at=at)
    if fork.returncode:
        return False
    identity = ["-c", "user.name=faber-ledger", "-c", "user.email=faber-ledger@localhost"]
    tree, parent = f"{commit}^{{tree}}", fork.stdout.decode().strip()
    squashed = run_git(*identity, "commit-tree", tree, "-p", parent, "-m", "squashed", at=at).stdout.decode().strip()
    answer = run_git("cherry", base, squashed, at=at)
    return answer.returncode == 0 and answer.stdout.startswith(b"-")


ALL = ("--untracked-files=all", "--ignore-submodules=none")


def list_changes(tree: Tree, commit: str | None) -> list[str]:
    """Return the files that differ from a worktree's commit, also untracked ones and submodules; raises GitFailed."""
    if tree.head is not None:
        printed = git("status", "--porcelain", "-z", "--no-renames", *ALL, at=tree.path)
        return [entry[3:] for entry in os.fsdecode(printed).split("\0") if len(entry) > 3]
    against = [commit] if commit else ["--cached"]
    differing = os.fsdecode(git("diff", "--name-only", "-z", *against, at=tree.path))
    return [*differing.split("\0")[:-1], *list_untracked(tree)]


def list_untracked(tree: Tree) -> list[str]:
    """Return the files of a worktree that git neither tracks nor ignores; raises GitFailed."""
    listed = git("ls-files", "--others", "--exclude-standard", "-z", at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def filter_ignored(tree: Tree, names: list[str]) -> list[str]:
    """Return which of some files, relative to the worktree, git ignores; raises GitFailed."""
    literal = [f":(literal){name}" for name in names]
    listed = git("ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *literal, at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def list_ignored(tree: Tree) -> list[str]:
    """Return the files of a worktree that git ignores, a whole folder as one entry; raises GitFailed."""
    listed = git("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", at=tree.path)
    return os.fsdecode(listed).split("\0")[:-1]


def list_hidden_changes(tree: Tree) -> list[str]:
    """Return the files that differ from the index although git is set not to look at them; raises GitFailed.

    A file that a sparse checkout leaves out does not count.
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
    return run_git("hash-object", "--", name, at=tree.path).stdout.strip() != staged[1]


UNFINISHED = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def find_operation(tree: Tree) -> str | None:
    """Return the git operation that is in progress in a worktree; None if there is none."""
    own = own_directory(tree)
    found = [what for name, what in UNFINISHED.items() if own and os.path.lexists(os.path.join(own, name))]
    return next(iter(found), None)


def list_staged(tree: Tree, elsewhere: str, commit: str | None) -> list[str]:
    """Return the staged files of a worktree whose folder does not exist: those that differ from its commit."""
    own = own_directory(tree, elsewhere)
    if own is None or commit is None or not os.path.isfile(os.path.join(own, "index")):
        return []
    done = run_git("--git-dir", own, "diff-index", "--cached", "--name-only", "-z", commit, at=own)
    return os.fsdecode(done.stdout).split("\0")[:-1]


def has_submodules(tree: Tree) -> bool:
    """Return whether submodules are or were checked out in a worktree: git refuses to remove one that has them."""
    own = own_directory(tree)
    if own is not None and os.path.isdir(os.path.join(own, "modules")):
        return True
    listed = run_git("submodule", "status", at=tree.path).stdout.decode("utf-8", "replace").splitlines()
    return any([not line.startswith("-") for line in listed])
