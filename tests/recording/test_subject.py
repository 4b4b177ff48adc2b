"""Which run a delivery is about: the run of the client's session, or the active one (DECISIONS 2, 37, 38)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Answer, Project, usual_state

from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import ACTIVE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

START = "SessionStart.startup.interactive"
COMPACT = "SessionStart.compact.interactive"
RESUME = "SessionStart.resume.interactive"
CLEAR = "SessionStart.clear.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
OURS, FABERS = ACTIVE_FILES
ME = {"client": "me", "pid": "7"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


def name(project: Project, run_id: str, file: str = OURS) -> None:
    """Name a run in an active file, as another tool does."""
    project.write(file, f"{run_id}\n")


def add_run(project: Project, run_id: str, **state: Any) -> Project:
    """Make another run as another tool leaves it."""
    made = Project(project.root, run_id, project.hostname)
    made.run.mkdir(parents=True)
    made.put_state({**usual_state(run_id), **state})
    return made


def commit(project: Project, message: str = "Work") -> None:
    project.write(".fractary/.gitignore", "logs/\n*.backup\n*.lock\n")
    project.git("add", "-A")
    project.git("commit", "--quiet", "--allow-empty", "-m", message)


def active(project: Project) -> str | None:
    return active_run(str(project.root)).run_id


def begin_colleagues_run(project: Project, folder: Path, **state: Any) -> Project:
    """Let a colleague merge an unfinished run into main in a clone; return the run there."""
    commit(project, "ours")
    bob = project.clone(folder / "bob", "bobs-machine")
    bob.git("checkout", "--quiet", "-b", "bob")
    theirs = add_run(bob, "bob-300", current_phase="release", **state)
    name(bob, "bob-300")
    theirs.deliver(START, client="bob")
    commit(bob, "theirs")
    return theirs


def pull_colleagues_run(project: Project, folder: Path, **state: Any) -> Project:
    """Pull a colleague's unfinished run into main; return it as it is in this work tree."""
    theirs = begin_colleagues_run(project, folder, **state)
    project.git("pull", "--quiet", "--no-rebase", str(theirs.root), "bob")
    return Project(project.root, "bob-300", project.hostname)


# Two active files (H3 a)


@pytest.mark.parametrize("is_newer", [True, False])
def test_of_two_files_the_run_at_work_holds(project: Project, is_newer: bool) -> None:
    add_run(project, "live")
    project.change_state(status="completed")
    for run_id, file in [(RUN, OURS), ("live", FABERS)] if is_newer else [("live", FABERS), (RUN, OURS)]:
        name(project, run_id, file)
    live = Project(project.root, "live")
    assert live.deliver(START).packet is not None
    assert [event["type"] for event in live.of_type("session_started")] == ["session_started"]
    assert not project.ledger_path.exists()


def test_if_both_runs_are_at_work_the_newer_file_holds(project: Project) -> None:
    assert project.faber("run", "resume", RUN).returncode == 0
    live = add_run(project, "live")
    name(project, "live", FABERS)
    assert "live" in (live.deliver(START).packet or "")
    name(project, RUN)
    assert RUN in (project.deliver(START).packet or "")


def test_a_file_that_is_older_than_the_claim_does_not_hold(project: Project) -> None:
    add_run(project, "old")
    name(project, "old", FABERS)
    assert project.faber("run", "resume", RUN, "--yes").returncode == 0
    assert active(project) == RUN


def test_a_name_is_as_old_as_its_checkout_even_if_git_writes_it_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project)
    project.git("checkout", "--quiet", "-b", "topic")
    project.faber("run", "start", "--run-id", "mine", "--work-id", "1", "--yes")
    commit(project)
    project.git("checkout", "--quiet", "-b", "other")
    name(project, "another")
    add_run(project, "another")
    commit(project)
    with monkeypatch.context() as earlier:
        earlier.setenv("GIT_COMMITTER_DATE", "2026-01-05T14:30:22Z")
        project.git("checkout", "--quiet", "topic")
    project.faber("run", "resume", RUN, "--yes")
    project.git("reset", "--quiet", "--hard")
    assert project.active_path.read_text() == "mine\n"
    assert active(project) == RUN


