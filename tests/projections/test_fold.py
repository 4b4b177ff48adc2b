"""The fold is total and deterministic: how the log was written, read or split never shows in the blocks."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import SESSIONS, adopted_blocks, block_text, broken_histories, histories, recorded
from support.sizes import pick

from faber_ledger.projections.fold import blocks_of, current_session, empty, entry_of, fold

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks

AT = "2026-01-05T14:30:22Z"


def written(blocks: Blocks) -> str:
    return json.dumps(blocks, ensure_ascii=False)


def folded_in_pieces(history: list[Recorded], cuts: list[int]) -> Blocks:
    """Fold piece by piece, writing the blocks to a state and reading them back in between."""
    blocks: Blocks | None = None
    edges = [0, *sorted(min(cut, len(history)) for cut in cuts), len(history)]
    for start, end in itertools.pairwise(edges):
        blocks = fold(history[start:end], blocks)
        blocks = blocks_of({"run_id": "r", **json.loads(written(blocks))})
    return empty() if blocks is None else blocks


@given(histories(), st.lists(st.integers(0, 25), max_size=4) | st.just(list(range(25))))
def test_any_split_of_any_history_folds_to_the_same_bytes(history: list[Recorded], cuts: list[int]) -> None:
    before = json.dumps(history)
    assert written(folded_in_pieces(history, cuts)) == written(fold(history))
    assert json.dumps(history) == before


@pytest.mark.long
@given(broken_histories(), st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=pick(100, 300))
def test_a_broken_history_never_stops_the_fold_and_splits_as_well(history: list[Recorded], cuts: list[int]) -> None:
    assert written(folded_in_pieces(history, cuts)) == written(fold(history))


@given(histories())
def test_total_sessions_is_the_length_of_the_history(history: list[Recorded]) -> None:
    blocks: Blocks = empty()
    for one in history:
        before = written({"sessions": blocks.get("sessions")})
        blocks = fold([one], blocks)
        if one["event"]["type"] != "run_adopted" and written({"sessions": blocks.get("sessions")}) != before:
            assert blocks["sessions"]["total_sessions"] == len(blocks["sessions"]["session_history"])


@given(histories())
def test_the_current_session_is_none_or_in_the_history_or_was_adopted(history: list[Recorded]) -> None:
    blocks = fold(history)
    adopted = {
        current_session(json.loads(one["event"]["blocks"])) for one in history if one["event"]["type"] == "run_adopted"
    }
    current = blocks.get("sessions", {}).get("current_session_id")
    assert current is None or entry_of(blocks, current) is not None or current in adopted


@given(adopted_blocks)
def test_an_adoption_alone_reproduces_the_blocks_byte_for_byte(adopted: dict[str, Any]) -> None:
    adoption = recorded(1, {"type": "run_adopted", "run_id": "r", "blocks": block_text(adopted)}, AT)
    assert block_text(fold([adoption])) == block_text(blocks_of(adopted))


@given(adopted_blocks, st.sampled_from(SESSIONS))
def test_a_reload_puts_its_session_into_the_history(adopted: dict[str, Any], session: str) -> None:
    adopted.setdefault("sessions", {})["current_session_id"] = session
    history = [
        recorded(1, {"type": "run_adopted", "run_id": "r", "blocks": block_text(adopted)}, AT),
        recorded(2, {"type": "context_reloaded", "session_id": session, "trigger": "manual", "loaded": 0}, AT),
    ]
    assert entry_of(fold(history), session) is not None


def adopted_with(total_sessions: int) -> Recorded:
    entry = {"session_id": SESSIONS[0], "started_at": AT}
    sessions = {"current_session_id": None, "total_sessions": total_sessions, "session_history": [entry]}
    return recorded(1, {"type": "run_adopted", "run_id": "r", "blocks": block_text({"sessions": sessions})}, AT)


@pytest.mark.parametrize("at", ["", None, 7, b"2026", ["2026"]])
def test_an_event_without_a_time_is_left_out(at: object) -> None:
    end = {"type": "session_ended", "session_id": SESSIONS[0], "reason": "normal", "inferred": False}
    history = [adopted_with(1), recorded(2, {**end, "phases_completed": []}, at)]
    assert written(fold(history)) == written(fold(history[:1]))


@pytest.mark.parametrize(
    "value", ["[" * 100_000 + "]" * 100_000, "[" * 300 + "]" * 300, '{"a":NaN}', '{"a":-Infinity}', '{"a":1e999}']
)
def test_adopted_blocks_that_no_state_can_hold_are_left_out(value: str) -> None:
    adoption = recorded(1, {"type": "run_adopted", "run_id": "r", "blocks": f'{{"sessions":{value}}}'}, AT)
    assert fold([adoption]) == empty()


FOLDER = Path(__file__).parents[1] / "golden"
PROGRAM = """
import json, sys
from faber_ledger.projections.fold import fold
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        print(json.dumps(fold(map(json.loads, file))))
"""


def folded_under(**environment: str) -> bytes:
    stories = sorted(str(path) for path in FOLDER.glob("*/events.jsonl"))
    command = [sys.executable, "-c", PROGRAM, *stories]
    return subprocess.run(command, env=os.environ | environment, check=True, capture_output=True).stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "4242"},
        {"LC_ALL": "C"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        {"TZ": "Pacific/Kiritimati"},
        {"TZ": "America/St_Johns"},
        {"PYTHONOPTIMIZE": "2"},
    ],
    ids=lambda environment: "-".join(environment.values()),
)
def test_hash_seed_locale_and_time_zone_do_not_matter(environment: dict[str, str]) -> None:
    plain = folded_under(PYTHONHASHSEED="0", LC_ALL="C.UTF-8", TZ="UTC")
    assert plain
    assert folded_under(**environment) == plain
