"""Telling a history step by step gives exactly what whole copies before and after each event would."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import broken_histories, histories
from support.step_changes import applied

from faber_ledger.projections.blocks import text_of
from faber_ledger.projections.difference import MISSING, list_changes
from faber_ledger.projections.fold import fold
from faber_ledger.projections.steps import Steps

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change


def keyed(told: list[Change]) -> list[tuple[Any, ...]]:
    return sorted((json.dumps(path), json.dumps(before), json.dumps(after)) for path, before, after in told)


@given(st.one_of(histories(), broken_histories()), st.sets(st.integers(0, 25)))
@settings(max_examples=300)
def test_a_step_tells_what_a_whole_copy_before_and_after_would(history: list[Recorded], passed: set[int]) -> None:
    steps = Steps()
    for number, recorded in enumerate(history):
        if number in passed:
            steps.pass_over(recorded)
            continue
        before = copy.deepcopy(steps.blocks)
        told = steps.apply(recorded)
        assert keyed(told) == keyed(list_changes(before, steps.blocks))
        assert applied(before, told) == steps.blocks
    assert text_of(steps.blocks) == text_of(fold(history))


@given(st.one_of(histories(), broken_histories()), st.integers(0, 25), st.integers(0, 25))
@settings(max_examples=300)
def test_what_changed_between_two_moments_makes_the_one_state_the_other(
    history: list[Recorded], first: int, second: int
) -> None:
    before, after = fold(history[:first]), fold(history[:second])
    told = list_changes(before, after)
    assert applied(before, told) == after
    assert (told == []) == (json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True))


def test_a_state_that_says_missing_is_told_from_one_that_lacks_it() -> None:
    assert list_changes({"tool": "(missing)"}, {}) == [(("tool",), "(missing)", MISSING)]
    assert list_changes({"tool": "(missing)"}, {"tool": "(missing)"}) == []
