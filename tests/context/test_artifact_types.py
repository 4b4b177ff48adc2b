"""Directories, git's answers and commands as artifacts, also in repositories that mean harm."""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import COMMAND
from support.program import make_program
from support.project import Project
from support.sizes import few

from faber_ledger.context.artifact import ArtifactError, fill
from faber_ledger.context.artifact_command import ProgramFailed, run_program
from faber_ledger.context.artifact_git import NUMBER, SUBCOMMANDS, WITH_PATHS, git_arguments
from faber_ledger.context.reload import load
from faber_ledger.context.workflow import parse_artifact
from faber_ledger.files.text import quoted

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Loaded, Surroundings

RUN = "fractary-faber-258-20260105-143022-a1b2c3"


def around(root: Path, **state: Any) -> Surroundings:
    root = Path(os.path.realpath(root))
    return {
        "root": str(root),
        "run_dir": str(root / ".fractary/runs" / RUN),
        "state_path": str(root / ".fractary/runs" / RUN / "state.json"),
        "plugin_roots": [],
        "commands": {},
        "state": {"run_id": RUN, "work_id": "258", **state},
    }


def given_by(surroundings: Surroundings, type: str, **fields: Any) -> Loaded:
    return load(parse_artifact({"id": "x", "type": type, "description": "", **fields}, "x"), surroundings)


def reason(surroundings: Surroundings, type: str, **fields: Any) -> str:
    with pytest.raises(ArtifactError) as raised:
        given_by(surroundings, type, **fields)
    return raised.value.message


# Directories


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "project/notes"
    folder.mkdir(parents=True)
    for second, (name, text) in enumerate([("b.md", "second\n"), ("a.md", "first"), ("c.md", "third\n")]):
        (folder / name).write_text(text)
        os.utime(folder / name, (1_767_623_400 + second, 1_767_623_400 + second))
    os.utime(folder / "a.md", (1_767_623_500, 1_767_623_500))
    return folder


def directory(notes: Path, strategy: str = "all") -> Loaded:
    return given_by(around(notes.parent), "directory", path="notes", load_strategy=strategy)


def test_the_latest_file_is_the_one_changed_last(notes: Path) -> None:
    latest = directory(notes, "latest_only")
    assert (latest["content"], latest["source"], latest["size_bytes"]) == ("first", "notes/a.md", 5)
    os.utime(notes / "c.md", (1_767_623_500, 1_767_623_500))
    assert directory(notes, "latest_only")["source"] == "notes/c.md"


def test_an_empty_directory_is_loaded_and_says_that_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "project/notes").mkdir(parents=True)
    (tmp_path / "project/notes/.gitkeep").write_text("")
    for strategy in ["all", "latest_only", "summary"]:
        assert (
            directory(tmp_path / "project/notes", strategy)["content"] == "Directory: notes\nFiles: 0\nLatest: none\n"
        )


def test_only_regular_files_of_the_project_count(notes: Path) -> None:
    (notes / "below").mkdir()
    (notes / "below/d.md").write_text("below")
    (notes / ".hidden").write_text("hidden")
    (notes.parent.parent / "secret").write_text("secret")
    (notes / "leaves").symlink_to("../../secret")
    (notes / "gone").symlink_to("nowhere")
    (notes / "device").symlink_to("/dev/zero")
    (notes / "stays").symlink_to("a.md")
    os.mkfifo(notes / "pipe")
    assert directory(notes, "summary")["content"].startswith("Directory: notes\nFiles: 4\n")
    loaded = directory(notes)["content"]
    assert "=== stays ===\nfirst\n" in loaded
    for absent in ("below", "hidden", "secret", "leaves", "gone", "device", "pipe"):
        assert absent not in loaded


