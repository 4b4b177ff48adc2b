"""Output files (`-o`), and that damaged logs and imported files are checked before anything is written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.command import COMMAND, Command
from support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Give a project whose run has a session and a note."""
    made = Project.made(tmp_path / "p")
    made.deliver("SessionStart.startup.print")
    assert made.faber("note", "add", "it went well").returncode == 0
    return made


def test_a_dash_is_standard_output_for_text_and_refused_with_json(project: Project, tmp_path: Path) -> None:
    page, lines = tmp_path / "run.html", tmp_path / "run.jsonl"
    project.faber("timeline", "-o", str(page))
    project.faber("export", "-o", str(lines))
    assert project.faber("timeline", "-o", "-").stdout == page.read_text()
    assert project.faber("export", "-o", "-").stdout == lines.read_text()
    done = project.faber("timeline", "-o", "-", "--json")
    assert (done.returncode, "standard output" in done.stderr, done.stdout) == (2, True, "")
    assert not (project.root / "-").exists()


@pytest.mark.parametrize("arguments", [["log"], ["export"], ["run", "list"], ["log", "--json"]])
def test_a_reader_that_stops_early_is_not_an_error(project: Project, arguments: list[str]) -> None:
    process = Command(
        [COMMAND, *arguments],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=(pipe := os.pipe())[1],
        stderr=subprocess.PIPE,
    )
    for end in pipe:
        os.close(end)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize(
    ("words", "code"),
    [("mcp >&-", 0), ("mcp <&-", 0), ("status nothing >&-", 10), ("session-load >&-", 0), ("verify 2>&-", 0)],
)
def test_a_stream_that_the_shell_has_closed_is_not_an_error(project: Project, words: str, code: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" {words}', COMMAND],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)


def test_an_import_without_a_writable_state_exits_accordingly(project: Project, tmp_path: Path) -> None:
    lines = tmp_path / "run.jsonl"
    assert project.faber("export", "-o", str(lines)).returncode == 0
    other = Project.made(tmp_path / "other", "{")
    done = other.faber("import", str(lines))
    assert (done.returncode, "state.json" in done.stderr) == (1, True)
    assert len(other.recorded) == len(project.events)
