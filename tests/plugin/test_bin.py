"""`plugin/bin/faber-ledger` runs what uv or pipx has installed for this user, nothing of a project, never itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.program import make_program
from support.sizes import pair
from support.skills import PLUGIN

SCRIPT = PLUGIN / "bin" / "faber-ledger"
PLACES = {  # where a variable leads, by the variable; HOME for all that have a default
    "UV_TOOL_BIN_DIR": [""],
    "XDG_BIN_HOME": [""],
    "PIPX_BIN_DIR": [""],
    "UV_TOOL_DIR": ["faber-ledger/bin"],
    "PIPX_HOME": ["venvs/faber-ledger/bin"],
    "XDG_DATA_HOME": ["../bin", "uv/tools/faber-ledger/bin", "pipx/venvs/faber-ledger/bin"],
    "HOME": [
        ".local/bin",
        ".local/share/uv/tools/faber-ledger/bin",
        ".local/share/pipx/venvs/faber-ledger/bin",
        ".local/pipx/venvs/faber-ledger/bin",
        "Library/Application Support/pipx/venvs/faber-ledger/bin",
    ],
}
CASES = [(variable, below) for variable, places in PLACES.items() for below in places]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The current directory: a folder of a project."""
    folder = tmp_path / "a project"
    (folder / ".git").mkdir(parents=True)
    (folder / "sub").mkdir()
    return folder


def put_program(folder: Path, says: str = "found") -> Path:
    return make_program(folder / "faber-ledger", f'printf "%s" "{says}"\nprintf " <%s>" "$@"\nexit 7')


