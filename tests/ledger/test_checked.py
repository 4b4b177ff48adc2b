"""Reading a log in batches returns what reading it event by event returns, and finds every change."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from support.forging import forge
from support.sample_log import START, append_sample, every_type
from support.worked_clones import Work, do_work, worked

from faber_ledger.ledger.checked import compute_hashes, read_verified
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import HASH, INSERT, ROW, compute_hash
from faber_ledger.projections.fold import fold
from faber_ledger.schemas.strict import read_strictly

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

READERS: list[Callable[[Log], Iterator[Recorded]]] = [read_verified, read_strictly]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    append_sample(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


@given(worked)
@settings(max_examples=20)
def test_the_events_are_those_of_the_stream_and_fold_to_the_same_text(work: Work) -> None:
    with tempfile.TemporaryDirectory() as name:
        for path in do_work(Path(name), work).paths:
            with Log.read(path) as log:
                events = list(log.stream())
                for reader in READERS:
                    assert list(reader(log)) == events
                    assert json.dumps(fold(reader(log))) == json.dumps(fold(events))


def test_every_type_is_read_strictly(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with Log.open(path) as log:
        facts: Any = [{"event": event, "client": '"\x1b\\\n\x7fü\u2028'} for event in every_type()] * 50
        log.append(facts, at=START, writer="w")
        log.commit()
    with Log.read(path) as log:
        for reader in READERS:
            assert list(reader(log)) == list(log.stream())


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("value", [1.5, "1", None, b"1"])
def test_only_integers_are_hashed_as_numbers(ledger: Path, place: int, value: object) -> None:
    row = sqlite3.connect(ledger).execute(ROW).fetchone()
    assert compute_hashes([row]) == [row[HASH]]
    assert compute_hashes([(*row[:place], value, *row[place + 1 :])]) != [row[HASH]]


@pytest.mark.parametrize("reader", [*READERS, Log.stream])
def test_a_fraction_is_not_a_version_even_if_its_hash_fits(tmp_path: Path, reader: Any) -> None:
    path = str(tmp_path / "forged.db")
    with Log.open(path) as log:
        envelope = (1, "01KE7HV3R0ZZZZZZZZZZZZZZZZ", "coffee", 1.5, "2026-01-05T15:00:00Z", "w", None, None)
        row = (*envelope, b"", bytes(16), "{}", None)
        digest = compute_hash((*row, None))
        log.connection.execute(INSERT, (*row, digest))
        log.connection.execute("INSERT INTO head VALUES (?, 1)", (digest,))
        log.commit()
    with Log.read(path) as log, pytest.raises(IntegrityError, match="has a value of another type than any ledger"):
        list(reader(log))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = replace(payload, 'frame', 'build') WHERE seq = 3",
        "UPDATE event SET salt = x'00' WHERE seq = 3",
        "UPDATE event SET version = 'one' WHERE seq = 3",
        "UPDATE event SET payload = CAST(payload AS BLOB) WHERE seq = 3",
        "UPDATE event SET parents = 7.5 WHERE seq = 3",
        "UPDATE event SET writer = x'00' WHERE seq = 3",
        "UPDATE event SET payload = NULL, salt = NULL, payload_hash = x'00' WHERE seq = 3",
    ],
)
def test_a_changed_event_ends_the_reading(ledger: Path, reader: Any, statement: str) -> None:
    forge(ledger, statement)
    with Log.read(str(ledger)) as log, pytest.raises(IntegrityError):
        list(reader(log))


def test_strict_reading_checks_the_model_and_skips_unknown_types(tmp_path: Path) -> None:
    for kind, version, is_wrong in (("artifact_loaded", 1, True), ("artifact_loaded", 9, False), ("coffee", 1, False)):
        path = str(tmp_path / f"{kind}{version}.db")
        with Log.open(path) as log:
            envelope = (1, "01KE7HV3R0ZZZZZZZZZZZZZZZZ", kind, version, "2026-01-05T15:00:00Z", "w", None, None)
            row = (*envelope, b"", bytes(16), '{"artifact_id":1}', None)
            digest = compute_hash((*row, None))
            log.connection.execute(INSERT, (*row, digest))
            log.connection.execute("INSERT INTO head VALUES (?, 1)", (digest,))
            log.commit()
        with Log.read(path) as log:
            assert len(list(read_verified(log))) == 1
            if is_wrong:
                with pytest.raises(IntegrityError, match="is not a artifact_loaded as this program writes it"):
                    list(read_strictly(log))
            else:
                assert list(read_strictly(log)) == list(log.stream())
