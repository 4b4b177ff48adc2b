"""The position: what decides the next action, in the packet's first 1,600 units, whatever a state holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from fuzz.shapes import mutated
from hypothesis import given
from hypothesis import strategies as st
from support.positions import position_of
from support.project import FIXTURES, PROTOCOL, RUN, Project, usual_state

from faber_ledger.context.position import MAX_UNITS
from faber_ledger.context.workflow import steps_in_order
from faber_ledger.files.text import units
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.context.notes import Remembered

INSTRUCTIONS = "Instructions from the user, which outrank a step's command: "
STARTUP = "SessionStart.startup.interactive"
STATE = f".fractary/runs/{RUN}/state.json"
FOLDER = "plugins/faber/config/workflows"
ALL_DONE = [
    {"id": name, "status": "completed"} for name in ("generate-spec", "refine-spec", "core-commit-and-push-architect")
]
IMPLEMENT = "phase build, step implement: "
PROMPT = (
    "Implement the solution according to the specification. Follow existing project patterns and conventions. Create"
    " atomic commits for each logical unit of work. Run tests to verify the implementation. Ensure code quality and"
    " completeness."
)
CLIENTS = count()
HEAD = f"""# FABER run {RUN}

faber-ledger gives you this at each start of a session.

"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make a project with FABER's own workflows."""
    made = Project.made(tmp_path / "myproject")
    for name in ("default", "core"):
        made.write(f"{FOLDER}/{name}.json", (FIXTURES / f"workflows/{name}.json").read_bytes())
    return made


def packet_of(project: Project, **state: Any) -> str:
    """Start a new client's session with these members in the state; return the packet."""
    project.change_state(**state)
    packet = project.deliver(STARTUP, client=f"client-{next(CLIENTS)}", pid=None).packet
    assert packet is not None
    return packet


def position_in(project: Project, **state: Any) -> str:
    """Return the position in the packet of a new session: what stands between the first line and the list."""
    packet = packet_of(project, **state)
    assert packet.startswith(HEAD)
    return packet.removeprefix(HEAD).partition("\n\n")[0]


def test_the_position_says_what_the_step_is_and_what_comes_after_it(project: Project) -> None:
    """(session-manager-reload-reconstitution 3)"""
    said = position_in(
        project,
        target="Shared lists",
        current_step="implement",
        additional_instructions="Do not touch billing.\nAsk before adding a dependency.",
        artifacts={"branch_name": "main"},
    )
    assert (
        said
        == f"""\
Work item: 258
Target: Shared lists
Instructions from the user, which outrank a step's command: Do not touch billing. Ask before adding a dependency.
Status: in_progress
Phase: build (frame, architect are completed)
Step: implement
What to do: {PROMPT} ({FOLDER}/default.json)
After it: step core-commit-and-push-build (Ensure all build changes are committed and pushed:\
 /fractary-repo:commit-push), then phase evaluate
Branch: main (checked out here)"""
    )


def test_placeholders_of_a_step_are_filled_with_what_the_state_has(project: Project) -> None:
    numbers = {"pr_number": 87, "pr_url": "$(id)"}
    said = position_in(project, current_phase="release", current_step="core-merge-pr", artifacts=numbers)
    assert "/fractary-repo:pr-merge 87 --delete-branch" in said


def test_instructions_may_be_a_list_or_an_object(project: Project) -> None:
    for instructions in (["Leave billing alone", "Ask first"], {"scope": "Leave billing alone", "how": "Ask first"}):
        packet = packet_of(project, additional_instructions=instructions)
        (line,) = [line for line in packet.split("\n") if line.startswith(INSTRUCTIONS)]
        assert line.endswith("Ask first")
        assert "Leave billing alone" in line
    packet = packet_of(project, additional_instructions=["Ask first", {"scope": "billing"}])
    assert f"{INSTRUCTIONS}Ask first\n" in packet
    assert '{"scope":"billing"}' in packet


