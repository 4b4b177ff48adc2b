"""`faber-ledger init --agent`: the hooks in other agents' files, and nothing of others touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.project import Project
from support.sizes import few, pair

FILES = {"codex": ".codex/hooks.json", "copilot": ".github/hooks/faber-ledger.json", "gemini": ".gemini/settings.json"}
NAMES = {
    "codex": {"SessionStart", "PreCompact", "PostCompact", "SessionEnd"},
    "copilot": {"sessionStart", "preCompact", "userPromptTransformed", "sessionEnd"},
    "gemini": {"SessionStart", "PreCompress", "BeforeAgent", "SessionEnd"},
}
FOREIGN = {
    "codex": '{ "hooks":  {"Stop": [{"hooks": [{"type": "command", "command": "é"}]}]} }\n',
    "copilot": '{"version":1,  "hooks": {"preCompact": [{"type": "command", "bash": "mine"}]}}\n',
    "gemini": '{ "hooks":  {"BeforeTool": []}, "ui": {"theme": "é"} }\n',
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
        (handler,) = entry["hooks"] if agent != "copilot" else entries
        text, seconds = ("command", "timeout") if agent != "copilot" else ("bash", "timeoutSec")
        named = {"name"} if agent == "gemini" else set()  # else it shows its user the whole command
        assert handler.keys() == {"type", text, seconds} | named
        assert f"exec faber-ledger-hook --agent {agent} " in handler[text]
        assert (handler[seconds] >= 2_000) is (agent == "gemini")  # which counts milliseconds
        subprocess.run(["sh", "-c", handler[text]], env={"PATH": "/bin"}, check=True)  # without the program
    assert "note     hooks.installed: no hook is installed" in project.faber("doctor").stdout
    before = path.read_bytes()
    assert project.faber("init", "--agent", agent).returncode == 0
    assert path.read_bytes() == before
    assert "git's settings stay" not in project.faber("uninstall").stdout
    assert not (project.root / FILES[agent].partition("/")[0]).exists()


@pytest.mark.parametrize("agent", FILES)
def test_a_start_without_the_program_tells_the_user_what_to_do(project: Project, agent: str) -> None:
    assert project.faber("init", "--agent", agent).returncode == 0
    text = json.loads((project.root / FILES[agent]).read_text())["hooks"]
    (entry,) = text["sessionStart" if agent == "copilot" else "SessionStart"]
    command = entry["bash"] if agent == "copilot" else entry["hooks"][0]["command"]
    path = f"{project.root.parent}/bin"
    os.mkdir(path)
    for name in ("git", "sh"):
        os.symlink(shutil.which(name) or "", f"{path}/{name}")
    for is_active in (True, False):
        done = subprocess.run(
            ["sh", "-c", command], cwd=project.root, env={"PATH": path}, check=True, capture_output=True, text=True
        )
        assert done.stderr == ""
        if not is_active:
            assert done.stdout == ""
            break
        said = json.loads(done.stdout)["additionalContext" if agent == "copilot" else "systemMessage"]
        assert "faber-ledger is not on PATH" in said
        assert {"codex": "codex app-server daemon restart"}.get(agent, f"start {agent} again") in said
        project.active_path.unlink()


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
    home = tmp_path / "agent-home" if agent != "gemini" else Path(project.environment()["HOME"]) / ".gemini"
    variable = {f"{agent.upper()}_HOME": str(home)}
    done = project.faber("init", "--agent", agent, "--scope", "user", env=variable)
    assert f"created    {home}/" in done.stdout, done.stderr
    assert list(home.rglob("*.json"))
    assert not (project.root / FILES[agent]).exists()
    assert project.faber("uninstall", "--scope", "user", env=variable).returncode == 0
    assert not list(home.rglob("*.json"))


@pytest.mark.parametrize("is_own_first", [True, False])
def test_copilots_hooks_stay_beside_the_clients(project: Project, is_own_first: bool) -> None:
    """Each session of Copilot's is recorded once, whichever of the two files it comes from first."""
    commands = [("init", "--agent", "copilot"), ("init",)]
    for command in commands if is_own_first else commands[::-1]:
        done = project.faber(*command)
        assert done.returncode == 0, done.stderr
    assert "--agent copilot" in (project.root / FILES["copilot"]).read_text()
    assert "session-start" in (project.root / ".claude/settings.json").read_text()
    assert findings(project, "hooks.agents") == []


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


def test_doctor_names_codexs_hooks_that_nobody_reviewed(project: Project) -> None:
    home = Path(project.environment()["HOME"]) / ".codex"
    done = project.faber("init", "--agent", "codex")
    assert "codex app-server daemon restart" in done.stderr
    path = project.root / FILES["codex"]
    ((level, what),) = findings(project, "hooks.agents")
    assert level == "note"
    assert "for SessionStart, PreCompact, PostCompact, SessionEnd were not reviewed" in what
    home.mkdir(parents=True)
    events = ("session_start", "pre_compact", "post_compact", "session_end")
    states = [f'[hooks.state."{path}:{event}:0:0"]\ntrusted_hash = "sha256:00"\n' for event in events]
    (home / "config.toml").write_text("".join(states[:1]))
    ((_, what),) = findings(project, "hooks.agents")
    assert "for PreCompact, PostCompact, SessionEnd were not reviewed" in what
    (home / "config.toml").write_text("".join(states))
    assert findings(project, "hooks.agents") == []
    (home / "config.toml").write_text("[")
    assert findings(project, "hooks.agents") == []


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
