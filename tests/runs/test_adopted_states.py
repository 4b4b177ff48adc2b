"""Runs whose `sessions` an older tool or a person has written: adopted once, and ordinary from then on."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, SPEC_RUN, Project, payload_of, spec_state, usual_state
from support.sizes import few, pair

if TYPE_CHECKING:
    from pathlib import Path

START = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
OPEN = "claude-session-20260105-143022-abc123"
EARLIER = "claude-session-20260104-xyz789"
LAST_RELOAD = "2026-01-05T14:30:00Z"


def heard_of(recorded: str) -> Callable[[Project], Any]:
    """Return what delivers a call of a client that was heard of before the run was active."""

    def deliver(project: Project) -> Any:
        active = project.active_path.read_bytes()
        project.active_path.unlink()
        project.deliver(START, client=payload_of(recorded)["stdin"]["session_id"])
        project.active_path.write_bytes(active)
        return project.deliver(recorded)

    return deliver


# Each way to end a session, and the reason that it records.
ENDINGS: dict[str, tuple[Callable[[Project], Any], str]] = {
    "session-save": (lambda project: project.faber("session-save"), "manual"),
    "session-end": (lambda project: project.faber("session-end", "--reason", "compaction"), "compaction"),
    "PreCompact": (heard_of(PRE), "compaction"),
    "SessionEnd": (heard_of(END), "normal"),
}
EVERYTHING: dict[str, Callable[[Project], Any]] = {
    **{name: end for name, (end, _) in ENDINGS.items()},
    "session-load": lambda project: project.faber("session-load"),
    "SessionStart": lambda project: project.deliver(START),
    "PostCompact": heard_of(POST),
}


def spec_project(tmp_path: Path, **sessions: Any) -> Project:
    return Project.made(tmp_path / "myproject", spec_state(**sessions), SPEC_RUN)


def untouched(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Check that all but our two blocks is as it was, in the same order."""
    ours = ("sessions", "context_metadata")
    assert [(k, v) for k, v in before.items() if k not in ours] == [(k, v) for k, v in after.items() if k not in ours]


# SPEC's example: its open session is not in the history, which has one entry where the total says two


def test_status_counts_the_open_session_that_the_history_lacks(tmp_path: Path) -> None:
    project = spec_project(tmp_path)
    assert f"Session: {OPEN}, open since an unknown time on an unknown machine (2 in all)\n" in (
        project.faber("status").stdout
    )
    project.faber("session-save")
    assert "Session: " not in project.faber("status").stdout


@pytest.mark.parametrize("way", ENDINGS)
def test_the_open_session_of_the_example_enters_the_history_when_it_ends(tmp_path: Path, way: str) -> None:
    project = spec_project(tmp_path)
    phases = [{"phase_name": "frame", "status": "completed"}, {"phase_name": "build", "status": "in_progress"}]
    project.change_state(phases=phases)
    before = project.state
    end, reason = ENDINGS[way]
    end(project)
    assert project.current is None
    earlier, ended = project.history
    assert earlier == before["sessions"]["session_history"][0]
    assert (ended["session_id"], ended["end_reason"]) == (OPEN, reason)
    assert ended["started_at"] == LAST_RELOAD
    assert ended["ended_at"] > LAST_RELOAD
    assert ended["phases_completed"] == ["frame"]
    assert ended["artifacts_loaded"] == ["workflow-state"]
    assert ended["environment"]["hostname"] == "dev-machine-1"
    assert ended["environment"]["git_commit"] == project.git("rev-parse", "--short", "HEAD")
    assert project.metadata == before["context_metadata"]
    untouched(before, project.state)
    assert project.types == ["run_adopted", "session_ended"]
    assert project.state_path.with_name("state.json.backup").exists()
    project.assert_projected()


def test_the_open_session_of_the_example_is_abandoned_when_a_client_starts(tmp_path: Path) -> None:
    project = spec_project(tmp_path)
    before = project.state
    assert project.deliver(START).packet
    earlier, abandoned, opened = project.history
    assert earlier == before["sessions"]["session_history"][0]
    assert (abandoned["session_id"], abandoned["end_reason"]) == (OPEN, "abandoned")
    assert (abandoned["started_at"], abandoned["ended_at"]) == (LAST_RELOAD, opened["started_at"])
    assert abandoned["artifacts_loaded"] == ["workflow-state"]
    assert project.current == opened["session_id"]
    assert project.metadata["reload_count"] == 4
    assert project.in_context == ["workflow-state", "orchestration-protocol"]
    untouched(before, project.state)
    project.assert_projected()


def test_a_load_by_hand_goes_on_with_the_examples_session(tmp_path: Path) -> None:
    project = spec_project(tmp_path)
    done = project.faber("session-load", "--verbose")
    assert done.returncode == 0, done.stderr
    assert project.current == OPEN
    entry = project.history[-1]
    assert (entry["session_id"], entry["started_at"]) == (OPEN, LAST_RELOAD)
    assert "ended_at" not in entry
    here = {
        "hostname": "dev-machine-1",
        "cwd": str(project.root),
        "git_commit": project.git("rev-parse", "--short", "HEAD"),
    }
    assert here.items() <= entry["environment"].items()
    assert "Environment: dev-machine-1 (" in done.stdout
    assert project.metadata["reload_count"] == 4
    assert project.metadata["last_artifact_reload"] > LAST_RELOAD
    assert {load["load_trigger"] for load in project.metadata["artifacts_in_context"]} == {"manual"}
    project.assert_projected()


