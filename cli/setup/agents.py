"""Our hooks in the files of other agents: where those files are, which of our hooks they have, adding and removing."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange, read_file, read_inside
from faber_ledger.files.json_edit import with_hook, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.agents import AGENTS, SET_UPS
from faber_ledger.hooks.client_settings import HOOK_PROGRAM, MAX_BYTES, PROGRAM, keep_found
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.disk import FileRefused, folder_around, read_regular
from faber_ledger.ledger.errors import LedgerError

LOST = "faber-ledger is not on PATH: this session of the active FABER run is not recorded. Put it on PATH, then "

# Which there are


class AgentFile(NamedTuple):
    """A file of an agent with our hooks: by event the entries that run them, in any form."""

    agent: str
    scope: str
    path: str
    entries: dict[str, list[Any]]


def list_agents(root: str, changes: Iterable[FileChange] = ()) -> list[AgentFile]:
    """Return the agents' files with our hooks, as they are once changes are made.

    A file of the project that leads out of it has none, nor has one that is not readable or has more than 1 MB.
    """
    planned = {change.path: change.after or b"{}" for change in changes}
    found: dict[str, AgentFile] = {}
    for scope, agent, path in _list_paths(root):
        try:
            content = planned.get(path) or read_regular(path, MAX_BYTES, follow=True)
            held = JsonText(decode_agent_file(content, path, agent)).value.get("hooks", {})
        except (FileRefused, OSError, LedgerError):
            continue
        lists = {event: entries for event, entries in held.items() if isinstance(entries, list)}
        ours = {event: [one for one in entries if _is_ours(one)] for event, entries in lists.items()}
        file = AgentFile(agent, scope, path, {event: entries for event, entries in ours.items() if entries})
        if file.entries:
            found.setdefault(os.path.realpath(path), file)
    return [*found.values()]


def _list_paths(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield scope, agent and path of each file that an agent reads here, unless a link leads out of the project."""
    for scope, agent in [(scope, agent) for scope in ("project", "user") for agent in SET_UPS]:
        path = agent_path(root, scope, agent)
        if scope == "user" or folder_around(path, [root]) is not None:
            yield scope, agent, path


def list_unreviewed(file: AgentFile) -> list[str]:
    """Return the events whose hooks in a Codex file were not reviewed: Codex does not run these, and may not say so.

    Codex's configuration names what was reviewed by file, event and place. Codex does not ask for a review in a linked
    worktree, so none of its events is returned.
    """
    is_linked = file.scope == "project" and os.path.isfile(os.path.join(_top_of(file.path), ".git"))
    if file.agent != "codex" or is_linked:
        return []
    try:
        content = read_regular(os.path.join(_home("codex"), "config.toml"), MAX_BYTES, follow=True)
        reviewed = tomllib.loads(content.decode()).get("hooks", {}).get("state", {})
    except (FileNotFoundError, NotADirectoryError):
        reviewed = {}
    except (FileRefused, OSError, ValueError, AttributeError):
        return []  # its configuration is not readable
    paths = {file.path, os.path.realpath(file.path)}
    starts = {event: re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower() for event in file.entries}
    known = [name for name in reviewed if isinstance(name, str)] if isinstance(reviewed, dict) else []
    return [
        event
        for event, word in starts.items()
        if not any([name.startswith(f"{path}:{word}:") for name in known for path in paths])
    ]


def _top_of(path: str) -> str:
    """Return the folder in which a project's file of Codex's lies."""
    return os.path.dirname(os.path.dirname(path))


def agent_path(root: str, scope: str, agent: str) -> str:
    """Return the path of an agent's file in a scope, `project` or `user`."""
    if scope == "project":
        return os.path.join(root, SET_UPS[agent].in_project)
    return os.path.join(_home(agent), SET_UPS[agent].in_folder)


def _home(agent: str) -> str:
    """Return the user's folder of an agent."""
    moved = os.environ.get(SET_UPS[agent].moved_by, "")
    return moved if os.path.isabs(moved) else os.path.join(os.path.expanduser("~"), SET_UPS[agent].folder)


def decode_agent_file(content: bytes, shown: str, agent: str) -> str:
    """Return a file's text after checking that it can be edited; raises SettingsInvalid, which names it as `shown`."""
    try:
        text = content.decode()
        hooks = JsonText(text).value.get("hooks", {})
    except (ValueError, RecursionError) as error:
        raise SettingsInvalid(f"{shown}: not valid JSON: {error}", hint="fix the file; it was left as it is") from error
    if not isinstance(hooks, dict) or not all(
        [isinstance(hooks.get(event, []), list) for event in SET_UPS[agent].hooks]
    ):
        raise SettingsInvalid(f"{shown}: `hooks` has another form", hint="fix the file; it was left as it is")
    return text


