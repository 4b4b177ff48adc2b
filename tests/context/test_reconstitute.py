"""`faber-ledger reconstitute`: RECON's steps, texts and error table, through the installed command and real git."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.project import RUN, Project, usual_state

SPEC = "specs/WORK-00258-faber-hitl-resume-handling.md"
BRANCH = "feat/258-better-faber-workflow-hitl-resume-handling-via-iss"
RUN_PATH = f".fractary/runs/{RUN}"
SPEC_TEXT = """\
---
title: "Better faber workflow HITL handling"
type: feature   # a comment
status: draft
tags: [a, b
---

# Feature Specification

## Summary

Resume after feedback.

## 2. Requirements

### Functional Requirements

- **FR1**: it resumes

## Technical Design

```bash
# Summary is no heading in here
```

**Acceptance Criteria**:
- [ ] it resumes

## Files to Create/Modify

- `a.py`

## Implementation Plan

### Phase 1

**Tasks**:
- [ ] write it
"""
FEEDBACK = {
    "request_id": "fb-1",
    "type": "approval",
    "prompt": "Approve the design?",
    "requested_at": "2025-12-06T18:30:00Z",
    "notification_sent": {"cli": True, "issue_comment": True, "comment_url": "https://example.org/258#c1"},
    "resume_point": {"phase": "architect", "step": "design"},
}
SUMMARY = {
    "session_id": "session-1",
    "phase_completed": "phase-1",
    "timestamp": "2025-12-06T18:00:00Z",
    "summary": {
        "accomplished": ["Created SKILL.md", "Added workflow files"],
        "decisions": ["Used Opus model for thinking support"],
        "files_changed": ["file1.py", "file2.ts"],
        "commits": ["abc123"],
        "remaining_phases": ["phase-2", "phase-3"],
        "context_notes": "Auth module needs special handling",
    },
}
ISSUE = {
    "title": "Better faber workflow HITL handling",
    "body": "It must resume.",
    "labels": [{"name": "feature"}, {"name": "faber"}],
    "comments": [{"body": "yes"}],
    "url": "https://example.org/258",
    "state": "OPEN",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run without specification, branch, events, summaries or work item, and with the metadata of a new run."""
    made = Project.made(tmp_path / "project", {**usual_state(), "work_id": None})
    (made.run / "metadata.json").write_text(json.dumps({"run_id": RUN}))
    return made


def put(project: Project, name: str, content: Any) -> Path:
    """Write a file of the run's folder."""
    text = content if isinstance(content, str) else json.dumps(content)
    return project.write(f"{RUN_PATH}/{name}", text)


def put_event(project: Project, number: int, kind: str = "step_start", **more: Any) -> None:
    event = {"event_id": number, "type": kind, "timestamp": "2025-12-06T18:30:00Z", "run_id": RUN, **more}
    put(project, f"events/{number:03d}-{kind}.json", event)


def map_fetch(project: Project, script: str, *more: str) -> None:
    """Map the command that fetches a work item to a program of the user's, which is this Python script."""
    project.map_fetch(sys.executable, "-c", script, *more, "{work_id}")


def whole(project: Project) -> None:
    """Make everything that a reconstitution can find."""
    project.write(SPEC, SPEC_TEXT)
    project.git("switch", "--quiet", "--create", BRANCH)
    project.commit_file("a.py", "print()\n", "feat: resume")
    artifacts = {"spec_path": f"/{SPEC}", "branch_name": BRANCH}
    project.change_state(
        work_id="258", status="awaiting_feedback", artifacts=artifacts, feedback_request=FEEDBACK, current_step="design"
    )
    put(project, "session-summaries/session-20251206-180000.json", SUMMARY)
    put(project, "session-summaries/zzz.json", {**SUMMARY, "timestamp": "2025-12-05T18:00:00Z"})
    put_event(project, 1, "phase_complete", message="Frame is done")
    put_event(project, 2)
    put_event(project, 3, "decision_point", message="Awaiting design approval")
    map_fetch(project, f"print({json.dumps(ISSUE)!r})")


def context_of(project: Project, *arguments: str) -> dict[str, Any]:
    data: dict[str, Any] = project.data("reconstitute", *arguments)
    return data


def recorded(project: Project) -> dict[str, str]:
    """The findings of the last recorded reconstitution: severity by code."""
    log = project.events if project.ledger_path.exists() else project.recorded  # its branch may not be checked out
    events: list[dict[str, Any]] = [
        dict(one["event"]) for one in log if one["event"]["type"] == "context_reconstituted"
    ]
    return {found["code"]: found["severity"] for found in events[-1]["findings"]}


def answered(project: Project, keys: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a real terminal as its standard input, on which `keys` are typed."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, keys.encode())
        return project.faber("reconstitute", *arguments, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


# What is printed


def assert_report(project: Project, report: str) -> None:
    """Check the documents' report: alone, and at the end of everything, behind an empty line."""
    alone = project.faber("reconstitute", "--only", "report")
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, report, "")
    forget_log(project)
    done = project.faber("reconstitute", "--verbose")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"\n\n{report}")


def test_without_a_terminal_the_report_is_only_printed_on_request(project: Project) -> None:
    first = "ℹ No specification found"
    said = project.said("reconstitute")
    assert first not in said
    assert "✓ Context reconstituted" not in said
    assert f"\n\n{first}" in project.said("reconstitute", "--verbose")
    assert f"\n\n{first}" in project.on_terminal("reconstitute")[0]


def forget_log(project: Project) -> None:
    """Remove the run's log, as if nothing had been recorded."""
    project.ledger_path.unlink(missing_ok=True)
    shutil.rmtree(project.private)


def test_a_full_context_is_printed_in_the_documents_words(project: Project) -> None:
    whole(project)
    short = project.git("log", "--format=%h", "-1")
    assert_report(
        project,
        f"""\
✓ Loaded specification: /{SPEC}
  Title: Better faber workflow HITL handling
  Type: feature
  Status: draft
✓ Loaded issue #258: Better faber workflow HITL handling
  State: OPEN
  Labels: feature, faber
  Comments: 1
✓ Branch exists: {BRANCH}
  Recent commits:
    {short} feat: resume
✓ Loaded session context from previous sessions
  Total sessions: 2
  Last session:
    - Phase completed: phase-1
    - Timestamp: 2025-12-06T18:00:00Z
    - Accomplished: 2 items
    - Files changed: 2
    - Remaining phases: phase-2, phase-3
✓ Loaded 3 recent events
  [2025-12-06T18:30:00Z] phase_complete: Frame is done
  [2025-12-06T18:30:00Z] decision_point: Awaiting design approval
⏳ Workflow is awaiting feedback
  Request ID: fb-1
  Type: approval
  Prompt: Approve the design?
  Requested at: 2025-12-06T18:30:00Z
  Comment posted: https://example.org/258#c1
Resume point: After feedback at architect:design

═══════════════════════════════════════════════════════════
  CONTEXT RECONSTITUTION COMPLETE
═══════════════════════════════════════════════════════════
  Run ID:        {RUN}
  Work ID:       258
  Status:        awaiting_feedback
  Resume Mode:   after_feedback
  Spec:          /{SPEC}
  Branch:        {BRANCH}
  Events:        3 loaded
  Sessions:      2 previous
  Last Phase:    phase-1
  Next Phase:    phase-2
═══════════════════════════════════════════════════════════

✓ Context reconstituted for run: {RUN}
  Work Item: #258 - Better faber workflow HITL handling
  Spec: /{SPEC}
  Branch: {BRANCH}
  Status: awaiting_feedback → Resuming after feedback
  Sessions: 2 previous (last: phase-1 complete)
  Next Phase: phase-2
  Last Event: [2025-12-06T18:30:00Z] decision_point: Awaiting design approval
""",
    )
    assert recorded(project) == {}
    project.assert_projected()


def test_a_new_run_is_printed_in_the_documents_words(project: Project) -> None:
    assert_report(
        project,
        f"""\
ℹ No specification found (may not be created yet)
ℹ No work_id - standalone workflow run
ℹ No branch created yet
ℹ No session summaries found (first session for this run)
ℹ No events found (new run)
Resume point: Continue from build

═══════════════════════════════════════════════════════════
  CONTEXT RECONSTITUTION COMPLETE
═══════════════════════════════════════════════════════════
  Run ID:        {RUN}
  Status:        in_progress
  Resume Mode:   continue
  Spec:          Not created
  Branch:        Not created
  Events:        0 loaded
  Sessions:      0 previous
═══════════════════════════════════════════════════════════

✓ Context reconstituted for run: {RUN}
  Spec: Not created
  Branch: Not created
  Status: in_progress → Continuing from build
  Sessions: 0 previous
""",
    )


def test_counts_are_of_fabers_files_and_the_ledger_together(project: Project) -> None:
    """(DECISIONS 39)"""

    def counts() -> list[str]:
        words = ("No session", "No events", "Total", "recent events", "Events:", "Sessions:")
        lines = project.faber("reconstitute", "--only", "report").stdout.split("\n")
        return [" ".join(line.split()) for line in lines if any([word in line for word in words])]

    project.faber("session-load", "--trigger", "session_start")
    events = len(project.events)
    assert counts() == [
        "ℹ No session summaries found (first session for this run)",  # the open one is no previous one
        f"✓ Loaded {events} recent events",
        f"Events: {events} loaded",
        "Sessions: 0 previous",
        "Sessions: 0 previous",
    ]
    project.faber("session-save")
    whole(project)
    put(project, "session-summaries/session-9.json", {"session_id": project.history[0]["session_id"], "summary": {}})
    events = 3 + len(project.events)
    assert counts() == [
        "Total sessions: 3",
        f"✓ Loaded {events} recent events",
        f"Events: {events} loaded",
        "Sessions: 3 previous",
        "Sessions: 3 previous (last: phase-1 complete)",
    ]


def test_json_is_the_whole_workflow_context(project: Project) -> None:
    whole(project)
    context = context_of(project)
    assert list(context) == [
        *("run_id", "work_id", "status", "current_phase", "current_step", "artifacts", "spec", "issue", "branch"),
        *("events", "session_history", "session_summary", "resuming_from_feedback", "feedback_request"),
        *("resume_point", "older_decisions", "work", "notes", "ledger_summaries", "findings"),
    ]
    assert context["issue"] == {
        "title": ISSUE["title"],
        "description": ISSUE["body"],
        "labels": ["feature", "faber"],
        "comments": ISSUE["comments"],
        "url": ISSUE["url"],
        "state": "OPEN",
    }
    assert context["branch"]["name"] == BRANCH
    assert [line.partition(" ")[2] for line in context["branch"]["commits"]] == ["feat: resume"]
    assert context["branch"]["files_changed"] == " a.py | 1 +\n 1 file changed, 1 insertion(+)"
    assert [event["event_id"] for event in context["events"]] == [1, 2, 3]
    assert context["session_history"]["total_sessions"] == 2
    assert context["session_history"]["latest"] == SUMMARY
    assert context["session_history"]["all_summaries"][1] == {
        "session_id": "session-1",
        "phase_completed": "phase-1",
        "timestamp": "2025-12-06T18:00:00Z",
        "accomplished": SUMMARY["summary"]["accomplished"],  # type: ignore[index]  # a fixture of JSON
        "decisions": SUMMARY["summary"]["decisions"],  # type: ignore[index]  # a fixture of JSON
    }
    assert context["resuming_from_feedback"] is True
    assert context["feedback_request"] == FEEDBACK
    assert context["resume_point"] == {"phase": "architect", "step": "design", "mode": "after_feedback"}
    spec = context["spec"]
    assert spec["content"] == SPEC_TEXT
    assert spec["summary"] == "## Summary\n\nResume after feedback."
    assert spec["requirements"].startswith("## 2. Requirements\n\n### Functional Requirements")
    assert spec["acceptance_criteria"] == "**Acceptance Criteria**:\n- [ ] it resumes"
    assert spec["technical_approach"].startswith("## Technical Design")
    assert spec["files"] == "## Files to Create/Modify\n\n- `a.py`"
    assert spec["phases"].startswith("## Implementation Plan\n\n### Phase 1")


def test_for_build_prints_the_build_skills_input_alone(project: Project) -> None:
    whole(project)
    done = project.faber("reconstitute", "--for", "build")
    said = {name: value for name, value in SUMMARY["summary"].items() if name != "commits"}  # type: ignore[attr-defined]  # a fixture of JSON
    wanted = {"current_phase": "phase-2", "session_summary": {"phase_completed": "phase-1", **said}}
    assert json.loads(done.stdout) == wanted
    assert context_of(project, "--for", "build") == wanted


def test_for_build_falls_back_to_the_states_phase_if_no_phase_remains(project: Project) -> None:
    put(project, "session-summaries/session-1.json", {**SUMMARY, "summary": {"remaining_phases": []}})
    assert context_of(project, "--for", "build")["current_phase"] == "build"


@pytest.mark.parametrize(
    ("state", "line", "status"),
    [
        ({"status": "pending"}, "Resume point: Start from beginning", "pending → Starting from beginning"),
        (
            {"status": "in_progress", "current_step": "implement"},
            "Resume point: Continue from build:implement",
            "in_progress → Continuing from build:implement",
        ),
        (
            {"status": "failed", "phases": [{"name": "build", "failed_step": "test"}], "current_step": "implement"},
            "Resume point: Retry failed step build:test",
            "failed → Retrying build:test",
        ),
        ({"status": "completed"}, "ℹ Workflow already completed - nothing to resume", "completed → Nothing to resume"),
        ({"status": "cancelled"}, "ℹ Workflow was cancelled - cannot resume", "cancelled → Cannot resume"),
    ],
    ids=lambda value: value["status"] if isinstance(value, dict) else "",
)
def test_each_status_has_its_resume_point(project: Project, state: dict[str, Any], line: str, status: str) -> None:
    project.change_state(**state)
    done = project.faber("reconstitute", "--verbose")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\n{line}\n" in done.stdout
    assert f"\n  Status: {status}\n" in done.stdout
    is_at_work = state["status"] not in ("completed", "cancelled")
    mode = project.of_type("context_reconstituted")[-1]["mode"] if is_at_work else None
    assert (f"\n  Resume Mode:   {mode}\n" in done.stdout) == is_at_work
    assert "N/A" not in done.stdout


def test_an_event_without_a_message_shows_its_error_or_its_step(project: Project) -> None:
    """(session-manager-reload-reconstitution 10)"""
    shown: list[tuple[dict[str, Any], str]] = [
        ({"error": {"message": "tests failed: 3", "code": "E1"}, "phase": "build"}, "tests failed: 3"),
        ({"error": {"code": "E1"}, "phase": "build"}, "E1"),
        ({"error": "tests failed: 3"}, "tests failed: 3"),
        ({"error": {}, "phase": "build", "step": "implement"}, "build:implement"),
        ({"phase": "build", "message": ""}, "build"),
        ({"error": ["x"], "phase": ["build"]}, "x"),
        ({}, "N/A"),
    ]
    for event, line in shown:
        put_event(project, 1, "step_error", **event)
        said = project.faber("reconstitute", "--verbose").stdout
        assert f"\n  [2025-12-06T18:30:00Z] step_error: {line}\n" in said
        assert f"\n  Last Event: [2025-12-06T18:30:00Z] step_error: {line}\n" in said


@pytest.mark.parametrize(
    ("status", "phases", "line"),
    [
        (
            "failed",
            {"build": {"status": "failed", "current_step": "implement", "error": "pytest: 3 failed"}},
            "Resume point: Retry failed step build:implement\n  Error: pytest: 3 failed\n",
        ),
        (
            "failed",
            [{"name": "build", "status": "failed", "failed_step": "test", "error": {"message": "3 failed"}}],
            "Resume point: Retry failed step build:test\n  Error: 3 failed\n",
        ),
        (
            "in_progress",
            {"build": {"status": "in_progress", "current_step_id": "build:implement", "error": "of an earlier try"}},
            "Resume point: Continue from build:implement\n\n",
        ),
        (
            "awaiting_feedback",
            {"build": {"status": "in_progress", "current_step": "implement"}},
            "Resume point: After feedback at build:implement\n",
        ),
    ],
)
def test_a_resume_point_that_only_the_phase_holds_is_found(
    project: Project, status: str, phases: Any, line: str
) -> None:
    """(session-manager-reload-reconstitution 11)"""
    asked = {"feedback_request": {"request_id": "r"}} if status == "awaiting_feedback" else {}
    project.change_state(status=status, phases=phases, **asked)
    state = {name: value for name, value in project.state.items() if not name.startswith("current_step")}
    del state["current_phase"]
    project.put_state(state)
    assert line in project.faber("reconstitute", "--verbose").stdout


# CRITICAL: nothing else runs


def critical(project: Project, error: str, action: str, first: str = "", run: str = RUN) -> None:
    """Check that a reconstitution stops at once: nothing printed, no program run, nothing recorded."""
    map_fetch(project, f"open({str(project.root / 'ran')!r}, 'w')")
    done = project.faber("reconstitute", run)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[:1] == ([first] if first else lines[:1])
    assert lines[-3] == "❌ CRITICAL: Cannot reconstitute context"
    assert lines[-2].startswith(f"Error: {error}")
    assert lines[-1].startswith(f"Action: {action}")
    assert not (project.root / "ran").exists()
    assert not project.ledger_path.exists()


def test_row_1_a_missing_run_is_critical(project: Project) -> None:
    gone = "org/project/00000000-0000-0000-0000-000000000000"
    critical(
        project,
        f"Run directory not found: .fractary/runs/{gone}",
        "Verify run_id is correct or start a new run with /faber run <work_id>",
        f"❌ ERROR: Run not found: {gone}",
        gone,
    )


def test_row_2_a_corrupted_state_is_critical(project: Project) -> None:
    for text in (b'{"run_id": ', b"", b"[]", b"\xff"):
        project.put_state(text)
        critical(project, f"State file corrupted: {RUN_PATH}/state.json: ", "Inspect and repair state.json manually")


def test_row_3_a_missing_state_is_critical(project: Project) -> None:
    project.state_path.unlink()
    critical(
        project,
        f"State file missing: {RUN_PATH}/state.json",
        "Run may have been cleaned up; start new run",
        f"❌ ERROR: Run not found: {RUN}",
    )


def test_malformed_metadata_is_critical(project: Project) -> None:
    for text in ['{"target": "one\ntwo"}', "{", "[]", '{"n": NaN}']:
        put(project, "metadata.json", text)
        critical(project, f"Metadata file corrupted: {RUN_PATH}/metadata.json: ", "Inspect and repair metadata.json")


def test_an_unknown_status_is_an_error(project: Project) -> None:
    project.change_state(status="sleeping")
    done = project.faber("reconstitute")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "❌ ERROR: Invalid state status: sleeping\n"
        f"Path: .fractary/runs/{project.run_id}/state.json\n\n"
        "Recovery:\n"
        "1. Set `status` to one of pending, in_progress, paused, awaiting_feedback, completed, failed, cancelled\n"
    )


