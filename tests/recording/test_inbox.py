"""Each delivery is a file first: its hook removes it, or the next recording takes it, once and in order."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND
from support.inbox import leave, waiting
from support.project import Project, heed_interrupts, without_overrides

from faber_ledger.recording.inbox import inbox_in_tree
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import Run, inbox_path
from faber_ledger.runs.set_aside import list_set_aside

START, PRE, POST, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)


def run_of(project: Project) -> Run:
    return find_run(str(project.root), project.run_id)


def refused(project: Project, *recorded: str, **changes: Any) -> list[Path]:
    """Deliver to a run that cannot be locked; return the waiting files."""
    project.deliver("SessionEnd.other.print", client="unknown")  # it makes the folder of the lock
    project.refuse()
    for name in recorded:
        answer = project.deliver(name, **changes)
        assert answer.code == 0
        assert bool(answer.packet) == name.startswith("SessionStart")
    project.relent()
    return waiting(project)


def files(project: Project) -> list[Path]:
    """Return the files in the inbox, whoever holds them."""
    folder = Path(inbox_path(run_of(project)))
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_comes_while_the_lock_is_held_is_recorded_next(project: Project) -> None:
    project.deliver(START, client="before")
    with project.lock_path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert project.deliver(START, client="one").packet
        assert len(waiting(project)) == 1
        assert "another process has held" in project.log_lines[-1]
        assert str(waiting(project)[0]) in project.log_lines[-1]
    project.deliver(END, client="one")
    assert files(project) == []
    assert project.types[-2:] == ["session_started", "session_ended"]
    project.assert_projected()


def test_a_refused_day_is_the_same_day_once_it_is_recorded(project: Project, tmp_path: Path) -> None:
    other = Project.made(tmp_path / "other")
    other.deliver(END, client="unknown")
    day = [START, PRE, "SessionStart.compact.print", POST, END]
    for name in day:
        other.deliver(name, client="one", pid="11")
    assert len(refused(project, *day, client="one", pid="11")) == 5
    for one in (project, other):
        assert one.faber("note", "add", "one").returncode == 0
    assert files(project) == []
    assert [one["event"]["type"] for one in project.events] == [one["event"]["type"] for one in other.events]
    loaded = [entry["artifacts_loaded"] for entry in other.history]
    assert [entry["artifacts_loaded"] for entry in project.history] == loaded != [[], []]


def test_a_delivery_keeps_what_was_known_when_it_came(project: Project) -> None:
    (path,) = refused(project, START)
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "at": 1_700_000_000.5}))
    project.change_state(current_phase="release")
    project.deliver(END)
    started = project.of_type("session_started")[0]
    assert project.history[0]["started_at"] == "2023-11-14T22:13:20Z"
    assert started["phase"] == values["progress"]["phase"] != "release"
    assert project.events[1]["id"][:18] == values["id"][:18]
    project.assert_projected()


def test_a_hook_that_lives_keeps_its_delivery_to_itself(project: Project) -> None:
    project.deliver(START, client="one")
    path = leave(run_of(project))
    with path.open() as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        assert project.faber("note", "add", "one").returncode == 0
        assert project.deliver(START, client="two").packet
        assert files(project) == [path]
    assert project.faber("note", "add", "two").returncode == 0
    assert files(project) == []


@pytest.mark.parametrize("is_appended", [False, True], ids=["before its append", "after it"])
def test_a_hook_continues_the_session_of_one_that_was_killed(project: Project, is_appended: bool) -> None:
    project.deliver(START, client="before")
    (path,) = refused(project, START, client="one", pid="1")
    content = json.dumps({**json.loads(path.read_text()), "loads": None})
    path.write_text(content)
    if is_appended:
        assert project.faber("project").returncode == 0
        path.write_text(content)
    assert project.deliver(START, client="one", pid="1").packet
    _, started = project.of_type("session_started")
    assert project.of_type("artifact_loaded")[-1]["session_id"] == project.current == started["session_id"]
    assert project.of_type("delivery_ignored")[-1]["reason"] == "repeated"
    assert files(project) == []
    project.assert_projected()


def test_a_delivery_whose_answer_was_lost_loads_nothing(project: Project, tmp_path: Path) -> None:
    """Its facts are in the log, and its file was not removed: the hook was killed before it had answered."""
    project.deliver(START, client="before")
    (path,) = refused(project, START, client="one")
    values = {**json.loads(path.read_text()), "loads": None}
    (tmp_path / "kept").write_text(json.dumps(values))
    assert project.faber("project").returncode == 0
    session = values["session_id"]
    assert project.faber("session-load").returncode == 0  # as its hook had loaded
    assert project.in_context
    before = project.types
    shutil.copy(tmp_path / "kept", path)
    for _ in range(2):
        assert project.faber("note", "add", "one").returncode == 0
        shutil.copy(tmp_path / "kept", path)
    assert [kind for kind in project.types if kind != "note_recorded"] == [*before, "answer_lost"]
    assert project.of_type("answer_lost")[0]["session_id"] == session
    assert (project.in_context, project.history[-1]["artifacts_loaded"]) == ([], [])
    again = project.faber("session-load").stdout
    assert project.in_context, again  # nothing of it is skipped
    project.assert_projected()


def test_a_start_whose_twin_was_killed_gives_the_packet(project: Project) -> None:
    """Of hooks that are installed twice, one prints; not the one that has died (DECISIONS 13)."""
    content, environment, _ = project.prepared(START, client="one")
    leave(run_of(project), "SessionStart", content, pid=environment["CLAUDE_PID"])
    assert project.deliver(START, client="one").packet
    assert project.deliver(START, client="one").packet is None


# What is in the inbox


def test_where_the_git_directory_is_unwritable_a_delivery_waits_without_secrets(project: Project) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    project.deliver(START, client="one")
    with unwritable(project):
        me: dict[str, Any] = {"client": "one", "preexec_fn": without_overrides}
        answer = project.deliver(END, **me, fields={"reason": f"token {secret}"})
        assert answer.code == 0
        assert ".fractary/inbox/" in answer.errors
        assert project.deliver("SessionStart.resume.print", **me).packet
    found = sorted(Path(inbox_in_tree(run_of(project))).iterdir())
    assert len(found) == 2
    assert not [path for path in found if secret in path.read_text()]
    assert ".fractary/inbox" not in project.git("status", "--porcelain", "--untracked-files=all")
    project.git("add", "--force", str(found[1]))  # what git tracks may be anybody's
    assert project.faber("note", "add", "next").returncode == 0
    assert [path.exists() for path in found] == [False, True]
    assert len(project.of_type("session_ended")) == len(project.of_type("session_started")) == 1
    project.assert_projected()


@contextmanager
def unwritable(project: Project) -> Iterator[None]:
    """Take the permission to write from the clone's folder."""
    kept = project.root / ".git" / "faber-ledger"
    folders = [kept, *[path for path in kept.rglob("*") if path.is_dir()]]
    modes = [path.stat().st_mode for path in folders]
    for path in folders:
        path.chmod(0o500)
    yield
    for path, mode in zip(folders, modes, strict=True):
        path.chmod(mode)


