"""An error names a way out, and the way works."""

from __future__ import annotations

import errno
import functools
import json
import os
import resource
import shutil
from typing import TYPE_CHECKING

import pytest
from support.forging import forge
from support.project import RUN, Project, usual_state

from faber_ledger.ledger import disk

if TYPE_CHECKING:
    from pathlib import Path


START = "SessionStart.startup.interactive"
CHANGE = "UPDATE event SET at = '2020' WHERE seq = 2"


def begun(tmp_path: Path) -> Project:
    """Return a run with a session, a ledger and a backup of its state."""
    project = Project.made(tmp_path / "project")
    project.deliver(START, client="one", pid="1")
    assert project.run.joinpath("state.json.backup").exists()
    return project


def test_a_state_written_from_the_log_never_replaces_a_good_backup(tmp_path: Path) -> None:
    project = begun(tmp_path)
    project.state_path.unlink()
    project.faber("project")
    project.faber("session-save")
    backup = json.loads(project.run.joinpath("state.json.backup").read_text())
    assert {name: backup[name] for name in usual_state()} == usual_state()


def test_a_broken_state_without_a_ledger_is_restored(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project", "{")
    project.run.joinpath("state.json.backup").write_text(json.dumps(usual_state()))
    done = project.faber("project", "--restore", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["projected"] is False
    assert project.state == usual_state()
    assert not project.ledger_path.exists()
    assert project.faber("session-load").returncode == 0


def test_a_full_disk_at_the_start_of_a_run_names_the_file(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    no_byte = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))  # no file can take one
    done = project.faber("run", "start", "--work-id", "7", "--run-id", "full", "--yes", preexec_fn=no_byte)
    assert done.returncode == 1
    assert "cannot write .fractary/runs/full/metadata.json: File too large" in done.stderr
    assert not (project.root / ".fractary" / "runs" / "full").exists()


@pytest.mark.parametrize("damaged", ["published", "log", "both"])
def test_a_damaged_ledger_comes_back_as_the_hint_says(tmp_path: Path, damaged: str) -> None:
    """From the log, from the published file, or from git's last commit."""
    project = begun(tmp_path)
    before = project.events
    project.commit()
    if damaged != "log":
        forge(project.ledger_path, CHANGE)
    if damaged != "published":
        forge(project.clones_log, CHANGE)
    done = project.faber("verify")
    assert done.returncode == 20
    command = f"project {RUN}" if damaged == "published" else "project RUN --rebuild"
    assert f"run `faber-ledger {command}`, which " in done.stdout
    assert project.faber(*command.replace("RUN", RUN).split()).returncode == 0
    assert project.faber("verify").returncode == 0
    assert project.events == before
    project.assert_projected()


def test_without_a_whole_ledger_sessions_come_from_the_state(tmp_path: Path) -> None:
    project = begun(tmp_path)
    events, history = project.events, project.history
    for path in (project.ledger_path, project.clones_log):
        forge(path, CHANGE)
    assert project.faber("project", "--rebuild").returncode == 0
    done = project.faber("verify")
    assert done.returncode == 21
    assert f"run `faber-ledger project {RUN}`: it takes over sessions" in done.stdout
    assert project.faber("project", RUN).returncode == 0
    assert project.faber("verify").returncode == 0
    assert project.events[0] == events[0]
    assert project.history == history
    project.assert_projected()


def test_a_log_that_cannot_be_read_comes_back_without_a_command(tmp_path: Path) -> None:
    project = begun(tmp_path)
    before = project.events
    project.clones_log.write_bytes(b"junk" * 100)
    done = project.faber("verify")
    assert (done.returncode, project.recorded) == (0, before)
    packet = project.deliver(START, client="two", pid="2")
    assert "; 1 warning (faber-ledger status)" in (packet.message or "")
    assert f"the log of {RUN} could not be read" in project.faber("status").stdout
    assert project.events[: len(before)] == before
    project.assert_projected()


def test_several_active_runs_are_named_in_json(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.active_path.unlink()
    project.write(".fractary/runs/other/state.json", json.dumps(usual_state("other")))
    done = project.faber("session-load", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"], error["candidates"]) == (1, "several_active_runs", [RUN, "other"])
    for command, name in (("session-load --run-id", "session-load"), ("reconstitute --run-id", "reconstitute")):
        said = project.faber(name)
        commands = [f"  faber-ledger {command} {run}" for run in (RUN, "other")]
        assert said.stderr.rstrip().endswith("\n".join(["Name one:", *commands]))
        hint = json.loads(project.faber(name, "--json").stderr)["error"]["hint"]
        assert hint == f"name one: `faber-ledger {command} RUN`"


def test_a_refused_restore_makes_no_ledger(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "myproject")
    project.deliver("SessionStart.startup.print")
    project.ledger_path.unlink()
    assert project.faber("project", "--restore").returncode == 1
    assert not project.ledger_path.exists()
    project.ledger_path.touch()
    shutil.rmtree(project.private)
    for command in ("verify", "log", "replay", "project"):
        done = project.faber(command)
        assert done.returncode == 10
        assert f"hint: its first event creates one: run `faber-ledger session-load --run-id {RUN}`" in done.stderr
    assert project.faber("session-load", "--run-id", RUN).returncode == 0
    project.assert_projected()


# Something else in place of a file


def in_place(path: Path, what: str) -> None:
    path.unlink()
    if what == "a directory":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"run-\xff\n")


COMMANDS = (["status"], ["session-load"], ["session-save"])


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("a directory", "a directory, not a regular file"),
        ("a pipe", "a named pipe, not a regular file"),
        ("not UTF-8", "not UTF-8 text"),
    ],
)
def test_an_active_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, what: str, reason: str) -> None:
    project = Project.made(tmp_path / "project")
    project.change_state(status="completed")  # so that no scan finds it
    in_place(project.active_path, what)
    for command in COMMANDS:
        done = project.faber(*command)
        said = f".fractary/faber/.active-run-id cannot be read: {reason}"
        assert said in done.stdout + done.stderr, command
    assert any(said in line for line in [project.deliver(START).errors])


