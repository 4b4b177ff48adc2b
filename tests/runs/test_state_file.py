"""`state.json` belongs to others: only the two blocks are replaced, both or none, and no tool's change is lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND
from support.project import RUN, Project, spec_state, usual_state

from faber_ledger.ledger.errors import StateNotWritten
from faber_ledger.projections.fold import blocks_of
from faber_ledger.runs import state_write
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import Run

ENDED: dict[str, Any] = {"current_session_id": None, "total_sessions": 0, "session_history": []}
NAMES = {"state.json", "state.json.backup"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project", {**spec_state(), "run_id": RUN})


def run_of(project: Project) -> Run:
    return find_run(str(project.root), project.run_id)


def write(project: Project, blocks: dict[str, Any]) -> bool:
    return state_write.write_members(run_of(project), blocks, warn=pytest.fail)


def written(path: Path) -> tuple[int, ...]:
    """Return what differs in a file after a write, but not after a read."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# What stays


def test_unchanged_blocks_leave_the_file_alone(project: Project) -> None:
    before = project.state_path.stat()
    assert not write(project, blocks_of(project.state))
    assert project.state_path.stat() == before
    assert not (project.run / "state.json.backup").exists()


@pytest.mark.parametrize("owner", ["both", "group"])
def test_state_and_backup_keep_owner_and_permissions(project: Project, owner: str) -> None:
    project.state_path.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(project.state_path, 65534 if owner == "both" else -1, 65534)
    else:
        os.chown(project.state_path, -1, os.getgroups()[-1])  # a group of the user's, where there is more than one
    before = project.state_path.stat()
    old_mask = os.umask(0o077)
    try:
        assert project.faber("session-save").returncode == 0
    finally:
        os.umask(old_mask)
    for path in (project.state_path, project.run / "state.json.backup"):
        assert (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid)
        assert mode_of(path) == 0o664


# The backup


def test_the_backup_is_the_previous_state(project: Project) -> None:
    before = project.state_path.read_bytes()
    project.faber("session-save")
    assert (project.run / "state.json.backup").read_bytes() == before
    assert project.state_path.read_bytes() != before


def test_the_backup_of_a_finished_run_is_removed(project: Project) -> None:
    (project.run / "state.json.backup").write_text("{}")
    project.change_state(status="completed")
    assert project.faber("session-save").returncode == 0
    assert project.history[-1]["end_reason"] == "manual"
    assert not (project.run / "state.json.backup").exists()


def test_a_backup_that_cannot_be_made_is_a_warning(project: Project) -> None:
    (project.run / "state.json.backup").mkdir()
    done = project.faber("session-save")
    assert done.returncode == 0
    assert "⚠️  Could not create backup" in done.stderr
    assert project.current is None
    assert {path.name for path in project.run.glob("state*")} == NAMES


def test_a_restored_state_has_the_backups_permissions(project: Project) -> None:
    project.state_path.chmod(0o600)
    project.faber("session-save")
    project.state_path.write_text("{")
    project.state_path.chmod(0o644)
    assert project.faber("project", "--restore").returncode == 0
    assert mode_of(project.state_path) == 0o600


# Another tool at the same time

COMMANDS = [
    ["session-load", "--trigger", "session_start"],
    ["note", "add", "a secret"],
    ["session-save"],
    ["project", "--rebuild"],
    ["verify"],
    ["status"],
    ["seal"],
    ["run", "resume", RUN],
    ["init", "--git-only"],
    ["doctor"],
    ["project", "--restore"],
    ["redact", "NOTE", "--yes"],
    ["resolve"],
    ["uninstall"],
]


def test_another_tools_temporary_file_survives_every_hook_and_command(project: Project) -> None:
    """It is always between `jq … > state.json.tmp` and `mv state.json.tmp state.json`."""
    temporary = project.run / "state.json.tmp"
    temporary.write_text(json.dumps({**project.state, "foreign": 1}))
    before = (temporary.stat().st_ino, temporary.stat().st_mtime_ns, temporary.read_bytes())
    for recorded in ("SessionStart.startup.print", "PreCompact.auto.print", "PostCompact.auto.print"):
        assert project.deliver(recorded).code == 0
        assert (temporary.stat().st_ino, temporary.stat().st_mtime_ns, temporary.read_bytes()) == before, recorded
    for named in COMMANDS:
        notes = [one["id"] for one in project.events if one["event"]["type"] == "note_recorded"]
        command = [notes[0] if word == "NOTE" else word for word in named]
        if "--restore" in command:
            project.state_path.write_text("{")
        done = project.faber(*command)
        assert done.returncode in (0, 23), (command, done.stderr)
        assert (temporary.stat().st_ino, temporary.stat().st_mtime_ns, temporary.read_bytes()) == before, command
    assert project.deliver("SessionEnd.other.print").code == 0
    temporary.rename(project.state_path)
    assert project.state["foreign"] == 1


