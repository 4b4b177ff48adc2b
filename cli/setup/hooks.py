"""The client's hooks, in its settings or in its plugin: adding, removing, and what to do where they lack."""

from __future__ import annotations

import os
from collections.abc import Iterator

from faber_ledger.cli.setup.agents import list_agents
from faber_ledger.cli.ui.changes import display_path
from faber_ledger.context.workflow import problem_of_list
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.hooks.client_plugins import (
    NAME,
    Plugin,
    list_enabled_plugins,
    list_plugins,
    list_settings_with_hooks,
    list_unanswered,
    recent_plugin_delivery,
    unlisted_plugin_delivery,
)
from faber_ledger.hooks.client_settings import (
    add_hooks,
    decode_settings,
    has_hooks,
    has_written_by_hand,
    keep_found,
    readable_settings,
    remove_hooks,
    settings_path,
    unreadable_settings,
)
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS

# In the client's settings

EMPTY = "{}\n"


def settings_change(root: str, scope: str) -> FileChange:
    """Return the change that puts our hooks into a scope's settings; raises LedgerError for an unusable file."""
    path, before = read_settings(root, scope)
    found = EMPTY if before is None else keep_found(decode_settings(before, display_path(path, root)), EMPTY)
    return FileChange(path, before, add_hooks(found).encode())


def reason_without_hooks(root: str, scope: str) -> str | None:
    """Return why the settings of a scope, which have no hooks, get none; None if they may.

    Other settings that the client reads here have the hooks: with both, both may run. Beside those that `init` wrote,
    the project's and the user's get the same, which the client runs once; the project's on this machine need none. Nor
    do these get any beside settings that are not readable, and may have the hooks.
    """
    held = dict(list_settings_with_hooks(root))
    own = settings_path(scope, root)
    if os.path.realpath(own) in [os.path.realpath(path) for path in held.values()]:
        return None
    without = f"none were added to {display_path(own, root)}"
    for path, why in unreadable_settings(root) if scope == "local" else ():
        if path != own:
            return f"{display_path(path, root)} is not read here ({why}) and may have the hooks: {without}"
    by_hand = [other for other, _, text in readable_settings(root) if has_written_by_hand(text)]
    for other, path in held.items():
        if scope != "local" and other not in by_hand:
            continue
        command = "faber-ledger init" if other == "project" else f"faber-ledger init --scope {other}"
        left = f"; `{command}` adds those that it lacks" if list_unanswered(root) else ""
        return f"{display_path(path, root)} has the hooks: {without}{left}"
    return None


def settings_removal(root: str, scope: str) -> FileChange:
    """Return the change that removes our hooks from a scope's settings, or the file if it has nothing else.

    Raises LedgerError for an unusable file.
    """
    path, before = read_settings(root, scope)
    if before is None:
        return FileChange(path, None, None)
    text = decode_settings(before, display_path(path, root))
    after = remove_hooks(text).encode()
    alone = has_hooks(text) and after == EMPTY.encode() and not os.path.islink(path)
    return FileChange(path, before, None if alone else after)


def describe_removal(root: str, *scopes: str) -> str:
    """Return how to take our hooks out of the settings of one of the scopes: of the first where `uninstall` does it.

    It leaves those that were written by hand.
    """
    by_hand = {scope: path for scope, path, text in readable_settings(root) if has_written_by_hand(text)}
    for scope in scopes:
        if scope not in by_hand:
            return f"run `faber-ledger uninstall{'' if scope == 'project' else f' --scope {scope}'}`"
    path = display_path(by_hand[scopes[0]], root)
    return f"remove by hand the entries that run `faber-ledger hook` from {path}"


def read_settings(root: str, scope: str) -> tuple[str, bytes | None]:
    """Return the path and content of a scope's settings; raises LedgerError for a project's that are outside of it."""
    path = settings_path(scope, root)
    if scope != "user" and folder_around(path, [root]) is None:
        raise LedgerError(
            f"{display_path(path, root)} is a link that leads out of the project: {os.path.realpath(path)}",
            hint="replace the link with a file, or use `--scope user` for settings of your own",
        )
    return path, read_file(path)


# In the client's plugin

HOW_TO_GET_IT = (
    "`claude plugin marketplace add SOURCE`, where SOURCE is the folder or address of faber-ledger's repository, "
    f"then `claude plugin install {NAME}`"
)


def has_plugin_instead(root: str, scope: str, *, is_scope_given: bool) -> bool:
    """Return whether a plugin runs the hooks wherever a scope's settings would run them.

    Deliveries alone show one as long as nobody asks for the settings of a scope, and no settings have the hooks.
    """
    own = os.path.realpath(settings_path("user", root))
    if any([scope != "user" or os.path.realpath(plugin.path or "") == own for plugin in list_enabled_plugins(root)]):
        return True
    return not (is_scope_given or list_settings_with_hooks(root)) and unlisted_plugin_delivery(root, now()) is not None


