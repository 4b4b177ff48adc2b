"""The built package: one folder, every file that it needs, and pinned dependencies."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
FOLDERS = [
    *("cli", "context", "files", "hooks", "ledger", "migrations", "postgres", "projections"),
    *("recording", "runs", "schemas"),
]
PLACES = {folder: folder for folder in FOLDERS} | {"skills": "plugin/skills"}  # in the package and in the repository


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", PROJECT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", PROJECT, tmp_path_factory.mktemp("wheel"))


def build(target: str, project: Path, into: Path) -> Path:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into], cwd=project, check=True)
    (archive,) = into.iterdir()
    return archive


def unpack(archive: Path, into: Path) -> Path:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(into)
        return into
    into.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", into], check=True)
    (folder,) = into.iterdir()
    return folder


def files_in(folder: Path) -> set[str]:
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return {file.as_posix() for file in found if "__pycache__" not in file.parts}


def test_the_wheel_ships_every_file_of_every_folder(wheel: Path, tmp_path: Path) -> None:
    package = unpack(wheel, tmp_path) / "faber_ledger"
    source = {f"{folder}/{file}" for folder, place in PLACES.items() for file in files_in(PROJECT / place)}
    assert files_in(package) == source | {"__init__.py", "py.typed"}


def test_the_wheel_built_from_the_sdist_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    project = unpack(sdist, tmp_path / "sdist")
    assert {folder for folder in FOLDERS if (project / folder).is_dir()} == set(FOLDERS)
    again = build("wheel", project, tmp_path / "wheel")
    assert files_in(unpack(again, tmp_path / "again")) == files_in(unpack(wheel, tmp_path / "first"))


def test_the_wheel_writes_the_slash_commands(wheel: Path, tmp_path: Path) -> None:
    package = unpack(wheel, tmp_path / "wheel")
    (tmp_path / "project" / ".fractary").mkdir(parents=True)
    program = [sys.executable, "-c", "from faber_ledger.cli.entry import main; main()", "init", "--commands"]
    environment = {**os.environ, "PYTHONPATH": str(package), "HOME": str(tmp_path)}
    subprocess.run(program, cwd=tmp_path / "project", env=environment, check=True)
    written = tmp_path / "project/.claude/commands/fractary-faber/prime-context.md"
    assert written.read_bytes().startswith((PROJECT / "plugin/skills/session-load/SKILL.md").read_bytes())


def test_the_sdist_and_an_archive_of_git_have_the_plugin(sdist: Path, tmp_path: Path) -> None:
    names = {f"plugin/{name}" for name in files_in(PROJECT / "plugin")} | {".claude-plugin/marketplace.json"}
    project = unpack(sdist, tmp_path / "sdist")
    assert names <= files_in(project)
    assert os.access(project / "plugin/bin/faber-ledger", os.X_OK)
    if (PROJECT / ".git").exists():
        listed = subprocess.run(["git", "archive", "HEAD"], cwd=PROJECT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(listed)) as archived:
            assert names <= set(archived.getnames())


def test_the_links_of_an_editable_install_name_every_folder() -> None:
    package = PROJECT / "src" / "faber_ledger"
    assert {link.name: link.resolve() for link in package.iterdir() if link.is_symlink()} == {
        folder: PROJECT / place for folder, place in PLACES.items()
    }


def test_the_lock_holds_names_and_versions_only() -> None:
    pins = [line for line in lock_lines() if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*", pin)] == []
    assert pins == sorted(pins, key=str.upper)


def test_the_lock_pins_everything_that_is_declared() -> None:
    pins = {name_of(line): line.partition("==")[2] for line in lock_lines() if not line.startswith("#")}
    unmet = [line for line in declared() if not Requirement(line).specifier.contains(pins.get(name_of(line), "0"))]
    assert unmet == []


def lock_lines() -> list[str]:
    return (PROJECT / "requirements.lock").read_text().splitlines()


def declared() -> list[str]:
    described = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = described["project"]["optional-dependencies"]
    return [
        *described["build-system"]["requires"],
        *described["project"]["dependencies"],
        *(line for extra in extras.values() for line in extra),
    ]


def name_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)
