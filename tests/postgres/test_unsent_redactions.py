"""A redaction that is only half way: not on the server yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.project import RUN, Project
from support.team_server import Team

if TYPE_CHECKING:
    import subprocess


WORD = "hunter-0001"
STILL_THERE = "the server may still have what was redacted"


def note(clone: Project) -> str:
    """Record a note with the word; return its id."""
    assert clone.faber("note", "add", f"the word is {WORD}").returncode == 0
    return str(clone.events[-1]["id"])


def redact_alone(clone: Project, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Redact where nothing names a server."""
    done = clone.faber("redact", name, "--yes", *words)
    assert done.returncode == 0, done.stderr
    return done


def test_where_no_server_is_named_the_command_that_sends_it_is(team: Team) -> None:
    first = team.clones[0]
    name = note(first)
    team.synced(first)
    done = redact_alone(first, name)
    assert f"{STILL_THERE}: no server is named" in done.stderr
    assert f"hint: run `faber-ledger sync {RUN} --push --url URL` with the URL of the team's server" in done.stderr
    assert WORD in str(team.rows())
    again = json.loads(redact_alone(first, name, "--json").stdout)["data"]
    assert again["removed_on_server"] is False
    assert STILL_THERE in again["warnings"][0]
    team.synced(first, RUN, "--push")
    assert WORD not in str(team.rows())


def test_a_run_from_the_server_is_known_to_be_there(team: Team) -> None:
    first, second, _ = team.clones
    name = note(first)
    team.synced(first)
    second.faber("run", "forget", RUN, "--yes")
    assert team.sync(second, RUN, "--fetch").returncode == 0
    assert STILL_THERE in redact_alone(second, name).stderr


def test_a_run_that_was_never_exchanged_is_on_no_server(team: Team) -> None:
    first = team.clones[0]
    name = note(first)
    assert redact_alone(first, name).stderr == ""
    team.synced(first)
    assert first.faber("run", "start", "--run-id", "alone", "--target", "x", "--yes").returncode == 0
    alone = Project(first.root, "alone")
    assert redact_alone(alone, note(alone)).stderr == ""
    assert first.faber("sync", "--fetch", env={"FABER_LEDGER_URL": team.url}).returncode == 0
    assert redact_alone(alone, note(alone)).stderr == ""
