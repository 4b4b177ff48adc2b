"""What a colleague asks weeks later of a finished run, squash-merged and its branch deleted, in his own clone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.project import PROTOCOL, RUN, Project, usual_state

BRANCH = "feat/258-lists"
PULL = "https://example.org/lists/pull/261"
EVENTS: list[dict[str, Any]] = [
    {"type": "decision_point", "phase": "architect", "message": "One table of lists, not one a user"},
    {"type": "step_error", "phase": "build", "step": "implement", "error": {"message": "test_share hung on the clock"}},
    {"type": "step_complete", "phase": "build", "step": "implement", "message": "passes with the fake clock"},
    {"type": "approval_granted", "phase": "release", "user": "maria", "message": "go"},
]
SUMMARY = {
    "session_id": "one",
    "phase_completed": "build",
    "timestamp": "2026-01-06T18:00:00Z",
    "summary": {"decisions": ["SQLite, not files"], "context_notes": "The clocks of laptops differ"},
}
PHASES = ("frame", "architect", "build", "evaluate", "release")


@pytest.fixture(scope="module")
def colleague(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Work on the run on two machines, finish and squash it, and go on without it; return the colleague's clone."""
    folder = tmp_path_factory.mktemp("weeks-later")
    artifacts: dict[str, Any] = {"branch_name": BRANCH, "pr_url": PULL, "spec_path": "specs/258.md"}
    laptop = Project.made(folder / "project", {**usual_state(), "artifacts": artifacts})
    laptop.hostname = "laptop"
    laptop.write(f".fractary/runs/{RUN}/metadata.json", json.dumps({"run_id": RUN}))
    assert laptop.faber("init", "--git-only").returncode == 0
    laptop.git("add", "--all", "--", ":!.fractary/runs")
    laptop.git("commit", "--quiet", "-m", "Set up")
    laptop.git("switch", "--quiet", "--create", BRANCH)
    for number, (machine, path) in enumerate([("laptop", "lists.py"), ("tower", "share.py"), ("laptop", "")]):
        at = Project(laptop.root, RUN, machine)
        at.deliver("SessionStart.startup.print", client=f"client-{number}")
        if path:
            at.commit_file(path, "print()\n", f"Write {path}")
        at.deliver("SessionEnd.other.print", client=f"client-{number}")
    laptop.commit_file("specs/258.md", "# Shared lists\n\nTwo phones show one list.\n", "Specify")
    for count, event in enumerate(EVENTS, 1):
        dated = {"event_id": count, "timestamp": f"2026-01-06T1{count}:00:00Z", **event}
        laptop.write(f".fractary/runs/{RUN}/events/{count:03d}-{event['type']}.json", json.dumps(dated))
    laptop.write(f".fractary/runs/{RUN}/session-summaries/session-1.json", json.dumps(SUMMARY))
    for note in (
        ["--decision", "drop the cache: a stale list on one phone costs more"],
        ["later: paging of long lists"],
    ):
        assert laptop.faber("note", "add", *note).returncode == 0
    artifacts["commits"] = laptop.git("log", "--format=%H", "--reverse", "main..HEAD").split()  # FABER's own list
    laptop.change_state(
        artifacts=artifacts, phases={phase: {"status": "completed"} for phase in PHASES}, current_phase="release"
    )
    assert laptop.faber("run", "finish").returncode == 0
    laptop.commit("Finish")
    laptop.git("switch", "--quiet", "main")
    laptop.git("merge", "--quiet", "--squash", BRANCH)
    laptop.git("commit", "--quiet", "-m", "Share lists (#261)")
    laptop.git("branch", "--quiet", "--delete", "--force", BRANCH)
    laptop.write(PROTOCOL, "# Another one\n")
    laptop.git("commit", "--quiet", "--all", "-m", "Later work")
    laptop.git("clone", "--quiet", f"file://{laptop.root}", str(folder / "clone"))
    return Project(folder / "clone", RUN, "desktop")


BY_ITEM = ("reconstitute", "--work-id", "258")


