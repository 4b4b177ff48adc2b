"""The runs that other branches have and this clone lacks: its own branches, and its remotes' as last fetched.

Git is asked four times, however many branches there are. Where it does not answer in time, there are none, or their
states are not known.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import loads_object
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.git_query import GitQuery, time_limit
from faber_ledger.runs.kept import run_ids_here
from faber_ledger.runs.layouts import run_at
from faber_ledger.runs.progress import FINISHED, branch_name
from faber_ledger.runs.run import RUNS, STATE, path_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 2.0  # for all that git is asked
MOST_BRANCHES = 100  # the newest
LIMIT = 64 * 1024 * 1024  # bytes that git prints
FILES = [f":(glob){runs}/**/{name}" for runs in RUNS for name in ("state*.json", "ledger*.db")]


class RunOnBranch(NamedTuple):
    """A run, the ref of the branch that has it, and its state there; the state is empty if git ignores or lacks it."""

    run_id: str
    ref: str
    state: dict[str, Any]

    @property
    def is_finished(self) -> bool:
        """Whether the run is completed or cancelled."""
        return self.state.get("status") in FINISHED

    @property
    def branch(self) -> str:
        """The branch's name, without its remote's."""
        _, kind, name = self.ref.split("/", 2)
        return name if kind == "heads" else name.partition("/")[2]


def runs_on_branches(root: str) -> list[RunOnBranch]:
    """Return each run that this clone lacks on one of its branches: those at work first, then the newest branch's.

    That is a branch on which the run is finished, else the one that its state names, else one with its newest state. Of
    several it is the oldest: a branch that began at another run's has that run too.
    """
    deadline = time_limit(SECONDS)
    refs = _refs_by_tree(root, deadline)
    files = _changed_files(root, list(refs), deadline)
    known = {path_form(run_id) for run_id in run_ids_here(root)} if files else set()
    places = {path: run_at(root, path) for path in {path for _, path, _ in files}}
    runs = {path: one for path, one in places.items() if one is not None and path_form(one[0].run_id) not in known}
    files = [one for one in files if one[1] in runs]
    states = _read_states(root, {blob for _, path, blob in files if runs[path][1] == STATE}, deadline)
    found: dict[str, list[RunOnBranch]] = {}
    for tree, path, blob in files:
        run_id = runs[path][0].run_id
        there = [RunOnBranch(run_id, ref, states.get(blob, {})) for ref in refs[tree]]
        found.setdefault(path_form(run_id), []).extend(there)
    chosen = [max(found[form], key=_rank) for form in reversed(found)]
    return sorted(chosen, key=lambda one: one.is_finished)


def root_with_branch(root: str, branch: str) -> str | None:
    """Return the project in the clone's other work tree that has a branch checked out; None if there is none."""
    tree = work_tree_of(root)
    top = tree.top_with(branch) if tree is not None else None
    if tree is None or top is None or not os.path.isdir(top):
        return None
    return os.path.normpath(os.path.join(top, os.path.relpath(root, tree.top)))


def _rank(one: RunOnBranch) -> tuple[bool, bool, bool, float]:
    named, updated_at = branch_name(one.state), seconds_of(one.state.get("updated_at")) or 0.0
    return one.is_finished, named == one.branch, bool(one.state), updated_at


def _refs_by_tree(root: str, deadline: float) -> dict[str, list[str]]:
    """Return the newest branches by the trees of their commits, the oldest of them first."""
    options = ("--sort=-refname", "--sort=-committerdate", f"--count={MOST_BRANCHES}", "--format=%(tree) %(refname)")
    listed = GitQuery(["for-each-ref", *options, "refs/heads", "refs/remotes"], root, deadline=deadline).answer() or ""
    refs: dict[str, list[str]] = {}
    for tree, _, ref in [line.partition(" ") for line in reversed(listed.splitlines())]:
        if tree and not (ref.startswith("refs/remotes/") and ref.endswith("/HEAD")):
            refs.setdefault(tree, []).append(ref)
    return refs


def _changed_files(root: str, trees: list[str], deadline: float) -> list[tuple[str, str, str]]:
    """Return tree, path and blob of the states and ledgers in these trees that HEAD has not, or not so."""
    if not trees:
        return []
    here = GitQuery(["rev-parse", "--verify", "--quiet", "HEAD^{tree}"], root, deadline=deadline).answer()
    here = here or GitQuery(["hash-object", "-t", "tree", os.devnull], root, deadline=deadline).answer()  # none yet
    pairs = "".join([f"{here} {tree}\n" for tree in trees if tree != here]).encode()
    command = ["diff-tree", "--stdin", "-r", "-z", "--relative", "--diff-filter=d", "--", *FILES]
    query = GitQuery(command, root, limit=LIMIT, deadline=deadline, content=pairs) if pairs else None
    printed = query.answer_bytes() if query is not None else None
    found, tree, pieces = [], "", iter((printed or b"").split(b"\0"))
    for piece in pieces:  # the two trees in a line before their first file, or alone; then each file and its path
        *heads, file = piece.decode("ascii", "replace").split("\n")
        tree = heads[-1].partition(" ")[2] if heads else tree
        if file:
            found.append((tree, os.fsdecode(next(pieces, b"")), file.split(" ")[3]))
    return found


def _read_states(root: str, blobs: set[str], deadline: float) -> dict[str, dict[str, Any]]:
    """Return the states in these blobs that can be read; none if git does not answer, as in a partial clone."""
    content = "".join([f"{blob}\n" for blob in sorted(blobs)]).encode()
    query = GitQuery(["cat-file", "--batch"], root, limit=LIMIT, deadline=deadline, content=content) if blobs else None
    printed, at = (query.answer_bytes() if query is not None else None) or b"", 0
    found: dict[str, dict[str, Any]] = {}
    while at < len(printed):  # a line with name, kind and size, then the content and a newline; or that it is missing
        line, at = printed[at : printed.index(b"\n", at)], printed.index(b"\n", at) + 1
        name, _, *size = line.decode("ascii", "replace").split(" ")
        if not size:
            continue
        found[name], at = loads_object(printed[at : at + int(size[0])]), at + int(size[0]) + 1
    return found
