"""A finished, committed run whose blocks a merge left wrong: `seal` and the pre-commit hook write them again."""

from __future__ import annotations

import json
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
    clone.commit("merged by a line, without the driver")
    difference = clone.faber("verify", "--all", code=21).stdout
    assert "is not what the log says" in difference
    assert f"`faber-ledger project {RUN}`" in clone.faber("status").stdout
    return clone


@pytest.mark.parametrize("command", [["seal"], ["seal", "--all"], ["seal", RUN], ["project", RUN]])
def test_the_blocks_are_written_again(one: Clone, command: list[str]) -> None:
    ledger = one.ledger.read_bytes()
    one.faber(*command)
    assert one.ledger.read_bytes() == ledger
    one.assert_sound()
    assert one.state["current_phase"] == "release"
    status = one.git("status", "--porcelain")
    assert status == (f" M {STATE}\n" if command[0] == "project" else f"M  {STATE}\n")
    one.commit("right")
    assert one.faber("seal", "--all").stdout == "1 run unchanged\n"
    assert one.git("status", "--porcelain") == ""


def test_seal_all_lists_it(one: Clone) -> None:
    assert f"{RUN}: " in one.faber("seal", "--all").stdout
    assert [run["changed"] for run in json.loads(one.faber("seal", "--all", "--json").stdout)["data"]["runs"]] == [[]]


def test_the_pre_commit_hook_takes_it_along(one: Clone) -> None:
    one.faber("init", "--git-only", "--pre-commit")
    (one.root / "code.txt").write_text("code\n")
    one.git("add", "code.txt")
    one.git("commit", "-qm", "code")
    fresh = one.clone("fresh")
    fresh.assert_sound()


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


def test_seal_counts_only_what_it_stages(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    before = one.state
    one.record("last")
    one.put({**before, "status": "completed"})
    one.commit("finished, while the last session was open")
    one.end("last")
    assert one.kept_ids() > one.ids()
    assert one.faber("seal").stdout.startswith(f"{RUN}: {len(one.ids())} events; ")


def test_events_that_only_the_mirror_has_stay_there(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    before = one.state
    one.record("last")
    one.put({**before, "status": "completed"})
    one.commit("merged by a line, while the last session was open")
    one.end("last")  # below the git directory, so that main stays clean
    ledger = one.ledger.read_bytes()
    assert one.kept_ids() > one.ids()
    one.faber("seal", "--all")
    assert one.ledger.read_bytes() == ledger
    assert one.git("status", "--porcelain") == f"M  {STATE}\n"
    assert "is not what the log says" not in one.faber("verify", RUN).stdout


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
