"""`replay`: a run event by event, and its state at any moment."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.command import COMMAND, Command
from support.project import Project
from support.sample_log import FIRST, RUN, SECOND, START, history, write_run
from support.sizes import few
from support.timelines import History, append_history

from faber_ledger.context.notes import note_recorded
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.fold import fold

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Draft


@pytest.fixture
def sample(tmp_path: Path) -> Project:
    write_run(tmp_path / "project")
    return Project(tmp_path / "project", RUN)


def replay_data(project: Project, *arguments: str) -> Any:
    done = project.faber("replay", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["data"]


def refused(project: Project, *arguments: str, code: int, command: str = "replay") -> str:
    done = project.faber(command, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    return done.stderr


# Any history


# The command


def test_every_seq_every_id_and_every_time_gives_the_state_then(sample: Project) -> None:
    events = sample.events
    assert replay_data(sample, "--at", "0")["blocks"] == fold([])
    for number, recorded in [*enumerate(events, 1)][2::4]:
        for moment in (str(recorded["seq"]), recorded["id"][:-1].lower(), recorded["at"]):
            data = replay_data(sample, "--at", moment)
            assert data["blocks"] == fold(events[:number])
            assert data["at"]["last_event"]["id"] == recorded["id"]
    assert replay_data(sample, "--at", "2026-01-05T15:30:42+01:00")["blocks"] == fold(events[:3])
    assert replay_data(sample, "--at", "2020-01-01T00:00:00Z")["at"]["last_event"] is None


def test_a_moment_is_shown_with_its_session_and_its_context(sample: Project) -> None:
    lines = sample.faber("replay", "--at", "7").stdout
    assert lines.startswith("after 7 events, the last of them:\n2026-01-05T")
    assert f"session:  {FIRST}\n" in lines
    assert "phase:    frame\n" in lines
    assert "  workflow-state, loaded 2026-01-05T14:30:52Z from .fractary/runs/" in lines
    assert "nothing had happened yet" in sample.faber("replay", "--at", "0").stdout


def test_the_events_of_a_session_are_chosen_by_its_id(sample: Project) -> None:
    def seqs(*arguments: str) -> list[int]:
        return [one["seq"] for one in replay_data(sample, *arguments)["events"]]

    assert seqs("--session", "def456") == [11]
    assert seqs("--session", FIRST[:-2])[-2:] == [8, 10]
    assert [one["session_id"] for one in replay_data(sample, "--session", SECOND)["sessions"]] == [SECOND]
    assert replay_data(sample)["sessions"] == replay_data(sample, "--at", "11")["sessions"]


def test_a_table_shows_each_sessions_phases_and_duration(sample: Project) -> None:
    title, _, *lines = sample.faber("replay").stdout.splitlines()
    assert title.startswith("session  machine ")
    assert len(lines) == 2
    assert lines[0].split("  ")[0] == "abc123"
    assert "1 minute 10 seconds" in lines[0]
    assert lines[0].endswith("  frame ✓, architect ✓")
    assert "  open  " in lines[1]
    first = replay_data(sample)["sessions"][1]
    assert (first["ran_seconds"], first["newly_completed"]) == (70.0, ["frame", "architect"])


@pytest.mark.parametrize("options", [["--events"], ["--events", "--session", SECOND]])
def test_events_are_shown_with_their_changes_where_they_are_asked_for(sample: Project, options: list[str]) -> None:
    table = sample.faber("replay", *options[1:] if "--session" in options else []).stdout
    shown = sample.faber("replay", *options).stdout
    assert shown.endswith(f"\n\n{table}")
    events, changes = [shown.count(text) for text in ("2026-01-05T14:3", " -> ")]
    assert events > 1
    assert changes > 1
    assert "->" not in table
    values = [words for line in shown.splitlines() if " -> " in line for words in line.split(": ", 1)[1].split(" -> ")]
    assert [words for words in values if words.endswith("…")] == []  # none is cut in the middle of a member


def test_contradicting_options_are_one_usage_error(sample: Project) -> None:
    for arguments, why in [
        (["--at", "3", "--events"], "--at cannot be combined with --events and --session"),
        (["--at", "2026-01-05T14:30:22"], "write 2026-01-05T14:30:22Z if it is UTC"),
        (["--at", "14:30"], "is not a time with a zone, such as 2026-01-05T14:30:22Z"),
    ]:
        message = refused(sample, *arguments, code=2)
        assert why in message
        assert message.count("error:") == 1


@pytest.fixture
def united(sample: Project, tmp_path: Path) -> Project:
    """A run of two machines that worked apart: each has events of the seqs 12 and 13, and one came an hour later."""
    other = tmp_path / "other.db"
    shutil.copy(sample.ledger_path, other)
    for path, writer, late in ((sample.ledger_path, "laptop", 3600), (other, "desktop", 0)):
        draft: Draft = {"event": {"type": "context_reloaded", "session_id": SECOND, "trigger": "manual"}}  # type: ignore[typeddict-item]  # an event with other fields
        for number in range(2):
            with Log.open(str(path)) as log:
                log.append([draft], at=START + 200 + late + 10 * number, writer=writer)
                log.commit()
    write_union([str(sample.ledger_path), str(other)], str(sample.ledger_path))
    return sample


def test_a_seq_that_clones_share_means_all_of_its_events(united: Project) -> None:
    done = united.faber("replay", "--at", "12")
    shared = [one["id"] for one in united.events if one["seq"] == 12]
    assert len(shared) == 2
    assert done.stdout.startswith("after 13 events")
    assert united.faber("replay", "--at", shared[0]).stdout.startswith("after 12 events")


def test_the_phase_is_that_of_the_session_that_is_shown(sample: Project) -> None:
    """What comes last in the log may be another session's, on another machine, and older."""
    for session, phase, writer, late in ((SECOND, "build", "laptop", 3600), (FIRST, "frame", "desktop", 0)):
        note = note_recorded("x", "note", session, {"phase": phase, "step": None, "phases_completed": []})
        with Log.open(str(sample.ledger_path)) as log:
            log.append([{"event": note}], at=START + 200 + late, writer=writer)
            log.commit()
    data = replay_data(sample, "--at", "13")
    assert data["blocks"]["sessions"]["current_session_id"] == SECOND
    assert (data["phase"], data["at"]["events"], data["at"]["last_event"]["seq"]) == ("build", 13, 13)