def test_a_dry_run_adopts_nothing(tmp_path: Path) -> None:
    project = spec_project(tmp_path)
    before = project.state_path.read_bytes()
    assert project.faber("session-load", "--dry-run").returncode == 0
    assert project.state_path.read_bytes() == before
    assert not project.ledger_path.exists()


@pytest.mark.parametrize("way", ["session-save", "session-end", "SessionEnd"])
def test_where_no_session_is_open_the_state_keeps_its_bytes(tmp_path: Path, way: str) -> None:
    project = spec_project(tmp_path, current_session_id=None, total_sessions=1)
    before = project.state_path.read_bytes()
    result: Any = project.deliver(END) if way == "SessionEnd" else ENDINGS[way][0](project)
    assert project.state_path.read_bytes() == before
    assert not project.state_path.with_name("state.json.backup").exists()
    if way.startswith("session-"):
        assert result.returncode == 0
        assert "⚠️  No current session to end\n" in result.stdout
        assert f"⚠️  Session already ended\n   Session ID: {EARLIER}\n" in result.stdout
    else:
        assert not project.ledger_path.exists()
        assert "this client has no session on" in project.log_lines[0]


@pytest.mark.long
@pytest.mark.parametrize("way", few(ENDINGS, 2))
def test_an_open_session_that_is_in_the_history_is_updated_there(tmp_path: Path, way: str) -> None:
    history = spec_state()["sessions"]["session_history"]
    entry = {"session_id": OPEN, "started_at": "2026-01-05T14:00:00Z", "artifacts_loaded": ["specification"], "mine": 1}
    project = spec_project(tmp_path, session_history=[*history, entry])
    end, reason = ENDINGS[way]
    end(project)
    earlier, ended = project.history
    assert earlier == history[0]
    assert (ended["end_reason"], ended["started_at"], ended["mine"]) == (reason, "2026-01-05T14:00:00Z", 1)
    assert ended["artifacts_loaded"] == ["specification", "workflow-state"]
    assert ended["environment"]["hostname"] == "dev-machine-1"
    project.assert_projected()


@pytest.mark.long
@pytest.mark.parametrize(("way", "last_reload"), few(pair(ENDINGS, [LAST_RELOAD, None]), 2))
def test_a_session_without_a_start_gets_the_last_reloads_or_now(
    tmp_path: Path, way: str, last_reload: str | None
) -> None:
    project = spec_project(tmp_path, session_history=[{"session_id": OPEN}])
    if last_reload is None:
        project.change_state(context_metadata=None)
    ENDINGS[way][0](project)
    (entry,) = project.history
    assert entry["started_at"] == (last_reload or entry["ended_at"])
    assert list(entry)[:3] == ["session_id", "started_at", "ended_at"]
    project.assert_projected()


@pytest.mark.long
@pytest.mark.parametrize("way", few(EVERYTHING, 3))
def test_what_the_session_knew_of_its_environment_stays(tmp_path: Path, way: str) -> None:
    known = {"hostname": "dev-machine-1", "platform": None, "shell": "zsh"}
    entry = {"session_id": OPEN, "started_at": "2026-01-05T14:00:00Z", "environment": known}
    project = spec_project(tmp_path, session_history=[entry])
    EVERYTHING[way](project)
    found = project.state["sessions"]["session_history"][0]["environment"]
    assert (found["hostname"], found["shell"]) == ("dev-machine-1", "zsh")
    if way in ENDINGS:
        assert found["platform"]
        assert found["cwd"] == str(project.root)
        assert found["git_commit"] == project.git("rev-parse", "--short", "HEAD")
    project.assert_projected()


@pytest.mark.parametrize("way", ["session-save", "session-end"])
def test_an_incomplete_environment_of_another_machine_is_replaced_as_a_whole(tmp_path: Path, way: str) -> None:
    known = {"hostname": "laptop", "platform": "darwin", "cwd": "/Users/dev/myproject"}
    entry = {"session_id": OPEN, "started_at": "2026-01-05T14:00:00Z", "environment": known}
    project = spec_project(tmp_path, session_history=[entry])
    ENDINGS[way][0](project)
    found = project.history[0]["environment"]
    commit = project.git("rev-parse", "--short", "HEAD")
    assert (found["hostname"], found["cwd"], found["git_commit"]) == ("dev-machine-1", str(project.root), commit)
    assert found["platform"] != "darwin" or sys.platform == "darwin"
    project.assert_projected()


# Blocks that are not what they should be