def test_another_tools_change_between_reading_and_renaming_is_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changes = os.fsync, iter(["first", "second"])

    def fsync(descriptor: int) -> None:
        """The other tool is at work while our temporary file is made durable."""
        real(descriptor)
        change = next(changes, None) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        if change is not None:
            project.change_state(foreign=change)

    monkeypatch.setattr(os, "fsync", fsync)
    assert write(project, {"sessions": ENDED})
    assert project.state["foreign"] == "second"
    assert project.state["sessions"] == ENDED


# What can go wrong while writing


KILLED = """
import os, signal, sys
from faber_ledger.runs import state_write
from faber_ledger.runs.layouts import find_run
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
state_write.write_members(find_run(sys.argv[1], sys.argv[2]), {"sessions": {}}, warn=print)
"""


def test_the_next_writer_sweeps_away_what_a_kill_left(project: Project) -> None:
    subprocess.run([sys.executable, "-c", KILLED, project.root, project.run_id], check=False)
    left = [path.name for path in project.run.iterdir() if path.name.endswith(".faber-ledger.tmp")]
    assert len(left) == 2
    project.write(".fractary/.gitignore", "*.tmp\n")  # as 0.1.0 has it
    assert len(project.git("check-ignore", *[str(project.run / name) for name in left]).splitlines()) == 2
    assert project.faber("session-save").returncode == 0
    assert {path.name for path in project.run.iterdir() if "state" in path.name} == NAMES


def test_an_incomplete_write_is_noticed_and_the_old_file_stays(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.state_path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.ftruncate(descriptor, 100))
    with pytest.raises(StateNotWritten, match=r"^State file write verification failed$"):
        write(project, {"sessions": ENDED})
    assert project.state_path.read_bytes() == before
    assert [path.name for path in project.run.glob("state*")] == ["state.json"]


SMALL_DISK = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_full_disk_leaves_the_old_file_and_says_so(project: Project) -> None:
    project.change_state(padding="x" * 300_000)
    before = project.state_path.read_bytes()
    done = project.faber("session-save", program=[sys.executable, "-c", SMALL_DISK, COMMAND])
    assert done.returncode == 1
    assert done.stdout == ""
    path = f".fractary/runs/{RUN}/state.json"
    assert done.stderr.startswith(
        f"❌ ERROR: Failed to save state file\nPath: {path}\nError: Failed to write state file: "
    )
    assert "Recovery:\n1. Check file permissions\n2. Ensure .fractary/runs/ directory is writable\n" in done.stderr
    assert project.state_path.read_bytes() == before
    assert [path.name for path in project.run.glob("state*")] == ["state.json"]
    assert project.faber("project").returncode == 0
    assert project.history[-1]["end_reason"] == "manual"
    project.assert_projected()


def test_a_state_that_its_owner_may_not_write_is_not_replaced(project: Project) -> None:
    project.state_path.chmod(0o444)
    before = written(project.state_path)
    done = project.faber("session-save")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"❌ ERROR: Failed to save state file\nPath: .fractary/runs/{RUN}/state.json\n"
        "Error: Failed to write state file: Permission denied\n"
    )
    assert len(project.of_type("session_ended")) == 1
    answer = project.deliver("SessionStart.startup.print")
    assert (answer.code, "Permission denied" in answer.errors, "chmod u+w" in answer.errors) == (0, True, True)
    assert len(project.of_type("session_started")) == 1
    assert written(project.state_path) == before
    assert [path.name for path in project.run.iterdir() if "state" in path.name] == ["state.json"]
    project.state_path.chmod(0o644)
    assert project.faber("project").returncode == 0
    project.assert_projected()


# What is read


def test_a_backup_that_is_a_link_is_never_read(project: Project, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({**usual_state(), "target": "SECRET"}))
    (project.run / "state.json.backup").symlink_to(secret)
    project.put_state("broken")
    assert "SECRET" not in (project.deliver("SessionStart.startup.print").packet or "")
    assert project.faber("project", "--restore").returncode != 0
    assert project.state_path.read_text() == "broken"


def test_a_restore_names_the_backup_that_it_took(project: Project) -> None:
    project.faber("session-load")
    (project.run / "state.json.backup").write_text("broken too")
    (project.run / "state.backup.json").write_text(json.dumps(usual_state()))
    project.put_state("broken")
    assert "restored from state.backup.json" in project.faber("project", "--restore").stdout
    project.assert_projected()


def test_a_state_is_refused_for_its_size_before_it_is_read(project: Project) -> None:
    os.truncate(project.state_path, 5 * 1024**3)
    (project.run / "state.json.backup").touch()
    os.truncate(project.run / "state.json.backup", 5 * 1024**3)
    done = project.faber("session-load")
    assert "it is larger than 64 MB (5,368,709,120 bytes)" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