def test_doctor_never_advises_to_move_fabers_file(project: Project) -> None:
    add_run(project, "live")
    name(project, "live", FABERS)
    printed = project.faber("doctor").stdout
    assert "aside" not in printed
    assert f"{OURS} names {RUN}" in printed
    assert f"{FABERS} names live" in printed
    assert "live is active" in printed


# A run that FABER starts and commits (H3 b)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_that_faber_started_after_ours_holds(project: Project, committed: bool, is_finished: bool) -> None:
    assert project.faber("run", "start", "--work-id", "1", "--run-id", "ours", "--yes").returncode == 0
    ours = Project(project.root, "ours")
    commit(project, "ours")
    if is_finished:
        ours.change_state(status="completed")
    live = add_run(project, "live")
    name(project, "live")
    if committed:
        commit(project, "frame")
    assert "live" in (live.deliver(START).packet or "")
    assert active(project) == "live"


HOW: dict[str, Callable[[Project, str], object]] = {
    "merge": lambda project, other: project.git("merge", "--quiet", "--no-ff", "--no-edit", other),
    "fast forward": lambda project, other: project.git("merge", "--quiet", "--ff-only", other),
    "rebase": lambda project, other: project.git("rebase", "--quiet", other),
    "reset": lambda project, other: project.git("reset", "--quiet", "--hard", other),
    "cherry-pick": lambda project, other: project.git("cherry-pick", other),
    "pull": lambda project, other: project.git("pull", "--quiet", "--ff-only", ".", other),
    "checkout": lambda project, other: project.git("checkout", "--quiet", other),
}


@pytest.mark.parametrize("how", HOW)
def test_what_git_brings_does_not_take_the_place_of_a_run_at_work(project: Project, how: str) -> None:
    commit(project)
    project.deliver(START, **ME)
    commit(project)
    project.git("checkout", "--quiet", "-b", "other")
    add_run(project, "theirs", branch="theirs")
    name(project, "theirs")
    commit(project, "theirs")
    project.git("checkout", "--quiet", "main")
    (project.root / ".git/faber-ledger/used-runs").unlink(missing_ok=True)
    HOW[how](project, "other")
    assert project.active_path.read_text() == "theirs\n"
    assert active(project) == RUN


def test_a_rebase_does_not_make_our_own_name_gits(project: Project) -> None:
    """The file is the same before and after, whatever it was on the commit that the rebase begins from."""
    commit(project)
    project.git("checkout", "--quiet", "-b", "topic")
    project.git("checkout", "--quiet", "-b", "base")
    project.write("other.txt", "x")
    name(project, "theirs")
    add_run(project, "theirs", branch="theirs")
    commit(project, "theirs")
    project.git("checkout", "--quiet", "topic")
    live = add_run(project, "live", branch="elsewhere")
    name(project, "live", FABERS)
    commit(project, "live")
    project.git("rebase", "--quiet", "base")
    assert "live" in (live.deliver(START).packet or "")


# A colleague's run (git-in-a-team, defect 1)


def test_a_colleagues_run_is_shown_not_used(project: Project, tmp_path: Path) -> None:
    project.active_path.unlink()
    theirs = pull_colleagues_run(project, tmp_path)
    before = theirs.ledger_path.read_bytes()
    answer = theirs.deliver(START, **ME)
    assert answer.packet is not None
    assert answer.message is not None
    for text in (answer.packet, answer.message):
        assert "bob-300" in text
        assert "`faber-ledger run resume bob-300`" in text
        assert "\n" not in text
    for recorded in (PRE, POST, END):
        assert theirs.deliver(recorded, **ME).output == b""
    assert theirs.ledger_path.read_bytes() == before
    assert theirs.git("status", "--porcelain") == ""
    assert theirs.faber("run", "resume", "bob-300").returncode == 0
    assert "# FABER run bob-300" in (theirs.deliver(START, **ME).packet or "")


