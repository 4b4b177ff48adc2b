"""A redaction removes the whole payload of one event, and no union of logs, in any order, has it again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.redacting import Redacting, forge, lose, redact, sample, secret
from support.sample_log import START, append_sample
from support.sizes import pick
from support.worked_clones import blocks, rows, unite, write

from faber_ledger.ledger.command_errors import UsageFailed
from faber_ledger.ledger.encoding import PAYLOAD, compute_hash
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.union import write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.fold import fold
from faber_ledger.recording.redact import plan_redaction

OWN, OTHER = "a" * 32, "b" * 32  # who wrote the sample's events, and somebody else


def kinds_in(path: str) -> list[str]:
    return [one.kind for one in find_problems(path)]


def gone_in(path: str) -> set[str]:
    with Log.read(path) as log:
        return {*effective_redactions(log.connection)}


def undo(path: str, target: str, writer: str) -> None:
    event: Any = {"type": "redaction_undone", "event_id": target, "reason": None}
    with Log.open(path, "OFF") as log:
        log.append([{"event": event}], at=START + 6000, writer=writer)
        log.commit()


clones = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("append"), clones, st.just(0), st.integers(-40_000, 40_000)),
    st.tuples(st.just("pull"), clones, clones),
    st.tuples(st.just("restore"), clones, clones),
    st.tuples(st.just("redact"), clones, st.integers(0, 20)),
)


@pytest.mark.long
@given(st.lists(steps, max_size=14))
@settings(max_examples=pick(8, 40), deadline=None)
def test_unions_with_redactions_do_not_depend_on_order_and_hold_nothing_redacted(work: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Redacting(folder, [0, 5, -5, 900], [1, 2, 3, 4])
        made.begin()
        everything: dict[str, int] = {}
        for step, *arguments in work:
            getattr(made, step)(*arguments)
            for path in made.paths:
                for row in rows(path):
                    for number in range(1, made.count + 1):
                        if row[2] == "note_recorded" and secret(number) in (row[PAYLOAD] or ""):
                            everything[row[1]] = number
        one, two, three, four = made.paths
        whole = unite(*made.paths)
        assert unite(four, two, three, one) == unite(one, one, two, three, three, four) == whole
        left = write(folder / "left", unite(write(folder / "first", unite(one, two)), three))
        right = write(folder / "right", unite(two, write(folder / "last", unite(four, three))))
        assert unite(left, four) == unite(one, right) == unite(left, right) == whole
        again = write(folder / "again", whole)
        assert unite(again) == unite(again, one) == unite(two, again) == whole
        for path in [again, *made.paths, left, right]:
            assert all([compute_hash(row) == row[12] for row in rows(path)])
            for target in gone_in(path):
                assert secret(everything[target]).encode() not in Path(path).read_bytes()
        assert blocks(again) == blocks(write(folder / "other", unite(four, three, two, one)))


def test_nothing_of_a_redacted_payload_stays_and_the_fold_works(tmp_path: Path) -> None:
    names = sample(tmp_path / "a.db")
    for kind, name in names.items():
        path = write(tmp_path / f"{kind}.db", (tmp_path / "a.db").read_bytes())
        (before,) = [row[PAYLOAD] for row in rows(path) if row[1] == name]
        redact(path, name)
        assert kinds_in(path) == []
        assert before == "{}" or before.encode() not in Path(path).read_bytes()
        with Log.read(path) as log:
            (event,) = [one for one in log.stream() if one["id"] == name]
            fold(log.stream())
        assert event["redacted"] is True


def test_a_session_whose_start_was_redacted_keeps_its_place_and_times(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    recorded = append_sample(tmp_path / "a.db")
    before = fold(recorded)
    for one in recorded:
        if one["event"]["type"] == "session_started":
            redact(path, one["id"])
    with Log.read(path) as log:
        after = fold(log.stream())
    assert "dev-machine-1" not in str(after)
    for entry, old in zip(after["sessions"]["session_history"], before["sessions"]["session_history"], strict=True):
        assert {name: entry[name] for name in ("session_id", "started_at")} == {
            name: old[name] for name in ("session_id", "started_at")
        }


@pytest.mark.parametrize(
    ("said", "is_gone"),
    [
        ("r:own", True),
        ("r:other u:own", False),
        ("r:other u:other", False),
        ("r:own u:other", True),
        ("r:own u:own", False),
        ("r:own u:own r:other", True),
        ("r:other u:own r:other", True),
    ],
)
def test_a_writers_own_redaction_is_undone_by_it_alone(tmp_path: Path, said: str, is_gone: bool) -> None:
    path = str(tmp_path / "a.db")
    name = sample(tmp_path / "a.db")["note_recorded"]
    for act, who in [one.split(":") for one in said.split()]:
        writer = {"own": OWN, "other": OTHER}[who]
        if act == "r":
            forge(path, name, writer=writer)
        else:
            undo(path, name, writer)
    assert gone_in(path) == ({name} if is_gone else set())


@pytest.mark.parametrize(
    "said", [{"fields": ["text"], "remains": {}}, {"event_id": 7}, {"reason": 7}, {"supersedes": []}]
)
def test_a_redaction_in_another_form_has_no_effect_and_is_a_note(tmp_path: Path, said: dict[str, Any]) -> None:
    path = str(tmp_path / "a.db")
    name = sample(tmp_path / "a.db")["note_recorded"]
    forge(path, name, **said)
    assert gone_in(path) == set()
    found = list(find_problems(path))
    assert found
    assert all([one.is_note for one in found])


def test_a_payload_that_is_there_despite_a_redaction_is_a_finding(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    name = sample(tmp_path / "a.db")["note_recorded"]
    forge(path, name)
    (finding,) = [one for one in find_problems(path) if not one.is_note]
    assert (finding.kind, finding.event) == ("not_redacted", name)
    assert f"faber-ledger redact {name} --yes" in finding.hint
    write_union([path], path)
    assert kinds_in(path) == []
    lose(path, sample(tmp_path / "b.db")["session_started"], next(row[1] for row in rows(path) if row[0] == 2))
    assert kinds_in(path) == ["payload_gone"]


def test_a_reason_that_has_the_redacted_text_is_refused(tmp_path: Path) -> None:
    name = sample(tmp_path / "a.db")["session_started"]
    with Log.read(str(tmp_path / "a.db")) as log, pytest.raises(UsageFailed, match="reason"):
        plan_redaction(log, name, "Dev-machine-1 is a customer's", "w" * 32)