# WARNING and INFO: it goes on, and the ledger knows


def warned(project: Project, code: str, block: str) -> None:
    """Check that a reconstitution goes on with this block, and that the finding is in the ledger."""
    done = project.faber("reconstitute")
    assert done.returncode == 0
    assert block in done.stderr
    assert done.stdout.startswith(f"# Run {RUN}, as of ")
    assert recorded(project)[code] == "WARNING"


def test_missing_metadata_is_a_warning(project: Project) -> None:
    (project.run / "metadata.json").unlink()
    warned(project, "metadata_missing", "⚠️ WARNING: Run metadata not found - continuing without it\n")


def test_a_missing_work_id_is_reported_if_one_was_expected(project: Project) -> None:
    put(project, "metadata.json", {"work_id": "258"})
    warned(project, "work_id_missing", "⚠️ WARNING: State missing work_id - may be a standalone run\n")


@pytest.mark.parametrize("path", ["/specs/none.md", "../../outside.md", 7, ["specs"], "specs/\x00"])
def test_row_4_a_missing_specification_is_a_warning(project: Project, path: Any) -> None:
    (project.root.parent / "outside.md").write_text("secret")
    project.change_state(artifacts={"spec_path": path})
    done = project.faber("reconstitute", "--json", "--skip", "spec")
    assert "secret" not in done.stdout
    assert json.loads(done.stdout)["data"]["spec"] is None
    if path == "/specs/none.md":
        text = f"""\
⚠️ WARNING: Specification not found - continuing without specification
Path: /specs/none.md
Error: File not found: {project.root}/specs/none.md
Note: Spec may not have been created yet (early phase)
"""
        warned(project, "spec_path_invalid", text)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("sys.exit('error connecting to api.example.org')", "error connecting to api.example.org"),
        ("pass", "it printed nothing"),
        ("sys.exit(9)", "it ended with status 9"),
    ],
)
def test_row_6_a_network_that_fails_is_a_warning(project: Project, script: str, error: str) -> None:
    project.change_state(work_id="258")
    map_fetch(project, f"import sys; {script}")
    text = f"""\
⚠️ WARNING: Issue fetch failed - continuing without issue details
Issue: #258
Error: {error}
Note: Workflow will continue but may lack recent issue comments
"""
    warned(project, "issue_fetch_network", text)