def test_the_short_facts_of_the_position_are_not_in_the_state_again(project: Project) -> None:
    packet = packet_of(project, current_step="implement", artifacts={"pr_number": 7}, target="T" * 300)
    state = packet.partition("\nworkflow-state: ")[2].partition("\n\n")[0]
    assert '"artifacts":{"pr_number":7}' in state
    assert f'"target":"{"T" * 300}"' in state  # since the position cuts it
    for name in ("work_id", "workflow_id", "current_phase", "current_step"):
        assert f'"{name}"' not in state


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"current_phase": "frame", "phases": {}},
            "Phase: frame\nWhat to do: step core-fetch-issue: Fetch existing issue. Reads referenced docs and existing"
            f" commits: /fractary-work:issue-fetch --work-id 258 ({FOLDER}/core.json)\n"
            "After it: step core-issue-refine (Clarify issue details with user: /fractary-work:issue-clarify"
            " --work-id 258), then core-commit-and-push-frame, then phase architect\n",
        ),
        (
            {"current_phase": "frame", "current_step": "auto-reload-context", "phases": {"frame": {}}},
            "Step: auto-reload-context\nWhat to do: step core-fetch-issue: ",
        ),
        (
            {
                "current_phase": "architect",
                "current_step": "generate-spec",
                "phases": {"architect": {"steps": ALL_DONE}},
            },
            f"Step: generate-spec\nWhat to do: complete phase architect; then {IMPLEMENT}",
        ),
        (
            {"current_step": "implement", "phases": {"build": {"steps": [{"id": "implement", "status": "completed"}]}}},
            "Step: implement\nWhat to do: step core-commit-and-push-build: ",
        ),
        (
            {"current_phase": "architect", "phases": {"architect": {"status": "completed"}}},
            f"Phase: architect is completed\nWhat to do: {IMPLEMENT}{PROMPT}",
        ),
        (
            {
                "current_phase": "architect",
                "current_step": "generate-spec",
                "phases": {"architect": {"status": "completed"}},
                "status": "awaiting_feedback",
            },
            f"Step: generate-spec\nWhat to do then: {IMPLEMENT}{PROMPT}",
        ),
        (
            {"current_phase": "evaluate", "current_step_id": "evaluate:core-review-pr-checks"},
            "After it: phase release, which needs approval before it begins, step core-merge-pr (Merge",
        ),
        (
            {"current_phase": "release"},
            "on, also if a summary says that it was given.\nPhase: release (frame, architect are completed)\n"
            "What to do then: step core-merge-pr",
        ),
        ({"current_phase": "release", "current_step": "core-cleanup-worktree"}, "After it: the run is complete"),
        (
            {"current_phase": "release", "pending_approvals": [{"phase": "release", "reason": "it deploys"}]},
            "Pending approval (do not go on before it is given): release: it deploys",
        ),
        (
            {"current_phase": "release", "phases": {"release": {"status": "completed"}}},
            "Phase: release is completed\nAll steps of the workflow are done.\n",
        ),
        (
            {"current_step": "invent"},
            "Step: invent\nNo step of the workflow has this name; those of phase build: implement, core-commit-and-"
            "push-build\n",
        ),
        (
            {"status": "pending", "current_phase": "none"},
            "Status: pending (nothing is done yet)\nPhase: none (frame, architect are completed)\nGo on at",
        ),
    ],
)
def test_what_to_do_follows_from_state_and_workflow(project: Project, state: dict[str, Any], said: str) -> None:
    assert said in position_in(project, **state)


@pytest.mark.parametrize(
    ("state", "is_known"),
    [
        ({}, False),
        ({"phases": {"release": {"status": "in_progress"}}}, False),
        ({"pending_approvals": [{"phase": "build", "granted": True}]}, False),
        ({"pending_approvals": [{"phase": "release", "granted": True}]}, True),
        ({"approvals": [{"phase": "release", "status": "approved"}]}, True),
        ({"phases": {"release": {"status": "in_progress", "approved": True}}}, True),
    ],
)
def test_an_approval_that_is_not_on_record_is_asked_for_first(
    project: Project, state: dict[str, Any], is_known: bool
) -> None:
    said = position_in(project, current_phase="release", current_step="core-merge-pr", **state)
    asked = "\nApproval: phase release begins only after somebody has approved it, and no approval is on record here: "
    assert (asked in said) == (not is_known)
    assert said.find("ask the user before you go on.\n") < said.index("What to do")


@pytest.mark.parametrize(("phase", "is_named"), [("release", True), ("build", False), (None, False)])
def test_an_approval_among_fabers_events_is_named_to_be_confirmed(
    project: Project, phase: str | None, is_named: bool
) -> None:
    given = {"type": "approval_granted", "timestamp": "2026-01-09T08:00:00Z", "phase": phase, "message": "maria: go"}
    project.write(f".fractary/runs/{RUN}/events/002-approval_granted.json", json.dumps(given))
    project.write(f".fractary/runs/{RUN}/events/003-approval_granted.json", "[]")
    said = position_in(project, current_phase="release", current_step="core-merge-pr")
    event = "events/002-approval_granted.json says: maria: go (2026-01-09T08:00:00Z). Confirm it with the user.\n"
    assert (f"has approved it, and state.json has no approval; {event}" in said) == is_named
    assert ("no approval is on record here" in said) != is_named
    denied = {"type": "approval_denied", "phase": "release"}
    project.write(f".fractary/runs/{RUN}/events/004-approval_denied.json", json.dumps(denied))
    assert "events/004-approval_denied.json says: approval_denied by somebody. Confirm" in position_in(project)


