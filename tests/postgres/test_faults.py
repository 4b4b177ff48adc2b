"""Whatever happens to the server or the network: local work goes on meanwhile, and the next sync completes all.

`test_sync_faults.py` has what happens to the client, and what needs no server of its own.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
from support.postgres import DURABLE, SETTINGS, START_SECONDS, Cluster, PostgresServer, fresh_database, started_server
from support.proxy import TO_CLIENT, TO_SERVER, proxied
from support.sizes import few, pick
from support.team_server import MANY, Team, fill, made_team, started, wait_for_batch

from faber_ledger.postgres.ask import MOST_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import URL
    from support.project import Project

MEGABYTE = 1024 * 1024
EVENTS, INSIDE = pick(500, MOST_EVENTS + 500), pick(50_000, MEGABYTE)  # a batch, or two, and bytes of the first


@contextmanager
def team_on(server: PostgresServer, folder: Path) -> Iterator[Team]:
    """Yield a team on a server of its own, which the test may break."""
    with fresh_database(Cluster(server.url())) as database:
        yield made_team(database, folder)


def url_of(team: Team) -> URL:
    """Return the URL of the team's login."""
    return team.database.admin_url.set(username=team.login.role, password=team.login.password)


def record_meanwhile(clone: Project) -> int:
    """Let a hook record a session, as while the server fails; return how many events that were."""
    before = len(clone.events)
    answer = clone.deliver("SessionStart.startup.print", client="meanwhile")
    assert (answer.code, answer.errors) == (0, "")
    assert len(clone.events) > before
    return len(clone.events) - before


def check_failed(team: Team, process: subprocess.Popen[str]) -> None:
    """Check that a sync has ended with one error, which has a way out and no password."""
    output, errors = process.communicate()
    assert process.returncode == 13, errors
    assert errors.count("error: ") == 1
    assert "nothing is lost or doubled" in errors
    for word in ("Traceback", team.login.password):
        assert word not in output + errors


def check_batches(team: Team, pushed: int) -> None:
    """Check that of the push of so many events only whole batches have arrived."""
    assert len(team.rows()) in {*range(0, pushed, MOST_EVENTS), pushed}


def check_completed(team: Team, clone: Project, total: int) -> None:
    """Check that a sync completes what was interrupted, and that nothing is lost or doubled."""
    team.synced(clone)
    assert len(team.rows()) == total == len({row["id"] for row in team.rows()})
    other = team.clones[1]
    team.synced(other)
    assert team.export(other) == team.export(clone)
    assert other.faber("verify").returncode == 0


def start_again(server: PostgresServer) -> None:
    """Start a server whose first process was killed, once the others have noticed."""
    latest = time.monotonic() + START_SECONDS
    while True:
        try:
            return server.start()
        except AssertionError:  # its memory is still in use
            if time.monotonic() > latest:
                raise


@pytest.mark.long(alone=True)
def test_a_server_that_is_killed_in_a_push_has_whole_batches(tmp_path: Path) -> None:
    with started_server(settings=DURABLE) as server, team_on(server, tmp_path) as team:
        first = team.clones[0]
        total = pushed = fill(first, MANY)
        with suppress(psycopg.OperationalError), team.database.connect(autocommit=True) as connection:
            process = started(first, team.url)
            wait_for_batch(connection)
            server.kill_postmaster()
        check_failed(team, process)
        total += record_meanwhile(first)
        assert team.sync(first).returncode == 13
        start_again(server)
        check_batches(team, pushed)
        assert 0 < len(team.rows()) < pushed
        check_completed(team, first, total)


@pytest.mark.long
@pytest.mark.parametrize("after", few([INSIDE, 100, 1, 3_000], 1))
def test_a_connection_that_is_cut_after_so_many_bytes_of_a_push(team: Team, after: int) -> None:
    first = team.clones[0]
    total = pushed = fill(first, EVENTS)
    with proxied(team.database.admin_url, TO_SERVER, after) as proxy:
        process = started(first, proxy.through(url_of(team)))
        check_failed(team, process)
        assert proxy.is_reached.wait(10)
    total += record_meanwhile(first)
    check_batches(team, pushed)
    check_completed(team, first, total)


@pytest.mark.long
@pytest.mark.parametrize("after", few([INSIDE, 100, 1, 3_000], 1))
def test_a_connection_that_is_cut_after_so_many_bytes_of_a_fetch(team: Team, after: int) -> None:
    first, second, _ = team.clones
    total = fill(first, EVENTS)
    team.synced(first)
    before = second.events
    with proxied(team.database.admin_url, TO_CLIENT, after) as proxy:
        process = started(second, proxy.through(url_of(team)))
        check_failed(team, process)
        assert proxy.is_reached.wait(10)
    assert second.events == before
    total += record_meanwhile(second)
    check_completed(team, second, total)


@pytest.mark.long(alone=True)
@pytest.mark.parametrize(("direction", "after"), [(TO_SERVER, INSIDE), (TO_CLIENT, 3_000)])
def test_a_network_that_hangs_holds_no_local_work_up(team: Team, direction: str, after: int) -> None:
    first = team.clones[0]
    total = pushed = fill(first, EVENTS)
    with proxied(team.database.admin_url, direction, after, cuts=False) as proxy:
        process = started(first, proxy.through(url_of(team)))
        assert proxy.is_reached.wait(60)
        total += record_meanwhile(first)
        assert first.faber("note", "add", "meanwhile").returncode == 0
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.splitlines()[-1]) == (130, "interrupted")
    assert team.login.password not in output + errors
    check_batches(team, pushed)
    check_completed(team, first, total + 1)


@pytest.mark.long(alone=True)
def test_a_server_that_can_write_no_more_ends_the_push(tmp_path: Path) -> None:
    """A limit of its files' length, which any user may set."""
    with started_server(settings=SETTINGS) as server:
        server.stop()
        server.run_program("pg_resetwal", "--wal-segsize=1", "-D", str(server.data))  # MB, so that it fits the limit
        server.start()
        with team_on(server, tmp_path) as team:
            first = team.clones[0]
            total = pushed = fill(first, MANY)
            server.stop()
            server.start(longest_file=3 * MEGABYTE)
            check_failed(team, started(first, team.url))
            total += record_meanwhile(first)
            check_batches(team, pushed)
            server.stop()
            server.start()
            check_completed(team, first, total)