def test_a_colleagues_finished_run_is_not_even_shown(project: Project, tmp_path: Path) -> None:
    project.active_path.unlink()
    theirs = pull_colleagues_run(project, tmp_path, status="completed", artifacts={"branch_name": "bob"})
    theirs.deliver(START)
    answer = theirs.deliver(START)
    assert (answer.packet, answer.message) == (None, None)
    assert theirs.deliver(END).output == b""
    assert theirs.git("status", "--porcelain") == ""


def test_a_run_that_git_brought_on_its_own_branch_is_used(project: Project, tmp_path: Path) -> None:
    """SPEC, Example 2: the second machine pulls and goes on, without a command; also on main, if that is its branch."""
    commit(project)
    project.deliver(START, **ME)
    commit(project)
    second = project.clone(tmp_path / "second", "second-machine")
    assert RUN in (second.deliver(START, client="other").packet or "")
    second.git("checkout", "--quiet", "-b", "elsewhere")
    third = project.clone(tmp_path / "third", "third-machine")
    third.git("checkout", "--quiet", "-b", "elsewhere")
    assert third.deliver(START, client="third").message is not None
    assert "current_session_id" not in third.faber("status").stdout
    assert third.faber("run", "resume", RUN).returncode == 0
    assert RUN in (third.deliver(START, client="third").packet or "")


def test_a_run_of_which_no_branch_is_known_is_used_on_any(project: Project, tmp_path: Path) -> None:
    commit(project)
    second = project.clone(tmp_path / "second", "second-machine")
    second.git("checkout", "--quiet", "-b", "elsewhere")
    assert RUN in (second.deliver(START, client="other").packet or "")


ONCE_MORE = ["a look at main", "a compaction on main", "a detached head", "no client at all"]


@pytest.mark.parametrize("how", ONCE_MORE)
def test_a_run_is_its_branchs_whatever_was_checked_out_without_it(project: Project, tmp_path: Path, how: str) -> None:
    """Its branch is the newest one that is known to have had its files."""
    project.active_path.unlink()
    commit(project, "ours")
    bob = project.clone(tmp_path / "bob", "bobs-machine")
    bob.git("checkout", "--quiet", "-b", "feat/300")
    assert bob.faber("run", "start", "--work-id", "300", "--run-id", "bob-300").returncode == 0
    theirs = Project(bob.root, "bob-300", bob.hostname)
    if how != "no client at all":
        theirs.deliver(START, client="bob", pid="8")
    commit(bob, "theirs")
    if how == "a detached head":
        bob.git("checkout", "--quiet", "--detach")
    elif how != "no client at all":
        bob.git("checkout", "--quiet", "main")
    if how == "a compaction on main":
        theirs.deliver(PRE, client="bob", pid="8")
        theirs.deliver(COMPACT, client="bob", pid="8")
    if how != "no client at all":
        theirs.deliver(END, client="bob", pid="8")
    bob.git("checkout", "--quiet", "feat/300")
    assert bob.faber("seal", "bob-300").returncode == 0
    bob.git("commit", "--quiet", "--all", "--allow-empty", "-m", "Seal")
    recorded = theirs.of_type("checkout_recorded")
    known = {
        "a look at main": [True, True, False],
        "a compaction on main": [True, True, False, False, False],
        "a detached head": [True, True, True],
        "no client at all": [True],
    }
    assert [event["has_run"] for event in recorded] == known[how]
    project.git("pull", "--quiet", "--no-rebase", str(bob.root), "feat/300")
    here = Project(project.root, "bob-300", project.hostname)
    answer = here.deliver(START, **ME)
    assert "never used in this clone" in (answer.message or "")
    assert here.git("status", "--porcelain") == ""


