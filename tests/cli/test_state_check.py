"""`replay --check`: names a state that was edited or left behind by a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.project import Project
from support.sample_log import FIRST, RUN, write_run, write_state

from faber_ledger.projections.agreement import explain_differences, find_best_fit
from faber_ledger.projections.fold import fold


@pytest.fixture
def project(tmp_path: Path) -> Project:
    write_run(tmp_path)
    return Project(tmp_path, RUN)


def checked(project: Project, code: int = 21) -> dict[str, Any]:
    done = project.faber("replay", "--check", "--json")
    assert (done.returncode, done.stderr) == (code, "")
    state: dict[str, Any] = json.loads(done.stdout)["data"]["state"]
    return state


def test_an_edited_field_is_named_with_both_values_and_its_event(project: Project) -> None:
    state = project.state
    state["sessions"]["session_history"][1]["end_reason"] = "manual"
    project.put_state(state)
    tree = checked(project)
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
        tree = checked(project)
        assert tree["outcome"] == "behind"
        lacked = tree["first"]["event"]["seq"]
        assert fold(project.events[:count]) == fold(project.events[: lacked - 1]) != fold(project.events[:lacked])
    lines = project.faber("replay", "--check").stdout
    assert "shows the log up to event 9 01KE" in lines
    assert "2 events since" in lines
    assert f"hint: run `faber-ledger project {RUN}` to write what it lacks" in lines


def test_a_state_that_cannot_be_read_is_reported(project: Project) -> None:
    project.state_path.write_text("{")
    assert checked(project)["outcome"] == "unreadable"


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
