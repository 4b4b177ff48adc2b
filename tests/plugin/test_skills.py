"""A skill's command, run as the client runs it: by a shell, with what the user typed, all output for the model."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest
from support.command import COMMAND
from support.project import RUN, Project
from support.sizes import few
from support.skills import PLUGIN, inline_command, read_skill

EVERY = ("session-load", "what-happened", "session-save", "reconstitute", "status")
STARTUP = "SessionStart.startup.interactive"
CLIENT = "4f0c2b7e-0d5c-4d0e-9f57-6a1b7c1f0a11"
HOSTILE = """It's "quoted" `touch bad` $(touch bad) $HOME; touch bad && touch bad | cat > bad
END
\\ 'a' \\' !`touch bad` $ARGUMENTS <text> 'TEXT' \\n EOF é
-- --kind summary"""


def shell(project: Project, command: str, path: str | None = None) -> str:
    """Run a command as the client's Bash tool does; the client stops at any exit code but 0."""
    # What is first on PATH is the user's; the client puts the plugin's folder last.
    places = path or f"{COMMAND.parent}:{os.environ['PATH']}"
    environment = project.environment({"PATH": f"{places}:{PLUGIN / 'bin'}", "CLAUDE_CODE_SESSION_ID": CLIENT})
    done = subprocess.run(
        ["sh", "-c", command], cwd=project.root, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def skill(project: Project, name: str, arguments: str = "") -> str:
    return shell(project, inline_command(name, arguments))


def add_note(project: Project, text: str) -> str:
    """Run the command that the skill tells the agent to run, with a text in its place."""
    block = read_skill("note")[1].partition("```sh\n")[2].partition("```")[0]
    assert "\nTEXT\n" in block
    return shell(project, block.replace("\nTEXT\n", f"\n{text}\n"))


def newest_note(project: Project) -> str:
    (line,) = project.faber("log", "--type", "note_recorded", "-n", "1", "--json").stdout.splitlines()
    return str(json.loads(line)["event"]["text"])


def types(project: Project) -> list[str]:
    return [json.loads(line)["event"]["type"] for line in project.faber("log", "--json").stdout.splitlines()]


# What each gives


def test_session_load_gives_the_artifacts_in_the_open_session(project: Project) -> None:
    project.deliver(STARTUP, client=CLIENT)
    before = types(project)
    said = skill(project, "session-load", "--force --trigger manual")
    assert RUN in said
    assert "orchestration-protocol" in said
    after = types(project)[len(before) :]
    assert "session_started" not in after
    assert "context_reloaded" in after


def test_session_save_ends_the_session(project: Project) -> None:
    project.deliver(STARTUP, client=CLIENT)
    assert "Session ended" in skill(project, "session-save", "--reason manual")
    assert "session_ended" in types(project)


def test_reconstitute_gives_what_is_needed_to_continue(project: Project) -> None:
    project.deliver(STARTUP, client=CLIENT)
    assert RUN in skill(project, "reconstitute", "--skip issue")
    assert types(project)[-1] == "context_reconstituted"


@pytest.mark.parametrize(("name", "words"), [("status", "Phase: "), ("what-happened", "session started (startup)")])
def test_what_only_reads_changes_nothing(project: Project, name: str, words: str) -> None:
    project.deliver(STARTUP, client=CLIENT)
    before = {path: path.read_bytes() for path in project.run.iterdir() if path.is_file()}
    assert words in skill(project, name)
    assert {path: path.read_bytes() for path in project.run.iterdir() if path.is_file()} == before


# What the model is told of a failure


@pytest.mark.long
@pytest.mark.parametrize("name", few(EVERY, 2))
def test_a_wrong_option_reaches_the_model(project: Project, name: str) -> None:
    assert "error: no such option '--nonsense'" in skill(project, name, "--nonsense")


@pytest.mark.long
@pytest.mark.parametrize("name", few(EVERY, 2))
def test_a_program_that_is_nowhere_reaches_the_model(project: Project, name: str) -> None:
    said = shell(project, inline_command(name, ""), path="/usr/bin:/bin")
    assert said.startswith("error: faber-ledger is not installed")
    assert "uv tool install" in said


# A note's text


@pytest.mark.parametrize("text", [HOSTILE, *HOSTILE.splitlines()], ids=range(1 + len(HOSTILE.splitlines())))
def test_a_note_arrives_as_it_was_typed(project: Project, text: str) -> None:
    project.deliver(STARTUP, client=CLIENT)
    add_note(project, text)
    assert newest_note(project) == text.strip()
    assert not [*project.root.rglob("bad")]


def test_the_command_of_a_note_is_what_the_skill_may_run() -> None:
    fields, body = read_skill("note")
    allowed = fields["allowed-tools"].removeprefix("Bash(").removesuffix(":*)")
    command = body.partition("```sh\n")[2].splitlines()[0]
    assert shlex.split(command.partition("<<")[0])[:3] == shlex.split(allowed)