def test_the_branch_in_the_state_is_the_runs_own(project: Project, tmp_path: Path) -> None:
    project.change_state(artifacts={"branch_name": "feature/258"})
    commit(project)
    second = project.clone(tmp_path / "second", "second-machine")
    answer = second.deliver(START, client="other")
    assert "never used in this clone" in (answer.message or "")
    second.git("checkout", "--quiet", "-b", "feature/258")
    assert "build" in (second.deliver(START, client="other").packet or "")


# A client stays with its run


def test_the_branch_of_the_last_session_is_known_where_the_file_is_older(project: Project) -> None:
    """A checkout of main brings a ledger in which the run's sessions were on main still."""
    project.deliver(START, **ME)
    commit(project)
    project.git("checkout", "--quiet", "-b", "feature")
    other = add_run(project, "other")
    project.deliver(COMPACT, **ME)
    name(project, "other")
    other.deliver(START, client="you", pid="8")
    commit(project)
    project.git("checkout", "--quiet", "main")
    assert active(project) == "other"
    assert other.deliver(START, client="she", pid="9").packet


@pytest.mark.parametrize("how", ["checkout", "merge"])
def test_a_client_stays_with_its_run_whatever_git_brings(project: Project, tmp_path: Path, how: str) -> None:
    """git-in-a-team, s1: the client has a session here, and main, with a colleague's run, is checked out."""
    project.active_path.unlink()
    project.run.rename(tmp_path / "run")
    theirs = begin_colleagues_run(project, tmp_path)
    project.git("checkout", "--quiet", "-b", "ours")
    (tmp_path / "run").rename(project.run)
    name(project, RUN)
    assert project.deliver(START, **ME).packet is not None
    commit(project, "ours")
    project.git("fetch", "--quiet", str(theirs.root), "bob:main")
    if how == "checkout":
        project.git("checkout", "--quiet", "main")
        assert not project.state_path.exists()
    else:
        project.git("merge", "--quiet", "--no-edit", "-X", "theirs", "main")
    assert project.active_path.read_text() == "bob-300\n"
    assert project.deliver(PRE, **ME).code == 0
    answer = project.deliver(COMPACT, **ME)
    assert RUN in (answer.packet or "")
    assert "bob-300" not in (answer.packet or "")
    project.deliver(END, **ME)
    here = Project(project.root, "bob-300")
    assert here.ledger_path.read_bytes() == theirs.ledger_path.read_bytes()
    assert project.faber("run", "resume", RUN, "--yes").returncode == 0
    ends = [event["reason"] for event in project.of_type("session_ended")]
    assert ends == ["compaction", "normal"]


def test_a_tool_that_names_another_run_since_moves_the_client(project: Project) -> None:
    project.deliver(START, **ME)
    second = add_run(project, "second")
    name(project, "second")
    assert "second" in (second.deliver(COMPACT, **ME).packet or "")


def test_the_end_after_a_run_that_was_begun_and_finished_is_that_runs(project: Project) -> None:
    project.deliver(START, **ME)
    second = add_run(
        project, "second", started_at=utc_text(now()), status="completed", completed_at=utc_text(now() + 1)
    )
    name(project, "second")
    assert active(project) == RUN
    project.deliver(END, **ME)
    started = [event["event"]["source"] for event in second.events if event["event"]["type"] == "session_started"]
    assert started == ["inferred"]
    assert project.state["sessions"]["session_history"][-1]["end_reason"] == "abandoned"


def test_a_client_stays_with_its_run_where_a_sparse_checkout_leaves_it_out(project: Project) -> None:
    project.write("code/main.py", "pass\n")
    project.deliver(START, **ME)
    commit(project)
    project.git("sparse-checkout", "set", "code")
    shutil.rmtree(project.root / ".fractary", ignore_errors=True)  # what git ignores may be left
    assert RUN in str(project.deliver(COMPACT, **ME).packet)
    assert RUN in str(project.deliver(START, client="another", pid="8").packet)


