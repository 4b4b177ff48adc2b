"""The client's settings file: add and remove our four hooks, and keep every other byte."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.files.change import read_file
from faber_ledger.files.json_edit import line_of, with_child, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS, event_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


SCOPES = ("project", "local", "user")
PROGRAM = "faber-ledger"

_NAMES = "|".join([name for event, (hook, _) in HOOKS.items() for name in (event, hook)])
_PROGRAM = rf"""(?:[\w.~${{}}"'+@/-]*/)?["']?{PROGRAM}["']?"""
_OURS = re.compile(
    rf"\s*(?:command -v {_PROGRAM} *>\s*/dev/null(?: 2>&1)? *(?:\|\| *exit 0 *;|&&) *)?"
    rf"(?:exec +)?{_PROGRAM} +hook +(?P<hook>{_NAMES})(?: *\|\| *true)?\s*"
)


def settings_path(scope: str, root: str) -> str:
    """Return the settings file of a scope: the project's, the project's on this machine, or the user's."""
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
        return os.path.join(home, "settings.json")
    return os.path.join(root, ".claude", "settings.json" if scope == "project" else "settings.local.json")


def decode_settings(content: bytes, shown: str) -> str:
    """Return a settings file's text after checking that it can be edited; raises SettingsInvalid with file and line."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _invalid(f"{shown}, line {line}: it is not UTF-8") from error
    try:
        hooks = JsonText(text).value.get("hooks", {})
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):
            raise _invalid(f"{shown}: {error}") from error  # not an object, nested too deeply, or NaN
        line = error.lineno
        raise _invalid(f"{shown}, line {line}: not valid JSON: {error.msg}") from error
    if not isinstance(hooks, dict):
        raise _invalid(f"{shown}, line {line_of(text, ('hooks',))}: `hooks` is not an object")
    for event in HOOKS:
        if not isinstance(hooks.get(event, []), list):
            raise _invalid(f"{shown}, line {line_of(text, ('hooks', event))}: `hooks.{event}` is not a list")
    return text


def add_hooks(text: str) -> str:
    """Add our hook to the settings under each event for which no handler runs it, in any form."""
    for event in HOOKS:
        if not _is_answered(text, event):
            text = _add_group(text, event)
    return text


def remove_hooks(text: str) -> str:
    """Remove the handlers that run our commands from the settings, and what that leaves empty."""
    for event in HOOKS:
        for group, handler in reversed(_find_ours(text, event)):
            text = remove_handler(text, event, group, handler)
        if event in _events(text) and not _events(text)[event]:
            text = without(text, ("hooks", event))
    if "hooks" in JsonText(text).value and not _events(text):
        text = without(text, ("hooks",))
    return text


def has_hooks(text: str) -> bool:
    """Return whether the settings have one of our commands."""
    return any([_find_ours(text, event) for event in HOOKS])


def unanswered(root: str) -> list[str]:
    """Return the events for which a client started in `root` runs no hook of ours; unreadable settings run none."""
    texts = [text for _, _, text in readable_settings(root)]
    return [event for event in HOOKS if not any([_is_answered(text, event) for text in texts])]


def readable_settings(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield the scope, path and text of each settings file that the client can read."""
    for scope in SCOPES:
        path = settings_path(scope, root)
        try:
            content = read_file(path)
            text = None if content is None else decode_settings(content, path)
        except LedgerError:
            continue
        if text is not None:
            yield scope, path, text


def hook_command(event: str) -> str:
    """Return the shell command of an event's hook.

    Where the program is not installed, it succeeds silently. `exec` leaves no shell between the client's signals and
    the hook.
    """
    return f"command -v {PROGRAM} >/dev/null 2>&1 || exit 0; exec {PROGRAM} hook {HOOKS[event][0]}"


def _add_group(text: str, event: str) -> str:
    """Add our hook under an event, without a matcher: every source of a session's start counts."""
    group = {"hooks": [{"type": "command", "command": hook_command(event), "timeout": HOOKS[event][1]}]}
    if "hooks" not in JsonText(text).value:
        return with_child(text, (), {event: [group]}, "hooks")
    if event not in _events(text):
        return with_child(text, ("hooks",), [group], event)
    return with_child(text, ("hooks", event), group)


def _is_answered(text: str, event: str) -> bool:
    """Return whether a handler for every source runs the hook already: ours, an edited one, or the user's own form."""
    return any(
        [
            held.get("matcher") in (None, "", "*") and _OURS.fullmatch(handler["command"]) is not None
            for held, handler in handlers(text, event)
        ]
    )


def remove_handler(text: str, event: str, group: int, handler: int) -> str:
    """Remove one handler from the settings, and its group if nothing else is in it."""
    if len(_events(text)[event][group]["hooks"]) > 1:
        return without(text, ("hooks", event, group, "hooks", handler))
    return without(text, ("hooks", event, group))


def _find_ours(text: str, event: str) -> list[tuple[int, int]]:
    """Return where an event has exactly the command that `init` writes, as indexes of group and handler."""
    groups = _events(text).get(event, [])
    return [
        (groups.index(held), held["hooks"].index(handler))
        for held, handler in handlers(text, event)
        if handler["command"] == hook_command(event)
    ]


def runs_hook(command: str) -> str | None:
    """Return the event whose hook a command runs, in any form we know; None for any other command."""
    found = _OURS.fullmatch(command)
    return event_of(found["hook"]) if found else None


def handlers(text: str, event: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the handlers of an event that run a command, each with its group."""
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
    return SettingsInvalid(message, hint="fix the file, then run the command again; it was left as it is")
