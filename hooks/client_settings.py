"""The client's settings file: our four hooks go in and come out, everything else keeps its bytes."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.files.change import read_file
from faber_ledger.files.json_edit import line_of, with_child, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.errors import LedgerError, SettingsInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# No matchers: every source of a session start counts. SessionEnd is killed after 1.5 s unless a time-out says more.
HOOKS = {
    "SessionStart": ("session-start", 20),
    "PreCompact": ("pre-compact", 60),
    "PostCompact": ("post-compact", 20),
    "SessionEnd": ("session-end", 15),
}
SCOPES = ("project", "local", "user")
PROGRAM = "faber-ledger"

_NAMES = "|".join([name for event, (kebab, _) in HOOKS.items() for name in (event, kebab)])
_PROGRAM = rf"""(?:[\w.~${{}}"'+@/-]*/)?["']?{PROGRAM}["']?"""
_OURS = re.compile(
    rf"\s*(?:command -v {_PROGRAM} *>\s*/dev/null(?: 2>&1)? *(?:\|\| *exit 0 *;|&&) *)?"
    rf"(?:exec +)?{_PROGRAM} +hook +(?P<hook>{_NAMES})(?: *\|\| *true)?\s*"
)


def settings_path(scope: str, root: str) -> str:
    """Give the settings file of a scope: the project's, the project's on this machine, or the user's."""
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
        return os.path.join(home, "settings.json")
    return os.path.join(root, ".claude", "settings.json" if scope == "project" else "settings.local.json")


def decode_settings(content: bytes, shown: str) -> str:
    """Decode a settings file and check what its edit rests on; raises SettingsInvalid with file and line."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _invalid(f"{shown}, line {line}: it is not UTF-8") from error
    try:
        hooks = JsonText(text).value.get("hooks", {})
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):
            raise _invalid(f"{shown}: {error}") from error  # no object, nested too deeply, or NaN
        line = error.lineno
        raise _invalid(f"{shown}, line {line}: not valid JSON: {error.msg}") from error
    if not isinstance(hooks, dict):
        raise _invalid(f"{shown}, line {line_of(text, ('hooks',))}: `hooks` is not an object")
    for event in HOOKS:
        if not isinstance(hooks.get(event, []), list):
            raise _invalid(f"{shown}, line {line_of(text, ('hooks', event))}: `hooks.{event}` is not a list")
    return text


def with_hooks(text: str) -> str:
    """Give the settings with our hook under each event that no handler, in whatever form, answers with it yet."""
    for event in HOOKS:
        if not _is_answered(text, event):
            text = _with_group(text, event)
    return text


def without_hooks(text: str) -> str:
    """Give the settings without the handlers that run our commands, and without what is empty then."""
    for event in HOOKS:
        for group, handler in reversed(_ours(text, event)):
            text = without_handler(text, event, group, handler)
        if event in _events(text) and not _events(text)[event]:
            text = without(text, ("hooks", event))
    if "hooks" in JsonText(text).value and not _events(text):
        text = without(text, ("hooks",))
    return text


def has_hooks(text: str) -> bool:
    """Tell whether one of our commands stands in the settings."""
    return any([_ours(text, event) for event in HOOKS])


def unanswered(root: str) -> list[str]:
    """Name the events that no settings file answers for a client started in `root`; an unreadable one answers none."""
    left = list(HOOKS)
    for scope in SCOPES:
        try:
            content = read_file(settings_path(scope, root))
            text = decode_settings(b"{}" if content is None else content, scope)
        except LedgerError:
            continue
        left = [event for event in left if not _is_answered(text, event)]
    return left


def hook_command(event: str) -> str:
    """Give the shell command of an event's hook.

    Where the settings are but the program is not, it ends well and says nothing. `exec` leaves no shell between the
    client's signals and the hook.
    """
    return f"command -v {PROGRAM} >/dev/null 2>&1 || exit 0; exec {PROGRAM} hook {HOOKS[event][0]}"


def _with_group(text: str, event: str) -> str:
    name, timeout = hook_command(event), HOOKS[event][1]
    group = {"hooks": [{"type": "command", "command": name, "timeout": timeout}]}
    if "hooks" not in JsonText(text).value:
        return with_child(text, (), {event: [group]}, "hooks")
    if event not in _events(text):
        return with_child(text, ("hooks",), [group], event)
    return with_child(text, ("hooks", event), group)


def _is_answered(text: str, event: str) -> bool:
    """Tell whether a handler for every source runs the hook already: ours, edited, or the user's own form."""
    return any(
        [
            held.get("matcher") in (None, "", "*") and _OURS.fullmatch(handler["command"]) is not None
            for held, handler in handlers(text, event)
        ]
    )


def without_handler(text: str, event: str, group: int, handler: int) -> str:
    """Take out one handler, and its group if nothing else is in it."""
    if len(_events(text)[event][group]["hooks"]) > 1:
        return without(text, ("hooks", event, group, "hooks", handler))
    return without(text, ("hooks", event, group))


def _ours(text: str, event: str) -> list[tuple[int, int]]:
    """List where the very command that `init` writes stands under an event, as indexes of group and handler."""
    groups = _events(text).get(event, [])
    return [
        (groups.index(held), held["hooks"].index(handler))
        for held, handler in handlers(text, event)
        if handler["command"] == hook_command(event)
    ]


def runs_hook(command: str) -> str | None:
    """Give the event whose hook a command runs, in whatever form we know; None for any other command."""
    found = _OURS.fullmatch(command)
    return next((event for event, (kebab, _) in HOOKS.items() if found and found["hook"] in (event, kebab)), None)


def handlers(text: str, event: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """List the handlers of an event that run a command, each with the group it stands in."""
    found = []
    for held in _events(text).get(event, []):
        listed = held.get("hooks") if isinstance(held, dict) else None
        for handler in listed if isinstance(listed, list) else []:
            if isinstance(handler, dict) and isinstance(handler.get("command"), str):
                found.append((held, handler))
    return found


def _events(text: str) -> dict[str, Any]:
    events: dict[str, Any] = JsonText(text).value.get("hooks", {})
    return events


def _invalid(message: str) -> SettingsInvalid:
    return SettingsInvalid(message, hint="mend the file, then run the command again; it was left as it is")
