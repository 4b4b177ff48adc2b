"""A URL whose password libpq would read as a host is refused by every command, and no command prints a part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project

from faber_ledger.postgres.address import shown_url

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
def test_a_url_that_can_be_read_in_two_ways_is_refused_and_not_repeated(project: Project, rest: str) -> None:
    url = f"postgresql://{rest}"
    configure(project, url)
    fleet, shown = project.faber("fleet"), project.faber("config", "show", env={"FABER_LEDGER_URL": url})
    assert (fleet.returncode, shown.returncode) == (2, 0)
    assert "is not a PostgreSQL URL that can be read in one way" in fleet.stderr
    assert "%2F" in fleet.stderr
    assert "***" in shown.stdout
    for word in ("hun", "ter2"):
        assert word not in fleet.stdout + fleet.stderr + shown.stdout + shown.stderr


def test_the_configuration_shows_which_server_commands_talk_to(project: Project) -> None:
    configure(project, "postgresql://ann@db/ledger")
    place = Path(project.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json"
    assert f"Server: postgresql://ann@db/ledger ({place})\n" in project.faber("config", "show").stdout
    variable = {"FABER_LEDGER_URL": "postgresql://ben:hunter2@other/ledger"}
    done = project.faber("config", "show", env=variable)
    assert "Server: postgresql://ben:***@other/ledger (FABER_LEDGER_URL)\n" in done.stdout
    data = json.loads(project.faber("config", "show", "--json", env=variable).stdout)["data"]
    assert (data["server"], data["server_from"]) == ("postgresql://ben:***@other/ledger", "FABER_LEDGER_URL")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann@db/ledger?sslmode=require", "postgresql://ann@db/ledger?***"),
        ("postgresql://ann:hunter2@db:5432/ledger", "postgresql://ann:***@db:5432/ledger"),
        ("postgres://ann:hun#ter2@[::1]:5432/ledger", "postgres://ann:***@[::1]:5432/ledger"),
        ("postgresql://ann@one:1,two:2/ledger", "postgresql://ann@one:1,two:2/ledger"),
        ("postgresql://ann@db/ledger?password=hunter2", "postgresql://ann@db/ledger?***"),
        ("postgresql://ann@db/ledger?pass%77ord=hunter2", "postgresql://ann@db/ledger?***"),
        ("postgresql://ann@db/ledger?pasword=hunter2", "postgresql://ann@db/ledger?***"),
        ("mysql://ann:hunter2@db/ledger", "***"),
        ("postgresql:ann:hunter2@db/ledger", "***"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown
