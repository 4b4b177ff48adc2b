"""What git still has of a finished run's work, whose branch may be merged, squashed or deleted."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import branch_name

if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


Start = tuple[str, str | None]  # the commit and the branch on which a session began; None if that is not known
COMMIT = re.compile(r"[0-9a-f]{7,64}")
SETTINGS = ["--no-pager", "--literal-pathspecs", "-c", "core.quotePath=false", "-c", "log.follow=false"]
LOG = ["log", "-50", "--format=%x00%h %s", "--name-only", "--relative", "--full-diff", "--no-merges", "--topo-order"]
PLAIN = ["--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv"]


def find_work(run: Run, state: dict[str, Any], starts: list[Start]) -> dict[str, list[str]]:
    """Return a run's `commits`, newest first, the `files` that they changed, and the ids of those that are `missing`.

    Sessions record the commit at their start: the first is what the work began from. The commits that changed the
    run's files are its last ones, or the one that they were squashed into. Commits of these files alone are left out.
    """
    named = branch_name(state)
    ids = [commit for at, (commit, branch) in enumerate(starts) if at == 0 or branch in (None, named or branch)]
    base, *tips = dict.fromkeys(ids) if ids else [""]
    asked = "".join([f"{commit}^{{commit}}\n" for commit in (base, *tips)]).encode()
    answer = GitQuery(["cat-file", "--batch-check"], run.root, content=asked).answer() or ""
    is_here = [line.split()[1:2] == ["commit"] for line in answer.split("\n")]
    here = [tip for tip, known in zip(tips, is_here[1:], strict=False) if known]
    in_tree = find_run(run.root, run.run_id) if run.is_kept else run
    paths = [os.path.relpath(path, run.root) for path in in_tree.tracked_paths]
    found = _log(run.root, "--branches", "--remotes", "HEAD", "--", *paths)
    if here:
        found |= _log(run.root, "--first-parent", *here, f"^{base}" if is_here[0] else "--no-walk")
    files = sorted({file for changed in found.values() for file in changed})
    return {"commits": list(found), "files": files, "missing": [tip for tip in tips if tip not in here]}


def _log(root: str, *arguments: str) -> dict[str, list[str]]:
    """Return commits with the files outside `.fractary` that each changed, without those that changed none."""
    answer = GitQuery([*SETTINGS, *LOG, *PLAIN, *arguments], root).answer() or ""
    commits = [record.split("\n") for record in answer.split("\0")[1:]]
    changed = {line: [file for file in files if file and not file.startswith(".fractary/")] for line, *files in commits}
    return {line: files for line, files in changed.items() if files}
