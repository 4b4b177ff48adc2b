"""The hooks in the client's settings: installed once, in the right place and form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.doctor.finding import Finding, Fix, file_fix
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.cli.setup.install_hooks import describe_removal, settings_change
from faber_ledger.cli.setup.missing_hooks import describe_agents, describe_agents_alone
from faber_ledger.cli.setup.plugin import describe_both, describe_missing, is_missing
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.client_plugins import (
    list_enabled_plugins,
    list_plugins,
    list_settings_with_hooks,
    list_unanswered,
    unlisted_plugin_delivery,
)
from faber_ledger.hooks.client_settings import (
    SCOPES,
    command_line,
    decode_settings,
    handlers,
    hook_command,
    leads_out,
    list_scopes,
    readable_settings,
    remove_handler,
    runs_hook,
    settings_path,
)
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


# The commands that SPEC-00027, section 7, shows: a shell cannot run the first, and the others load or save manually.
OLDER = re.compile(r"(?:/fractary-faber:|\bfaber-ledger +)(?:prime-context|session-(?:load|save|start|end))\b")
MISPLACED = (".claude/hooks.json", ".claude/hooks/hooks.json", ".claude.json", "settings.json", ".claude/config.json")
LARGEST = 1024 * 1024
REPLACE_LINK = "replace the link with the file itself, then run `faber-ledger doctor` again"
UNMATCHED = (None, "", "*")


class Handler(NamedTuple):
    """One of our hooks in a settings file: its place, its values, and the event whose hook it runs."""

    scope: str
    path: str
    event: str
    group: int
    number: int
    matcher: object
    values: dict[str, Any]
    runs: str


def settings_can_be_read(patient: Patient) -> Iterator[Finding]:
    """Look for settings files that the client cannot read, and for the switch that turns all hooks off."""
    for scope in list_scopes(patient.root):
        path = settings_path(scope, patient.root)
        if leads_out(scope, patient.root):
            what = f"{display_path(path, patient.root)} is a link that leads out of the project: nothing of it is read"
            yield Finding("warning", what, REPLACE_LINK)
            continue
        try:
            content = read_file(path)
            if content is None:
                continue
            text = decode_settings(content, display_path(path, patient.root))
        except LedgerError as error:
            yield Finding("error", error.message, f"{error.hint}; the client runs none of its hooks")
            continue
        if JsonText(text).value.get("disableAllHooks"):
            what = f"{display_path(path, patient.root)} has `disableAllHooks`: the client runs no hooks"
            yield Finding("error", what, "remove `disableAllHooks` from it")


def hooks_are_installed(patient: Patient) -> Iterator[Finding]:
    """Look for events for which a client started here runs no hook, of its settings or of a plugin."""
    plugins, left = list_plugins(patient.root), list_unanswered(patient.root)
    seen = unlisted_plugin_delivery(patient.root, patient.at)
    for plugin in plugins:
        if plugin.is_enabled:
            if is_missing(patient.root, plugin, patient.at):
                are_in_settings = bool(list_settings_with_hooks(patient.root))
                what, hint = describe_missing(patient.root, plugin, are_in_settings=are_in_settings)
                yield Finding("note" if are_in_settings else "warning", what, hint)
            else:
                where = display_path(plugin.path or "", patient.root)
                yield Finding("ok", f"the plugin {plugin.name}, enabled in {where}, runs the four hooks")
    alone = describe_agents_alone(patient.root, left)
    if alone is not None:
        yield Finding("note", *alone)
        return
    yield from [Finding("ok", agent) for agent in describe_agents(patient.root)]
    if seen is not None and not list_settings_with_hooks(patient.root):
        what = f"no settings have the hooks or enable a plugin, but a plugin's hook made a delivery at {utc_text(seen)}"
        again = "run `faber-ledger init --scope project`, then start a new session of the client"
        yield Finding("note", what, f"nothing while the client has that plugin; else {again}")
        return
    linked = [settings_path(scope, patient.root) for scope in SCOPES if leads_out(scope, patient.root)]
    if left and linked:
        what = f"no hook is found, but {display_path(linked[0], patient.root)} is not read, and the client may read it"
        yield Finding("warning", what, REPLACE_LINK)
    if not left or linked:
        return
    held = {handler.scope for handler in _list_ours(patient)}
    scope = next((scope for scope in SCOPES if scope in held), "project")
    named = "" if scope == "project" else f" --scope {scope}"
    install = f"run `faber-ledger init{named}`, then start a new session of the client"
    if len(left) < len(HOOKS) or not plugins:
        what = "no hook is installed" if len(left) == len(HOOKS) else f"no hook is installed for {', '.join(left)}"
        fix = _install_fix(patient.root, scope)
        yield Finding("warning", f"{what}: what the client does is not recorded", install, fix)
    else:
        (plugin, *_), lacks = plugins, "and the settings have no hooks: what the client does is not recorded"
        verb, how = ("install", "not enabled here") if plugin.scope is None else ("enable", "switched off")
        where = "" if plugin.path is None else f" in {display_path(plugin.path, patient.root)}"
        hint = f"run `{plugin.command(verb)}`; or, to have the hooks in the settings instead, `faber-ledger init`"
        yield Finding("warning", f"the plugin {plugin.name} is {how}{where}, {lacks}", hint)


def hooks_are_installed_once(patient: Patient) -> Iterator[Finding]:
    """Look for events with two different handlers, which both run, and for equal ones, of which one runs."""
    for event in HOOKS:
        found = [one for one in _list_ours(patient) if one.event == event and one.runs == event]
        unmatched = [one for one in found if one.matcher in UNMATCHED]
        if len(unmatched) < 2:
            continue
        paths = list(dict.fromkeys([display_path(one.path, patient.root) for one in unmatched]))
        where = f"{paths[0]} {len(unmatched)} times" if len(paths) == 1 else " and ".join(paths)
        surplus = _find_surplus(unmatched)
        fix = _removal_fix(patient.root, surplus[0].path) if surplus else None
        by_hand = f"remove it from one: {describe_removal(patient.root, *[one.scope for one in reversed(unmatched)])}"
        hint = "run `faber-ledger doctor --fix`" if fix else by_hand
        if len({command_line(one.values) for one in unmatched}) > 1:
            what = f"{event} has two hooks with different commands, in {where}: the client runs both"
            yield Finding("warning", what, hint, fix)
        elif len(paths) == 1:
            yield Finding("warning", f"the hook of {event} is in {where}", hint, fix)
        else:
            what = f"the hook of {event} is in {where}: the client runs equal commands once"
            yield Finding("note", what, "nothing to do, unless you want it in one place only")
    files, plugins = dict(list_settings_with_hooks(patient.root)), list_enabled_plugins(patient.root)
    for plugin in plugins[:1] if files else ():
        if not is_missing(patient.root, plugin, patient.at):
            yield Finding("note", *describe_both(patient.root, plugin, files))


def hooks_are_in_place(patient: Patient) -> Iterator[Finding]:
    """Look for our commands where the client does not run them, or runs them at the wrong time."""
    for one in _list_ours(patient):
        shown = display_path(one.path, patient.root)
        if one.runs != one.event:
            what = f"{shown} runs `hook {HOOKS[one.runs][0]}` at {one.event}"
            yield Finding("warning", what, _or_remove(patient, f"move it under `hooks.{one.runs}`, or remove it"))
        elif one.matcher not in UNMATCHED:
            what = f"in {shown} the matcher {str(one.matcher)[:80]!r} keeps the hook of {one.event} from other sources"
            hint = "remove the matcher: every source of a session counts"
            yield Finding("warning", what, _or_remove(patient, hint))
    for _, path, text in readable_settings(patient.root):
        shown = display_path(path, patient.root)
        events = JsonText(text).value
        for event in HOOKS:
            if _names_us(events.get(event)):
                hint = _or_remove(patient, "move it into `hooks`")
                yield Finding("warning", f"in {shown} `{event}` is outside `hooks`", hint)
            for group in events.get("hooks", {}).get(event, []):
                if isinstance(group, dict) and "hooks" not in group and _names_us(group):
                    what = f"in {shown} a handler is in `hooks.{event}` itself, not in a group's list `hooks`"
                    hint = 'write it as {"hooks": [handler]}, or remove it and run `faber-ledger init`'
                    yield Finding("warning", what, _or_remove(patient, hint))
    for name in MISPLACED:
        if _mentions_us(os.path.join(patient.root, *name.split("/"))):
            hint = "remove it there, and run `faber-ledger init`"
            what = f"{name} has one of our hooks, but the client reads no hooks from it"
            yield Finding("warning", what, _or_remove(patient, hint))


def commands_are_current(patient: Patient) -> Iterator[Finding]:
    """Look for hooks in another form than `init` writes, and for those of older instructions."""
    for one in _list_ours(patient):
        command = command_line(one.values)
        if command != hook_command(one.event) and one.runs == one.event:
            what = (
                f"{display_path(one.path, patient.root)} runs the hook of {one.event} in another form than `init` does"
            )
            hint = "leave it if it is intended; or remove it, then run `faber-ledger init`"
            yield Finding("note", what, _or_remove(patient, hint))
    for _, path, text in readable_settings(patient.root):
        for event in HOOKS:
            older = [handler["command"] for _, handler in handlers(text, event) if OLDER.search(handler["command"])]
            if older:
                what = f"{display_path(path, patient.root)} has an older command at {event}: {older[0][:120]}"
                yield Finding(
                    "warning", what, "remove it: a shell cannot run a slash command, and the four hooks do its work"
                )


def hooks_have_time(patient: Patient) -> Iterator[Finding]:
    """Look for hooks that the client kills early or does not wait for."""
    for one in _list_ours(patient):
        shown = display_path(one.path, patient.root)
        seconds = one.values.get("timeout")
        if one.values.get("async"):
            what = (
                f"in {shown} the hook of {one.event} is `async`: it may get no input, and the client kills it at exit"
            )
            yield Finding("warning", what, "remove `async`")
        if one.event == "SessionEnd" and seconds is None:
            what = f"in {shown} the hook of SessionEnd has no `timeout`: the client kills it after 1.5 seconds"
            yield Finding("warning", what, f'add `"timeout": {HOOKS[one.event][1]}`')
        elif seconds is not None and not (isinstance(seconds, (int, float)) and seconds >= 2):
            what = f"in {shown} the hook of {one.event} has the `timeout` {str(seconds)[:20]}"
            yield Finding("warning", what, f"give it seconds: {HOOKS[one.event][1]}")


def _or_remove(patient: Patient, hint: str) -> str:
    """Return how to correct a hook in the settings: where a plugin runs the hooks too, by removing it."""
    plugins = list_enabled_plugins(patient.root)
    return f"remove it: the plugin {plugins[0].name} runs the hooks" if plugins else hint


def _list_ours(patient: Patient) -> list[Handler]:
    """Return the handlers that run one of our hooks, in any form."""
    return [
        Handler(scope, path, *found)
        for scope, path, text in readable_settings(patient.root)
        for event in HOOKS
        for found in _find_handlers(text, event)
    ]


def _find_handlers(text: str, event: str) -> Iterator[tuple[str, int, int, object, dict[str, Any], str]]:
    groups = JsonText(text).value.get("hooks", {}).get(event, [])
    for number, group in enumerate(groups):
        listed = group.get("hooks") if isinstance(group, dict) else None
        for place, values in enumerate(listed if isinstance(listed, list) else []):
            has_command = isinstance(values, dict) and isinstance(values.get("command"), str)
            runs = runs_hook(values) if has_command else None
            if runs is not None:
                yield event, number, place, group.get("matcher"), values, runs


def _find_surplus(unmatched: list[Handler]) -> list[Handler]:
    """Return the handlers to remove: all but the first in one file. The user decides between two files."""
    paths = [one.path for one in unmatched]
    return [one for number, one in enumerate(unmatched) if one.path in paths[:number]]


def _install_fix(root: str, scope: str) -> Fix | None:
    try:
        return file_fix(root, lambda: settings_change(root, scope), "put the missing hooks")
    except LedgerError:
        return None  # an unusable file is reported by the check that reads it


def _removal_fix(root: str, path: str) -> Fix:
    def plan() -> FileChange:
        before = read_file(path)
        if before is None:
            raise SettingsInvalid(f"{display_path(path, root)} is gone", hint="run `faber-ledger doctor` again")
        text = decode_settings(before, display_path(path, root))
        for event in HOOKS:
            found = [one for one in _find_handlers(text, event) if one[5] == event and one[3] in UNMATCHED]
            for _, group, number, *_ in reversed(found[1:]):
                text = remove_handler(text, event, group, number)
        return FileChange(path, before, text.encode())

    return file_fix(root, plan, "remove repeated hooks")._replace(name=f"once {path}")


def _names_us(value: object) -> bool:
    return "faber-ledger" in str(value) and "hook" in str(value)


def _mentions_us(path: str) -> bool:
    try:
        if os.path.getsize(path) > LARGEST:
            return False
        content = read_file(path)
    except (LedgerError, OSError):
        return False
    return content is not None and re.search(rb"faber-ledger +hook\b", content) is not None
