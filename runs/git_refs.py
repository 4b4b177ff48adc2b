"""Branches and commits, read from git's own files without running git."""

from __future__ import annotations

import os

from faber_ledger.ledger.plain_json import without_surrogates
from faber_ledger.runs.git import LIMIT, config_paths, line_of, read_git_file, read_setting, work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.git import WorkTree


def branch_of(root: str) -> str | None:
    """Return the branch that a work tree has checked out, read from git's HEAD file without running git.

    None if it is detached or unknown: without git, and where git keeps its references in tables of its own.
    """
    tree = work_tree_of(root)
    kind, _, branch = ((line_of(os.path.join(tree.own, "HEAD")) if tree else None) or "").partition("refs/heads/")
    # Where references are in tables, the file names a branch that cannot exist.
    return without_surrogates(branch) or None if kind == "ref: " and branch != ".invalid" else None


def commit_of(root: str) -> str | None:
    """Return the commit that a work tree has checked out, 40 or 64 hex digits, read from git's files.

    None before the first commit, without git, and where git keeps its references in tables.
    """
    tree = work_tree_of(root)
    found = line_of(os.path.join(tree.own, "HEAD")) if tree else None
    if tree is not None and found is not None and found.startswith("ref: "):
        found = named_commit(tree, found.removeprefix("ref: "))
    return found if found is not None and len(found) in (40, 64) and not found.strip("0123456789abcdef") else None


def places_of_branch(root: str, name: str) -> list[str]:
    """Return where a clone has a branch, by git's own files: an empty text for its own, else the names of remotes.

    Where git keeps its references in tables, or has very many, that is unknown, and the branch counts as its own.
    """
    tree = work_tree_of(root)
    if tree is None or os.path.isdir(os.path.join(tree.common, "reftable")):
        return [""]
    remotes = os.path.join(tree.common, "refs", "remotes")
    packed = _packed_refs(tree.common)
    named = {line.partition(b" ")[2] for line in packed.splitlines()}
    if os.fsencode(f"refs/heads/{name}") in named or os.path.isfile(os.path.join(tree.common, "refs", "heads", name)):
        return [""]
    of_remotes = {ref.split(b"/")[2] for ref in named if ref.startswith(b"refs/remotes/")}
    with_it = {remote for remote in of_remotes if b"refs/remotes/%b/%b" % (remote, os.fsencode(name)) in named}
    try:
        loose = os.listdir(remotes)
    except OSError:
        loose = []
    with_it |= {os.fsencode(remote) for remote in loose if os.path.isfile(os.path.join(remotes, remote, name))}
    return [""] if len(packed) == LIMIT else sorted(map(os.fsdecode, with_it))


def is_safe(name: str) -> bool:
    """Return whether a branch's name may stand in a command; git also allows `$(…)`, and by a push a first `-`."""
    return name[:1].isalnum() and all(
        [letter.isascii() and (letter.isalnum() or letter in "._/@+#-") for letter in name]
    )


REMOTES = ("upstream", "origin")  # in this order, then by name: in a fork, pull requests go to `upstream`
DEFAULT_BRANCHES = ("main", "master", "develop", "trunk")  # looked for where no remote names one


def default_branch(root: str) -> str | None:
    """Return the name of the default branch, as `default_ref` finds it; None if none is known."""
    ref = default_ref(root)
    return ref.split("/", 3 if ref.startswith("refs/remotes/") else 2)[-1] if ref else None


def default_ref(root: str) -> str | None:
    """Return the default branch as a full ref, read from git's files without running git; None if none is known.

    It is the remote's HEAD as the clone has it, else the first that exists of `init.defaultBranch` and
    `DEFAULT_BRANCHES`. It is looked for once per work tree and process.
    """
    tree = work_tree_of(root)
    if tree is None:
        return None
    if tree not in _default_refs:
        _default_refs[tree] = _find_default_ref(tree)
    return _default_refs[tree]


_default_refs: dict[WorkTree, str | None] = {}


def _find_default_ref(tree: WorkTree) -> str | None:
    remotes = os.path.join(tree.common, "refs", "remotes")
    try:
        names = sorted(os.listdir(remotes), key=lambda name: (*[name != first for first in REMOTES], name))
    except OSError:
        names = []
    for remote in names:
        kind, _, ref = (line_of(os.path.join(remotes, remote, "HEAD")) or "").partition(" ")
        if kind == "ref:" and ref.startswith(f"refs/remotes/{remote}/"):
            return without_surrogates(ref)
    named = _initial_branch(tree.common)
    packed = _packed_refs(tree.common).splitlines()
    for branch in (*([named] if named else []), *DEFAULT_BRANCHES):
        is_loose = os.path.isfile(os.path.join(tree.common, "refs", "heads", *branch.split("/")))
        if is_loose or any([line.endswith(os.fsencode(f" refs/heads/{branch}")) for line in packed]):
            return f"refs/heads/{branch}"
    return None


def named_commit(tree: WorkTree, ref: str) -> str | None:
    """Return the commit that a full ref names, read from git's files; None if they do not say it."""
    found = line_of(os.path.join(tree.common, *ref.split("/")))
    if found is not None:
        return found
    ending = b" " + os.fsencode(ref)
    lines = [line for line in _packed_refs(tree.common).splitlines() if line.endswith(ending)]
    return lines[0].partition(b" ")[0].decode("ascii", "replace") if lines else None


def _initial_branch(common: str) -> str | None:
    """Return `init.defaultBranch` of the repository, else of the user, else of the system."""
    for path in config_paths(common):
        found = read_setting(path, "init", "defaultbranch")
        if found is not None:
            return found
    return None


def _packed_refs(common: str) -> bytes:
    return read_git_file(os.path.join(common, "packed-refs")) or b""