def test_an_answer_in_plain_text_is_the_description(project: Project) -> None:
    project.change_state(work_id="258")
    map_fetch(project, "print('Widgets turn\\nThey do not.\\n--\\nstate:\\tfine')")
    done = project.faber("reconstitute", "--verbose")
    assert "✓ Loaded issue #258 (plain text: Widgets turn)\n  State, labels and comments" in done.stdout
    assert "`--json title,body,labels,comments,state,url`" in done.stdout
    issue = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["issue"]
    assert (issue["title"], issue["state"], issue["labels"]) == (None, None, [])
    assert issue["description"] == "Widgets turn\nThey do not.\n--\nstate:\tfine"


def test_row_7_a_deleted_work_item_is_a_warning(project: Project) -> None:
    project.change_state(work_id=258)
    map_fetch(
        project, "import sys; sys.exit('GraphQL: Could not resolve to an Issue with the number of ' + sys.argv[1])"
    )
    text = "Error: GraphQL: Could not resolve to an Issue with the number of 258\n"
    warned(project, "issue_fetch_not_found", text)


def test_row_9_a_missing_branch_is_a_warning(project: Project) -> None:
    project.change_state(branch="feat/gone")
    warned(project, "branch_not_found", "⚠️ WARNING: Branch not found - continuing without branch details\n")
    assert (
        "ℹ Branch feat/gone not found locally (may need to fetch)\n"
        in project.faber("reconstitute", "--verbose").stdout
    )
    assert "  Branch:        feat/gone\n" in project.faber("reconstitute", "--verbose").stdout
    project.change_state(status="completed")  # and then merged, so that it is information
    assert context_of(project)["findings"][-1]["severity"] == "INFO"
    assert "pre-build" not in project.faber("reconstitute").stderr