def describe_plugins(root: str, scope: str, *, are_settings_written: bool) -> Iterator[str]:
    """Say which plugin runs the hooks, and which settings files have them too once those of a scope are written."""
    for path, why in unreadable_settings(root):
        yield f"{display_path(path, root)} is not read here ({why}): whether it has the hooks or a plugin is not known"
    files = dict(list_settings_with_hooks(root))
    if are_settings_written:
        files.setdefault(scope, settings_path(scope, root))
    plugins = list_enabled_plugins(root)
    for plugin in plugins:
        if is_missing(root, plugin, now()):
            added = "" if files else "; no hooks were added to the client's settings"
            yield "; ".join(describe_missing(root, plugin, are_in_settings=bool(files))) + added
        elif files:
            yield "; ".join(describe_both(root, plugin, files))
        else:
            yield f"the plugin {plugin.name} runs the hooks: none were added to the client's settings"
    seen = None if plugins else recent_plugin_delivery(root, now())
    if seen is not None and are_settings_written:
        yield (
            f"the hook of a plugin made a delivery here at {utc_text(seen)}: where that plugin stays, both run, and "
            "each delivery is recorded once"
        )
    elif seen is not None and not files:
        yield (
            f"the hook of a plugin made a delivery here at {utc_text(seen)}: no hooks were added to the client's "
            "settings; once that plugin is gone, run `faber-ledger init --scope project`"
        )


def describe_both(root: str, plugin: Plugin, files: dict[str, str]) -> tuple[str, str]:
    """Return that a plugin and settings files, by scope, both have the hooks; and how to keep them once."""
    shown = " and ".join([display_path(path, root) for path in files.values()])
    verb = "has" if len(files) == 1 else "have"
    removals = [describe_removal(root, scope) for scope in files]
    return (
        f"{shown} {verb} the hooks, and so has the plugin {plugin.name}: both run, and each delivery is recorded once",
        f"to keep only the plugin's, {' and '.join(removals)}; to keep only the others, `{plugin.command('disable')}`",
    )


def is_missing(root: str, plugin: Plugin, at: float) -> bool:
    """Return whether settings enable a plugin that the client seems not to have: it has no source and was not seen."""
    return not plugin.has_source and recent_plugin_delivery(root, at) is None


def describe_missing(root: str, plugin: Plugin, *, are_in_settings: bool) -> tuple[str, str]:
    """Return that an enabled plugin is not installed, and how to install it unless settings have the hooks."""
    where, problem = display_path(plugin.path or "", root), problem_of_list(root, plugin.name)
    return (
        f"{where} enables the plugin {plugin.name}, but the client's list of installed plugins {problem}",
        "nothing while the settings have the hooks" if are_in_settings else f"run `{plugin.command('install')}`",
    )


def note_without_plugin(root: str) -> Iterator[str]:
    """Say how to get the plugin where none runs the hooks."""
    if list_enabled_plugins(root) or recent_plugin_delivery(root, now()) is not None:
        return
    known = list_plugins(root)
    if [*unreadable_settings(root)] and not any([plugin.scope is not None for plugin in known]):
        return  # one of them may enable it
    if not known:
        yield f"no plugin runs the hooks here yet: run {HOW_TO_GET_IT}"
    elif known[0].scope is not None:
        yield f"the plugin {known[0].name} is switched off here: run `{known[0].command('enable')}`"
    else:
        yield f"the plugin {known[0].name} is installed, but not for this project: run `{known[0].command('install')}`"


# Where they lack


def hint_to_install(root: str) -> str:
    """Return what to run where a client started in `root` has no hooks."""
    known = list_plugins(root)
    if not known:
        return "run `faber-ledger init` in it, and commit .claude/settings.json for the next one"
    for plugin in known:
        if plugin.scope is not None:
            return f"run `{plugin.command('enable')}` in it"
    return f"run `{known[0].command('install')}`, which reaches every folder of yours"


def describe_lacking(root: str, left: list[str]) -> Iterator[str]:
    """Say which hooks a client in the new worktree `root` lacks, those of the events `left`, and what to run."""
    alone = describe_agents_alone(root, left)
    if alone is not None:
        yield ": ".join(alone)
    elif left:
        missing = "no hooks" if len(left) == len(HOOKS) else f"no hook for {', '.join(left)}"
        yield f"This worktree has {missing}: {hint_to_install(root)}"


def describe_agents_alone(root: str, left: list[str]) -> tuple[str, str] | None:
    """Return that other agents have our hooks and the client lacks all, and what to do; None where it is otherwise.

    `left` are the events for which the client runs no hook of ours.
    """
    agents = list_agents(root)
    if not agents or len(left) < len(HOOKS) or list_plugins(root):
        return None
    is_copilots = any([one.agent == "copilot" and one.scope == "project" for one in agents])
    keeps = "`faber-ledger init --scope user`, which leaves Copilot's hooks as they are"
    install = keeps if is_copilots else "`faber-ledger init`"
    named = [f"{display_path(one.path, root)} has the hooks of {one.agent}" for one in agents]
    return (
        f"{', '.join(named)}; the client itself has none: what it does is not recorded",
        f"nothing if you do not use it here; else run {install}",
    )
