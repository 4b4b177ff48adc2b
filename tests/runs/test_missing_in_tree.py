"""Where git has taken a run out of the work tree, hooks and commands go on with the run that the clone keeps."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project

from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

START, COMPACTED = "SessionStart.startup.print", "SessionStart.compact.print"
PRE, POST, END = "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"
NOT_IN_TREE = f"This work tree does not have the files of {RUN}."


def kept_events(project: Project) -> list[Recorded]:
    with Log.read(str(kept_folder(project) / "log.db")) as log:
        return list(log.stream())


def kept_folder(project: Project) -> Path:
    common = Path(project.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    return common / "faber-ledger" / "runs" / project.run_id


def made(root: Path, *, commit: bool = True) -> Project:
    """Make a project set up on main, and a run on the branch `feature` in which one session is open."""
    project = Project.made(root)
    active, state = project.active_path.read_text(), project.state_path.read_text()
    project.active_path.unlink()
    project.state_path.unlink()
    project.run.rmdir()
    project.faber("init", "--git-only")
    project.git("add", "-A")
    project.git("commit", "-qm", "set up")
    project.git("checkout", "-qb", "feature")
    project.run.mkdir(parents=True)
    project.active_path.write_text(active)
    project.state_path.write_text(state)
    project.deliver(START, client="one", pid="1")
    if commit:
        project.git("add", "-A")
        project.git("commit", "-qm", "a run")
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has left the branch of its run in mid-session; the active file is there, as a tool wrote it."""
    project = made(tmp_path / "project")
    project.git("checkout", "-q", "main")
    project.active_path.parent.mkdir(parents=True, exist_ok=True)
    project.active_path.write_text(f"{RUN}\n")
    assert not project.state_path.exists()
    return project


def test_a_compaction_gets_its_packet_whose_last_line_says_where_it_is_recorded(project: Project) -> None:
    assert project.deliver(PRE, client="one", pid="1").hint is not None
    answer = project.deliver(COMPACTED, client="one", pid="1")
    assert answer.packet is not None
    assert answer.packet.startswith(f"# FABER run {RUN}\n")
    assert answer.packet.splitlines()[-3].startswith(NOT_IN_TREE)
    assert "session_ended" in [one["event"]["type"] for one in kept_events(project)]


def test_the_packet_has_the_state_from_the_copy_and_no_error(project: Project) -> None:
    packet = project.deliver(COMPACTED, client="one", pid="1").packet
    assert packet is not None
    assert "❌" not in packet, packet
    assert '"phases":{' in packet


def test_hooks_make_no_folder_of_the_run_and_the_tree_stays_clean(project: Project) -> None:
    project.active_path.unlink()
    before = project.git("status", "--porcelain")
    project.active_path.write_text(f"{RUN}\n")
    for name in (PRE, POST, COMPACTED, END):
        project.deliver(name, client="one", pid="1")
    project.active_path.unlink()
    assert project.git("status", "--porcelain") == before == ""
    assert not project.state_path.exists()
    assert not project.ledger_path.exists()


RECORDING = {
    "note": ["note", "add", "remember"],
    "session-save": ["session-save"],
    "session-load": ["session-load", "--force"],
}


@pytest.mark.parametrize("name", RECORDING)
def test_a_command_that_records_does_so_on_the_kept_run_and_says_so(project: Project, name: str) -> None:
    before = len(kept_events(project))
    done = project.faber(*RECORDING[name])
    assert done.returncode == 0, done.stderr
    assert NOT_IN_TREE in done.stderr
    assert len(kept_events(project)) > before
    assert not project.run.exists() or not project.ledger_path.exists()


