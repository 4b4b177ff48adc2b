"""`faber-ledger init` and `uninstall`, through the installed command, on real settings files and real git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.clones import Clone
from support.command import COMMAND
from support.program import make_program

from faber_ledger.cli.setup.git import IGNORED
from faber_ledger.files.change import FileChange, make_changes, with_block, without_block
from faber_ledger.hooks.client_settings import add_hooks, hook_command, remove_hooks
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS

SETTINGS = ".claude/settings.json"
KEPT = ".fractary/faber/ledger.json"
OURS = (".fractary/.gitattributes", ".fractary/.gitignore", KEPT)
THEIRS: dict[str, Any] = {
    "permissions": {"allow": ["Bash(ls:*)"]},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "échauffer"}]},
            {"hooks": [{"type": "command", "command": "faber-ledger hook session-start && echo mine"}]},
        ],
        "PreCompact": [{"hooks": [{"type": "command", "command": "first"}, {"type": "command", "command": "second"}]}],
    },
    "model": "opus",
}


class Project(Clone):
    """A project, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "project")
        self.home = Path(self.environment["HOME"])
        self.root.mkdir()
        self.home.mkdir()
        self.settings = self.root / SETTINGS

    def write(self, content: bytes | str, path: str = SETTINGS) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def files(self) -> dict[str, bytes]:
        """Everything in the project but git's own folder."""
        found = (path for path in self.root.rglob("*") if ".git" not in path.relative_to(self.root).parts)
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.git("init", "-q")
    return made


def commands(settings: dict[str, Any], event: str) -> list[str]:
    return [handler["command"] for group in settings["hooks"][event] for handler in group["hooks"]]


def ours() -> dict[str, Any]:
    return {
        event: [{"hooks": [{"type": "command", "command": hook_command(event), "timeout": seconds}]}]
        for event, (_, seconds) in HOOKS.items()
    }


def dumped(indent: str) -> str:
    return json.dumps(THEIRS, indent=indent, ensure_ascii=False) + "\n"


# --- what init writes


def test_a_new_project_gets_four_guarded_hooks_without_matchers(project: Project) -> None:
    done = project.faber("init")
    assert json.loads(project.settings.read_text()) == {"hooks": ours()}
    assert project.settings.read_text().startswith('{\n  "hooks": {\n    "SessionStart": [\n      {\n')
    assert project.settings.read_text().endswith("}\n")
    assert f"commit .claude/settings.json, .fractary/.gitignore, .fractary/.gitattributes and {KEPT}" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("indent", "newline", "bom"), [("  ", "\n", ""), ("\t", "\r\n", "\ufeff")])
def test_everything_else_keeps_value_order_and_bytes(project: Project, indent: str, newline: str, bom: str) -> None:
    before = (bom + dumped(indent).replace("\n", newline)).encode()
    project.write(before)
    project.faber("init")
    after = project.settings.read_bytes()
    settings = json.loads(after.decode().removeprefix("\ufeff"))
    assert commands(settings, "SessionStart") == [*commands(THEIRS, "SessionStart"), hook_command("SessionStart")]
    assert commands(settings, "PreCompact") == ["first", "second", hook_command("PreCompact")]
    assert list(settings) == list(THEIRS)
    assert list(settings["hooks"])[:3] == list(THEIRS["hooks"])
    lines = iter(after.splitlines())
    assert all(any(old.rstrip(b",") == new.rstrip(b",") for new in lines) for old in before.splitlines())
    if newline == "\r\n":
        assert after.count(b"\n") == after.count(b"\r\n")
    project.faber("uninstall")
    assert project.settings.read_bytes() == before


def test_what_was_said_before_the_commit_is_not_said_again(project: Project) -> None:
    due = ("next: commit", "note: summaries of compactions")
    for said in (project.faber("init").stdout, project.faber("init").stdout):
        assert [words for words in due if words not in said] == []
    project.commit("Set up")
    said = project.faber("init").stdout
    assert [words for words in (*due, "then: start a new session") if words in said] == []