@pytest.mark.parametrize(
    ("command", "facts"),
    [
        pytest.param(("search", "drop cache"), [RUN, "a stale list on one phone costs more"], id="why no cache"),
        pytest.param(
            (*BY_ITEM, "--only", "decisions"),
            ["[2026-01-06T14:00:00Z] approval_granted at release: go; by maria"],
            id="who approved",
        ),
        pytest.param((*BY_ITEM, "--only", "branch"), ["Share lists (#261)", "not in this clone"], id="which commits"),
        pytest.param((*BY_ITEM, "--only", "branch"), ["> lists.py\n> share.py\n> specs/258.md"], id="which files"),
        pytest.param(
            (*BY_ITEM, "--only", "events"),
            ["passes with the fake clock", "step_error at build:implement: test_share hung on the clock"],
            id="what failed, and how it was mended",
        ),
        pytest.param((*BY_ITEM, "--only", "branch"), [f"Pull request: {PULL}\n"], id="which pull request"),
        pytest.param(
            (*BY_ITEM, "--only", "decisions"),
            [
                "decision at build, on laptop: drop the cache",
                "approval_granted at release",
                "One table of lists",
                "SQLite, not files",
            ],
            id="what was decided",
        ),
        pytest.param((*BY_ITEM, "--only", "position"), ["Status: completed", "- Finished: 20"], id="when"),
        pytest.param((*BY_ITEM, "--only", "summaries"), ["The clocks of laptops differ"], id="what sessions came to"),
        pytest.param(("replay", "--work-id", "258"), ["  laptop  ", "  tower  "], id="on which machines"),
        pytest.param(
            (*BY_ITEM, "--only", "notes"), ["note at build, on laptop: later: paging of long lists"], id="what is left"
        ),
    ],
)
def test_each_question_is_answered_by_one_command(
    colleague: Project, command: tuple[str, ...], facts: list[str]
) -> None:
    done = colleague.faber(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert [fact for fact in facts if fact not in done.stdout] == []
    assert colleague.git("status", "--short") == ""  # a look changes nothing


def test_the_commits_that_are_left_out_are_counted(tmp_path: Path) -> None:
    made = Project.made(tmp_path / "project")
    made.deliver("SessionStart.startup.print")
    made.write("lists.py", "print()\n")
    made.commit("Lists")
    made.change_state(status="completed")
    for message in ("Finish", "Tidy"):
        made.deliver("SessionEnd.other.print")
        made.write(f".fractary/runs/{RUN}/{message}", "")
        made.commit(message)
    said = made.said("reconstitute", RUN, "--only", "branch")
    assert re.search(
        r"- Commit: \w+ Lists\n- Not listed: 2 commits that changed nothing outside .fractary, and any merges\n", said
    ), said


def test_commits_that_are_gone_are_each_named_once(colleague: Project) -> None:
    (line,) = [line for line in colleague.said(*BY_ITEM, "--only", "branch").split("\n") if "not in this" in line]
    gone = [one[:7] for one in colleague.state["artifacts"]["commits"]]
    assert line == f"- Commits not in this clone (squashed or deleted): {', '.join(gone)}"


def test_a_squash_is_found_by_fabers_events_where_ledgers_travel_in_refs(tmp_path: Path) -> None:
    made = Project.made(tmp_path / "project", {**usual_state(), "artifacts": {"commits": ["0123456789abcdef"]}})
    made.write(".gitignore", "state.json\nledger.db\n")
    made.write(f".fractary/runs/{RUN}/events/001-approval_granted.json", json.dumps(EVENTS[3]))
    made.write("lists.py", "print()\n")
    made.commit("Share lists (#261)")
    made.change_state(status="completed")
    said = made.said("reconstitute", RUN, "--only", "branch")
    assert "- Commit: " in said
    assert "Share lists (#261)\n- Commits not in this clone (squashed or deleted): 0123456\n" in said


def test_a_squash_is_named_where_the_branch_is_still_here(colleague: Project, tmp_path: Path) -> None:
    clone = colleague.clone(tmp_path / "clone", "laptop")
    clone.git("branch", BRANCH, "HEAD~2")
    clone.git("switch", "--quiet", BRANCH)
    clone.commit_file("lists.py", "print(1)\n", "Begin the lists")
    clone.git("switch", "--quiet", "-")
    said = clone.said(*BY_ITEM, "--only", "branch")
    assert re.search(r"- Commit: \w+ Share lists \(#261\)\n(.*\n)*- Commit: \w+ Begin the lists\n", said), said


def test_the_whole_answer_has_no_warning_of_what_is_over(colleague: Project) -> None:
    done = colleague.faber(*BY_ITEM)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No events found" not in done.stdout
    assert "first session" not in done.stdout
    assert "Two phones show one list." in done.stdout
    assert "at each start of a session" not in done.stdout
    assert "ask where it is" not in done.stdout
    assert "not found locally" not in done.stdout


def test_a_finished_run_is_in_no_phase(colleague: Project) -> None:
    said = colleague.said("status", "--work-id", "258")
    assert "\nStatus: completed\n" in said
    assert "Phase" not in said


def test_a_second_run_of_the_work_item_names_the_first(colleague: Project, tmp_path: Path) -> None:
    colleague.git("clone", "--quiet", f"file://{colleague.root}", str(tmp_path / "again"))
    again = Project(tmp_path / "again", RUN, "desktop")
    started = again.faber("run", "start", "--work-id", "258")
    other = f"Other runs of this work item: {RUN} (completed); `faber-ledger reconstitute {RUN}`"
    assert other in started.stdout
    assert other in again.faber("status").stdout
    by_item = again.faber("status", "--work-id", "258")
    assert (by_item.stderr, by_item.stdout.count(f"of this work item: {RUN}")) == ("", 1)
    for source, client, is_first in (
        ("startup.print", "one", True),
        ("resume.print", "one", True),
        ("startup.print", "two", False),
    ):
        assert (other in (again.deliver(f"SessionStart.{source}", client=client).packet or "")) == is_first
    said = again.faber(*BY_ITEM, "--only", "position").stdout
    assert RUN not in said.splitlines()[0]
    assert other in said
    assert "Other runs" not in colleague.faber(*BY_ITEM, "--only", "position").stdout


@pytest.mark.parametrize("last", ["Label", ""])
def test_commits_that_another_machine_brought_are_named_after_the_merge(tmp_path: Path, last: str) -> None:
    """Where ledgers travel in refs, only the sessions say which commits are the run's."""
    laptop = Project.made(tmp_path / "project")
    laptop.write(".gitignore", ".fractary/\n")
    laptop.commit("Ignore")
    laptop.git("switch", "--quiet", "--create", "feature")

    def work(subject: str) -> None:
        laptop.deliver("SessionStart.startup.print", client=subject)
        laptop.commit_file(f"{subject}.py", "print()\n", subject)
        laptop.deliver("SessionEnd.other.print", client=subject)

    work("Form")
    laptop.git("branch", "desktop")
    work("Cookie")
    laptop.git("switch", "--quiet", "desktop")
    laptop.commit_file("desktop.py", "print()\n", "Desktop")
    laptop.git("switch", "--quiet", "feature")
    laptop.git("merge", "--quiet", "--no-edit", "desktop")
    laptop.deliver("SessionStart.startup.print", client="merged")
    if last:
        laptop.commit_file("label.py", "print()\n", last)
    laptop.change_state(status="completed")
    laptop.git("switch", "--quiet", "main")
    laptop.commit_file("main.py", "print()\n", "Of main")
    laptop.git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
    laptop.git("branch", "--quiet", "--delete", "feature", "desktop")
    said = laptop.said("reconstitute", RUN, "--only", "branch")
    assert sorted(re.findall(r"- Commit: \w+ (.*)", said)) == sorted(filter(None, ["Form", "Cookie", "Desktop", last]))
    assert "Not listed" not in said  # a merge is not counted
