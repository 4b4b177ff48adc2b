"""Session-load's steps as RELOAD, session-manager-agent and SPEC-00027 have them, through the installed command."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.project import PROTOCOL, RUN, Project, usual_state

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "fractary-faber-259-20260105-144500-d4e5f6"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
SESSION = re.compile(r"claude-session-\d{8}-\d{6}-[a-z0-9]{6}")


def load(project: Project, *arguments: str, **env: str | None) -> str:
    """Load, and return what was printed."""
    done = project.faber("session-load", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def add_run(project: Project, run_id: str, **state: Any) -> Path:
    text = json.dumps({**usual_state(run_id), **state}, indent=2) + "\n"
    return project.write(f".fractary/runs/{run_id}/state.json", text)


def use_workflow(project: Project, **lists: Any) -> None:
    project.write(".fractary/plugins/faber/workflows/own.json", json.dumps({"id": "own", "critical_artifacts": lists}))
    project.change_state(workflow_id="own")


def artifact(project: Project, id: str, *triggers: str, **fields: Any) -> dict[str, Any]:
    project.write(f"docs/{id}.md", f"# {id}\n")
    own = {"id": id, "type": "markdown", "path": f"docs/{id}.md", "description": f"About {id}", "required": True}
    return {**own, "reload_triggers": list(triggers or ("session_start", "manual")), **fields}


# Which run


@pytest.mark.parametrize("name", ["session-load", "prime-context"])
def test_a_named_run_counts_before_the_active_one(project: Project, name: str) -> None:
    other = add_run(project, OTHER)
    before = project.state_path.read_bytes()
    assert project.faber(name, "--run-id", OTHER).returncode == 0
    assert project.state_path.read_bytes() == before
    assert json.loads(other.read_text())["context_metadata"]["reload_count"] == 1


@pytest.mark.parametrize("status", ["in_progress", "paused", "awaiting_feedback"])
def test_without_an_active_file_the_run_at_work_is_found(project: Project, status: str) -> None:
    project.active_path.unlink()
    for number, other in enumerate(("completed", "failed", "cancelled", "pending")):
        add_run(project, f"other-{number}", status=other)
    project.write(".fractary/runs/broken/state.json", "{")
    project.change_state(status="completed")
    add_run(project, "org/project/R-1", status=status)
    assert load(project).startswith("✓ Auto-detected active workflow: org/project/R-1\n")


# Which artifacts


def test_the_three_lists_are_loaded_in_order_and_names_choose(project: Project) -> None:
    use_workflow(
        project,
        always_load=[artifact(project, "always")],
        conditional_load=[
            artifact(project, "true", condition="state.work_id == '258'"),
            artifact(project, "false", condition="state.work_id == null"),
        ],
        phase_specific={"build": [artifact(project, "build")], "frame": [artifact(project, "frame")]},
    )
    assert "Determined 3 artifacts to load\n" in load(project, "--verbose")
    assert project.in_context == ["always", "true", "build"]
    assert "Determined 2 artifacts to load\n" in load(project, "--artifacts", "build,always", "--force", "--verbose")
    assert sorted(load_["artifact_id"] for load_ in project.of_type("artifact_loaded")[3:]) == ["always", "build"]


@pytest.mark.parametrize(
    ("trigger", "loaded", "recorded"),
    [
        ("session_start", ["start"], "session_start"),
        ("phase_start:build", ["build"], "phase_start"),
        ("phase_start", ["build"], "phase_start"),
        ("phase_start:release", [], ""),
        ("phase_transition:architect->build", ["transition"], "phase_transition"),
        ("compaction_detected", ["compaction"], "compaction_detected"),
        ("manual", ["start", "build", "transition", "compaction"], "manual"),
        (None, ["start", "build", "transition", "compaction"], "manual"),
    ],
)
def test_a_trigger_loads_the_artifacts_that_list_it(
    project: Project, trigger: str | None, loaded: list[str], recorded: str
) -> None:
    lists = {
        "start": "session_start",
        "build": "phase_start:build",
        "transition": "phase_transition:architect->build",
        "compaction": "compaction_detected",
    }
    use_workflow(project, always_load=[artifact(project, name, listed) for name, listed in lists.items()])
    load(project, *(["--trigger", trigger] if trigger else []))
    assert project.in_context == loaded
    assert {entry["load_trigger"] for entry in project.metadata["artifacts_in_context"]} == ({recorded} - {""})


@pytest.mark.parametrize("words", [["--trigger", "sometimes"], ["--reason", "manual"], ["--run-id", "../x"]])
def test_what_no_document_knows_is_refused_and_nothing_is_written(project: Project, words: list[str]) -> None:
    before = project.state_path.read_bytes()
    assert project.faber("session-load", *words).returncode in (1, 2)
    assert project.state_path.read_bytes() == before
    assert not project.ledger_path.exists()


# What a reload leaves


def test_each_reload_is_counted_and_each_artifact_has_one_entry(project: Project) -> None:
    load(project, "--trigger", "session_start")
    load(project, "--force")
    assert project.metadata["reload_count"] == 2
    entries = project.metadata["artifacts_in_context"]
    assert [entry["artifact_id"] for entry in entries] == ["workflow-state", "orchestration-protocol"]
    for entry in entries:
        assert list(entry) == ["artifact_id", "loaded_at", "load_trigger", "source", "size_bytes"]
        assert entry["load_trigger"] == "manual"
    assert [entry["source"] for entry in entries] == [f".fractary/runs/{RUN}/state.json", PROTOCOL]
    assert entries[1]["size_bytes"] == (project.root / PROTOCOL).stat().st_size
    (session,) = project.history
    assert session["artifacts_loaded"] == ["workflow-state", "orchestration-protocol"]


def test_what_was_edited_by_hand_is_loaded_with_force(project: Project) -> None:
    """SPEC-00027, example 3."""
    load(project)
    project.change_state(current_phase="evaluate", target="an edit by hand")
    printed = load(project, "--force")
    assert "an edit by hand" in printed
    assert "\nPhase: evaluate (frame, architect are completed)\n" in printed
    assert project.state["target"] == "an edit by hand"
    assert project.metadata["reload_count"] == 2


def test_a_dry_run_after_a_load_changes_no_byte(project: Project) -> None:
    load(project)
    before = {path: path.read_bytes() for path in project.run.iterdir()}
    assert "Action: LOAD" in load(project, "--dry-run", "--force")
    assert {path: path.read_bytes() for path in project.run.iterdir()} == before


def test_a_session_has_a_new_id_and_the_shells_environment(project: Project) -> None:
    for _ in range(2):
        load(project, "--trigger", "session_start", FABER_LEDGER_HOSTNAME=None)
    ids = [session["session_id"] for session in project.history]
    assert len(set(ids)) == 2
    assert all(SESSION.fullmatch(found) for found in ids)
    session = project.history[-1]
    assert project.current == session["session_id"]
    assert TIME.fullmatch(session["started_at"])
    assert session["environment"] == {
        "hostname": subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout.strip(),
        "platform": platform.system().lower(),
        "cwd": str(project.root),
        "git_commit": project.git("rev-parse", "--short", "HEAD"),
    }
    shutil.rmtree(project.root / ".git")
    load(project, "--trigger", "session_start")
    assert project.history[-1]["environment"]["git_commit"] is None


# Sizes


@pytest.mark.parametrize(
    ("size", "required", "code", "line"),
    [
        (100 * 1024, True, 0, ""),
        (100 * 1024 + 1, True, 0, "⚠️ WARNING: Large artifact detected\n"),
        (1024 * 1024 + 1, False, 0, "⚠️ WARNING: "),
        (1024 * 1024 + 1, True, 1, "❌ ERROR: "),
    ],
)
def test_over_100_kb_is_a_warning_and_over_1_mb_an_error(
    project: Project, size: int, required: bool, code: int, line: str
) -> None:
    use_workflow(project, always_load=[artifact(project, "large", required=required), artifact(project, "small")])
    project.write("docs/large.md", "x" * size)
    done = project.faber("session-load")
    assert done.returncode == code
    assert done.stderr.startswith(line)
    assert bool(done.stderr) == bool(line)
    assert ("large" in project.in_context) == (size < 1024 * 1024)


# Kinds of artifacts


def test_every_kind_of_artifact_is_given(project: Project) -> None:
    project.write("specs/WORK-00258.md", "# The specification\n")
    project.change_state(artifacts={"spec_path": "{project_root}/specs/WORK-{work_id}.md"}, work_id="00258")
    project.write("notes/a.txt", "the older note\n")
    newer = project.write("notes/b.txt", "the newer note\n")
    os.utime(newer, (2_000_000_000, 2_000_000_000))
    folder = {"type": "directory", "path": "notes"}
    use_workflow(
        project,
        always_load=[
            artifact(project, "state", type="json", path=".fractary/runs/{run_id}/state.json"),
            artifact(project, "spec", path=None, path_from_state="artifacts.spec_path"),
            artifact(project, "all", **folder),
            artifact(project, "latest", **folder, load_strategy="latest_only"),
            artifact(project, "outline", **folder, load_strategy="summary"),
            artifact(project, "commits", type="git_info", path=None, command="git log --oneline -1"),
            artifact(project, "issue", type="work_plugin", path=None, command="/fractary-work:issue-fetch {work_id}"),
        ],
    )
    printed = load(project)
    assert "# The specification\n" in printed
    assert "=== a.txt ===\nthe older note\n\n\n=== b.txt ===\nthe newer note\n" in printed
    assert printed.count("the older note") == 1
    assert printed.count("the newer note") == 2
    assert re.search(r"\nDirectory: notes\nFiles: 2\nLatest: b\.txt \(2033-05-18T03:33:20Z\)\n", printed)
    assert f"{project.git('log', '--oneline', '-1')}\n" in printed
    assert "/fractary-work:issue-fetch 00258" in printed
    # The agent is asked for the issue.
    assert project.in_context == ["state", "spec", "all", "latest", "outline", "commits"]
