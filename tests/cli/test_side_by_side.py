"""The hooks of a plugin beside those of the settings: what `init`, `uninstall` and `doctor` say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.patients import Patient
from support.plugins import NAME, change_settings, home_of, install_plugin, list_plugin, plugin_environment
from support.project import Project
from support.sizes import few, pair

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
def test_where_the_plugin_runs_the_hooks_init_sets_up_git_alone_and_says_why(project: Patient, scope: str) -> None:
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


def test_the_plugin_of_one_project_is_not_the_users_in_all_of_them(project: Patient) -> None:
    install_plugin(project, "project")
    data = run(project, "init", "--scope", "user")
    assert set(HOOKS) <= set(json.loads((home_of(project) / SETTINGS).read_text())["hooks"])
    (note,) = [note for note in data["notes"] if NAME in note]
    assert BOTH in note
    assert "`faber-ledger uninstall --scope user`" in note
    assert f"`claude plugin disable {NAME} --scope project`" in note


def test_where_both_have_the_hooks_init_says_so_and_how_to_keep_them_once(project: Patient) -> None:
    run(project, "init")
    before = (project.root / SETTINGS).read_bytes()
    install_plugin(project)
    for part in ((), ("--plugin",)):
        (note,) = [note for note in run(project, "init", *part)["notes"] if NAME in note]
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


def test_init_plugin_writes_what_a_plugin_cannot_and_names_the_two_commands_until_there_is_one(
    project: Patient,
) -> None:
    data = run(project, "init", "--plugin")
    assert not (project.root / ".claude").exists()
    assert all((project.root / name).exists() for name in GIT_FILES)
    (note,) = [note for note in data["notes"] if "plugin" in note]
    assert "`claude plugin marketplace add SOURCE`" in note
    assert f"`claude plugin install {NAME}`" in note
    files = {one["path"]: one["action"] for one in run(project, "init", "--git-only")["files"]}
    assert set(files.values()) == {"unchanged"}
    assert not [note for note in run(project, "init", "--git-only")["notes"] if "plugin" in note]
    list_plugin(project)
    (note,) = [note for note in run(project, "init", "--plugin")["notes"] if "plugin" in note]
    assert note.endswith(f"not for this project: run `claude plugin install {NAME}`")
    change_settings(project, "project", enabledPlugins={NAME: False})
    (note,) = [note for note in run(project, "init", "--plugin")["notes"] if "plugin" in note]
    assert note == f"the plugin {NAME} is switched off here: run `claude plugin enable {NAME} --scope project`"


def test_where_only_deliveries_show_a_plugin_init_adds_the_hooks_to_a_scope_that_is_named(project: Patient) -> None:
    project.deliver(START, env=plugin_environment(project))
    assert "no hooks" not in project.call("worktree", "list").stdout
    data = run(project, "init")
    assert not (project.root / ".claude").exists()
    assert data["scope"] is None
    assert all((project.root / name).exists() for name in GIT_FILES)
    (note,) = [note for note in data["notes"] if "plugin" in note]
    assert note.startswith("the hook of a plugin made a delivery here at 20")
    assert note.endswith(
        "no hooks were added to the client's settings; once that plugin is gone, "
        "run `faber-ledger init --scope project`"
    )
    (note,) = [note for note in run(project, "init", "--scope", "project")["notes"] if "plugin" in note]
    assert has_settings_hooks(project)
    assert BOTH in note
    assert {one["action"] for one in run(project, "init")["files"]} == {"unchanged"}


def test_a_started_run_asks_for_what_the_plugin_cannot_do(project: Patient) -> None:
    started = project.call("run", "start", "--work-id", "1", "--yes").stdout
    assert "Run `faber-ledger init` for the client's hooks, and to keep backups and logs out of git." in started
    install_plugin(project)
    started = project.call("run", "start", "--work-id", "2", "--yes").stdout
    assert "Run `faber-ledger init --plugin` to keep backups and logs out of git." in started


@pytest.mark.parametrize(("scope", "command"), [("project", "init"), ("user", "init --scope user")])
def test_local_settings_get_no_hooks_beside_some_in_other_settings(project: Patient, scope: str, command: str) -> None:
    handler = {"type": "command", "command": "faber-ledger hook session-start"}
    change_settings(project, scope, hooks={"SessionStart": [{"hooks": [handler]}]})
    (note,) = [note for note in run(project, "init", "--scope", "local")["notes"] if "none were added" in note]
    assert note.endswith(f"; `faber-ledger {command}` adds those that it lacks")
    assert not (project.root / ".claude/settings.local.json").exists()
    run(project, *command.split())
    assert hook_findings(project, "hooks.once") == []
    assert "adds those" not in str(run(project, "init", "--scope", "local")["notes"])


@pytest.mark.long
@pytest.mark.parametrize(("held", "form"), pair(["project", "local", "user"], ["shell", "path", "exec"]))
def test_no_scope_gets_hooks_beside_those_written_by_hand(project: Patient, held: str, form: str) -> None:
    hooks = {}
    for event, (name, _) in HOOKS.items():
        program = "/opt/tools/faber-ledger" if form == "path" else "faber-ledger"
        words: dict[str, object] = {"command": f"{program} hook {name}"}
        if form == "exec":
            words = {"command": program, "args": ["hook", name]}
        hooks[event] = [{"hooks": [{"type": "command", **words}]}]
    path = change_settings(project, held, hooks=hooks)
    before = path.read_bytes()
    shown = str(path if held == "user" else path.relative_to(project.root))
    for scope in ("project", "local", "user"):
        data = run(project, "init", "--scope", scope)
        assert [*project.root.glob(".claude/*"), *home_of(project).glob(".claude/*")] == [path]
        assert path.read_bytes() == before
        if scope != held:
            (note,) = [note for note in data["notes"] if "none were added" in note]
            assert note.startswith(f"{shown} has the hooks: none were added to ")
    assert hook_findings(project, "hooks.once") == []
    run(project, "uninstall", "--scope", held)
    assert form == "shell" or path.read_bytes() == before


def test_hooks_written_by_hand_are_to_be_removed_by_hand(project: Patient) -> None:
    run(project, "init")
    handler = {"type": "command", "command": "faber-ledger", "args": ["hook", "session-start"]}
    change_settings(project, "local", hooks={"SessionStart": [{"hooks": [handler]}]})
    ((_, what, hint),) = hook_findings(project, "hooks.once")
    assert what.startswith("SessionStart has two hooks with different commands, in ")
    assert hint == "remove it from one: run `faber-ledger uninstall`"
    handler = {"type": "command", "command": "/opt/tools/faber-ledger hook session-start"}
    change_settings(project, "project", hooks={"SessionStart": [{"hooks": [handler]}]})
    by_hand = "remove by hand the entries that run `faber-ledger hook` from "
    ((_, _, hint),) = hook_findings(project, "hooks.once")
    assert hint == f"remove it from one: {by_hand}.claude/settings.local.json"
    install_plugin(project, "user")
    for part in ((), ("--plugin",)):
        (note,) = [note for note in run(project, "init", *part)["notes"] if NAME in note]
        assert f"only the plugin's, {by_hand}{SETTINGS} and {by_hand}.claude/settings.local.json; to keep" in note


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


def test_settings_that_a_link_leads_out_to_are_not_read_which_is_said(project: Patient) -> None:
    outside = project.root.parent / "outside.json"
    outside.write_text(json.dumps({"enabledPlugins": {NAME: True}}))
    (project.root / ".claude").mkdir()
    (project.root / SETTINGS).symlink_to(outside)
    unread = f"{SETTINGS} is not read here (a link leads out of the project): whether it has the hooks or a plugin is"
    (note,) = [note for note in run(project, "init", "--plugin")["notes"] if "plugin" in note]
    assert note.startswith(unread)
    ((level, what, hint),) = hook_findings(project, "hooks.settings")
    assert (level, what) == ("error", f"{SETTINGS} is not read: a link leads out of the project")
    assert hint.startswith("replace the link with the file itself")
    assert hook_findings(project) == []
    project.deliver(START, env=plugin_environment(project))
    assert hook_findings(project) == []
    assert "no hooks" not in project.call("worktree", "list").stdout
    notes = run(project, "init")["notes"]
    assert [note for note in notes if note.startswith(unread)]
    assert [note for note in notes if "no hooks were added" in note]
    assert [*(project.root / ".claude").iterdir()] == [project.root / SETTINGS]


# doctor


@pytest.mark.long
@pytest.mark.parametrize("scope", few(["local", "user", "project"], 1))
def test_with_the_plugin_alone_doctor_finds_the_hooks(project: Patient, scope: str) -> None:
    """(real-client D4)"""
    install_plugin(project, scope)
    run(project, "init", "--plugin")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "Set up")
    project.deliver(START, env=plugin_environment(project))
    data = project.doctor(code=0)
    checks = {one["check"]: one["findings"] for one in data["checks"]}
    for name in ("installed", "once", "settings"):
        assert checks[f"hooks.{name}"] == []
    assert "faber-ledger init`" not in json.dumps(data)


def test_with_both_doctor_notes_it_and_names_a_command_for_each(project: Patient) -> None:
    run(project, "init")
    install_plugin(project)
    ((level, what, hint),) = hook_findings(project, "hooks.once")
    assert (level, what) == ("note", f"{SETTINGS} has the hooks, and so has the plugin {NAME}: {BOTH}")
    assert "`faber-ledger uninstall`" in hint
    assert f"`claude plugin disable {NAME}`" in hint


@pytest.mark.parametrize("is_named", [True, False])
def test_a_plugin_that_is_switched_off_or_installed_for_others_runs_no_hook(
    project: Patient, *, is_named: bool
) -> None:
    list_plugin(project)
    if is_named:
        change_settings(project, "project", enabledPlugins={NAME: False})
    ((level, what, hint),) = hook_findings(project)
    verb, scope = ("enable", " --scope project") if is_named else ("install", "")
    assert level == "warning"
    assert what.startswith(f"the plugin {NAME} is {'switched off in' if is_named else 'not enabled here, '}")
    assert hint.startswith(f"run `claude plugin {verb} {NAME}{scope}`; or, ")
    project.doctor("--fix")
    assert not has_settings_hooks(project)  # which of the two is the user's to decide


def test_a_plugin_that_is_enabled_but_not_installed_is_named_unless_its_source_is_known(project: Patient) -> None:
    change_settings(project, "project", enabledPlugins={NAME: True})
    ((level, what, hint),) = hook_findings(project)
    assert (level, hint) == ("warning", f"run `claude plugin install {NAME} --scope project`")
    assert what == f"{SETTINGS} enables the plugin {NAME}, but the client's list of installed plugins lacks it"
    notes = run(project, "init")["notes"]
    assert f"{what}; {hint}; no hooks were added to the client's settings" in notes
    assert not [note for note in notes if "runs the hooks" in note]
    handlers = {event: [{"hooks": [{"type": "command", "command": f"faber-ledger hook {event}"}]}] for event in HOOKS}
    change_settings(project, "local", hooks=handlers)
    assert hook_findings(project) == []
    assert hook_findings(project, "hooks.once") == []
    assert f"{what}; nothing while the settings have the hooks" in run(project, "init")["notes"]
    (project.root / ".claude/settings.local.json").unlink()
    source = {"source": {"source": "directory", "path": "/somewhere"}}
    change_settings(project, "project", extraKnownMarketplaces={"faber-ledger": source})
    assert hook_findings(project) == []


@pytest.mark.parametrize(
    ("content", "lacks"),
    [
        ("{", "cannot be read"),
        (json.dumps({"plugins": {NAME: [7, None]}}), "names no folder of it that exists"),
        (json.dumps({"plugins": {NAME: [{"installPath": "/nowhere/0.1.0"}]}}), "names no folder of it that exists"),
        (json.dumps({"plugins": {}}), "lacks it"),
    ],
)
def test_a_broken_list_of_plugins_is_said_and_an_entry_without_a_folder_is_none(
    project: Patient, content: str, lacks: str
) -> None:
    install_plugin(project, "project")
    (home_of(project) / ".claude/plugins/installed_plugins.json").write_text(content)
    ((level, what, _),) = hook_findings(project)
    assert level == "warning"
    assert what == f"{SETTINGS} enables the plugin {NAME}, but the client's list of installed plugins {lacks}"


def test_deliveries_of_a_plugin_that_no_settings_enable_are_evidence_for_a_week(project: Patient) -> None:
    project.deliver(START)
    assert [level for level, *_ in hook_findings(project)] == ["warning"]
    project.deliver(START, env=plugin_environment(project))
    assert hook_findings(project) == []
    project.doctor("--fix")
    assert not has_settings_hooks(project)
    (seen,) = [path for path in project.root.glob(".git/faber-ledger/**/clients/*") if path.suffix == ""]
    values = json.loads(seen.read_text())
    seen.write_text(json.dumps({**values, "plugin_at": values["plugin_at"] - 8 * 86_400}))
    assert [level for level, *_ in hook_findings(project)] == ["warning"]


def test_a_plugin_of_another_marketplace_is_not_ours(project: Patient) -> None:
    """The settings may have come with the repository: nothing that they name is to be installed."""
    change_settings(project, "project", enabledPlugins={"faber-ledger@evil": True})
    list_plugin(project, "faber-ledger@evil")
    ((level, what, hint),) = hook_findings(project)
    assert (level, what) == ("warning", "no hook is installed: what the client does is not recorded")
    assert hint.startswith("run `faber-ledger init`")
    for command in (["doctor"], ["worktree", "list"], ["init", "--plugin"], ["init"], ["doctor"], ["uninstall"]):
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


def test_in_worktrees_the_users_plugin_runs_and_one_of_untracked_settings_does_not(project: Patient) -> None:
    project.git("worktree", "add", "-q", "../tree")
    tree = project.root.parent / "tree"
    (tree / ".fractary").mkdir(exist_ok=True)
    settings = install_plugin(project)
    assert "no hook runs" not in project.call("doctor").stdout
    settings.unlink()
    change_settings(project, "local", enabledPlugins={NAME: True})
    said = f"hint: run `claude plugin install {NAME}`, which"
    assert said in project.call("doctor").stdout
    project.deliver(START, env=plugin_environment(project))
    assert said in project.call("doctor").stdout  # the delivery was made in the other work tree
    project.deliver(START, cwd=str(tree), env=plugin_environment(project) | {"CLAUDE_PROJECT_DIR": str(tree)})
    assert "no hook runs" not in project.call("doctor").stdout


# uninstall


def test_uninstall_names_the_plugin_and_removes_all_once_it_is_gone(project: Patient) -> None:
    settings = install_plugin(project, "project")
    run(project, "init", "--plugin", "--commands")
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
    assert not any((project.root / name).exists() for name in GIT_FILES)
    assert "faber-ledger" not in (project.root / ".git/config").read_text()


# A project that has nothing of ours


def test_a_users_plugin_leaves_no_file_in_a_project_that_was_never_set_up(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.root / ".fractary/faber").mkdir(parents=True)
    (project.root / ".fractary/faber/config.json").write_text("{}")
    project.git("init", "--quiet")
    project.git("add", "-A")
    project.git("commit", "--quiet", "-m", "FABER")
    log = project.root / ".fractary/faber/logs/hooks.log"
    for start in (START, "PreCompact.auto.print", "SessionEnd.other.print"):
        assert project.deliver(start, env=plugin_environment(project)).code == 0
    assert project.git("status", "--porcelain") == ""
    project.write(".fractary/faber/.active-run-id", "gone\n")
    project.deliver(START, env=plugin_environment(project))
    assert "gone" in log.read_text()
    log.unlink()
    (project.root / ".fractary/faber/.active-run-id").unlink()
    assert project.faber("init", "--plugin").returncode == 0
    project.deliver(START, env=plugin_environment(project))
    assert "No active workflow found" in log.read_text()
