"""A ledger that is missing or empty while the mirror or git has it is named and restored, and never begun again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.forging import forge
from support.project import RUN, Project, payload_of, spec_state
from support.sample_log import write_run

from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose run has a session and a note, committed."""
    return Project.noted(tmp_path / "p")


def emptied(project: Project) -> None:
    """Delete every event of the ledger, as anyone can with sqlite3."""
    forge(project.ledger_path, "DELETE FROM event", "DELETE FROM head")


@pytest.mark.parametrize("how", ["gone", "of no bytes", "emptied"])
def test_project_brings_a_ledger_back_from_the_mirror(project: Project, how: str) -> None:
    before = project.events
    if how == "gone":
        project.ledger_path.unlink()
    elif how == "of no bytes":
        project.ledger_path.write_bytes(b"")
    else:
        emptied(project)
        assert "None" not in project.faber("status").stdout
    if how != "emptied":
        report = project.faber("verify", project.run_id)
        assert (report.returncode, "faber-ledger project" in report.stderr) == (10, True)
        assert "faber-ledger project" in project.faber("status").stdout
    report = project.faber("verify", "--all")
    assert (report.returncode, "rolled_back" in report.stdout) == (20, True), report.stdout + report.stderr
    assert "faber-ledger project" in project.faber("doctor").stdout
    done = project.faber("project", project.run_id)
    assert done.returncode == 0, done.stderr
    assert project.events == before
    project.assert_projected()


