"""Reading a ledger from elsewhere does no harm: a bad one is refused with a reason, and nothing is left behind."""

from __future__ import annotations

import resource
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.forging import forge
from support.project import Project
from support.sample_log import append_sample, history

from faber_ledger.ledger.errors import IntegrityError, LedgerError, NewerFormat
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, rows_of, write_union
from faber_ledger.ledger.verify import find_problems


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    append_sample(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def changed(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.executescript(statement)
    connection.close()


NO_GUARDS = "DROP TRIGGER event_is_never_updated; DROP TRIGGER event_is_never_deleted; DROP TRIGGER event_id_is_new;"
SCHEMAS = {
    "an extra trigger": "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM head; END",
    "an extra view": "CREATE VIEW v AS SELECT load_extension('/tmp/evil.so')",
    "an extra table": "CREATE TABLE t (x)",
    "a missing trigger": "DROP TRIGGER event_is_never_deleted",
    "a trigger that lets through": "DROP TRIGGER event_is_never_deleted;"
    " CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event BEGIN SELECT 1; END",
    "a view in the table's place": "ALTER TABLE head RENAME TO h; CREATE VIEW head AS SELECT * FROM h",
    "another letter case": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = lower(sql) WHERE name = 'head'",
    "a schema that is no SQL": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE head ('"
    " WHERE name = 'head'",
    "a schema that is a blob": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = CAST(sql AS BLOB)"
    " WHERE name = 'event_session'",
    "a table whose root lies elsewhere": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 9999"
    " WHERE name = 'head'",
}


@pytest.mark.parametrize("statement", SCHEMAS.values(), ids=SCHEMAS)
def test_another_schema_is_refused_for_reading_uniting_and_writing(ledger: Path, statement: str) -> None:
    changed(ledger, statement)
    before = ledger.read_bytes()
    for use in (open_untrusted, Log.open, Log.read, lambda path: write_union([path], f"{path}.out")):
        with pytest.raises(IntegrityError, match=r"schema|cannot be read"):
            use(str(ledger))
    assert [item.kind for item in find_problems(str(ledger))] == ["integrity"]
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.db"]
    assert ledger.read_bytes() == before


MISTYPED = "UPDATE event SET at = CAST(at AS BLOB) WHERE seq = (SELECT max(seq) FROM event)"
HUGE = "UPDATE event SET payload = CAST(zeroblob(20000000) AS TEXT) WHERE seq = 3"
VALUES = {
    "a text for a number": "UPDATE event SET seq = 'three' WHERE seq = 3",
    "a number below one": "UPDATE event SET seq = -1 WHERE seq = 3",
    "a blob for a text": "UPDATE event SET id = x'00ff' WHERE seq = 3",
    "an id that is no text besides": "UPDATE event SET id = CAST(x'ff' AS TEXT), version = 'one' WHERE seq = 3",
    "parents that are cut": "UPDATE event SET parents = x'00' WHERE seq = 3",
    "a hash that is short": "UPDATE event SET hash = x'00' WHERE seq = 3",
}


@pytest.mark.parametrize("statement", VALUES.values(), ids=VALUES)
def test_an_event_with_a_value_that_no_ledger_writes_is_left_out(ledger: Path, statement: str) -> None:
    guards = [row[0] for row in sqlite3.connect(ledger).execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
    changed(ledger, NO_GUARDS, statement, *guards)
    _, lines = write_union([str(ledger)], f"{ledger}.out")
    assert any([line.endswith(": a value has another type than any ledger writes") for line in lines])
    assert any(not item.is_note for item in find_problems(str(ledger)))


def test_a_huge_value_is_never_read(ledger: Path) -> None:
    guards = [row[0] for row in sqlite3.connect(ledger).execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
    changed(ledger, NO_GUARDS, HUGE, *guards)
    with pytest.raises(IntegrityError, match=r"too big|cannot be read"):
        write_union([str(ledger)], f"{ledger}.out")
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.db"]
    assert any(not item.is_note for item in find_problems(str(ledger)))


BYTES = {
    "another program's": (68, b"\0\0\0\0"),
    "WAL": (18, b"\2\2"),
    "a newer format": (60, (99).to_bytes(4, "big")),
    "a huge page count": (28, b"\xff\xff\xff\xfe"),
    "a page size of one": (16, b"\0\1"),
    "another encoding": (56, (2).to_bytes(4, "big")),
    "a schema of another kind": (44, (9).to_bytes(4, "big")),
    "a free list that leads away": (32, b"\0\0\xff\xff\0\0\xff\xff"),
}


@pytest.mark.parametrize(("at", "content"), BYTES.values(), ids=BYTES)
def test_another_header_is_refused(ledger: Path, at: int, content: bytes) -> None:
    whole = bytearray(ledger.read_bytes())
    whole[at : at + len(content)] = content
    ledger.write_bytes(whole)
    with pytest.raises((IntegrityError, NewerFormat)):
        write_union([str(ledger)], f"{ledger}.out")
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.db"]
    assert ledger.read_bytes() == whole


def test_a_journal_that_came_along_is_not_played(ledger: Path) -> None:
    journal = Path(f"{ledger}-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504) + b"\xff" * 5000)
    for suffix in ("-wal", "-shm"):
        Path(f"{ledger}{suffix}").write_bytes(b"not ours")
    before = {path.name: path.read_bytes() for path in ledger.parent.iterdir()}
    with open_untrusted(str(ledger)) as log:
        assert len(list(rows_of(log))) == len(history())
    assert {path.name: path.read_bytes() for path in ledger.parent.iterdir()} == before


BOMB = "'{\"a\":[[]' || replace(hex(zeroblob(10000000)), '00', ',[],[]') || ']}'"


@pytest.mark.parametrize("statement", [MISTYPED, HUGE, f"UPDATE event SET payload = {BOMB} WHERE seq = 2"])
def test_whatever_is_in_the_file_readers_show_the_log(tmp_path: Path, statement: str) -> None:
    project = Project.made(tmp_path / "project")
    project.deliver("SessionStart.startup.print")
    commands = (("log",), ("log", "--json"), ("replay",), ("export",))
    before = [project.faber(*command).stdout for command in commands]
    forge(project.ledger_path, statement)
    after = [project.faber(*command) for command in commands]
    assert [(done.returncode, done.stdout) for done in after] == [(0, shown) for shown in before]
    assert project.deliver("SessionEnd.other.print").code == 0
    assert project.faber("verify").returncode == 0
    project.assert_projected()


# Random bytes: whatever is in the file, either it reads or it is refused


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of several pages as the program writes it."""
    path = tmp_path_factory.mktemp("real") / "ledger.db"
    for _ in range(8):
        append_sample(path)
    return path


def use(content: bytes) -> None:
    """Read a file in every way: it may only raise LedgerError, and create no file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(content)
        try:
            with open_untrusted(str(path)) as log:
                count = len(list(Passing([log])))
            assert write_union([str(path)], f"{folder}/out.db")[0] == count
            Path(f"{folder}/out.db").unlink()
        except (LedgerError, sqlite3.DatabaseError):
            with pytest.raises(LedgerError):
                write_union([str(path)], f"{folder}/out.db")
        try:
            list(find_problems(str(path)))
        except LedgerError:
            pass
        assert [item.name for item in Path(folder).iterdir()] == ["ledger.db"]
        assert path.read_bytes() == content


changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.one_of(st.binary(min_size=1, max_size=8), st.just(bytes(4096)))),
    min_size=1,
    max_size=4,
)


@given(changes)
@settings(max_examples=60)
def test_a_file_with_changed_bytes_reads_or_is_refused(real: Path, changes: list[tuple[float, bytes]]) -> None:
    content = bytearray(real.read_bytes())
    for share, piece in changes:
        at = int(share * len(content))
        content[at : at + len(piece)] = piece[: len(content) - at]
    use(bytes(content))


def test_reading_a_forged_file_stays_within_bounds(real: Path) -> None:
    """A file of some pages claims four thousand million of them; the reader's memory stays small."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    content = real.read_bytes()
    use(content[:28] + b"\xff\xff\xff\xfe" + content[32:])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