def test_row_10_a_folder_without_git_is_a_warning(project: Project) -> None:
    project.change_state(artifacts={"branch": "feat/258"})
    (project.root / ".git").rename(project.root / "was-git")
    warned(project, "git_failed", "Note: May be outside git repo\n")


def test_the_branch_of_a_new_runs_own_worktree_is_known(project: Project) -> None:
    project.commit()
    project.start_run("2", "--worktree")
    made = Project(project.root.parent / "project-issue-2").said("reconstitute", "--verbose")
    assert "✓ Branch exists: feature/2\n" in made
    assert made.count("  Branch: feature/2\n") == 1


def test_row_11_an_empty_events_folder_is_information(project: Project) -> None:
    (project.run / "events").mkdir()
    put(project, "events/.next-id", "1\n")
    done = project.faber("reconstitute", "--verbose")
    assert "ℹ No events found (new run)\n" in done.stdout
    assert done.stderr == ""
    assert recorded(project)["events_empty"] == "INFO"


def test_row_12_an_unreadable_event_is_skipped_with_a_warning(project: Project) -> None:
    for number in (1, 2, 4, 6):
        put_event(project, number)
    put(project, "events/002-step_start.json", "{")
    (project.run / "events" / "003-step_start.json").mkdir()
    put(project, "events/004-step_start.json", '"a text"')
    outside = project.write("outside.json", json.dumps({"event_id": 5}))
    (project.run / "events" / "005-step_start.json").symlink_to(outside)
    warned(project, "events_read_error", "⚠️ WARNING: Events read error\nPath: events/002-step_start.json\n")
    assert [event["event_id"] for event in context_of(project)["events"]] == [1, 6]