def test_a_file_that_is_not_text_is_named_and_not_shown(notes: Path) -> None:
    (notes / "d.bin").write_bytes(b"PK\0\1")
    (notes / "e.txt").write_bytes("é".encode("latin-1"))
    (notes / "f\n=== a ===").write_text("f")
    loaded = directory(notes)["content"]
    assert (
        "=== d.bin ===\n(not shown: binary content)\n\n=== e.txt ===\n(not shown: not UTF-8 text (byte 0))\n" in loaded
    )
    assert "=== f\\n=== a === ===\nf\n" in loaded


def test_a_directory_of_over_1_mb_is_refused_before_anything_is_read(notes: Path) -> None:
    with (notes / "huge").open("wb") as file:
        file.truncate(5 * 1024**3)
    assert reason(around(notes.parent), "directory", path="notes").startswith("Artifact is larger than 1 MB")
    os.utime(notes / "huge", (1_767_623_600, 1_767_623_600))
    assert "5,368,709,120 bytes" in reason(around(notes.parent), "directory", path="notes", load_strategy="latest_only")
    assert "Latest: huge" in directory(notes, "summary")["content"]


def test_a_file_or_a_folder_outside_is_not_a_directory_artifact(notes: Path) -> None:
    surroundings = around(notes.parent)
    assert reason(surroundings, "directory", path="notes/a.md").endswith("not a directory")
    assert reason(surroundings, "directory", path="nowhere").startswith("Directory not found: ")
    assert "outside the project" in reason(surroundings, "directory", path="/etc")
    (notes / "out").symlink_to("/etc")
    assert "outside the project" in reason(surroundings, "directory", path="notes/out")
    assert reason(surroundings, "markdown", path="notes").endswith("a directory, not a regular file")


def test_the_runs_own_folder_is_given_without_what_each_append_changes(tmp_path: Path) -> None:
    run = tmp_path / ".fractary/faber/runs" / RUN
    run.mkdir(parents=True)
    left_over = ("state.json.tmp", "state.json.broken.backup", "ledger.db.tmp", "ledger.db.backup")
    for name in ("ledger.db", "state.json", "state.json.backup", *left_over, "plan.json"):
        (run / name).write_text(name)
    surroundings = {**around(tmp_path), "run_dir": str(run)}
    loaded = given_by(surroundings, "directory", path=".fractary/runs/{run_id}/")  # type: ignore[arg-type]  # simpler than its type
    assert loaded["content"] == "=== plan.json ===\nplan.json\n\n"
    assert loaded["source"] == f".fractary/faber/runs/{RUN}"


# Placeholders


