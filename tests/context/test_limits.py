"""What is too large: never the run's state, never because of the ledger's own blocks, and never without a way on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

from faber_ledger.context.body import compact_state
from faber_ledger.files.text import units

if TYPE_CHECKING:
    from pathlib import Path

STARTUP = "SessionStart.startup.interactive"
STATE = {"id": "workflow-state", "type": "json", "path": ".fractary/runs/{run_id}/state.json", "required": True}


def packet(project: Project, **changes: Any) -> str:
    return project.deliver(STARTUP, **changes).packet or ""


def large_state() -> dict[str, Any]:
    """Return a state in Build of about 240 KB: 40 steps a phase, 800 errors, and the user's order at its end."""
    steps = [{"name": f"step-{number}", "status": "completed", "files": ["a.py"] * 20} for number in range(40)]
    frame = {"status": "completed", "steps": [{**step, "name": f"frame-{step['name']}"} for step in steps]}
    build = {"status": "in_progress", "steps": [{"name": f"build-{number}", "status": "done"} for number in range(40)]}
    errors = [{"at": "2026-11-20T10:20:00Z", "message": f"error-{number} " + "x" * 200} for number in range(800)]
    phases = {"frame": frame, "build": build}
    return {**usual_state(), "phases": phases, "errors": errors, "additional_instructions": "Do not touch billing."}


# The ledger's own blocks


def test_the_ledgers_blocks_count_nowhere(project: Project) -> None:
    """Not in sizes, not in warnings, not in what a hook reads (session-manager-reload-reconstitution 4)."""
    at = "2026-11-20T10:20:00Z"
    history = [
        {"session_id": f"s-{number}", "started_at": at, "ended_at": at, "phases_completed": ["frame"] * 60}
        for number in range(6_000)
    ]
    size = len(json.dumps(project.state, indent=2))
    sessions = {"current_session_id": None, "total_sessions": len(history), "session_history": history}
    project.change_state(sessions=sessions)
    assert project.state_path.stat().st_size > 3_000_000
    done = project.faber("session-load", "--verbose")
    assert done.returncode == 0
    assert done.stderr == ""
    entries = {entry["artifact_id"]: entry for entry in project.state["context_metadata"]["artifacts_in_context"]}
    assert abs(entries["workflow-state"]["size_bytes"] - size) < 10
    assert entries.keys() == {"workflow-state", "orchestration-protocol"}
    assert f"Total size: {sum(entry['size_bytes'] for entry in entries.values()) / 1024:.1f} KB\n" in done.stdout
    text = packet(project)
    assert "/state.json. Read the file before you write it" in text
    assert "One step after the other" in text


# The state


