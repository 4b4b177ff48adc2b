"""Whose `state.json` a clone has where ledgers travel in git refs, and git ignores it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.carried import CarriedClone, agree
from support.clones import RUN

LATER, LATEST = "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone whose run was sent, with a state that git ignores."""
    clone = CarriedClone.started(tmp_path / "one")
    clone.git("rm", "--cached", "-rq", ".fractary/runs")
    (clone.root / ".gitignore").write_text("state.json\nmetadata.json\n")
    clone.commit("ignored")
    clone.git("push", "-q", "origin", "main")
    clone.sync()
    return clone


def bring(one: CarriedClone, name: str = "two") -> CarriedClone:
    """Clone, and bring the run."""
    two = one.second(name)
    assert not two.state_path.exists()
    two.faber("run", "resume", RUN, "--yes")
    return two


def advance(clone: CarriedClone, phase: str = "evaluate", at: str = LATER) -> None:
    clone.change(updated_at=at, current_phase=phase)


@pytest.mark.parametrize("way", ["sync", "resume", "init"])
def test_a_newer_state_replaces_one_that_nobody_changed(one: CarriedClone, way: str) -> None:
    two = bring(one)
    two.sync()
    state = one.state
    del state["work_id"]
    one.put(state)
    advance(one)
    one.work("on the laptop")
    one.sync()
    if way == "sync":
        assert "state.json taken from origin (in_progress, evaluate)" in two.sync().stdout
    elif way == "resume":
        two.faber("run", "resume", RUN, "--yes")
    else:
        one.change(branch="feat/258", updated_at=LATEST)
        one.sync()
        two.git("switch", "-q", "-c", "feat/258")
        two.faber("init", "--git-only", "--carry", "refs", "--no-auto-send", "--fetch")
    assert two.state["current_phase"] == "evaluate"
    assert "work_id" not in two.state
    assert len(two.state["sessions"]["session_history"]) == len(two.clients())
    assert two.faber("verify").stdout == f"{RUN}: sound\n"
    two.sync()
    assert one.sync().stdout.count("state.json") == 0


def test_a_push_alone_leaves_an_older_state(one: CarriedClone) -> None:
    two = bring(one)
    two.sync()
    advance(one)
    one.sync()
    before = two.state
    done = two.sync("--push")
    assert "is newer (in_progress, evaluate) than the one here, which `--push` leaves: `faber-ledger run" in done.stderr
    assert two.state == before
    two.faber("run", "resume", RUN, "--yes")
    assert two.state["current_phase"] == "evaluate"


def test_a_session_here_does_not_keep_an_older_state(one: CarriedClone) -> None:
    two = bring(one)
    two.work("on the desktop")
    advance(one)
    one.sync()
    two.sync()
    assert two.state["current_phase"] == "evaluate"
    assert len(two.state["sessions"]["session_history"]) == 2


def test_a_state_that_was_changed_here_stays_and_is_said(one: CarriedClone) -> None:
    two = bring(one)
    two.change(note="mine")
    advance(one)
    one.sync()
    done = two.sync()
    line = f"{RUN}: the state at origin is newer (in_progress, evaluate) than the one here, which was changed here"
    assert done.stderr.count(line) == 1
    advance(one, "release", LATEST)
    one.sync()
    assert line.replace("evaluate", "release") in two.sync().stderr
    assert two.state["note"] == "mine"


def test_the_next_start_says_what_the_background_found(one: CarriedClone) -> None:
    two = bring(one)
    agree(two.root, auto=True)
    two.change(note="mine")
    advance(one)
    one.sync()
    two.record("second")
    two.end("second")
    two.wait_for_sender()
    said = "the state at origin is newer (in_progress, evaluate) than the one here, which was changed here"
    assert "1 warning" in two.start_line("third")
    assert said in two.faber("status").stdout
    assert "warning" not in two.start_line("fourth")


def test_a_state_that_git_tracks_is_left_to_git(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.sync()
    two = one.second("two")
    two.sync()
    advance(one)
    one.sync()
    assert "than the one here, which git tracks" in two.sync().stderr
    assert two.state["current_phase"] != "evaluate"


def test_a_change_with_the_same_time_is_sent(one: CarriedClone) -> None:
    one.change(current_phase="evaluate")
    assert one.sync().stdout == f"{RUN}: its state sent to origin\n"
    assert json.loads(one.origin.content("state.json"))["current_phase"] == "evaluate"
    one.state_path.touch()
    assert one.sync().stdout == "nothing new at origin\n"


def test_a_change_with_an_older_time_is_not_sent(one: CarriedClone) -> None:
    one.change(current_phase="evaluate", updated_at="2020-01-01T00:00:00Z")
    assert one.sync().stdout == "nothing new at origin\n"
