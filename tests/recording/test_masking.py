"""Masking skips the patterns that a text cannot match, and its result is the same as with all of them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sizes import pick

from faber_ledger.recording.masking import BY_NAME, LIKE_ASCII, OUR_RULES, TOKEN, mask_secrets
from faber_ledger.recording.secret_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = (*OUR_RULES, *RULES)
TOOL = Path(__file__).parents[2] / "tools" / "required_words.py"
required_words: Callable[[str, int], tuple[str, ...]] = runpy.run_path(str(TOOL))["required_words"]


def masked_by_all(text: str) -> str:
    """Mask with every pattern, whatever the text."""
    for kind, pattern, flags, _ in ALL:
        text = re.sub(f"(?:{pattern})(?:(?<={TOKEN}){TOKEN}*)?", f"[masked: {kind}]", text, flags=flags | re.ASCII)
    for shown, pattern, flags, _ in BY_NAME:
        text = re.sub(pattern, shown, text, flags=flags)
    return text


def texts() -> st.SearchStrategy[str]:
    """Draw texts with secrets of several kinds, complete and broken, beside words that rules look for."""
    parts: list[st.SearchStrategy[str]] = [
        st.text(max_size=20),
        st.sampled_from([word for _, _, _, words in ALL for word in words]),
        st.sampled_from(
            [
                "pa\u017f\u017fword: hunter22",
                "PR\u0130VATEKEY=abcdefgh",
                "CL\u0131ENT_KEY: abcdefgh",
                "api\u212aey=abcdefgh",
            ]
        ),
        *[st.from_regex(re.compile(pattern, flags | re.ASCII)) for _, pattern, flags, _ in ALL],
        *[st.from_regex(re.compile(pattern, flags)) for _, pattern, flags, _ in BY_NAME],
    ]
    return st.lists(st.one_of(parts), max_size=4).map(" ".join)


@pytest.mark.long
@given(texts())
@settings(max_examples=pick(60, 300), deadline=None)
def test_skipping_patterns_masks_the_same_as_all_patterns(text: str) -> None:
    assert mask_secrets(text) == masked_by_all(text)


@pytest.mark.parametrize(("kind", "pattern", "flags", "words"), ALL)
def test_every_match_of_a_rule_has_one_of_its_words(
    kind: str, pattern: str, flags: int, words: tuple[str, ...]
) -> None:
    @given(st.from_regex(re.compile(pattern, flags | re.ASCII)))
    @settings(max_examples=20, deadline=None)
    def check(text: str) -> None:
        assert any(word in (text.lower() if flags & re.IGNORECASE else text) for word in words)
        assert mask_secrets(text) != text

    assert words, kind
    check()


@pytest.mark.parametrize(("shown", "pattern", "flags", "words"), BY_NAME)
def test_every_value_that_is_called_a_secret_has_one_of_the_words(
    shown: str, pattern: str, flags: int, words: tuple[str, ...]
) -> None:
    @given(st.from_regex(re.compile(pattern, flags)))
    @settings(max_examples=50, deadline=None)
    def check(text: str) -> None:
        looked_at = text.translate(LIKE_ASCII)
        assert any(word in (looked_at.lower() if flags & re.IGNORECASE else looked_at) for word in words)

    assert shown.endswith(("[masked]", r"[masked]\2"))
    check()


@pytest.mark.parametrize(
    ("pattern", "flags", "words"),
    [
        ("abc[0-9]+", 0, ("abc",)),
        ("(?:one|three)x?", 0, ("one", "three")),
        ("A[BC]D", 0, ("ABD", "ACD")),
        ("Key", re.IGNORECASE, ("key",)),
        ("(?:|one)[a-z]+", 0, ()),
        ("(?:one)?two{0,3}", 0, ("tw",)),
        ("(?!no)x|y+", 0, ("x", "y")),
        (r"(?<=before)\w+", 0, ()),
        ("(?i:key)s", 0, ("s",)),
    ],
)
def test_the_words_of_a_pattern_are_in_each_of_its_matches(pattern: str, flags: int, words: tuple[Any, ...]) -> None:
    assert required_words(pattern, flags) == words
