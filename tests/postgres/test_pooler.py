"""Clones and server with pgbouncer in transaction mode between them, whose connections are everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from support.pooler import PGBOUNCER, started_pooler
from support.team_server import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.team_server import Team

SETTINGS = ("search_path", "statement_timeout", "lock_timeout")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed: it is a package of the system"),
]


@pytest.fixture
def pooled(team: Team) -> Iterator[str]:
    """The URL of the team's login through a pool of two connections."""
    with started_pooler(team.database, team.login) as url:
        yield url


def test_clones_exchange_through_a_pooler_and_leave_no_setting(team: Team, pooled: str) -> None:
    first, second, _ = team.clones
    fill(first, 30_000)  # more batches than the driver needs to prepare a statement
    with psycopg.connect(pooled, autocommit=True) as other:
        before = [other.execute(f"SHOW {name}".encode()).fetchone() for name in SETTINGS]
    for clone in (first, second, first):
        done = team.sync(clone, url=pooled)
        assert done.returncode == 0, done.stderr
    assert team.export(second) == team.export(first)
    for _ in range(4):
        done = second.faber("fleet", env={"FABER_LEDGER_URL": pooled})
        assert done.returncode == 0, done.stderr
    with psycopg.connect(pooled, autocommit=True) as other:
        assert [other.execute(f"SHOW {name}".encode()).fetchone() for name in SETTINGS] == before
