"""What is fetched from a server as a log is what this clone has, however much somebody put beside it."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest
from support.project import RUN
from support.team_server import Team, made_team, start_of

from faber_ledger.ledger.exchange import lines_of
from faber_ledger.ledger.log import Log
from faber_ledger.postgres import fetch
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.fetch import fetch_pieces, write_log
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.postgres import Database


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    return made_team(database, tmp_path)


@pytest.fixture
def server(team: Team) -> Iterator[Server]:
    with open_server(Address(parse_url(team.url, "a test"), "a test")) as opened:
        yield opened


def fetched(team: Team, server: Server, run_id: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger.db")
        write_log(server, team.project, run_id, path, lambda name: name == run_id)
        with Log.read(path) as log:
            return b"".join(lines_of(log))


def test_a_fetched_log_has_the_bytes_of_the_local_one(team: Team, server: Server) -> None:
    first = team.clones[0]
    assert first.faber("note", "add", "the word is hunter-0001").returncode == 0
    team.synced(first)
    assert fetched(team, server, RUN) == team.export(first)
    assert first.faber("redact", first.events[-1]["id"], "--yes").returncode == 0
    team.synced(first)
    assert fetched(team, server, RUN) == team.export(first)
    assert b"hunter" not in fetched(team, server, RUN)


def test_a_run_that_the_server_does_not_have_is_an_empty_log(team: Team, server: Server) -> None:
    team.synced(team.clones[0])
    assert fetched(team, server, "no-such-run") == b""


def test_of_several_starts_the_first_that_names_the_run_counts(team: Team, server: Server) -> None:
    first = team.clones[0]
    assert first.faber("run", "start", "--work-id", "9", "--yes").returncode == 0
    run_id = first.active_path.read_text().strip()
    team.synced(team.clones[1])  # which makes the project
    team.put(start_of("another-run", "01KE0000000000000000000003"), run_id)
    assert team.sync(first, run_id).returncode == 0
    team.put(start_of(run_id), run_id)
    assert fetched(team, server, run_id) == team.export(first, run_id)


def test_pieces_and_batches_of_any_size_have_the_same_events(
    team: Team, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.synced(team.clones[0])
    monkeypatch.setattr(fetch, "PIECE_EVENTS", 2)
    monkeypatch.setattr(fetch, "MOST_EVENTS", 2)
    ids: list[str] = []
    count = 0
    for piece in fetch_pieces(server, team.project, RUN):
        found = [name for (name,) in piece.log.connection.execute("SELECT id FROM event ORDER BY seq, id")]
        assert found[0] == team.clones[0].events[0]["id"]  # the first event is in each
        ids += [name for name in found if name not in ids]
        count += 1
        piece.close()
    assert ids == [one["id"] for one in team.clones[0].events]
    assert count > 1
