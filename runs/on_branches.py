"""The runs that other branches have and this clone lacks: its own branches, and its remotes' as last fetched.

Git is asked four times, however many branches there are. Where it does not answer in time, there are none, or their
states are not known.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import loads
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
MOST_FILES = 1000  # states and ledgers, each counted once however many branches have it
LIMIT = 64 * 1024 * 1024  # bytes that git prints
NO_TREE = ("hash-object", "-t", "tree", os.devnull)
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

    That is the branch that the state names, else one with its newest state, and of these one with fewest runs: a branch
    that began at another run's has that one too. A run that is finished on any branch is finished.
    """
    deadline = time_limit(SECONDS)
    refs = _refs_by_tree(root, deadline)
    files = _changed_files(root, list(refs), deadline)
    known = {path_form(run_id) for run_id in run_ids_here(root)} if files else set()
    runs: dict[str, str] = {}  # ids by path forms
    blobs: dict[str, dict[str, str]] = {}  # by path form and tree: of the run's state there, empty without one
    places = {path: run_at(root, path) for path in [*dict.fromkeys([path for _, path, _ in files])][:MOST_FILES]}
    for tree, path, blob in files:
        run, kind = places.get(path) or (None, "")
        if run is not None and (form := path_form(run.run_id)) not in known:
            runs.setdefault(form, run.run_id)
            there = blobs.setdefault(form, {})
            there[tree] = blob if kind == STATE else there.get(tree, "")
    states = _read_states(root, {blob for there in blobs.values() for blob in there.values() if blob}, deadline)
    counts: dict[str, int] = {}
    for tree in [tree for there in blobs.values() for tree in there]:
        counts[tree] = counts.get(tree, 0) + 1
    found = []
    for form, there in blobs.items():
        ranked = []
        for tree, blob in there.items():
            state = states.get(blob, {})
            named = state.get("run_id")
            run_id = named if isinstance(named, str) and path_form(named) == form else runs[form]
            ranked += [(RunOnBranch(run_id, ref, state), counts[tree]) for ref in refs[tree]]
        over = [one for one in ranked if one[0].is_finished]
        found.append(max(over or ranked, key=lambda one: _rank(*one))[0])
    return sorted(found, key=lambda one: one.is_finished)


def root_with_branch(root: str, branch: str) -> str | None:
    """Return the project in the clone's other work tree that has a branch checked out; None if there is none."""
    tree = work_tree_of(root)
    top = tree.top_with(branch) if tree is not None else None
    if tree is None or top is None or not os.path.isdir(top):
        return None
    return os.path.normpath(os.path.join(top, os.path.relpath(root, tree.top)))


def _rank(one: RunOnBranch, count: int) -> tuple[bool, float, int]:
    return branch_name(one.state) == one.branch, seconds_of(one.state.get("updated_at")) or 0.0, -count


def _refs_by_tree(root: str, deadline: float) -> dict[str, list[str]]:
    """Return the branches by the trees of their commits, the newest first."""
    options = ("--sort=-committerdate", f"--count={MOST_BRANCHES}", "--format=%(tree) %(refname)")
    listed = GitQuery(["for-each-ref", *options, "refs/heads", "refs/remotes"], root, deadline=deadline).answer() or ""
    refs: dict[str, list[str]] = {}
    for tree, _, ref in [line.partition(" ") for line in listed.splitlines()]:
        if tree and not (ref.startswith("refs/remotes/") and ref.endswith("/HEAD")):
            refs.setdefault(tree, []).append(ref)
    return refs


def _changed_files(root: str, trees: list[str], deadline: float) -> list[tuple[str, str, str]]:
    """Return tree, path and blob of the states and ledgers in these trees that HEAD has not, or not so."""
    if not trees:
        return []
    here = GitQuery(["rev-parse", "--verify", "--quiet", "HEAD^{tree}"], root, deadline=deadline).answer()
    here = here or GitQuery([*NO_TREE], root, deadline=deadline).answer()
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
        text, at = printed[at : at + int(size[0])], at + int(size[0]) + 1
        try:
            state = loads(text.decode())
        except (ValueError, RecursionError):
            continue
        if isinstance(state, dict):
            found[name] = state
    return found
