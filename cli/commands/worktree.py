"""`faber-ledger worktree`: list the worktrees of this clone and their runs, and remove those that are done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import json_option, say, show, warn
from faber_ledger.cli.ui.words import table
from faber_ledger.cli.worktrees.creation import shorten_path
from faber_ledger.cli.worktrees.removal import clean_up, cleanup_lines
from faber_ledger.cli.worktrees.survey import Site, survey, update_registry
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.run import find_root

COLUMNS = ("worktree", "run", "branch", "phase", "open", "last event")


@click.group(short_help="List and clean up the worktrees of this clone.")
def worktree() -> None:
    """List and clean up the worktrees of this clone: one run has one worktree."""


@worktree.command("list", short_help="List the worktrees and their runs.")
@json_option
def list_(as_json: bool) -> None:
    """List the worktrees of this clone with their runs and problems.

    \b
    Example: faber-ledger worktree list
    Exit codes: 0 done; 1 git failed, or there is no work tree; 2 wrong usage.
    """
    sites = survey(find_root(os.getcwd()), at=now(), warn=say)
    show([_data(site) for site in sites], _lines(sites), as_json=as_json)


@worktree.command(short_help="Remove the worktrees of finished, merged runs.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.worktrees)
@click.option("--dry-run", is_flag=True, help="Show what would be removed and why, and remove nothing.")
@json_option
def cleanup(names: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Remove the worktrees whose run is finished and whose branch is merged, or those named (by folder or run).

    \b
    A worktree with uncommitted work or an open session is never removed.
    The branch stays.
    Example: faber-ledger worktree cleanup --dry-run
    Exit codes: 0 done; 1 a named worktree stays, or git failed; 2 wrong usage.
    """
    root, at, here = find_root(os.getcwd()), now(), os.getcwd()
    sites = survey(root, at=at, warn=warn)
    chosen = [_find_site(sites, name) for name in names] or [
        site for site in sites if not site.tree.is_main and (site.run_id or site.record)
    ]
    once = {site.tree.path: site for site in chosen}.values()
    results = [clean_up(site, here, named=bool(names), dry_run=dry_run) for site in once]
    if any([result["action"] == "removed" for result in results]):
        update_registry(root, at=at, warn=warn)
    show({"dry_run": dry_run, "worktrees": results}, cleanup_lines(results), as_json=as_json)
    if names and any([result["action"] == "kept" for result in results]):
        click.get_current_context().exit(1)


def _find_site(sites: list[Site], name: str) -> Site:
    """Return the worktree with that path, folder name or run; raises LedgerError for none or several."""
    path = os.path.realpath(name)
    found = [site for site in sites if os.path.realpath(site.tree.path) == path]
    linked = [site for site in sites if not site.tree.is_main]  # the main one may have the same run after a merge
    found = found or [site for site in linked if name in (site.run_id, os.path.basename(site.tree.path))]
    found = found or [site for site in sites if name == os.path.basename(site.tree.path)]
    if len(found) != 1:
        message = f"no worktree matches {name}" if not found else f"several worktrees match {name}"
        raise LedgerError(message, hint="run `faber-ledger worktree list`, and name one by its path")
    return found[0]


def _data(site: Site) -> dict[str, Any]:
    return {
        "path": site.tree.path,
        "main": site.tree.is_main,
        "run_id": site.run_id,
        "work_id": site.work_id,
        "branch": site.tree.branch,
        "commit": site.tree.head,
        "status": site.status,
        "phase": site.phase,
        "open_session": site.session,
        "last_event_at": site.last_event,
        "locked": site.tree.locked,
        "problem": site.problem,
        "record": site.record,
    }


def _lines(sites: list[Site]) -> Iterator[str]:
    yield from table([COLUMNS, *[_cells(site) for site in sites]])
    for site in sites:
        locked = f"locked: {site.tree.locked}" if site.tree.locked is not None else None
        for remark in filter(None, [site.problem, locked]):
            yield f"{shorten_path(site.tree.path)}: {remark}"


def _cells(site: Site) -> tuple[str, ...]:
    return (
        shorten_path(site.tree.path),
        site.run_id or "-",
        site.tree.branch or "(detached)",
        site.phase or "-",
        "-" if site.run_id is None else "yes" if site.session else "no",
        site.last_event or "-",
    )
