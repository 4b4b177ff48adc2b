"""A finished, committed run: only `seal RUN` publishes it, and counts what it stages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import LEDGER, RUN, STATE, Clone


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    """A clone with a finished run that is committed with the blocks that it had before its last session."""
    clone = Clone.first(tmp_path / "one")
    before = clone.state
    clone.record("last")
    clone.end("last")
    clone.put({**before, "status": "completed", "current_phase": "release"})
    clone.commit("merged by a line, without the driver", "--no-verify")
    assert clone.faber("verify", RUN).stdout == f"{RUN}: sound\n"
    return clone


@pytest.mark.parametrize("command", [["seal"], ["seal", "--all"], ["project", RUN]], ids=" ".join)
def test_no_other_command_changes_it(one: Clone, command: list[str]) -> None:
    one.faber(*command)
    assert one.git("status", "--porcelain") == ""


def test_a_seal_of_the_named_run_publishes_it(one: Clone) -> None:
    one.faber("seal", RUN)
    assert one.git("status", "--porcelain") == f"M  {STATE}\n"
    assert one.state["current_phase"] == "release"
    one.assert_sound()


def test_a_session_that_the_ledger_does_not_know_is_not_written_over(one: Clone) -> None:
    state = one.state
    state["sessions"]["session_history"].append(
        {**state["sessions"]["session_history"][0], "session_id": "sess-of-another-tool"}
    )
    one.put(state)
    one.commit("another tool's session")
    one.faber("seal", "--all")
    assert one.state == state
    assert one.git("diff", "HEAD", "--name-only", "--", LEDGER) == ""
