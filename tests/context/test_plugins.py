"""What only an installed plugin has is found where the client installs plugins for this user."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from support.project import PROTOCOL, Project

STARTUP = "SessionStart.startup.interactive"
LIST = ".claude/plugins/installed_plugins.json"
CLIENTS = itertools.count()
MARKETPLACES = ".claude/plugins/marketplaces"
ARTIFACTS = {
    "critical_artifacts": {
        "always_load": [
            {"id": "workflow-state", "type": "json", "path": ".fractary/runs/{run_id}/state.json", "required": True},
            {"id": "orchestration-protocol", "type": "markdown", "path": PROTOCOL, "required": True},
        ]
    }
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project without FABER's files."""
    made = Project.made(tmp_path / "project")
    (made.root / PROTOCOL).unlink()
    return made


def home_of(project: Project) -> Path:
    return Path(project.environment()["HOME"])


def put_plugin(folder: Path, protocol: str) -> Path:
    """Write FABER's plugin; return its folder."""
    for name, content in {"docs": protocol, "config/workflows": json.dumps(ARTIFACTS)}.items():
        (folder / name).mkdir(parents=True)
        file = "default.json" if name.startswith("config") else Path(PROTOCOL).name
        (folder / name / file).write_text(content)
    return folder


def put_marketplace(project: Project, name: str = "fractary-faber", protocol: str = "Of the marketplace.\n") -> Path:
    return put_plugin(home_of(project) / MARKETPLACES / name / "plugins/faber", protocol)


def put_list(project: Project, *entries: dict[str, str], named: str = "fractary-faber@fractary-faber") -> None:
    path = home_of(project) / LIST
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 2, "plugins": {named: list(entries)}}))


def packet_of(project: Project, **env: str) -> str:
    answer = project.deliver(STARTUP, client=f"client-{next(CLIENTS)}", pid=None, env=env)
    return answer.packet or ""


def of_type_source(project: Project) -> list[str]:
    return [one["source"] for one in project.of_type("artifact_loaded") if one["artifact_id"] != "workflow-state"]


def test_a_marketplace_that_the_client_has_gives_workflow_and_protocol(project: Project) -> None:
    """(faber-as-it-runs-today H6)"""
    folder = put_marketplace(project)
    answer = packet_of(project)
    assert answer.startswith("# FABER run ")
    assert "Of the marketplace." in answer
    assert str(folder / "docs" / Path(PROTOCOL).name) in answer
    done = project.faber("session-load", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(folder) in done.stdout
    assert set(of_type_source(project)) == {PROTOCOL}  # within the marketplace: the same on every machine
    assert project.faber("show", "orchestration-protocol", "--content").stdout == "Of the marketplace.\n"


def test_the_installed_version_comes_before_marketplaces_and_this_projects_before_others(project: Project) -> None:
    cache = home_of(project) / ".claude/plugins/cache/fractary-faber/fractary-faber"
    put_marketplace(project)
    entries = []
    for version, scope in (("1.0.0", {"scope": "project", "projectPath": "/elsewhere"}), ("2.0.0", {"scope": "user"})):
        put_plugin(cache / version, f"Of {version}.\n")
        entries.append({**scope, "installPath": str(cache / version), "version": version})
    put_list(project, *entries)
    assert "Of 2.0.0." in packet_of(project)
    entries[0]["projectPath"] = str(project.root)
    put_list(project, *entries)
    assert "Of 1.0.0." in packet_of(project)
    assert set(of_type_source(project)) == {f"docs/{Path(PROTOCOL).name}"}
    put_list(project, *entries, named="another@fractary-faber")  # another plugin's file of that name is not FABER's
    assert "Of the marketplace." in packet_of(project)


def test_the_project_and_the_users_plugin_roots_come_first(project: Project) -> None:
    put_marketplace(project)
    put_marketplace(project, "a-fork", "Of the fork.\n")
    assert "Of the fork." in packet_of(project)  # by name
    own = put_plugin(project.root.parent / "own/plugins/faber", "Of the user's root.\n").parents[1]
    project.configure(plugin_roots=[str(own)])
    assert "Of the user's root." in packet_of(project)
    project.write(PROTOCOL, "Of the project.\n")
    assert "Of the project." in packet_of(project)


def test_a_marketplace_named_in_the_workflows_id_comes_first(project: Project) -> None:
    for name in ("a-fork", "fractary-faber"):
        folder = put_marketplace(project, name)
        (folder / "config/workflows/default.json").write_text(json.dumps({"id": name, "extends": 7}))
    project.change_state(workflow_id="faber@fractary-faber:default")
    assert f"{MARKETPLACES}/fractary-faber/plugins/faber/config/workflows/default.json" in packet_of(project)


@pytest.mark.parametrize("content", ["{", '{"plugins": {"faber@x": [{"installPath": 7}, 8]}}'])
def test_a_list_that_cannot_be_used_is_as_if_there_were_none(project: Project, content: str) -> None:
    put_marketplace(project)
    (home_of(project) / LIST).write_text(content)
    assert "Of the marketplace." in packet_of(project)


@pytest.mark.parametrize("variable", ["CLAUDE_CONFIG_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_MARKETPLACE_ROOT"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_variable_that_a_projects_settings_set_leads_nowhere_new(
    project: Project, tmp_path: Path, variable: str, is_link: bool
) -> None:
    """A repository's settings can name any folder, also one that a link of its own leads to."""
    real = tmp_path / "private" if is_link else project.root / ".own"
    put_plugin(real / "plugins/marketplaces/x/plugins/faber", "Private.\n")
    put_plugin(real / "plugins/faber", "Private.\n")
    put_plugin(real / "faber", "Private.\n")
    if is_link:
        (project.root / ".own").symlink_to(real)
    value = project.root / (".own/faber" if variable == "CLAUDE_PLUGIN_ROOT" else ".own")
    answer = packet_of(project, **{variable: str(value)})
    assert answer.startswith("# FABER run ")
    assert "Private." not in answer
    assert "orchestration-protocol" not in [one["artifact_id"] for one in project.of_type("artifact_loaded")]
    assert project.of_type("artifact_failed") == []  # of the workflow that came with the program


def test_the_clients_own_variables_are_followed_to_its_plugins_alone(project: Project) -> None:
    client = home_of(project) / ".claude"
    put_marketplace(project)
    version = put_plugin(client / "plugins/cache/fractary-faber/fractary-faber/3.0.0", "Of 3.0.0.\n")
    assert "Of 3.0.0." in packet_of(project, CLAUDE_PLUGIN_ROOT=str(version))
    fork = put_marketplace(project, "z-fork", "Of the fork.\n").parents[1]
    assert "Of the fork." in packet_of(project, CLAUDE_MARKETPLACE_ROOT=str(fork))
    secret = client / ".credentials.json"
    secret.write_text("Private.\n")
    config = {"critical_artifacts": {"always_load": [{"id": "s", "type": "markdown", "path": str(secret)}]}}
    project.write("plugins/faber/config/workflows/default.json", json.dumps(config))
    assert "Private." not in packet_of(project, CLAUDE_MARKETPLACE_ROOT=str(client))
