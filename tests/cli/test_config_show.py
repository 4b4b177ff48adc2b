from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.project import Project
from ulid import ULID

SETTINGS = ".fractary/faber/ledger.json"
CRITICAL = {"always_load": [{"id": "notes", "type": "markdown", "path": "NOTES.md", "required": True}]}


def configured(project: Project, config: Any) -> str:
    path = Path(project.environment()["XDG_CONFIG_HOME"], "faber-ledger/config.json")
    path.parent.mkdir(parents=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return str(path)


def shown(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.faber("config", "show", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_everything_is_shown_with_where_it_comes_from(project: Project, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    (plugin / "config/workflows").mkdir(parents=True)
    core = plugin / "config/workflows/core.json"
    core.write_text(json.dumps({"critical_artifacts": CRITICAL}))
    project.write(".fractary/faber/workflows/mine.json", json.dumps({"extends": "faber@fractary-faber:core"}))
    project.change_state(workflow_id="mine")
    path = configured(
        project, {"plugin_roots": [str(plugin), "/nowhere"], "commands": {"/work:issue": ["gh", "{work_id}"]}}
    )
    assert project.faber("config", "show").stdout == (
        f"Project: {project.root}\n"
        "Runs: .fractary/runs or .fractary/faber/runs; new ones: .fractary/runs (default)\n"
        "Project id: none: run `faber-ledger init`\n"
        "Server: none\n"
        f"Active run: {project.run_id} (.fractary/faber/.active-run-id names it)\n"
        f"Run: {project.run_id} (.fractary/runs/{project.run_id}/state.json)\n"
        "Workflow: mine (.fractary/faber/workflows/mine.json)\n"
        f"  extends faber@fractary-faber:core ({core})\n"
        "Settings:\n"
        "  packet_budget: 9500 (default)\n"
        "  summaries: true (default)\n"
        "  precompact_hint: true (default)\n"
        f"  to change one: .fractary/faber/ledger.json or .fractary/runs/{project.run_id}/ledger.json"
        " or FABER_LEDGER_<NAME>\n"
        f"User configuration: {path}\n"
        f"  plugin root {plugin}\n"
        "  plugin root /nowhere\n"
        "  command /work:issue: gh {work_id}\n"
    )
    data = shown(project)
    assert data["run"]["workflows"] == [
        {"id": "mine", "path": ".fractary/faber/workflows/mine.json"},
        {"id": "faber@fractary-faber:core", "path": str(core)},
    ]
    assert data["user_config"]["commands"] == {"/work:issue": ["gh", "{work_id}"]}
    assert data["problems"] == []


@pytest.mark.parametrize(
    ("workflow", "problem"),
    [
        (None, "Workflow configuration not found: mine"),
        ("{", "cannot be used: Expecting property name"),
        ({"extends": "mine", "critical_artifacts": CRITICAL}, "it extends itself: mine -> mine"),
        ({"extends": "gone", "critical_artifacts": CRITICAL}, "Workflow configuration not found: gone"),
    ],
)
def test_a_workflows_problems_are_shown_beside_its_valid_parts(project: Project, workflow: Any, problem: str) -> None:
    if workflow is not None:
        text = workflow if isinstance(workflow, str) else json.dumps(workflow)
        project.write(".fractary/faber/workflows/mine.json", text)
    project.change_state(workflow_id="mine")
    data = shown(project)
    assert problem in data["problems"][0]
    assert bool(data["run"]["workflows"]) == isinstance(workflow, dict)


def test_a_setting_is_shown_with_the_file_or_variable_that_won(project: Project) -> None:
    project.write(".fractary/faber/ledger.json", json.dumps({"packet_budget": 5000, "summaries": False}))
    (project.run / "ledger.json").write_text(json.dumps({"packet_budget": 6000, "summaries": 7}))
    done = project.faber("config", "show", env={"FABER_LEDGER_PRECOMPACT_HINT": "off"})
    of_run = f".fractary/runs/{project.run_id}/ledger.json"
    assert (
        f"Settings:\n  packet_budget: 6000 ({of_run})\n  summaries: false ({of_run})\n"
        "  precompact_hint: false (FABER_LEDGER_PRECOMPACT_HINT)\n"
    ) in done.stdout
    assert f"Problem: {of_run}: summaries must be true or false\n" in done.stdout


def test_a_misspelt_setting_is_named_with_the_one_that_is_near(project: Project) -> None:
    project.write(".fractary/faber/ledger.json", json.dumps({"packet_buget": 3000, "$schema": "x"}))
    path = configured(project, {"plugin_root": []})
    problems = shown(project)["problems"]
    assert f"{path}: 'plugin_root' is not a setting; did you mean 'plugin_roots'?" in problems
    assert ".fractary/faber/ledger.json: 'packet_buget' is not a setting; did you mean 'packet_budget'?" in problems
    assert len(problems) == 2
    assert project.faber("session-load").returncode == 0


def test_the_projects_id_is_shown_and_a_word_that_is_none_is_named(project: Project) -> None:
    assert project.faber("init", "--git-only").returncode == 0
    written = json.loads((project.root / SETTINGS).read_text())["project"]
    assert ULID.from_str(written)
    assert shown(project)["project"] == written
    assert shown(project)["problems"] == []
    before = (project.root / SETTINGS).read_bytes()
    assert project.faber("init", "--git-only").returncode == 0
    assert (project.root / SETTINGS).read_bytes() == before
    project.write(SETTINGS, json.dumps({"project": "mine"}))
    data = shown(project)
    assert data["project"] is None
    assert f"{SETTINGS}: project must be a ULID, as `faber-ledger init` writes one" in data["problems"]
