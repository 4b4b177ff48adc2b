"""Build a release from the current commit, try it as users get it, and put its files into dist/: `make release`.

Everything is built from a copy of the commit, twice, so that nothing of the work tree gets in and both builds must have
the same bytes. The sdist and the wheel are each installed into a virtual environment of their own, away from the
project, with the versions of requirements.lock, and play the demo there. dist/ gets the files only if all of it passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parent.parent
NOT_IN_SDIST = {".ci"}
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<date> - \d{4}-\d\d-\d\d)?\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
ABOUT_PYTHON = ("PYTHON", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "PIP_TARGET", "PIP_USER", "VIRTUAL_ENV")


class NotReleasable(Exception):
    """The commit is not ready for a release, or what it builds is not as it must be."""


def main() -> int:
    """Make the release and print its files, or say why there is none."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-release-") as folder:
        try:
            made = make_release(Path(os.path.realpath(folder)))
        except NotReleasable as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
    for file in made:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        sys.stdout.write(f"{digest}  {file.stat().st_size:>9,} bytes  {file.relative_to(PROJECT)}\n")
    return 0


def make_release(folder: Path) -> list[Path]:
    """Build, check and try the release's two files in a folder, and return them in dist/."""
    if changed := git("status", "--porcelain"):
        raise NotReleasable(f"the work tree has changes that are not committed:\n{changed}")
    source = copy_commit(folder / "source")
    version = version_to_release(source)
    say(f"building {version}")
    sdist, wheel = build(copy_commit(folder / "first"), folder / "built")
    check_sdist(sdist, source)
    check_wheel(wheel, source)
    again = build(copy_commit(folder / "second"), folder / "built-again")
    from_sdist = build(unpack(sdist, folder / "sdist"), folder / "built-from-sdist")
    for one, other in ((sdist, again[0]), (wheel, again[1]), (wheel, from_sdist[1])):
        if one.read_bytes() != other.read_bytes():
            raise NotReleasable(f"two builds of {one.name} differ")
    for file in (sdist, wheel):
        say(f"installing {file.name} and playing the demo")
        try_installed(file, version, source / "requirements.lock", folder / f"with-{file.suffix[1:]}")
    dist = PROJECT / "dist"
    dist.mkdir(exist_ok=True)
    return [Path(shutil.copy(file, dist)) for file in (sdist, wheel)]


def version_to_release(source: Path) -> str:
    """Return the package's version; raises NotReleasable unless CHANGELOG, the plugin and the tags agree with it."""
    found = re.search(r'^__version__ = "(.+)"$', (source / "src/faber_ledger/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise NotReleasable("src/faber_ledger/__init__.py names no version")
    version = found[1]
    headings = [*HEADING.finditer((source / "CHANGELOG.md").read_text())]
    if headings and headings[0]["version"] == "Unreleased":
        if headings[0]["text"].strip():
            raise NotReleasable("CHANGELOG.md has changes under [Unreleased]: put them under the version and its date")
        del headings[0]
    newest = headings[0]["version"] if headings and headings[0]["date"] else "no version with a date"
    if newest != version:
        raise NotReleasable(f"the version is {version}, and CHANGELOG.md has {newest} at its top")
    plugin = json.loads((source / "plugin/.claude-plugin/plugin.json").read_text())["version"]
    if plugin != version:
        raise NotReleasable(f"the version is {version}, and plugin/.claude-plugin/plugin.json has {plugin}")
    tags = git("tag", "--points-at", "HEAD", "--list", "v*").split()
    if tags and f"v{version}" not in tags:
        raise NotReleasable(f"the version is {version}, and the commit's tag is {', '.join(tags)}")
    return version


def copy_commit(folder: Path) -> Path:
    """Write the files of the current commit into a new folder, and return it."""
    folder.mkdir()
    git("archive", "--format=tar", f"--output={folder}.tar", "HEAD")
    extract(Path(f"{folder}.tar"), folder)
    return folder


def build(source: Path, into: Path) -> tuple[Path, Path]:
    """Build the sdist and the wheel of a source tree; every time in them is that of the commit."""
    environment = plain_environment() | {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    run([sys.executable, "-m", "hatchling", "build", "-d", into], source, environment)
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


def unpack(sdist: Path, into: Path) -> Path:
    """Unpack an sdist and return the one folder that it has."""
    extract(sdist, into)
    (source,) = into.iterdir()
    return source


def extract(archive: Path, into: Path) -> None:
    """Extract a tar file of our own into a folder."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and newer
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(into)


def check_sdist(sdist: Path, source: Path) -> None:
    """Raise NotReleasable unless the sdist has the commit's files and its metadata, and nothing else."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    committed = (file.relative_to(source) for file in source.rglob("*") if file.is_file() and not file.is_symlink())
    expected = {file.as_posix() for file in committed if file.parts[0] not in NOT_IN_SDIST}
    compare(sdist.name, names, expected | {"PKG-INFO"})


def check_wheel(wheel: Path, source: Path) -> None:
    """Raise NotReleasable unless the wheel has what src/faber_ledger leads to, metadata, licenses, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = source / "src"
    expected = {
        (Path(folder) / name).relative_to(package).as_posix()
        for folder, _, files in os.walk(package, followlinks=True)
        for name in files
    }
    licenses = tomllib.loads((source / "pyproject.toml").read_text())["project"]["license-files"]
    about = ["METADATA", "RECORD", "WHEEL", "entry_points.txt", *(f"licenses/{name}" for name in licenses)]
    metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    launcher = metadata.replace(".dist-info", ".data/scripts/faber-ledger-hook")
    compare(wheel.name, names, expected | {launcher} | {f"{metadata}/{name}" for name in about})


def compare(archive: str, names: set[str], expected: set[str]) -> None:
    """Raise NotReleasable if an archive lacks a file, or has one that nobody expects."""
    lacks, extra = sorted(expected - names), sorted(names - expected)
    if lacks or extra:
        raise NotReleasable(f"{archive} lacks {lacks} and should not have {extra}")


def try_installed(file: Path, version: str, lock: Path, folder: Path) -> None:
    """Install a file into a new virtual environment, ask it for its version, and play the demo."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(parents=True)
    environment = plain_environment()
    run([sys.executable, "-m", "venv", folder / "venv"], elsewhere, environment)
    # An sdist's build takes its constraint from the second variable, before pip 25.3 from the first.
    pinned = {name: str(lock) for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([folder / "venv/bin/python", *install, file], elsewhere, environment | pinned)
    environment["PATH"] = f"{folder}/venv/bin{os.pathsep}{os.environ['PATH']}"
    command = folder / "venv/bin/faber-ledger"
    said = run([command, "--version"], elsewhere, environment)
    if said.split()[-1] != version:
        raise NotReleasable(f"{file.name} says that it is `{said}`, and not {version}")
    run([command, "demo"], elsewhere, environment)


def plain_environment() -> dict[str, str]:
    """Return the environment without what would let another Python or another pip's settings in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(ABOUT_PYTHON)}


def git(*arguments: str) -> str:
    """Return what git prints in the project."""
    return run(["git", *arguments], PROJECT, dict(os.environ))


def run(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """Return what a command prints; raises NotReleasable with what it said if it fails."""
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        shown = " ".join(map(str, command))
        raise NotReleasable(f"`{shown}` failed with exit code {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout.strip()


def say(line: str) -> None:
    """Tell the user what goes on."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
