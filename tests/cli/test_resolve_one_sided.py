"""`faber-ledger resolve` where one side of a conflict lacks the run: git calls no driver there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.clones import LEDGER, RUN, STATE, Clone
from support.command import COMMAND
from support.layouts import LAYOUTS, Layout, begin, every_layout, seen

HERE = LAYOUTS["ours"]


def begin_on_feature(root: Path, layout: Layout = HERE) -> Clone:
    """Make a repository whose `main` lacks the run, and a branch `feature` with it, which is checked out."""
    one = begin(root, layout)
    one.git("checkout", "-q", "--orphan", "release")
    one.git("rm", "-rqf", "--", str(Path(layout.state).parent))
    (one.root / "code.py").write_text("x = 1\n")
    one.commit("no run yet")
    one.git("checkout", "-q", "main")
    one.git("merge", "-q", "--allow-unrelated-histories", "-m", "merge", "release")
    return one


def fix(one: Clone, client: str) -> str:
    """Record a session and commit it with a change of the code, and give the commit's name."""
    (one.root / "code.py").write_text(f"x = '{client}'\n")
    one.advance(client)
    return one.git("rev-parse", "HEAD").strip()


def mirrored(one: Clone, run_id: str) -> set[str]:
    return one.ids(one.root / ".git/faber-ledger/runs" / run_id / "ledger.db")


def conflicts(one: Clone) -> list[str]:
    return sorted(line for line in one.git("status", "--porcelain").splitlines() if line[:2] in ("DU", "UD", "UU"))


@every_layout
def test_a_backport_leaves_the_run_out_and_loses_no_event(tmp_path: Path, layout: Layout) -> None:
    one = begin_on_feature(tmp_path / "one", layout)
    picked = fix(one, "fix")
    recorded = one.ids()
    one.git("checkout", "-q", "release")
    one.git("cherry-pick", picked, code=1)
    assert conflicts(one) == sorted([f"DU {layout.ledger}", f"DU {layout.state}"])
    hint = "`faber-ledger resolve`"
    for command in (["seal"], ["status"], ["verify", layout.run_id], ["doctor"], ["project"]):
        done = one.call(str(COMMAND), *command)
        assert hint in done.stdout + done.stderr, (command, done.stdout, done.stderr)
    assert f"would resolve  {layout.ledger}: left out of this branch\n" in one.faber("resolve", "--dry-run").stdout
    assert len(conflicts(one)) == 2
    output = one.faber("resolve").stdout
    kept = f"left out of this branch; this clone keeps its {len(recorded)} events and goes on recording"
    assert output == f"resolved  {layout.ledger}: {kept}\nresolved  {layout.state}: {kept}\n"
    assert one.git("status", "--porcelain").splitlines() == ["M  code.py"]
    assert mirrored(one, layout.run_id) >= recorded
    one.git("cherry-pick", "--continue")
    one.git("diff", "--quiet", "HEAD", "--", ".")
    assert layout.state not in one.git("ls-files")
    assert "Phase: " in one.faber("status", layout.run_id).stdout


