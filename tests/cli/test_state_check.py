"""`replay --check`: names a state that was edited, left behind by a crash, or taken from one side of a merge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.project import Project
from support.sample_log import FIRST, RUN, START, history, write_run, write_state

from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.agreement import explain_differences, find_best_fit
from faber_ledger.projections.fold import fold


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run whose ledger and state are committed and agree."""
    root = tmp_path / "project"
    write_run(root)
    made = Project(root, RUN)
    made.git("init", "--quiet", "--initial-branch=main")
    made.write(".fractary/.gitignore", "faber/.active-run-id\n")
    made.git("add", "--all")
    made.git("commit", "--quiet", "-m", "Begin")
    return made


def checked(project: Project, code: int = 21) -> tuple[dict[str, Any], dict[str, Any]]:
    done = project.faber("replay", "--check", "--json")
    assert (done.returncode, done.stderr) == (code, "")
    tree, head = json.loads(done.stdout)["data"]["states"]
    assert (tree["where"], head["where"]) == ("the work tree", "HEAD")
    return tree, head


def test_an_edited_field_is_named_with_both_values_and_its_event(project: Project) -> None:
    state = project.state
    state["sessions"]["session_history"][1]["end_reason"] = "manual"
    project.put_state(state)
    tree, head = checked(project)
    assert head["outcome"] == "agrees"
    assert (tree["outcome"], tree["differing"], tree["events_since"]) == ("differs", 1, 0)
    first = tree["first"]
    assert first["field"] == f"sessions.session_history[{FIRST}].end_reason"
    assert (first["expected"], first["found"], first["event"]["seq"]) == ("normal", "manual", 10)
    lines = project.faber("replay", "--check").stdout
    assert "agrees best up to event 11" in lines
    assert '    the log says:        "normal"\n    state.json says:     "manual"\n' in lines
    assert "    by the event:        10  2026" in lines
    assert f"hint: run `faber-ledger verify {RUN}`" in lines


def test_a_state_that_a_crash_left_behind_is_reported_with_the_first_event_it_lacks(project: Project) -> None:
    for count in (0, 3, 7, 9):
        write_state(project.run, fold(project.events[:count]))
        tree, _ = checked(project)
        assert tree["outcome"] == "behind"
        lacked = tree["first"]["event"]["seq"]
        assert fold(project.events[:count]) == fold(project.events[: lacked - 1]) != fold(project.events[:lacked])
    lines = project.faber("replay", "--check").stdout
    assert "shows the log up to event 9 01KE" in lines
    assert "2 events since" in lines
    assert f"hint: run `faber-ledger project {RUN}` to write what it lacks" in lines


def test_the_state_of_one_side_of_a_merge_is_recognized(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    shutil.copy(project.ledger_path, other)
    for path, name in ((project.ledger_path, "laptop"), (other, "desktop")):
        with Log.open(str(path)) as log:
            started: Any = {**history()[2], "session_id": f"claude-session-20260107-090000-{name}"}
            log.append([{"event": started}], at=START + 1000, writer=name)
            reloaded: Any = {**history()[6], "session_id": started["session_id"]}
            log.append([{"event": reloaded}], at=START + 1010, writer=name)
            log.commit()
    with Log.read(str(other)) as log:
        theirs = fold(log.stream())
    write_union([str(project.ledger_path), str(other)], str(project.ledger_path))
    write_state(project.run, theirs)
    tree, head = checked(project)
    assert (tree["outcome"], head["outcome"]) == ("side", "agrees")
    assert tree["first"]["event"]["writer"] == "laptop"
    assert "what one side of a merge had" in project.faber("replay", "--check").stdout
    with Log.open(str(project.ledger_path)) as log:  # the next append names both sides as its parents
        log.append([{"event": history()[8]}], at=START + 2000, writer="laptop")
        log.commit()
    assert checked(project)[0]["outcome"] == "side"


def test_what_was_committed_is_held_against_the_ledger_committed_with_it(project: Project) -> None:
    state = project.state
    state["sessions"]["total_sessions"] = 9
    project.put_state(state)
    project.git("commit", "--quiet", "-am", "Edited")
    assert project.faber("project").returncode == 0
    tree, head = checked(project)
    assert (tree["outcome"], head["outcome"]) == ("agrees", "differs")
    assert (head["first"]["field"], head["first"]["found"]) == ("sessions.total_sessions", 9)
    project.git("commit", "--quiet", "-am", "Mended")
    with Log.open(str(project.ledger_path)) as log:
        log.append([{"event": history()[9]}], at=START + 900, writer="w")
        log.commit()
    project.faber("project")
    checked(project, code=0)


def test_a_state_that_cannot_be_read_and_one_that_git_does_not_have_are_reported(project: Project) -> None:
    project.state_path.write_text("{")
    tree, head = checked(project)
    assert (tree["outcome"], head["outcome"]) == ("unreadable", "agrees")
    shutil.rmtree(project.root / ".git")
    write_state(project.run, fold(project.events))
    project.write(".fractary/faber/.active-run-id", f"{project.run_id}\n")
    tree, head = checked(project, code=0)
    assert (tree["outcome"], head["outcome"]) == ("agrees", "missing")


@given(histories(15), st.data())
@settings(max_examples=100)
def test_an_older_fold_of_any_history_is_found_exactly(drawn: list[Any], data: st.DataObject) -> None:
    # An empty block has no single value to compare.
    assume(all({} not in fold(drawn[:count]).values() for count in range(len(drawn) + 1)))
    position = data.draw(st.integers(0, len(drawn)))
    blocks = fold(drawn[:position])
    fit = find_best_fit(drawn, blocks)
    assert fit["position"] >= position
    assert explain_differences(lambda: drawn[: fit["position"]], blocks, 20) == (0, [])
