"""What git still has of a finished run's work, whose branch may be merged, squashed or deleted."""

import os
import re
from typing import Any

from faber_ledger.runs.git import default_branch, default_ref
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import branch_name, value_at
from faber_ledger.runs.run import Run

Start = tuple[str, str | None]  # the commit and the branch on which a session began; None if that is not known
COMMIT = re.compile(r"[0-9a-f]{7,64}")
SHORT = 7  # digits of a commit's id, at least: sessions record as many as the repository needs
MAX_LISTED = 50
SETTINGS = ["--no-pager", "--literal-pathspecs", "-c", "core.quotePath=false", "-c", "log.follow=false"]
LOG = ["log", "-50", "--no-walk", "--no-merges", "--format=%x00%h %s", "--name-only", "--relative", "--full-diff"]
PLAIN = ["--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv"]
LIST = ["rev-list", "-200", "--no-merges", "--topo-order"]


def find_work(run: Run, state: dict[str, Any], starts: list[Start]) -> dict[str, Any]:
    """Return a run's `commits`, newest first, the `files` that they changed, and the ids of those that are `missing`.

    Sessions record the commit at their start: the first is what the work began from; and the state may list commits.
    The commits that changed the run's files are its own, or the one that they were squashed into; those between them
    are, too, on both sides of a merge, but not what the default branch has gained since. Where a merge brought the
    branch, all of its second side is the run's, and nothing of other branches. Merges are left out, and so are commits
    that changed nothing outside `.fractary`, which are `others`.
    """
    default = default_branch(run.root)
    named = branch_name(state) or next((branch for _, branch in starts if branch not in (None, default)), None)
    ids = [commit for at, (commit, branch) in enumerate(starts) if at == 0 or branch in (None, named or branch)]
    base, *tips = {commit[:SHORT]: commit for commit in (*(ids or [""]), *_listed(state))}.values()
    asked = "".join([f"{commit}^{{commit}}\n" for commit in (base, *tips)]).encode()
    answer = GitQuery(["cat-file", "--batch-check"], run.root, content=asked).answer() or ""
    is_here = [line.split()[1:2] == ["commit"] for line in answer.split("\n")]
    here = [tip for tip, known in zip(tips, is_here[1:], strict=False) if known]
    in_tree = find_run(run.root, run.run_id) if run.is_kept else run
    paths = [os.path.relpath(path, run.root) for path in (*in_tree.tracked_paths, in_tree.own_directory)]
    of_run = _list(run.root, "--full-history", "--branches", "--remotes", "HEAD", "--", *paths)
    brought = _commits_brought(run.root, [*of_run[-1:], *here[-3:]])
    found = brought or [*of_run]
    if of_run and not brought:
        main = set(_list(run.root, "--first-parent", default_ref(run.root) or "HEAD", f"^{of_run[-1]}"))
        ends = [commit for commit in of_run[:-1] if commit not in main] + here
        found += _list(run.root, "--ancestry-path", *ends, f"^{of_run[-1]}") if ends else []
    if here and not brought:
        found += _list(run.root, "--first-parent", *here, f"^{base}" if is_here[0] else "--no-walk")
    changed = _changed_files(run.root, found)
    files = sorted({file for of_commit in changed.values() for file in of_commit})
    missing = [tip[:SHORT] for tip in tips if tip not in here]
    commits = [commit for commit, of_commit in changed.items() if of_commit]
    return {"commits": commits, "files": files, "missing": missing, "others": len(changed) - len(commits)}


def _listed(state: dict[str, Any]) -> list[str]:
    """Return the commits that FABER's own tools have listed in a run's state."""
    commits = value_at(state, "artifacts.commits")
    listed = commits[-MAX_LISTED:] if isinstance(commits, list) else []
    return [one for one in listed if isinstance(one, str) and COMMIT.fullmatch(one)]


def _commits_brought(root: str, commits: list[str]) -> list[str]:
    """Return the second side of the merge by which the default branch got the first of these commits that has one."""
    main = default_ref(root) or "HEAD"
    every = ("--no-max-parents", "--max-count=-1")
    for commit in commits:
        line = {*_list(root, *every, "--min-parents=2", "--first-parent", main, f"^{commit}")}
        after = _list(root, *every, "--min-parents=2", "--ancestry-path", main, f"^{commit}") if line else []
        for merge in [one for one in after if one in line][-1:]:
            brought = _list(root, *every, f"{merge}^2", f"^{merge}^1")  # a session may have begun at a merge
            if any([name.startswith(commit) for name in brought]):
                return brought
    return []


def _list(root: str, *arguments: str) -> list[str]:
    return (GitQuery([*SETTINGS, *LIST, *arguments], root).answer() or "").split()


def _changed_files(root: str, commits: list[str]) -> dict[str, list[str]]:
    """Return commits, newest first, with the files outside `.fractary` that each changed."""
    if not commits:
        return {}
    answer = GitQuery([*SETTINGS, *LOG, *PLAIN, *dict.fromkeys(commits)], root).answer() or ""
    records = [record.split("\n") for record in answer.split("\0")[1:]]
    return {line: [file for file in files if file and not file.startswith(".fractary/")] for line, *files in records}