def test_what_was_recorded_comes_into_the_ledger_with_the_first_opening_after_the_checkout(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    kept = [one["id"] for one in kept_events(project)]
    project.active_path.unlink()
    project.git("checkout", "-q", "feature")
    with Log.read(str(project.ledger_path)) as log:
        assert len(list(log.stream())) < len(kept)
    project.deliver(START, client="two", pid="2")
    assert {one["id"] for one in project.events} >= set(kept)
    project.assert_projected()


def test_another_tools_keys_of_the_branch_are_untouched_by_what_the_kept_run_recorded(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    project.active_path.unlink()
    project.git("checkout", "-q", "feature")
    before = project.state
    project.faber("project")
    after = project.state
    assert {key: after[key] for key in before if key not in ("sessions", "context_metadata")} == {
        key: before[key] for key in before if key not in ("sessions", "context_metadata")
    }
    assert after["sessions"]["session_history"][-1]["ended_at"]


def test_resume_brings_the_files_back_from_the_copy(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    done = project.faber("run", "resume", RUN)
    assert done.returncode == 0, done.stderr
    assert "is brought back from this clone's log" in done.stderr
    assert "another branch or a stash has" in done.stderr
    project.assert_projected()
    assert [one["id"] for one in project.events] == [one["id"] for one in kept_events(project)]


def test_project_brings_the_files_back_from_the_copy(project: Project) -> None:
    assert project.faber("project", RUN).returncode == 0
    project.assert_projected()


@pytest.mark.parametrize("command", [["run", "finish"], ["seal", RUN], ["migrate", RUN]])
def test_a_command_that_writes_the_runs_files_names_what_brings_them_back(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert done.returncode == 10, done.stdout + done.stderr
    assert f"faber-ledger run resume {RUN}" in done.stderr
    assert not project.state_path.exists()


def test_a_commit_on_the_other_branch_has_nothing_to_seal(project: Project) -> None:
    done = project.faber("seal")
    assert (done.returncode, "nothing to seal" in done.stdout) == (0, True), done.stderr


NOTE = "only the mirror has this"
READERS = {
    "status": (["status"], "Session: none open (1 in all)"),
    "log": (["log"], NOTE),
    "replay": (["replay"], "session_ended"),
    "timeline": (["timeline", "--output", "-"], NOTE),
    "verify": (["verify"], f"{RUN}: sound"),
    "export": (["export"], NOTE),
    "reconstitute": (["reconstitute", RUN], RUN),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_read_the_kept_run(project: Project, name: str) -> None:
    assert project.faber("note", "add", NOTE).returncode == 0
    project.deliver(END, client="one", pid="1")
    command, text = READERS[name]
    done = project.faber(*command)
    assert (done.returncode, text in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("name", ["faber-ledger", "faber-ledger/runs", f"faber-ledger/runs/{RUN}"])
def test_what_the_clone_keeps_behind_a_link_is_neither_read_nor_written(
    project: Project, tmp_path: Path, name: str
) -> None:
    kept = project.root / ".git" / name
    elsewhere = tmp_path / "elsewhere"
    kept.rename(elsewhere)
    kept.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.name in ("log.db", "state.json")}
    assert len(before) == 2
    project.deliver(END, client="one", pid="1")
    assert NOT_IN_TREE not in project.faber("note", "add", NOTE).stderr
    project.active_path.unlink()
    project.git("checkout", "-q", "feature")
    project.change_state(status="paused")
    project.deliver(START, client="two", pid="2")
    assert {path: path.read_bytes() for path in before} == before


def test_two_work_trees_record_at_once_one_in_its_file_and_one_on_the_kept_run(
    project: Project, tmp_path: Path
) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "feature")
    linked = Project(tmp_path / "linked")

    def add(number: int) -> subprocess.CompletedProcess[str]:
        tree = (project, linked)[number % 2]
        return tree.faber("note", "add", f"note {number}", "--run-id", RUN)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(add, range(12)))
    assert [one.returncode for one in done] == [0] * 12, [one.stderr for one in done]
    assert linked.faber("project", RUN).returncode == 0
    texts = {one["event"].get("text") for one in linked.events}
    assert texts >= {f"note {number}" for number in range(12)}
    linked.assert_projected()


def test_a_redaction_where_the_tree_lacks_the_run_reaches_the_log_and_the_copy(project: Project) -> None:
    (event,) = [one for one in kept_events(project) if one["event"]["type"] == "session_started"]
    mirror = kept_folder(project) / "log.db"
    inode = mirror.stat().st_ino
    done = project.faber("redact", event["id"], "--yes")
    assert done.returncode == 0, done.stderr
    for name in os.listdir(kept_folder(project)):
        assert project.hostname.encode() not in (kept_folder(project) / name).read_bytes(), name
    assert mirror.stat().st_ino == inode


def test_without_the_projects_settings_no_summary_goes_into_the_ledger(project: Project) -> None:
    (project.root / ".fractary" / "faber" / "ledger.json").unlink()
    project.deliver(POST, client="one", pid="1")
    (event,) = [one for one in kept_events(project) if one["event"]["type"] == "compaction_completed"]
    assert "summary" not in event["event"]
    assert [name for name in os.listdir(kept_folder(project)) if name.startswith("summary-")]


def test_a_kept_run_without_a_copy_still_gets_its_events(project: Project) -> None:
    for name in ("state.json", "state.json.backup"):
        (kept_folder(project) / name).unlink(missing_ok=True)
    project.deliver(END, client="one", pid="1")
    assert "session_ended" in [one["event"]["type"] for one in kept_events(project)]


@pytest.fixture
def finished(tmp_path: Path) -> Project:
    """A project on main whose run FABER has finished and committed on its branch; no hook of ours ran in between."""
    project = made(tmp_path / "project", commit=False)
    project.change_state(status="completed", current_phase="release")
    project.git("add", "-A")
    project.git("commit", "-qm", "finish the run")
    project.git("checkout", "-q", "main")
    return project


def test_a_state_that_was_recorded_and_never_committed_is_not_set_back_to_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setenv("GIT_COMMITTER_DATE", "2026-01-05T14:30:22Z")
        project = made(tmp_path / "project")
    project.change_state(current_phase="evaluate")
    project.deliver(PRE, client="one", pid="1")
    project.git("checkout", "-q", "--force", "main")
    assert "Phase: evaluate" in (project.deliver(COMPACTED, client="one", pid="1").packet or "")
    assert "evaluate" in project.faber("status", RUN).stdout


def test_what_was_recorded_after_the_checkout_is_not_set_back_to_the_commit(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    copy = kept_folder(project) / "state.json"
    later = json.loads(copy.read_text()) | {"status": "paused"}
    copy.write_text(json.dumps(later))
    at = time.time() + 10
    os.utime(copy, (at, at))
    project.git("commit", "--allow-empty", "-qm", "HEAD moves")
    assert "Status: paused" in project.faber("status").stdout
    assert json.loads(copy.read_text()) == later


@pytest.fixture
def moved_on(project: Project, tmp_path: Path) -> Project:
    """The run, which another work tree has moved on and committed without a hook of ours, and then was removed."""
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "feature")
    linked = Project(tmp_path / "linked")
    linked.change_state(current_phase="evaluate")
    linked.git("commit", "-qam", "evaluate")
    project.git("worktree", "remove", "--force", str(tmp_path / "linked"))
    return project


def test_a_branch_whose_state_was_updated_before_the_copy_does_not_replace_it(moved_on: Project) -> None:
    copy = kept_folder(moved_on) / "state.json"
    later = json.loads(copy.read_text()) | {"status": "paused", "updated_at": "2200-01-01T00:00:00Z"}
    copy.write_text(json.dumps(later))
    assert "Status: paused" in moved_on.faber("status").stdout


def test_the_run_list_has_the_run_on_which_the_client_records(project: Project) -> None:
    done = project.faber("run", "list")
    assert f"* {RUN}" in done.stdout
    assert "no runs yet" not in done.stdout
    (row,) = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    assert (row["active"], row["sessions"], row["events"]) == (True, 1, len(kept_events(project)))


@pytest.mark.parametrize("is_left", [True, False])
def test_doctor_says_where_what_happens_on_the_run_is_recorded(project: Project, is_left: bool) -> None:
    if not is_left:
        shutil.rmtree(project.run, ignore_errors=True)
    done = project.faber("doctor")
    assert NOT_IN_TREE in done.stdout
    assert "hooks record nothing" not in done.stdout


def test_the_hint_of_a_resume_is_enough_to_check_the_branch_out(project: Project) -> None:
    project.active_path.unlink()
    done = project.faber("run", "resume", RUN)
    said = " ".join(done.stderr.split())
    named = said.partition(" first remove ")[2].partition(", then run ")[0].split(" and ")
    assert named == [f".fractary/runs/{RUN}"], said
    for name in named:
        path = project.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project.git("checkout", "-q", "feature")
    assert project.state["run_id"] == RUN


def test_a_redaction_where_the_tree_lacks_the_run_removes_the_backup_that_git_left(project: Project) -> None:
    (event,) = [one for one in kept_events(project) if one["event"]["type"] == "session_started"]
    backup = project.run / "state.json.backup"
    backup.parent.mkdir(parents=True, exist_ok=True)
    backup.write_text(json.dumps({"run_id": RUN, "machine": project.hostname}))
    done = project.faber("redact", event["id"], "--yes")
    assert (done.returncode, backup.exists()) == (0, False), done.stderr
    assert "state.json.backup" in done.stdout


def test_nobody_is_told_where_it_is_recorded_if_it_is_not(project: Project) -> None:
    answer = project.changed(
        COMPACTED, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), client="one", pid="1"
    )
    assert "cannot be written into the inbox" in answer.errors
    assert answer.packet is not None
    assert NOT_IN_TREE not in answer.packet
    assert NOT_IN_TREE not in (answer.message or "")
