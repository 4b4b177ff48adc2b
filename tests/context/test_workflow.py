from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from faber_ledger.context.selection import every_artifact
from faber_ledger.context.workflow import SHIPPED, load_workflow
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.runs.settings import read_user_config, user_config_path

CRITICAL: dict[str, Any] = {"always_load": [{"id": "notes", "type": "markdown", "path": "NOTES.md"}]}


def write(folder: Path, name: str, config: Any) -> Path:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def custom(root: Path, name: str, config: Any) -> Path:
    return write(root / ".fractary/plugins/faber/workflows", name, config)


def ids(root: Path, workflow_id: str, plugin_roots: list[str] | None = None) -> list[str]:
    return [found["id"] for found in every_artifact(load_workflow(str(root), workflow_id, plugin_roots or []))]


def failure(root: Path, workflow_id: str) -> WorkflowNotFound:
    with pytest.raises(WorkflowNotFound) as raised:
        load_workflow(str(root), workflow_id, [])
    return raised.value


def test_the_shipped_workflows_have_the_documents_artifacts(tmp_path: Path) -> None:
    assert ids(tmp_path, "fractary-faber:default") == ["workflow-state", "orchestration-protocol", "specification"]
    assert ids(tmp_path, "fractary-faber:core") == ["workflow-state", "orchestration-protocol", "issue-context"]


@pytest.mark.parametrize("name", ["core", "default"])
def test_a_shipped_workflow_reloads_context_only_in_frame(name: str) -> None:
    phases = json.loads(Path(SHIPPED, f"{name}.json").read_text())["phases"]
    reloading = [phase for phase in phases if "auto-reload-context" in json.dumps(phases[phase])]
    assert reloading == ["frame"]
    assert phases["frame"]["pre_steps"] == [
        {
            "id": "auto-reload-context",
            "name": "Reload Context",
            "description": "Automatically reload critical artifacts for session continuity",
            "prompt": "/fractary-faber:prime-context",
        }
    ]


def test_the_project_comes_before_plugin_roots_and_those_before_what_is_shipped(tmp_path: Path) -> None:
    root, checkout, plugin = tmp_path / "project", tmp_path / "checkout", tmp_path / "plugin"
    roots = [str(checkout), str(plugin)]
    root.mkdir()
    assert load_workflow(str(root), "fractary-faber:core", roots)["path"] == os.path.join(SHIPPED, "core.json")
    inside = write(plugin / "config/workflows", "core", {"critical_artifacts": CRITICAL})
    assert load_workflow(str(root), "fractary-faber:core", roots)["path"] == str(inside)
    below = write(checkout / "plugins/faber/config/workflows", "core", {"critical_artifacts": CRITICAL})
    assert load_workflow(str(root), "fractary-faber:core", roots)["path"] == str(below)
    write(root / "plugins/faber/config/workflows", "core", {"critical_artifacts": CRITICAL})
    found = load_workflow(str(root), "fractary-faber:core", roots)
    assert found["path"] == "plugins/faber/config/workflows/core.json"
    assert [artifact["id"] for artifact in every_artifact(found)] == ["notes"]


def test_a_workflow_without_artifacts_has_those_of_its_ancestors(tmp_path: Path) -> None:
    custom(tmp_path, "child", {"extends": "parent"})
    custom(tmp_path, "parent", {"extends": "grandparent", "critical_artifacts": None})
    custom(tmp_path, "grandparent", {"critical_artifacts": CRITICAL})
    assert ids(tmp_path, "child") == ["notes"]
    custom(tmp_path, "grandparent", {"extends": "fractary-faber:core"})
    assert ids(tmp_path, "child")[-1] == "issue-context"
    custom(tmp_path, "parent", {"critical_artifacts": {}})
    assert ids(tmp_path, "child") == []


def of_build(*ids: str, path: str) -> dict[str, Any]:
    return {"phase_specific": {"build": [{"id": one, "type": "markdown", "path": path} for one in ids]}}


