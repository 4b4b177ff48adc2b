from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber_ledger.context import selection
from faber_ledger.context.selection import MAX_DEPTH, MAX_QUOTED, ConditionError, evaluate
from faber_ledger.files.text import one_line

STATE: dict[str, Any] = {
    "work_id": "258",
    "status": "in_progress",
    "current_phase": "build",
    "artifacts": {"spec_path": "specs/a.md", "pr_number": None, "commits": []},
    "phases": [{"name": "frame", "done": True}],
    "retries": {"build": 0, "evaluate": 2},
    "huge": 10**400,
    "nan": float("nan"),
    "empty": "",
    "errors": [],
}


@pytest.mark.parametrize(
    "condition",
    [
        "state.artifacts.spec_path != null",
        'state.current_phase === "build"',
        "state.work_id != null && state.status === 'in_progress'",
        "artifacts.spec_path != null",
        "state.artifacts.missing == null",
        "state.artifacts.missing.deeper.still == null",
        "!state.worktree || state.worktree.created_by !== 'fractary-faber'",
        "state.phases[0].done === true",
        "state.phases[7] == null",
        "state.work_id != 258",
        "state.retries.evaluate == 2.0",
        "state.retries.build == -0",
        "state.retries.build != false",
        "state.empty != 0",
        "state.artifacts.commits",
        "state.artifacts.commits != state.errors",
        "!state.empty",
        "!state.nan && state.nan != state.nan",
        "null == undefined",
        "(state.missing || 'x') == 'x'",
        "true || false && false",
        "!(true && false)",
        "'a && b' == \"a && b\"",
        "state",
        "state.retries.evaluate > 1 && state.retries.evaluate >= 2",
        "state.retries.build < 1 && state.retries.build <= 0",
        "1 < 2 == true",
        "state.current_phase < 'release'",
        "state.empty <= ''",
    ],
)
def test_a_condition_holds(condition: str) -> None:
    assert evaluate(condition, STATE) is True
    assert evaluate(f"!({condition})", STATE) is False


@pytest.mark.parametrize(
    "condition",
    [
        *("", "   ", "a = b", "a <> 2", "a b", "a &&", "(a", "()", "a.b()", "a; b", "'open", "'\\''"),
        *("a.", "`x`", "a === === b", "\0", "\ud800"),
    ],
)
def test_anything_but_a_condition_is_reported_in_the_documents_words(condition: str) -> None:
    with pytest.raises(ConditionError) as raised:
        evaluate(condition, STATE)
    assert str(raised.value) == f"Cannot evaluate condition: {one_line(condition, MAX_QUOTED)}"


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        ("state.a.includes('x')", "('x')"),
        ("state.a > 1 and state.b", "and state.b"),
        ("state.a == 'open", "'open"),
        ("", "its end"),
    ],
)
def test_the_part_that_is_not_understood_is_named(condition: str, part: str) -> None:
    with pytest.raises(ConditionError) as raised:
        evaluate(condition, STATE)
    assert raised.value.part == part


def test_parentheses_may_nest_up_to_a_limit() -> None:
    assert evaluate("(" * MAX_DEPTH + "true" + ")" * MAX_DEPTH, STATE)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ConditionError):
            evaluate("(" * depth + "true" + ")" * depth, STATE)


@pytest.mark.parametrize(
    "condition", ["!" * 1_030_000 + "true", "&&".join(["1"] * 340_000), "==".join(["1"] * 340_000)]
)
def test_a_condition_that_is_too_long_is_not_read(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_Reader", None)
    with pytest.raises(ConditionError) as raised:
        evaluate(condition, STATE)
    whole = f"Cannot evaluate condition: {one_line(condition, MAX_QUOTED)}"
    assert str(raised.value) == f"{whole} ({len(condition):,} characters; the limit is 2,000)"


PIECES = st.sampled_from(
    [
        *["state.work_id", "a.b", "'x'", "null", "true", "1", "==", "!==", "&&", "||"],
        *["!", "(", ")", " ", "state", ".", "[0]"],
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0", "state"]), inner),
    max_leaves=8,
)


@given(st.text() | st.lists(PIECES, max_size=20).map("".join), st.dictionaries(st.sampled_from(["a", "state"]), JSON))
def test_any_text_over_any_state_gives_an_answer_or_a_condition_error(text: str, state: dict[str, Any]) -> None:
    try:
        assert evaluate(text, state) in (True, False)
    except ConditionError:
        pass


@given(st.lists(st.tuples(JSON, JSON), min_size=1, max_size=3))
def test_each_comparison_and_its_opposite_never_agree(pairs: list[tuple[Any, Any]]) -> None:
    for a, b in pairs:
        state = {"a": a, "b": b}
        assert evaluate("a == b", state) is not evaluate("a != b", state)
        assert evaluate("a === b", state) is not evaluate("a !== b", state)
        assert evaluate("a == b", state) is evaluate("b == a", state)
        assert evaluate("a == b", state) is evaluate("a === b", state)
