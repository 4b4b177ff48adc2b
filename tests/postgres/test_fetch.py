"""What is fetched from a server comes in batches of a bounded size, however much somebody has put there."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.lying import lying
from support.project import RUN
from support.team_server import FORGED, Team

from faber_ledger.ledger.encoding import ID, PARENTS, PAYLOAD
from faber_ledger.postgres import exchange
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.exchange import PLACED, fetch_named, fetch_new, fetch_rows
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server(team: Team) -> Iterator[Server]:
    with open_server(Address(parse_url(team.url, "a test"))) as opened:
        yield opened


def test_batches_of_any_size_have_the_same_events(team: Team, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    team.synced(team.clones[0])
    monkeypatch.setattr(exchange, "MOST_EVENTS", 2)
    batches: list[int] = []
    with closing(fetch_new(server, team.project, RUN, 0, [], batches.append)) as fetched:
        ids = [name for (name,) in fetched.log.connection.execute("SELECT id FROM event ORDER BY seq, id")]
    assert ids == [one["id"] for one in team.clones[0].events]
    assert max(batches) == 2
    ask, asked = server.ask, list[int]()

    def count(*words: Any, **more: Any) -> Any:
        asked.append(len(more.get("ids", ())))
        return ask(*words, **more)

    monkeypatch.setattr(server, "ask", count)
    found = [row[ID] for batch in fetch_named(server, team.project, RUN, ids) for _, row in batch]
    assert (sorted(found), max(asked)) == (sorted(ids), 2)  # the more there are, the longer each question would take


def test_many_megabytes_of_parents_come_in_batches(team: Team, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a member pushes, no answer is larger than it is meant to be, but for one event."""
    longest, ids = 512 * 1024, [f"{FORGED[:-2]}{number:02d}" for number in range(12)]
    team.synced(team.clones[0])
    for name in ids:
        team.put(team.forged(team.clones[0], id=name, parents=bytes(range(32)) * (longest // 32)))
    most = 3 * longest
    monkeypatch.setattr(exchange, "MOST_BYTES", most)
    for batches in (fetch_rows(server, team.project, RUN), fetch_named(server, team.project, RUN, ids)):
        found = list(batches)
        assert len(found) >= 4
        assert all(sum(len(row[PARENTS]) + len(row[PAYLOAD] or "") for _, row in one) <= most for one in found)
        assert {*ids} <= {row[ID] for one in found for _, row in one}
    done = team.sync(team.clones[1])
    assert (done.returncode, done.stderr.count(" is left out: ")) == (0, 10)
    assert "and 2 more" in done.stderr


def test_endless_positions_are_followed_to_the_newest_asked_for(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    with team.database.connect() as connection:
        connection.execute("CREATE SEQUENCE faber_ledger.endless")
    columns = ["nextval('faber_ledger.endless') AS position", *[*PLACED][1:]]
    endless = f"SELECT {', '.join(columns)} FROM honest ORDER BY honest.position DESC LIMIT 1"
    with lying(team.database, endless, "events_after"):
        done = team.sync(second, "--fetch")
    assert (done.returncode, done.stdout) == (14, "")
    assert "fewer events than it has counted" in done.stderr
    team.synced(second, "--fetch")
    assert team.export(second) == team.export(first)
