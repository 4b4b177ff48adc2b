"""A redaction: the one change of a stored row, for its target alone, whichever of the two arrives first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support.sample_log import RUN
from support.server_rows import FIRST, as_row, note, put, put_state, put_together, redaction_of, stored

from faber_ledger.ledger.encoding import PAYLOAD, TYPE, compute_hash
from faber_ledger.ledger.redaction import redaction_of as read_redaction
from faber_ledger.ledger.redaction import without_payload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres import Database

    from faber_ledger.ledger.encoding import Row

OTHER = "another-run"


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A member's connection, each statement its own transaction."""
    member = database.login()
    database.add_project(FIRST, member)
    with database.connect(member, autocommit=True) as opened:
        yield opened


def events(database: Database) -> dict[str, Row]:
    return {f"{row['run_id']} {row['id']}": as_row(row) for row in stored(database)}


def states(database: Database) -> dict[str, str]:
    return {row["run_id"]: row["content"] for row in stored(database, "state")}


def test_it_takes_the_payload_of_its_target_and_nothing_else(
    database: Database, connection: psycopg.Connection[Any]
) -> None:
    target, beside = note("the password is hünter-😀"), note("beside")
    put(connection, FIRST, target, beside)
    put(connection, FIRST, beside, target, run_id=OTHER)
    put_state(connection, FIRST, '{"note": "hünter"}')
    put_state(connection, FIRST, '{"note": "other"}', run_id=OTHER)
    before = stored(database)
    redaction = redaction_of(target[1])
    put(connection, FIRST, redaction)
    wanted = [
        {**row, **({"salt": None, "payload": None, "payload_hash": without_payload(target)[11]} if at == 0 else {})}
        for at, row in enumerate(before)
    ]
    found = stored(database)
    assert (found[:-1], as_row(found[-1])) == (wanted, redaction)
    assert as_row(found[0]) == without_payload(target)
    assert compute_hash(as_row(found[0])) == target[-1]
    assert states(database) == {OTHER: '{"note": "other"}'}


@pytest.mark.parametrize("is_one_statement", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_order_of_arrival_makes_no_difference(
    database: Database, connection: psycopg.Connection[Any], is_first: bool, is_one_statement: bool
) -> None:
    target = note("secret")
    redaction = redaction_of(target[1], target)
    rows = [redaction, target] if is_first else [target, redaction]
    if is_one_statement:
        put_together(connection, FIRST, rows)
    else:
        put(connection, FIRST, *rows)
    assert sorted(events(database).values()) == sorted([without_payload(target), redaction])


def test_only_a_clone_that_knows_the_redaction_brings_a_state_again(
    database: Database, connection: psycopg.Connection[Any]
) -> None:
    target = note("secret")
    redaction = redaction_of(target[1])
    put(connection, FIRST, target, redaction)
    assert not put_state(connection, FIRST, '{"note": "secret"}')
    assert states(database) == {}
    assert put_state(connection, FIRST, "{}", "2026-01-05T14:30:22Z", redaction[1])
    assert states(database) == {RUN: "{}"}


def test_a_second_redaction_and_the_first_again_change_nothing(
    database: Database, connection: psycopg.Connection[Any]
) -> None:
    target = note("secret")
    first = redaction_of(target[1])
    second = redaction_of(target[1], reason="again")
    put(connection, FIRST, target, first)
    before = events(database)
    put(connection, FIRST, second, first, target)
    assert events(database) == {**before, f"{RUN} {second[1]}": second}


TARGET = note("secret")
BAD = {
    "not JSON": "{",
    "no text": "",
    "a list": "[]",
    "a number": "1",
    "null": "null",
    "nothing": "{}",
    "deep": "[" * 100_000 + "]" * 100_000,
    "a number as its target": '{"event_id":1,"reason":null}',
    "another form of id": '{"event_id":"x","reason":null}',
    "a NUL in its target": '{"event_id":"\\u0000","reason":null}',
}
CHANGES: dict[str, dict[str, Any]] = {
    "fields": {"fields": [], "remains": {}, "supersedes": []},
    "another member": {"more": None},
    "a reason": {"reason": 1},
}


def test_what_is_no_redaction_changes_nothing(database: Database, connection: psycopg.Connection[Any]) -> None:
    forged = [redaction_of(TARGET[1], **said) for said in CHANGES.values()]
    for row in forged:
        assert read_redaction(row[1], row[TYPE], "", row[PAYLOAD]) is None
    for payload in BAD.values():
        row = redaction_of(TARGET[1])
        forged.append((*row[:PAYLOAD], payload, *row[PAYLOAD + 1 :]))
        assert read_redaction(row[1], row[TYPE], "", payload) is None or "event_id" in payload
    put(connection, FIRST, TARGET, *forged)
    assert events(database) == {f"{RUN} {row[1]}": row for row in (TARGET, *forged)}
    assert stored(database, "redaction") == []


def test_a_redaction_of_a_redaction_or_of_itself_changes_nothing(
    database: Database, connection: psycopg.Connection[Any]
) -> None:
    first = redaction_of(TARGET[1])
    other = redaction_of(first[1])
    itself = redaction_of(TARGET[1])
    own = (*itself[:PAYLOAD], str(itself[PAYLOAD]).replace(TARGET[1], itself[1]), *itself[PAYLOAD + 1 :])
    put(connection, FIRST, other, own, first)
    assert [events(database)[f"{RUN} {row[1]}"] for row in (first, other, own)] == [first, other, own]
    assert own[1] not in {row["by_event"] for row in stored(database, "redaction")}


def test_a_redaction_that_is_noted_lets_the_owner_change_nothing_else(
    database: Database, connection: psycopg.Connection[Any]
) -> None:
    target = note("secret")
    put(connection, FIRST, redaction_of(target[1]), target)
    before = stored(database)
    with pytest.raises(psycopg.errors.RestrictViolation), database.connect() as owner:
        owner.execute("UPDATE faber_ledger.event SET position = position + 1 WHERE payload IS NULL")
    again = "UPDATE faber_ledger.event SET payload_hash = NULL, payload = 'x', salt = %s WHERE payload IS NULL"
    with pytest.raises(psycopg.errors.RestrictViolation), database.connect() as owner:
        owner.execute(again, [bytes(16)])
    assert stored(database) == before


def test_an_older_snapshot_could_miss_the_other_one_and_is_refused(connection: psycopg.Connection[Any]) -> None:
    put(connection, FIRST, note("zero"))
    for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
        connection.isolation_level = level
        with pytest.raises(psycopg.errors.FeatureNotSupported), connection.transaction():
            put(connection, FIRST, note("one"))
        with pytest.raises(psycopg.errors.FeatureNotSupported), connection.transaction():
            put_state(connection, FIRST, "{}")
