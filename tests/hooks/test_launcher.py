"""`faber-ledger-hook` runs hooks in every kind of installation, and without what only commands need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from support.project import Project
from support.sizes import few

ROOT = Path(__file__).parents[2]
START = "SessionStart.startup.print"
# What `site` runs in an environment that has it: it leaves a file where a hook was started with `site`.
TRACE = "import os; 'TRACE' in os.environ and open(os.environ['TRACE'], 'w').close()\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def install(wheel: Path, python: Path | str, *options: str | Path, pip: Path | str = sys.executable) -> None:
    """Install the wheel alone: hooks need nothing beside the standard library."""
    own = ["--python", python] if pip != python else []
    command = [pip, "-m", "pip", "--disable-pip-version-check", *own, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, *options, wheel], check=True, capture_output=True)


def environment(folder: Path, *, with_pip: bool = False) -> Path:
    """Make a virtual environment, which notes when `site` starts; return its folder of programs."""
    venv.create(folder, symlinks=True, with_pip=with_pip)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "trace.pth").write_text(TRACE)
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which the wheel is installed."""
    programs = environment(tmp_path_factory.mktemp("installed") / "tool")
    install(wheel, programs / "python")
    return programs.parent


@pytest.fixture
def programs(installed: Path, tmp_path: Path) -> Path:
    """The programs of a copy of it."""
    copy = tmp_path / "tool"
    shutil.copytree(installed, copy, symlinks=True)
    for name in ("faber-ledger", "faber-ledger-hook"):
        script = copy / "bin" / name
        script.write_text(script.read_text().replace(str(installed), str(copy)))
    return copy / "bin"


def run_hook(project: Project, launcher: Path) -> bool:
    """Deliver a start to the launcher, which must record it and print the packet; return whether `site` started."""
    trace = project.root.parent / "trace"
    answer = project.deliver(START, program=[launcher], env={"TRACE": str(trace)})
    assert "orchestration-protocol" in (answer.packet or ""), answer.errors
    assert "session_started" in project.types
    return trace.exists()


@pytest.mark.long
@pytest.mark.parametrize("quote", few(['"', "'", ""], 1))
def test_a_hook_starts_without_site_in_an_environment(wheel: Path, tmp_path: Path, quote: str) -> None:
    """pip and uv quote the Python of a path with spaces."""
    programs = environment(tmp_path / ("with spaces" if quote else "plain"))
    install(wheel, programs / "python")
    script = programs / "faber-ledger"
    if quote:
        script.write_text(re.sub("exec' .(/.*?/python).", rf"exec' {quote}\1{quote}", script.read_text(), count=1))
        assert f"exec' {quote}/" in script.read_text()
    assert not run_hook(Project.made(tmp_path / "project"), programs / "faber-ledger-hook")


@pytest.mark.long(alone=True)
def test_a_hook_starts_without_site_with_the_pip_of_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "fresh", with_pip=True)
    install(wheel, programs / "python", pip=programs / "python")
    assert not run_hook(Project.made(tmp_path / "project"), programs / "faber-ledger-hook")


def test_a_hook_starts_without_site_through_links_as_of_pipx_and_uv(programs: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for name in ("faber-ledger", "faber-ledger-hook"):
        (links / name).symlink_to(programs / name)
    script = programs / "faber-ledger"
    script.write_text(script.read_text().replace("\n", " -E\n", 1))  # as pipx writes it
    assert not run_hook(Project.made(tmp_path / "project"), links / "faber-ledger-hook")


def test_a_link_to_the_launcher_alone_leads_to_its_program(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "hook").symlink_to(programs / "faber-ledger-hook")
    assert not run_hook(Project.made(tmp_path / "project"), tmp_path / "hook")
    (programs / "faber-ledger").unlink()
    alone = subprocess.run([tmp_path / "hook", "session-start"], capture_output=True, check=True)  # the client goes on
    assert b"no faber-ledger beside it" in alone.stderr


@pytest.mark.long
@pytest.mark.parametrize("packages", few(["dist-packages", "site-packages"], 1))
def test_a_hook_finds_packages_of_a_user_or_debian(wheel: Path, tmp_path: Path, packages: str) -> None:
    """A user's packages, or Debian's, are elsewhere than those of the interpreter."""
    programs = environment(tmp_path / "of the system")
    prefix = tmp_path / "prefix"
    install(wheel, programs / "python", "--prefix", prefix)
    (found,) = prefix.glob("lib/python3*/site-packages")
    found.rename(found.with_name(packages))
    assert not run_hook(Project.made(tmp_path / "project"), prefix / "bin" / "faber-ledger-hook")


def test_a_hook_runs_as_the_command_where_its_packages_are_elsewhere(programs: Path, tmp_path: Path) -> None:
    """As of an editable installation."""
    (packages,) = programs.parent.glob("lib/python3*/site-packages")
    shutil.move(packages / "faber_ledger", tmp_path / "source" / "faber_ledger")
    (packages / "source.pth").write_text(f"{tmp_path / 'source'}\n")
    assert run_hook(Project.made(tmp_path / "project"), programs / "faber-ledger-hook")


def test_nothing_of_the_project_is_imported(programs: Path, tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    for name in ("faber_ledger", "json", "gc", "os"):
        project.write(f"{name}.py", "raise SystemExit('of the project')\n")
    assert not run_hook(project, programs / "faber-ledger-hook")
