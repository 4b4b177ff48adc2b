"""The client runs a plugin's hook beside the settings' one, with the same bytes: recorded once and printed once."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.plugins import plugin_environment
from support.project import Answer, Project, answer_of

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
PRE, POST = "PreCompact.auto.print", "PostCompact.auto.print"
ME, PID = "6b7b3c2e-0231-4ac6-8eb6-c6c99574fbae", "26210"
BEFORE_SIGTERM = BEFORE_SIGKILL = 1.5  # seconds: what the client gives a SessionEnd of a plugin alone
BUSY = 12  # processes that compute, on the few cores of the machine


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keep every core busy with several processes."""
    with ExitStack() as stack:
        for _ in range(BUSY):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def deliver_to_both(project: Project, recorded: str, **changes: Any) -> list[Answer]:
    """Deliver to a hook of the plugin and to one of the settings at once."""
    content = project.prepared(recorded, **changes)[0]
    both = [project.started(recorded, **changes, env=more) for more in (plugin_environment(project), {})]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda process: answer_of(process, content), both))


def hears_sigterm(pid: int) -> bool:
    """Return whether a process handles SIGTERM, which only Linux tells; elsewhere True."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def end_as_client(process: subprocess.Popen[bytes], content: bytes) -> Answer:
    """Deliver a SessionEnd, and end the hook as the client does when its time is over.

    The time runs from when the hook hears SIGTERM: before, its Python is still starting, and nothing can be kept.
    """
    while process.poll() is None and not hears_sigterm(process.pid):
        time.sleep(0.005)
    pending: bytes | None = content
    for patience, last in ((BEFORE_SIGTERM, signal.SIGTERM), (BEFORE_SIGKILL, signal.SIGKILL), (60, None)):
        try:
            output, errors = process.communicate(pending, timeout=patience)
            break
        except subprocess.TimeoutExpired:
            assert last is not None
            process.send_signal(last)
            pending = None
    return Answer(process.returncode, output, errors)


def waiting(project: Project) -> list[Path]:
    return sorted((project.root / ".git" / "faber-ledger").rglob("inbox/**/*.json"))


def repeats(project: Project) -> int:
    return [event["reason"] for event in project.of_type("delivery_ignored")].count("repeated")


def make_all_deliveries_to_both(project: Project, client: str) -> None:
    """Deliver all four; an end has one second, so on a busy machine it may wait in the inbox afterwards."""
    for recorded in (START, PRE, POST, END):
        answers = deliver_to_both(project, recorded, client=client, pid=PID)
        assert [answer.code for answer in answers] == [0, 0], recorded
        assert sum(bool(answer.output) for answer in answers) == (recorded in (START, PRE)), recorded


def test_all_four_hooks_of_plugin_and_settings_record_and_print_once(project: Project) -> None:
    for count in range(2):
        make_all_deliveries_to_both(project, f"{count:08d}-0231-4ac6-8eb6-c6c99574fbae")
    assert project.faber("project").returncode == 0
    assert len(project.history) == 2
    assert repeats(project) == 2 * 4
    assert len(project.of_type("compaction_completed")) == 2
    assert project.current is None
    assert waiting(project) == []
    project.assert_projected()


def test_a_delivery_is_the_same_event_from_either_hook(project: Project) -> None:
    """The plugin's variables are no part of what is recorded."""
    project.deliver(START, client=ME, pid=PID, env=plugin_environment(project))
    project.deliver(END, client=ME, pid=PID)
    assert len(project.history) == 1
    assert "CLAUDE_PLUGIN" not in project.faber("export", project.run_id).stdout
    assert project.current is None


def test_a_clone_that_was_never_set_up_is_told_once_at_its_first_start(project: Project) -> None:
    project.faber("init", "--plugin")
    project.git("config", "--local", "--remove-section", "merge.faber-ledger")
    answers = [*deliver_to_both(project, START, client=ME, pid=PID), *deliver_to_both(project, START, pid=PID)]
    assert ["never set up" in (answer.message or "") for answer in answers].count(True) == 1


def test_why_nothing_is_recorded_is_said_also_without_git(project: Project) -> None:
    project.active_path.write_text("fractary-faber-259-20260101-000000-aaaaaa\n")
    shutil.rmtree(project.root / ".git")
    for client in ("one", "two"):
        answers = deliver_to_both(project, START, client=client, pid=PID)
        for answer in answers:
            assert "fractary-faber-259-20260101-000000-aaaaaa" in (answer.message or "")
    assert not list(project.root.rglob("clients"))


def test_the_end_of_a_plugins_session_is_not_lost_on_a_busy_machine(project: Project) -> None:
    """SIGTERM after 1.5 seconds and SIGKILL 1.5 seconds later, whatever the `timeout` in the plugin's file."""
    plugins = plugin_environment(project)
    project.deliver(START, client=ME, pid=PID, env=plugins)
    content = project.prepared(END, client=ME, pid=PID)[0]
    with busy_machine(), open(project.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = end_as_client(project.started(END, client=ME, pid=PID, env=plugins), content)
    assert answer.code in (0, -signal.SIGTERM), answer.errors
    assert len(waiting(project)) == 1
    assert project.faber("project").returncode == 0
    assert waiting(project) == []
    assert [event["reason"] for event in project.of_type("session_ended")] == ["normal"]
    project.assert_projected()


@pytest.mark.parametrize("recorded", [START, END])
def test_two_deliveries_that_wait_are_recorded_once_and_both_answered(project: Project, recorded: str) -> None:
    project.deliver(START, client="before" if recorded == START else ME, pid=PID)
    with open(project.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answers = deliver_to_both(project, recorded, client=ME, pid=PID)
    assert sum(bool(answer.output) for answer in answers) == 2 * (recorded in (START, PRE))
    assert len(waiting(project)) == 2
    assert project.faber("project").returncode == 0
    assert waiting(project) == []
    assert repeats(project) == 1
    assert len(project.history) == 1 + (recorded == START)
    project.assert_projected()
