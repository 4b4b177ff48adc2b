"""`faber-ledger worktree`: list the worktrees of this clone and their runs, and remove those that are done."""

import os
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.sync.versions import due_files
from faber_ledger.cli.ui.output import json_option, say, show, warn
from faber_ledger.cli.ui.words import table
from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.creation import shorten_path
from faber_ledger.cli.worktrees.survey import Site, survey, update_registry
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import git_command, progress
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run, common_directory, find_root, forget_work_trees
from faber_ledger.runs.sent import Sent

COLUMNS = ("worktree", "run", "branch", "phase", "open", "last event")


@click.group()
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
@click.argument("names", nargs=-1, metavar="[NAME]...")
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
    results = [_clean_up(site, sites, here, named=bool(names), dry_run=dry_run) for site in once]
    if any([result["action"] == "removed" for result in results]):
        update_registry(root, at=at, warn=warn)
    show({"dry_run": dry_run, "worktrees": results}, _cleanup_lines(results), as_json=as_json)
    if names and any([result["action"] == "kept" for result in results]):
        click.get_current_context().exit(1)


def _find_site(sites: list[Site], name: str) -> Site:
    """Return the worktree with that path, folder name or run; raises LedgerError for none or several."""
    path = os.path.realpath(name)
    found = [site for site in sites if os.path.realpath(site.tree.path) == path]
    linked = [site for site in sites if not site.tree.is_main]  # the main one may have the same run after a merge
    found = found or [site for site in linked if name in (site.run_id, os.path.basename(site.tree.path))]
    if len(found) != 1:
        message = f"no worktree matches {name}" if not found else f"several worktrees match {name}"
        raise LedgerError(message, hint="run `faber-ledger worktree list`, and name one by its path")
    return found[0]


def _data(site: Site) -> dict[str, Any]:
    return {
        "path": site.tree.path,
        "main": site.tree.is_main,
        "run_id": site.run_id,
        "branch": site.tree.branch,
        "commit": site.tree.head,
        **{name: site.row.get(name) for name in ("work_id", "status", "phase", "open_session", "last_event_at")},
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
        site.row.get("phase") or "-",
        "-" if site.run_id is None else "yes" if site.row.get("open_session") else "no",
        site.row.get("last_event_at") or "-",
    )


def _clean_up(site: Site, sites: list[Site], here: str, *, named: bool, dry_run: bool) -> dict[str, Any]:
    """Remove one worktree unless there is a reason to keep it, and return what was done and why.

    `here` is the user's folder; `named` means that the user gave this worktree by name.
    """
    try:
        why = _list_blockers(site, sites, here, named=named)
        action = "kept" if why else "would be removed" if dry_run else "removed"
        if not why:
            merged = f"{site.tree.branch or 'its commit'} is merged into {git.find_base_containing(site.tree)}"
            ours = os.path.join(os.path.relpath(os.path.join(site.root, ".fractary"), site.tree.path), "")
            names = [name for name in git.list_ignored(site.tree) if not name.startswith(ours)]
            lost = [f"files that git ignores are removed with it: {', '.join(names)}"] if names else []
            why = [f"its run is {site.row.get('status')}, and {merged}", *lost]
            if not dry_run:
                common = common_directory(here) or here
                # Git checks for uncommitted work once more.
                git_command.git(f"--git-dir={common}", "worktree", "remove", "--", site.tree.path, at=common)
                forget_work_trees()
    except LedgerError as error:
        action, why = "kept", [error.message]
    return {"path": site.tree.path, "run_id": site.run_id, "branch": site.tree.branch, "action": action, "why": why}


def _list_blockers(site: Site, sites: list[Site], here: str, *, named: bool) -> list[str]:
    """Return the reasons against removing a worktree; raises GitFailed."""
    if site.tree.is_main:
        return ["it is the main work tree"]
    if site.problem is not None:
        return [site.problem]
    if site.run_id is None:
        return ["no run is in it: `git worktree remove` is for worktrees of other work"]
    changed = git.list_changes(site.tree)
    some = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
    run, session = find_run(site.root, site.run_id), site.row.get("open_session")
    ignored = [] if _is_sent(run) else git.list_ignored(site.tree, run.required_paths)
    inner = [one.tree.path for one in sites if one is not site and folder_around(one.tree.path, [site.tree.path])]
    reasons = {
        "you are in it": folder_around(here, [site.tree.path]) is not None,
        f"it is locked: {site.tree.locked}; `git worktree unlock` unlocks it": site.tree.locked is not None,
        f"its run is {site.row.get('status')}": site.row.get("status") not in progress.FINISHED,
        "its record says `auto_cleanup: false`, so it is removed only by name": not named
        and (site.record or {}).get("auto_cleanup") is False,
        f"the session {session} of the run {site.run_id} is open": session is not None,
        f"uncommitted work: {some}; commit and merge it first": bool(changed),
        f"git ignores {', '.join(ignored)}: copy the run's folder, then `git worktree remove`": bool(ignored),
        f"another worktree is in it: {', '.join(inner)}": bool(inner),
        f"{site.tree.branch or 'its commit'} is not merged": git.find_base_containing(site.tree) is None,
    }
    return [reason for reason, holds in reasons.items() if holds]


def _is_sent(run: Run) -> bool:
    """Return whether a run's ref at the remote has its files as they are here."""
    sent = Sent(run)
    return carries_refs(run.root) and sent.commit != "" and not sent.is_forgotten and not due_files(run, sent)


def _cleanup_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    if not results:
        yield "no worktree of this clone has a run of its own"
    for result in results:
        yield f"{result['action']}: {result['path']} ({result['run_id'] or 'no run'})"
        yield from [f"  {reason}" for reason in result["why"]]
        if result["action"] == "removed" and result["branch"]:
            yield f"  the branch {result['branch']} stays; `git branch -d` removes a merged one, `-D` a squashed one"
