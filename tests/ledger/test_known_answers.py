"""Known answers: what these functions return may never change, since every hash ever written depends on it."""

from __future__ import annotations

import pytest
from ulid import ULID

from faber_ledger.ledger.clock import event_id, run_id, session_id
from faber_ledger.ledger.encoding import canonical, clean, hash_with, payload_hash

MOMENT = 1767623422.123


def test_canonical_json_is_sorted_unspaced_and_not_escaped() -> None:
    value = {"b": [1, None, True, False], "a": {"ü": 'é\n"\\/', "Z": "\u2028😀", "10": -5}, "": {}}
    assert canonical(value) == ('{"":{},"a":{"10":-5,"Z":"\u2028😀","ü":"é\\n\\"\\\\/"},"b":[1,null,true,false]}')


def test_values_that_json_lacks_are_refused() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical(value)


def test_floats_surrogates_and_other_keys_are_replaced_before_hashing() -> None:
    value = {"x\ud800": [1.5, "a\udfffb", ("c",)], 7: {"deep": float("nan")}, "fine": True}
    assert clean(value) == {"x\ufffd": ["1.5", "a\ufffdb", ["c"]], "7": {"deep": "nan"}, "fine": True}


def test_a_payloads_hash_covers_salt_and_text() -> None:
    assert (
        payload_hash(b"\0" * 16, '{"ü":1}').hex() == "f98a933fdfb3a0ebdf41546e71ba1c76be0ea209546f4864ebdb81744dc291e7"
    )
    assert payload_hash(b"\1" * 16, '{"ü":1}') != payload_hash(b"\0" * 16, '{"ü":1}')


def test_an_events_hash_covers_its_envelope_its_parents_and_its_payload() -> None:
    assert hashed().hex() == "ace8a5afbaf3e2ec00522e3ebcaa83a7a54718b1581c1db1cc1a0a205207f5c5"
    assert len({hashed(), *[hashed(**{name: value}) for name, value in CHANGES]}) == 1 + len(CHANGES)


CHANGES: list[tuple[str, object]] = [
    ("seq", 3),
    ("id", "01KE7HV3R0AAAAAAAAAAAAAAAB"),
    ("type", "run_adopted"),
    ("version", 2),
    ("at", "2026-01-05T14:30:23Z"),
    ("writer", "0123456789abcdee"),
    ("session_id", ""),
    ("client", ""),
    ("parents", b""),
    ("parents", b"\1" * 32 + b"\2" * 32),
    ("payload_hash", b"\3" * 32),
]


def hashed(**changes: object) -> bytes:
    known: dict[str, object] = {
        "seq": 2,
        "id": "01KE7HV3R0AAAAAAAAAAAAAAAA",
        "type": "run_started",
        "version": 1,
        "at": "2026-01-05T14:30:22Z",
        "writer": "0123456789abcdef",
        "session_id": None,
        "client": None,
        "parents": b"\1" * 32,
        "payload_hash": b"\2" * 32,
    }
    *envelope, digest = (known | changes).values()
    return hash_with(tuple(envelope), digest)  # type: ignore[arg-type]  # one value of each type


def test_an_events_id_is_a_ulid_of_its_millisecond() -> None:
    assert event_id(MOMENT, bytes(range(10))) == "01KE791W5B000G40R40M30E209"
    parsed = ULID.from_str(event_id(MOMENT, bytes(range(10))))
    assert (parsed.milliseconds, parsed.bytes[6:]) == (1767623422123, bytes(range(10)))
    assert event_id(0, bytes(10)) == "0" * 26
    assert event_id(2**48 / 1000 - 0.001, b"\xff" * 10) == "7" + "Z" * 25


def test_ids_of_later_moments_sort_after_earlier_ones() -> None:
    ids = [event_id(MOMENT + step / 100, b"\xff" * 10 if step % 2 else bytes(10)) for step in range(100)]
    assert ids == sorted(ids)


def test_session_and_run_ids_tell_time_in_utc() -> None:
    assert session_id(MOMENT, b"\x00\x01\x19\x1a\x23\x24") == "claude-session-20260105-143022-abz09a"
    assert run_id("myproject", "258", MOMENT, b"\x00\x01\x19\x1a\x23\x24") == "myproject-258-20260105-143022-abz09a"
