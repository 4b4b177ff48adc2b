"""The hooks: installed once and in a form that works, the program that they run, and what they have left."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from faber_ledger.cli.doctor.patient import Finding, Patient
from faber_ledger.cli.setup.agents import list_agents, list_unreviewed
from faber_ledger.cli.setup.hooks import describe_both, describe_idle
from faber_ledger.cli.setup.mcp_servers import has_server
from faber_ledger.cli.ui.changes import display_path
from faber_ledger.cli.ui.words import plural
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks import client_plugins, client_settings
from faber_ledger.hooks.agents import SET_UPS
from faber_ledger.hooks.client_settings import HOOK_PROGRAM, SCOPES
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.disk import FileRefused, read_text
from faber_ledger.postgres.address import missing_extra
from faber_ledger.recording.call import HOOKS
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.incoming import NO_SESSION
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.run import HOOK_LOG

# The commands that SPEC-00027, section 7, shows: a shell cannot run the first, and the others load or save manually.
OLDER = re.compile(r"(?:/fractary-faber:|\bfaber-ledger +)(?:prime-context|session-(?:load|save|start|end))\b")
LATEST = 4  # deliveries: of two installations every second one is repeated


class Handler(NamedTuple):
    """A handler of ours in a settings file, with the group that it is in."""

    scope: str
    path: str
    event: str
    group: dict[str, Any]
    values: dict[str, Any]


def check_settings(patient: Patient) -> Iterator[Finding]:
    """Look for settings that the client cannot read or that switch hooks off, and for hooks that do not work."""
    for path, why in client_settings.unreadable_settings(patient.root):
        what = f"{display_path(path, patient.root)} is not read: {why}"
        hint = "replace the link with the file itself" if "link" in why else "fix the file"
        yield Finding("error", what, f"{hint}: the client may run none of its hooks")
    for _, path, text in client_settings.readable_settings(patient.root):
        shown = display_path(path, patient.root)
        if JsonText(text).value.get("disableAllHooks"):
            what = f"{shown} has `disableAllHooks`: the client runs no hooks"
            yield Finding("error", what, "remove `disableAllHooks` from it")
        for event in HOOKS:
            for _, handler in client_settings.handlers(text, event):
                if OLDER.search(handler["command"]):
                    what = f"{shown} has an older command at {event}: {handler['command'][:120]}"
                    hint = "remove it: a shell cannot run a slash command, and the four hooks do its work"
                    yield Finding("warning", what, hint)
    for one in _list_ours(patient.root):
        for what, hint in _find_mistakes(one):
            yield Finding("warning", f"in {display_path(one.path, patient.root)} {what}", hint)


def _find_mistakes(one: Handler) -> Iterator[tuple[str, str]]:
    """Say why the client would not run a hook for every source, or would kill it too early; and what to do."""
    if one.group.get("matcher") not in (None, "", "*"):
        what = f"the matcher {str(one.group['matcher'])[:80]!r} keeps the hook of {one.event} from other sources"
        yield what, "remove the matcher: every source of a session counts"
    if one.event == "SessionEnd" and one.values.get("timeout") is None:
        what = "the hook of SessionEnd has no `timeout`: the client kills it after 1.5 seconds"
        yield what, f'add `"timeout": {HOOKS[one.event][1]}`'


def check_installed(patient: Patient) -> Iterator[Finding]:
    """Look for events for which a client started here runs no hook, of its settings or of a plugin.

    It may not be used here where another agent has hooks, or an agent has our server.
    """
    left, plugins = client_plugins.list_unanswered(patient.root), client_plugins.list_plugins(patient.root)
    if not left:
        return
    what = "no hook is installed" if len(left) == len(HOOKS) else f"no hook is installed for {', '.join(left)}"
    held = {handler.scope for handler in _list_ours(patient.root)}
    scope = next((scope for scope in SCOPES if scope in held), "project")
    command = f"faber-ledger init{'' if scope == 'project' else f' --scope {scope}'}"
    hint = f"run `{command}`, then start a new session of the client"
    if len(left) == len(HOOKS) and plugins:
        idle, do = describe_idle(patient.root, plugins[0])
        what, hint = f"{idle}, and the settings have no hooks", f"{do}; or, to have hooks in the settings, {hint}"
    has_ours = has_server(patient.root)
    is_used = plugins or len(left) < len(HOOKS) or not (list_agents(patient.root) or has_ours)
    if has_ours and find_spec("mcp") is None:
        lacking = missing_extra("the MCP server, which an agent's file names,", "mcp")
        yield Finding("warning", lacking.message, lacking.hint or "")
    lost = "only what goes through the MCP server is" if has_ours else "what the client does is not"
    what += f": {lost} recorded"
    yield Finding("warning", what, hint) if is_used else Finding("note", what, f"if you use it here, {hint}")


def check_once(patient: Patient) -> Iterator[Finding]:
    """Look for hooks that run twice: of settings and plugin, and in the newest deliveries."""
    files = dict(client_plugins.list_settings_with_hooks(patient.root))
    for plugin in client_plugins.list_enabled_plugins(patient.root)[:1] if files else ():
        yield Finding("note", *describe_both(patient.root, plugin, files))
    yield from _find_repeats(patient)


def _find_repeats(patient: Patient) -> Iterator[Finding]:
    """Look for repeats among the newest deliveries to the active run in this clone; others came with git."""
    writer = known_writer(patient.root)
    mine = [(one["at"], dict(one["event"])) for one in patient.newest_events() if one["writer"] == writer]
    latest = [(at, event) for at, event in mine if "delivery" in event][:LATEST]
    twice = [at for at, event in latest if event["type"] == "delivery_ignored" and event["reason"] == "repeated"]
    if twice:
        count = plural(len(latest), "delivery", "deliveries")
        what = f"of the newest {count} to {patient.active} {len(twice)} came twice, the last at {max(twice)}"
        yield Finding("note", what, "the hooks are installed twice, perhaps by a plugin too: remove one of them")


def check_agents(patient: Patient) -> Iterator[Finding]:
    """Look for other agents' hooks that are missing or run twice."""
    for file in list_agents(patient.root):
        shown = display_path(file.path, patient.root)
        missing = [event for event in SET_UPS[file.agent].hooks if event not in file.entries]
        if missing:
            what = f"{shown} has no hook for {', '.join(missing)}: what {file.agent} does then is not recorded"
            scope = " --scope user" if file.scope == "user" else ""
            yield Finding("warning", what, f"run `faber-ledger init --agent {file.agent}{scope}`")
        unreviewed = list_unreviewed(file)
        if unreviewed:
            what = f"the hooks of {shown} for {', '.join(unreviewed)} were not reviewed: Codex runs none of these"
            yield Finding("note", what, "start codex here and trust them; `codex exec` does not ask")


