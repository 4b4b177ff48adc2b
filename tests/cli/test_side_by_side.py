"""The hooks of a plugin beside those of the settings: what `init`, `uninstall` and `doctor` say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.patients import Patient
from support.plugins import NAME, change_settings, home_of, install_plugin, list_plugin, plugin_environment
from support.project import Project
from support.sizes import few

from faber_ledger.recording.call import HOOKS

START = "SessionStart.startup.print"
SETTINGS = ".claude/settings.json"
GIT_FILES = (".fractary/.gitattributes", ".fractary/.gitignore")
BOTH = "both run, and each delivery is recorded once"


@pytest.fixture
def project(tmp_path: Path) -> Patient:
    """A project that nobody has set up, with a client on PATH."""
    Patient.made(tmp_path / "project")
    made = Patient(tmp_path / "project")
    home_of(made).mkdir(exist_ok=True)
    return made


def run(project: Patient, *arguments: str, cwd: Path | None = None) -> dict[str, Any]:
    done = project.call(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    assert isinstance(data, dict)
    return data


def hook_findings(project: Patient, check: str = "hooks.installed") -> list[tuple[str, str, str]]:
    (found,) = [one for one in project.doctor()["checks"] if one["check"] == check]
    return [(one["level"], one["what"], one["hint"]) for one in found["findings"]]


def has_settings_hooks(project: Patient, path: str = SETTINGS) -> bool:
    file = project.root / path
    return file.exists() and set(HOOKS) <= set(json.loads(file.read_text()).get("hooks", {}))


# init


@pytest.mark.long
@pytest.mark.parametrize("scope", few(["user", "project", "local"], 1))
def test_with_the_plugins_hooks_init_sets_up_git_alone(project: Patient, scope: str) -> None:
    enabled_in = install_plugin(project, scope)
    before = enabled_in.read_bytes()
    data = run(project, "init")
    assert enabled_in.read_bytes() == before
    assert not has_settings_hooks(project)
    assert all((project.root / name).exists() for name in GIT_FILES)
    assert {"merge.faber-ledger.driver"} <= {one["key"] for one in data["git_config"]}
    assert data["scope"] is None
    assert set(GIT_FILES) <= set(data["commit"])
    assert SETTINGS not in data["commit"]
    assert data["notes"][0] == f"the plugin {NAME} runs the hooks: none were added to the client's settings"
    shown = project.call("init")
    assert f"note: {data['notes'][0]}" in shown.stderr
    assert "start a new session" not in shown.stdout


def test_one_projects_plugin_does_not_count_in_the_others(project: Patient) -> None:
    install_plugin(project, "project")
    data = run(project, "init", "--scope", "user")
    assert set(HOOKS) <= set(json.loads((home_of(project) / SETTINGS).read_text())["hooks"])
    (note,) = [note for note in data["notes"] if NAME in note]
    assert BOTH in note
    assert "`faber-ledger uninstall --scope user`" in note
    assert f"`claude plugin disable {NAME} --scope project`" in note


def test_init_says_how_to_keep_doubled_hooks_once(project: Patient) -> None:
    run(project, "init")
    before = (project.root / SETTINGS).read_bytes()
    install_plugin(project)
    for part in ((), ("--git-only",)):
        (note,) = [note for note in run(project, "init", *part)["notes"] if BOTH in note]
        assert note == (
            f"{SETTINGS} has the hooks, and so has the plugin {NAME}: {BOTH}; to keep only the plugin's, "
            f"run `faber-ledger uninstall`; to keep only the others, `claude plugin disable {NAME}`"
        )
    assert (project.root / SETTINGS).read_bytes() == before
    done = project.call("uninstall")
    assert not has_settings_hooks(project)
    assert f"git's settings stay: the plugin {NAME} still has the hooks" in done.stdout
    assert all((project.root / name).exists() for name in GIT_FILES)
    assert not [note for note in run(project, "init")["notes"] if BOTH in note]


# What the client's files say


@pytest.mark.parametrize(
    ("said", "is_enabled"),
    [
        ({"user": True, "project": False}, False),
        ({"user": False, "project": True}, True),
        ({"project": True, "local": False}, False),
        ({"user": False, "project": False, "local": True}, True),
    ],
)
def test_the_local_settings_decide_before_the_projects_and_those_before_the_users(
    project: Patient, said: dict[str, bool], *, is_enabled: bool
) -> None:
    list_plugin(project)
    for scope, value in said.items():
        change_settings(project, scope, enabledPlugins={NAME: value})
    run(project, "init")
    assert has_settings_hooks(project) is not is_enabled


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    few(
        [
            b'{"enabledPlugins": ["faber-ledger@faber-ledger"]}',
            b'{"enabledPlugins": {"faber-ledger@faber-ledger": "true"}}',
            b'{"enabledPlugins": {"faber-ledger@faber-ledger": 1}}',
            b'{"enabledPlugins": {"faber-ledger@x`; rm -r y`": true}}',
            b'{"enabledPlugins": {"faber-ledger@\\u001b[2J": true, "other@faber-ledger": true, "faber-ledger": true}}',
            b'{"enabledPlugins": null, "hooks": []}',
            b'{"a": "' + b"x" * 2_000_000 + b'", "enabledPlugins": {"faber-ledger@faber-ledger": true}}',
            b'\xff{"enabledPlugins": {"faber-ledger@faber-ledger": true}}',
            b"[" * 100_000,
        ],
        3,
    ),
)
def test_settings_of_another_form_enable_no_plugin(project: Patient, content: bytes) -> None:
    project.write(".claude/settings.local.json", content)
    path = home_of(project) / ".claude/plugins/installed_plugins.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert [level for level, what, _ in hook_findings(project) if "no hook is installed" in what] == ["warning"]
    run(project, "init")
    assert has_settings_hooks(project)


# doctor


@pytest.mark.long
@pytest.mark.parametrize("scope", few(["local", "user", "project"], 1))
def test_with_the_plugin_alone_doctor_finds_the_hooks(project: Patient, scope: str) -> None:
    """(real-client D4)"""
    install_plugin(project, scope)
    run(project, "init")
    project.commit("Set up")
    project.deliver(START, env=plugin_environment(project))
    data = project.doctor(code=0)
    checks = {one["check"]: one["findings"] for one in data["checks"]}
    for name in ("installed", "once", "settings"):
        assert checks[f"hooks.{name}"] == []
    assert "faber-ledger init`" not in json.dumps(data)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_disabled_or_foreign_plugin_runs_no_hook(project: Patient, *, is_named: bool) -> None:
    list_plugin(project)
    if is_named:
        change_settings(project, "project", enabledPlugins={NAME: False})
    ((level, what, hint),) = hook_findings(project)
    verb, scope = ("enable", " --scope project") if is_named else ("install", "")
    assert level == "warning"
    assert what.startswith(f"the plugin {NAME} is {'switched off in' if is_named else 'not enabled here,'}")
    assert hint.startswith(f"run `claude plugin {verb} {NAME}{scope}`; or, ")


def test_a_plugin_of_another_marketplace_is_not_ours(project: Patient) -> None:
    """The settings may have come with the repository: nothing that they name is to be installed."""
    change_settings(project, "project", enabledPlugins={"faber-ledger@evil": True})
    list_plugin(project, "faber-ledger@evil")
    ((level, what, hint),) = hook_findings(project)
    assert (level, what) == ("warning", "no hook is installed: what the client does is not recorded")
    assert hint.startswith("run `faber-ledger init`")
    for command in (["doctor"], ["worktree", "list"], ["init", "--git-only"], ["init"], ["doctor"], ["uninstall"]):
        done = project.call(*command)
        assert "evil" not in done.stdout + done.stderr, command
        assert command != ["init"] or has_settings_hooks(project)


def test_repeats_are_noted_until_the_next_sessions_have_none(project: Patient) -> None:
    for env in (plugin_environment(project), {}):
        project.deliver(START, client="5c1e", env=env)
    ((level, what, _),) = hook_findings(project, "hooks.once")
    assert level == "note"
    assert "1 came twice" in what
    for client in ("5c1f", "5c20"):
        project.deliver(START, client=client)
        assert hook_findings(project, "hooks.once")
        project.deliver("SessionEnd.other.print", client=client)
    assert hook_findings(project, "hooks.once") == []


# Other worktrees


# uninstall


def test_uninstall_names_the_plugin_and_removes_all_once_it_is_gone(project: Patient) -> None:
    settings = install_plugin(project, "project")
    run(project, "init", "--commands")
    assert (project.root / ".claude/commands/fractary-faber").exists()
    done = project.call("uninstall", "--scope", "local")
    assert (project.root / ".claude/commands/fractary-faber").exists()
    done = project.call("uninstall")
    assert not (project.root / ".claude/commands").exists()
    assert f"run `claude plugin uninstall {NAME} --scope project`, then `faber-ledger uninstall` again" in done.stdout
    assert json.loads(settings.read_text()) == {"enabledPlugins": {NAME: True}}
    assert run(project, "uninstall")["hooks_remain_in"] == [f"the plugin {NAME}"]
    settings.unlink()
    done = project.call("uninstall")
    assert "plugin" not in done.stdout
    assert not (project.root / ".fractary/.gitattributes").exists()
    assert "faber-ledger" not in (project.root / ".git/config").read_text()


# A project that has nothing of ours


def test_a_users_plugin_writes_nothing_before_init(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.root / ".fractary/faber").mkdir(parents=True)
    (project.root / ".fractary/faber/config.json").write_text("{}")
    project.git("init", "--quiet")
    project.commit("FABER")
    log = project.root / ".fractary/faber/logs/hooks.log"
    for start in (START, "PreCompact.auto.print", "SessionEnd.other.print"):
        assert project.deliver(start, env=plugin_environment(project)).code == 0
    assert project.git("status", "--porcelain") == ""
    project.write(".fractary/faber/.active-run-id", "gone\n")
    project.deliver(START, env=plugin_environment(project))
    assert "gone" in log.read_text()
    log.unlink()
    (project.root / ".fractary/faber/.active-run-id").unlink()
    assert project.faber("init", "--git-only").returncode == 0
    project.deliver(START, env=plugin_environment(project))
    assert "No active workflow found" in log.read_text()
