"""`faber-ledger resolve` and a state.json in conflict, in every layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import STATE, Clone
from support.command import COMMAND
from support.layouts import LAYOUTS, Layout, begin_two


def stop_with_markers(one: Clone, other: Clone) -> None:
    """Merge another machine's session without the driver, so that git writes markers into state.json."""
    one.change(updated_at="2026-01-06T10:00:00Z", status="paused", mine=1, notes={"a": 10, "b": 2, "c": 3})
    other.change(updated_at="2026-01-07T10:00:00Z", theirs=2, artifacts={"x": "y"}, notes={"a": 1, "b": 20, "c": 3})
    one.advance("here")
    other.advance("there")
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    assert one.state_path.read_text().count("<<<<<<< ") >= 1


def assert_both(one: Clone, run_id: str) -> None:
    """Check that the state has both sides' keys, that it shows the ledger, and that all of it is staged."""
    assert one.state["notes"] == {"a": 10, "b": 20, "c": 3}  # neighbours, which are one hunk
    names = ("status", "mine", "theirs", "artifacts", "updated_at")
    assert [one.state[name] for name in names] == ["paused", 1, 2, {"x": "y"}, "2026-01-07T10:00:00Z"]
    assert one.faber("verify", run_id).stdout == f"{run_id}: sound\n"
    assert [line for line in one.git("status", "--porcelain").splitlines() if line[1] != " "] == []


@pytest.mark.parametrize("layout", [LAYOUTS["fabers"], LAYOUTS["shared"]])
def test_a_state_in_conflict_is_resolved_and_staged(tmp_path: Path, layout: Layout) -> None:
    one, other = begin_two(tmp_path, layout)
    stop_with_markers(one, other)
    commands = (["status"], ["project"], ["project", "--restore"], ["verify", layout.run_id], ["seal"])
    for command in (*commands, ["session-save"], ["reconstitute"]):
        done = one.call(str(COMMAND), *command)
        assert done.returncode != 0
        assert "--restore`" not in done.stdout + done.stderr, command  # a backup would lose keys of one side
        assert "`faber-ledger resolve`" in done.stdout + done.stderr, command
    before = one.state_path.read_bytes()
    line = f"{layout.state}: faber-ledger's two blocks, and both sides' keys\n"
    assert f"would resolve  {line}" in one.faber("resolve", "--dry-run").stdout
    assert one.state_path.read_bytes() == before
    assert f"resolved  {line}" in one.faber("resolve").stdout
    assert_both(one, layout.run_id)
    assert f"M  {layout.state}\n" in one.git("status", "--porcelain")
    one.git("commit", "-qm", "resolved")
    assert one.faber("resolve").stdout == "no files of runs are in conflict\n"


@pytest.mark.parametrize("is_ours", [False, True], ids=["their link", "our link"])
def test_a_link_as_a_side_is_left_with_a_command(tmp_path: Path, is_ours: bool) -> None:
    one = Clone.first(tmp_path / "one")
    outside = tmp_path / "outside"
    outside.write_text("{}")
    one.git("checkout", "-qb", "linked")
    one.state_path.unlink()
    one.state_path.symlink_to(outside)
    one.commit("a link")
    one.git("checkout", "-q", "main")
    one.advance("second")
    state = one.state
    if is_ours:
        one.git("checkout", "-q", "linked")
    one.git("merge", "-q", "main" if is_ours else "linked", code=1)
    assert "faber-ledger resolve" in one.call(str(COMMAND), "project").stderr
    for options in (["--dry-run"], []):
        said = one.faber("resolve", *options, code=1).stdout
        assert f"left      {STATE}: a link is in its place, which is not followed: " in said
    assert outside.read_text() == "{}"
    one.git(*said.split("`")[1].replace("COMMIT", "main").split()[1:])
    one.git("rm", "-q", "--ignore-unmatch", "--", f"{STATE}~*")
    one.faber("resolve")
    one.git("commit", "-qm", "merged")
    assert (one.state, one.state_path.is_symlink()) == (state, False)
    assert (outside.read_text(), one.git("status", "--porcelain")) == ("{}", "")
    one.assert_sound()
