"""Who watches hears of each push, and no push waits for him, or fails, because of the server's queue."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import psycopg
import pytest
from support.postgres import SETTINGS, Cluster, fresh_database, started_server
from support.team_server import fill, made_team

from faber_ledger.postgres.ask import MOST_EVENTS
from faber_ledger.postgres.schema import notification_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database

SMALL_QUEUE = SETTINGS | {"max_notify_queue_pages": "64"}  # the default is 8 GB


def test_a_run_that_was_pushed_is_told_once_and_one_without_news_not_at_all(database: Database, tmp_path: Path) -> None:
    team = made_team(database, tmp_path)
    first, second, _ = team.clones
    fill(first, MOST_EVENTS)  # two batches
    with database.connect(autocommit=True) as listening:
        listening.execute("LISTEN faber_ledger")

        def heard() -> list[str]:
            with database.connect() as connection:
                connection.execute("NOTIFY faber_ledger, 'end'")
            return [one.payload for one in takewhile(lambda one: one.payload != "end", listening.notifies(timeout=60))]

        assert team.sync(first).returncode == 0
        assert heard() == [notification_of(team.project)]
        team.synced(first)
        team.synced(second, "--fetch")
        assert heard() == []
        first.change_state(current_phase="release")
        team.synced(first)  # the state alone
        assert heard() == [notification_of(team.project)]


@pytest.mark.long(alone=True)
def test_a_full_queue_stops_no_push(tmp_path: Path) -> None:
    """Anybody who may connect to any database of the server can fill it: its end is the oldest listener's."""
    with started_server(settings=SMALL_QUEUE) as server, fresh_database(Cluster(server.url())) as database:
        team = made_team(database, tmp_path)
        stranger = database.login("stranger", "")
        with database.connect(stranger) as lagging, database.connect(stranger, autocommit=True) as filling:
            lagging.execute("LISTEN z")
            lagging.commit()
            lagging.execute("SELECT 1")  # and its transaction stays open
            is_full = False
            while not is_full:
                try:
                    filling.execute("SELECT pg_notify('z', repeat('y', 7000) || n) FROM generate_series(1, 10) AS n")
                except psycopg.errors.ProgramLimitExceeded:
                    is_full = True
            assert team.synced(team.clones[0])["pushed"] == len(team.rows()) > 0
        assert team.synced(team.clones[1])["fetched"] == 0
        assert team.export(team.clones[1]) == team.export(team.clones[0])
