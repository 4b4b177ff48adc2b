"""Who watches hears of each push, and no push waits for him, or fails, because of the server's queue."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from support.team_server import fill, made_team

from faber_ledger.postgres.ask import MOST_EVENTS
from faber_ledger.postgres.server import notification_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database


def test_only_a_pushed_run_is_notified_and_only_once(database: Database, tmp_path: Path) -> None:
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
