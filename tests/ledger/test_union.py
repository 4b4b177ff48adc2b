"""However clones exchange their logs, all end with the same one."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command import COMMAND, run_command
from support.forging import forge
from support.sample_log import START, append_sample, every_type
from support.sizes import pick
from support.worked_clones import Work, blocks, do_work, rows, unite, worked, write

from faber_ledger.ledger.encoding import INSERT, compute_hash, payload_hash
from faber_ledger.ledger.errors import UnionConflict
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, insert_rows, write_union
from faber_ledger.ledger.verify import find_problems, read_verified


@pytest.mark.long
@given(worked, st.permutations([0, 1, 2, 3]))
@settings(max_examples=pick(8, 30))
def test_everybody_ends_with_the_same_heads_and_the_same_blocks(work: Work, order: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        made = do_work(Path(name), work)
        had = {row for path in made.paths for row in rows(path)}
        for clone in order[1:]:
            made.pull(order[0], clone)
        for clone in order[1:]:
            made.pull(clone, order[0])
        for path in made.paths:
            assert set(rows(path)) == had
            with Log.read(path) as log, Log.read(made.paths[0]) as first:
                assert log.heads() == first.heads()
            assert blocks(path) == blocks(made.paths[0])
            with Log.read(path) as log:
                assert list(read_verified(log)) == list(log.stream())
        for clone in range(4):  # and work goes on
            made.append(clone, 0, 0)


@pytest.mark.long
@given(worked)
@settings(max_examples=pick(8, 30))
def test_an_event_comes_after_its_parents_whatever_the_clocks_say(work: Work) -> None:
    with tempfile.TemporaryDirectory() as name:
        made = do_work(Path(name), work)
        write_union(made.paths, f"{name}/united.db")
        stored = rows(f"{name}/united.db")
        place = {row[12]: number for number, row in enumerate(stored)}
        for number, row in enumerate(stored):
            parents = [row[8][at : at + 32] for at in range(0, len(row[8]), 32)]
            assert all(place[parent] < number for parent in parents)
            assert row[0] == 1 + max([stored[place[parent]][0] for parent in parents], default=0)


# What cannot be united


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    append_sample(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def forged(path: Path, copy: Path, *changes: str) -> str:
    """Copy a log and change it, past its triggers."""
    shutil.copyfile(path, copy)
    forge(copy, *changes)
    return str(copy)


def sealed(row: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    """Change a row and give it the hash that fits."""
    names = ("seq", "id", "type", "version", "at", "writer", "session_id", "client", "parents", "salt", "payload")
    values = dict(zip(names, row, strict=False)) | changes
    changed = (*values.values(), None)
    return (*changed, compute_hash(changed))


def log_of(path: Path, *stored: tuple[Any, ...]) -> str:
    """Write rows into a log unchecked."""
    with Log.open(str(path)) as log:
        insert_rows(log, stored)
        log.commit()
    return str(path)


def test_one_id_with_two_contents_is_refused_and_both_are_named(ledger: Path, tmp_path: Path) -> None:
    last = rows(str(ledger))[-1]
    said = {**json.loads(last[10]), "source": "elsewhere\x1b[31m"}
    other = log_of(tmp_path / "other.db", *rows(str(ledger))[:-1], sealed(last, payload=json.dumps(said)))
    out = tmp_path / "out.db"
    out.write_text("what was here")
    with pytest.raises(UnionConflict) as refused:
        write_union([str(ledger), other], str(out))
    assert refused.value.exit_code == 22
    assert last[1] in refused.value.message
    assert last[10] in refused.value.message
    assert "elsewhere" in refused.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "other.db", "out.db"]
    assert out.read_text() == "what was here"


def test_a_changed_payload_is_replaced_from_an_intact_copy_or_refused(ledger: Path, tmp_path: Path) -> None:
    changed = forged(ledger, tmp_path / "changed.db", "UPDATE event SET payload = '{}' WHERE seq = 3")
    out = str(tmp_path / "out.db")
    stored = rows(str(ledger))
    write_union([changed], out)
    with Log.read(changed) as log:
        passing = Passing([log])
        assert [*passing] == stored[:2]
    refused, *later = passing.refused
    assert (refused.id, refused.is_waiting, "its hash" in refused.why) == (stored[2][1], False, True)
    assert all([one.is_waiting for one in later])
    assert rows(out) == stored[:2]
    for order in itertools.permutations([changed, str(ledger), out]):
        _, (line,) = write_union(order, str(tmp_path / "both.db"))
        assert line.startswith(f"event {stored[2][1]} is left out: ")  # the changed copy alone
        assert rows(str(tmp_path / "both.db")) == stored


def test_a_payload_lost_without_a_redaction_is_restored(ledger: Path, tmp_path: Path) -> None:
    row = rows(str(ledger))[2]
    digest = payload_hash(row[9], row[10]).hex()
    redacted = forged(
        ledger,
        tmp_path / "redacted.db",
        f"UPDATE event SET payload = NULL, salt = NULL, payload_hash = x'{digest}' WHERE seq = 3",
    )
    assert unite(redacted, str(ledger)) == unite(str(ledger), redacted) == unite(str(ledger)) != unite(redacted)
    assert rows(write(tmp_path / "united.db", unite(redacted, str(ledger)))) == rows(str(ledger))


def test_a_log_that_lacks_an_early_event_unites_and_gets_it_back(ledger: Path, tmp_path: Path) -> None:
    lacking = forged(ledger, tmp_path / "lacking.db", "DELETE FROM event WHERE seq IN (1, 4)")
    out = str(tmp_path / "out.db")
    assert len(write_union([lacking], out)[1]) == len(rows(str(ledger))) - 2
    assert rows(out) == []
    assert write_union([lacking, str(ledger)], out)[1] == []
    assert rows(out) == rows(str(ledger))
    assert list(find_problems(out)) == []


# Long logs


# What two sides' sessions come to


def misshapen(ledger: Path, path: Path) -> str:
    """Append an event with the right hash, place and parents, and a payload that no reader expects."""
    last = rows(str(ledger))[-1]
    said = '{"environment":7,"phases_completed":[1]}'
    event = sealed(last, seq=last[0] + 1, id="01KE7Q3S8W000000000000000C", parents=last[12], payload=said)
    return log_of(path, *rows(str(ledger)), event)


def test_an_event_that_does_not_fit_its_type_stands_without_its_payload(ledger: Path, tmp_path: Path) -> None:
    forged, out = misshapen(ledger, tmp_path / "forged.db"), tmp_path / "out.db"
    said = "event 01KE7Q3S8W000000000000000C stays without its payload: it lacks what a session_started needs"
    for sides in ([str(ledger), forged], [forged, str(ledger)], [forged]):
        assert write_union(sides, str(out))[1] == [said]
        assert [row[10] is None for row in rows(str(out))] == [*[False] * len(rows(str(ledger))), True]
    ours = tmp_path / "ours"
    shutil.copyfile(ledger, ours)
    driver = [str(COMMAND), "merge-driver", str(tmp_path / "base"), str(ours), forged, ".fractary/runs/r/ledger.db"]
    done = run_command(driver, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (0, True)
    assert ours.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "payload", ["not json", "[]", '{"a":NaN}', '{"b":1, "a":2}', '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_an_unreadable_payload_is_dropped(tmp_path: Path, payload: str) -> None:
    """The event's hash and parents are right, so its payload would stop every command in every clone that has it."""
    path = tmp_path / "forged.db"
    with Log.open(str(path)) as log:
        log.append([{"event": every_type()[0]}], at=START, writer="w")
        ((_, parent),) = log.heads()
        envelope = (2, "01KE7Q3S8W000000000000000B", "x", 1, "2026-01-05T14:30:22Z", "w", None, None)
        row = (*envelope, parent, b"s" * 16, payload)
        log.connection.execute(INSERT, (*row, None, compute_hash((*row, None, b""))))
        log.commit()
    _, (line,) = write_union([str(path)], str(tmp_path / "out.db"))
    assert line.startswith(f"event {envelope[1]} stays without its payload: ")
    assert [row[10] is None for row in rows(str(tmp_path / "out.db"))] == [False, True]
    shown = run_command([COMMAND, "textconv", str(path)], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
