"""The files in which other agents look for hooks: where they are, which events they have, and which of ours are there.

Both forms are as those agents document them.
"""

from __future__ import annotations

import os
from glob import escape as glob_escape
from glob import glob
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.setup.changes import display_path
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.hooks.client_settings import HOOK_PROGRAM, MAX_BYTES, PROGRAM
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faber_ledger.files.change import FileChange

# Each agent's events, with our name of the hook and its time-out in seconds. Codex allows an end no more than three.
EVENTS = {
    "codex": {
        "SessionStart": ("session-start", 20),
        "PreCompact": ("pre-compact", 60),
        "PostCompact": ("post-compact", 20),
        "SessionEnd": ("session-end", 3),
    },
    "copilot": {
        "sessionStart": ("session-start", 20),
        "preCompact": ("pre-compact", 60),
        "userPromptTransformed": ("user-prompt", 20),
        "sessionEnd": ("session-end", 15),
    },
}
IN_PROJECT = {"codex": ".codex/hooks.json", "copilot": ".github/hooks/faber-ledger.json"}
# The variable that moves a user's folder, that folder in the user's home, and the file in it.
OF_USER = {
    "codex": ("CODEX_HOME", ".codex", "hooks.json"),
    "copilot": ("COPILOT_HOME", ".copilot", "hooks/faber-ledger.json"),
}


class AgentFile(NamedTuple):
    """A file of an agent with our hooks: by event the entries that run them, in any form."""

    agent: str
    scope: str
    path: str
    entries: dict[str, list[Any]]

    def is_edited(self, event: str) -> bool:
        """Return whether an entry is not as `init --agent` writes it, or under an event that has no hook of ours."""
        known = EVENTS[self.agent].get(event)
        return any([known is None or entry != agent_entry(self.agent, *known) for entry in self.entries[event]])


def list_agents(root: str, changes: Iterable[FileChange] = ()) -> list[AgentFile]:
    """Return the agents' files with our hooks, as they are once changes are made.

    A file of the project that leads out of it has none, nor has one that is not readable or has more than 1 MB.
    """
    planned = {change.path: change.after or b"{}" for change in changes}
    found: dict[str, AgentFile] = {}
    for scope, agent in [(scope, agent) for scope in ("project", "user") for agent in EVENTS]:
        path = agent_path(root, scope, agent)
        if scope == "project" and folder_around(path, [root]) is None:
            continue
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


def list_damaged(root: str) -> list[tuple[str, str]]:
    """Return the agent of each file that cannot be used, and what is wrong with it.

    Of the other files of Copilot's hooks in a project only those count that name our program.
    """
    paths = {agent_path(root, scope, agent): agent for scope in ("project", "user") for agent in EVENTS}
    own = agent_path(root, "project", "copilot")
    others = sorted(set(glob(os.path.join(glob_escape(os.path.dirname(own)), "*.json"))) - {own})
    found = []
    for path, agent in [*paths.items(), *[(other, "copilot") for other in others]]:
        if path.startswith(os.path.join(root, "")) and folder_around(path, [root]) is None:
            continue  # a link leads out of the project
        shown = display_path(path, root)
        try:
            content = read_regular(path, MAX_BYTES, follow=True)
            if path in paths or PROGRAM.encode() in content:
                decode_agent_file(content, shown, agent)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except LedgerError as error:
            found.append((agent, error.message))
        except (FileRefused, OSError) as error:
            found.append((agent, f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}"))
    return found


def folders_of_user() -> set[str]:
    """Return the folders of the user's that `init --agent --scope user` makes where they are missing."""
    return {folder for agent in EVENTS for folder in (_home(agent), os.path.dirname(agent_path("", "user", agent)))}


def describe_agent_file(path: str) -> str | None:
    """Return what an agent's file of a project or of the user is for; None for any other path."""
    for agent, name in IN_PROJECT.items():
        if path.endswith(name) or path == agent_path("", "user", agent):
            return f"hooks of {agent}"
    return None


def agent_path(root: str, scope: str, agent: str) -> str:
    """Return the path of an agent's file in a scope, `project` or `user`."""
    if scope == "project":
        return os.path.join(root, IN_PROJECT[agent])
    return os.path.join(_home(agent), OF_USER[agent][2])


def _home(agent: str) -> str:
    """Return the user's folder of an agent."""
    variable, folder, _ = OF_USER[agent]
    moved = os.environ.get(variable, "")
    return moved if os.path.isabs(moved) else os.path.join(os.path.expanduser("~"), folder)


def decode_agent_file(content: bytes, shown: str, agent: str) -> str:
    """Return a file's text after checking that it can be edited; raises SettingsInvalid, which names it as `shown`."""
    try:
        text = content.decode()
        hooks = JsonText(text).value.get("hooks", {})
    except (ValueError, RecursionError) as error:
        raise SettingsInvalid(f"{shown}: not valid JSON: {error}", hint="fix the file; it was left as it is") from error
    if not isinstance(hooks, dict) or not all([isinstance(hooks.get(event, []), list) for event in EVENTS[agent]]):
        raise SettingsInvalid(f"{shown}: `hooks` has another form", hint="fix the file; it was left as it is")
    return text


def agent_entry(agent: str, name: str, seconds: int) -> dict[str, Any]:
    """Return the entry of an agent's file that runs a hook of ours, with its time-out in seconds."""
    command = f"command -v {HOOK_PROGRAM} >/dev/null 2>&1 || exit 0; exec {HOOK_PROGRAM} --agent {agent} {name}"
    if agent == "copilot":
        return {"type": "command", "bash": command, "timeoutSec": seconds}
    return {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}


def _is_ours(entry: object) -> bool:
    return f"{PROGRAM} hook" in str(entry) or HOOK_PROGRAM in str(entry)
