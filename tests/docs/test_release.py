"""`make release`: what it refuses, and the files that it makes, tried in copies of this project, without network."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
GIT = ["git", "-c", "user.name=Dev", "-c", "user.email=dev@example.invalid"]
WHEEL, SDIST = "faber_ledger-9.8.7-py3-none-any.whl", "faber_ledger-9.8.7.tar.gz"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A committed copy of this project, ready for the release of 9.8.7."""
    copy = tmp_path / "project"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout.decode()
    for name in listed.rstrip("\0").split("\0"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, copy / name, follow_symlinks=False)
    change(copy, "src/faber_ledger/__init__.py", r'__version__ = ".*"', '__version__ = "9.8.7"')
    change(copy, "plugin/.claude-plugin/plugin.json", r'"version": ".*"', '"version": "9.8.7"')
    change(copy, "CHANGELOG.md", r"## \[Unreleased\]\n", "## [Unreleased]\n\n## [9.8.7] - 2026-12-24\n")
    git(copy, "init", "--quiet")
    commit(copy)
    return copy


def change(project: Path, name: str, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, (project / name).read_text(), count=1)
    assert count == 1
    (project / name).write_text(text)


def git(project: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=project, check=True, capture_output=True)


def commit(project: Path) -> None:
    git(project, "add", "--all", "--force")
    git(project, "commit", "--quiet", "--message", "Release")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages that installing and building need, packed from those installed here."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in needed_by(["faber-ledger", "hatchling"]) - {"faber-ledger"}:
        pack(distribution(name), folder)
    return folder


def needed_by(names: list[str]) -> set[str]:
    found: set[str] = set()
    while names:
        name = canonicalize_name(names.pop())
        if name not in found:
            found.add(name)
            needs = map(Requirement, distribution(name).requires or [])
            names += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


def pack(package: Distribution, into: Path) -> None:
    tag = re.search(r"^Tag: (.+)$", package.read_text("WHEEL") or "", re.MULTILINE)
    assert tag
    name = f"{canonicalize_name(package.name).replace('-', '_')}-{package.version}-{tag[1]}.whl"
    with zipfile.ZipFile(into / name, "w") as wheel:
        for file in package.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                wheel.write(str(file.locate()), file.as_posix())


def release(project: Path, wheels: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, project / "tools" / "release.py"]
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)} | env
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def refusal(project: Path, wheels: Path, **env: str) -> str:
    ended = release(project, wheels, **env)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert not (project / "dist").exists()
    return ended.stderr


REFUSED = (
    ("src/faber_ledger/__init__.py", r"9\.8\.7", "9.8.8", "is 9.8.8, and CHANGELOG.md has 9.8.7 at its top"),
    ("plugin/.claude-plugin/plugin.json", r"9\.8\.7", "9.8.6", "plugin/.claude-plugin/plugin.json has 9.8.6"),
    ("CHANGELOG.md", " - 2026-12-24", "", "CHANGELOG.md has no version with a date at its top"),
    ("CHANGELOG.md", r"## \[Unreleased\]\n", "## [Unreleased]\n\n- Something.\n", "changes under [Unreleased]"),
)


def test_no_release_is_made_of_what_does_not_fit_together(project: Path, wheels: Path) -> None:
    for name, pattern, new, said in REFUSED:
        change(project, name, pattern, new)
        commit(project)
        assert said in refusal(project, wheels)
        git(project, "reset", "--quiet", "--hard", "HEAD~1")
    (project / "cli" / "new.py").write_text("")
    assert "not committed:\n?? cli/new.py" in refusal(project, wheels)
    (project / "cli" / "new.py").unlink()
    git(project, "tag", "v9.8.6")
    assert "the version is 9.8.7, and the commit's tag is v9.8.6" in refusal(project, wheels)


@pytest.mark.long(alone=True)
def test_no_release_is_made_of_a_wheel_that_lacks_a_file(project: Path, wheels: Path) -> None:
    change(project, "pyproject.toml", r'  "src/faber_ledger/py\.typed",\n', "")
    commit(project)
    assert f"{WHEEL} lacks ['faber_ledger/py.typed'] and should not have []" in refusal(project, wheels)


@pytest.mark.long(alone=True)
def test_no_release_is_made_of_a_program_that_does_not_start(project: Path, wheels: Path) -> None:
    (project / "cli" / "app.py").write_text("raise SystemExit('broken')\n")
    commit(project)
    assert "faber-ledger --version` failed with exit code 1:\nbroken\n" in refusal(project, wheels)


@pytest.mark.long(alone=True)
def test_a_release_is_two_tried_files_that_every_build_makes_again(project: Path, wheels: Path, tmp_path: Path) -> None:
    git(project, "tag", "v9.8.7")
    made = release(project, wheels)
    assert made.returncode == 0, made.stderr
    assert [line.split()[0] for line in made.stderr.splitlines()] == ["building", "installing", "installing"]
    digests = digests_in(project / "dist")
    for line, name in zip(made.stdout.splitlines(), (SDIST, WHEEL), strict=True):
        assert re.fullmatch(rf"{digests[name]} +[\d,]+ bytes  dist/{re.escape(name)}", line)
    with zipfile.ZipFile(project / "dist" / WHEEL) as wheel:
        folders = {name.split("/")[0] for name in wheel.namelist()}
    assert folders == {"faber_ledger", "faber_ledger-9.8.7.data", "faber_ledger-9.8.7.dist-info"}
    with tarfile.open(project / "dist" / SDIST) as sdist:
        assert "faber_ledger-9.8.7/tests/docs/test_release.py" in sdist.getnames()
    # Another person builds the same commit.
    git(project, "clone", "--quiet", ".", str(tmp_path / "clone"))
    asked = ["git", "log", "-1", "--format=%ct"]
    time = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=True).stdout.strip()
    build: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "again"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": time}
    subprocess.run(build, cwd=tmp_path / "clone", env=environment, check=True, capture_output=True, umask=0o077)
    assert digests_in(tmp_path / "again") == digests


def digests_in(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