def check_program(patient: Patient) -> Iterator[Finding]:
    """Check that hooks find this program, on PATH or where they name it."""
    mine = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), HOOK_PROGRAM)
    found = shutil.which(HOOK_PROGRAM)
    if found is None:
        what = f"{HOOK_PROGRAM} is not on PATH or not executable, so the hooks cannot run it"
        yield Finding("error", what, f"add {os.path.dirname(mine)} to the PATH of the shell that starts the client")
    elif os.path.isfile(mine) and os.path.realpath(found) != os.path.realpath(mine):
        what = f"the hooks run {found}, and this is {mine}: their versions may differ"
        yield Finding("note", what, "remove one of them from PATH, or uninstall it")


def _list_ours(root: str) -> list[Handler]:
    """Return the handlers that run one of our hooks, in any form."""
    found = [
        Handler(scope, path, event, *one)
        for scope, path, text in client_settings.readable_settings(root)
        for event in HOOKS
        for one in client_settings.handlers(text, event)
    ]
    return [one for one in found if client_settings.runs_hook(one.values) is not None]


DAYS = 7
LARGEST = 1024 * 1024
TRACKED = "git tracks it, or cannot say, and anyone may have written its lines"


FOLLOW = f"follow the message; {HOOK_LOG} has all of them, and doctor ignores them after a week"
# Phrases in messages of hooks that have done their work; every other line is a warning.
NOTES = (
    "is handled as",
    "state.json differed from the ledger",
    "❌ ERROR: Required artifact",
    "⚠️ WARNING:",
    "Cannot evaluate condition:",
    NO_SESSION,
    "; it waits in ",
)
MERGES = ("both sides changed", "the sides differ in")  # in messages about a state that was merged
# `runs.active` and `ledger.set_aside` say it; a merge is over.
SAID_BY_OTHERS = ("No active workflow found", "redacted elsewhere", *MERGES)


def check_hook_log(patient: Patient) -> Iterator[Finding]:
    """Report every kind of line of the last week in the hook log, unless it may have come with a commit."""
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        for at, seconds, message in read_hook_log(patient.root):
            if patient.at - seconds <= DAYS * 86_400 and not any([words in message for words in SAID_BY_OTHERS]):
                shown = message[:230]
                kind = next((phrase for phrase in NOTES if phrase in message), shown)
                found.setdefault(kind, []).append((at, shown))
    except FileRefused as error:
        hint = "take it out of git, or move it aside; the next hook creates a new one"
        yield Finding("note" if TRACKED in str(error) else "warning", f"{HOOK_LOG} is not read: {error}", hint)
        return
    for kind, lines in sorted(found.items(), key=lambda item: item[1][-1], reverse=True):
        at, shown = lines[-1]
        count = f"{len(lines)} times, last" if len(lines) > 1 else "once,"
        yield Finding("note" if kind in NOTES else "warning", f"a hook said, {count} at {at}: {shown}", FOLLOW)


def read_hook_log(root: str) -> Iterator[tuple[str, float, str]]:
    """Yield when a hook said what, oldest first, the time also in seconds; raises FileRefused."""
    path = os.path.join(root, *HOOK_LOG.split("/"))
    if os.path.lexists(path) and is_tracked(path) is True:
        raise FileRefused(TRACKED)
    for line in (read_text(path, LARGEST) or "").splitlines():
        at, _, message = line.partition(" ")
        seconds = seconds_of(at)
        if seconds is not None:
            yield at, seconds, message.replace(" ", ": ", 1)


def check_waiting(patient: Patient) -> Iterator[Finding]:
    """Look for deliveries in the inbox whose hooks are gone."""
    for run in patient.runs:
        paths = list_waiting(run)
        if paths:
            waiting = plural(len(paths), "delivery", "deliveries")
            what = f"{run.run_id}: {waiting} waiting in {os.path.dirname(paths[0])}"
            hint = f"the next hook records it, or run `faber-ledger project {run.run_id}`; the hook log says why"
            yield Finding("warning", what, hint)
