"""A peer pushes a file that has a ledger's schema, and whose indexes, order, pages or checkpoint lie."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.clones import RUN, Clone
from support.forged_events import forged_row
from support.forging import TRIGGERS, forge

from attacks.test_changed_in_place import SAID, Team, hooks_log, mirror_of, packet_of, said_by
from faber_ledger.ledger.errors import NewerFormat
from faber_ledger.ledger.row import HASH, ID, INSERT, PAYLOAD, ROW, SEQ

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Row = tuple[Any, ...]

QUARANTINE = f"faber-ledger quarantine {RUN}"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def rows_of(ledger: Path) -> list[Row]:
    with closing(sqlite3.connect(ledger)) as connection:
        return connection.execute(f"{ROW} ORDER BY seq, id").fetchall()


def note_of(ledger: Path) -> Row:
    (row,) = [row for row in rows_of(ledger) if row[PAYLOAD] and SAID in row[PAYLOAD]]
    return row


def insert_behind(ledger: Path, indexes: tuple[str, ...], *rows: Row) -> None:
    """Insert rows, in place of others with their seq and id, of which these indexes are not told."""
    names = ", ".join([f"'{name}'" for name in indexes])
    forge(ledger, *[f"DELETE FROM event WHERE seq = {row[SEQ]} AND id = '{row[ID]}'" for row in rows])
    question = f"SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE name IN ({names})"
    with closing(sqlite3.connect(ledger)) as connection:
        schema = connection.execute(question).fetchall()
    change_schema(ledger, f"DELETE FROM sqlite_master WHERE name IN ({names})")
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for text in TRIGGERS:
            connection.execute(f"DROP TRIGGER {text.split()[2]}")
        connection.executemany(INSERT, rows)
    change_schema(ledger, "INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", *schema)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for text in TRIGGERS:
            connection.execute(text)


def change_schema(ledger: Path, statement: str, *rows: Row) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for row in rows or ((),):
            connection.execute(statement, row)
        connection.execute("PRAGMA writable_schema = RESET")


def with_an_index_that_lacks_the_note(ledger: Path) -> None:
    insert_behind(ledger, ("event_note",), note_of(ledger))


def with_indexes_that_lack_the_note(ledger: Path) -> None:
    insert_behind(ledger, ("event_note", "event_id"), note_of(ledger))


def with_two_events_of_one_id(ledger: Path) -> None:
    _append_behind(ledger, id=note_of(ledger)[ID])


def with_two_new_events_of_one_id(ledger: Path) -> None:
    first = _append_behind(ledger)
    _append_behind(ledger, id=first[ID])


def _append_behind(ledger: Path, **changes: Any) -> Row:
    row = forged_row(ledger, **changes)
    insert_behind(ledger, ("event_id",), row)
    forge(ledger, "DELETE FROM head", f"INSERT INTO head (seq, hash) VALUES ({row[SEQ]}, x'{row[HASH].hex()}')")
    return row


def with_an_event_out_of_order(ledger: Path) -> None:
    row = rows_of(ledger)[-2]
    content = bytearray(ledger.read_bytes())
    before = row[ID].encode()
    places = [at for at in range(1, len(content)) if content.startswith(before, at) and content[at - 1] == row[SEQ]]
    assert places
    for at in places:
        content[at - 1] = 2
    ledger.write_bytes(content)


def with_damaged_pages(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        asked = "SELECT rootpage FROM sqlite_master WHERE name = 'event_session'"
        (page,) = connection.execute(asked).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(ledger.read_bytes())
    for at in range((page - 1) * size, page * size, 7):
        content[at] ^= 0x55
    ledger.write_bytes(content)


LYING = (
    with_an_index_that_lacks_the_note,
    with_indexes_that_lack_the_note,
    with_two_events_of_one_id,
    with_two_new_events_of_one_id,
    with_an_event_out_of_order,
)


@pytest.mark.parametrize("lies", [*LYING, with_damaged_pages])
def test_no_event_of_a_clone_vanishes_behind_a_file_that_lies(team: Team, lies: Callable[[Path], None]) -> None:
    """A peer takes a note out of an index, gives its id away, or puts a row where no search finds it (K0, K12, K7)."""
    bob = team.bob
    team.mallory.faber("note", "add", "a later word")
    bob.faber("note", "add", "only here")
    before = bob.ids()
    lies(team.mallory.ledger)
    bob.git("checkout", "-q", "-f", "--", ".")
    team.hand_over()
    pushed = bob.ledger.read_bytes()
    said = said_by(bob)
    assert [text in said for text in (SAID, "only here", QUARANTINE)] == [True] * 3
    assert bob.ledger.read_bytes() == pushed
    assert QUARANTINE in hooks_log(bob)
    assert "bob-2" in bob.faber("log", "--json").stdout
    assert bob.ids(mirror_of(bob)) > before
    assert f"hint: run `{QUARANTINE}`, which writes the file again" in bob.faber("verify", RUN, code=20).stdout
    assert "\n" not in json.loads(bob.faber("quarantine", RUN, "--json").stdout)["data"]["fault"]
    bob.faber("quarantine", RUN, "--yes")
    assert bob.ids() > before
    assert SAID in packet_of(bob, "bob-3")
    bob.assert_sound()


@pytest.mark.parametrize("lies", LYING)
def test_a_new_clone_reads_the_events_and_not_what_an_index_says_of_them(
    team: Team, lies: Callable[[Path], None]
) -> None:
    """The same in a clone that has recorded nothing: what its table says counts (K0, K12)."""
    team.mallory.faber("note", "add", "a later word")
    lies(team.mallory.ledger)
    team.hand_over()
    team.bob.git("clone", "-q", "../shared.git", "../carol")
    carol = Clone(team.bob.root.parent / "carol")
    carol.faber("init", "--git-only")
    said = said_by(carol)
    assert said.count(SAID) >= 3  # by `log`, by `log --json` and in the packet
    assert QUARANTINE in hooks_log(carol)
    carol.faber("quarantine", RUN, "--yes")
    assert SAID in packet_of(carol, "carol-2")
    carol.assert_sound()


COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "project": (("project", RUN),),
    "seal": (("seal",),),
    "a recording": (("note", "add", "later"),),
    "a comparison": (("quarantine", RUN, "--yes"), ("project", RUN)),
}


def test_an_empty_ledger_in_a_commit_stops_no_status(team: Team) -> None:
    """A peer commits a ledger of no bytes (K6)."""
    team.mallory.ledger.write_bytes(b"")
    team.hand_over()
    team.bob.call("faber-ledger", "status")
    assert SAID in packet_of(team.bob, "bob-2")
    found = json.loads(team.bob.faber("status", "--json").stdout)["data"]["in_git"]
    assert found["committed"] == 0
    team.bob.assert_sound()


def test_what_happens_beside_a_newer_ledger_waits_and_is_recorded(team: Team) -> None:
    """A peer pushes a file that claims the format of a newer program (K7)."""
    sound = team.mallory.ledger.read_bytes()
    with closing(sqlite3.connect(team.mallory.ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    team.hand_over()
    pushed = team.bob.ledger.read_bytes()
    packet_of(team.bob, "bob-2")
    team.bob.faber("log", code=NewerFormat.exit_code)
    assert team.bob.ledger.read_bytes() == pushed
    team.mallory.ledger.write_bytes(sound)
    team.hand_over()
    assert SAID in packet_of(team.bob, "bob-3")
    assert {"bob-1", "bob-2", "bob-3"} <= team.bob.clients()
    team.bob.assert_sound()
