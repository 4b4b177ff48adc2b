"""Shell completion: the installed command asked as the shells ask it, and the shells themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.command import COMMAND, run_command
from support.project import RUN, Project

from faber_ledger.cli.app import COMMANDS

if TYPE_CHECKING:
    pass


START = "SessionStart.startup.print"
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an active run that has a session."""
    project = Project.made(tmp_path / "project")
    project.deliver(START)
    return project


def asked(project: Project, shell: str, *words: str, directory: Path | None = None) -> list[list[str]]:
    """Ask as a shell's script does, the last word being incomplete; give each answer's parts: type, value, help."""
    env = {"_FABER_LEDGER_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(["faber-ledger", *words])}
    env["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    done = run_command(
        [COMMAND],
        cwd=directory or project.root,
        env=project.environment(env),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []
    if shell == "zsh":
        return [lines[at : at + 3] for at in range(0, len(lines), 3)]
    return [line.replace("\t", ",", 1).split(",", 2) for line in lines]


def offered(project: Project, *words: str, directory: Path | None = None) -> list[str]:
    return [answer[1] for answer in asked(project, "bash", *words, directory=directory)]


# What is offered


def test_commands_are_offered_with_their_help(project: Project) -> None:
    for shell in SHELLS:
        answers = asked(project, shell, "repl")
        assert [answer[:2] for answer in answers] == [["plain", "replay"]]
        assert shell == "bash" or answers[0][2] == COMMANDS["replay"][1]


def test_runs_are_offered(project: Project) -> None:
    for words in [
        ("status", ""),
        ("replay", RUN[:5]),
        ("run", "resume", RUN),
        ("session-load", "--run-id", ""),
        ("show", "--run", ""),
        ("workflow-run", "--resume", "f"),
        ("timeline", ""),
    ]:
        assert offered(project, *words) == [RUN]


# The shells themselves


def script(project: Project, shell: str) -> str:
    done = project.faber(env={"_FABER_LEDGER_COMPLETE": f"{shell}_source"})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_scripts_are_printed(project: Project) -> None:
    for shell in SHELLS:
        assert "_FABER_LEDGER_COMPLETE" in script(project, shell)


def test_bash_completes_a_run(project: Project) -> None:
    (project.root.parent / "script.bash").write_text(script(project, "bash"))
    asks = f"""
        export PATH={COMMAND.parent}:$PATH
        source {project.root.parent / "script.bash"}
        complete -p faber-ledger
        COMP_WORDS=(faber-ledger status {RUN[:6]}); COMP_CWORD=2
        _faber_ledger_completion faber-ledger
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    bash = ["bash", "--norc", "-c", asks]
    done = subprocess.run(bash, cwd=project.root, env=project.environment(), capture_output=True, text=True, check=True)
    declared, *found = done.stdout.splitlines()
    assert declared.endswith("_faber_ledger_completion faber-ledger")
    assert (found, done.stderr) == ([RUN], "")


def test_runs_are_offered_from_a_subdirectory_and_nothing_outside_a_project(project: Project, tmp_path: Path) -> None:
    below = project.root / "deep" / "down"
    below.mkdir(parents=True)
    assert offered(project, "status", "", directory=below) == [RUN]
    assert offered(project, "status", "", directory=tmp_path) == []
    assert offered(project, "show", "", directory=tmp_path) == []


def test_files_are_left_to_the_shell(project: Project) -> None:
    for words in [("export", "-o", ""), ("import", "a"), ("timeline", "-o", "x")]:
        assert asked(project, "bash", *words) == [["file", words[-1]]]