def test_a_clear_stays_with_the_run_of_its_process(project: Project, tmp_path: Path) -> None:
    commit(project)
    project.deliver(START, **ME)
    commit(project)
    theirs = pull_colleagues_run(project, tmp_path)
    (project.root / ".git/faber-ledger-run").unlink()
    answer = theirs.deliver(CLEAR, client="new", pid="7")
    assert RUN in (answer.packet or "")
    assert "bob-300" in (theirs.deliver(CLEAR, client="newer", pid="8").message or "")


# Another work tree (real-client, D1)


def test_a_client_that_moved_to_another_worktree_is_recorded_there(project: Project) -> None:
    commit(project)
    project.deliver(START, **ME)
    tree = Project(project.root / ".claude" / "worktrees" / "wt9", "wt-400")
    project.git("worktree", "add", "--quiet", "-b", "wt9", str(tree.root))
    variables = {"CLAUDE_CODE_SESSION_ID": "me", "CLAUDE_PID": "7", "CLAUDE_PROJECT_DIR": str(project.root)}
    assert tree.faber("run", "start", "--work-id", "400", "--run-id", "wt-400", env=variables).returncode == 0
    moved = {**ME, "fields": {"cwd": str(tree.root)}}
    before = project.ledger_path.read_bytes()
    project.deliver(PRE, **moved)
    answer = project.deliver(COMPACT, **moved)
    assert "wt-400" in (answer.packet or "")
    assert RUN not in (answer.packet or "")
    project.deliver(POST, **moved)
    project.deliver(END, **moved)
    assert [event["reason"] for event in tree.of_type("session_ended")] == ["compaction", "normal"]
    assert tree.current is None
    assert project.ledger_path.read_bytes() == before
    tree.assert_projected()


def test_a_mere_cd_into_another_worktree_changes_nothing(project: Project) -> None:
    commit(project)
    project.deliver(START, **ME)
    tree = Project(project.root.parent / "tree", "wt-400")
    project.git("worktree", "add", "--quiet", "-b", "wt9", str(tree.root))
    assert tree.faber("run", "start", "--work-id", "400", "--run-id", "wt-400").returncode == 0
    answer = project.deliver(COMPACT, **{**ME, "fields": {"cwd": str(tree.root)}})
    assert RUN in (answer.packet or "")


def test_a_client_that_left_the_worktree_is_still_recorded_there(project: Project) -> None:
    commit(project)
    project.deliver(START, **ME)
    tree = Project(project.root.parent / "tree", "wt-400")
    project.git("worktree", "add", "--quiet", "-b", "wt9", str(tree.root))
    variables = {"CLAUDE_CODE_SESSION_ID": "me", "CLAUDE_PID": "7"}
    assert tree.faber("run", "start", "--work-id", "400", "--run-id", "wt-400", env=variables).returncode == 0
    project.deliver(END, **ME)
    assert tree.current is None
    assert len(tree.of_type("session_ended")) == 1


# What the user is told (D2)


def test_a_start_says_why_an_active_file_is_not_used(project: Project) -> None:
    name(project, "gone")
    assert project.deliver(START, client="another").message
    said = project.deliver(START).message or ""
    assert said.startswith(f"faber-ledger: {OURS} names gone, which is not here - ")
    assert "`faber-ledger run resume RUN`" in said
    assert project.deliver(END).output == b""


def test_a_clone_that_is_set_up_is_told_nothing(project: Project) -> None:
    assert project.faber("init", "--git-only").returncode == 0
    project.active_path.unlink()
    assert project.deliver(START).output == b""


def test_a_project_without_faber_is_told_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain")
    project.root.mkdir()
    project.git("init", "--quiet")
    assert project.deliver(START).output == b""
    assert not (project.root / ".git/faber-ledger").exists()


def test_the_answer_is_one_json_object(project: Project) -> None:
    name(project, "gone")
    answer = project.deliver(START)
    assert set(json.loads(answer.output)) == {"systemMessage"}
    assert isinstance(answer, Answer)
