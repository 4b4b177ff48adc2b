"""Members of a JSON object are replaced in its text, and every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.histories import json_values, texts

from faber_ledger.files.json_text import JsonText
from faber_ledger.projections.fold import MAX_DEPTH, is_too_deep

spaces = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "\r\n  ", "\n\n  "])


@st.composite
def objects(draw: st.DrawFn) -> str:
    """Draw the text of a JSON object in any layout."""
    members = draw(st.dictionaries(texts, json_values, max_size=4))
    indent = draw(spaces)
    written = []
    for name, value in members.items():
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1, "\t"])))
        written.append(f"{indent}{json.dumps(name)}{draw(spaces)}:{draw(spaces)}{text}{draw(spaces)}")
    return draw(st.sampled_from(["", "\ufeff", "\n"])) + "{" + ",".join(written) + draw(spaces) + "}" + draw(spaces)


@given(objects(), st.dictionaries(texts, json_values, max_size=3))
def test_members_are_replaced_and_all_other_bytes_stay(text: str, members: dict[str, Any]) -> None:
    before = JsonText(text)
    assert before.with_members({}) == text
    after = JsonText(before.with_members(members))
    assert after.with_members(members) == after.text
    assert after.value == before.value | members
    assert list(after.value) == [*before.value, *[name for name in members if name not in before.value]]
    for name, (start, end) in before.spans.items():
        if name not in members:
            assert after.text[slice(*after.spans[name])] == text[start:end]


@given(json_values, st.sampled_from(["\n", "\r\n"]), st.sampled_from([" ", "  ", "\t", " \n  ", "\t \t"]))
def test_a_written_value_has_the_bytes_of_json_dumps_with_an_indent(value: Any, newline: str, indent: str) -> None:
    text = f"{{{newline}{indent}" + f'"a": 1,{newline}{indent}"s": 2{newline}}}'
    unit = indent.rpartition("\n")[2]
    shown = json.dumps(value, ensure_ascii=False, indent=unit).encode("utf-8", "backslashreplace").decode()
    lines = (newline + unit).join(shown.split("\n"))
    assert JsonText(text).with_members({"s": value}) == text.replace('"s": 2', f'"s": {lines}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "s": 1\n}'),
        ("{}\n", '{\n  "s": 1\n}\n'),
        ('{"a": 1}', '{"a": 1, "s": 1}'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "s": 1\n}\n'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"s": 1\n}'),
        ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "s": 1\r\n}\r\n'),
        ('\ufeff{"a": 1}', '\ufeff{"a": 1, "s": 1}'),
    ],
)
def test_a_new_member_is_laid_out_like_the_others(text: str, expected: str) -> None:
    assert JsonText(text).with_members({"s": 1}) == expected


def test_of_a_doubled_name_the_last_counts_and_is_replaced() -> None:
    text = JsonText('{"s": 1, "s": 2}')
    assert text.value == {"s": 2}
    assert text.with_members({"s": 3}) == '{"s": 1, "s": 3}'


def test_a_lone_surrogate_is_kept_and_the_text_stays_utf_8() -> None:
    after = JsonText('{\n  "a": 1\n}').with_members({"s": "x\ud800y"})
    assert JsonText(after.encode().decode()).value["s"] == "x\ud800y"


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", '{"a":', '{"a": 1', '{"a": 1,}', '{"a": 1} x', "{a: 1}", '{"a": 1 "b": 2}'),
        *('{"a": NaN}', '{"a": 1e999}', '{"a": 01}'),
    ],
)
def test_text_that_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonText(text)


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_a_value_nested_too_deeply_is_refused(opened: str, closed: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        JsonText('{"a": ' + opened * 1_000_000 + "1" + closed * 1_000_000 + "}")


def test_the_deepest_allowed_value_is_written_and_read() -> None:
    deepest: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        deepest = [deepest]
    assert not is_too_deep(deepest)
    assert is_too_deep([deepest])
    assert JsonText(JsonText('{\n  "a": 1\n}').with_members({"a": deepest})).value == {"a": deepest}


NAMES = st.sampled_from(["sessions", "sess\\u0069ons", 'x\\"sessions', "other", "k1"])


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.builds('"{}"{}:{}{}'.format, NAMES, spaces, spaces, inner)
    return st.one_of(
        st.lists(member, max_size=4).map(lambda members: "{" + ", ".join(members) + " }"),
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
    )


@given(
    st.recursive(st.sampled_from(["1", '"sessions"', '"x\\"sessions"', '"{"', '"\\\\"', "{}"]), nested, max_leaves=12)
)
def test_a_member_read_apart_is_where_a_complete_reading_finds_it(inner: str) -> None:
    for text in (f'{{"first": {inner}, "sessions": {inner}, "last": {inner}}}', f'{{"sessions": {inner}}}'):
        whole, apart = JsonText(text), JsonText(text, ("sessions", "last"))
        assert (apart.value, apart.spans) == (whole.value, whole.spans)
        assert apart.with_members({"sessions": 1}) == whole.with_members({"sessions": 1})
        start, end = whole.spans["sessions"]
        assert apart.text_of("sessions") in (None, text[start:end])