def test_row_13_missing_summaries_are_information(project: Project) -> None:
    assert (
        "ℹ No session summaries found (first session for this run)\n"
        in project.faber("reconstitute", "--verbose").stdout
    )
    (project.run / "session-summaries").mkdir()
    done = project.faber("reconstitute", "--verbose")
    assert "ℹ Session summaries directory exists but is empty (first session)\n" in done.stdout
    assert done.stderr == ""
    assert recorded(project)["summaries_missing"] == "INFO"


def test_row_14_a_summary_that_cannot_be_read_is_a_warning(project: Project) -> None:
    put(project, "session-summaries/session-1.json", SUMMARY)
    (project.run / "session-summaries" / "session-2.json").mkdir()
    warned(
        project, "summary_read_error", "⚠️ WARNING: Session summary read error\nPath: session-summaries/session-2.json"
    )


def test_row_15_a_malformed_summary_is_skipped_with_a_warning(project: Project) -> None:
    for text in ["{", '{"summary": "done"}', '{"summary": {"remaining_phases": [{"a": 1}]}}', "[" * 100_000]:
        put(project, "session-summaries/session-1.json", SUMMARY)
        put(project, "session-summaries/session-2.json", text)
        put(project, "session-summaries/session-3.json", {"session_id": "bare", "summary": {}})
        warned(project, "summary_parse_error", "⚠️ WARNING: Session summary parse error - file skipped\n")
        history = context_of(project)["session_history"]
        assert history["total_sessions"] == 2
        assert [summary["session_id"] for summary in history["all_summaries"]] == ["session-1", "bare"]
        assert history["latest"]["summary"]["accomplished"] == []