def test_a_placeholder_without_a_value_is_reported(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/WORK-.md").write_text("x")
    surroundings = around(tmp_path, work_id=None)
    missing = reason(surroundings, "markdown", path="plans/{plan_id}/a.md")
    assert missing.endswith("a.md (no value in the run's state for {plan_id})")
    assert given_by(surroundings, "markdown", path="specs/WORK-{work_id}.md")["notes"] == [
        "x: no value in the run's state for {work_id}"
    ]
    report = "no value in the run's state for {work_id}, {plan_id}"
    assert reason(surroundings, "git_info", command="git log -- {work_id} {plan_id}").startswith("no value")
    assert reason(surroundings, "skill", command="/x {work_id} {plan_id}") == report


@given(st.dictionaries(st.sampled_from(["work_id", "plan_id", "run_id"]), st.text() | st.integers() | st.none()))
def test_a_value_from_the_state_adds_only_a_name_to_a_command(state: dict[str, Any]) -> None:
    surroundings = around(Path("/project"), **state)
    try:
        text = fill("{work_id}|{plan_id}|{run_suffix}", surroundings)
    except ArtifactError:
        return
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._#-|")
    assert not any(part.startswith("-") for part in text.split("|")[:2])


# Git


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project", run_id=RUN)
    made.write("a.txt", "one\n")
    made.write(".fractary/note", "one\n")
    made.commit("Add a")
    made.git("tag", "v1")
    return made


def git(project: Project, command: str, **state: Any) -> str:
    return given_by(around(project.root, **state), "git_info", command=command)["content"]


def test_git_commands_that_only_read_are_answered(project: Project) -> None:
    for command, answer in [
        ("git log --oneline --format=%s -20", "Add a\nBegin\n"),
        ("git log -n 1 --format=%s", "Add a\n"),
        ("git log --since '2 weeks ago' --max-count 1 --format=%s", "Add a\n"),
        ("log --format=%s -1 -- plugins", "Begin\n"),
        ("git --no-pager show --name-only --format=%s HEAD", "Add a\n\na.txt\n"),
        ("git diff --stat HEAD~1..HEAD", " a.txt | 1 +\n 1 file changed, 1 insertion(+)\n"),
        ("git branch", "* main\n"),
        ("git branch --show-current", "main\n"),
        ("git branch --merged HEAD --format='%(refname:short)'", "main\n"),
        ("git rev-parse --abbrev-ref HEAD", "main\n"),
        ("git describe --tags", "v1\n"),
        ("git status --short", "(no output)\n"),
    ]:
        assert git(project, command, work_id="a.txt") == answer


def test_the_source_of_a_git_artifact_is_the_same_on_every_machine(project: Project) -> None:
    loaded = given_by(around(project.root), "git_info", command="git log -1 --format=%s -- {project_root}/a.txt")
    assert loaded["content"] == "Add a\n"
    assert loaded["source"] == "git log -1 --format=%s -- {project_root}/a.txt"
    assert loaded["resolved"] == f"git log -1 --format=%s -- {project.root}/a.txt"
    assert loaded["sha256"] == hashlib.sha256(b"Add a\n").hexdigest()


def test_the_ledgers_files_never_appear_in_a_git_artifact(project: Project) -> None:
    for command in ["git status", "git diff", "git log --stat"]:
        before = git(project, command)
        project.write(".fractary/note", f"for {command}\n")
        project.write(".fractary/new", f"for {command}\n")
        assert git(project, command) == before
        project.commit("Ledger alone")
        assert git(project, command) == before


def test_any_other_git_command_is_refused_with_the_reason(project: Project) -> None:
    for command, why in [
        ("git push", "only these git commands are allowed: log, status"),
        ("rm -rf .", "only these git commands are allowed: log"),
        ("git -c core.pager=x log", "'-c'"),
        ("git log --outpu=x", "'--outpu=x'"),
        ("git diff --no-index /etc/passwd a.txt", "'--no-index'"),
        ("git log -p --textconv", "'--textconv'"),
        ("git branch -D main", "'-D'"),
        ("git diff -- a.txt ../secret", "must be in the project"),
        ("git log -- :(top)..", "must be in the project"),
        ("git log | sh", "there is no shell"),
        ("git log $(id)", "there is no shell"),
        ("git log 'x", "cannot be split"),
        ("git log --max-count", "needs a value"),
        ("git log nonsense", "`git log` failed: it ended with an error"),
        ("git branch -- x", "may not have paths here"),
        ("git branch newb", "'newb' - `git branch` may not have this here"),
        ("git branch --sort=refname newb", "`git branch` may not have this here"),
        ("git tag newt", "only these git commands are allowed"),
        ("git log -- {work_id}", "cannot be used in"),
    ]:
        assert why in reason(around(project.root, work_id="--output=x"), "git_info", command=command)
        assert not (project.root / "x").exists()
        assert project.git("branch", "--list") == "* main"


def test_the_ledgers_files_are_not_reached_by_their_hashes(project: Project) -> None:
    for command in [
        *["git show BLOB", "git show HEAD^{tree}", "git show HEAD:", "git show HEAD:./", "git show :0:./"],
        *["git show HEAD:a/../.fractary", "git show :.fractary/note", "git show RUNS:note", "git show tagged"],
        *["git show --tags", "git show HEAD^{tree}:.fractary/note", "git diff BLOB OTHER", "git diff RUNS EMPTY"],
        *["git diff EMPTY..RUNS", "git diff HEAD:.fractary HEAD~1:plugins", "git cat-file blob BLOB"],
    ]:
        blob = project.git("rev-parse", "HEAD:.fractary/note")
        project.git("tag", "--force", "tagged", blob)
        known = {
            "BLOB": blob,
            "OTHER": project.git("rev-parse", "HEAD:a.txt"),
            "RUNS": project.git("rev-parse", "HEAD:.fractary"),
            "EMPTY": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        }
        asked = command
        for name, value in known.items():
            asked = asked.replace(name, value)
        report = reason(around(project.root), "git_info", command=asked)
        assert report.startswith(("Command refused: ", "`git show` failed: ", "`git diff` failed: "))


def test_commits_are_shown_whatever_they_are_called(project: Project) -> None:
    for command, answer in [
        ("git show --no-patch --format=%s v1", "Add a\n"),
        ("git show -s --format=%s HEAD~1..HEAD", "Add a\n"),
        ("git show -s --format=%s 'HEAD^{/Begin}'", "Begin\n"),
        ("git diff --name-only HEAD~1", "a.txt\n"),
        ("git diff --name-only ^HEAD~1 HEAD", "a.txt\n"),
    ]:
        assert git(project, command) == answer


WORDS = st.sampled_from(
    [
        *sorted({option for known in SUBCOMMANDS.values() for listed in known[1:] for option in listed.split()}),
        *["--", "-n5", "HEAD", "--output=x", "-o", "x", "--list", "--show-current", "a.txt", "'a b'", "--no-index"],
    ]
)


@given(st.sampled_from(sorted(SUBCOMMANDS)), st.lists(WORDS | st.text(max_size=8), max_size=6))
def test_only_listed_options_reach_git(name: str, words: list[str]) -> None:
    try:
        arguments = git_arguments(" ".join(["git", name, *words]), around(Path("/project")))
    except ArtifactError:
        return
    always, flags, valued = SUBCOMMANDS[name]
    before = arguments[1 : arguments.index("--")] if "--" in arguments else arguments[1:]
    for option in [word for word in before if word.startswith("-")]:
        on_list = option in f"{always} {flags}".split() or re.fullmatch(NUMBER, option)
        assert on_list or option.partition("=")[0] in valued.split() or option.startswith("-n")
    if name in WITH_PATHS:
        assert arguments[-1] == ":(exclude).fractary"
    if name == "branch":
        assert "--list" in arguments or arguments == ["branch", "--show-current"]


def hostile(project: Project, *settings: tuple[str, str], attributes: str = "") -> Path:
    """Add repository settings whose programs leave a mark; returns the mark."""
    mark = project.root.parent / "ran"
    program = make_program(project.root.parent / "evil", f"touch {mark}\nexit 1")
    for name, value in settings:
        project.git("config", name, value.replace("EVIL", str(program)))
    if attributes:
        project.write(".git/info/attributes", attributes)
    return mark


def as_it_is(project: Project, *arguments: str) -> None:
    """Run git as a user does, to see that a setting would have its effect."""
    subprocess.run(
        ["git", *arguments], cwd=project.root, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )


SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"


def sign(project: Project) -> None:
    """Put an invalid signature on the newest commit."""
    head, _, message = project.git("cat-file", "commit", "HEAD").partition("\n\n")
    process = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=project.root,
        input=f"{head}\n{SIGNATURE}\n\n{message}\n".encode(),
        capture_output=True,
        check=True,
    )
    project.git("update-ref", "HEAD", process.stdout.decode().strip())


