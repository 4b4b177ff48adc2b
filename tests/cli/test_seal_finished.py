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
    clone.git("add", "-A")
    clone.git("commit", "-qm", "merged by a line, without the driver", "--no-verify")
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


def test_the_end_of_a_run_that_is_not_committed_as_finished_is_sealed(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    one.record("last")
    one.commit("the work")
    one.put({**one.state, "status": "completed"})
    one.end("last")
    said = one.faber("seal").stdout
    one.git("commit", "-qm", "done")
    assert one.git("status", "--porcelain") == ""
    assert "ended_at" in one.state["sessions"]["session_history"][-1]
    assert one.state["sessions"]["current_session_id"] is None
    assert said.startswith(f"{RUN}: {len(one.ids())} events; staged {LEDGER}, ")
    fresh = one.clone("fresh")
    assert fresh.ids() == one.kept_ids()


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


@pytest.mark.parametrize("command", [["seal"], ["run", "finish"], ["project", RUN]], ids=" ".join)
def test_the_backup_of_a_finished_run_is_removed_if_nothing_is_left_to_record(
    tmp_path: Path, command: list[str]
) -> None:
    one = Clone.first(tmp_path / "one")
    one.record("last")
    one.end("last")
    one.put({**one.state, "status": "completed"})
    backup = one.state_path.with_name("state.json.backup")
    assert backup.exists()
    one.faber(*command)
    assert not backup.exists()