ODD: dict[str, dict[str, Any]] = {
    "absent": {},
    "null": {"sessions": None, "context_metadata": None},
    "empty": {"sessions": {}, "context_metadata": {}},
    "lists": {"sessions": [], "context_metadata": []},
    "numbers": {"sessions": 7, "context_metadata": 1.5},
    "texts": {"sessions": "none", "context_metadata": ""},
    "null inside": {
        "sessions": {"current_session_id": None, "total_sessions": None, "session_history": None},
        "context_metadata": {"last_artifact_reload": None, "reload_count": None, "artifacts_in_context": None},
    },
    "other kinds inside": {
        "sessions": {"current_session_id": 7, "total_sessions": "two", "session_history": {"a": 1}},
        "context_metadata": {"last_artifact_reload": 7, "reload_count": "three", "artifacts_in_context": "all"},
    },
    "entries of other kinds": {
        "sessions": {
            "current_session_id": OPEN,
            "total_sessions": 9,
            "session_history": [None, 7, "text", [], {}, {"session_id": 7}, {"session_id": None}, {"session_id": ""}],
        },
        "context_metadata": {"artifacts_in_context": [None, 7, [], {}, {"artifact_id": 7}, {"artifact_id": "mine"}]},
    },
    "the same session twice": {
        "sessions": {"current_session_id": OPEN, "session_history": [{"session_id": OPEN}, {"session_id": OPEN}]}
    },
    "values of other kinds in the open session": {
        "sessions": {
            "current_session_id": OPEN,
            "session_history": [
                {
                    "session_id": OPEN,
                    "started_at": 7,
                    "ended_at": "",
                    "phases_completed": "frame",
                    "environment": [],
                    "artifacts_loaded": {"a": 1},
                }
            ],
        }
    },
}


@pytest.mark.long
@pytest.mark.parametrize(("odd", "way"), pair(ODD, EVERYTHING))
def test_odd_blocks_stop_nothing(tmp_path: Path, odd: str, way: str) -> None:
    project = Project.made(tmp_path / "myproject", {**usual_state(), **copy.deepcopy(ODD[odd]), "after": [1.50]})
    before = project.state
    result = EVERYTHING[way](project)
    if way.startswith("session-"):
        assert result.returncode == 0, result.stderr
    else:
        assert result.code == 0
        assert [
            line for line in project.log_lines if "o active workflow" not in line and "no session on" not in line
        ] == []
    untouched(before, project.state)
    if way in ("SessionStart", "session-load"):
        assert project.history[-1]["session_id"] == project.current
        assert "workflow-state" in project.in_context
    elif way in ("PreCompact", "SessionEnd") or (way in ENDINGS and OPEN in str(before)):
        assert project.current is None  # a client that is at work has a session, if only an inferred one
        assert project.history[-1]["end_reason"] == ENDINGS[way][1]
    else:
        assert project.state == before  # nothing was open, so nothing is made of it
    if project.ledger_path.exists():
        project.assert_projected()


@pytest.mark.parametrize(
    "phases",
    [
        [{"phase_name": "build", "status": "completed"}, {"phase_name": "frame", "status": "completed"}, 7, {}],
        [{"name": "build", "status": "completed"}, {"id": "frame", "status": "completed"}, {"name": "release"}],
        {"build": {"status": "completed"}, "frame": {"status": "completed"}, "evaluate": None, "release": {}},
    ],
)
def test_phases_are_read_as_a_list_and_as_an_object(tmp_path: Path, phases: Any) -> None:
    project = spec_project(tmp_path)
    project.change_state(phases=phases)
    ENDINGS["session-save"][0](project)
    assert project.history[-1]["phases_completed"] == ["frame", "build"]


# The file as others wrote it

FILE = """\
{
\t"run_id":   "%s" ,
    "workflow_id":"fractary-faber:default", "status" : "in_progress",
  "precise": 1.10, "tiny": 1e-7, "large": 12345678901234567890123456789, "minus": -0.0,
  "escaped": "\\u00fc \\ud83e\\udd80 \\/ \\ud800", "plain": "ü 🦀",
  "sessions": {"current_session_id": "%s", "session_history": []},
  "twice": 1, "twice": 2,
     "last" : [ 1,2 ,
  3 ]
}%s"""


FORMS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text.replace("\n", "\r\n") + "\r\n\r\n",
    lambda text: re.sub(r"\n\s*", " ", text),
    lambda text: "\n \n" + text + "\n",
]


@pytest.mark.long
@pytest.mark.parametrize(("way", "form"), pair(EVERYTHING, FORMS))
def test_every_byte_of_the_other_keys_stays(tmp_path: Path, form: Callable[[str], str], way: str) -> None:
    text = form(FILE % (RUN, OPEN, ""))
    project = Project.made(tmp_path / "myproject", text)
    EVERYTHING[way](project)
    after = project.state_path.read_bytes().decode()
    if way == "PostCompact":
        assert after == text
        return
    start = text.index('{"current_session_id"')
    end = text.index("}", start) + 1
    assert after.startswith(text[:start])
    rest = text[end:]
    kept = rest[: rest.rindex("]") + 1]  # a block that was not there is added at the end
    tail = rest[rest.rindex("]") + 1 :]
    assert kept in after
    assert after.endswith(tail.lstrip(" ")) if "context_metadata" not in text else after.endswith(rest)
    assert ("\r\n" in after) is ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text
    project.assert_projected()
