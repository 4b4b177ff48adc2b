"""`faber-ledger uninstall`: remove what `init` added, and nothing else."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import click

from faber_ledger.cli.setup import git
from faber_ledger.cli.setup.agents import list_agents, remove_agent_hooks
from faber_ledger.cli.setup.hooks import settings_removal
from faber_ledger.cli.setup.mcp_servers import remove_servers
from faber_ledger.cli.setup.project import remove_commands, summaries_removal
from faber_ledger.cli.setup.tracking import names_to_commit
from faber_ledger.cli.ui.changes import (
    describe,
    diff_lines,
    display_path,
    dry_run_option,
    in_project,
    remove_empty_folders,
    report,
    scope_option,
)
from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.words import join_names, place_lines
from faber_ledger.files.change import FileChange, make_changes
from faber_ledger.hooks.client_plugins import Plugin, list_enabled_plugins
from faber_ledger.hooks.client_settings import has_hooks, readable_settings, settings_path
from faber_ledger.ledger import disk
from faber_ledger.runs.git_command import TEXT_CACHE, has_text_cache, remove_text_cache, run_git, top_of
from faber_ledger.runs.run import CONSENT, find_root, path_in_clone
from faber_ledger.runs.synced import known_project


@click.command()
@scope_option
@dry_run_option
@json_option
def uninstall(scope: str, dry_run: bool, as_json: bool) -> None:
    """Remove what `init` added; runs, ledgers and everything else in the files stay.

    So do the rules in .fractary/.gitignore while there is something that they keep out of git.

    \b
    Example: faber-ledger uninstall --scope local
    Exit codes: 0 done, or nothing to do; 1 a file cannot be used; 2 wrong usage.
    """
    root = find_root(os.getcwd())
    hooks = remove_servers(root, scope, [settings_removal(root, scope), *remove_agent_hooks(root, scope)])
    plugins = list_enabled_plugins(root)
    kept_for = _hooks_elsewhere(scope, root, plugins, hooks)
    is_project = in_project(root, scope)
    plan = _plan(root) if is_project and not kept_for else Plan([], [], is_cached=False)
    commands = remove_commands(root) if is_project and (scope == "project" or not kept_for) else []
    plan = plan._replace(changes=[*hooks, *plan.changes, *commands])
    if not dry_run:
        _remove(root, plan)
    commit = [] if dry_run else names_to_commit(plan.changes, root, untracked="no")
    data = report(plan.changes, root, dry_run=dry_run) | {
        "scope": scope,
        "git_config": [setting._asdict() for setting in plan.config],
        "text_cache_removed": plan.is_cached,
        "hooks_remain_in": kept_for,
        "commit": commit,
    }
    lines = [*_lines(plan, root, kept_for, plugins, dry_run=dry_run)]
    if commit:
        lines.append(f"next: commit {join_names(commit)}, so that no other clone has them")
    show(data, lines, as_json=as_json)


class Plan(NamedTuple):
    """What is removed."""

    changes: list[FileChange]
    config: list[git.Setting]
    is_cached: bool


def _plan(root: str) -> Plan:
    """Return what is removed of what git needs where no hooks are left.

    The project's settings stay where the team's server knows the project: their removal, once committed, would take
    its id from every clone. The ignore file stays while git ignores something by it, such as backups and logs.
    """
    top = top_of(root)
    setting = summaries_removal(root) if known_project(root) is None else None
    kept = [git.IGNORE_FILE] if top is not None and _is_ignoring(root) else []
    there = [name for name in git.FILES if name not in kept and os.path.lexists(os.path.join(root, name))]
    files = [git.git_file_change(root, name, remove=True) for name in there]
    changes = [*([setting] if setting is not None else []), *files]
    if top is None:
        return Plan(changes, [], is_cached=False)
    hooks = [git.hook_change(root, top, name, remove=True) for name in git.LINES]
    return Plan(
        [*changes, *[hook for hook in hooks if hook.action != "unchanged"]],
        git.settings_to_remove(root),
        is_cached=has_text_cache(root),
    )


def _is_ignoring(root: str) -> bool:
    """Return whether there is a file of runs that git ignores."""
    listed = run_git("ls-files", "--others", "--ignored", "--exclude-standard", "--", ".fractary", at=root)
    return bool(listed.stdout)


def _remove(root: str, plan: Plan) -> None:
    make_changes(plan.changes)
    git.make_settings(root, plan.config)
    disk.remove(path_in_clone(root, CONSENT) or "")
    if plan.is_cached:
        remove_text_cache(root)
    remove_empty_folders(plan.changes, root)


def _hooks_elsewhere(scope: str, root: str, plugins: list[Plugin], changes: list[FileChange]) -> list[str]:
    """Return the other settings, agents' files and plugins that have our hooks here: they still need git's files."""
    own = os.path.realpath(settings_path(scope, root))
    held = [path for _, path, text in readable_settings(root) if has_hooks(text)]
    settings = [path for path in held if os.path.realpath(path) != own]
    paths = [*settings, *[file.path for file in list_agents(root, changes)]]
    return [*[display_path(path, root) for path in paths], *[f"the plugin {plugin.name}" for plugin in plugins]]


def _lines(plan: Plan, root: str, kept_for: list[str], plugins: list[Plugin], *, dry_run: bool) -> Iterator[str]:
    is_empty = not (plan.config or plan.is_cached)
    if is_empty and all([change.action == "unchanged" for change in plan.changes]):
        yield f"nothing to remove from {display_path(plan.changes[0].path, root)}"
    elif dry_run:
        yield from diff_lines(plan.changes, root)
        yield from [setting.command for setting in plan.config]
        if plan.is_cached:
            yield f"git update-ref -d {TEXT_CACHE}"
    else:
        yield from [describe(change, root) for change in plan.changes]
        yield from [git.describe_settings(plan.config)] if plan.config else []
        if plan.is_cached:
            yield f"{'removed':<9}  {TEXT_CACHE}: git's cache of ledgers as text"
        yield from place_lines(root)
    if kept_for:
        yield f"git's settings stay: {', '.join(kept_for)} still has the hooks"
    for plugin in plugins:
        yield f"to remove the plugin too, run `{plugin.command('uninstall')}`, then `faber-ledger uninstall` again"
