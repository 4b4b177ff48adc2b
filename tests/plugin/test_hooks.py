"""The plugin's hooks, run as its hooks file says, with the client's recorded deliveries and a plugin's environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest
from support.command import COMMAND
from support.plugins import install_plugin, plugin_environment
from support.project import Answer, Project
from support.skills import PLUGIN

HOOKS = json.loads((PLUGIN / "hooks/hooks.json").read_text())["hooks"]
PLACES = f"{COMMAND.parent}:{os.environ['PATH']}"  # where a hook finds the program; not the plugin's `bin`
CLIENT = "4f0c2b7e-0d5c-4d0e-9f57-6a1b7c1f0a11"


def run_handler(project: Project, recorded: str, handler: dict[str, Any], env: dict[str, str]) -> Answer:
    """Run a handler of either form as the client does: without a shell if it has arguments."""
    content, environment, _ = project.prepared(recorded, client=CLIENT, env={"PATH": PLACES} | env)
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


def call(project: Project, recorded: str) -> Answer:
    """Run the plugin's handler of a recorded delivery's event, found on PATH."""
    (group,) = HOOKS[recorded.partition(".")[0]]
    (handler,) = group["hooks"]
    return run_handler(project, recorded, handler, plugin_environment(project))


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


def test_removed_it_leaves_the_ledger_and_an_ignored_backup(project: Project) -> None:
    kept = {path for path in project.root.rglob("*") if ".git" not in path.parts}
    settings = install_plugin(project, "project")
    assert project.faber("init", "--commands").returncode == 0
    call(project, "SessionStart.startup.print")
    call(project, "SessionEnd.other.print")
    settings.unlink()  # as the client does
    assert project.faber("uninstall").returncode == 0
    left = {path for path in project.root.rglob("*") if ".git" not in path.parts} - kept
    assert {path.name for path in left} == {"ledger.db", "state.json.backup", ".gitignore"}  # which hides the backup


@pytest.mark.parametrize(
    "recorded", ["SessionStart.startup.print", "SessionStart.resume.print", "SessionEnd.other.print"]
)
def test_a_removed_plugin_prints_nothing_where_no_run_is_left(project: Project, recorded: str) -> None:
    install_plugin(project, "project").unlink()
    shutil.rmtree(project.root / ".fractary")
    answer = call(project, recorded)
    assert (answer.code, answer.output) == (0, b"")
    assert not (project.root / ".fractary").exists()


def test_without_the_program_a_start_says_what_to_do(project: Project) -> None:
    (group,) = HOOKS["SessionStart"]
    (handler,) = group["hooks"]
    env = plugin_environment(project) | {"PATH": "/usr/bin:/bin"}
    recorded = "SessionStart.startup.print"
    said = json.loads(run_handler(project, recorded, handler, env).output)["systemMessage"]
    assert "faber-ledger is not on PATH" in said
    assert "uv tool install CLONE" in said
    shutil.rmtree(project.root / ".fractary")
    assert run_handler(project, recorded, handler, env).output == b""
