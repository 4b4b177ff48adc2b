"""A forked command is a process like a started one."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from support import fork_server
from support.command import COMMAND, Command, run_command
from support.project import ARGUMENTS, Project, answer_of


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.noted(tmp_path_factory.mktemp("home") / "project")


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["log"], ["log", "--json"], ["doctor"], ["verify"], ["no-such-command"], ["show"], ["run", "list"]],
    ids=" ".join,
)
def test_a_forked_command_prints_and_exits_as_a_started_one(project: Project, arguments: list[str]) -> None:
    command: list[str | Path] = [COMMAND, *arguments]
    started = subprocess.run(command, cwd=project.root, env=project.environment(), capture_output=True, check=False)
    forked = run_command(command, cwd=project.root, env=project.environment(), capture_output=True)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def programs_of(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return a process's parent and the program it runs."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    words: list[str] = []
    while len(words) < 2 and process.poll() is None:  # Linux shows no words while a program takes another's place
        words = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    return int(status.split("PPid:")[1].split()[0]), words[1]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="commands are forked on Linux alone")
@pytest.mark.parametrize("arguments", [["note", "add", "--from-stdin"], ["hook", "session-end"]], ids=" ".join)
def test_a_forked_command_is_a_child_of_ours_that_dies_of_its_signals(project: Project, arguments: list[str]) -> None:
    with Command([COMMAND, *arguments], cwd=project.root, env=project.environment(), stdin=subprocess.PIPE) as process:
        parent, program = programs_of(process)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert (parent, program) == (os.getpid(), fork_server.__file__)


@pytest.mark.parametrize("recorded", ["SessionStart.startup.print", "PreCompact.auto.print", "SessionEnd.other.print"])
def test_a_forked_hook_answers_and_records_as_a_started_one(tmp_path: Path, recorded: str) -> None:
    seen = []
    for start in (subprocess.Popen, Command):
        project = Project.made(tmp_path / "project")
        project.deliver("SessionStart.resume.print", client="earlier")
        content, environment, event = project.prepared(recorded)
        words, pipe = [str(COMMAND), "hook", ARGUMENTS[event]], subprocess.PIPE
        process = start(words, cwd=project.root, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        answer = answer_of(process, content)
        seen.append((answer.code, answer.output, answer.errors, project.types))
        project.root.rename(tmp_path / f"after-{start.__name__}")
    assert seen[0] == seen[1]


def test_a_forked_command_reads_what_is_written_to_it(project: Project) -> None:
    command: list[str | Path] = [COMMAND, "note", "add", "--from-stdin"]
    done = run_command(command, cwd=project.root, env=project.environment(), input=b"from a pipe", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"from a pipe" in run_command([COMMAND, "log"], cwd=project.root, capture_output=True).stdout


def show_on_terminal(start: type[subprocess.Popen[bytes]], project: Project) -> bytes:
    ours, theirs = pty.openpty()
    words = {"PAGER": "sed -e 's/^/paged /'"}
    with start([COMMAND, "log"], cwd=project.root, env=project.environment(words), stdout=theirs) as process:
        os.close(theirs)
        assert process.wait(timeout=60) == 0
    shown = os.read(ours, 65536)
    os.close(ours)
    return shown


def test_a_forked_command_sees_the_terminal_that_it_was_given(project: Project) -> None:
    forked = show_on_terminal(Command, project)
    assert forked == show_on_terminal(subprocess.Popen, project)
    assert forked.startswith(b"paged ")