def run(
    at: Path,
    *arguments: str,
    code: int = 7,
    script: Path = SCRIPT,
    path: str = "/usr/bin:/bin",
    env: dict[str, str] | None = None,
) -> str:
    done = subprocess.run(
        [script, *arguments],
        cwd=at,
        env={"PATH": path, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == code, done.stdout + done.stderr
    if code == 127:
        assert done.stdout == ""
        assert "uv tool install CLONE" in done.stderr
        assert "pipx install CLONE" in done.stderr
        return done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(("variable", "below"), CASES)
def test_what_the_user_has_installed_is_run_with_the_same_arguments(
    project: Path, tmp_path: Path, variable: str, below: str
) -> None:
    (tmp_path / "a place" / "named").mkdir(parents=True)
    put_program(tmp_path / "a place" / "named" / below)
    said = run(project / "sub", "note", "it's $HOME; `x`", "", env={variable: str(tmp_path / "a place" / "named")})
    assert said == "found <note> <it's $HOME; `x`> <>"


@pytest.mark.parametrize(("variable", "below"), CASES)
def test_nothing_of_the_project_is_run(project: Path, variable: str, below: str) -> None:
    (project / "tools").mkdir()
    put_program(project / "tools" / below)
    said = run(project / "sub", code=127, env={variable: str(project / "tools")})
    assert said.startswith(f"error: {project}/tools/")
    assert "is not used" in said


@pytest.mark.long
@pytest.mark.parametrize(("case", "value"), pair(CASES, ["", ".", "tools", "../a project/tools", "~"]))
def test_only_absolute_values_count(project: Path, case: tuple[str, str], value: str) -> None:
    variable, below = case
    put_program(project / "tools" / below)
    assert "is not installed" in run(project, code=127, env={variable: value})


def test_the_path_is_not_searched(project: Path) -> None:
    put_program(project / "sub")
    for name in ("readlink", "grep"):  # the script's own commands are not those of PATH either
        shutil.copy(put_program(project / "sub" / "tools"), project / "sub" / name)
    for path in (".", "", f".:{project}/sub:/usr/bin:/bin"):
        assert "is not installed" in run(project / "sub", code=127, path=path, env={"HOME": str(project.parent)})
        home = project.parent / "home"
        put_program(home / ".local/bin")
        assert run(project / "sub", path=path, env={"HOME": str(home)}) == "found <>"


def test_a_link_into_the_project_is_not_followed(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "home/.local/bin"
    own.mkdir(parents=True)
    (own / "faber-ledger").symlink_to(put_program(project / "tools"))
    assert "is not used" in run(project, code=127, env={"HOME": str(tmp_path / "home")})


def test_a_path_that_leads_back_into_the_project_is_not_followed(project: Path, tmp_path: Path) -> None:
    put_program(project / "tools")
    (tmp_path / "link").symlink_to(project)
    for value in (f"{tmp_path}/link/tools", f"{tmp_path}/../{tmp_path.name}/a project/tools"):
        assert "is not used" in run(project, code=127, env={"UV_TOOL_BIN_DIR": value})


def test_nothing_below_the_current_or_the_clients_directory_is_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    put_program(plain / "tools")
    assert "is not used" in run(plain, code=127, env={"UV_TOOL_BIN_DIR": str(plain / "tools")})
    (tmp_path / "elsewhere").mkdir()
    tools = {"UV_TOOL_BIN_DIR": str(plain / "tools")}
    assert "is not used" in run(tmp_path / "elsewhere", code=127, env={"CLAUDE_PROJECT_DIR": str(plain), **tools})
    assert run(tmp_path / "elsewhere", env=tools) == "found <>"


@pytest.mark.parametrize("has_marker", [True, False])
def test_a_submodule_belongs_to_the_project_around_it(project: Path, tmp_path: Path, *, has_marker: bool) -> None:
    (project / "sub/.git").write_text("gitdir: ../.git/modules/sub\n") if has_marker else None
    put_program(project / "tools")
    (tmp_path / "elsewhere").mkdir()
    tools = {"UV_TOOL_BIN_DIR": str(project / "tools")}
    assert "is not used" in run(project / "sub", code=127, env=tools)
    started = {"CLAUDE_PROJECT_DIR": str(project / "sub")}
    assert "is not used" in run(tmp_path / "elsewhere", code=127, env=started | tools)
    shutil.rmtree(project / "tools")
    put_program(project / "sub/tools")
    assert "is not used" in run(project, code=127, env={"UV_TOOL_BIN_DIR": str(project / "sub/tools")})


def script_of_user(home: Path) -> Path:
    """Return a copy of the script that takes `home` for the user's; the script itself asks the system."""
    text = SCRIPT.read_text()
    assert text.count("\ntop_of() {\n") == 1
    copy = home.parent / "faber-ledger"
    copy.write_text(text.replace("\ntop_of() {\n", f"\nhome='{home}'\ntop_of() {{\n"))
    copy.chmod(0o755)
    return copy


@pytest.mark.parametrize("marker", [".git", ".fractary", None])
def test_a_home_in_git_keeps_the_users_programs(tmp_path: Path, marker: str | None) -> None:
    home = tmp_path / "home"
    for folder in ("plain/sub", "work/project/.git", ".local/bin", *([marker] if marker else [])):
        (home / folder).mkdir(parents=True)
    script, env = script_of_user(home), {"HOME": str(home)}
    put_program(home / ".local/bin", says="mine")
    for at in ("plain/sub", "work/project", "plain"):
        for started in ({}, {"CLAUDE_PROJECT_DIR": str(home / at)}):
            assert run(home / at, script=script, env=env | started) == "mine <>"
        inside = {"UV_TOOL_BIN_DIR": str(put_program(home / at / "tools").parent)}
        assert "is not used" in run(home / at, script=script, code=127, env=inside)
    around = {"UV_TOOL_BIN_DIR": str(home / "plain/tools")}  # git and faber-ledger take the home for its project
    for at, more in (("plain/sub", {}), ("work/project", {"CLAUDE_PROJECT_DIR": str(home / "plain/sub")})):
        if marker:
            assert "is not used" in run(home / at, script=script, code=127, env=around | more)
        else:
            assert run(home / at, script=script, env=around | more) == "found <>"
    # A client that was started in the home itself: whether the project has the program cannot be told.
    assert "is not used" in run(home, script=script, code=127, env=env)


DEAD = ["#!/nowhere/bin/python\n", "#!/bin/sh\n'''exec' \"/nowhere/a b/python\" \"$0\" \"$@\"\n' '''\n"]


@pytest.mark.parametrize("text", DEAD)
def test_an_installation_whose_python_is_gone_is_passed_over_and_named(
    project: Path, tmp_path: Path, text: str
) -> None:
    dead = put_program(tmp_path / "home/.local/bin")
    dead.write_text(text)
    env = {"HOME": str(tmp_path / "home")}
    said = run(project, code=127, env=env)
    assert said.startswith(f"error: {dead} does not run, since its Python is gone: install it again, with --force\n")
    put_program(tmp_path / "home/.local/share/pipx/venvs/faber-ledger/bin")
    assert run(project, env=env) == "found <>"


def test_the_script_never_runs_itself_or_a_copy(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "faber-ledger"
    copy.parent.mkdir()
    shutil.copy(SCRIPT, copy)
    own = tmp_path / "home/.local/bin"
    own.mkdir(parents=True)
    (own / "faber-ledger").symlink_to(SCRIPT)
    names = {"UV_TOOL_BIN_DIR": str(copy.parent), "XDG_BIN_HOME": str(SCRIPT.parent), "HOME": str(tmp_path / "home")}
    for script in (SCRIPT, copy, own / "faber-ledger"):
        path = f"{script.parent}:/usr/bin:/bin"
        assert "is not installed" in run(project, code=127, script=script, path=path, env=names)
    put_program(tmp_path / "home/.local/pipx/venvs/faber-ledger/bin")
    assert run(project, path=f"{SCRIPT.parent}:/usr/bin:/bin", env=names) == "found <>"


def test_what_cannot_be_run_is_passed_over(project: Path, tmp_path: Path) -> None:
    put_program(tmp_path / "first").chmod(0o644)
    (tmp_path / "second/faber-ledger").mkdir(parents=True)
    (tmp_path / "home/.local/bin").mkdir(parents=True)
    (tmp_path / "home/.local/bin/faber-ledger").symlink_to(tmp_path / "gone")
    put_program(tmp_path / "home/.local/pipx/venvs/faber-ledger/bin")
    names = {"UV_TOOL_BIN_DIR": str(tmp_path / "first"), "XDG_BIN_HOME": str(tmp_path / "second")}
    assert run(project, env={"HOME": str(tmp_path / "home"), **names}) == "found <>"


@pytest.mark.parametrize("shell", [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)])
def test_any_shell_reads_it(project: Path, tmp_path: Path, shell: str) -> None:
    put_program(tmp_path / "home/.local/bin")
    words = [shell, *(["sh"] if shell == "busybox" else []), *(["--posix"] if shell == "bash" else [])]
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    for name in PLACES.keys() - {"HOME"} | {"CLAUDE_PROJECT_DIR"}:
        env.pop(name, None)
    done = subprocess.run([*words, SCRIPT, "a"], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "found <a>", "")
