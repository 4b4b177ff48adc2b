"""`faber-ledger init --mcp`: the server in each agent's file, and nothing of others touched."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.project import Project

FILES = {
    "claude": ".mcp.json",
    "codex": ".codex/config.toml",
    "copilot": ".github/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
}
FOREIGN = {
    ".json": '{ "mcpServers":  {"é": {"command": "mine"}}, "hooks": {"BeforeTool": []} }\n',
    ".toml": 'model = "é"\n\n[mcp_servers.mine] # a comment\ncommand = "mine"\n',
}
BROKEN = {
    "cursor": {"{": "", "[]": "", '{"mcpServers": []}': "`mcpServers` is not a JSON object"},
    "codex": {
        "[": "",
        "mcp_servers = 1\n": "`mcp_servers` is not a table",
        "mcp_servers = {}\n": "`mcp_servers` is an inline table: write it as `[mcp_servers]`",
    },
}


def servers_in(path: Path) -> dict[str, Any]:
    """Return the servers that a file registers, as its agent reads it."""
    if path.suffix == ".toml":
        return dict(tomllib.loads(path.read_text())["mcp_servers"])
    return dict(json.loads(path.read_text())["mcpServers"])


@pytest.mark.parametrize("agent", FILES)
def test_the_agents_file_has_the_server_and_goes_with_uninstall(project: Project, agent: str) -> None:
    path = project.root / FILES[agent]
    done = project.faber("init", "--mcp", agent)
    assert f"created    {FILES[agent]}\n" in done.stdout, done.stderr
    assert ("hooks cost the agent no call, and are cheaper" in done.stderr) is (agent != "cursor")
    server = servers_in(path)["faber-ledger"]
    assert (server["command"], server["args"][0]) == ("faber-ledger", "mcp")
    assert not (project.root / ".claude").exists()
    before = path.read_bytes()
    project.said("init", "--mcp", agent)
    assert path.read_bytes() == before
    project.said("uninstall")
    assert not path.exists()


def test_where_an_agent_has_the_server_hooks_are_not_missing(project: Project) -> None:
    assert re.search("^warning .*no hook is installed", project.faber("doctor").stdout, re.MULTILINE)
    assert "faber-ledger-hook" not in project.faber("init", "--mcp", "cursor").stderr  # it is not on this PATH
    assert re.search("^note .*no hook is installed", project.faber("doctor").stdout, re.MULTILINE)


@pytest.mark.parametrize("agent", FILES)
def test_foreign_servers_are_kept_byte_for_byte(project: Project, agent: str) -> None:
    path = project.root / FILES[agent]
    content = FOREIGN[path.suffix]
    project.write(FILES[agent], content)
    project.said("init", "--mcp", agent)
    assert len(servers_in(path)) == 2
    project.said("uninstall")
    assert path.read_text() == content
    edited = content.replace("mine]", "faber-ledger]").replace('"é"', '"faber-ledger"')
    project.write(FILES[agent], edited)
    project.said("init", "--mcp", agent)
    project.said("uninstall")
    assert path.read_text() == edited


def test_an_entry_to_which_the_user_has_added_stays(project: Project) -> None:
    project.said("init", "--mcp", "codex")
    edited = (project.root / FILES["codex"]).read_text() + "required = true\n"
    project.write(FILES["codex"], edited)
    project.said("uninstall")
    assert (project.root / FILES["codex"]).read_text() == edited


@pytest.mark.parametrize("agent", BROKEN)
def test_a_file_of_another_form_is_left_as_it_is(project: Project, agent: str) -> None:
    path = project.root / FILES[agent]
    for content, why in BROKEN[agent].items():
        project.write(FILES[agent], content)
        assert f"error: {FILES[agent]}: {why}" in project.said("init", "--mcp", agent, code=1)
        assert path.read_text() == content


@pytest.mark.parametrize("agent", FILES)
def test_the_users_own_file_is_used_with_scope_user(project: Project, agent: str, tmp_path: Path) -> None:
    home = tmp_path / "agent-home"
    names = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "copilot": "COPILOT_HOME"}
    variable = {names.get(agent, "HOME"): str(home)}
    assert f"created    {home}/" in project.said("init", "--mcp", agent, "--scope", "user", env=variable)
    (path,) = [one for one in home.rglob("*") if one.suffix in (".json", ".toml")]
    assert "faber-ledger" in servers_in(path)
    project.said("uninstall", "--scope", "user", env=variable)
    assert not path.exists()


def test_hooks_and_server_in_one_file_go_together(project: Project) -> None:
    project.said("init", "--agent", "gemini")
    project.said("init", "--mcp", "gemini")
    project.said("uninstall")
    assert not (project.root / FILES["gemini"]).exists()


@pytest.mark.parametrize("words", ["--agent codex", "--git-only", "--scope local"])
def test_options_that_do_not_go_together_are_refused(project: Project, words: str) -> None:
    assert "--agent and --mcp go with --scope" in project.said("init", "--mcp", "codex", *words.split(), code=2)
