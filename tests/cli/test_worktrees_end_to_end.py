"""Three workflows in three worktrees at once, from the first conflict to the cleanup, with real git and real hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.project import Project, answer_of
from support.worktrees import begin_project, clean_up, complete_phases, finish_run, list_worktrees, records

if TYPE_CHECKING:
    from pathlib import Path

START, COMPACTION, COMPACTED, AFTER, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "SessionStart.compact.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)
CLIENTS = ("alpha-client", "beta-client", "gamma-client")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return begin_project(tmp_path / "project")


def ids(tree: Project) -> set[str]:
    return {recorded["id"] for recorded in tree.events}


def text_of(tree: Project) -> str:
    """Return all files of a run's folder as text."""
    return "".join([path.read_bytes().decode("utf-8", "replace") for path in sorted(tree.run.iterdir())])


def at_once(trees: list[Project], recorded: str) -> None:
    """Deliver one event in all worktrees at the same time, each from its own client."""
    running = []
    for number, tree in enumerate(trees):
        changes = {"client": CLIENTS[number], "pid": str(100 + number)}
        running.append((tree.started(recorded, **changes), tree.prepared(recorded, **changes)[0]))
    for process, content in running:
        assert answer_of(process, content).code == 0


def test_three_workflows_in_parallel_share_nothing(project: Project) -> None:
    # A conflict: declined, then answered with w; the third by SPEC's own recipe.
    shown, code = project.on_terminal("run", "start", "--work-id", "259", answers=["n"])
    assert (code, shown.endswith("Workflow start cancelled. Use separate worktrees for concurrent workflows.\n")) == (
        1,
        True,
    )
    shown, code = project.on_terminal("run", "start", "--work-id", "259", answers=["w"])
    assert (code, "✓ Worktree created: ../project-issue-259 (branch feature/259)" in shown) == (0, True)
    second = Project(project.root.parent / "project-issue-259")
    second = Project(second.root, second.active_path.read_text().strip())
    project.git("worktree", "add", "--quiet", "../project-issue-260", "-b", "feature/260")
    third = Project(project.root.parent / "project-issue-260")
    shown, code = third.on_terminal("run", "start", "--work-id", "260")
    assert (code, "WARNING" in shown) == (0, False)
    third = Project(third.root, third.active_path.read_text().strip())
    trees = [project, second, third]
    assert len({tree.run_id for tree in trees}) == 3

    # Hooks from each, all at once.
    for recorded in (START, COMPACTION, COMPACTED, AFTER, START, END):
        at_once(trees, recorded)
    for tree, client in zip(trees, CLIENTS, strict=True):
        assert {recorded["client"] for recorded in tree.events if recorded["client"]} == {client}
        assert [entry.get("end_reason") for entry in tree.history] == ["compaction", "abandoned", "normal"]
        assert tree.current is None
        tree.assert_projected()
        for other, foreign in zip(trees, CLIENTS, strict=True):
            if other is not tree:
                assert not ids(tree) & ids(other)
                assert foreign not in text_of(tree)
                assert other.run_id not in text_of(tree)
    rows = list_worktrees(project)
    assert {name: row["run_id"] for name, row in rows.items()} == {tree.root.name: tree.run_id for tree in trees}
    assert all(row["open_session"] is None for row in rows.values())

    # The second ends and is merged; the third is given up.
    complete_phases(second)
    assert second.faber("run", "finish").returncode == 0
    finish_run(second)
    finish_run(third, "in_progress")
    before = ids(second)
    project.commit("Sessions of 258")
    project.git("merge", "--quiet", "--no-edit", "feature/259")
    dry = project.faber("worktree", "cleanup", "--dry-run").stdout
    assert f"would be removed: {second.root} ({second.run_id})\n" in dry
    assert f"kept: {third.root} ({third.run_id})\n  its run is in_progress\n" in dry
    rows = clean_up(project)
    assert {name: row["action"] for name, row in rows.items()} == {
        "project-issue-259": "removed",
        "project-issue-260": "kept",
    }
    project.git("worktree", "remove", str(third.root))
    list_worktrees(project)
    assert {record["workflow_run_id"]: record["status"] for record in records(project)} == {
        second.run_id: "removed",
        third.run_id: "removed",
    }

    # What the second run was is in the main work tree now, and 258 goes on.
    home = Project(project.root, second.run_id)
    assert ids(home) == before
    home.assert_projected()
    assert project.active_path.read_text().strip() == project.run_id
    assert project.deliver(START, client="later").packet is not None
    assert project.current is not None
    assert project.faber("verify", project.run_id).returncode == 0