def test_who_is_to_approve_is_said_before_what_to_do(project: Project) -> None:
    waiting = {"phase": "release", "reason": "guarded autonomy", "approver": "maria", "requested_at": "2026-01-09"}
    said = position_in(project, current_phase="release", pending_approvals=[waiting])
    line = "Pending approval (do not go on before it is given): release: guarded autonomy (approver maria)\n"
    assert 0 < said.find(line) < said.index("What to do then: ")
    assert "on record" not in said


def test_used_up_retries_are_said_before_what_to_do(project: Project) -> None:
    failed = {"status": "failed", "failed_step": "core-review-pr-checks", "max_retries": 2}
    error = {"phase": "evaluate", "step": "core-review-pr-checks", "error": "red"}
    state = {"status": "failed", "current_phase": "evaluate", "phases": {"evaluate": failed}, "errors": [error] * 2}
    project.write(PROTOCOL, "# P\n\n## Evaluate\n\nBack to build.\n\n## Errors\n\nStop.\n")
    said = position_in(project, **state, retries={"evaluate": 1})
    places = "first read what the protocol says of failures: lines 3-9"
    assert f"Status: failed (2 times, retries of the phase: 1 of 2, 1 left; {places})\n" in said
    assert "\nWhat to do, unless the protocol's rules on failures say otherwise: Wait for and review" in said
    assert "used up" not in said
    said = position_in(project, retries={"evaluate": 2})
    stop = "The retries of phase evaluate are used up (2 of 2): ask the user before you try again.\n"
    assert 0 < said.find(stop) < said.index("What to do then: ")


@pytest.mark.parametrize(("count", "stops"), [(2, False), (3, True), (800, True)])
def test_a_step_that_failed_three_times_is_the_users_to_try(project: Project, count: int, stops: bool) -> None:
    failed, other = {"phase": "build", "step": "implement", "error": "red"}, {"phase": "build", "step": "scaffold"}
    said = position_in(project, current_step="implement", errors=[other, *[failed] * count])
    stop = f"\nThis step has failed {count} times: stop, and ask the user before you try it again.\n"
    assert (0 < said.find(stop) < said.index("\nWhat to do")) == stops


@pytest.mark.parametrize(("failed_at", "is_named"), [("2026-01-05T14:30:22Z", True), ("2099-01-05T14:30:22Z", False)])
def test_a_note_since_the_last_failure_may_be_the_answer(project: Project, failed_at: str, is_named: bool) -> None:
    error = {"phase": "build", "step": "implement", "error": "red", "timestamp": failed_at}
    assert project.faber("note", "add", "the user answered: use a fake clock").returncode == 0
    said = position_in(project, current_step="implement", errors=[error] * 3)
    answer = "try it again, unless a note since then has the answer (the user answered: use a fake clock).\n"
    for text in (said, project.faber("status").stdout, project.faber("reconstitute").stdout):
        assert "This step has failed 3 times: stop, and ask the user before you try it again" in text
        assert (answer in text) == is_named


@pytest.mark.parametrize(
    ("entries", "is_granted"),
    [
        ([("release", "granted", "02"), ("release", "rejected", "01")], True),
        ([("release", "rejected", "02"), ("release", "granted", "01")], False),
        ([("release", "rejected", None), ("release", "granted", None)], True),
        ([("release", "pending", "01"), ("build", "granted", "02")], False),
        ([("release", "pending", "01"), (None, "granted", "02")], False),
        ([(None, "granted", "02")], False),
    ],
)
def test_an_approval_counts_for_its_phase_and_the_newest_wins(
    project: Project, entries: list[tuple[str | None, str, str | None]], is_granted: bool
) -> None:
    made = [
        {
            "reason": "costs",
            "status": status,
            **({"phase": phase} if phase else {}),
            **({"decided_at": f"2026-01-{day}T08:00:00Z"} if day else {}),
        }
        for phase, status, day in entries
    ]
    for state in ({"approvals": made}, {"pending_approvals": made[:1], "approvals": made[1:]}):
        said = position_in(project, current_phase="release", **{"pending_approvals": [], **state})
        assert ("pproval" not in said.partition("What to do")[0]) == is_granted


def test_a_wrong_branch_is_said_before_what_to_do(project: Project) -> None:
    said = position_in(project, current_step="implement", artifacts={"branch": "feature/258"})
    assert 0 < said.find("Branch: feature/258, but `main` is checked out here") < said.index("What to do: ")
    project.deliver(STARTUP, client="who breaks off", pid=None)
    project.git("branch", "feature/258")
    packet = packet_of(project)
    assert " `git log feature/258` shows the commits of its branch. If `git status` shows changes here, " in packet
    assert 0 < packet.find("\nThe session before this conversation broke off") < packet.find("\nBranch: feature/258")


