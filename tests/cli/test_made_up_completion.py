"""`status` warns of completions that the events of FABER's own tools do not confirm."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Project

from faber_ledger.runs.progress import PHASES

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 5, 10, 0, tzinfo=UTC).timestamp()


def at(minute: int) -> str:
    return datetime.fromtimestamp(START + 60 * minute, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Faber:
    """FABER's tools at work on a run: they change the state and write an event for each step and phase."""

    def __init__(self, project: Project, *, has_times: bool = True) -> None:
        self.project = project
        self.has_times = has_times
        self.minute = 0
        self.number = 0
        phases = {name: {"status": "pending"} for name in PHASES}
        project.put_state(
            {"run_id": RUN, "workflow_id": "fractary-faber:default", "status": "in_progress", "phases": phases}
        )

    def emit(self, kind: str, **fields: Any) -> None:
        """Write an event as FABER's event gateway does."""
        self.number += 1
        self.minute += 1
        event = {"event_id": self.number, "type": kind, "timestamp": at(self.minute), "run_id": RUN, **fields}
        place = f".fractary/runs/{RUN}/events/{self.number:03d}-{kind}.json"
        self.project.write(place, json.dumps(event, indent=2))

    def mark(self, *names: str, status: str = "completed") -> None:
        """Change the status of phases, in one write."""
        state = self.project.state
        for name in names:
            moment = {"completed_at": at(self.minute)} if self.has_times and status == "completed" else {}
            state["phases"][name] = {**state["phases"][name], "status": status, **moment}
        self.project.put_state({**state, "current_phase": names[-1]})

    def work(self, *names: str) -> None:
        """Work through phases as the protocol wants it: the state before and after each step, then the event."""
        for name in names:
            self.emit("phase_start", phase=name)
            self.mark(name, status="in_progress")
            self.emit("step_start", phase=name, step="implement")
            self.emit("step_complete", phase=name, step="implement", metadata={"status": "success"})
            self.mark(name)
            self.emit("phase_complete", phase=name, status="completed")

    def finish(self) -> None:
        """Complete the run."""
        self.project.change_state(status="completed", completed_at=at(self.minute))
        self.emit("workflow_complete", status="completed")


@pytest.fixture
def faber(project: Project) -> Faber:
    return Faber(project)


def checked(project: Project) -> dict[str, Any]:
    done = project.faber("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)["data"]["completion"]
    return result


def warned(project: Project) -> tuple[list[str], list[str]]:
    found = checked(project)
    return found["unconfirmed"], found["open_phases"]


def start(project: Project) -> None:
    assert project.faber("session-load", "--trigger", "session_start").returncode == 0


def test_a_run_of_fabers_that_went_properly_has_no_warning(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    for name in PHASES:
        faber.work(name)
    faber.finish()
    assert checked(project) == {"events": 22, "unreadable": 0, "unconfirmed": [], "open_phases": []}
    assert "Warning" not in project.faber("status").stdout


def test_phases_completed_without_an_event_are_named(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.work("frame", "architect")
    faber.mark("build", "evaluate", "release")
    faber.emit("workflow_complete", message="All done")
    assert warned(project) == (["build", "evaluate", "release"], [])
    says = "are completed in state.json, and no event of FABER's tools here says so\n"
    assert f"Warning: build, evaluate, release {says}" in project.faber("status").stdout


def test_an_event_that_says_the_contrary_confirms_nothing(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.work("frame")
    faber.mark("architect")
    faber.emit("phase_complete", metadata={"phase": "architect", "status": "failure"})
    assert warned(project) == (["architect"], [])
    faber.emit("phase_complete", metadata={"phase": "architect", "status": "success"})
    assert warned(project) == ([], [])


def test_a_phase_that_was_restarted_needs_another_event(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.work("frame")
    assert warned(project) == ([], [])
    faber.emit("phase_start", phase="frame")
    assert warned(project) == (["frame"], [])
    faber.emit("phase_complete", phase="frame", status="completed")
    assert warned(project) == ([], [])


def test_a_completed_run_with_open_phases_is_named(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.work("frame", "architect", "build")
    state = project.state
    state["phases"]["release"]["enabled"] = False
    project.put_state(state)
    assert warned(project) == ([], [])
    faber.finish()
    assert warned(project) == ([], ["evaluate"])
    says = "Warning: the run is completed in state.json, but evaluate is open\n"
    assert says in project.faber("status").stdout


def test_what_was_completed_before_events_began_is_not_compared(project: Project) -> None:
    faber = Faber(project)
    faber.mark("frame", "architect")
    start(project)
    faber.minute = 30
    faber.emit("workflow_resumed")
    faber.work("build")
    assert warned(project) == ([], [])


def test_a_backdated_time_hides_nothing_in_a_run_whose_events_are_whole(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.minute = -60 * 24 * 20
    faber.mark("frame", "architect")
    assert warned(project) == (["frame", "architect"], [])


def test_without_an_event_nothing_is_compared(faber: Faber, project: Project) -> None:
    start(project)
    (project.run / "events").mkdir()  # as `run start` does, for FABER's tools
    (project.run / "events" / ".next-id").write_text("1\n")
    faber.mark("frame", "architect", "build")
    project.change_state(status="completed")
    assert checked(project) == {"events": 0, "unreadable": 0, "unconfirmed": [], "open_phases": []}


def test_consolidated_events_count_as_those_of_the_folder(faber: Faber, project: Project) -> None:
    start(project)
    faber.emit("workflow_start")
    faber.work("frame", "architect")
    files = sorted((project.run / "events").iterdir())
    lines = [json.dumps(json.loads(file.read_text())) for file in files]
    (project.run / "events.jsonl").write_text("\n".join(lines) + "\n")
    assert checked(project)["events"] == 9  # each once, while the folder is still there
    for file in files:
        file.unlink()
    assert checked(project)["events"] == 9
    faber.mark("build")
    assert warned(project) == (["build"], [])


def test_files_of_a_hostile_repository_are_counted_and_not_believed(
    faber: Faber, project: Project, tmp_path: Path
) -> None:
    start(project)
    faber.emit("workflow_start", message="\x1b[2Jx\nwarning: y")
    faber.mark("frame")
    outside = tmp_path / "secret.json"
    outside.write_text(json.dumps({"type": "phase_complete", "phase": "frame"}))
    events = project.run / "events"
    (events / "002-x.json").symlink_to(outside)
    (events / "003-x.json").write_text("{")
    (events / "004-x.json").write_text(json.dumps({"type": ["phase_complete"], "phase": "frame"}))
    (events / "005-x.json").write_text(json.dumps({"type": "phase_complete", "phase": {"a": 1}, "event_id": []}))
    found = checked(project)
    assert (found["events"], found["unreadable"]) == (2, 3)
    assert found["unconfirmed"] == ["frame"]
    shown = project.faber("status").stdout
    assert "says so (3 events cannot be read)\n" in shown
    assert "\x1b" not in shown
    assert "\nwarning: y" not in shown