@pytest.mark.parametrize("how", ["gone", "of no bytes"])
def test_a_clone_without_a_mirror_does_not_begin_a_second_log_of_a_run(
    project: Project, tmp_path: Path, how: str
) -> None:
    clone = project.clone(tmp_path / "clone", "desktop")
    before = clone.ledger_path.read_bytes()
    clone.ledger_path.unlink()
    if how == "of no bytes":
        clone.ledger_path.write_bytes(b"")
    path = f".fractary/runs/{clone.run_id}/ledger.db"
    for arguments, code in (
        (["verify", "--git", clone.run_id], 10),
        (["verify", "--git", "--all"], 20),
        (["doctor"], 23),
        (["note", "add", "another", "--run-id", clone.run_id], 1),
    ):
        done = clone.faber(*arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert f"git checkout HEAD -- {path}" in done.stdout + done.stderr, arguments
    answer = clone.deliver("SessionStart.startup.print")
    assert answer.packet is not None
    assert "ledger_lost" not in answer.errors
    assert not clone.ledger_path.exists() or not clone.ledger_path.read_bytes()
    clone.git("checkout", "HEAD", "--", path)
    assert clone.ledger_path.read_bytes() == before
    assert clone.faber("note", "add", "and on").returncode == 0
    assert clone.types == [*project.types[:1], *clone.types[1:]]
    assert len(clone.of_type("session_started")) == 2, "the hook's delivery had waited"
    clone.assert_projected()


def test_an_emptied_ledger_without_a_mirror_is_restored_from_git(project: Project, tmp_path: Path) -> None:
    clone = project.clone(tmp_path / "clone", "desktop")
    before = clone.ledger_path.read_bytes()
    emptied(clone)
    path = f".fractary/runs/{clone.run_id}/ledger.db"
    for arguments, code in ((["verify", clone.run_id], 20), (["doctor"], 23), (["project", clone.run_id], 10)):
        done = clone.faber(*arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert f"git checkout HEAD -- {path}" in done.stdout + done.stderr, arguments
        assert "session-load" not in done.stdout + done.stderr, arguments
    shutil.rmtree(clone.root / ".git" / "faber-ledger", ignore_errors=True)  # what `project` has begun
    clone.git("checkout", "HEAD", "--", path)
    assert clone.ledger_path.read_bytes() == before
    assert clone.faber("verify", clone.run_id).returncode == 0


def test_an_emptied_ledger_without_a_copy_is_named_with_the_way_to_begin_it_again(project: Project) -> None:
    shutil.rmtree(project.root / ".git" / "faber-ledger")
    emptied(project)
    project.git("commit", "--quiet", "-am", "Emptied")
    done = project.faber("verify", project.run_id)
    assert (done.returncode, "faber-ledger session-load" in done.stdout) == (21, True), done.stdout


def test_a_run_that_all_leaves_out_is_named(project: Project, tmp_path: Path) -> None:
    write_run(project.root, "another-run")
    project.ledger_path.unlink()
    for arguments in (["export", "--all", "--sqlite"], ["timeline", "--all", "-o"]):
        done = project.faber(*arguments, str(tmp_path / arguments[0]))
        assert done.returncode == 0, done.stderr
        assert f"{project.run_id} is left out: the ledger of" in done.stderr, arguments


def test_an_empty_list_is_reported(project: Project, tmp_path: Path) -> None:
    assert "no events" not in project.faber("log").stderr
    emptied(project)
    assert "session_started" in project.faber("log").stdout  # the mirror has them
    mirror_of(project).unlink()
    for arguments in (["log"], ["log", "--json"], ["export"], ["export", "-o", str(tmp_path / "events")]):
        done = project.faber(*arguments)
        assert (done.returncode, done.stdout, "no events" in done.stderr) == (0, "", True), arguments


def test_a_ledger_that_the_last_commit_lacks_is_begun_again(project: Project) -> None:
    shutil.rmtree(project.root / ".git" / "faber-ledger")
    project.git("rm", "--quiet", str(project.ledger_path))
    project.git("commit", "--quiet", "-m", "Begin anew")
    assert project.faber("note", "add", "the first").returncode == 0
    assert project.types[0] == "run_adopted"


def test_an_empty_ledger_does_not_hide_other_runs(project: Project, tmp_path: Path) -> None:
    other = project.root / ".fractary" / "runs" / "other"
    other.mkdir()
    (other / "ledger.db").write_bytes(b"")
    done = project.faber("verify", "--all", "--json")
    runs = {
        one["run_id"]: [item["kind"] for item in one["findings"]] for one in json.loads(done.stdout)["data"]["runs"]
    }
    assert (done.returncode, runs) == (0, {project.run_id: [], "other": ["empty"]})
    done = project.faber("export", "--sqlite", str(tmp_path / "all.db"), "--all")
    assert (done.returncode, "other is left out" in done.stderr) == (0, True)
    assert "of 1 run;" in done.stderr


def test_an_unknown_run_is_reported_with_similar_ids(project: Project) -> None:
    slip = project.run_id.replace("258", "285")
    for arguments in (["verify", slip], ["log", slip], ["show", "1", "--run", slip], ["project", slip]):
        done = project.faber(*arguments)
        assert (done.returncode, f"near it are: {project.run_id}" in done.stderr) == (10, True), arguments


def test_an_event_that_only_the_mirror_has_can_be_redacted(project: Project) -> None:
    project.faber("note", "add", "a secret")
    name = project.events[-1]["id"]
    project.git("stash", "--quiet")
    assert project.faber("redact", name, "--yes").returncode == 0
    for path in (project.ledger_path, mirror_of(project)):
        assert b"a secret" not in path.read_bytes()


# A run that never had a ledger


def finished(tmp_path: Path, history: bool = False) -> Project:
    """Return a project whose run had ended before the hooks were set up, committed."""
    ended = spec_state(current_session_id=None) | {"run_id": RUN} if history else None
    project = Project.made(tmp_path / "p", ended)
    project.change_state(status="completed")
    assert project.faber("init", "--git-only").returncode == 0
    project.git("add", "-A")
    project.git("commit", "--quiet", "-m", "Set up")
    return project


def mirror_of(project: Project) -> Path:
    return project.root / ".git" / "faber-ledger" / "runs" / project.run_id / "ledger.db"


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("recorded", ["PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"])
def test_a_hook_of_a_finished_run_without_a_log_leaves_nothing(tmp_path: Path, recorded: str, history: bool) -> None:
    project = finished(tmp_path, history)
    before = project.state_path.read_bytes()
    answer = project.deliver(recorded)
    assert (answer.code, answer.output, answer.errors) == (0, b"", "")
    assert sorted(path.name for path in project.run.iterdir()) == ["state.json"]
    assert project.state_path.read_bytes() == before
    assert not (project.root / ".git" / "faber-ledger" / "runs").exists()
    for arguments in (["status"], ["verify"], ["log"], ["doctor"]):
        done = project.faber(*arguments)
        assert "is gone" not in done.stdout + done.stderr, arguments


def test_an_open_session_of_a_finished_run_without_a_log_is_ended(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "p", {**spec_state(), "run_id": RUN, "status": "completed"})
    assert project.current is not None
    client = payload_of("SessionEnd.other.print")["stdin"]["session_id"]
    project.deliver("SessionStart.startup.print", client=client)  # it was heard of, though nothing is recorded
    project.deliver("SessionEnd.other.print")
    assert project.current is None
    assert len(project.of_type("session_ended")) == 1
    project.assert_projected()


def test_a_command_that_records_nothing_begins_no_mirror(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "p")
    project.faber("session-save")
    assert not mirror_of(project).exists()
    assert project.faber("note", "add", "the first").returncode == 0
    with Log.read(str(mirror_of(project))) as mirror:
        assert [one["id"] for one in mirror.stream()] == [one["id"] for one in project.events]


def without_bytes(path: Path) -> None:
    path.write_bytes(b"")


def without_events(path: Path) -> None:
    log = Log.open(str(path))
    log.commit()
    log.close()


@pytest.mark.parametrize("left", [without_bytes, without_events])
def test_an_empty_mirror_counts_as_none(tmp_path: Path, left: Callable[[Path], None]) -> None:
    """As 0.1.0 left one."""
    project = finished(tmp_path)
    mirror_of(project).parent.mkdir(parents=True)
    left(mirror_of(project))
    (project.run / "ledger.lock").touch()
    for arguments, code in (
        (["status"], 0),
        (["verify"], 10),
        (["log"], 10),
        (["project"], 10),
        (["doctor"], 23),
        (["run", "forget", "--list"], 0),
    ):
        done = project.faber(*arguments)
        report = done.stdout + done.stderr
        assert (done.returncode, "this clone's mirror" in report) == (code, False), report
    shutil.move(project.run, tmp_path / "elsewhere")
    assert project.faber("run", "forget", "--list").stdout == "every mirror has its run\n"
    assert "this clone has no mirror" in project.faber("run", "forget", RUN).stderr
    assert project.faber("note", "add", "nothing to bring back").returncode == 10
    started = project.faber("run", "start", "--work-id", "1", "--run-id", "elsewhere", "--yes")
    assert started.returncode == 0, started.stderr
    shutil.move(tmp_path / "elsewhere", project.run)
    project.active_path.write_text(f"{RUN}\n")
    project.change_state(status="in_progress")
    assert project.deliver("SessionStart.startup.print").errors == ""
    with Log.read(str(mirror_of(project))) as mirror:
        assert [one["id"] for one in mirror.stream()] == [one["id"] for one in project.events]
    assert project.faber("verify").returncode == 0


@pytest.mark.parametrize("left", [without_bytes, without_events])
def test_a_run_of_which_only_an_empty_mirror_exists_can_be_started(
    tmp_path: Path, left: Callable[[Path], None]
) -> None:
    project = Project.made(tmp_path / "p")
    shutil.rmtree(project.run)
    mirror_of(project).parent.mkdir(parents=True)
    left(mirror_of(project))
    started = project.faber("run", "start", "--work-id", "1", "--run-id", RUN, "--yes")
    assert started.returncode == 0, started.stderr
    with Log.read(str(mirror_of(project))) as mirror:
        assert [one["event"]["type"] for one in mirror.stream()] == ["run_started", "checkout_recorded"]


@pytest.mark.parametrize("left", [without_bytes, without_events])
def test_an_unreadable_ledger_is_not_given_up_because_of_an_empty_mirror(
    project: Project, left: Callable[[Path], None]
) -> None:
    """It was mistaken for a log whose first transaction was killed, or for the only sound copy."""
    project.git("rm", "--quiet", "--cached", str(project.ledger_path))
    project.git("commit", "--quiet", "-m", "Untracked")
    mirror_of(project).unlink()
    left(mirror_of(project))
    project.ledger_path.write_bytes(b"no ledger")
    Path(f"{project.ledger_path}-journal").write_bytes(b"no journal")
    done = project.faber("project")
    assert done.returncode != 0
    assert project.ledger_path.read_bytes() == b"no ledger", done.stderr