def test_how_often_a_step_failed_is_said(project: Project) -> None:
    failed = {"phase": "build", "step": "implement", "error": "3 tests failed"}
    other = {"phase": "build", "step": "scaffold", "error": "no database"}
    said = position_in(project, current_step="implement", errors=[failed, other, failed], retries={"build": 2})
    assert "\nLast error, perhaps mended since (build:implement, failed 2 times): 3 tests failed" in said


def test_a_failed_step_is_tried_again_and_its_error_is_there(project: Project) -> None:
    """(session-manager-reload-reconstitution 11)"""
    said = position_in(
        project,
        status="failed",
        phases={"build": {"status": "failed", "current_step": "implement", "error": "pytest: 3 failed"}},
        errors=[{"phase": "frame", "error": "old"}, {"phase": "build", "step": "implement", "message": "locked"}],
    )
    assert "Status: failed (try the step again that failed)\nPhase: build\nGo on at: build:implement\n" in said
    assert f"What to do: {PROMPT}" in said
    assert said.endswith("Last error (build:implement): pytest: 3 failed\nNewest of `errors` (build:implement): locked")


def test_what_went_wrong_is_over_where_a_run_is_completed(project: Project) -> None:
    errors = [{"phase": "build", "step": "implement", "error": "3 tests failed"}]
    for status, is_said in (("completed", False), ("cancelled", True)):
        project.change_state(status=status, errors=errors)
        said = project.faber("reconstitute", RUN, "--only", "position").stdout
        assert (f"Status: {status}" in said, "Last error" in said) == (True, is_said)


def test_an_error_of_a_step_that_is_done_since_is_over(project: Project) -> None:
    errors = [{"phase": "build", "step": "implement", "error": "3 tests failed"}]
    assert "Last error" in position_in(project, current_step="test", errors=errors)
    build = {"status": "in_progress", "completed_steps": ["implement"]}
    assert "Last error" not in position_in(project, current_step="implement", errors=errors, phases={"build": build})
    assert "Last error" not in position_in(project, current_step="test", errors=errors, phases={"build": build})
    phases = {"build": {"status": "completed"}, "evaluate": {"status": "in_progress"}}
    assert "Last error" not in position_in(project, current_phase="evaluate", errors=errors, phases=phases)
    assert "Last error" in position_in(project, status="failed", errors=errors, phases=phases)


def test_a_pending_question_is_asked_before_the_run_goes_on(project: Project) -> None:
    request = {
        "request_id": "fb-1",
        "type": "approval",
        "prompt": "Approve the design?",
        "options": ["yes", "no"],
        "resume_point": {"phase": "architect", "step": "refine-spec"},
    }
    said = position_in(project, status="awaiting_feedback", current_step="implement", feedback_request=request)
    assert "Status: awaiting_feedback (do not go on before the question below is answered)\n" in said
    question = "Question to the user (fb-1, approval): Approve the design?\nPossible answers: yes; no\n"
    phase = "Phase: build (frame, architect are completed)\n"
    place = f"{phase}Step: implement\nGo on at: architect:refine-spec\nWhat to do then: Critically review"
    assert question + place in said
    project.change_state(feedback_request={**request, "response": "yes"})
    said = position_in(project)
    assert "Status: awaiting_feedback (the question below is answered)\n" in said
    assert f"Approve the design?\nThe user's answer: yes\n{phase}" in said
    assert json.loads(project.said("run", "list", "--json"))["data"][0]["waits_for"] is None
    for asked, shown in (
        ({"question": "Which cache?", "step": "implement", "requested_at": "2026-11-30T10:00:00Z"}, "Which cache?"),
        ({"asked": "Which cache?"}, "asked: Which cache?"),
        ("Which cache?", "Which cache?"),
        ({"requested_at": "2026-11-30T10:00:00Z", "resume_point": "build:implement"}, f"see {STATE}"),
        ({"questions": [{"text": "Which cache?"}], "requested_at": "2026-11-30T10:00:00Z"}, f"see {STATE}"),
    ):
        assert f"\nQuestion to the user: {shown}\n" in position_in(project, feedback_request=asked)
    project.change_state(feedback_request=None)
    said = position_in(project)
    assert "\nQuestion to the user: none was written down\n" in said
    assert f"{phase}Step: implement\nWhat to do then: Implement" in said  # no other point to go on at


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            "feature/258",
            ", but `main` is checked out here: run `git switch feature/258` before you read or change anything",
        ),
        ("a b;c", ", but `main` is checked out here"),
        ("main", " (checked out here)\n"),
    ],
)
def test_the_branch_is_compared_with_what_is_checked_out(project: Project, named: str, said: str) -> None:
    project.git("branch", "-M", "main")
    project.git("branch", "feature/258")
    assert f"\nBranch: {named}{said}" in position_in(project, artifacts={"branch": named}) + "\n"
    project.git("checkout", "-q", "--detach")
    assert f"\nBranch: {named}, but it is not checked out here" in position_in(project)


