"""How events are appended, and what is refused before anything is written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.forged_events import forged_row
from support.sample_log import START, WRITER, append_sample, drafts, every_type

from faber_ledger.ledger import file
from faber_ledger.ledger.encoding import HASH, INSERT, SEQ
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked
from faber_ledger.ledger.file import MAX_PAYLOAD_BYTES
from faber_ledger.ledger.log import MOST_PARENTS, Log
from faber_ledger.ledger.union import write_union
from faber_ledger.ledger.verify import find_problems


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    append_sample(path)
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    with Log.read(str(path)) as log:
        return log.connection.execute("SELECT * FROM event ORDER BY seq, id").fetchall()


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize(
    "statement", ["UPDATE event SET writer = 'x'", "UPDATE event SET seq = 9", "DELETE FROM event"]
)
def test_no_event_is_updated_or_deleted(ledger: Path, statement: str) -> None:
    before = rows(ledger)
    with pytest.raises(sqlite3.IntegrityError, match="an event is never"):
        raw(ledger).execute(statement)
    assert rows(ledger) == before


@pytest.mark.parametrize("seq", [1, 2, 999])
@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"])
def test_no_insert_replaces_an_event_with_a_known_id(ledger: Path, verb: str, seq: int) -> None:
    before = rows(ledger)
    forged = (seq, *before[0][1:5], "forger", *before[0][6:])
    with pytest.raises(sqlite3.IntegrityError, match="an event with this id is known"):
        raw(ledger).execute(f"{verb} INTO event VALUES ({','.join('?' * 13)})", forged)
    assert rows(ledger) == before


def test_a_log_that_is_being_written_is_locked_and_not_damaged(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file.connect, "__defaults__", (file.DURABLE, 0.0))  # else each waits for five seconds
    other = raw(ledger)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Locked):
        Log.read(str(ledger))
    with pytest.raises(Locked):
        Log.open(str(ledger), busy_seconds=0.0)
    with pytest.raises(Locked):
        list(find_problems(str(ledger)))
    other.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM head", "table of heads"),
        ("UPDATE head SET seq = 9223372036854775807", "table of heads"),
        ("INSERT INTO head SELECT zeroblob(32), 1", "table of heads"),
        ("UPDATE alembic_version SET version_num = '9999'", "another revision"),
    ],
)
def test_an_inconsistent_ledger_is_neither_read_nor_written(ledger: Path, statement: str, message: str) -> None:
    """An append would start a second history; each fault is seen in constant time, however long the log is."""
    with closing(raw(ledger)) as connection:
        connection.execute(statement)
    before = ledger.read_bytes()
    for use in (Log.open, Log.read):
        with pytest.raises(IntegrityError, match=message) as refused:
            use(str(ledger))
        assert "faber-ledger verify" in refused.value.hint
    assert ledger.read_bytes() == before
    assert any(not item.is_note for item in find_problems(str(ledger)))
    write_union([str(ledger)], str(ledger))
    assert append_sample(ledger)


def test_a_union_repairs_a_file_with_bytes_after_its_end(ledger: Path) -> None:
    os.truncate(ledger, 20 * 1024**3)  # sparse: it needs no space, but reading all of it would be slow
    for use in (Log.open, Log.read):
        with pytest.raises(IntegrityError, match="after its last page"):
            use(str(ledger))
    assert [item.kind for item in find_problems(str(ledger))] == ["surplus"]
    write_union([str(ledger)], str(ledger))
    assert ledger.stat().st_size < 1024**2
    assert append_sample(ledger)


def test_no_event_is_larger_than_readers_accept(ledger: Path) -> None:
    note: Any = {**every_type()[4], "error": "x" * MAX_PAYLOAD_BYTES}
    with Log.open(str(ledger)) as log, pytest.raises(LedgerError, match="larger than 8 MB"):
        log.append([{"event": note}], at=START, writer=WRITER)


def test_an_event_after_many_heads_names_the_newest_and_the_rest_stay_heads(ledger: Path) -> None:
    count = MOST_PARENTS + 3
    forged = [forged_row(ledger, id=f"01KE00000000000000001{number:05}") for number in range(count)]
    with Log.open(str(ledger)) as log:
        log.connection.executemany(INSERT, forged)
        log.set_heads([(row[SEQ], row[HASH]) for row in forged])
        log.append(drafts()[-1:], at=START, writer=WRITER)
        log.commit()
        assert len(log.heads()) == count - MOST_PARENTS + 1
        (parents,) = log.connection.execute("SELECT parents FROM event ORDER BY seq DESC").fetchone()
        assert len(parents) == 32 * MOST_PARENTS
    assert list(find_problems(str(ledger))) == []
