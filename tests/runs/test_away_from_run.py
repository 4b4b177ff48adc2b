"""A session goes on while git has taken its run out of the work tree: each verb that does so, and the way back."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Project
from support.sizes import few

from faber_ledger.context import packet as packets
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable

START, COMPACTED = "SessionStart.startup.print", "SessionStart.compact.print"
PRE, POST, END = "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"


def events_below_git(project: Project) -> list[Any]:
    with Log.read(str(project.root / ".git" / "faber-ledger" / "runs" / RUN / "log.db")) as log:
        return list(log.stream())


def types(events: list[Any]) -> list[str]:
    return [one["event"]["type"] for one in events]


def begin(root: Path) -> Project:
    """Make a project whose main has the code alone, and a run on the branch `feature` whose session is open."""
    project = Project.made(root)
    project.faber("init", "--git-only")
    active, state = project.active_path.read_text(), project.state_path.read_text()
    project.active_path.unlink()
    project.state_path.unlink()
    project.run.rmdir()
    project.write("code.py", "one\n")
    project.commit("code")
    project.git("checkout", "-qb", "feature")
    project.write("code.py", "two\n")
    project.git("commit", "-qam", "change the code")
    project.run.mkdir(parents=True)
    project.active_path.write_text(active)
    project.state_path.write_text(state)
    project.deliver(START, client="one", pid="1")
    return project


def check_out_main(project: Project) -> None:
    project.commit("the run")
    project.git("checkout", "-q", "main")


def detach(project: Project) -> None:
    project.commit("the run")
    project.git("checkout", "-q", "--detach", "main")


def stash(project: Project) -> None:
    project.git("stash", "-qu")


def clean(project: Project) -> None:
    project.git("clean", "-fdxq")


def bisect(project: Project) -> None:
    project.commit("the run")
    project.git("bisect", "start", "HEAD", "main")


def make_sparse(project: Project) -> None:
    project.commit("the run")
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/.fractary/")


def stop_a_rebase(project: Project) -> None:
    project.commit("the run")
    project.git("checkout", "-q", "main")
    project.write("code.py", "three\n")
    project.git("commit", "-qam", "another change")
    project.git("checkout", "-q", "feature")
    with suppress(subprocess.CalledProcessError):
        project.git("rebase", "-q", "main")


def git(*arguments: str) -> Callable[[Project], object]:
    return lambda project: project.git(*arguments)


SITUATIONS: dict[str, tuple[Callable[[Project], object], Callable[[Project], object]]] = {
    "checkout of main": (check_out_main, git("checkout", "-q", "feature")),
    "stash -u of a first run": (stash, git("stash", "pop", "-q")),
    "bisect": (bisect, git("bisect", "reset")),
    "a stopped rebase": (stop_a_rebase, git("rebase", "--abort")),
    "detached HEAD": (detach, git("checkout", "-q", "feature")),
    "clean -fdx of a first run": (clean, lambda project: project.faber("run", "resume", RUN)),
    "sparse checkout": (make_sparse, git("sparse-checkout", "disable")),
}


@pytest.mark.long
@pytest.mark.parametrize("name", few(SITUATIONS, 4))
def test_a_session_is_recorded_while_its_run_is_away(tmp_path: Path, name: str) -> None:
    away, back = SITUATIONS[name]
    project = begin(tmp_path / "project")
    known = project.events
    away(project)
    assert not project.ledger_path.exists()
    status = project.git("status", "--porcelain")

    assert project.deliver(PRE, client="one", pid="1").hint is not None
    project.deliver(POST, client="one", pid="1")
    answer = project.deliver(COMPACTED, client="one", pid="1")
    printed = json.loads(answer.output)
    packet = printed["hookSpecificOutput"]["additionalContext"]
    assert packet.startswith(f"# FABER run {RUN}\n"), packet
    assert "does not have the files of" in packet.partition("\nPhase: ")[0]
    assert packet.endswith(packets.END)
    why = "off its branch" if name == "checkout of main" else "files not here"
    assert printed["systemMessage"].endswith(f"; {why} (faber-ledger status)")
    assert "does not have the files of" in project.faber("status", RUN).stdout
    assert project.faber("note", "add", "while it was away", "--run-id", RUN).returncode == 0
    project.deliver(END, client="one", pid="1")

    kept = events_below_git(project)
    assert types(kept).count("session_started") == 2
    assert types(kept).count("session_ended") == 2
    assert not project.state_path.exists()
    assert project.git("status", "--porcelain") == status

    back(project)
    assert project.state_path.exists()
    project.deliver(START, client="two", pid="2")
    found = [one["id"] for one in project.events]
    assert set(found) >= {one["id"] for one in [*known, *kept]}
    project.assert_projected()
    assert project.faber("verify", RUN).returncode == 0


def test_another_work_tree_that_has_the_run_gets_what_was_recorded_here(tmp_path: Path) -> None:
    project = begin(tmp_path / "project")
    check_out_main(project)
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "feature")
    project.deliver(END, client="one", pid="1")
    linked = Project(tmp_path / "linked")
    assert linked.faber("project", RUN).returncode == 0
    assert "session_ended" in linked.types
    linked.assert_projected()


# Commands on a run that is away


@pytest.fixture
def left(tmp_path: Path) -> Project:
    """A project that has left its run's branch in mid-session; the active file is there, as a tool wrote it."""
    project = begin(tmp_path / "project")
    check_out_main(project)
    project.write(".fractary/faber/.active-run-id", f"{RUN}\n")
    return project


