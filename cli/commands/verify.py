"""`faber-ledger verify`: everything that is wrong with a run's log, and whether state.json agrees with it."""

import os
from collections.abc import Iterator

import click

from faber_ledger.cli.reports.verify import Anchors, run_findings
from faber_ledger.cli.sync.ref_versions import RefVersions, RemoteHeads
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.progress import progress_over
from faber_ledger.cli.ui.which_run import run_argument, runs_with_ledgers
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.verify import LogProblem
from faber_ledger.runs.conflicts import paths_in_conflict
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.run import Run, find_root

STOPPED = "git has stopped at"
DIFFERENCES = ("missing_event", "changed_event", "not_pulled", "other_branch", "not_absorbed")  # what git may show


@click.command()
@run_argument
@click.option("--all", "every", is_flag=True, help="Verify every run of the project with a ledger.")
@click.option("--git", "with_git", is_flag=True, help="Also compare the log with every version of it in git.")
@json_option
def verify(run: str | None, every: bool, with_git: bool, as_json: bool) -> int:
    """Check RUN's log from start to end (default: the active run), and whether state.json agrees with it.

    \b
    Example: faber-ledger verify --git
    Exit codes: 0 sound; 2 wrong usage; 10 no such run or ledger; 12 newer format;
    20 something is wrong with a log; 21 the logs are sound, but state.json differs.
    """
    runs = runs_with_ledgers(run, every=every)
    if not runs:
        warn("no run of this project has a ledger")
    found = {}
    with progress_over(runs, "verifying") as advance:
        for one in runs:
            found[one.run_id] = run_findings(one, is_one_of_many=len(runs) > 1)
            advance(1)
    for name, paths in paths_in_conflict(find_root(os.getcwd())).items():
        if name in found and not any([STOPPED in item.what for item in found[name]]):
            what = f"{STOPPED} {' and '.join(paths)}"
            found[name].append(LogProblem("in_conflict", None, what, "run `faber-ledger resolve`", is_note=True))
    anchors = _all_anchors(runs, found) if with_git and runs else {}
    show(
        {
            "runs": [
                {"run_id": run_id, "findings": [item._asdict() for item in items]}
                | ({"anchors": anchors.get(run_id, [])} if with_git else {})
                for run_id, items in found.items()
            ]
        },
        [
            line
            for run_id, items in found.items()
            for line in [*_lines(run_id, items), *_anchor_lines(run_id, anchors.get(run_id), items)]
        ],
        as_json=as_json,
    )
    wrong = [item for items in found.values() for item in items if not item.is_note]
    if not wrong:
        return 0
    only_projection = all(item.kind == ProjectionDiffers.code for item in wrong)
    return ProjectionDiffers.exit_code if only_projection else IntegrityError.exit_code


def _all_anchors(runs: list[Run], found: dict[str, list[LogProblem]]) -> dict[str, list[str]]:
    """Compare logs with their anchors, and add what those show to `found`; return the names of those that were read.

    The remote of the runs' git refs is asked once.
    """
    remote = RemoteHeads(runs[0].root)
    if remote.problem is not None:
        found[runs[0].run_id].append(remote.problem)
    return {run.run_id: _anchors(run, remote, found[run.run_id]) for run in runs}


def _anchors(run: Run, remote: RemoteHeads, items: list[LogProblem]) -> list[str]:
    """Compare a log with its anchors, add what they show to `items`, and return the names of those that were read."""
    try:
        anchors = Anchors(run)
        anchors.check()
        top = top_of(run.root)
        refs = RefVersions(run, top, anchors.gone, anchors.compare) if top is not None else None
        if refs is not None:
            refs.check(remote)
    except IntegrityError:
        return []  # the log cannot be read, and that has been reported
    items += [*anchors.findings, *(refs.findings if refs is not None else [])]
    return [*anchors.checked, *(refs.checked if refs is not None else [])]


def _anchor_lines(run_id: str, anchors: list[str] | None, items: list[LogProblem]) -> Iterator[str]:
    if anchors:
        is_whole = not any(item.kind in DIFFERENCES for item in items)
        result = ": nothing there is missing here" if is_whole else ""
        yield f"{run_id}: compared with {'; '.join(anchors)}{result}"
    elif anchors is not None:
        yield f"{run_id}: nothing outside the file to compare it with: missing events cannot be detected"


def _lines(run_id: str, items: list[LogProblem]) -> Iterator[str]:
    if not any(not item.is_note for item in items):
        asks_nothing = [item for item in items if item.kind == "not_published" and not item.hint]
        items = [item for item in items if item not in asks_nothing]
        yield "; ".join([f"{run_id}: sound", *[item.what for item in asks_nothing]])
    for item in items:
        kind = "note" if item.is_note else item.kind
        about = f"event {item.event}: " if item.event else ""
        yield f"{run_id}: {kind}: {about}{item.what}"
        if item.hint:
            yield f"  hint: {item.hint}"