# ERROR: asks on a terminal, and exits 3 elsewhere


def unreadable_spec(project: Project) -> str:
    (project.root / "specs" / "WORK-00258-spec.md").mkdir(parents=True)
    project.change_state(artifacts={"spec_path": "/specs/WORK-00258-spec.md"})
    return """\
⚠️ ERROR: Specification file not readable
Path: /specs/WORK-00258-spec.md
Error: a directory, not a regular file

How would you like to proceed?
1. Skip spec loading and continue
2. Regenerate specification
3. Abort workflow
"""


def refused_login(project: Project) -> str:
    project.change_state(work_id="258")
    map_fetch(project, "import sys; print('gh: please run gh auth login', file=sys.stderr); sys.exit(4)")
    return """\
⚠️ ERROR: Issue fetch failed
Issue: #258
Error: gh: please run gh auth login

How would you like to proceed?
1. Skip issue details and continue
2. Check work plugin credentials, then fetch again
3. Abort workflow
"""


def invalid_feedback(project: Project) -> str:
    project.change_state(status="awaiting_feedback", feedback_request={**FEEDBACK, "request_id": 7})
    return f"""\
⚠️ ERROR: Pending feedback mismatch
Path: {RUN_PATH}/state.json
Error: State claims awaiting_feedback but request_id is invalid

How would you like to proceed?
1. Continue with the feedback request as it is
2. Abort workflow
"""


