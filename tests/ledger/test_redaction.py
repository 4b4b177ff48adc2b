"""No union of logs, in any order, has a redacted payload."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.redacting import Redacting, redact, sample, secret
from support.sample_log import START, append_sample
from support.sizes import pick
from support.worked_clones import blocks, rows, unite, write

from faber_ledger.ledger.command_errors import NotFound, UsageFailed
from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import redact_all, remains
from faber_ledger.ledger.row import compute_hash
from faber_ledger.ledger.union import write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.fold import fold
from faber_ledger.recording.redact import plan_redaction
from faber_ledger.schemas.events import check_event


def wrong_with(path: str) -> list[str]:
    return [one.kind for one in find_problems(path, check_event=check_event) if not one.is_note]


clones = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("append"), clones, st.just(0), st.integers(-40_000, 40_000)),
    st.tuples(st.just("pull"), clones, clones),
    st.tuples(st.just("restore"), clones, clones),
    st.tuples(st.just("redact"), clones, st.integers(0, 20), st.booleans()),
)


def assert_no_secret(content: bytes, path: Path) -> None:
    """Check that a log's bytes have nothing that its own redactions removed, and everything else."""
    name = write(path, content)
    with Log.read(name) as log:
        gone = effective_redactions(log.connection).by_event
        for recorded in log.stream():
            if recorded["event"]["type"] == "note_recorded":
                assert (
                    (recorded["id"] in gone)
                    == recorded.get("redacted", False)
                    == (recorded["event"]["text"] == "[redacted]")
                )
    assert all([compute_hash(row) == row[12] for row in rows(name)])


@pytest.mark.long
@given(st.lists(steps, max_size=14))
@settings(max_examples=pick(10, 40), deadline=None)
def test_unions_with_redactions_do_not_depend_on_order_and_hold_nothing_redacted(
    work: list[tuple[Any, ...]],
) -> None:
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
                        if row[2] == "note_recorded" and secret(number) in (row[10] or ""):
                            everything[row[1]] = number
        one, two, three, four = made.paths
        whole = unite(*made.paths)
        assert unite(four, two, three, one) == unite(one, one, two, three, three, four) == whole
        left = write(folder / "left", unite(write(folder / "first", unite(one, two)), three))
        right = write(folder / "right", unite(two, write(folder / "last", unite(four, three))))
        assert unite(left, four) == unite(one, right) == unite(left, right) == whole
        again = write(folder / "again", whole)
        assert unite(again) == unite(again, one) == unite(two, again) == whole
        for count, content in enumerate([whole, *[Path(path).read_bytes() for path in [*made.paths, left, right]]]):
            copy = folder / f"looked-at-{count}"
            assert_no_secret(content, copy)
            with Log.read(str(copy)) as log:
                taken = {everything[target] for target in effective_redactions(log.connection).by_event}
            for number in taken:
                assert secret(number).encode() not in content
        assert blocks(again) == blocks(write(folder / "other", unite(four, three, two, one)))


def test_a_redacted_payload_fits_the_shape_of_its_type_and_has_no_free_text(tmp_path: Path) -> None:
    names = sample(tmp_path / "a.db")
    for kind, name in names.items():
        if kind in ("event_redacted", "run_adopted"):
            continue
        path = write(tmp_path / f"{kind}.db", (tmp_path / "a.db").read_bytes())
        redact(path, name)
        assert wrong_with(path) == []
        with Log.read(path) as log:
            (event,) = [one["event"] for one in log.stream() if one["id"] == name]
            fold(log.stream())
        assert "dev-machine-1" not in str(event)
        assert "myproject" not in str(event)
        assert "auth/cache.py" not in str(event)


def test_an_event_fits_its_shape_even_if_no_redaction_says_what_remains() -> None:
    kinds = set(EVENT_TYPES) - {"event_redacted"}
    assert kinds == {kind for kind, known in EVENT_TYPES.items() if known.redacted}
    for kind in sorted(kinds):
        event = {**remains(kind, []), "type": kind, "session_id": "s"}
        if kind in ("run_started", "run_adopted", "delivery_ignored", "context_reconstituted"):
            event.pop("session_id")
        assert check_event(event) == []


def test_numbers_and_words_of_a_closed_vocabulary_remain() -> None:
    payload = {"size_bytes": 7, "given": "inline", "required": True, "source": "/home/me", "run_id": "r", "also": ["a"]}
    assert redact_all(payload) == {**payload, "source": "[redacted]", "also": []}