# Where it goes


def on_a_terminal(project: Project, *arguments: str, **env: str) -> tuple[int, str]:
    """Run a command on a terminal; return its exit code and what it printed there."""
    shown, code = project.on_terminal(*arguments, env={"LESS": None, "LV": None, **env})
    return code, shown


@pytest.mark.long
@pytest.mark.parametrize("command", few(["log", "replay", "show"], 1))
def test_on_a_terminal_the_users_pager_gets_the_lines(sample: Project, command: str) -> None:
    arguments = {"show": ("show", "3"), "replay": ("replay", "--events")}.get(command, (command,))
    marked = """sh -c "sed 's/^/PAGED /'; echo LESS is $LESS" """
    code, printed = on_a_terminal(sample, *arguments, PAGER=marked)
    assert code == 0
    assert "PAGED " in printed
    assert "LESS is FRX" in printed
    for quiet in (("--no-pager", *arguments), (*arguments, "--no-pager")):
        code, printed = on_a_terminal(sample, *quiet, PAGER=marked)
        assert (code, "PAGED" in printed) == (0, False)
        assert "session_started" in printed


def test_a_slow_reader_keeps_no_hook_from_writing(sample: Project) -> None:
    with Log.open(str(sample.ledger_path)) as log:
        for number in range(3000):
            log.append([{"event": history()[8]}], at=START + 300 + number, writer="w")
        log.commit()
    reader = Command([COMMAND, "log"], cwd=sample.root, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()  # the pipe fills up behind this line, and the reader waits in the middle of the log
    with Log.open(str(sample.clones_log), busy_seconds=5.0) as log:
        log.append([{"event": history()[8]}], at=START + 9000, writer="w")
        log.commit()
    rest = reader.stdout.read().splitlines()
    reader.stdout.close()
    assert reader.wait() == 0
    assert 1 + len(rest) == 11 - 4 + 3000 + 1  # what is left out, and the line that says so


def test_what_was_completed_before_a_session_began_is_anothers(tmp_path: Path) -> None:
    """A session beside it, which ended first, did not complete it."""
    project = Project.made(tmp_path / "project", run_id=RUN)
    ready, built = ["frame", "architect"], ["frame", "architect", "build"]
    history = History().start("one", completed=ready).start("two", 60, machine="desktop", completed=built)
    append_history(str(project.ledger_path), history.end("two", 10, completed=built).end("one", 10, completed=built))
    sessions = json.loads(project.said("replay", "--json"))["data"]["sessions"]
    assert [one["newly_completed"] for one in sessions] == [["build"], ready]


def test_an_abandoned_session_was_also_in_the_phase_that_it_was_last_in(tmp_path: Path) -> None:
    """What it used may be known to another machine alone."""
    project = Project.noted(tmp_path / "project")
    project.deliver("SessionStart.startup.print", client="one")
    done = {"status": "completed"}
    project.change_state(current_phase="evaluate", phases={"build": done, "evaluate": {"status": "in_progress"}})
    project.said("note", "look at the lint", env={"CLAUDE_CODE_SESSION_ID": "one"})
    project.deliver("SessionStart.startup.print", client="two")
    assert project.said("replay").splitlines()[2].endswith("  abandoned  build ✓, evaluate")
    project.change_state(current_phase="evaluate", phases={"build": done, "evaluate": done})
    project.deliver("SessionEnd.prompt_input_exit.interactive", client="two")
    project.deliver("SessionStart.startup.print", client="three")
    project.deliver("SessionStart.startup.print", client="four")
    assert project.said("replay").splitlines()[4].endswith("  abandoned  -")
