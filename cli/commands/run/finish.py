"""`faber-ledger run finish`: complete a run whose Release phase is completed, and offer to remove its worktree."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import json_option, show, tell, warn
from faber_ledger.cli.ui.which_run import check_in_tree, choose_run
from faber_ledger.cli.worktrees.cleanup import clean_up, cleanup_lines, list_costs
from faber_ledger.cli.worktrees.removal import HERE, list_blockers
from faber_ledger.cli.worktrees.survey import Site, survey_and_record
from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import GitFailed, NotReleased, NoWorkTree
from faber_ledger.recording.completing import complete_record
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.progress import phase_statuses
from faber_ledger.runs.run import Run, find_root

if TYPE_CHECKING:
    from faber_ledger.runs.worktree_registry import Record


@click.command(short_help="Complete a released run; offer to clean up.")
@click.argument("run_id", required=False, metavar="[RUN]", shell_complete=completion.runs)
@json_option
def finish(run_id: str | None, as_json: bool) -> None:
    """Complete RUN (default: the active run), whose Release phase is completed, and offer to remove its worktree.

    \b
    Example: faber-ledger run finish
    Exit codes: 0 done; 1 Release is not completed, or the state cannot be read or
    written; 2 wrong usage; 10 no such run.
    """
    root, at = find_root(os.getcwd()), now()
    run = check_in_tree(choose_run(root, run_id, records=True))
    _complete(run, at)
    complete_record(run, at=at, environ=os.environ, warn=warn)
    site: Site | None = None
    records: list[Record] = []
    reasons: list[str] = []
    try:
        sites, records = survey_and_record(root, at=at, warn=warn)
        here = os.path.realpath(root)
        site = next((one for one in sites if not one.tree.is_main and os.path.realpath(one.root) == here), None)
        site = site if site and site.run_id == run.run_id else None
        if site is not None:
            reasons = list_blockers(site, records, os.getcwd(), named=False)
    except (NoWorkTree, GitFailed):
        pass  # without git there is no worktree to clean up
    lines = [f"✓ Workflow completed: {run.run_id}"]
    data = {
        "run_id": run.run_id,
        "worktree": site.tree.path if site else None,
        "worktree_stays": reasons,
    }
    if site is None:
        show(data, lines, as_json=as_json)
        return
    others = [reason for reason in reasons if reason != HERE]
    if others:
        lines += [f"  Its worktree {site.tree.path} stays:", *[f"  - {reason}" for reason in others]]
        lines.append("  Later, from another worktree: faber-ledger worktree cleanup")
    else:
        if as_json or not sys.stdin.isatty():
            way = "faber-ledger worktree cleanup, from another worktree"
            lines.append(f"  Its worktree {site.tree.path} can be removed: {way}")
        lines += [f"  - {cost}" for cost in list_costs(site)]
    show(data, lines, as_json=as_json)
    if not others and not as_json and sys.stdin.isatty():
        click.echo(escape(f"Remove its worktree {site.tree.path} now? [y/N]: "), nl=False)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            _clean_up(site, records, at)


def _complete(run: Run, at: float) -> None:
    """Write into the state that the run is completed; raises NotReleased, and as `write_members`."""
    with lock_run(run):
        state = state_file.read_state(run).value
        if state.get("status") == "completed":
            return
        release = phase_statuses(state).get("release", "pending")
        if state.get("status") not in progress.ACTIVE or release != "completed":
            raise NotReleased(
                f"the run {run.run_id} is {state.get('status')}, and its Release phase {release}",
                hint="run the command again when its Release phase is completed",
            )
        moment = utc_text(at)
        members = {"status": "completed", "completed_at": moment, "updated_at": moment}
        state_write.write_members(run, members, warn=lambda text: warn(f"⚠️  {text}"))


def _clean_up(site: Site, records: list[Record], at: float) -> None:
    work_tree = work_tree_of(site.root)
    away = work_tree.common if work_tree else os.path.dirname(site.tree.path)
    result = clean_up(site, records, away, named=False, dry_run=False, warn=warn)
    for line in cleanup_lines([result], named=False):
        tell(line)
    if result["action"] != "removed":
        click.get_current_context().exit(1)
    main = work_tree.main if work_tree else None
    if main is not None:
        survey_and_record(
            os.path.normpath(os.path.join(main, os.path.relpath(site.root, site.tree.path))), at=at, warn=warn
        )
        tell(f"Next: cd {quote_word(main)}")