SETTINGS: list[tuple[list[tuple[str, str]], str, list[str]]] = [
    ([("core.fsmonitor", "EVIL")], "", ["git status", "git diff"]),
    ([("diff.external", "EVIL")], "", ["git diff", "git diff HEAD~1"]),
    ([("diff.evil.command", "EVIL")], "* diff=evil", ["git diff"]),
    ([("diff.evil.textconv", "EVIL")], "* diff=evil", ["git diff", "git log -p", "git show"]),
    ([("filter.evil.clean", "EVIL")], "* filter=evil", ["git diff", "git status"]),
    ([("filter.evil.process", "EVIL")], "* filter=evil", ["git diff", "git status"]),
    ([("filter.e.v.clean", "EVIL"), ("filter.e.v.required", "true")], "* filter=e.v", ["git status"]),
    ([("log.showSignature", "true"), ("gpg.program", "EVIL")], "", ["git log", "git show"]),
    ([("pretty.evil", "%G?"), ("gpg.openpgp.program", "EVIL")], "", ["git log --format=evil", "git log --format=%G?"]),
    ([("format.pretty", "%GS"), ("gpg.program", "EVIL")], "", ["git log", "git show --format=%GG HEAD"]),
    ([("core.hooksPath", "../hooks")], "", ["git status", "git diff"]),
]


