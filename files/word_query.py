"""Words to search for, and where a text has them: one definition for local files and for the server's index.

A word is a run of letters and digits; everything else, `_` and `-` too, stands between words. Letters that differ only
in case are equal: those of Latin, Greek, Cyrillic and Armenian, by a fixed table, so that it depends on no locale.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faber_ledger.files.text import clip
from faber_ledger.ledger.command_errors import UsageFailed

# The migration of the server's words has these two as literal texts; a test compares them.
LETTERS = (
    "0-9A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3005-\u3007\u3021-\ud7ff"
    "\uf900-\ufdff\ufe20-\ufe2f\ufe70-\ufefc\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc"
    "\U00010000-\U0001efff\U00020000-\U0003ffff"
)
CASED = [
    (chr(code), chr(code).lower())
    for code in (*range(ord("A"), ord("Z") + 1), *range(0xC0, 0x557), *range(0x1E00, 0x1F00))
    if chr(code).lower() != chr(code) and len(chr(code).lower()) == 1
]
LONGEST_QUERY = 1000  # characters
LONGEST_WORD = 100  # characters of a word that an index has; the whole word is compared when a text is read
LONGEST_EXCERPT, BEFORE_MATCH = 160, 60  # units; characters

_LOWER = str.maketrans(dict(CASED))
_WORD = re.compile(f"[{LETTERS}]+")
_ITEM = re.compile(r'"([^"]*)(?:"|$)|([^\s"]+)')


class Place(NamedTuple):
    """Where a match begins and ends in one of several texts."""

    text: int
    start: int
    end: int


class WordQuery:
    """What to search for: phrases of one or more words, which must all be found."""

    def __init__(self, phrases: Sequence[tuple[str, ...]]) -> None:
        self.required = sorted({word[:LONGEST_WORD] for words in phrases for word in words})  # as an index has them
        self._patterns = [(words[0], _pattern(words)) for words in phrases]

    def find(self, texts: Sequence[str]) -> Place | None:
        """Return the first place of a match in texts that belong together, or None; a phrase is within one of them."""
        folded = [fold_case(text) for text in texts]
        places = [_first(pattern, word, folded) for word, pattern in self._patterns]
        found = [place for place in places if place is not None]
        return min(found) if len(found) == len(places) else None


def parse_query(text: str) -> WordQuery:
    """Return what a text asks for; raises UsageFailed if it has no word.

    All words must be there, in any order. `"…"` is a phrase, and so are words that only signs join, as in `src/app.py`.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageFailed(f"TEXT has more than {LONGEST_QUERY:,} characters", hint="search for a few words of it")
    phrases = [tuple(words) for quoted, plain in _ITEM.findall(text) if (words := words_of(quoted or plain))]
    if not phrases:
        raise UsageFailed("TEXT has no word", hint="search for letters or digits: everything else is between words")
    return WordQuery(phrases)


def words_of(text: str) -> list[str]:
    """Return the words of a text in their order, in small letters."""
    return _WORD.findall(fold_case(text))


def fold_case(text: str) -> str:
    """Return a text in small letters, each character in its place."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def excerpt(text: str, start: int, end: int) -> str:
    """Return one line of at most 160 units around a match; what hides in it is not escaped yet."""
    begin = max(start - BEFORE_MATCH, 0)
    if begin:
        space = re.compile(r"\s").search(text, begin, start)
        begin = space.end() if space else begin
    piece = " ".join(text[begin : end + 2 * LONGEST_EXCERPT].split())
    is_cut = bool(text[end + 2 * LONGEST_EXCERPT :].strip())
    lead = "…" if text[:begin].strip() else ""
    return clip(f"{lead}{piece}{'…' if is_cut else ''}", LONGEST_EXCERPT)


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    joined = f"[^{LETTERS}]+".join(words)
    return re.compile(f"(?<![{LETTERS}]){joined}(?![{LETTERS}])")


def _first(pattern: re.Pattern[str], word: str, texts: Sequence[str]) -> Place | None:
    for number, text in enumerate(texts):
        if word in text and (found := pattern.search(text)):
            return Place(number, found.start(), found.end())
    return None