def test_a_field_that_is_not_text_is_reported(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.change_state(status=5)
    for command in ["session-load", "session-save", "reconstitute"]:
        done = project.faber(command)
        assert done.returncode == 1
        assert "State file has no valid status: it must be a text, and is 5" in done.stderr
        assert "missing required fields" not in done.stderr


@pytest.mark.parametrize("name", ["state.json.backup", "state.backup.json"])
def test_a_broken_states_error_names_backup_and_command(tmp_path: Path, name: str) -> None:
    project = begun(tmp_path)
    project.run.joinpath("state.json.backup").rename(project.run / name)
    project.put_state("{")
    assert f".fractary/runs/{RUN}/{name} with `faber-ledger project {RUN} --restore`" in project.faber("status").stderr
    said = project.faber("session-save").stderr
    assert f"exists: {name}\n2. Restore from backup if available [faber-ledger project {RUN} --restore]\n" in said


def test_the_list_of_runs_says_why_a_run_cannot_be_read(tmp_path: Path) -> None:
    project = begun(tmp_path)
    project.put_state('{"run_id": ')
    listed = project.faber("run", "list").stdout
    assert f"{RUN}: .fractary/runs/{RUN}/state.json cannot be read: Invalid JSON at line 1" in listed


# Replacing a file


def test_a_file_whose_owner_cannot_be_kept_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))  # as in a container, for an id that is not mapped there

    path = tmp_path / "state.json"
    path.write_text("before")
    path.chmod(0o640)
    mine = os.stat(path)
    like = os.stat_result((*mine[:4], mine.st_uid + 1, *mine[5:]))
    monkeypatch.setattr(os, "chown", refused)
    disk.put(str(path), b"after", like=like)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o640)
