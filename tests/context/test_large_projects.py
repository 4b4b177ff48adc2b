"""A repository may name many or large files: the work stays bounded, and what is left out is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.project import Project, usual_state

from faber_ledger.context.outline import outline
from faber_ledger.context.selection import MAX_ARTIFACTS, MAX_BYTES_READ

if TYPE_CHECKING:
    from pathlib import Path


def test_an_outline_reads_as_far_as_it_may_and_says_how_far() -> None:
    text = "# Handbook\n\n" + "".join([f"## Chapter {number}\n\nWords of it.\n\n" for number in range(90)])
    whole, left_out = outline(text, 2_000, len(text))
    assert "; 207-210: Chapter 51; 211-214: Chapter 52; " in whole
    part, left_out_of_part = outline(text, 1_000, 1_050)
    assert "Chapter 40" not in part
    assert "-361 are left out, with " in part
    assert left_out[-1][1] == left_out_of_part[-1][1] == 361


def test_a_start_reads_a_bounded_part_and_names_the_rest(tmp_path: Path) -> None:
    project = named(tmp_path, [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(40)])
    project.write("docs/text.md", "A line of plain text.\n" * 40_000)
    packet = project.deliver("SessionStart.startup.print").packet or ""
    loaded = project.of_type("artifact_loaded")
    assert MAX_BYTES_READ <= sum(event["size_bytes"] for event in loaded) <= MAX_BYTES_READ + 1024 * 1024
    assert len(loaded) + len(project.of_type("artifact_failed")) == 40
    report = (
        "not loaded, docs/text.md: Not read, since a hook has read 2 MB of artifacts; `faber-ledger session-load` loads"
    )
    assert report in packet
    given = [event["artifact_id"] for event in loaded if event["given"] != "pointer"]
    assert project.in_context == given
    dry = project.faber("session-load", "--dry-run", "--budget", "99999999").stdout
    assert dry.count("Action: LOAD") == 40  # none was given whole


def test_a_required_artifact_is_read_however_large_the_optional_ones_are(tmp_path: Path) -> None:
    many = [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(210)]
    project = named(tmp_path, [*many, {"id": "needed", "path": "docs/needed.md", "required": True}])
    project.write("docs/text.md", "A line of plain text.\n" * 40_000)
    project.write("docs/needed.md", "Needed.\n")
    packet = project.deliver("SessionStart.startup.print").packet or ""
    assert "\nNeeded.\n" in packet
    assert "the workflow names 211 artifacts, and a hook loads at most 200, required ones first" in packet
    assert len(project.of_type("artifact_loaded")) + len(project.of_type("artifact_failed")) <= MAX_ARTIFACTS


def named(root: Path, artifacts: list[dict[str, Any]]) -> Project:
    """Make a project whose workflow names these artifacts."""
    project = Project.made(root / "project", {**usual_state(), "workflow_id": "mine"})
    whole = [{"type": "markdown", "description": "what it is", **artifact} for artifact in artifacts]
    critical = {"always_load": whole}
    project.write(".fractary/faber/workflows/mine.json", json.dumps({"id": "mine", "critical_artifacts": critical}))
    return project
