"""`faber-ledger resolve` and a state.json with conflict markers, committed or not, in every layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clones import STATE, Clone
from support.command import COMMAND
from support.layouts import LAYOUTS, Layout, begin_two, seen


def stop_with_markers(one: Clone, other: Clone, style: str = "merge") -> None:
    """Merge another machine's session without the driver, so that git writes markers into state.json."""
    one.change(updated_at="2026-01-06T10:00:00Z", status="paused", mine=1, notes={"a": 10, "b": 2, "c": 3})
    other.change(updated_at="2026-01-07T10:00:00Z", theirs=2, artifacts={"x": "y"}, notes={"a": 1, "b": 20, "c": 3})
    one.advance("here")
    other.advance("there")
    one.git("config", "merge.conflictStyle", style)
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    assert one.state_path.read_text().count("<<<<<<< ") >= 1


def commit_markers(one: Clone) -> None:
    """Commit the markers, as a colleague without the program does."""
    one.git("checkout", "--theirs", "--", str(one.ledger))
    one.git("add", "-A")
    one.git("commit", "-qm", "with markers")
    assert "<<<<<<< " in one.git("show", f"HEAD:{one.state_path.relative_to(one.root)}")


def assert_both(one: Clone, run_id: str) -> None:
    """Check that the state has both sides' keys, that it shows the ledger, and that all of it is staged."""
    assert one.state["notes"] == {"a": 10, "b": 20, "c": 3}  # neighbours, which are one hunk
    names = ("status", "mine", "theirs", "artifacts", "updated_at")
    assert [one.state[name] for name in names] == ["paused", 1, 2, {"x": "y"}, "2026-01-07T10:00:00Z"]
    assert one.faber("verify", run_id).stdout == f"{run_id}: sound\n"
    assert [line for line in one.git("status", "--porcelain").splitlines() if line[1] != " "] == []


@pytest.mark.parametrize("layout", [LAYOUTS["fabers"], LAYOUTS["shared"]])
def test_committed_markers_are_resolved_and_staged(tmp_path: Path, layout: Layout) -> None:
    one, other = begin_two(tmp_path, layout)
    stop_with_markers(one, other)
    commit_markers(one)
    for command in (["status"], ["project"], ["project", "--restore"], ["verify", layout.run_id], ["seal"]):
        done = one.call(str(COMMAND), *command)
        assert done.returncode != 0
        assert "`faber-ledger resolve`" in done.stdout + done.stderr, command
    before = one.state_path.read_bytes()
    line = f"{layout.state}: our blocks, and both sides' keys\n"
    assert one.faber("resolve", "--dry-run").stdout == f"would resolve  {line}"
    assert one.state_path.read_bytes() == before
    assert one.faber("resolve").stdout == f"resolved  {line}"
    assert_both(one, layout.run_id)
    assert f"M  {layout.state}\n" in one.git("status", "--porcelain")
    one.git("commit", "-qm", "resolved")
    assert one.faber("resolve").stdout == "no files of runs are in conflict\n"


@pytest.mark.parametrize(("style", "newline"), [("merge", "\r\n"), ("zdiff3", "\n")])
def test_markers_of_every_style_that_came_with_a_pull_are_resolved(tmp_path: Path, style: str, newline: str) -> None:
    one, other = begin_two(tmp_path)
    stop_with_markers(one, other, style)
    one.state_path.write_bytes(one.state_path.read_bytes().replace(b"\n", newline.encode()))
    commit_markers(one)
    third = seen(one.clone("third"), LAYOUTS["ours"])
    third.faber("resolve")
    assert_both(third, "issue-258")


def put_markers(clone: Clone, hunks: list[tuple[str, str, str]]) -> None:
    """Put markers into the state: for each hunk, a line of the file, and the two sides' lines in its place."""
    text = clone.state_path.read_text()
    for line, ours, theirs in hunks:
        assert line in text
        text = text.replace(line, f"<<<<<<< HEAD\n{ours}\n=======\n{theirs}\n>>>>>>> theirs")
    clone.state_path.write_text(text)


def test_the_base_that_markers_have_says_which_side_changed_a_key(tmp_path: Path) -> None:
    """After a rebase no commit has both sides as parents."""
    one, _ = begin_two(tmp_path)
    phase = f'  "current_phase": {json.dumps(one.state["current_phase"])},'
    put_markers(one, [(phase, '  "current_phase": "release",\n||||||| base\n' + phase, f'{phase}\n  "theirs": 2,')])
    one.commit("edited by hand")
    one.faber("resolve")
    assert [one.state[name] for name in ("current_phase", "theirs")] == ["release", 2]


def test_markers_that_are_around_no_state_are_replaced_by_this_clones_copy(tmp_path: Path) -> None:
    one, _ = begin_two(tmp_path)
    one.change(status="paused", mine=1)
    one.advance("second")
    put_markers(one, [('  "mine": 1', '  "mine": [', '  "mine": {')])
    one.commit("broken")
    line = f"{one.state_path.relative_to(one.root)}: neither side can be read: this clone's copy is used"
    assert one.faber("resolve").stdout == f"resolved  {line}\n"
    assert one.state["mine"] == 1
    assert one.faber("verify", "issue-258").stdout == "issue-258: sound\n"


def test_the_sign_of_a_marker_inside_a_text_is_no_conflict(tmp_path: Path) -> None:
    one, _ = begin_two(tmp_path)
    one.change(notes="a\n<<<<<<< HEAD\n=======\n>>>>>>> x", more="<<<<<<< HEAD")
    one.commit("a text")
    before = one.state_path.read_bytes()
    assert one.faber("resolve").stdout == "no files of runs are in conflict\n"
    one.faber("project")
    assert one.state_path.read_bytes() == before


@pytest.mark.parametrize("is_ours", [False, True], ids=["their link", "our link"])
def test_a_side_that_is_a_link_is_left_with_the_command_that_takes_the_file(tmp_path: Path, is_ours: bool) -> None:
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