def agent_entry(agent: str, name: str, seconds: int) -> dict[str, Any]:
    """Return the entry of an agent's file that runs a hook of ours, with its time-out in seconds."""
    otherwise = _tell_user(agent) if name == "session-start" else "exit 0;"
    command = f"command -v {HOOK_PROGRAM} >/dev/null 2>&1 || {otherwise} exec {HOOK_PROGRAM} --agent {agent} {name}"
    if SET_UPS[agent].is_flat:
        return {"type": "command", "bash": command, "timeoutSec": seconds}
    handler = {"type": "command", "command": command, "timeout": seconds * SET_UPS[agent].in_second}
    return {"hooks": [handler | ({"name": PROGRAM} if SET_UPS[agent].is_named else {})]}


def _tell_user(agent: str) -> str:
    """Return the shell code of a start for a machine without the program: it says what to do if this clone has used it.

    Hooks run in the project's folder. An agent that shows its user nothing is asked to tell it.
    """
    said = f"{LOST}{SET_UPS[agent].again}"
    shows_messages = AGENTS[agent].answer == "client"
    answer = {"systemMessage": said} if shows_messages else {AGENTS[agent].answer: f"Tell the user: {said}"}
    return (
        "{ { test -s .fractary/faber/.active-run-id || test -s .fractary/faber/runs/.active-run-id; }"
        ' && git=$(git rev-parse --git-common-dir 2>/dev/null) && test -d "$git/faber-ledger"'
        f" && echo '{json.dumps(answer)}'; exit 0; }};"
    )


def _is_ours(entry: object) -> bool:
    return f"{PROGRAM} hook" in str(entry) or HOOK_PROGRAM in str(entry)


# Adding and removing


def add_agent_hooks(root: str, scope: str, agent: str) -> tuple[list[FileChange], list[str]]:
    """Return the change that puts our hooks into an agent's file, and what to say.

    Raises LedgerError for a bad file.
    """
    path = agent_path(root, scope, agent)
    before = read_inside(path, root) if scope == "project" else read_file(path)
    text = SET_UPS[agent].empty
    if before is not None:
        text = keep_found(decode_agent_file(before, display_path(path, root), agent), text)
    for event, (name, seconds) in SET_UPS[agent].hooks.items():
        held = JsonText(text).value.get("hooks", {})
        if not any([_runs(entry, agent, name) for entry in held.get(event, [])]):
            text = with_hook(text, event, agent_entry(agent, name, seconds))
    return [FileChange(path, before, text.encode())], [SET_UPS[agent].then]


def remove_agent_hooks(root: str, scope: str) -> list[FileChange]:
    """Return the changes that remove exactly what `init --agent` adds in a scope, and a file that is empty then.

    Raises LedgerError for a bad file that names our program; what is in any other is not looked at.
    """
    found = []
    for agent, path in [(agent, path) for at, agent, path in _list_paths(root) if at == scope]:
        before = read_file(path) if os.path.isfile(path) else None
        if before is None or PROGRAM.encode() not in before:
            continue
        text = decode_agent_file(before, display_path(path, root), agent)
        for event, (name, seconds) in SET_UPS[agent].hooks.items():
            held = JsonText(text).value.get("hooks", {}).get(event, [])
            written = agent_entry(agent, name, seconds)
            for number in reversed([at for at, entry in enumerate(held) if entry == written]):
                text = without(text, ("hooks", event, number))
            if held and not JsonText(text).value["hooks"][event]:
                text = without(text, ("hooks", event))
        is_changed = text.encode() != before
        if is_changed and not JsonText(text).value["hooks"]:
            text = without(text, ("hooks",))
        is_ours = is_changed and text == SET_UPS[agent].empty and not os.path.islink(path)
        if is_changed:
            found.append(FileChange(path, before, None if is_ours else text.encode()))
    return found


def _runs(entry: object, agent: str, name: str) -> bool:
    """Return whether an entry runs one of our hooks, in any form."""
    command = rf"{PROGRAM}[ -]hook (?=[^;|&]*--agent[ =]{agent}\b)[^;|&]*(?<![\w-]){name}(?![\w-])"
    return re.search(command, str(entry)) is not None
