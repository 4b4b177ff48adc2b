"""A URL whose password libpq would read as a host is refused by every command, and no command prints a part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project

PROJECT = "01K0000000000000000000PRJ1"
AMBIGUOUS = [
    "ann:hun/ter2@127.0.0.1:1/ledger",
    "ann:hun/ter2@127.0.0.1",
    "ann:hun@ter2@127.0.0.1:1/ledger",
    "ann:hun@hun@127.0.0.1:1/ledger",
    "ann:1234/ter2@127.0.0.1/ledger",
    "ann:hun/ter2",
    "ann:ter2",
    "ann:hun?ter2=@127.0.0.1:1/hun@ledger",
    "127.0.0.1:1?password=hun@ter2",
    "127.0.0.1:1/ledger?password=hun@ter2",
    "127.0.0.1:hun,127.0.0.2:ter2/ledger",
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.write(".fractary/faber/ledger.json", json.dumps({"project": PROJECT}))
    return made


def configure(project: Project, url: str) -> None:
    place = Path(project.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"url": url}))
    place.chmod(0o600)


@pytest.mark.parametrize("rest", AMBIGUOUS)
def test_an_ambiguous_url_is_refused_and_not_repeated(project: Project, rest: str) -> None:
    url = f"postgresql://{rest}"
    configure(project, url)
    fleet = project.faber("fleet")
    assert fleet.returncode == 2
    assert "is ambiguous as a PostgreSQL URL" in fleet.stderr
    assert "%2F" in fleet.stderr
    for word in ("hun", "ter2"):
        assert word not in fleet.stdout + fleet.stderr
