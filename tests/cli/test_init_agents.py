"""`faber-ledger init --agent`: the hooks in Codex's and Copilot's files, and nothing of others touched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.project import Project
from support.sizes import few, pair

FILES = {"codex": ".codex/hooks.json", "copilot": ".github/hooks/faber-ledger.json"}
NAMES = {
    "codex": {"SessionStart", "PreCompact", "PostCompact", "SessionEnd"},
    "copilot": {"sessionStart", "preCompact", "userPromptTransformed", "sessionEnd"},
}
FOREIGN = {
    "codex": '{ "hooks":  {"Stop": [{"hooks": [{"type": "command", "command": "é"}]}]} }\n',
    "copilot": '{"version":1,  "hooks": {"preCompact": [{"type": "command", "bash": "mine"}]}}\n',
}


@pytest.mark.parametrize("agent", FILES)
def test_the_file_has_the_documented_form_and_goes_with_uninstall(project: Project, agent: str) -> None:
    done = project.faber("init", "--agent", agent)
    assert done.returncode == 0, done.stderr
    path = project.root / FILES[agent]
    found = json.loads(path.read_text())
    assert found["hooks"].keys() == NAMES[agent]
    assert not (project.root / ".claude").exists()
    for entries in found["hooks"].values():
        (entry,) = entries
        (handler,) = entry["hooks"] if agent == "codex" else entries
        text, seconds = ("command", "timeout") if agent == "codex" else ("bash", "timeoutSec")
        assert handler.keys() == {"type", text, seconds}
        assert f"exec faber-ledger-hook --agent {agent} " in handler[text]
        subprocess.run(["sh", "-c", handler[text]], env={"PATH": "/bin"}, check=True)  # without the program
    assert f"has the hooks of {agent}" in project.faber("doctor", "--json").stdout
    before = path.read_bytes()
    assert project.faber("init", "--agent", agent).returncode == 0
    assert path.read_bytes() == before
    assert "git's settings stay" not in project.faber("uninstall").stdout
    assert not (project.root / FILES[agent].partition("/")[0]).exists()


@pytest.mark.parametrize("agent", FILES)
def test_foreign_entries_are_kept_byte_for_byte(project: Project, agent: str) -> None:
    path = project.write(FILES[agent], FOREIGN[agent])
    assert project.faber("init", "--agent", agent).returncode == 0
    assert f"--agent {agent}" in path.read_text()
    assert project.faber("uninstall").returncode == 0
    assert path.read_text() == FOREIGN[agent]


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "agent"), pair(["{}\n", "{}", '{\n  "version": 1\n}\n', '{"hooks": {}}\n'], [*FILES, None])
)
def test_an_empty_file_that_was_there_before_stays(project: Project, content: str, agent: str | None) -> None:
    path = project.write(FILES[agent] if agent else ".claude/settings.json", content)
    for _ in range(2):
        assert project.faber("init", *(["--agent", agent] if agent else [])).returncode == 0
    assert "faber-ledger-hook" in path.read_text()
    assert project.faber("uninstall").returncode == 0
    kept = {**json.loads(content), "hooks": None}
    assert {**json.loads(path.read_text()), "hooks": None} == kept


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "agent"),
    pair(["{", "[]", '{"hooks": []}', '{"hooks": {"SessionStart": {}, "sessionStart": 1}}'], [*FILES]),
)
def test_a_file_of_another_form_is_left_as_it_is(project: Project, content: str, agent: str) -> None:
    path = project.write(FILES[agent], content)
    done = project.faber("init", "--agent", agent)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert path.read_text() == content


@pytest.mark.parametrize("agent", FILES)
def test_the_users_own_file_is_used_with_scope_user(project: Project, agent: str, tmp_path: Path) -> None:
    home = tmp_path / "agent-home"
    variable = {f"{agent.upper()}_HOME": str(home)}
    done = project.faber("init", "--agent", agent, "--scope", "user", env=variable)
    assert f": hooks of {agent}\n" in done.stdout, done.stderr
    assert list(home.rglob("*.json"))
    assert not (project.root / FILES[agent]).exists()
    assert project.faber("uninstall", "--scope", "user", env=variable).returncode == 0
    assert not home.exists()


def test_copilot_gets_no_second_hooks_beside_the_clients(project: Project) -> None:
    assert project.faber("init").returncode == 0
    done = project.faber("init", "--agent", "copilot")
    assert "it reads .claude/settings.json too" in done.stdout + done.stderr
    assert not (project.root / FILES["copilot"]).exists()
    assert project.faber("uninstall").returncode == 0
    assert project.faber("init", "--agent", "copilot").returncode == 0
    (project.root / ".github/hooks/other.json").write_text("{}")
    done = project.faber("init", "--scope", "local")
    assert ".claude/settings.local.json both have the hooks: Copilot runs and records both; remove" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "agent"), few(pair([None, "{", '{"hooks": []}', '{"hooks": {"SessionStart": {}}}'], [*FILES]), 2)
)
def test_what_is_not_ours_in_any_form_keeps_nobody_from_uninstalling(
    project: Project, agent: str, content: str | None
) -> None:
    assert project.faber("init").returncode == 0
    path = project.root / FILES[agent]
    path.parent.mkdir(parents=True)
    os.mkfifo(path) if content is None else path.write_text(content)
    assert "hooks.installed" not in project.faber("doctor").stdout
    done = project.faber("uninstall")
    assert done.returncode == 0, done.stderr
    assert not (project.root / ".claude").exists()
    assert path.exists()


def test_git_stays_set_up_while_an_agent_has_the_hooks(project: Project) -> None:
    assert project.faber("init", "--agent", "codex", "--scope", "user").returncode == 0
    done = project.faber("uninstall")
    assert f"git's settings stay: {project.environment()['HOME']}/.codex/hooks.json still has the hooks" in done.stdout
    assert (project.root / ".fractary/.gitattributes").exists()
    assert project.faber("uninstall", "--scope", "user").returncode == 0
    assert project.faber("uninstall").returncode == 0
    assert not (project.root / ".fractary/.gitattributes").exists()


def findings(project: Project, check: str, **env: str) -> list[tuple[str, str]]:
    """Return the level and text of what doctor finds in one check."""
    checks = json.loads(project.faber("doctor", "--json", env=env).stdout)["data"]["checks"]
    (found,) = [one["findings"] for one in checks if one["check"] == check]
    return [(one["level"], f"{one['what']}; {one['hint']}") for one in found]


def test_the_users_file_of_copilot_beside_a_projects_settings_is_named(project: Project) -> None:
    assert project.faber("init", "--agent", "copilot", "--scope", "user").returncode == 0
    done = project.faber("init")
    assert "/.copilot/hooks/faber-ledger.json and .claude/settings.json both have the hooks" in done.stderr
    ((level, what),) = findings(project, "hooks.agents")
    assert level == "warning"
    assert "Copilot runs and records both" in what
    assert (Path(project.environment()["HOME"]) / ".copilot/hooks/faber-ledger.json").exists()


@pytest.mark.parametrize("agent", FILES)
def test_uninstall_leaves_an_edited_hook_and_what_it_needs(project: Project, agent: str) -> None:
    assert project.faber("init", "--agent", agent).returncode == 0
    path = project.root / FILES[agent]
    path.write_text(path.read_text().replace("60", "61"))
    assert f"git's settings stay: {FILES[agent]}" in project.faber("uninstall").stdout
    assert "61" in path.read_text()
    assert (project.root / ".fractary/.gitattributes").exists()


def test_a_hook_in_another_form_is_not_added_again(project: Project) -> None:
    mine = {"type": "command", "command": "/opt/faber-ledger hook session-start --agent=codex"}
    path = project.write(FILES["codex"], json.dumps({"hooks": {"SessionStart": [{"hooks": [mine]}]}}))
    assert project.faber("init", "--agent", "codex").returncode == 0
    assert path.read_text().count("session-start") == 1