@pytest.mark.long
@pytest.mark.parametrize(("settings", "attributes", "commands"), few(SETTINGS[::2] + SETTINGS[1::2], 6))
def test_no_setting_of_a_repository_runs_a_program(
    project: Project, settings: list[tuple[str, str]], attributes: str, commands: list[str]
) -> None:
    sign(project)
    hooks = project.root.parent / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").symlink_to("../evil")
    mark = hostile(project, *settings, attributes=attributes)
    for command in commands:
        project.write("a.txt", "two\n")
        git(project, command)
        assert not mark.exists(), command
    for command in commands:
        as_it_is(project, *command.split()[1:])
    os.utime(project.root / "plugins/faber/docs/workflow-orchestration-protocol.md", (1, 1))
    as_it_is(project, "status")
    assert mark.exists(), "git itself would not have run it, so that this shows nothing"


def test_a_filter_whose_name_cannot_be_disabled_stops_the_command(project: Project) -> None:
    mark = hostile(project, ("filter.a=b.clean", "EVIL"), attributes="* filter=a=b")
    project.write("a.txt", "two\n")
    assert "cannot be disabled" in reason(around(project.root), "git_info", command="git status")
    assert not mark.exists()


def test_a_submodules_settings_run_nothing_either(project: Project, tmp_path: Path) -> None:
    other = Project.made(tmp_path / "other", run_id=RUN)
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "sub")
    mark = hostile(project, ("status.submoduleSummary", "true"), ("diff.submodule", "log"))
    subprocess.run(["git", "-C", project.root / "sub", "config", "core.fsmonitor", str(tmp_path / "evil")], check=True)
    (project.root / "sub/new").write_text("")
    for command in ("git status", "git diff", "git diff HEAD", "git log -p"):
        git(project, command)
    assert not mark.exists()
    as_it_is(project, "status")
    assert mark.exists()


def test_a_missing_object_is_not_fetched(project: Project) -> None:
    blob = project.git("rev-parse", "HEAD:a.txt")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    mark = hostile(
        project,
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", "ssh://nowhere/x"),
        ("remote.origin.promisor", "true"),
        ("core.sshCommand", "EVIL"),
    )
    assert "failed" in reason(around(project.root), "git_info", command="git show -p HEAD")
    assert not mark.exists()
    as_it_is(project, "show", "HEAD")
    assert mark.exists()