ROWS = [
    pytest.param(unreadable_spec, "spec_not_readable", "spec", id="row 5"),
    pytest.param(refused_login, "issue_fetch_auth", "issue", id="row 8"),
    pytest.param(invalid_feedback, "feedback_mismatch", "feedback", id="row 16"),
]


@pytest.mark.parametrize(("provoked", "code", "skip"), ROWS)
def test_an_error_needs_a_choice_and_exits_3_without_a_terminal(
    project: Project, provoked: Any, code: str, skip: str
) -> None:
    question = provoked(project)
    done = project.faber("reconstitute")
    assert done.returncode == 3
    shown, _, hint = done.stderr.partition("\nhint: ask the user; option 1: run it again with --skip ")
    assert (shown, hint.partition(";")[0]) == (question, skip)
    numbers = range(1, 1 + question.partition("proceed?\n")[2].count("\n"))
    assert [hint.count(f"; option {number}: ") for number in range(2, 5)] == [
        number in numbers for number in range(2, 5)
    ]
    assert hint.endswith(f"; option {numbers[-1]}: end the workflow here\n")
    assert "CONTEXT RECONSTITUTION COMPLETE" not in done.stdout
    assert not project.ledger_path.exists()
    as_json = project.faber("reconstitute", "--json")
    assert (as_json.returncode, as_json.stdout) == (3, "")
    error = json.loads(as_json.stderr)["error"]
    assert error["code"] == "choice_needed"
    assert error["block"].startswith(question)
    assert error["options"] == [line.partition(". ")[2] for line in question.splitlines() if line[:1].isdigit()]
    assert error["findings"][-1]["code"] == code


def test_findings_before_a_stop_are_recorded_if_there_is_a_ledger(project: Project) -> None:
    assert project.faber("reconstitute").returncode == 0
    unreadable_spec(project)
    (project.run / "metadata.json").unlink()
    assert project.faber("reconstitute").returncode == 3
    assert project.of_type("context_reconstituted")[-1]["mode"] == "stopped"
    assert recorded(project) == {"metadata_missing": "WARNING", "spec_not_readable": "ERROR"}
    error = json.loads(project.faber("reconstitute", "--json").stderr)["error"]
    assert error["findings"][0]["code"] == "metadata_missing"
    assert error["warnings"][0].startswith("⚠️ WARNING: Run metadata not found")
    project.assert_projected()


def test_an_interrupted_question_is_recorded_and_exits_with_130(project: Project) -> None:
    """(DECISIONS 36)"""
    project.faber("session-load")
    unreadable_spec(project)
    done = answered(project, "\x04")
    assert done.returncode == 130
    (stopped,) = project.of_type("context_reconstituted")
    assert (stopped["mode"], stopped["findings"][-1]["code"]) == ("stopped", "spec_not_readable")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("gone", ["workflow_id", "status"])
def test_a_state_without_a_required_field_is_critical(project: Project, gone: str) -> None:
    project.put_state({name: value for name, value in project.state.items() if name != gone})
    critical(project, "State file missing required fields (", "Inspect and repair state.json manually")


