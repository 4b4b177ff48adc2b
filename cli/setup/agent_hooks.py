"""Our hooks in the files of other agents: added once for each event, and removed; what others have keeps every byte."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from faber_ledger.cli.setup.agent_files import EVENTS, agent_entry, agent_path, decode_agent_file
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.json_edit import with_child, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_settings import PROGRAM, keep_found
from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterable

EMPTY = {"codex": "{}\n", "copilot": '{\n  "version": 1\n}\n'}
NEXT = {
    "codex": "Codex runs no new hook before you have reviewed it: start it here and run /hooks",
    "copilot": "Copilot reads its hooks when it starts: start a new session of it",
}


def add_agent_hooks(root: str, scope: str, agent: str) -> tuple[list[FileChange], list[str]]:
    """Return the change that puts our hooks into an agent's file, and what to say.

    Raises LedgerError for a bad file.
    """
    path, before = _read(root, scope, agent)
    text = EMPTY[agent]
    if before is not None:
        text = keep_found(decode_agent_file(before, display_path(path, root), agent), EMPTY[agent])
    for event, (name, seconds) in EVENTS[agent].items():
        held = JsonText(text).value.get("hooks", {})
        if any([_runs(entry, agent, name) for entry in held.get(event, [])]):
            continue
        entry = agent_entry(agent, name, seconds)
        if "hooks" not in JsonText(text).value:
            text = with_child(text, (), {event: [entry]}, "hooks")
        elif event not in held:
            text = with_child(text, ("hooks",), [entry], event)
        else:
            text = with_child(text, ("hooks", event), entry)
    return [FileChange(path, before, text.encode())], [NEXT[agent]]


def remove_agent_hooks(root: str, scope: str, agents: Iterable[str] = tuple(EVENTS)) -> list[FileChange]:
    """Return the changes that remove exactly what `init --agent` adds in a scope, and a file that is empty then.

    Raises LedgerError for a bad file that names our program; what is in any other is not looked at.
    """
    found = []
    for agent in agents if scope != "local" else ():
        path = agent_path(root, scope, agent)
        if scope == "project" and folder_around(path, [root]) is None:
            continue
        before = read_file(path) if os.path.isfile(path) else None
        if before is None or PROGRAM.encode() not in before:
            continue
        text = decode_agent_file(before, display_path(path, root), agent)
        for event, (name, seconds) in EVENTS[agent].items():
            held = JsonText(text).value.get("hooks", {}).get(event, [])
            for number in reversed([at for at, entry in enumerate(held) if entry == agent_entry(agent, name, seconds)]):
                text = without(text, ("hooks", event, number))
            if held and not JsonText(text).value["hooks"][event]:
                text = without(text, ("hooks", event))
        is_changed = text.encode() != before
        if is_changed and not JsonText(text).value["hooks"]:
            text = without(text, ("hooks",))
        is_ours = is_changed and text == EMPTY[agent] and not os.path.islink(path)
        if is_changed:
            found.append(FileChange(path, before, None if is_ours else text.encode()))
    return found


def _read(root: str, scope: str, agent: str) -> tuple[str, bytes | None]:
    path = agent_path(root, scope, agent)
    if scope == "project" and folder_around(path, [root]) is None:
        shown = display_path(path, root)
        raise LedgerError(f"{shown} is behind a link that leads out of the project", hint="replace the link")
    return path, read_file(path)


def _runs(entry: object, agent: str, name: str) -> bool:
    """Return whether an entry runs one of our hooks, in any form."""
    command = rf"{PROGRAM}[ -]hook (?=[^;|&]*--agent[ =]{agent}\b)[^;|&]*(?<![\w-]){name}(?![\w-])"
    return re.search(command, str(entry)) is not None