def test_the_state_is_never_too_large(project: Project) -> None:
    """It does not keep the others away, in a hook and in a load (DECISIONS 25)."""
    project.name_artifacts(STATE, {"id": "a", "path": "a.md", "required": True})
    project.write("a.md", "What comes after.\n")
    project.change_state(plans=["x" * 1_000] * 3_000, additional_instructions="Do not touch billing.")
    for text in (packet(project), project.faber("session-load", "--force").stdout):
        assert "Also in it:" in text
        assert "Do not touch billing." in text
        assert "\nWhat comes after.\n" in text
    done = project.faber("session-load", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert project.state["context_metadata"]["reload_count"] == 3


def test_a_large_state_shows_its_phase_and_the_newest_entries(project: Project) -> None:
    """It does not show what was done first (session-manager-reload-reconstitution 5)."""
    project.put_state(large_state())
    text = packet(project)
    assert '"build":{"status":"in_progress"' in text
    assert "build-39" in text
    assert '"phases":{"frame":{"status":"completed"},' in text
    assert "frame-step-0" not in text
    assert "error-799 " in text
    assert "error-0 " not in text
    assert '"errors (4 of 800)":[' in text  # the position has the newest one
    assert "2026-11-20T10:20:00Z" not in text
    assert "Do not touch billing." in text


def test_a_long_phase_shows_its_newest_steps() -> None:
    steps = [{"id": f"step-{number:02}", "notes": f"step-{number:02} " * 35} for number in range(60)]
    state = {**usual_state(), "current_phase": "build", "phases": {"build": {"steps": steps}}}
    steps[7]["status"] = "in_progress"
    text, _ = compact_state(state, 5_000)
    assert '"steps (5 of 60)":[{"id":"step-07"' in text  # the one at work, then the last ones
    assert units(text) <= 5_000
    assert json.loads(text)["phases"]["build"]["steps (5 of 60)"][-1]["id"] == "step-59"


# Summaries


def test_the_summary_strategy_outlines_a_file_and_lifts_its_limits(project: Project) -> None:
    """What the warning proposes helps (session-manager-reload-reconstitution 9)."""
    long = "# Top\n\n" + "".join([f"## Part {number}\n\n{'Words of it. ' * 300}\n\n" for number in range(400)])
    assert len(long) > 1_048_576
    names = {"id": "long", "path": "long.md", "required": True}
    project.name_artifacts(names)
    project.write("long.md", long)
    refused = project.faber("session-load")
    assert refused.returncode == 1
    assert 'Recovery:\n1. Give it load_strategy "summary" in the workflow config' in refused.stderr
    project.name_artifacts({**names, "load_strategy": "summary"})
    done = project.faber("session-load")
    assert (done.returncode, done.stderr) == (0, "")
    assert "===== long: parts of its 1" in done.stdout
    assert "; whole: long.md\n" in done.stdout
    assert "Part 3" in done.stdout
    assert project.of_type("artifact_loaded")[-1]["given"] == "outline"
    assert project.in_context == ["long"]
    assert "long: parts of" in packet(project)


# Recovery


@pytest.mark.parametrize(
    ("fields", "files", "step"),
    [
        ({"path": "gone.md"}, {}, "1. Check if path is correct in workflow config"),
        ({"path": "a.md"}, {"a.md": "a\0b"}, "1. Correct what the error says about the file"),
        (
            {"path": "d", "type": "directory"},
            {"d/a.md": "x" * 700_000, "d/b.md": "x" * 700_000},
            '1. Give it load_strategy "latest_only" or "summary" in the workflow config',
        ),
    ],
)
def test_the_recovery_steps_fit_the_failure(
    project: Project, fields: dict[str, Any], files: dict[str, str], step: str
) -> None:
    """They do not send anybody to look for a file that is there (session-manager-reload-reconstitution 13)."""
    project.name_artifacts({"id": "needed", "required": True, **fields})
    for name, content in files.items():
        project.write(name, content)
    done = project.faber("session-load")
    assert done.returncode == 1
    assert f"Recovery:\n{step}" in done.stderr
    assert f"Recovery:\n{step}" in done.stdout


def test_an_artifact_named_twice_is_the_required_one(project: Project) -> None:
    """And nobody is left to guess."""
    twice = {"id": "a", "type": "markdown", "path": "gone.md", "required": True, "condition": "work_id != null"}
    project.name_artifacts({"id": "a", "path": "a.md"}, conditional_load=(twice,))
    project.write("a.md", "A.\n")
    done = project.faber("session-load")
    assert "⚠️ WARNING: Artifact named twice: a - one is loaded, a required one if there is one\n" in done.stderr
    assert done.returncode == 1


def test_the_remotes_default_branch_is_what_a_branch_is_compared_with(project: Project, tmp_path: Path) -> None:
    """Whatever it is called (session-manager-reload-reconstitution 8)."""
    project.git("branch", "--move", "develop")
    clone = project.clone(tmp_path / "clone", "laptop")
    clone.git("switch", "--quiet", "--create", "feat/1")
    clone.write("new.md", "New.\n")
    clone.git("add", "new.md")
    clone.git("commit", "--quiet", "--message", "New")
    clone.run.mkdir(parents=True)
    clone.put_state({**usual_state(), "branch": "feat/1"})
    done = clone.faber("reconstitute", clone.run_id, "--json")
    assert "new.md" in json.loads(done.stdout)["data"]["branch"]["files_changed"]
    assert "Git operations failed" not in done.stdout + done.stderr