@pytest.mark.parametrize(("provoked", "code", "skip"), ROWS)
def test_the_first_option_continues_and_is_recorded(project: Project, provoked: Any, code: str, skip: str) -> None:
    question = provoked(project)
    done = answered(project, "9\n1\n")
    assert done.returncode == 0
    assert done.stderr.startswith(question)
    assert "There is no number 9." in done.stderr
    assert recorded(project)[code] == "ERROR"
    unasked = project.faber("reconstitute", "--skip", skip)
    assert unasked.returncode == 0
    assert unasked.stderr == question.partition("\n\n")[0] + "\n"


def test_the_last_option_aborts(project: Project) -> None:
    unreadable_spec(project)
    done = answered(project, "3\n")
    assert done.returncode == 1
    assert done.stderr.endswith("Workflow aborted.\n")
    assert not project.ledger_path.exists()


def test_a_specification_can_be_marked_for_regeneration(project: Project) -> None:
    unreadable_spec(project)
    done = answered(project, "2\n", "--json")
    spec = json.loads(done.stdout)["data"]["spec"]
    assert spec == {"path": "/specs/WORK-00258-spec.md", "regenerate": True}


def test_a_work_item_is_fetched_again_after_the_login(project: Project) -> None:
    refused_login(project)
    marker = project.root / "tried"
    map_fetch(
        project,
        "import os, sys\n"
        'if os.path.exists(sys.argv[1]): print(\'{"title": "Back"}\'); sys.exit()\n'
        "open(sys.argv[1], 'w'); sys.exit('HTTP 401: Bad credentials')",
        str(marker),
    )
    done = answered(project, "2\n", "--verbose")
    assert done.returncode == 0
    assert "✓ Loaded issue #258: Back\n" in done.stdout


# Bad input


def test_an_invalid_branch_name_never_reaches_git(project: Project) -> None:
    for name in ["-x", "--output=stolen", "main..x", "\ud800", {"a": 1}]:
        project.put_state(json.dumps({**project.state, "artifacts": {"branch_name": name}}))
        done = project.faber("reconstitute")
        assert done.returncode == 0
        assert "Error: not a valid branch name\n" in done.stderr
        assert not (project.root / "stolen").exists()


def test_a_projects_own_diff_and_pager_settings_are_not_run(project: Project) -> None:
    whole(project)
    project.git("config", "diff.external", f"touch {project.root}/ran")
    project.git("config", "core.pager", f"touch {project.root}/ran")
    project.git("config", "diff.x.textconv", f"touch {project.root}/ran; cat")
    project.git("config", "log.showSignature", "true")
    project.git("config", "gpg.program", str(project.root / "a.py"))
    project.write(".gitattributes", "*.py diff=x\n")
    assert context_of(project)["branch"]["files_changed"] == " a.py | 1 +\n 1 file changed, 1 insertion(+)"
    assert not (project.root / "ran").exists()


@pytest.mark.parametrize("work_id", ["$(touch ran)", "--web"])
def test_an_invalid_work_id_never_reaches_a_program(project: Project, work_id: str) -> None:
    project.change_state(work_id=work_id)
    map_fetch(project, f"open({str(project.root / 'ran')!r}, 'w')")
    warned(project, "issue_fetch_network", "Error: State field cannot be used in a command: work_id\n")
    assert not (project.root / "ran").exists()


def test_an_invalid_work_id_is_in_no_command(project: Project) -> None:
    project.change_state(work_id="25 ✓ forged")
    text = project.faber("reconstitute", "--verbose").stdout
    assert "ℹ Issue #25 ✓ forged not fetched: no command can have its number\n" in text
    assert "issue-fetch" not in text


def test_a_command_from_the_projects_settings_is_never_run(project: Project) -> None:
    project.change_state(work_id="258")
    project.write(
        ".config/faber-ledger/config.json", json.dumps({"commands": {"/fractary-work:issue-fetch": ["false"]}})
    )
    done = project.faber("reconstitute", "--verbose")
    assert "ℹ Issue #258 not fetched: in the client, /fractary-work:issue-fetch 258 does\n" in done.stdout


def test_a_reconstitution_that_cannot_be_recorded_is_printed(project: Project) -> None:
    project.refuse()
    project.write(".fractary/inbox", "no folder")
    done = project.faber("reconstitute")
    assert done.returncode == 0
    assert "⚠️ WARNING: Reconstitution not recorded\n" in done.stderr
    assert done.stdout.startswith(f"# Run {RUN}, as of ")
    assert not project.clones_log.exists()
