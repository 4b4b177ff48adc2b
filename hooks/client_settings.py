"""The client's settings file: add and remove our four hooks, and keep every other byte."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.files.json_edit import line_of, with_hook, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.disk import FileRefused, folder_around, read_regular
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS, event_of
from faber_ledger.runs.settings import client_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


SCOPES = ("project", "local", "user")
PROGRAM = "faber-ledger"
HOOK_PROGRAM = "faber-ledger-hook"  # `faber-ledger hook`, started faster
MAX_BYTES = 1_048_576

# Without the program a start tells the user so, if a run is active here and this clone has used the program before.
MISSING = '{"systemMessage":"faber-ledger is not on PATH: this session of the active FABER run is not recorded"}'
TELL_USER = (
    """{ cd "$CLAUDE_PROJECT_DIR" 2>/dev/null"""
    """ && { test -s .fractary/faber/.active-run-id || test -s .fractary/faber/runs/.active-run-id; }"""
    """ && git=$(git rev-parse --git-common-dir 2>/dev/null) && test -d "$git/faber-ledger\""""
    f" && echo '{MISSING}'; exit 0; }};"
)

_NAMES = "|".join([name for event, (hook, _) in HOOKS.items() for name in (event, hook)])
_PROGRAM = rf"""(?:[\w.~${{}}"'+@/-]*/)?["']?{PROGRAM}"""
_GUARD = rf"command -v {_PROGRAM}(?:-hook)?[\"']? *>\s*/dev/null(?: 2>&1)?"
_OURS = re.compile(
    rf"\s*(?:{_GUARD} *(?:\|\| *(?:exit 0 *;|{re.escape(TELL_USER)})|&&) *)?"
    rf"(?:exec +)?{_PROGRAM}(?:-hook[\"']?|[\"']? +hook) +(?P<hook>{_NAMES})(?: *\|\| *true)?\s*"
)


def settings_path(scope: str, root: str) -> str:
    """Return the settings file of a scope: the project's, the project's on this machine, or the user's."""
    if scope == "user":
        return os.path.join(client_folder(), "settings.json")
    return os.path.join(root, ".claude", "settings.json" if scope == "project" else "settings.local.json")


def list_scopes(root: str) -> list[str]:
    """Return the scopes, without the user's where the home folder is the project: its settings are the same file."""
    user = os.path.realpath(settings_path("user", root))
    mine = [scope for scope in ("project", "local") if not leads_out(scope, root)]
    is_same = user in [os.path.realpath(settings_path(scope, root)) for scope in mine]
    return [scope for scope in SCOPES if not (is_same and scope == "user")]


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


def keep_found(text: str, created: str) -> str:
    """Return the text of a file that was there before `init` so that `uninstall` does not take it for one of ours.

    If the file has no more than `created`, what `init` creates, its last newline is removed: nothing else can tell the
    two apart.
    """
    values = {**JsonText(text).value}
    if values.get("hooks") in ({}, None):
        values.pop("hooks", None)
    return text.rstrip("\n") if values in ({}, JsonText(created).value) else text


def add_hooks(text: str) -> str:
    """Add our hook to the settings under each event for which no handler runs it, in any form."""
    for event in HOOKS:
        if not is_answered(text, event):
            # Without a matcher: every source of a session's start counts.
            group = {"hooks": [{"type": "command", "command": hook_command(event), "timeout": HOOKS[event][1]}]}
            text = with_hook(text, event, group)
    return text


def remove_hooks(text: str) -> str:
    """Remove the handlers that run our commands from the settings, and what that leaves empty."""
    for event in HOOKS:
        for group, handler in reversed(_find_ours(text, event)):
            is_alone = len(_events(text)[event][group]["hooks"]) == 1
            text = without(text, ("hooks", event, group) if is_alone else ("hooks", event, group, "hooks", handler))
        if event in _events(text) and not _events(text)[event]:
            text = without(text, ("hooks", event))
    if "hooks" in JsonText(text).value and not _events(text):
        text = without(text, ("hooks",))
    return text


