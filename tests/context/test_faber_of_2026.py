"""Small things in which FABER as it runs since February 2026 differs from the documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Project, usual_state

if TYPE_CHECKING:
    pass


def findings(project: Project, check: str) -> list[dict[str, Any]]:
    checks = json.loads(project.faber("doctor", "--json").stdout)["data"]["checks"]
    found: list[dict[str, Any]] = next(one["findings"] for one in checks if one["check"] == check)
    return found


def test_the_work_item_names_the_run(project: Project) -> None:
    """(faber-as-it-runs-today H10)"""
    other = project.root / ".fractary/runs/other-9"
    other.mkdir()
    (other / "state.json").write_text(json.dumps({**usual_state("other-9"), "work_id": "9"}))
    assert "Context reloaded for run: other-9" in project.faber("session-load", "--work-id", "9", "--minimal").stdout
    assert f"Context reloaded for run: {RUN}" in project.faber("session-load", "--work-id", "258").stdout
    assert project.faber("status", "--work-id", "9").stdout.startswith("Run: other-9")
    assert "Session ended and saved" in project.faber("session-save", "--work-id", "9").stdout


def test_a_project_that_ignores_fabers_own_active_file_is_in_order(project: Project) -> None:
    """(faber-as-it-runs-today H13.1)"""
    project.write(".fractary/.gitignore", "faber/runs/.active-run-id\n")
    assert project.faber("init").returncode == 0
    project.write(".fractary/faber/runs/.active-run-id", f"{RUN}\n")
    assert findings(project, "git.travels") == []


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("# Lists\n\n**Type**: Feature\n**Status**: Draft\n\n## Summary\n", "Feature", "Draft"),
        ("# Lists\n\n- **Type:** Feature\n- **Status:** Draft\n", "Feature", "Draft"),
        ("---\nstatus: Approved\n---\n# Lists\n\n**Status**: Draft\n", "", "Approved"),
        ("# Lists\n\n## Fields\n\n**Type**: text\n", "", ""),
        ("# Lists\n\n**Type** of list\n", "", ""),
    ],
)
def test_a_specification_may_say_its_type_in_bold(project: Project, text: str, kind: str, status: str) -> None:
    """(faber-as-it-runs-today H13.7)"""
    project.write("specs/WORK-00258.md", text)
    project.change_state(artifacts={"spec_path": "specs/WORK-00258.md"})
    done = project.faber("reconstitute", RUN, "--verbose")
    known = {"Type": kind, "Status": status}
    said = "".join([f"  {name}: {value}\n" for name, value in known.items() if value])
    assert f"✓ Loaded specification: specs/WORK-00258.md\n  Title: Lists\n{said}ℹ" in done.stdout


def test_events_that_fabers_tools_consolidated_are_found(project: Project) -> None:
    """(faber-as-it-runs-today H13.13)"""
    lines = [
        json.dumps({"event_id": n, "type": "phase_complete", "timestamp": f"t{n}", "message": "x"}) for n in range(30)
    ]
    project.write(f".fractary/runs/{RUN}/events.jsonl", "\n".join([*lines[:29], "{", lines[29]]) + "\n")
    done = project.faber("reconstitute", RUN, "--verbose")
    assert "No events found" not in done.stdout
    assert "✓ Loaded 20 recent events\n" in done.stdout
    assert "[t29] phase_complete: x" in done.stdout
    assert "events.jsonl, line 30" in done.stderr
    project.write(f".fractary/runs/{RUN}/events/001-step.json", json.dumps({"type": "step_start"}))
    assert "Last Event: [N/A] step_start: " in project.faber("reconstitute", RUN, "--verbose").stdout