def test_a_workflow_adds_its_artifacts_to_those_of_all_its_ancestors(tmp_path: Path) -> None:
    """Root first; an id of its own replaces theirs, wherever they have it. (faber-as-it-runs-today H13.3)"""
    first = [{"id": name, "type": "markdown", "path": "grandparent.md"} for name in ("rules", "notes", "todo")]
    custom(tmp_path, "grandparent", {"critical_artifacts": {"always_load": first, **of_build("b", path="g.md")}})
    custom(tmp_path, "parent", {"extends": "grandparent", "critical_artifacts": of_build("todo", "c", path="p.md")})
    custom(tmp_path, "between", {"extends": "parent"})
    custom(tmp_path, "child", {"extends": "between", "critical_artifacts": CRITICAL})
    found = load_workflow(str(tmp_path), "child", [])
    critical = found["critical_artifacts"]
    assert [(one["id"], one["path"]) for one in critical["always_load"]] == [
        ("rules", "grandparent.md"),
        ("notes", "NOTES.md"),
    ]
    assert [one["id"] for one in critical["phase_specific"]["build"]] == ["b", "todo", "c"]
    assert found["artifacts_path"] == ".fractary/plugins/faber/workflows/child.json"
    assert found["warnings"] == []


@pytest.mark.parametrize("parent", [None, "{", {"extends": "child"}, {"critical_artifacts": 7}])
def test_an_unreadable_ancestor_is_a_warning_for_a_workflow_with_artifacts(tmp_path: Path, parent: Any) -> None:
    custom(tmp_path, "child", {"extends": "parent", "critical_artifacts": CRITICAL})
    if parent is not None:
        custom(tmp_path, "parent", parent)
    found = load_workflow(str(tmp_path), "child", [])
    assert [one["id"] for one in found["critical_artifacts"]["always_load"]] == ["notes"]
    (warning,) = found["warnings"]
    assert warning.startswith("⚠️ WARNING: ")
    assert "parent" in warning


def test_a_workflow_without_artifacts_gets_the_defaults_with_an_optional_protocol(tmp_path: Path) -> None:
    custom(tmp_path, "plain", {"id": "plain"})
    found = every_artifact(load_workflow(str(tmp_path), "plain", []))
    assert [(artifact["id"], artifact["required"]) for artifact in found] == [
        ("workflow-state", True),
        ("orchestration-protocol", False),
        ("specification", False),
    ]


@pytest.mark.parametrize("folder", [".fractary/plugins/faber/workflows", ".fractary/faber/workflows"])
def test_a_projects_workflow_may_be_in_either_folder(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder, "mine", {"critical_artifacts": CRITICAL})
    for workflow_id in ("mine", "project:mine"):
        assert load_workflow(str(tmp_path), workflow_id, [])["path"] == f"{folder}/mine.json"


def test_a_bare_id_is_the_projects_then_a_plugins_then_shipped(tmp_path: Path) -> None:
    root, plugin = tmp_path / "project", tmp_path / "plugin"
    root.mkdir()
    roots = [str(plugin)]
    assert load_workflow(str(root), "core", roots)["path"] == os.path.join(SHIPPED, "core.json")
    of_plugin = write(plugin / ".fractary/faber/workflows", "core", {"critical_artifacts": CRITICAL})
    assert load_workflow(str(root), "core", roots)["path"] == str(of_plugin)
    custom(root, "core", {"extends": "faber@fractary-faber:core"})
    found = load_workflow(str(root), "core", roots)
    assert found["path"] == ".fractary/plugins/faber/workflows/core.json"
    assert found["artifacts_path"] == str(of_plugin)
    assert "not found: project:default" in str(failure(root, "project:default").block)


@pytest.mark.parametrize(
    "place", ["marketplaces/acme/plugins/etl/.fractary/faber/workflows", "marketplaces/plugins/etl/config/workflows"]
)
def test_another_plugins_workflow_is_found_below_a_root_and_is_never_fabers(tmp_path: Path, place: str) -> None:
    inside = write(tmp_path / place, "load", {"critical_artifacts": CRITICAL})
    roots = [str(tmp_path / "faber"), str(tmp_path / "marketplaces")]
    write(tmp_path / "faber/config/workflows", "load", {"critical_artifacts": {}})
    assert load_workflow(str(tmp_path / "project"), "etl@acme:load", roots)["path"] == str(inside)
    with pytest.raises(WorkflowNotFound, match="not found: etl@acme:core"):
        load_workflow(str(tmp_path / "project"), "etl@acme:core", roots)