def test_a_second_init_changes_nothing(project: Project) -> None:
    project.write(dumped("  "))
    project.faber("init")
    before = project.files()
    os.utime(project.settings, ns=(1, 1))
    os.utime(project.root / ".fractary/.gitignore", ns=(2, 2))
    data = json.loads(project.faber("init", "--json").stdout)["data"]
    assert [file["action"] for file in data["files"]] == ["unchanged"] * 5
    assert project.files() == before
    assert project.settings.stat().st_mtime_ns == 1
    assert (project.root / ".fractary/.gitignore").stat().st_mtime_ns == 2
    assert project.faber("init", "--dry-run").stdout == "nothing to change\n"


@pytest.mark.parametrize(
    "old",
    [
        "faber-ledger hook SessionStart",
        "exec faber-ledger hook session-start",
        "'/opt/tools/faber-ledger-hook' session-start",
        '"$CLAUDE_PROJECT_DIR"/.venv/bin/faber-ledger hook session-start',
        "command -v faber-ledger >/dev/null 2>&1 || exit 0; exec faber-ledger hook session-start",
        "command -v faber-ledger >/dev/null && faber-ledger hook session-start || true",
        hook_command("SessionStart"),
    ],
)
def test_a_hook_in_another_form_is_kept(old: str) -> None:
    handlers = [{"command": "a"}, {"type": "command", "command": old, "timeout": 5, "note": "mine"}, {"command": "b"}]
    groups = [{"hooks": handlers}, {"hooks": [{"command": "c"}]}]
    settings = json.loads(add_hooks(json.dumps({"hooks": {"SessionStart": groups}}, indent=2)))
    assert settings["hooks"]["SessionStart"] == groups
    assert commands(settings, "PreCompact") == [hook_command("PreCompact")]


def test_a_users_matched_hook_stays_and_ours_is_added(project: Project) -> None:
    mine = {"type": "command", "command": "faber-ledger hook session-start", "timeout": 99}
    theirs = [{"matcher": "compact", "hooks": [mine, {"command": "a"}]}, {"matcher": "clear", "hooks": [mine]}]
    before = json.dumps({"hooks": {"SessionStart": theirs}}, indent=2)
    project.write(before)
    project.faber("init")
    assert json.loads(project.settings.read_text())["hooks"]["SessionStart"] == [*theirs, *ours()["SessionStart"]]
    project.faber("uninstall")
    assert project.settings.read_text() == before


def test_a_users_timeout_stays_and_uninstall_finds_the_hook(project: Project) -> None:
    project.faber("init")
    edited = project.settings.read_text().replace('"timeout": 20', '"timeout": 33')
    project.settings.write_text(edited)
    project.faber("init")
    assert project.settings.read_text() == edited
    project.faber("uninstall")
    assert not project.settings.exists()


@pytest.mark.parametrize(
    "command",
    [
        "not-faber-ledger hook session-start",
        "faber-ledger session-start",
        "faber-ledger-hook hook session-start",
        "faber-ledger hook session-start; rm x",
        "faber-ledger hook",
        "x",
    ],
)
def test_a_command_that_only_resembles_ours_is_the_users(command: str) -> None:
    before = json.dumps({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}}, indent=2)
    assert remove_hooks(before) == before
    assert commands(json.loads(add_hooks(before)), "SessionStart") == [command, hook_command("SessionStart")]


def test_groups_that_are_no_groups_are_left_alone() -> None:
    groups: list[Any] = [1, None, {"hooks": 5}, {"hooks": [None, {"command": 7}]}, []]
    before = json.dumps({"hooks": {"SessionStart": groups}}, indent=2)
    assert remove_hooks(add_hooks(before)) == before


# --- scopes and places


def test_each_scope_has_its_file(project: Project, tmp_path: Path) -> None:
    project.faber("init", "--scope", "local")
    assert set(project.files()) == {".claude/settings.local.json", *OURS}
    output = project.faber("init", "--scope", "user").stdout
    assert json.loads((project.home / ".claude/settings.json").read_text()) == {"hooks": ours()}
    assert f"commit .fractary/.gitignore, .fractary/.gitattributes and {KEPT}," in output
    config = tmp_path / "configured"
    project.faber("init", "--scope", "user", CLAUDE_CONFIG_DIR=str(config))
    assert json.loads((config / "settings.json").read_text()) == {"hooks": ours()}


