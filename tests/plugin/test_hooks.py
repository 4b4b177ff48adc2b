"""The plugin's hooks, run as its hooks file says, with the client's recorded deliveries and a plugin's environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND
from support.plugins import NAME, change_settings, home_of, install_plugin, plugin_environment
from support.project import Answer, Project
from support.sizes import pair
from support.skills import PLUGIN

HOOKS = json.loads((PLUGIN / "hooks/hooks.json").read_text())["hooks"]
SETTINGS = ".claude/settings.json"
PLACES = f"{COMMAND.parent}:{os.environ['PATH']}"  # where a hook finds the program; not the plugin's `bin`
CLIENT = "4f0c2b7e-0d5c-4d0e-9f57-6a1b7c1f0a11"


def run_handler(project: Project, recorded: str, handler: dict[str, Any], env: dict[str, str]) -> Answer:
    """Run a handler of either form as the client does: without a shell if it has arguments."""
    content, environment, _ = project.prepared(recorded, client=CLIENT, env=env | {"PATH": PLACES})
    words = ["sh", "-c", handler["command"]]
    if "args" in handler:
        words = [handler["command"], *handler["args"]]
    done = subprocess.run(
        words,
        cwd=project.root,
        env=environment,
        input=content,
        capture_output=True,
        check=False,
        timeout=handler["timeout"],
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def start_client(project: Project) -> list[Answer]:
    """Run what a client that is started in the project runs: the hooks of its settings, and of an enabled plugin."""
    files = [home_of(project) / SETTINGS, project.root / SETTINGS, project.root / ".claude/settings.local.json"]
    settings = [json.loads(path.read_text()) for path in files if path.exists()]
    found: list[tuple[Any, dict[str, str]]] = [
        (group, {}) for one in settings for group in one.get("hooks", {}).get("SessionStart", [])
    ]
    enabled: dict[str, bool] = {}
    for one in settings:  # the user's come first, and the local ones decide
        enabled |= one.get("enabledPlugins", {})
    if enabled.get(NAME):
        found += [(group, plugin_environment(project)) for group in HOOKS["SessionStart"]]
    handlers = [(handler, env) for group, env in found for handler in group["hooks"]]
    return [run_handler(project, "SessionStart.startup.print", handler, env) for handler, env in handlers]


def call(project: Project, recorded: str) -> Answer:
    """Run the plugin's handler of a recorded delivery's event, found on PATH."""
    (group,) = HOOKS[recorded.partition(".")[0]]
    (handler,) = group["hooks"]
    return run_handler(project, recorded, handler, plugin_environment(project))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


def test_a_session_is_recorded_and_its_context_given(project: Project) -> None:
    packet = call(project, "SessionStart.startup.print").packet
    assert packet is not None
    assert project.run_id in packet
    assert call(project, "PreCompact.auto.print").hint is not None
    assert call(project, "SessionStart.compact.print").packet is not None
    for recorded in ("PostCompact.auto.print", "SessionEnd.other.print"):
        answer = call(project, recorded)
        assert (answer.code, answer.output, answer.errors) == (0, b"", "")
    lines = project.faber("log", "--json").stdout.splitlines()
    types = [json.loads(line)["event"]["type"] for line in lines]
    assert [type_ for type_ in types if type_.startswith(("session_", "compaction_"))] == [
        "session_started",
        "session_ended",
        "session_started",
        "compaction_completed",
        "session_ended",
    ]


def test_removed_it_leaves_nothing(project: Project) -> None:
    kept = {path for path in project.root.rglob("*") if ".git" not in path.parts}
    settings = install_plugin(project, "project")
    assert project.faber("init", "--plugin", "--commands").returncode == 0
    call(project, "SessionStart.startup.print")
    call(project, "SessionEnd.other.print")
    settings.unlink()  # as the client does
    assert project.faber("uninstall").returncode == 0
    left = {path for path in project.root.rglob("*") if ".git" not in path.parts} - kept
    assert {path.name for path in left} == {"ledger.db"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("scope", "parts"), pair(["user", "project", "local"], ["plugin", "settings", "plugin and settings"])
)
def test_once_all_is_removed_the_next_start_of_the_client_prints_nothing(
    project: Project, scope: str, parts: str
) -> None:
    if "settings" in parts:
        assert project.faber("init", "--scope", scope).returncode == 0
    if "plugin" in parts:
        install_plugin(project, scope)
        assert project.faber("init", "--plugin", "--commands").returncode == 0
    answers = start_client(project)
    assert len(answers) == 1 + (parts == "plugin and settings")
    assert len([answer for answer in answers if answer.packet is not None]) == 1
    assert len([answer for answer in answers if answer.output]) == 1
    assert project.faber("uninstall", "--scope", scope).returncode == 0
    if "plugin" in parts:
        assert len(start_client(project)) == 1  # the plugin is not ours to remove
        settings = change_settings(project, scope, enabledPlugins={})  # as the client does
        shutil.rmtree(home_of(project) / ".claude/plugins")
        if scope == "project":
            settings.unlink()
        assert project.faber("uninstall").returncode == 0
    before = {path for path in project.root.rglob("*") if ".git" not in path.parts}
    assert start_client(project) == []
    assert {path for path in project.root.rglob("*") if ".git" not in path.parts} == before
    assert not [path for path in before if path.name == "fractary-faber" or path.suffix == ".lock"]
    assert "faber-ledger" not in (project.root / ".git/config").read_text()


@pytest.mark.parametrize(
    "recorded", ["SessionStart.startup.print", "SessionStart.resume.print", "SessionEnd.other.print"]
)
def test_a_client_that_still_has_the_removed_plugin_prints_nothing_where_no_run_is_left(
    project: Project, recorded: str
) -> None:
    install_plugin(project, "project").unlink()
    shutil.rmtree(project.root / ".fractary")
    answer = call(project, recorded)
    assert (answer.code, answer.output) == (0, b"")
    assert not (project.root / ".fractary").exists()
