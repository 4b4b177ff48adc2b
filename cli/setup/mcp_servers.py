"""The MCP server in the files of agents: where each has its servers, adding and removing ours."""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange, read_file, read_inside
from faber_ledger.files.json_edit import with_child, without
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.agents import SET_UPS
from faber_ledger.hooks.client_settings import PROGRAM, keep_found
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import missing_extra

MEMBER = "mcpServers"
EMPTY = "{}\n"
TABLE = f'[mcp_servers.{PROGRAM}]\ncommand = "{PROGRAM}"\nargs = ["mcp"]\n'
HOOKS = {"claude": "init", **{name: f"init --agent {name}" for name in SET_UPS}}


class ServerFile(NamedTuple):
    """Where an agent has its servers: in a project, in the home, and which variable moves the latter's folder."""

    in_project: str
    in_home: str
    moved_by: str
    entry: dict[str, Any]


ENTRY: dict[str, Any] = {"command": PROGRAM, "args": ["mcp"]}
SERVER_FILES = {
    "claude": ServerFile(".mcp.json", ".claude.json", "CLAUDE_CONFIG_DIR", ENTRY),
    "codex": ServerFile(".codex/config.toml", ".codex/config.toml", "CODEX_HOME", ENTRY),
    "copilot": ServerFile(
        ".github/mcp.json", ".copilot/mcp-config.json", "COPILOT_HOME", {"type": "local", **ENTRY, "tools": ["*"]}
    ),
    "cursor": ServerFile(
        ".cursor/mcp.json", ".cursor/mcp.json", "", ENTRY | {"args": ["mcp", "--project", "${workspaceFolder}"]}
    ),
    "gemini": ServerFile(".gemini/settings.json", ".gemini/settings.json", "", ENTRY),
}


def add_server(root: str, scope: str, agent: str) -> tuple[list[FileChange], list[str]]:
    """Return the change that registers our server in an agent's file, and what to say; raises LedgerError."""
    path = _path_of(root, scope, agent)
    before = read_inside(path, root) if scope == "project" else read_file(path)
    try:
        after = _with_server((before or b"").decode(), SERVER_FILES[agent].entry, path)
    except (ValueError, RecursionError) as error:
        raise _invalid(path, root, str(error)) from error
    cheaper = f"hooks cost the agent no call, and are cheaper: `faber-ledger {HOOKS[agent]}`" if agent in HOOKS else ""
    then = "start a new session of the agent, and let it use the server faber-ledger"
    lacking = missing_extra("the MCP server", "mcp") if find_spec("mcp") is None else None
    notes = [f"{lacking.message}: {lacking.hint}"] if lacking is not None else []
    return [FileChange(path, before, after.encode())], [*notes, then, *([cheaper] if cheaper else [])]


def has_server(root: str) -> bool:
    """Return whether an agent's file, in the project or the home, names our server."""
    for agent in SERVER_FILES:
        for scope in ("project", "user"):
            with suppress(LedgerError, OSError):
                if PROGRAM.encode() in (read_file(_path_of(root, scope, agent)) or b""):
                    return True
    return False


def remove_servers(root: str, scope: str, planned: list[FileChange]) -> list[FileChange]:
    """Return planned changes and those that remove what `init --mcp` adds in a scope; raises LedgerError.

    A planned change of the same file is joined with ours. An entry that the user has edited stays.
    """
    found = {change.path: change for change in planned}
    for agent, file in SERVER_FILES.items():
        path = _path_of(root, scope, agent)
        if scope == "local" or (scope == "project" and folder_around(path, [root]) is None):
            continue
        change = found.get(path) or _unchanged(path)
        if change is None or change.after is None or PROGRAM.encode() not in change.after:
            continue
        try:
            left = _without_server(change.after.decode(), file.entry, path)
        except (ValueError, RecursionError) as error:
            raise _invalid(path, root, str(error)) from error
        is_ours = left in ("", EMPTY) and not os.path.islink(path)
        if left.encode() != change.after:
            found[path] = FileChange(path, change.before, None if is_ours else left.encode())
    return [*found.values()]


def _unchanged(path: str) -> FileChange | None:
    content = read_file(path) if os.path.isfile(path) else None
    return FileChange(path, content, content) if content is not None else None


def _path_of(root: str, scope: str, agent: str) -> str:
    file = SERVER_FILES[agent]
    if scope != "user":
        return os.path.join(root, file.in_project)
    moved = os.environ.get(file.moved_by, "")
    if os.path.isabs(moved):
        return os.path.join(moved, os.path.basename(file.in_home))
    return os.path.join(os.path.expanduser("~"), file.in_home)


def _with_server(text: str, entry: dict[str, Any], path: str) -> str:
    """Return a file's text with our server, unless it has one of our name; raises ValueError for another form."""
    is_toml = path.endswith(".toml")
    value, member = _read(text, path)
    servers = value.get(member, {})
    if not isinstance(servers, dict):
        raise ValueError(f"`{member}` is not a {'table' if is_toml else 'JSON object'}")
    if PROGRAM in servers:
        return text
    if is_toml:
        made = f"{text.rstrip()}\n\n{TABLE}" if text.strip() else TABLE
        try:
            tomllib.loads(made)
        except ValueError:
            raise ValueError(f"`{member}` is an inline table: write it as `[{member}]`") from None
        return made
    text = keep_found(text, EMPTY) if text else EMPTY
    if MEMBER in value:
        return with_child(text, (MEMBER,), entry, PROGRAM)
    return with_child(text, (), {PROGRAM: entry}, MEMBER)


def _read(text: str, path: str) -> tuple[dict[str, Any], str]:
    """Return what a file says, and its member that has the servers; raises ValueError."""
    is_toml = path.endswith(".toml")
    return (tomllib.loads(text), "mcp_servers") if is_toml else (JsonText(text or EMPTY).value, MEMBER)


def _without_server(text: str, entry: dict[str, Any], path: str) -> str:
    """Return a file's text without our server, as `_with_server` adds it; raises ValueError."""
    value, member = _read(text, path)
    servers = value.get(member)
    if not isinstance(servers, dict) or servers.get(PROGRAM) != entry:
        return text
    if path.endswith(".toml"):
        before, found, after = text.partition(TABLE)
        return before.rstrip("\n") + ("\n" if before.strip() else "") + after if found else text
    return without(text, (MEMBER, PROGRAM) if len(servers) > 1 else (MEMBER,))


def _invalid(path: str, root: str, why: str) -> LedgerError:
    return SettingsInvalid(f"{display_path(path, root)}: {why}", hint="fix the file; it was left as it is")
