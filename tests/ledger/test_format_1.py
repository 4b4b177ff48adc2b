"""A frozen ledger of format 1 is readable for ever: the same events, the same hashes, the same blocks."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from freeze_format_1 import FOLDER, insert_events
from support.sample_log import START, WRITER, drafts
from support.strict_events import check_event

from faber_ledger.ledger.encoding import HASH
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.ledger.union import rows_of
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.fold import fold

EXPECTED = [json.loads(line) for line in (FOLDER / "events.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def frozen(tmp_path: Path) -> str:
    return str(shutil.copy(FOLDER / "ledger.db", tmp_path))


def test_the_frozen_ledger_is_the_one_that_was_frozen() -> None:
    assert hashlib.sha256((FOLDER / "ledger.db").read_bytes()).hexdigest() == (FOLDER / "SHA256").read_text().strip()


def test_events_of_format_1_are_read_as_they_were_written(frozen: str) -> None:
    with Log.read(frozen) as log:
        hashes = [row[HASH].hex() for row in rows_of(log)]
        read = [{**one, "hash": digest} for one, digest in zip(log.stream(), hashes, strict=True)]
    assert read == EXPECTED
    assert [
        {**one, "hash": digest}
        for one, digest in zip(find_events(partial(Log.read, frozen), EventQuery()), hashes, strict=True)
    ] == EXPECTED


def test_events_of_format_1_fold_to_the_blocks_of_their_time(frozen: str) -> None:
    with Log.read(frozen) as log:
        blocks = fold(log.stream())
    assert json.dumps(blocks, indent=2, ensure_ascii=False) + "\n" == (FOLDER / "blocks.json").read_text("utf-8")


def test_a_ledger_of_format_1_verifies(frozen: str) -> None:
    assert list(find_problems(frozen)) == []
    assert [problem for one in EXPECTED for problem in check_event(one["event"])] == []


def test_a_ledger_of_format_1_can_be_appended_to(frozen: str) -> None:
    with Log.open(frozen) as log:
        assert len(log.heads()) == 2
        log.append(drafts(), at=START + 999, writer=WRITER)
        log.commit()
    assert list(find_problems(frozen)) == []


def test_the_same_events_get_the_same_hashes_today(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "ledger.db")) as log:
        insert_events(log)
        assert [row[HASH].hex() for row in rows_of(log)] == [one["hash"] for one in EXPECTED]
