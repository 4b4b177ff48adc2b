"""What git still has of a finished run's work, whose branch may be merged, squashed or deleted."""

import os

from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import Run

SETTINGS = ["--no-pager", "--literal-pathspecs", "-c", "core.quotePath=false", "-c", "log.follow=false"]
LOG = ["log", "-50", "--no-merges", "--topo-order", "--format=%x00%h %s", "--name-only", "--relative", "--full-diff"]
PLAIN = ["--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv"]
WHERE = ["--full-history", "--branches", "--remotes", "HEAD", "--"]


def find_work(run: Run) -> dict[str, list[str]]:
    """Return a run's `commits`, newest first, and the `files` outside `.fractary` that they changed.

    The pre-commit hook takes the run into each commit of its work, so they are those that changed the run's files, or
    the one that they were squashed into. Commits of the run's files alone are left out.
    """
    in_tree = find_run(run.root, run.run_id) if run.is_kept else run
    paths = [os.path.relpath(path, run.root) for path in in_tree.tracked_paths]
    answer = GitQuery([*SETTINGS, *LOG, *PLAIN, *WHERE, *paths], run.root).answer() or ""
    records = [record.split("\n") for record in answer.split("\0")[1:]]
    changed = {line: [file for file in files if file and not file.startswith(".fractary/")] for line, *files in records}
    commits = [line for line, files in changed.items() if files]
    return {"commits": commits, "files": sorted({file for files in changed.values() for file in files})}
