"""Whatever interrupts an exchange, each batch is whole or absent, and the next sync completes what is missing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

from support.project import RUN
from support.team_server import Team, fill, started, wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path


CLIENTS = 8


def test_a_client_killed_while_it_fetches_has_all_or_nothing(team: Team) -> None:
    first, second, _ = team.clones
    fill(first, 100)
    team.sync(first)
    before = second.events
    with team.database.connect() as connection, team.database.connect(autocommit=True) as other:
        # Its query waits for this lock, so that it is killed in the middle for certain.
        connection.execute("LOCK TABLE faber_ledger.event IN ACCESS EXCLUSIVE MODE")
        process = started(second, team.url)
        while not other.execute(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'faber-ledger'"
            " AND datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone():
            assert process.poll() is None, process.communicate()
        process.kill()
        process.communicate()
    assert second.events == before
    assert team.sync(second).returncode == 0
    assert team.export(second) == team.export(first)


def test_eight_clients_that_push_at_once_lose_nothing(team: Team, tmp_path: Path) -> None:
    first = team.clones[0]
    clones = [first.clone(tmp_path / f"clone-{number}", f"machine-{number}") for number in range(CLIENTS)]
    for number, clone in enumerate(clones):
        fill(clone, 50)
        assert clone.faber("note", "add", f"of clone {number}").returncode == 0
    processes = [started(clone, team.url, "--push") for clone in clones]
    ended = [(process.communicate()[1].splitlines()[1:], process.returncode) for process in processes]
    assert ended == [([], 0)] * CLIENTS  # its first line names the project's admins
    team.synced(first)
    export = team.export(first)
    assert [export.count(f"of clone {number}".encode()) for number in range(CLIENTS)] == [1] * CLIENTS
    assert len(team.rows()) == export.count(b"\n")
    positions = [one["position"] for one in team.rows()]
    assert len({*positions}) == len(positions)
    team.synced(clones[0])
    assert team.export(clones[0]) == export


def files_with(folder: Path, word: str) -> list[str]:
    found = subprocess.run(["grep", "-rlaF", word, folder], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_a_wrong_password_is_refused_and_is_nowhere(team: Team, tmp_path: Path) -> None:
    first = team.clones[0]
    wrong = team.url.replace(team.login.password, "Wr0ng/S3cret".replace("/", "%2F"))
    before = first.ledger_path.read_bytes()
    for word in ("Wr0ng/S3cret", "Wr0ng%2FS3cret"):
        done = team.sync(first, url=wrong)
        assert (done.returncode, done.stdout) == (13, "")
        assert done.stderr.count("error: ") == 1
        assert word not in done.stderr
        assert files_with(tmp_path, word) == []
    assert first.ledger_path.read_bytes() == before
    team.synced(first)
    assert files_with(tmp_path, team.login.password) == []


def test_an_absent_or_silent_server_leaves_local_work_alone(team: Team) -> None:
    first = team.clones[0]
    before = first.ledger_path.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for where, options in ((unused, ""), (mute, "?connect_timeout=2")):
            url = f"postgresql://me:S3cret@127.0.0.1:{where.getsockname()[1]}/db{options}"
            done = team.sync(first, "--all", url=url)
            assert (done.returncode, done.stdout) == (13, ""), done.stderr
            assert done.stderr.count("error: ") == 1
            assert "Traceback" not in done.stderr
            assert "S3cret" not in done.stderr
            assert "local work goes on" in done.stderr
    assert first.ledger_path.read_bytes() == before
    assert first.faber("note", "add", "meanwhile").returncode == 0
    team.synced(first)


def test_a_read_only_server_gives_what_it_has_and_takes_nothing(team: Team) -> None:
    first, second, _ = team.clones
    assert first.faber("note", "add", "of the first").returncode == 0
    team.synced(first)
    with team.database.connect(autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{team.database.name}" SET default_transaction_read_only = on')
    assert second.faber("note", "add", "of the second").returncode == 0
    done = team.sync(second)
    assert done.returncode == 13
    assert "the server is read-only" in done.stderr
    assert done.stdout == f"{RUN}: 1 event fetched, 0 pushed\n"
    assert b"of the first" in team.export(second)
    assert team.synced(second, "--fetch")["fetched"] == 0
    with team.database.connect(autocommit=True, options="-c default_transaction_read_only=off") as connection:
        connection.execute(f'ALTER DATABASE "{team.database.name}" RESET default_transaction_read_only')
    assert team.synced(second)["pushed"] == 1


def test_an_interrupt_ends_a_watch_and_what_was_recorded_meanwhile_is_sent(team: Team) -> None:
    first = team.clones[0]
    with team.database.connect(autocommit=True) as connection:
        process = started(first, team.url, "--watch", "1")
        count = wait_for_batch(connection)
        assert first.faber("note", "add", "while it watches").returncode == 0
        wait_for_batch(connection, count)
        assert "while it watches" in str(team.rows())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.splitlines()[1:]) == (130, ["", "interrupted"])  # the first names the admins
    assert output.startswith(f"{RUN}: 0 events fetched, ")
    assert os.path.isdir(first.root)


def test_a_server_restored_from_a_backup_gets_what_it_lost(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    kept = len(team.rows())
    for number in range(2):
        assert first.faber("note", "add", f"after the backup {number}").returncode == 0
    team.synced(first)
    team.synced(second)
    with team.database.connect() as connection:
        connection.execute("ALTER TABLE faber_ledger.event DISABLE TRIGGER USER")
        newest = team.rows()[kept - 1]["position"]
        connection.execute("DELETE FROM faber_ledger.event WHERE position > %s", [newest])
        connection.execute("ALTER TABLE faber_ledger.event ENABLE TRIGGER USER")
    assert len(team.rows()) == kept
    assert second.faber("note", "add", "of the second").returncode == 0
    assert team.synced(second)["pushed"] == 3
    assert team.synced(first)["fetched"] == 1
    assert team.export(first) == team.export(second)
