"""session-load's options: which artifacts it loads, and which come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.project import PROTOCOL, Project

if TYPE_CHECKING:
    from pathlib import Path

TASKS = "Recovery: run TaskList to see pending steps, then continue from next pending step.\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run with a specification, whose workflow loads it beside state and protocol."""
    project = Project.made(tmp_path / "project")
    project.write("specs/WORK-258.md", "# WORK-258\n")
    project.change_state(artifacts={"spec_path": "specs/WORK-258.md"})
    return project


def ids(loads: list[dict[str, Any]]) -> list[str]:
    return [one["artifact_id"] for one in loads]


def sections(packet: str) -> list[str]:
    """Return the artifacts of a packet in its order, but for the run's state, which comes before them."""
    heads = [line[6:] for line in packet.split("\n") if line.startswith("===== ") and ": whole, " in line]
    return [head.replace(":", " ").partition(" ")[0] for head in heads]


# Which artifacts


def test_minimal_gives_position_and_state_alone(project: Project) -> None:
    """(faber-as-it-runs-today H10)"""
    done = project.faber("session-load", "--minimal")
    assert (done.returncode, done.stderr) == (0, "")
    assert (sections(done.stdout), done.stdout.endswith(TASKS)) == ([], True)
    assert "\nworkflow-state: .fractary/" in done.stdout
    assert "\nPhase: build (frame, architect are completed)\n" in done.stdout
    assert ids(project.state["context_metadata"]["artifacts_in_context"]) == ["workflow-state"]
    assert TASKS not in project.faber("session-load").stdout


def test_minimal_takes_the_state_by_the_id_that_the_workflow_gives_it(project: Project) -> None:
    own = {"id": "where-we-are", "type": "json", "path": ".fractary/runs/{run_id}/state.json", "description": "State"}
    more = {"id": "protocol", "path": PROTOCOL, "description": "Protocol", "required": True}
    project.name_artifacts(more, own)
    assert ids(project.data("session-load", "--minimal")["loaded"]) == ["where-we-are"]
    project.name_artifacts(more)
    assert ids(project.data("session-load", "--minimal")["loaded"]) == ["workflow-state"]


def test_minimal_and_named_artifacts_exclude_each_other(project: Project) -> None:
    done = project.faber("session-load", "--minimal", "--artifacts", "specification")
    assert (done.returncode, "error: give --minimal or --artifacts, not both\n" in done.stderr) == (2, True)


def test_an_id_that_is_not_configured_is_answered_with_those_that_are(project: Project) -> None:
    """(spec-and-session-end 14)"""
    done = project.faber("session-load", "--artifacts", "specfication,workflow-state")
    named = "the workflow has workflow-state, orchestration-protocol, specification"
    assert f"⚠️ WARNING: Artifact not configured: specfication - {named}\n" in done.stderr


# Which come first


def test_what_the_hint_names_comes_first_and_everything_is_loaded(project: Project) -> None:
    """(faber-as-it-runs-today H10)"""
    everything = ["orchestration-protocol", "specification"]
    assert sections(project.data("session-load")["context"]) == everything
    words = ("--verbose", "--force", "--context", "Build is 60% done: the spec matters,\nand the tests")
    done = project.faber("session-load", *words)
    assert done.returncode == 0
    assert sections(done.stdout) == ["specification", "orchestration-protocol"]
    hint = "Build is 60% done: the spec matters, and the tests"
    assert f"  Current phase: build\nContext hint: {hint}\nDetermined 3 artifacts" in done.stdout
    said = f"Phase context hint: {hint}\n  Relevant loaded artifacts, which come first: specification\n"
    assert done.stdout.endswith(said)


def test_without_a_hint_the_one_that_faber_noted_counts(project: Project) -> None:
    """(faber-as-it-runs-today H10)"""
    project.change_state(continuation_note={"context_hints": "read the spec", "saved_by": "agent:session-saver"})
    done = project.faber("session-load")
    assert sections(done.stdout)[0] == "specification"
    assert "Phase context hint: read the spec\n" in done.stdout
    other = project.faber("session-load", "--force", "--context", "nothing of it")
    assert sections(other.stdout)[0] == "orchestration-protocol"
    assert "which come first: none is named in it\n" in other.stdout


# A value with newlines