def test_a_worktree_elsewhere_is_not_read(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("a secret\n")
    project.git("config", "core.worktree", str(elsewhere))
    assert git(project, "git diff") == "(no output)\n"


def test_outside_git_the_artifact_fails_with_the_reason(tmp_path: Path) -> None:
    assert reason(around(tmp_path), "git_info", command="git log") == "`git log` failed: not a git repository"


# Programs


def python(code: str, *, seconds: float = 20, limit: int = 1000) -> str:
    return run_program([sys.executable, "-c", code], "/", seconds=seconds, limit=limit)


def test_a_program_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"  # a pipe that both hold open for writing: it ends when the last of them is gone
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    shell = f"exec 3>'{alive}'; sh -c 'echo child >&3; exec sleep 1000' & exec sleep 1000"
    with pytest.raises(ProgramFailed, match="longer than 1 second"):
        run_program(["sh", "-c", shell], "/", seconds=1, limit=1000)
    os.set_blocking(reader, True)
    with open(reader) as pipe:
        assert select.select([pipe], [], [], 60)[0]
        assert pipe.readline() == "child\n"
        assert select.select([pipe], [], [], 60)[0], "one of them lives"
        assert pipe.read() == ""


def test_a_daemon_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    shell = f"setsid sh -c 'echo $$ >{tmp_path}/pid; exec sleep 1000' &"
    try:
        with pytest.raises(ProgramFailed, match="longer than 1 second"):
            run_program(["sh", "-c", shell], "/", seconds=1, limit=1000)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_program_that_prints_too_much_or_fails_says_so() -> None:
    with pytest.raises(ProgramFailed, match="more than 1,000 bytes"):
        python("print('x' * 1000)")
    with pytest.raises(ProgramFailed, match=r"^no such issue$"):
        python("import sys; sys.stderr.write('x' * 100000 + '\\nno such issue\\n'); sys.exit(4)")
    with pytest.raises(ProgramFailed, match="status 4"):
        python("raise SystemExit(4)")
    with pytest.raises(ProgramFailed, match="binary content"):
        python("print('\\0')")
    with pytest.raises(ProgramFailed, match="cannot be run: No such file"):
        run_program(["no-such-program"], "/", seconds=1, limit=1)
    with pytest.raises(ProgramFailed, match="cannot be run"):
        run_program(["a\0b"], "/", seconds=1, limit=1)
    assert python("import sys; print(sys.stdin.read() == '')") == "True\n"


# Slash commands


def test_a_mapped_program_is_run_without_the_commands_own_arguments(tmp_path: Path) -> None:
    surroundings = around(tmp_path)
    print_arguments = "import sys; print(*sys.argv[1:], sep='|')"
    surroundings["commands"] = {
        "/fractary-work:issue-fetch": [sys.executable, "-c", print_arguments, "view", "#{work_id}"]
    }
    loaded = given_by(surroundings, "work_plugin", command="/fractary-work:issue-fetch {work_id} --all")
    assert (loaded["content"], loaded["is_deferred"], loaded["size_bytes"]) == ("view|#258\n", False, 10)
    surroundings["state"]["work_id"] = "1; rm -rf ."
    assert "cannot be used in" in reason(surroundings, "work_plugin", command="/fractary-work:issue-fetch")
    surroundings["state"]["work_id"] = None
    assert "no value" in reason(surroundings, "work_plugin", command="/fractary-work:issue-fetch")


def test_anything_but_a_slash_command_is_an_instruction_and_never_run(mine: Project) -> None:
    for command in ["gh issue view 258", "/../x", "/x\u0000"]:
        mine.name_artifacts({"id": "issue", "type": "skill", "command": command})
        packet = mine.faber("session-load").stdout
        assert f"The workflow's instruction for it is {quoted(command)}" in packet
        assert "To load it, run" not in packet


@pytest.mark.parametrize("is_hook", [True, False])
def test_an_instruction_in_words_is_given_as_the_workflows_and_quoted(tmp_path: Path, is_hook: bool) -> None:
    """(faber-as-it-runs-today H13.5)"""
    project = Project.made(tmp_path / "project")
    words = "Use the issue-fetch skill to load issue {work_id}\nwith `all` comments"
    project.name_artifacts({"id": "issue-context", "type": "skill", "command": words, "required": True})
    done = project.faber("session-load") if not is_hook else None
    packet = done.stdout if done is not None else project.deliver("SessionStart.startup.print").packet
    said = "The workflow's instruction for it is `Use the issue-fetch skill to load issue 258 with 'all' comments`"
    assert f"- issue-context: {said}\n" in (packet or "")
    assert (done is None or done.returncode == 0, project.of_type("artifact_loaded")[0]["given"]) == (True, "deferred")


# In commands and hooks

WORKFLOW = {
    "id": "mine",
    "critical_artifacts": {
        "always_load": [
            {"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch {work_id}", "required": True},
            {"id": "commits", "type": "git_info", "command": "git log --format=%s -5"},
            {"id": "notes", "type": "directory", "path": "notes", "load_strategy": "summary"},
        ]
    },
}


@pytest.fixture
def mine(project: Project) -> Project:
    project.write(".fractary/faber/workflows/mine.json", json.dumps(WORKFLOW))
    project.write("notes/a.md", "x")
    project.change_state(workflow_id="mine", work_id="258")
    code = f"open({str(project.root.parent / 'ran')!r}, 'w'); print('The issue')"
    project.map_fetch(sys.executable, "-c", code, "{work_id}")
    return project


def test_a_hook_asks_the_agent_and_runs_no_mapped_program(mine: Project) -> None:
    answer = mine.deliver("SessionStart.startup.print")
    assert answer.packet is not None
    asked = "No hook runs the program that is mapped to `/fractary-work:issue-fetch 258`. To load it, run"
    assert f"{asked} `faber-ledger session-load --artifacts issue`" in answer.packet
    assert not (mine.root.parent / "ran").exists()
    loads = {event["artifact_id"]: event for event in mine.of_type("artifact_loaded")}
    assert (loads["issue"]["given"], loads["issue"]["size_bytes"]) == ("deferred", 0)
    assert loads["issue"]["source"] == "/fractary-work:issue-fetch 258"  # as the agent is asked
    assert mine.in_context == ["commits", "notes"]  # the agent may never run the command
    assert "Add a" in answer.packet


def test_a_dry_run_only_names_the_mapped_program_that_a_load_runs(mine: Project) -> None:
    dry = mine.faber("session-load", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert not (mine.root.parent / "ran").exists()
    lines = dry.stdout.splitlines()
    issue = lines[lines.index("  ✓ issue") : lines.index("  ✓ commits")]
    assert issue[1:3] == ["    Type: work_plugin", "    Command: /fractary-work:issue-fetch {work_id}"]
    assert issue[3:] == ["    Required: yes", "    Last loaded: never", "    Action: LOAD", ""]
    assert "Total: 3 artifacts (3 would be loaded, 0 skipped)" in lines
    done = mine.faber("session-load", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "The issue\n" in done.stdout
    assert (mine.root.parent / "ran").exists()
    assert "Total size: 0.1 KB" in done.stdout
    assert mine.of_type("artifact_loaded")[0]["given"] == "inline"


def test_a_dry_run_reports_a_mapped_program_that_cannot_be_run(mine: Project) -> None:
    message = "no-such-program cannot be run"
    issue = {"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch", "required": True}
    mine.name_artifacts(issue)
    mine.map_fetch("/nowhere/no-such-program")
    dry = mine.faber("session-load", "--dry-run").stdout
    assert message in dry
    assert "  ✗ issue\n" in dry
    assert "    Action: FAIL (the load would exit with code 1)\n" in dry
    real = mine.faber("session-load")
    assert message in real.stdout + real.stderr
    packet = mine.deliver("SessionStart.startup.print").packet or ""
    assert "run `faber-ledger session-load --artifacts issue`" in packet


def test_an_unknown_placeholder_of_a_command_is_refused(mine: Project) -> None:
    command = "/fractary-spec:review --id={nosuch} {work_id}"
    mine.name_artifacts({"id": "issue", "type": "skill", "command": command})
    dry = mine.faber("session-load", "--dry-run").stdout
    assert "    Error: unknown placeholder: {nosuch}\n" in dry
    assert "    Action: SKIP (cannot be loaded)\n" in dry
    assert "unknown placeholder: {nosuch}" in mine.faber("session-load").stderr


def test_while_a_mapped_program_runs_others_can_record(mine: Project) -> None:
    note = f"import subprocess; subprocess.run([{str(COMMAND)!r}, 'note', 'add', 'meanwhile'], check=True)"
    mine.map_fetch(sys.executable, "-c", note)
    done = mine.faber("session-load")
    assert done.returncode == 0, done.stderr
    assert mine.types == ["run_adopted", "note_recorded", "session_started"]
    mine.assert_projected()


# What is not text, and what must not be shown


def test_json_keeps_every_warning_in_the_one_object(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    gone = {"id": "gone", "path": "gone.md"}
    project.name_artifacts(gone)
    done = project.faber("session-load", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["data"]["warnings"][0].startswith("⚠️ WARNING: Optional artifact not found\n")
    project.name_artifacts(gone, {**gone, "id": "needed", "required": True})
    done = project.faber("session-load", "--json", "--force")
    assert "Required artifact not found\n" in json.loads(done.stdout)["data"]["context"]
    assert json.loads(done.stderr)["error"]["warnings"][0].startswith("⚠️ WARNING: Optional artifact not found\n")


# Messages about commands that fail


def test_a_refused_or_failed_command_is_not_called_a_missing_path(project: Project) -> None:
    for command, what in (
        ("git push", "artifact refused: its command may not be run"),
        ("git log nope", "artifact not loaded: its command failed"),
    ):
        project.name_artifacts({"id": "c", "type": "git_info", "command": command, "required": True})
        heading = f"❌ ERROR: Required {what}\nArtifact: c\nCommand: {command}\nError: "
        report = project.faber("session-load").stderr
        assert heading in report
        assert "Path:" not in report
        assert "not found" not in report
        assert heading in (project.deliver("SessionStart.startup.print", client=command[:8]).packet or "")


def test_gits_own_files_are_not_artifacts(project: Project) -> None:
    project.write("link-to/x", "x")
    (project.root / "link").symlink_to(".git/config")
    (project.root / ".GIT").mkdir()
    for written in (".GIT/config", "sub/.git/config"):
        project.write(written, "token")
    for path in [".GIT/config", "notes/../.git/config", "link", "sub/.git/config"]:
        assert "which may hold a token" in reason(around(project.root), "markdown", path=path)
        assert "which may hold a token" in reason(around(project.root), "directory", path=".git")


def test_a_file_that_cannot_be_loaded_is_not_called_not_found(project: Project) -> None:
    project.write("big.md", "x" * 1_400_000)
    project.write("binary.md", b"a\0b")
    named = [{"id": name, "path": f"{name}.md"} for name in ("big", "binary", "missing")]
    for name, field in (("gone", "spec_path"), ("unset", "plan_path")):
        named.append({"id": name, "path_from_state": f"artifacts.{field}"})
    project.name_artifacts(*named, {"id": "outside", "path": "../../etc/hostname"})
    project.change_state(artifacts={"spec_path": "specs/gone.md"})
    packet = project.deliver("SessionStart.startup.print").packet or ""
    assert "- gone (optional): not loaded, specs/gone.md: File not found\n" in packet
    assert "unset" not in packet
    assert "- big (optional): not loaded, big.md: Artifact is larger than 1 MB: 1,400,000 bytes" in packet
    assert "- binary (optional): not loaded, binary.md: binary content\n" in packet
    assert "- outside (optional): not loaded, ../../etc/hostname: Path is outside the project" in packet
    assert "missing" not in packet
    report = project.faber("session-load").stderr
    assert report.count("Optional artifact cannot be loaded\n") == 3
    assert "Optional artifact not found\nArtifact: missing\n" in report
