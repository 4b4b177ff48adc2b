"""A server that lies once is believed nothing, and its next true answer completes what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.lying import EVENTS, events_with, lying
from support.project import RUN, Project
from support.sizes import few, pair
from support.team_server import Team, fresh, made_team, start_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database

NULL_HASH = "sha256(salt || convert_to(payload, 'UTF8'))"
OF_ONE = "type = 'note_recorded'"
# What is answered of each event, or of the notes alone.
LIES = {
    "payload gone": {"payload": "NULL", "salt": "NULL", "payload_hash": f"coalesce(payload_hash, {NULL_HASH})"},
    "hash": {"hash": f"CASE WHEN {OF_ONE} THEN sha256(hash) ELSE hash END"},
    "id": {"id": f"CASE WHEN {OF_ONE} THEN '7' || substr(id, 2) ELSE id END"},
    "payload swapped": {"payload": "'{}'"},
    "payload of a note gone": {
        "payload": f"CASE WHEN {OF_ONE} THEN NULL ELSE payload END",
        "salt": f"CASE WHEN {OF_ONE} THEN NULL ELSE salt END",
        "payload_hash": f"CASE WHEN {OF_ONE} THEN {NULL_HASH} END",
    },
    "payload of a note swapped": {"payload": f"CASE WHEN {OF_ONE} THEN '{{}}' ELSE payload END"},
    "one id": {"id": "'01KE0000000000000000000009'"},
    "seq": {"seq": f"CASE WHEN {OF_ONE} THEN seq + 5 ELSE seq END"},
    "time": {"at": "'yesterday'"},
    "places": {
        **dict.fromkeys(("session_id", "client", "salt", "payload", "payload_hash"), "NULL"),
        "version": "0",
        "type": "'refused'",
        "id": "'refused-' || encode(hash, 'hex')",
        **dict.fromkeys(("at", "writer"), "''"),
    },
}


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    """A run with notes in its middle, which are on the server, and which the second clone does not have."""
    made = made_team(database, tmp_path)
    first = made.clones[0]
    for number in range(3):
        assert first.faber("note", "add", f"decided {number}").returncode == 0
        first.deliver("SessionStart.startup.print", client=f"client-{number}")
    made.synced(first)
    return made


def typed(changed: dict[str, str]) -> dict[str, str]:
    """Return these expressions as of the types that an honest answer has."""
    kinds = dict.fromkeys(("salt", "payload_hash", "hash"), "bytea") | {"seq": "bigint", "version": "integer"}
    return {name: f"({one})::{kinds.get(name, 'text')}" for name, one in changed.items()}


def events_of(team: Team, clone: Project) -> list[bytes]:
    """Return the lines of a run's log, without those of places: one that was needed once stays."""
    return [line for line in team.export(clone, RUN).splitlines() if b'"type":"refused"' not in line]


@pytest.mark.long
@pytest.mark.parametrize(("lie", "is_fresh"), few(pair(LIES, (True, False)), 2))
def test_a_lie_is_made_good_by_the_next_true_answer(team: Team, tmp_path: Path, lie: str, is_fresh: bool) -> None:
    clone = fresh(team, tmp_path / "other") if is_fresh else team.clones[1]
    with lying(team.database, events_with(**typed(LIES[lie])), *EVENTS):
        done = team.sync(clone, "--fetch", RUN)
        assert done.returncode == 0
        if lie != "places":
            assert " is left out: " in done.stderr
            assert " is left out: " in team.sync(clone, "--fetch", RUN).stderr  # it is named until it is there
    done = team.sync(clone, "--fetch", RUN)
    assert done.returncode == 0
    assert " left out" not in done.stdout + done.stderr
    assert clone.faber("verify", RUN).returncode == 0
    if not is_fresh:
        clone.assert_projected()
    assert events_of(team, clone) == events_of(team, team.clones[0])
    assert team.sync(clone, RUN).stderr == ""
    for one in (clone, team.clones[0]):
        done = team.sync(one, RUN)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{RUN}: nothing new\n", "")
    assert events_of(team, clone) == events_of(team, team.clones[0])


def test_the_next_true_answer_completes_one_that_was_too_short(team: Team) -> None:
    clone = team.clones[1]
    with lying(team.database, f"{events_with()} WHERE position <= 2", "events_after"):
        done = team.sync(clone, "--fetch", RUN)
        assert (done.returncode, "fewer events than it has counted" in done.stderr) == (14, True)
    for _ in range(2):
        assert team.sync(clone, "--fetch", RUN).returncode == 0
    assert events_of(team, clone) == events_of(team, team.clones[0])


def test_a_start_of_another_run_does_not_let_each_sync_fetch_everything(team: Team) -> None:
    clone = team.clones[1]
    team.put(start_of("somebody-else"))
    for _ in range(2):
        assert "it starts another run" in team.sync(clone, "--fetch").stderr
    with lying(team.database, events_with(seq="1/0"), "events_after"):  # asked for any, it fails
        assert team.sync(clone, "--fetch").returncode == 0


def test_a_run_with_no_true_event_comes_with_the_next_sync(team: Team, tmp_path: Path) -> None:
    clone = fresh(team, tmp_path / "other")
    with lying(team.database, events_with(hash="sha256(hash)"), *EVENTS):
        for _ in range(2):
            done = team.sync(clone, "--all")
            assert (done.returncode, f"{RUN}: event " in done.stderr) == (0, True)
    assert team.sync(clone, "--all").returncode == 0
    assert events_of(team, clone) == events_of(team, team.clones[0])


def test_a_payload_that_a_redaction_removed_is_not_asked_for_again(team: Team) -> None:
    first, second, _ = team.clones
    assert first.faber("redact", first.events[-1]["id"], "--yes").returncode == 0
    for clone in (first, second, second):
        assert (team.synced(clone)["left_out"], team.synced(clone)["left_out"]) == ([], [])
    assert team.sync(second).stdout == f"{RUN}: nothing new\n"