def has_hooks(text: str) -> bool:
    """Return whether the settings have one of our commands."""
    return any([_find_ours(text, event) for event in HOOKS])


def has_written_by_hand(text: str) -> bool:
    """Return whether the settings run one of our hooks in another form than `init` writes, with or without a shell."""
    found = [(event, handler) for event in HOOKS for _, handler in handlers(text, event) if runs_hook(handler)]
    return any([command_line(handler) != hook_command(event) for event, handler in found])


def readable_settings(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield the scope, path and text of each settings file that the client can read, at most 1 MB of each.

    None is from outside the project, except the user's.
    """
    for scope in list_scopes(root):
        try:
            yield scope, settings_path(scope, root), _read_text(scope, root)
        except (FileRefused, OSError, LedgerError):
            continue


def unreadable_settings(root: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each settings file that is not read here although the client may read it; and why."""
    for scope in list_scopes(root):
        path = settings_path(scope, root)
        try:
            _read_text(scope, root)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield path, error.strerror or ""
        except (FileRefused, LedgerError) as error:
            yield path, str(error)


def leads_out(scope: str, root: str) -> bool:
    """Return whether a project's settings file is, or is behind, a link that leads out of the project."""
    path = settings_path(scope, root)
    return scope != "user" and os.path.exists(path) and folder_around(path, [root]) is None


def _read_text(scope: str, root: str) -> str:
    if leads_out(scope, root):
        raise FileRefused("a link leads out of the project")
    return decode_settings(read_regular(settings_path(scope, root), MAX_BYTES, follow=True), "its text")


def hook_command(event: str) -> str:
    """Return the shell command of an event's hook.

    Where the program is not installed, it succeeds silently; a start tells the user where it was used before. `exec`
    leaves no shell between the client's signals and the hook.
    """
    otherwise = TELL_USER if event == "SessionStart" else "exit 0;"
    return f"command -v {HOOK_PROGRAM} >/dev/null 2>&1 || {otherwise} exec {HOOK_PROGRAM} {HOOKS[event][0]}"


def is_answered(text: str, event: str) -> bool:
    """Return whether a handler for every source runs the hook already: ours, an edited one, or the user's own form."""
    found = [held.get("matcher") for held, handler in handlers(text, event) if runs_hook(handler)]
    return any([matcher in (None, "", "*") for matcher in found])


def _find_ours(text: str, event: str) -> list[tuple[int, int]]:
    """Return where an event has exactly the command that `init` writes, as indexes of group and handler."""
    return [
        (group, number)
        for group, number, _, handler in _locate_handlers(text, event)
        if command_line(handler) == hook_command(event)
    ]


def runs_hook(handler: dict[str, Any]) -> str | None:
    """Return the event whose hook a handler runs, in any form we know; None for any other handler."""
    found = _OURS.fullmatch(command_line(handler))
    return event_of(found["hook"]) if found else None


def command_line(handler: dict[str, Any]) -> str:
    """Return a handler's command with its arguments, which it has where the client runs no shell for it."""
    arguments = handler.get("args")
    words = [handler["command"], *(arguments if isinstance(arguments, list) else [])]
    return " ".join([str(word) for word in words])


def handlers(text: str, event: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the handlers of an event that run a command, each with its group."""
    return [(held, handler) for _, _, held, handler in _locate_handlers(text, event)]


def _locate_handlers(text: str, event: str) -> Iterator[tuple[int, int, dict[str, Any], dict[str, Any]]]:
    """Yield the indexes of group and handler of each handler that runs a command, then both."""
    for group, held in enumerate(_events(text).get(event, [])):
        listed = held.get("hooks") if isinstance(held, dict) else None
        for number, handler in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(handler, dict) and isinstance(handler.get("command"), str):
                yield group, number, held, handler


def _events(text: str) -> dict[str, Any]:
    events: dict[str, Any] = JsonText(text).value.get("hooks", {})
    return events


def _invalid(message: str) -> SettingsInvalid:
    return SettingsInvalid(message, hint="fix the file, then run the command again; it was left as it is")