@pytest.mark.parametrize(
    "command", [["note", "add", "remember"], ["session-save"], ["session-load", "--force"]], ids=lambda words: words[0]
)
def test_a_command_records_on_the_kept_run_and_says_so(left: Project, command: list[str]) -> None:
    before = len(events_below_git(left))
    done = left.faber(*command)
    assert done.returncode == 0, done.stderr
    assert (
        f"This work tree does not have the files of {RUN}: they are on `feature` (`git switch feature`).\n"
        in done.stderr
    )
    assert len(events_below_git(left)) > before
    assert not left.ledger_path.exists()


@pytest.mark.parametrize("command", [["run", "finish"], ["seal", RUN]])
def test_a_command_that_writes_the_runs_files_says_where_they_are(left: Project, command: list[str]) -> None:
    done = left.faber(*command)
    assert done.returncode == 10, done.stdout + done.stderr
    assert "hint: they are on `feature` (`git switch feature`)\n" in done.stderr
    assert not left.state_path.exists()


@pytest.mark.parametrize("command", [["session-load", "--run-id", RUN], ["reconstitute", RUN]])
def test_a_load_says_once_how_to_get_to_the_branch(left: Project, command: list[str]) -> None:
    said = left.said(*command)
    assert "\nBranch: feature, but `main` is checked out here\n" in said
    assert said.count("`git switch feature`") == 1


def test_a_conversation_where_the_run_is_not_may_be_about_other_work(left: Project) -> None:
    """It is told where the run is, and recorded on it once it has loaded the context there."""
    known = len(events_below_git(left))
    packet = left.deliver(START, client="two", pid="2").packet or ""
    assert "in this work tree: they are on `feature` (`git switch feature`). Nothing is recorded here." in packet
    assert packet.count("\n") == 1
    for hook in (PRE, "SessionEnd.other.print"):
        left.deliver(hook, client="two", pid="2")
    assert len(events_below_git(left)) == known
    left.git("switch", "-q", "feature")
    assert left.faber("session-load", env={"CLAUDE_CODE_SESSION_ID": "two"}).returncode == 0
    assert [one["client"] for one in events_below_git(left)][known:].count("two") > 1


def test_a_start_where_no_branch_is_checked_out_is_recorded(left: Project) -> None:
    left.git("checkout", "-q", "--detach")
    known = len(events_below_git(left))
    assert "Nothing is recorded here" not in (left.deliver(START, client="two", pid="2").packet or "")
    assert len(events_below_git(left)) > known


def test_nobody_needs_the_files_of_a_finished_run(left: Project) -> None:
    copy = left.private / "state.json"
    copy.write_text(copy.read_text().replace('"in_progress"', '"completed"', 1))
    assert json.loads(copy.read_text())["status"] == "completed"
    assert "does not have the files" not in left.said("reconstitute", RUN)


def test_a_resumed_run_leaves_the_way_to_its_branch_free(left: Project) -> None:
    known = len(events_below_git(left))
    assert "Branch: feature, but `main` is checked out here: run `git switch feature`" in left.said(
        "run", "resume", RUN
    )
    assert not left.state_path.exists()
    left.git("switch", "-q", "feature")
    left.deliver(START, client="two", pid="2")
    assert len(events_below_git(left)) > known
    assert left.faber("project", RUN).returncode == 0
    left.assert_projected()


def test_a_resumed_run_brings_its_files_where_no_branch_is_checked_out(left: Project) -> None:
    left.git("checkout", "-q", "--detach")
    left.said("run", "resume", RUN)
    assert left.state_path.exists()


def test_an_uncommitted_state_is_not_set_back_to_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setenv("GIT_COMMITTER_DATE", "2026-01-05T14:30:22Z")
        project = begin(tmp_path / "project")
        project.commit("the run")
    project.change_state(current_phase="evaluate")
    project.deliver(PRE, client="one", pid="1")
    project.git("checkout", "-q", "--force", "main")
    assert "Phase: evaluate" in (project.deliver(COMPACTED, client="one", pid="1").packet or "")
    assert "evaluate" in project.faber("status", RUN).stdout
