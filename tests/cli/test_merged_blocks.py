"""The merge driver writes our blocks of a state as the united ledger has them: the merge commit is right at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clones import RUN, STATE, Clone
from support.command import COMMAND
from support.layouts import LAYOUTS, Layout, begin, seen
from support.sizes import few

HERE = LAYOUTS["ours"]


def begin_two(tmp_path: Path, layout: Layout = HERE) -> tuple[Clone, Clone]:
    """Make two clones that have the merge driver and went on apart; another tool's keys have changed on both."""
    one = begin(tmp_path / "one", layout)
    one.faber("init", "--git-only")
    other = seen(one.clone("other"), layout)
    other.name_run(layout.run_id)
    one.change(mine=1)
    other.change(theirs=2)
    for client in ("here", "here again"):
        one.advance(client)
    for client in ("there", "there again"):
        other.advance(client)
    one.git("fetch", "-q", "../other", "main:there")
    return one, other


def assert_right_in_a_fresh_clone(one: Clone, run_id: str, sessions: int, revision: str = "HEAD") -> None:
    one.git("branch", "-qf", "to-clone", revision)
    one.git("clone", "-q", "-b", "to-clone", ".", "../fresh")
    fresh = Clone(one.root.parent / "fresh")
    assert fresh.faber("verify", run_id).stdout == f"{run_id}: sound\n"
    state = json.loads((fresh.root / one.state_path.relative_to(one.root)).read_text())
    assert len(state["sessions"]["session_history"]) == sessions
    assert state["mine"] == 1


@pytest.mark.long
@pytest.mark.parametrize("layout", few([HERE, LAYOUTS["shared"]], 1))
def test_a_merge_commit_is_right_in_a_fresh_clone(tmp_path: Path, layout: Layout) -> None:
    one, _ = begin_two(tmp_path, layout)
    one.git("merge", "-q", "--no-edit", "there")
    assert_right_in_a_fresh_clone(one, layout.run_id, 5)
    assert one.git("status", "--porcelain") == ""
    one.faber("project")
    assert one.git("status", "--porcelain") == ""


def test_each_commit_of_a_rebase_is_right(tmp_path: Path) -> None:
    one, _ = begin_two(tmp_path)
    one.git("rebase", "-q", "there")
    assert_right_in_a_fresh_clone(one, HERE.run_id, 5)
    one.git("clone", "-q", ".", "../before")
    before = Clone(tmp_path / "before")
    before.git("checkout", "-q", "HEAD~1")
    assert before.faber("verify", HERE.run_id).stdout == f"{HERE.run_id}: sound\n"


def test_a_session_that_another_tool_wrote_is_not_written_over(tmp_path: Path) -> None:
    one, other = begin_two(tmp_path)
    sessions = other.state["sessions"]
    entry = {**sessions["session_history"][0], "session_id": "by-another-tool"}
    other.change(sessions={**sessions, "session_history": [entry, *sessions["session_history"]]})
    other.commit("another tool's session")
    one.change(
        sessions={**one.state["sessions"], "session_history": [entry, *one.state["sessions"]["session_history"]]}
    )
    one.commit("and here")
    one.git("pull", "-q", "--no-rebase", "../other", "main")
    assert "by-another-tool" in [one["session_id"] for one in one.state["sessions"]["session_history"]]


@pytest.mark.parametrize("names_commit", [True, False])
def test_a_variable_that_names_another_commit_is_not_believed(tmp_path: Path, names_commit: bool) -> None:
    """Of a commit that does not have the state which git is merging, the ledger may be anything."""
    one = Clone.first(tmp_path / "one")
    other = one.clone("other")
    one.advance("here")
    other.advance("there")
    commit = other.git("rev-parse", "HEAD").strip()
    one.git("fetch", "-q", "../other", "main")
    theirs = other.state if names_commit else {**other.state, "changed": 1}
    for name, text in (("O", one.git("show", f"HEAD~1:{STATE}")), ("A", one.git("show", f"HEAD:{STATE}"))):
        (one.root / name).write_text(text)
    (one.root / "B").write_text(json.dumps(theirs, indent=2) + "\n")
    done = one.call("env", f"GITHEAD_{commit}=there", str(COMMAND), "merge-driver", "O", "A", "B", "--", STATE)
    assert done.returncode == 0, done.stderr
    merged = json.loads((one.root / "A").read_text())
    assert merged["run_id"] == RUN
    assert merged["sessions"]["total_sessions"] == (3 if names_commit else 2)  # of the fold, or as both sides have it


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "driver"), few([(["pull", "-q", "--rebase"], True), (["pull", "-q", "--no-rebase"], False)], 1)
)
def test_an_edit_without_the_program_keeps_a_finished_run_right(tmp_path: Path, verb: list[str], driver: bool) -> None:
    """Only one side changed the ledger, so git calls no driver for it."""
    bob = Clone.first(tmp_path / "bob", driver=driver)
    eve = bob.clone("eve", driver=False)
    eve.change(reviewers=["eve"])
    eve.commit("an edit")
    bob.record("last")
    bob.end("last")
    bob.change(status="completed")
    bob.faber("seal")
    bob.commit("finished")
    bob.git(*verb, "../eve", "main")
    bob.assert_sound()
    assert [bob.state[name] for name in ("status", "reviewers")] == ["completed", ["eve"]]
    bob.git("checkout", "-q", ".")
    bob.assert_sound()


def test_without_a_ledger_changed_blocks_come_from_their_side(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    base = one.state_path.read_text()
    one.record("second")
    newer = one.state_path.read_text()
    older = json.dumps({**json.loads(base), "reviewers": ["eve"]}, indent=2)
    one.git("checkout", "-q", ".")
    one.git("rm", "-q", "--cached", STATE)  # nothing in git says which commits these are
    one.git("commit", "-qm", "none")
    names = [str(tmp_path / name) for name in ("base", "ours", "theirs")]
    for name, text in zip(names, [base, older, newer], strict=True):
        Path(name).write_text(text)
    one.faber("merge-driver", *names, "--", STATE)
    merged = json.loads(Path(names[1]).read_text())
    assert merged["sessions"] == json.loads(newer)["sessions"] != json.loads(base)["sessions"]
    assert merged["reviewers"] == ["eve"]
