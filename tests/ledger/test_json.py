"""JSON without the `json` package: the same values, texts and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber_ledger.files.json_text import on_lines
from faber_ledger.ledger import encoding

if TYPE_CHECKING:
    from collections.abc import Callable

texts = st.text(st.characters(exclude_categories=()), max_size=8)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4))
)
spaces = st.text(" \t\n\r", max_size=600)


def outcome(call: Callable[[], Any]) -> object:
    """Return what a call returns, as a text that tells `true` from 1; or its error."""
    try:
        return repr(call())
    except (ValueError, TypeError, RecursionError) as error:
        return type(error), str(error)


@given(values, st.sampled_from([None, 1]), st.booleans(), spaces, spaces)
def test_what_is_read_is_what_the_package_reads(
    value: Any, indent: int | None, ensure_ascii: bool, before: str, after: str
) -> None:
    text = before + json.dumps(value, indent=indent, ensure_ascii=ensure_ascii) + after
    assert outcome(lambda: encoding.loads(text)) == outcome(lambda: json.loads(text))


@given(st.text('{}[]",:0123456789.eE+-truefalsnINity\\u \n\x00\ufeff', max_size=20))
def test_what_is_no_json_is_refused_in_the_same_words(text: str) -> None:
    assert outcome(lambda: encoding.loads(text)) == outcome(lambda: json.loads(text))


@pytest.mark.parametrize("text", ["{", '{"a": 1', '"a', '"\\x"', '{"a": 1} x', "", '{"a" 1}', "[1,]"])
def test_no_json_is_refused_alike_in_a_fresh_process(text: str) -> None:
    """The scanner in C leaves it to the package to raise, which nothing has loaded yet."""
    script = "import sys; from faber_ledger.ledger import encoding; print('json' in sys.modules)\n"
    script += f"try: encoding.loads({text!r})\nexcept ValueError as error: print(repr((type(error), str(error))))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"False\n{outcome(lambda: json.loads(text))!r}\n"


@given(values, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_what_is_written_is_what_the_package_writes(
    value: Any, sort_keys: bool, separators: tuple[str, str], allow_nan: bool
) -> None:
    ours = encoding.encoder(sort_keys=sort_keys, separators=separators, allow_nan=allow_nan)

    def theirs() -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=separators, allow_nan=allow_nan)

    assert outcome(lambda: ours(value)) == outcome(theirs)


@pytest.mark.parametrize("value", [{1}, object, b"x", {"a": {1}}, {(1, 2): 3}, {1: 2, None: 3, False: 4, 2.5: 5}])
def test_what_json_cannot_hold_is_refused_in_the_same_words(value: Any) -> None:
    assert outcome(lambda: encoding.dumps(value)) == outcome(lambda: json.dumps(value, ensure_ascii=False))


def test_lines_are_those_of_the_package_however_deep() -> None:
    value: dict[str, Any] = {}
    for _ in range(600):
        value = {"a": value}
    assert on_lines(value) == json.dumps(value, indent=2, ensure_ascii=False)