def test_the_user_scope_leaves_a_folder_without_a_project_alone(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "anywhere"
    folder.mkdir()
    project.faber("init", "--scope", "user", cwd=folder)
    assert list(folder.iterdir()) == []
    project.faber("uninstall", "--scope", "user", cwd=folder)
    assert list((project.home / ".claude").iterdir()) == []


def test_a_link_stays_a_link_and_its_target_changes(project: Project) -> None:
    target = project.root / "dotfiles.json"
    target.write_text(dumped("  "))
    target.chmod(0o640)
    project.settings.parent.mkdir()
    project.settings.symlink_to(target)
    assert str(target) in project.faber("init").stdout
    assert project.settings.is_symlink()
    assert not target.is_symlink()
    assert commands(json.loads(target.read_text()), "SessionEnd") == [hook_command("SessionEnd")]
    assert target.stat().st_mode & 0o777 == 0o640
    project.faber("uninstall")
    assert project.settings.is_symlink()
    assert target.read_text() == dumped("  ")


@pytest.mark.parametrize("scope", ["project", "local"])
def test_a_link_that_leads_out_of_the_project_is_refused(project: Project, scope: str) -> None:
    target = project.home / "theirs.json"
    target.write_text(dumped("  "))
    path = project.root / ".claude" / ("settings.json" if scope == "project" else "settings.local.json")
    path.parent.mkdir()
    path.symlink_to(target)
    assert "leads out of the project" in project.faber("init", "--scope", scope, code=1).stderr
    assert target.read_text() == dumped("  ")
    assert not (project.root / ".fractary").exists()


# --- the guard


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_collaborator_without_the_program_sees_nothing(tmp_path: Path, shell: str) -> None:
    path = shutil.which(shell)
    assert path
    for event in HOOKS:
        done = subprocess.run(
            [path, "-c", hook_command(event)],
            input=b"{}",
            env={"PATH": str(tmp_path)},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_guard_hands_on_standard_input_and_the_event(tmp_path: Path) -> None:
    make_program(tmp_path / "faber-ledger-hook", 'echo "$@"\ncat')
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for event, (name, _) in HOOKS.items():
        done = subprocess.run(
            ["sh", "-c", hook_command(event)], input=b"delivery", env=env, capture_output=True, check=True
        )
        assert done.stdout == f"{name}\ndelivery".encode()


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A clone that has used the program, with an active run."""
    root = tmp_path / "used"
    (root / ".fractary/faber").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / ".git/faber-ledger").mkdir()
    (root / ".fractary/faber/.active-run-id").write_text("a-run\n")
    return root


def without_the_program(root: Path, event: str = "SessionStart") -> tuple[int, bytes, bytes]:
    """Run the hook's command as the client does, where git is found and the program is not."""
    folders = [one for one in os.get_exec_path() if not Path(one, "faber-ledger").exists()]
    env = {"PATH": os.pathsep.join(folders), "CLAUDE_PROJECT_DIR": str(root)}
    line = ["sh", "-c", hook_command(event)]
    done = subprocess.run(line, input=b"{}", env=env, cwd="/", capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_start_says_that_a_used_program_is_missing(used: Path) -> None:
    """(real-client D3)"""
    said = "faber-ledger is not on PATH: this session of the active FABER run is not recorded"
    code, output, errors = without_the_program(used)
    assert (code, json.loads(output), errors) == (0, {"systemMessage": said}, b"")
    assert [without_the_program(used, event) for event in HOOKS if event != "SessionStart"] == [(0, b"", b"")] * 3
    (used / ".fractary/faber/runs").mkdir()
    (used / ".fractary/faber/.active-run-id").rename(used / ".fractary/faber/runs/.active-run-id")
    assert without_the_program(used) == (code, output, errors)
    git = ["git", "-C", str(used), "-c", "user.name=dev", "-c", "user.email=dev@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "a run"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", f"{used}-tree"], check=True)
    assert without_the_program(Path(f"{used}-tree")) == (code, output, errors)


@pytest.mark.parametrize("gone", [".fractary/faber/.active-run-id", ".git/faber-ledger", ".git", "."])
def test_a_colleague_who_never_had_the_program_sees_nothing(used: Path, gone: str) -> None:
    """(real-client D3)"""
    path = used / gone
    path.unlink() if path.is_file() else shutil.rmtree(path)
    assert without_the_program(used) == (0, b"", b"")


# --- bad settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: not valid JSON"),
        (b'{\n "a": 1\n "b": 2}\n', "line 3: not valid JSON"),
        (b"[]", "settings.json: it is not a JSON object"),
        (b'{"a": NaN}', "settings.json: NaN is not JSON"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{\n "a": "\xff"}', "line 2: it is not UTF-8"),
        (b'{\n\n "hooks": []}', "line 3: `hooks` is not an object"),
        (b'{\n "hooks": {\n  "PreCompact": {}}}', "line 3: `hooks.PreCompact` is not a list"),
    ],
)
@pytest.mark.parametrize("command", ["init", "uninstall"])
def test_settings_that_cannot_be_read_are_named_and_left(
    project: Project, command: str, content: bytes, message: str
) -> None:
    project.write(content)
    before = project.files()
    failed = project.faber(command, code=1)
    assert failed.stderr.startswith(f"error: {SETTINGS}")
    assert message in failed.stderr
    assert "\n\nhint: " in failed.stderr
    assert failed.stdout == ""
    assert project.files() == before
    error = json.loads(project.faber(command, "--json", code=1).stderr)["error"]
    assert error["code"] == "settings_invalid"


def test_a_folder_or_a_pipe_in_the_settings_place_is_refused(project: Project) -> None:
    project.settings.mkdir(parents=True)
    assert "is not a regular file" in project.faber("init", code=1).stderr
    project.settings.rmdir()
    os.mkfifo(project.settings)
    assert "is not a regular file" in project.faber("init", code=1).stderr
    project.settings.unlink()
    project.settings.symlink_to("settings.json")
    assert "cannot read" in project.faber("init", code=1).stderr
    shutil.rmtree(project.settings.parent)
    project.write("a file", ".claude")
    assert "settings.json: Not a directory" in project.faber("init", code=1).stderr
    assert not (project.root / ".fractary").exists()


def test_when_the_second_file_cannot_be_written_neither_is(project: Project) -> None:
    project.write(dumped("  "))
    project.write("in the folder's place", ".fractary")
    before = project.files()
    failed = project.faber("init", code=1)
    assert ".fractary/.gitignore" in failed.stderr
    assert project.files() == before


def test_a_change_by_another_program_meanwhile_is_not_overwritten(project: Project) -> None:
    file = project.write("theirs, newer")
    with pytest.raises(LedgerError, match="changed meanwhile"):
        make_changes([FileChange(str(file), b"what was read", b"ours")])
    assert project.files() == {SETTINGS: b"theirs, newer"}


# --- dry run


def test_a_dry_run_shows_a_patch_that_git_applies_and_writes_nothing(project: Project) -> None:
    project.write(dumped("  ").rstrip("\n"))
    before = project.files()
    patch = project.faber("init", "--dry-run").stdout
    assert project.files() == before
    (project.root / "p.patch").write_text(patch)
    project.git("apply", "p.patch")
    (project.root / "p.patch").unlink()
    applied = project.files()
    assert "unchanged" in project.faber("init", "--json").stdout
    assert project.files() == applied
    patch = project.faber("uninstall", "--dry-run").stdout
    assert project.files() == applied
    (project.root / "p.patch").write_text(patch)
    project.git("apply", "p.patch")
    (project.root / "p.patch").unlink()
    assert project.files() == before


# --- git


def test_git_ignores_local_files_and_tracks_the_runs(project: Project) -> None:
    project.faber("init")
    stays = [
        "runs/r/state.json.backup",
        "runs/r/state.backup.json",
        "runs/r/ledger.lock",
        "runs/r/ledger.db-journal",
        "runs/r/state.json.tmp",
        "faber/logs/hooks.log",
        "faber/writer",
        "faber/.active-run-id",
        "faber/runs/.active-run-id",
    ]
    travels = ["runs/r/state.json", "runs/r/ledger.db", "faber/runs/r/state.json", "faber/config.json"]
    for name in [*stays, *travels]:
        project.write("x", f".fractary/{name}")
    project.git("add", "-A")
    assert set(project.git("ls-files").split()) == {SETTINGS, *OURS, *(f".fractary/{name}" for name in travels)}


@pytest.mark.parametrize(
    ("where", "rules", "message"),
    [
        (".gitignore", "# runs\n.fractary/\n", "rule `.fractary/`, line 2 of .gitignore"),
        (".gitignore", "*.db\n", "a run's ledger.db, in .fractary/runs/ (rule `*.db`, line 1 of .gitignore)"),
        (".fractary/.gitignore", "state.json\n", "rule `state.json`, line 1 of .fractary/.gitignore"),
        (".fractary/runs/.gitignore", "*\n", "rule `*`, line 1 of .fractary/runs/.gitignore"),
        (".git/info/exclude", "runs\n", "rule `runs`, line 1 of .git/info/exclude"),
    ],
)
def test_init_fails_with_the_rule_when_git_ignores_what_must_travel(
    project: Project, where: str, rules: str, message: str
) -> None:
    project.write(rules, where)
    before = project.files()
    for arguments in (["init"], ["init", "--dry-run"]):
        failed = project.faber(*arguments, code=1)
        assert message in failed.stderr
        assert "\n\nhint: " in failed.stderr
        assert failed.stdout == ""
    assert project.files() == before


def test_a_tracked_file_counts_as_ignored_unless_a_rule_includes_it_again(project: Project) -> None:
    project.write("r\n", ".fractary/runs/r/ledger.db")
    project.git("add", "-A")
    project.write("*.db\n", ".gitignore")
    assert "rule `*.db`" in project.faber("init", code=1).stderr
    project.write("*.db\n!ledger.db\n", ".gitignore")
    project.faber("init")


def test_an_ignore_file_that_is_a_link_is_refused(project: Project) -> None:
    target = project.home / ".bashrc"
    target.write_text("mine\n")
    (project.root / ".fractary").mkdir()
    (project.root / ".fractary/.gitignore").symlink_to(target)
    assert ".fractary/.gitignore is a link" in project.faber("init", code=1).stderr
    assert target.read_text() == "mine\n"


def test_settings_that_git_ignores_are_written_and_reported(project: Project) -> None:
    project.write(".claude/\n", ".gitignore")
    done = project.faber("init")
    assert "note: git ignores .claude/settings.json" in done.stderr
    assert f"commit .fractary/.gitignore, .fractary/.gitattributes and {KEPT}," in done.stdout


def test_outside_git_it_works_and_says_that_nothing_is_tracked(tmp_path: Path) -> None:
    project = Project(tmp_path)
    done = project.faber("init", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert "not a git repository: nothing is tracked" in done.stderr
    assert "commit " not in done.stdout
    assert set(project.files()) == {SETTINGS, *OURS}


def test_without_git_and_off_the_path_it_works_and_tells_both(project: Project) -> None:
    done = project.faber("init", PATH=str(project.home))
    assert "note: git could not say whether it tracks the ledger: git is not installed" in done.stderr
    assert f"so the hooks cannot run it; add {COMMAND.parent} to the PATH" in done.stderr


def test_hooks_that_the_settings_switch_off_are_reported(project: Project) -> None:
    project.write('{"disableAllHooks": true}\n')
    assert "disableAllHooks" in project.faber("init").stderr


def test_settings_of_the_project_that_cannot_be_read_are_named(project: Project) -> None:
    project.faber("init")
    project.write("{broken\n", KEPT)
    said = f"note: {KEPT}: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); correct it"
    assert said in project.faber("init").stderr
    assert f"workflow.configuration: {KEPT}: Expecting property name" in project.faber("doctor", code=23).stdout


# --- uninstall


def test_uninstall_keeps_runs_and_the_other_files_beside(project: Project) -> None:
    project.faber("init")
    project.write("{}", ".fractary/runs/r/state.json")
    project.write("r\n", ".fractary/faber/.active-run-id")
    project.write("{}", ".claude/other.json")
    project.faber("uninstall")
    kept = {".fractary/runs/r/state.json", ".fractary/faber/.active-run-id", ".claude/other.json"}
    assert set(project.files()) == {*kept, ".fractary/.gitignore"}


def test_the_ignore_file_stays_while_another_scope_needs_it(project: Project) -> None:
    project.faber("init")
    project.faber("init", "--scope", "local")
    assert "git's settings stay: .claude/settings.json" in project.faber("uninstall", "--scope", "local").stdout
    assert set(project.files()) == {SETTINGS, *OURS}
    project.faber("uninstall")
    assert project.files() == {}


@pytest.mark.parametrize("before", [b"cache/\n", b"cache/", b"a\r\nb\r\n", b"a\r\nb", b"\n", b"caf\xe9/\n"])
def test_the_ignore_files_own_lines_come_back(before: bytes) -> None:
    after = with_block(before, IGNORED)
    assert after.startswith(before)
    assert without_block(after) == before
