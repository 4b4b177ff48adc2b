"""The changes of each step are those between complete copies before and after each event."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import broken_histories, histories
from support.sizes import pick

from faber_ledger.projections.difference import MISSING, apply_event, list_changes
from faber_ledger.projections.fold import Projector, empty, fold, text_of

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change


def keyed(changes: list[Change]) -> list[tuple[Any, ...]]:
    return sorted((json.dumps(path), json.dumps(before), json.dumps(after)) for path, before, after in changes)


@pytest.mark.long
@given(st.one_of(histories(), broken_histories()), st.sets(st.integers(0, 25)))
@settings(max_examples=pick(80, 300))
def test_a_step_returns_the_changes_between_complete_copies(history: list[Recorded], passed: set[int]) -> None:
    projector = Projector(empty())
    for number, recorded in enumerate(history):
        if number in passed:
            projector.apply(recorded)
            continue
        before = copy.deepcopy(projector.blocks)
        changes = apply_event(projector, recorded)
        assert keyed(changes) == keyed(list_changes(before, projector.blocks))
    assert text_of(projector.blocks) == text_of(fold(history))


def test_a_null_in_an_adopted_list_is_no_entry_of_a_session() -> None:
    projector = Projector(empty())
    projector.apply(step(1, {"type": "run_adopted", "run_id": "r", "blocks": '{"sessions":{"total_sessions":[null]}}'}))
    assert apply_event(projector, step(2, {"type": "artifact_pinned", "session_id": "unknown"})) == []


def step(seq: int, event: Any) -> Any:
    return {"seq": seq, "id": f"01KE791W1G{seq:016}", "version": 1, "at": "2026-01-05T14:30:20Z", "event": event}


def test_a_value_missing_differs_from_no_value() -> None:
    assert list_changes({"tool": "(missing)"}, {}) == [(("tool",), "(missing)", MISSING)]
    assert list_changes({"tool": "(missing)"}, {"tool": "(missing)"}) == []