@pytest.mark.parametrize(
    "workflow_id",
    [
        "",
        "../x",
        "a\0b",
        "url:https://example.org/x.json",
        "../..@fractary-faber:x",
        "faber@fractary-faber:../../x",
        "project:../x",
        "x" * 200,
    ],
)
def test_an_invalid_workflow_id_is_refused(tmp_path: Path, workflow_id: str) -> None:
    outside = write(tmp_path, "x", {"critical_artifacts": CRITICAL})
    assert outside.exists()
    assert "not a workflow id" in failure(tmp_path / "project", workflow_id).message


def test_a_workflow_that_is_a_pipe_binary_or_huge_is_refused(tmp_path: Path) -> None:
    path = custom(tmp_path, "odd", "{}")
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in failure(tmp_path, "odd").message
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)
    assert "at most" in failure(tmp_path, "odd").message
    path.unlink()
    os.mkfifo(path)
    assert "named pipe" in failure(tmp_path, "odd").message
    path.unlink()
    path.mkdir()
    assert "a directory" in failure(tmp_path, "odd").message


def test_a_workflow_linked_from_outside_is_refused(tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere", "x", {"critical_artifacts": CRITICAL})
    folder = tmp_path / "project/.fractary/plugins/faber/workflows"
    folder.mkdir(parents=True)
    (folder / "x.json").symlink_to(outside)
    assert "link" in failure(tmp_path / "project", "x").message


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"type": "json", "path": "a"}, "Artifact must have an id"),
        ("text", "Artifact is not a JSON object"),
        ({"id": "a", "type": "json", "reload_triggers": "manual"}, "reload_triggers must be a list of strings"),
        ({"id": "a", "type": "json", "required": "yes"}, "required must be true or false"),
    ],
)
def test_a_malformed_artifact_keeps_its_problem_for_when_it_is_loaded(tmp_path: Path, raw: Any, problem: str) -> None:
    custom(tmp_path, "odd", {"critical_artifacts": {"always_load": [raw]}})
    (artifact,) = every_artifact(load_workflow(str(tmp_path), "odd", []))
    assert problem in str(artifact["problem"])
    assert artifact["id"] in ("a", "always_load[0]")
    assert artifact["required"] is (raw != "text" and raw.get("required") == "yes")


# The user's own configuration


def test_plugin_roots_are_read_from_the_users_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "xdg/faber-ledger", "config", {"plugin_roots": ["/opt/faber", "~/faber"], "later": 1})
    assert user_config_path() == str(tmp_path / "xdg/faber-ledger/config.json")
    assert read_user_config()["plugin_roots"] == ["/opt/faber", str(tmp_path / "faber")]
    assert read_user_config()["unknown"] == ["'later' is not a setting"]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("{", "line 1"),
        ({"plugin_roots": "/opt"}, "not a list of paths"),
        ({"plugin_roots": ["relative"]}, "'relative' is not an absolute path"),
        ({"commands": {"issue-fetch": ["gh"]}}, "'issue-fetch' is not a slash command"),
        ({"commands": {"/work:issue-fetch {work_id}": ["gh"]}}, "not a slash command without arguments"),
        ({"commands": {"/work:issue-fetch": "gh issue view"}}, "not a list of a program and its arguments"),
        ({"commands": {"/work:issue-fetch": ["gh", 7]}}, "not a list of a program and its arguments"),
    ],
)
def test_a_malformed_user_configuration_counts_as_empty_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Any, problem: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = write(tmp_path / "faber-ledger", "config", config)
    read = read_user_config()
    assert read["plugin_roots"] == []
    assert str(path) in str(read["problem"])
    assert problem in str(read["problem"])
