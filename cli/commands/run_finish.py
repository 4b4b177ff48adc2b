"""`faber-ledger run finish`: complete a run whose Release phase is completed, and offer to remove its worktree."""

from __future__ import annotations

import os
import sys

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import json_option, show, tell, warn, warn_of
from faber_ledger.cli.ui.which_run import check_in_tree, choose_run
from faber_ledger.cli.worktrees.removal import HERE, clean_up, cleanup_lines, list_blockers, list_costs
from faber_ledger.cli.worktrees.survey import Site, survey, update_registry
from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import GitFailed, NotReleased, NoWorkTree
from faber_ledger.recording.completing import complete_record
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.carry import start_sending
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.progress import phase_statuses
from faber_ledger.runs.run import Run, find_root


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
    start_sending(root)
    site = _own_worktree(root, run, at)
    reasons = list_blockers(site, os.getcwd(), named=False) if site else []
    others = [reason for reason in reasons if reason != HERE]
    asks = site is not None and not others and not as_json and sys.stdin.isatty()
    lines = [f"✓ Workflow completed: {run.run_id}", *(_worktree_lines(site, others, asks=asks) if site else [])]
    data = {"run_id": run.run_id, "worktree": site.tree.path if site else None, "worktree_stays": reasons}
    show(data, lines, as_json=as_json)
    if site is not None and asks:
        click.echo(escape(f"Remove its worktree {site.tree.path} now? [y/N]: "), nl=False)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            _clean_up(site, at)


def _own_worktree(root: str, run: Run, at: float) -> Site | None:
    """Return the linked worktree that a run is active in, if it is this one; without git there is none."""
    try:
        sites = survey(root, at=at, warn=warn)
    except (NoWorkTree, GitFailed):
        return None
    here = os.path.realpath(root)
    linked = [site for site in sites if not site.tree.is_main and site.run_id == run.run_id]
    return next((site for site in linked if os.path.realpath(site.root) == here), None)


def _worktree_lines(site: Site, others: list[str], *, asks: bool) -> list[str]:
    if others:
        return [
            f"  Its worktree {site.tree.path} stays:",
            *[f"  - {reason}" for reason in others],
            "  Later, from another worktree: faber-ledger worktree cleanup",
        ]
    way = "faber-ledger worktree cleanup, from another worktree"
    return [
        *([] if asks else [f"  Its worktree {site.tree.path} can be removed: {way}"]),
        *[f"  - {cost}" for cost in list_costs(site)],
    ]


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
        state_write.write_members(run, members, warn=warn_of)


def _clean_up(site: Site, at: float) -> None:
    work_tree = work_tree_of(site.root)
    away = work_tree.common if work_tree else os.path.dirname(site.tree.path)
    result = clean_up(site, away, named=False, dry_run=False, warn=warn)
    for line in cleanup_lines([result]):
        tell(line)
    if result["action"] != "removed":
        click.get_current_context().exit(1)
    main = work_tree.main if work_tree else None
    if main is not None:
        inside = os.path.relpath(site.root, site.tree.path)
        update_registry(os.path.normpath(os.path.join(main, inside)), at=at, warn=warn)
        tell(f"Next: cd {quote_word(main)}")