def test_a_session_whose_start_was_redacted_keeps_its_place_times_and_end(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    recorded = append_sample(tmp_path / "a.db")
    before = fold(recorded)
    for one in recorded:
        if one["event"]["type"] in ("session_started", "session_ended"):
            redact(path, one["id"])
    with Log.read(path) as log:
        after = fold(log.stream())
    assert "dev-machine-1" not in str(after)
    for entry, old in zip(after["sessions"]["session_history"], before["sessions"]["session_history"], strict=True):
        environment = entry.pop("environment", None)
        assert environment is None or set(environment.values()) == {"[redacted]"}
        old.pop("environment", None)
        assert entry == old
    assert after["context_metadata"] == before["context_metadata"]


def test_fields_are_redacted_one_after_the_other_and_the_earlier_redaction_keeps_none(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    name = append_sample(tmp_path / "a.db")[2]["id"]
    redact(path, name, "environment.hostname")
    assert b'"hostname":"[redacted]"' in Path(path).read_bytes()
    redact(path, name, "environment.cwd")
    with Log.read(path) as log:
        (event,) = [one["event"] for one in log.stream() if one["id"] == name]
        first, second = [row for row in rows(path) if row[2] == "event_redacted"]
    environment = event["environment"]  # type: ignore[typeddict-item]  # a session's start
    assert (environment["hostname"], environment["cwd"], environment["platform"]) == ("[redacted]",) * 2 + ("linux",)
    assert (first[10], second[10] is None) == (None, False)
    assert wrong_with(path) == []


def test_clones_that_redact_apart_end_with_both_fields_redacted_and_verify_says_what_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    name = append_sample(tmp_path / "a.db")[2]["id"]
    other = write(tmp_path / "b.db", Path(path).read_bytes())
    redact(path, name, "environment.hostname")
    redact(other, name, "environment.cwd")
    both = write(tmp_path / "both.db", b"")
    write_union([path, other], both)
    with Log.read(both) as log:
        (event,) = [one["event"] for one in log.stream() if one["id"] == name]
    environment = event["environment"]  # type: ignore[typeddict-item]  # a session's start
    assert (environment["hostname"], environment["cwd"]) == ("[redacted]", "[redacted]")
    (finding,) = [one for one in find_problems(both, check_event=check_event) if not one.is_note]
    assert finding.kind == "redacted_apart"
    assert "--field environment.cwd --field environment.hostname --yes" in finding.hint
    redact(both, name, "environment.cwd", "environment.hostname")
    assert wrong_with(both) == []
    assert unite(both, path) == unite(other, both) == Path(both).read_bytes()


def test_a_payload_missing_without_a_redaction_and_one_left_despite_it_are_findings(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    name = append_sample(tmp_path / "a.db")[2]["id"]
    with Log.open(path, "OFF") as log:
        plan = plan_redaction(log, name, [], None, check_event)
        assert plan.event is not None
        log.append([{"event": plan.event}], at=START, writer="f" * 32)
        log.commit()
    (finding,) = [one for one in find_problems(path, check_event=check_event) if not one.is_note]
    assert (finding.kind, finding.event) == ("not_redacted", name)
    assert f"faber-ledger redact {name} --yes" in finding.hint
    write_union([path], path)
    assert wrong_with(path) == []
    last = max(rows(path))
    with sqlite3.connect(path) as connection:
        for table, key in (("event", "hash"), ("head", "hash")):
            with suppress(sqlite3.IntegrityError):
                connection.execute("DROP TRIGGER IF EXISTS event_is_never_deleted")
            connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (last[12],))
    from faber_ledger.ledger.file import FORMAT_1, statements

    with sqlite3.connect(path) as connection:
        connection.execute(next(text for text in statements(FORMAT_1) if "event_is_never_deleted" in text))
    assert "unexplained_redaction" in wrong_with(path)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("session_started", ["session_id"], "envelope"),
        ("session_started", ["at"], "envelope"),
        ("session_ended", ["reason"], "must keep"),
        ("run_adopted", [], "cannot be redacted as a whole"),
        ("run_adopted", ["blocks"], "cannot be redacted as a whole"),
    ],
)
def test_redacting_a_required_value_is_refused(tmp_path: Path, kind: str, fields: list[str], message: str) -> None:
    name = sample(tmp_path / "a.db")[kind]
    with Log.read(str(tmp_path / "a.db")) as log, pytest.raises(UsageFailed, match=message):
        plan_redaction(log, name, fields, None, check_event)


def test_an_unknown_field_is_reported_with_similar_ones(tmp_path: Path) -> None:
    name = sample(tmp_path / "a.db")["session_started"]
    with Log.read(str(tmp_path / "a.db")) as log, pytest.raises(NotFound, match=r"near it are: environment\.hostname"):
        plan_redaction(log, name, ["environment.host"], None, check_event)


def test_a_reason_that_has_the_redacted_text_is_refused(tmp_path: Path) -> None:
    name = sample(tmp_path / "a.db")["session_started"]
    with Log.read(str(tmp_path / "a.db")) as log, pytest.raises(UsageFailed, match="reason"):
        plan_redaction(log, name, ["environment.hostname"], "dev-machine-1 is a customer's", check_event)


def test_a_text_within_adopted_blocks_is_redacted_and_their_sessions_remain(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    name = sample(tmp_path / "a.db")["run_adopted"]
    redact(path, name, "blocks.sessions.session_history.0.started_at")
    assert b"2026-01-04T10:00:00Z" not in Path(path).read_bytes()
    with Log.read(path) as log:
        history = fold(log.stream())["sessions"]["session_history"]
    assert history[0] == {"session_id": "claude-session-20260104-xyz789", "started_at": "[redacted]"}