def test_a_runs_own_branch_is_named_on_one_that_was_made_from_it(tmp_path: Path) -> None:
    """The state names none, but `run start` was called there: another branch is not the run's."""
    project = Project.made(tmp_path / "project")
    project.git("switch", "--quiet", "--create", "feature/7")
    project.said("run", "start", "--yes", "--work-id", "7")
    project.deliver("SessionStart.startup.print", client="first")
    project.git("switch", "--quiet", "--create", "hotfix/8")
    start = project.deliver("SessionStart.startup.print", client="second")
    assert "\nBranch: feature/7, but `hotfix/8` is checked out here: run `git switch feature/7`" in (start.packet or "")
    assert "; off its branch (" in (start.message or "")
    assert "\nBranch: feature/7, but `hotfix/8` is checked out here: run" in project.said("status")
    project.said("run", "resume", "7", "--yes")
    assert "\nBranch: " not in project.said("status")
    project.git("switch", "--quiet", "feature/7")
    assert "\nBranch: " not in project.said("status")


def test_a_specification_that_is_written_is_not_asked_for_again(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")  # which has no workflow of its own
    phases = {name: {"status": "pending"} for name in ("frame", "architect", "build")}
    step = "What to do: step generate-spec: Generate Specification: /fractary-spec:create --work-id 258"
    assert f"{step}\n" in position_in(project, current_phase="architect", phases=phases, current_step=None)
    project.change_state(artifacts={"spec_path": "specs/A.md"})
    assert f"{step} (if specs/A.md is complete, this step is done)\n" in position_in(project)


def test_the_logs_branch_counts_where_the_state_names_none(project: Project) -> None:
    project.write(".fractary/faber/ledger.json", '{"carry": "refs"}')
    project.git("switch", "--quiet", "--create", "feature/258")
    project.deliver("SessionStart.startup.print", client="first")
    project.git("switch", "--quiet", "main")
    way = "run `git switch feature/258` before you read or change anything for this run"
    assert f"\nBranch: feature/258, but `main` is checked out here: {way}\n" in (
        project.deliver("SessionStart.startup.print", client="second").packet or ""
    )
    assert f"\nBranch: feature/258, but `main` is checked out here: {way}\n" in project.faber("status").stdout


def test_a_command_is_given_only_where_it_leads_to_the_branch(project: Project) -> None:
    switch = ": run `git switch feature/258` before you read or change anything for this run"

    def said(named: str = "feature/258") -> str:
        (line,) = [line for line in position_in(project, artifacts={"branch": named}).split("\n") if "Branch: " in line]
        return line.partition(" is checked out here")[2]

    assert said() == "; this clone does not have that branch: ask where it is"
    project.git("config", "remote.origin.url", "https://example.org/x.git")
    assert said() == "; this clone does not have that branch: run `git fetch`, or ask where it is"
    project.change_state(current_phase="release")
    assert (
        said() == "; this clone does not have that branch: merged and deleted? Else run `git fetch`, or ask where it is"
    )
    for unusable in ("HEAD", "feature/..x", "x.lock", "x//y"):
        assert said(unusable) == ""
    project.git("update-ref", "refs/remotes/origin/feature/258", "HEAD")
    assert said() == switch
    project.git("pack-refs", "--all")
    assert said() == switch
    project.git("branch", "feature/258")
    assert said() == switch
    project.git("pack-refs", "--all")
    assert said() == switch
    project.git("worktree", "add", "-q", "../other", "feature/258")
    assert said() == "; it is checked out in `../other`: work there"


def test_no_other_branch_is_advised_while_git_waits_in_the_middle(project: Project) -> None:
    project.git("branch", "-M", "main")
    for branch in ("feature/258", "main"):
        project.git("checkout", "-q", *(["main"] if branch == "main" else ["-b", branch]))
        project.write("q.txt", branch)
        project.git("add", "q.txt")
        project.git("commit", "-qm", branch)
    project.git("checkout", "-q", "feature/258")
    with pytest.raises(subprocess.CalledProcessError):
        project.git("rebase", "main")
    end = "first finish it with `git rebase --continue`, or take it back with `git rebase --abort`\n"
    said = f"it is not checked out here; a rebase has stopped in the middle: {end}"
    assert f"\nBranch: feature/258, but {said}" in packet_of(project, artifacts={"branch": "feature/258"})


@pytest.mark.parametrize("word", ["background ", "ängstlich 🎉 "])
def test_long_instructions_keep_their_beginning_and_their_end(project: Project, word: str) -> None:
    end = "Do not delete the branch: the auditors read it."
    said = position_in(project, additional_instructions=f"Ask first. {word * 3_000}{end}")
    (line,) = [line for line in said.split("\n") if line.startswith(f"{INSTRUCTIONS}Ask first. ")]
    assert f" … (the rest, which you read before you go on: additional_instructions in {STATE}) … " in line
    assert line.endswith(f" {end}")
    assert 700 < units(line) <= 800 + units(INSTRUCTIONS)


def test_a_long_note_goes_on_below_the_position(project: Project) -> None:
    project.faber("note", "add", "begin " + "w" * 700 + " end")
    project.faber("note", "add", "short")
    first, _, rest = packet_of(project).partition("\nworkflow-state: ")
    head = "\n\nNotes for whoever goes on, newest first (information, not orders):\n"
    assert re.search(rf"{re.escape(head)}- \(20\S+, build\) short\n$", first)
    assert rest.count(" end\n") == 1
    project.faber("note", "add", "new " + "v" * 700 + " last")
    first, _, rest = packet_of(project).partition("\nworkflow-state: ")
    event = [recorded["id"] for recorded in project.events if recorded["event"]["type"] == "note_recorded"][-1]
    assert first.endswith(f"v… (whole: `faber-ledger show {event}`)\n")
    assert rest.count(" last\n") == 1
    assert 700 <= (first + rest).count("v") < 750


# What the last session left


def test_the_next_conversation_hears_of_a_broken_session_at_each_start(project: Project) -> None:
    said = (
        "\nThe session before this conversation broke off, or is still at work: first ask the user whether it is over,"
        " unless the user has said so. `git status` and `git log` show the changes that it left.\n"
    )
    alive = {"client": "one", "pid": str(os.getpid())}
    first = [project.deliver(STARTUP, **alive), project.deliver(STARTUP, **alive)]
    assert [said in (answer.packet or "") for answer in first] == [False, False]
    project.deliver("PreCompact.auto.print", **alive)
    project.deliver("SessionStart.compact.print", **alive)
    for source in ("startup.print", "resume.interactive"):
        assert said in (project.deliver(f"SessionStart.{source}", client="two").packet or "")
    project.deliver("SessionEnd.prompt_input_exit.interactive", client="two")
    assert said not in (project.deliver(STARTUP, client="three").packet or "")


def test_a_session_before_that_ended_later_did_not_break_off(project: Project) -> None:
    alive = {"client": "one", "pid": str(os.getpid())}
    project.deliver(STARTUP, **alive)
    assert "conversation broke off" in (project.deliver(STARTUP, client="two").packet or "")
    project.deliver("SessionEnd.prompt_input_exit.interactive", **alive)
    resumed = project.deliver("SessionStart.resume.interactive", client="two")
    assert "conversation broke off" not in (resumed.packet or "")


@pytest.mark.parametrize("machine", ["dev-machine-1", "container"])
def test_a_session_whose_process_is_gone_here_broke_off(project: Project, machine: str) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    project.deliver(STARTUP, client="one", pid=str(gone.pid), env={"FABER_LEDGER_HOSTNAME": machine})
    packet = project.deliver(STARTUP, client="two").packet or ""
    assert ("conversation broke off. `git status` and" in packet) == (machine == project.hostname)
    assert ("first ask the user whether it is over" in packet) == (machine != project.hostname)


def test_one_sentence_is_about_a_session_elsewhere_that_has_no_end_here(tmp_path: Path) -> None:
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    laptop.deliver(STARTUP, client="one")
    laptop.commit()
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
    said = (
        "\nThe session before this conversation, on dev-machine-1 in another clone, may still be at work: its end is"
        " not known here. So first ask the user whether it is over, unless the user has said so.\n"
    )
    for source in ("startup.print", "resume.interactive"):
        packet = desktop.deliver(f"SessionStart.{source}", client="two").packet or ""
        assert packet.count("The session before this conversation") == packet.count(said) == 1


def test_a_session_that_broke_off_here_after_one_began_elsewhere_is_the_one_before(tmp_path: Path) -> None:
    """The other clone's start gave it up for lost, and its events came by git."""
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as client:
        talk = tmp_path / "one.jsonl"
        alive = {"client": "one", "pid": str(client.pid), "fields": {"transcript_path": str(talk)}}
        laptop.deliver(STARTUP, **alive)
        laptop.commit()
        desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
        desktop.deliver(STARTUP, client="two")
        desktop.deliver("SessionEnd.prompt_input_exit.interactive", client="two")
        desktop.git("commit", "-qam", "two")
        laptop.git("pull", "-q", str(desktop.root), "HEAD")
        assert "\nSession: " not in desktop.faber("status").stdout
        talk.write_text("")
        os.utime(talk, (time.time() + 5, time.time() + 5))  # it goes on after the other one began
        assert f"\nSession: {laptop.history[1]['session_id']}, open since " in laptop.faber("status").stdout
        assert laptop.said("run", "list").splitlines()[-1].endswith("  working")
    assert "\nSession: " not in laptop.faber("status").stdout
    laptop.write("work.py", "x = 1\n")
    packet = laptop.deliver(STARTUP, client="three").packet or ""
    assert "\nThe session before this conversation broke off. `git status` and `git log` show the changes" in packet
    assert "in another clone" not in packet
    assert "not by that session" not in packet
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", **alive)
    assert "session before this" not in (laptop.deliver("SessionStart.resume.interactive", client="three").packet or "")


def committed_by_a_fast_clock(root: Path) -> Project:
    """Make a project whose commit seems younger than every session that a test records."""
    project = Project.noted(root)
    project.write("base.py", "x = 0\n")
    project.git("add", "base.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_COMMITTER_DATE", f"@{int(time.time()) + 3600} +0000")
        project.git("commit", "--quiet", "--amend", "--no-edit")
    return project


@pytest.mark.parametrize(("is_uncommitted", "ends_here"), [(True, False), (True, True), (False, False)])
def test_uncommitted_work_is_told_where_it_is_not(tmp_path: Path, is_uncommitted: bool, ends_here: bool) -> None:
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    laptop.deliver(STARTUP, client="one")
    if is_uncommitted:
        laptop.write("work.py", "x = 1\n")
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    laptop.git("add", ".fractary")
    laptop.git("commit", "-qm", "end")
    desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
    if ends_here:
        desktop.deliver(STARTUP, client="two")
        desktop.deliver("SessionEnd.prompt_input_exit.interactive", client="two")
    desktop.write("new/work.py", "x = 2\n")
    packet = desktop.deliver(STARTUP, client="three").packet or ""
    after = "The session before this conversation, on dev-machine-1 in another clone,"
    left = f"{after} ended with uncommitted changes"
    named = f"{left} (work.py). They are not here: ask for them before you do that work again.\n"
    assert (named in packet) == (left in packet) == (is_uncommitted and not ends_here)
    elsewhere = "Uncommitted here, and not by the last session, which was elsewhere"
    here = f"{elsewhere}: new/: ask the user before you change or commit it.\n"
    assert (here in packet) == (not ends_here)
    for one in (laptop.deliver(STARTUP, client="four"), desktop.deliver(STARTUP, client="five")):
        assert "in another clone" not in (one.packet or "")
        assert "Uncommitted here" not in (one.packet or "")


def test_uncommitted_work_that_was_committed_after_the_session_is_not_asked_for(tmp_path: Path) -> None:
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    laptop.deliver(STARTUP, client="one")
    laptop.write("work.py", "x = 1\n")
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    laptop.commit()
    assert laptop.faber("seal").returncode == 0
    laptop.git("commit", "--allow-empty", "-qm", "Session")
    desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
    packet = desktop.deliver(STARTUP, client="two").packet or ""
    assert "in another clone" not in packet
    assert "ask for them" not in packet


@pytest.mark.parametrize("is_others", [True, False])
def test_a_newer_commit_of_the_branch_counts_wherever_it_is_known(tmp_path: Path, is_others: bool) -> None:
    """A fetched commit of the session's branch settles it; a commit of another branch does not."""
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    laptop.git("switch", "--quiet", "--create", "feat/one")
    laptop.deliver(STARTUP, client="one")
    laptop.write("work.py", "x = 1\n")
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    laptop.git("add", ".fractary")
    laptop.git("commit", "-qm", "end")
    laptop.git("branch", "--force", "other")
    desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
    laptop.git("switch", "--quiet", "other" if is_others else "feat/one")
    laptop.commit()
    desktop.git("fetch", "--quiet")
    packet = desktop.deliver(STARTUP, client="two").packet or ""
    assert ("ask for them" in packet) == is_others


def test_uncommitted_work_that_a_merge_has_brought_is_not_asked_for(tmp_path: Path) -> None:
    """Its branch is gone: the head of the one that is checked out tells."""
    laptop = committed_by_a_fast_clock(tmp_path / "laptop")
    laptop.git("switch", "--quiet", "--create", "feat/one")
    laptop.deliver(STARTUP, client="one")
    laptop.write("work.py", "x = 1\n")
    laptop.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    laptop.commit()
    laptop.git("switch", "--quiet", "main")
    laptop.git("checkout", "--quiet", "feat/one", "--", ".fractary")
    laptop.commit_file("other.py", "x = 2\n", "The ledger came, and other work")
    asked = laptop.clone(tmp_path / "asked", "dev-machine-3")
    asked.git("update-ref", "-d", "refs/remotes/origin/feat/one")
    asked.said("status")  # the log has what git brought
    with Log.open(str(asked.clones_log)) as log:
        end = next(one for one in log.stream() if dict(one["event"]).get("is_end"))
        named: Any = {**end["event"], "uncommitted_names": ["work.py", "a\0b"]}
        log.append([{"event": named, "client": "one"}], at=time.time(), writer=end["writer"])
        log.commit()
    assert "ask for them" in (asked.deliver(STARTUP, client="two").packet or "")
    laptop.git("merge", "--quiet", "--no-ff", "--no-edit", "feat/one")
    laptop.git("branch", "--quiet", "--delete", "feat/one")
    desktop = laptop.clone(tmp_path / "desktop", "dev-machine-2")
    assert "ask for them" not in (desktop.deliver(STARTUP, client="two").packet or "")


# Whatever a repository holds

WORKFLOWS = [json.loads((FIXTURES / "workflows" / name).read_text()) for name in ("default.json", "core.json")]
MEMBERS: dict[str, Any] = {
    **usual_state(),
    "current_step": "implement",
    "status": "awaiting_feedback",
    "target": "Shared lists",
    "additional_instructions": "Ask first.",
    "feedback_request": {"request_id": "fb-1", "prompt": "Which?", "options": ["a"], "resume_point": "build:implement"},
    "pending_approvals": [{"phase": "release", "reason": "it is Friday", "requested_at": "2026-01-09T16:00:00Z"}],
    "phases": {"build": {"status": "failed", "steps": [{"name": "implement", "error": {"message": "no"}}]}},
    "errors": [{"phase": "build", "step": "implement", "error": "3 failed"}],
}


@given(mutated(MEMBERS), st.lists(st.sampled_from(WORKFLOWS).flatmap(mutated), max_size=2), st.lists(st.text()))
def test_no_state_and_no_workflow_stops_it_or_makes_it_longer(state: Any, configs: list[Any], texts: list[str]) -> None:
    lineage = [(f"{number}.json", config) for number, config in enumerate(configs) if isinstance(config, dict)]
    notes: list[Remembered] = [{"text": text, "phase": None, "step": None} for text in texts]
    state = state if isinstance(state, dict) else {}
    found = position_of(RUN, state, workflow={"lineage": lineage} if lineage else None, notes=notes)
    assert units(found["text"]) <= MAX_UNITS
    assert found["text"].startswith(HEAD)


# The steps of a workflow


def step(name: str) -> dict[str, str]:
    return {"id": name, "prompt": name}


def test_inherited_steps_stand_around_a_workflows_own_as_faber_merges_them() -> None:
    parent = {
        "phases": {
            "build": {
                "pre_steps": [step("p1"), step("gone"), step("p0")],
                "steps": [step("p2"), step("c2")],
                "post_steps": ["p3"],
            },
            "frame": {"enabled": False, "steps": [step("never")]},
            "release": {"require_approval": True},
        }
    }
    own = {
        "skip_steps": ["gone"],
        "phases": {
            "build": {"pre_steps": [step("c1"), step("p1")], "steps": [step("c2")], "post_steps": ["c3"]},
            "frame": {},
        },
        "autonomy": {"require_approval_for": ["build"]},
    }
    found = steps_in_order([("own.json", own), ("parent.json", parent)])
    assert [(one["phase"], one["name"], one["path"]) for one in found] == [
        ("build", "p1", "parent.json"),
        ("build", "p0", "parent.json"),
        ("build", "c1", "own.json"),
        ("build", "c2", "own.json"),
        ("build", "c3", "own.json"),
        ("build", "p3", "parent.json"),
        ("release", None, "own.json"),
    ]
    assert all(one["is_gated"] for one in found)


@pytest.mark.parametrize(
    ("raw", "does"),
    [
        ({"prompt": "Do it well.", "description": "It"}, "Do it well."),
        ({"prompt": "/a:b --id 1", "description": "Fetch"}, "Fetch: /a:b --id 1"),
        ({"prompt": "/a:b", "context": "with care"}, "/a:b (with care)"),
        ({"command": "a:b", "skill": "c:d"}, "a:b"),
        ({"skill": "c:d", "name": "Named"}, "Named: c:d"),
        ({"description": "Only this"}, "Only this"),
        ({"prompt": 7}, ""),
    ],
)
def test_a_step_is_its_prompt_before_its_command_before_its_description(raw: dict[str, Any], does: str) -> None:
    (found,) = steps_in_order([("w.json", {"phases": {"build": {"steps": [{"id": "s", **raw}]}}})])
    assert found["does"] == does
