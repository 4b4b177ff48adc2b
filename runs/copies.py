"""The other copies of a run's log: the file in git's last commit, and those of the clone's other work trees."""

from __future__ import annotations

import os

from faber_ledger.ledger.encoding import loads_object
from faber_ledger.runs.git import commit_of, work_tree_of
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import other_roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.runs.run import Run


LARGEST = 1 << 30  # bytes


def head_copy(run: Run, folder: str) -> str | None:
    """Write the ledger in git's last commit to a file in `folder`, and return its path; None if there is none."""
    content = read_in_head(run, run.ledger_path)
    if content is None:
        return None
    path = os.path.join(folder, "head.db")
    with open(path, "wb") as file:
        file.write(content)
    return path


def is_in_head(run: Run) -> bool:
    """Return whether git's last commit has a ledger of the run."""
    return _name_in_head(run, run.ledger_path) is not None


def is_as_in_head(run: Run, path: str) -> bool:
    """Return whether git's last commit has a file of the run exactly as it is here."""
    committed = _name_in_head(run, path)
    if committed is None:
        return False
    path = os.path.realpath(path)
    return committed == GitQuery(["hash-object", "--no-filters", "--", path], _git_folder(run)).answer()


def is_newer_in(run: Run, tip: str, deadline: float | None = None) -> bool:
    """Return whether a commit's ledger or state of the run is neither HEAD's nor that of the merge base with HEAD."""
    _, files = _files_to_merge(run, tip, deadline)
    return any([there not in (here, before, "") for here, before, there in files])


def is_merged_into(run: Run, tip: str) -> bool:
    """Return whether a commit has HEAD's ledger of the run, or its own where HEAD has none since their merge base.

    It must also have a change of each file that the run's branch changed: a commit that was picked from the branch
    brings the ledger alone with it.
    """
    base, ((here, before, there), _) = _files_to_merge(run, tip)
    if there in (before, "") or here not in (before, there):
        return False
    if here == before:
        return True
    folder = _git_folder(run)
    ledger = os.path.relpath(run.ledger_path, folder)
    last = GitQuery(["rev-list", "--max-count=1", "HEAD", "--", ledger], folder).answer() or "HEAD"
    compare = ["diff-tree", "-r", "--name-only", "-z", base]
    changed = [GitQuery([*compare, end], folder, limit=LARGEST).answer_bytes() or b"" for end in (last, tip)]
    return set(changed[0].split(b"\0")) <= set(changed[1].split(b"\0"))


def _files_to_merge(run: Run, tip: str, deadline: float | None = None) -> tuple[str, list[list[str]]]:
    """Return the merge base of HEAD and a commit, and git's names of ledger and state in HEAD, base and commit.

    A missing file has an empty name. All names are empty if there is nothing to merge, or git does not answer.
    """
    folder = _git_folder(run)
    asked_base = ["merge-base", tip, "HEAD"]
    base = GitQuery(asked_base, folder, deadline=deadline).answer() if tip != commit_of(run.root) else None
    if base is None or base == tip:
        return "", [[""] * 3, [""] * 3]
    files = [os.path.relpath(path, folder).replace(os.sep, "/") for path in (run.ledger_path, run.state_path)]
    asked = "".join([f"{commit}:./{file}\n" for file in files for commit in ("HEAD", base, tip)])
    command = ["cat-file", "--batch-check=%(objectname)"]
    found = (GitQuery(command, folder, content=asked.encode(), deadline=deadline).answer() or "").split("\n")
    names = ["" if name.endswith("missing") else name for name in (*found, *[""] * 6)]
    return base, [names[:3], names[3:6]]


def not_taken_up(run: Run, *, is_sent: bool) -> str:
    """Return how to take up a run in this clone, and who else committed it last.

    `is_sent` says whether what happens is sent all the same, in git refs.
    """
    from faber_ledger.files.text import one_line

    files = [run.shown(path) for path in run.tracked_paths]
    shown = GitQuery(["--literal-pathspecs", "log", "-1", "--format=%ae%n%an", "--", *files], run.root).answer()
    email, _, author = (shown or "").partition("\n")
    is_own = f" <{email}> " in (GitQuery(["var", "GIT_AUTHOR_IDENT"], run.root).answer() or "")
    said = f"This run was last committed by {one_line(author, 80)}. " if author and not is_own else ""
    why = "." if is_sent else ": your commits have this session's record only after that."
    return f"{said}To go on with the run in this clone, first run `faber-ledger run resume {run.run_id}`{why}"


def read_in_head(run: Run, path: str) -> bytes | None:
    """Return a file of a run as git's last commit has it; None if that has none, or without git."""
    if work_tree_of(run.root) is None:
        return None
    return _ask_commit(run, ["cat-file", "blob"], path).answer_bytes()


def state_in(run: Run, commit: str) -> dict[str, Any]:
    """Return a run's state as a commit has it; empty if it has none, or one that cannot be read."""
    return loads_object(_ask_commit(run, ["cat-file", "blob"], run.state_path, commit).answer_bytes() or b"{}")


def _name_in_head(run: Run, path: str) -> str | None:
    """Return git's name of a file of the run in its last commit; None if that has none, or without git."""
    if work_tree_of(run.root) is None:
        return None
    return _ask_commit(run, ["rev-parse", "--verify", "--quiet"], path).answer()


def runs_in_other_work_trees(run: Run) -> list[Run]:
    """Return the run in each of the clone's other work trees that has its state or ledger."""
    found = [find_run(root, run.run_id) for root in other_roots(run.root)]
    return [one for one in found if one.is_recorded()]


def _ask_commit(run: Run, arguments: list[str], path: str, commit: str = "HEAD") -> GitQuery:
    """Ask git about a file of a run in a commit."""
    folder = _git_folder(run)
    inside = os.path.relpath(path, folder).replace(os.sep, "/")
    return GitQuery([*arguments, f"{commit}:./{inside}"], folder, limit=LARGEST)


def _git_folder(run: Run) -> str:
    """Return the run's folder, or the nearest one above it that exists: its path may lead through a link."""
    folder = run.directory
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