def test_the_next_hook_records_below_the_git_directory_and_the_branch_gets_it_back(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    picked = fix(one, "fix")
    one.git("checkout", "-q", "release")
    one.git("cherry-pick", picked, code=1)
    one.record("while it stood still")
    recorded = one.ids()
    one.faber("resolve")
    assert not one.ledger.exists()
    assert mirrored(one, HERE.run_id) >= recorded
    before = mirrored(one, HERE.run_id)
    delivery = {"session_id": "next", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(one.root)}
    done = one.call("sh", "-c", f"printf '%s' '{json.dumps(delivery)}' | {COMMAND} hook session-start")
    assert done.returncode == 0
    assert mirrored(one, HERE.run_id) > before
    assert one.git("status", "--porcelain").splitlines() == ["M  code.py"]
    one.git("commit", "-qm", "fixed")
    one.git("checkout", "-q", "main")
    one.faber("project")
    assert {"fix", "while it stood still", "next"} <= one.clients()


def test_what_came_while_the_pick_stood_still_is_not_in_the_file_yet(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    picked = fix(one, "fix")
    fix(one, "after the fix")
    committed = one.ids()
    one.git("checkout", "-q", "release")
    one.git("cherry-pick", picked, code=1)
    one.record("while it stood still")
    one.faber("resolve")
    one.git("commit", "-qm", "fixed")
    one.git("checkout", "-q", "main")
    waits = len(mirrored(one, HERE.run_id) - one.ids())
    assert waits > 0
    output = one.faber("verify").stdout
    assert f"not in the file yet: {waits} events, " in output
    assert "rolled_back" not in output
    assert f"Not in the file yet: {waits} events" in one.faber("status", HERE.run_id).stdout
    one.git("reset", "-q", "--hard", "HEAD~1")  # git does take these away: they were in the branch
    lost = len(committed - one.ids())
    output = one.faber("verify", code=20).stdout
    assert f"not in the file yet: {waits} events, " in output
    assert f"rolled_back: this clone's mirror has {lost} events" in output


def test_what_is_not_committed_is_kept_where_checkout_m_brings_it(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    one.record("not committed")
    recorded = one.ids()
    shutil.rmtree(one.root / ".git/faber-ledger/runs")
    one.git("checkout", "-q", "-m", "release")
    assert conflicts(one) == [f"DU {HERE.ledger}", f"DU {HERE.state}"]
    assert "cat-file" not in one.faber("resolve").stderr  # our blocks come back from the log
    assert one.git("status", "--porcelain") == ""
    assert mirrored(one, HERE.run_id) == recorded
    one.git("checkout", "-q", "main")
    one.faber("project")
    assert one.ids() == recorded


def test_another_tools_change_that_no_commit_has_is_named(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    one.record("not committed")
    one.change(status="paused", updated_at="2026-02-01T00:00:00Z")
    one.git("checkout", "-q", "-m", "release")
    note = one.faber("resolve").stderr
    assert "state.json had changes that no commit has; `git cat-file blob " in note
    blob = note.partition("cat-file blob ")[2].partition("`")[0]
    assert json.loads(one.git("cat-file", "blob", blob))["status"] == "paused"
    assert "paused" in one.faber("status", HERE.run_id).stdout


def test_a_stash_that_is_popped_on_a_branch_without_the_run_leaves_it_out(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    one.record("stashed")
    recorded = one.ids()
    one.change(status="paused")
    one.git("stash", "-q")
    one.git("checkout", "-q", "release")
    one.git("stash", "pop", code=1)
    assert "cat-file" not in one.faber("resolve").stderr  # the stash has the state
    assert one.git("status", "--porcelain") == ""
    assert mirrored(one, HERE.run_id) >= recorded


def test_a_rebase_onto_a_branch_without_the_run_leaves_it_out(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    fix(one, "fix")
    one.git("checkout", "-q", "-b", "backport")
    one.git("rebase", "--onto", "release", "HEAD~1", code=1)
    one.faber("resolve")
    one.git("rebase", "--continue")
    assert HERE.state not in one.git("ls-files")
    assert one.git("status", "--porcelain") == ""


def test_a_revert_on_a_branch_without_the_run_leaves_it_out(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    reverted = fix(one, "fix")
    one.git("checkout", "-q", "release")
    (one.root / "code.py").write_text("x = 'fix'\n")
    one.commit("the same fix")
    one.git("revert", "--no-edit", reverted, code=1)
    one.faber("resolve")
    assert one.git("status", "--porcelain").splitlines() == ["M  code.py"]


def test_a_clone_that_never_used_the_run_keeps_nothing_of_it(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    picked = fix(one, "fix")
    one.git("branch", "-q", "feature")
    one.git("checkout", "-q", "release")
    other = seen(one.clone("other"), HERE)
    other.git("cherry-pick", picked, code=1)
    how = f"left out of this branch; commit {picked[:12]} has its events"
    assert other.faber("resolve").stdout == f"resolved  {HERE.ledger}: {how}\nresolved  {HERE.state}: {how}\n"
    assert other.git(
        "status",
        "--porcelain",
    ).splitlines() == ["M  code.py"]
    assert not (other.root / ".git/faber-ledger/runs" / HERE.run_id).exists()


def test_keep_brings_the_run_into_the_branch(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    picked = fix(one, "fix")
    recorded = one.ids()
    one.git("checkout", "-q", "release")
    one.git("cherry-pick", picked, code=1)
    assert f"resolved  {HERE.ledger}: the side that has it, " in one.faber("resolve", "--keep").stdout
    one.git("cherry-pick", "--continue")
    assert one.ids() == recorded
    assert one.faber("verify", HERE.run_id).stdout == f"{HERE.run_id}: sound\n"


def test_a_change_of_the_ledger_alone_is_left_out(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    one.record("fix")
    one.git("add", HERE.ledger)
    one.git("commit", "-qm", "the ledger alone")
    one.git("checkout", "-q", "-f", "release")
    one.git("cherry-pick", "main", code=1)
    assert conflicts(one) == [f"DU {HERE.ledger}"]
    one.faber("resolve")
    assert one.git("status", "--porcelain") == ""


@pytest.mark.parametrize("deleted_here", [True, False])
def test_drop_leaves_out_a_run_that_one_side_of_a_merge_deleted(tmp_path: Path, deleted_here: bool) -> None:
    one = Clone.first(tmp_path / "one")
    other = one.clone("other")
    deleter, keeper = (one, other) if deleted_here else (other, one)
    deleter.git("rm", "-rq", ".fractary/runs")
    deleter.git("commit", "-qm", "away with it")
    keeper.advance("kept")
    kept = keeper.ids()
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    assert len(conflicts(one)) == 2
    one.faber("resolve", "--drop")
    assert [path for path in (LEDGER, STATE) if path in one.git("ls-files")] == []
    one.git("commit", "-q", "--no-edit")
    assert mirrored(one, RUN) >= kept
    assert one.git("status", "--porcelain") == ""


def test_a_picked_deletion_removes_no_run_that_goes_on_here(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    one.git("checkout", "-q", "-b", "cleaned")
    one.git("rm", "-rq", ".fractary/runs")
    one.git("commit", "-qm", "away with it")
    one.git("checkout", "-q", "main")
    one.advance("goes on")
    recorded = one.ids()
    one.git("cherry-pick", "cleaned", code=1)
    assert len(conflicts(one)) == 2
    one.faber("resolve")
    assert one.ids() == recorded
    one.assert_sound()


def test_a_rebase_onto_a_branch_that_deleted_the_run_keeps_it(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    one.git("checkout", "-q", "-b", "feature")
    one.advance("goes on")
    recorded = one.ids()
    one.git("checkout", "-q", "main")
    one.git("rm", "-rq", ".fractary/runs")
    one.git("commit", "-qm", "away with it")
    one.git("checkout", "-q", "feature")
    one.git("rebase", "main", code=1)
    one.faber("resolve")
    one.git("rebase", "--continue")
    assert one.ids() == recorded


def test_a_ledger_that_the_mirror_cannot_take_is_not_removed(tmp_path: Path) -> None:
    one = begin_on_feature(tmp_path / "one")
    picked = fix(one, "fix")
    one.git("checkout", "-q", "release")
    one.git("cherry-pick", picked, code=1)
    one.record("while it stood still")
    kept = one.root / ".git/faber-ledger/runs" / HERE.run_id
    shutil.rmtree(kept)
    (tmp_path / "elsewhere").mkdir()
    kept.symlink_to(tmp_path / "elsewhere")  # no link is followed
    done = one.faber("resolve", code=1)
    assert "left      " in done.stdout
    assert len(conflicts(one)) == 2
    assert "while it stood still" in one.clients()


@pytest.mark.parametrize("option", [[], ["--keep"], ["--drop"]], ids=["", "keep", "drop"])
@pytest.mark.parametrize("has_mirror", [True, False])
def test_a_run_that_each_side_moved_out_of_its_folder_is_left_out(
    tmp_path: Path, option: list[str], has_mirror: bool
) -> None:
    one = begin(tmp_path / "one", HERE)
    folder = str(Path(HERE.state).parent)
    one.git("checkout", "-q", "-b", "other")
    one.git("mv", folder, "attic")
    one.git("commit", "-qm", "to the attic")
    one.git("checkout", "-q", "main")
    one.git("mv", folder, "archive")
    one.git("commit", "-qm", "to the archive")
    if not has_mirror:
        shutil.rmtree(one.root / ".git/faber-ledger/runs")
    one.git("merge", "-q", "other", code=1)
    assert {f"DD {HERE.ledger}", f"DD {HERE.state}"} < set(one.git("status", "--porcelain").splitlines())
    left = "left out of this branch\n"
    done = one.faber("resolve", *option)
    assert done.stdout == f"resolved  {HERE.ledger}: {left}resolved  {HERE.state}: {left}"
    assert folder not in one.git("status", "--porcelain")
    assert not (one.root / folder).exists()