@pytest.fixture
def sandbox(project: Project) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Start a session, and run commands as an agent's sandbox does, in which the git directory cannot be written."""
    project.deliver(START, client="one")
    kept = project.root / ".git" / "faber-ledger"
    paths = [kept, *kept.rglob("*")]
    modes = [path.stat().st_mode for path in paths]

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode & 0o555)
        try:
            env = {"CLAUDE_CODE_SESSION_ID": "one"}
            return project.faber(*words, env=env, preexec_fn=without_overrides)
        finally:
            for path, mode in zip(paths, modes, strict=True):
                path.chmod(mode)

    return call


def test_a_command_in_a_sandbox_leaves_its_facts_in_the_project(
    project: Project, sandbox: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = project.state_path.read_bytes()
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    noted = sandbox("note", "add", f"the token is {secret}")
    assert noted.returncode == 0, noted.stderr
    assert "Recorded a note" in noted.stdout
    loaded = sandbox("session-load", "--content")
    assert loaded.returncode == 0, loaded.stderr
    assert "workflow-orchestration-protocol" in loaded.stdout
    for done in (noted, loaded):
        assert "the git directory cannot be written: this waits in .fractary/inbox/" in done.stderr
    assert project.state_path.read_bytes() == before
    waiting = list(Path(inbox_in_tree(run_of(project))).iterdir())
    assert len(waiting) == 2
    assert not [path for path in waiting if secret in path.read_text()]
    loads = len(project.of_type("artifact_loaded"))

    project.deliver("PreCompact.auto.print", client="one")
    assert not list(Path(inbox_in_tree(run_of(project))).iterdir())
    (note,) = project.of_type("note_recorded")
    (started,) = project.of_type("session_started")
    assert note["session_id"] == started["session_id"]
    assert len(project.of_type("artifact_loaded")) > loads
    assert len(project.of_type("session_ended")) == 1
    project.assert_projected()


def test_a_file_that_is_not_a_delivery_is_set_aside(project: Project) -> None:
    first, _ = refused(project, START, END)
    values = json.loads(first.read_text())
    bad: dict[str, bytes] = {
        "00000000000000000-empty.json": b"",
        "00000000000000002-list.json": b"[]",
        "00000000000000004-time.json": json.dumps({**values, "at": 1e300}).encode(),
        "00000000000000005-run.json": json.dumps({**values, "run_id": "other"}).encode(),
        "00000000000000006-more.json": json.dumps({**values, "more": 1}).encode(),
        "00000000000000008-loads.json": json.dumps({**values, "loads": [{"event": {}}]}).encode(),
        "00000000000000010-seen.json": json.dumps({**values, "seen": {}}).encode(),
    }
    for name, content in bad.items():
        (first.parent / name).write_bytes(content)
    done = project.faber("note", "add", "one")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("could not be recorded, and was moved to") == len(bad)
    assert files(project) == []
    assert sorted([Path(path).read_bytes() for path in list_set_aside(str(project.root))]) == sorted(bad.values())
    assert project.types[-3:] == ["session_started", "session_ended", "note_recorded"]
    project.assert_projected()


def test_links_and_pipes_in_the_inbox_are_never_read(project: Project, tmp_path: Path) -> None:
    project.deliver(START)
    folder = Path(inbox_path(run_of(project)))
    (tmp_path / "theirs").write_text("theirs")
    (folder / "00000000000000000-link.json").symlink_to(tmp_path / "theirs")
    os.mkfifo(folder / "00000000000000002-pipe.json")
    assert project.deliver(END).errors == ""
    assert (tmp_path / "theirs").read_text() == "theirs"
    project.assert_projected()


# Who records what waits


def test_status_reports_waiting_deliveries(project: Project) -> None:
    refused(project, START, END)
    project.faber("run", "resume", project.run_id)
    leave(run_of(project))
    assert "3 deliveries wait" in project.faber("status").stdout
    assert json.loads(project.faber("status", "--json").stdout)["data"]["waiting"] == 3


def test_a_forgotten_run_loses_its_inbox(project: Project) -> None:
    project.deliver(START)
    path = leave(run_of(project))
    shutil.rmtree(project.run)
    held = project.faber("run", "forget", project.run_id)
    assert held.returncode == 1
    assert "and 1 delivery never recorded" in held.stderr
    done = project.faber("run", "forget", project.run_id, "--yes")
    assert done.returncode == 0, done.stderr
    assert "and 1 delivery never recorded\n" in done.stdout
    assert not path.parent.exists()


# Bugs and signals

DEFECT = """
import importlib, sys
from faber_ledger.cli.entry import main

def fail(*arguments, **named):
    raise RuntimeError("a defect")

module, name = sys.argv.pop(1).split(":")
setattr(importlib.import_module("faber_ledger." + module), name, fail)
main()
"""


def with_defect(
    project: Project, recorded: str, defect: str = "recording.sessions:open_session", **changes: Any
) -> str:
    """Deliver to a program with a bug, by default in what a session's start needs; return its messages."""
    answer = project.deliver(recorded, program=[sys.executable, "-c", DEFECT, defect, "hook"], **changes)
    assert answer.code == 0
    assert answer.output or not recorded.startswith(("SessionStart", "PreCompact"))
    return answer.errors


def test_a_bug_in_loading_artifacts_leaves_the_position(project: Project) -> None:
    output = with_defect(project, START, "context.reload:gather_for_hook", client="one")
    assert "a bug in faber-ledger kept it from loading artifacts, please report it: RuntimeError('a defect')" in output
    assert "it waits in" not in output
    assert project.types.count("session_started") == 1
    project.assert_projected()


def test_a_bug_of_ours_loses_no_delivery(project: Project) -> None:
    output = with_defect(project, START, client="one")
    assert "a bug in faber-ledger, please report it: RuntimeError('a defect'); it waits in" in output
    assert len(waiting(project)) == 1
    assert project.deliver(END, client="one").errors == ""
    assert project.types[-2:] == ["session_started", "session_ended"]
    project.assert_projected()


def test_a_delivery_that_triggers_a_bug_each_time_holds_up_no_other(project: Project) -> None:
    project.deliver("SessionStart.resume.print", client="none")
    leave(run_of(project), "SessionStart", b'{"session_id": "two", "source": "startup"}')
    leave(run_of(project), "SessionEnd", b'{"session_id": "none", "reason": "other"}')
    output = with_defect(project, PRE, client="none")
    assert "a delivery could not be recorded, and was moved to" in output
    assert "RuntimeError('a defect')" in output
    assert files(project) == []
    (path,) = map(Path, list_set_aside(str(project.root)))
    assert json.loads(path.read_text())["client"] == "two"
    project.assert_projected()


SENT = """
import os, signal, time
from faber_ledger.cli import entry
slept = time.sleep
def sleep(seconds):
    os.kill(os.getpid(), getattr(signal, os.environ["ENDS"]))  # while it waits for the lock
    slept(seconds)
time.sleep = sleep
entry.main()
"""


def test_a_hook_ends_soon_after_its_deadline_whatever_it_waits_for(project: Project, tmp_path: Path) -> None:
    """A file system that hangs: here, the work tree is asked in a call that never returns."""
    project.deliver(START)
    (tmp_path / "site").mkdir()
    hang = "import time, os\nos.posix_spawnp = lambda *given, **named: time.sleep(60)\n"
    (tmp_path / "site" / "sitecustomize.py").write_text(hang)
    began = time.monotonic()
    answer = project.deliver(END, env={"PYTHONPATH": str(tmp_path / "site")})
    assert (answer.code, time.monotonic() - began < 30) == (0, True)
    assert len(waiting(project)) == 1
    assert project.faber("project").returncode == 0
    assert len(project.of_type("session_ended")) == 1


def test_a_command_that_is_interrupted_at_the_lock_ends_at_once(project: Project) -> None:
    project.deliver(START)
    with open(project.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sent = [sys.executable, "-c", SENT]
        done = project.faber("note", "never", program=sent, env={"ENDS": "SIGINT"}, preexec_fn=heed_interrupts)
    assert done.returncode == 130, done.stderr


def test_where_the_file_system_has_no_locks_a_delivery_waits(project: Project) -> None:
    project.deliver(START, client="one")
    trace = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=flock:error=ENOLCK"]
    assert project.deliver(END, client="one", program=[*trace, COMMAND, "hook"]).code == 0
    assert len(files(project)) == 1
    assert project.faber("project").returncode == 0
    assert (files(project), project.types[-1]) == ([], "session_ended")
    project.assert_projected()
