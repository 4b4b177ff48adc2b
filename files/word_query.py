"""Words to search for, and where a text has them: one definition for local files and for the server's index.

A word is a run of letters and digits; everything else, `_` and `-` too, stands between words. Letters that differ only
in case are equal: those of Latin, Greek, Cyrillic and Armenian, by a fixed table, so that it depends on no locale.
`TEXT` means what PostgreSQL's `websearch_to_tsquery('simple', TEXT)` means: see `parse_query`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from faber_ledger.files.text import clip
from faber_ledger.ledger.command_errors import UsageFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
_ITEM = re.compile(r'(-*)(?:"([^"]*)(?:"|$)|([^\s"]+))')


class Phrase(NamedTuple):
    """Words that follow one another; if `is_excluded`, a text must not have them."""

    words: tuple[str, ...]
    is_excluded: bool


class Place(NamedTuple):
    """Where a match begins and ends in one of several texts."""

    text: int
    start: int
    end: int


class WordQuery:
    """What to search for: several alternatives; all phrases of one of them must be found."""

    def __init__(self, alternatives: Sequence[Sequence[Phrase]]) -> None:
        self.alternatives = alternatives
        self._patterns = [[(_pattern(phrase.words), phrase) for phrase in phrases] for phrases in alternatives]

    @property
    def required(self) -> list[list[str]]:
        """The words, sorted, that a text of each alternative has in any case, as long as an index has them."""
        return [
            sorted({word[:LONGEST_WORD] for phrase in phrases if not phrase.is_excluded for word in phrase.words})
            for phrases in self.alternatives
        ]

    def find(self, texts: Sequence[str]) -> Place | None:
        """Return the first place of a match in texts that belong together, or None; a phrase is within one of them."""
        folded = [fold_case(text) for text in texts]
        for phrases in self._patterns:
            places = [_first(pattern, phrase, folded) for pattern, phrase in phrases]
            if all([(place is None) == phrase.is_excluded for place, (_, phrase) in zip(places, phrases, strict=True)]):
                return min(filter(None, places))
        return None


def parse_query(text: str) -> WordQuery:
    """Return what a text asks for; raises UsageFailed if it has no word that a match must have.

    All words must be there, in any order. `"…"` is a phrase, and so are words that only signs join, as in `src/app.py`;
    `-` before a word or phrase excludes it; `or` between two makes alternatives, and binds less than what stands side
    by side.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageFailed(f"TEXT has more than {LONGEST_QUERY:,} characters", hint="search for a few words of it")
    items = [match.groups() for match in _ITEM.finditer(text)]
    alternatives: list[list[Phrase]] = [[]]
    is_operand_before = False
    for number, (minus, quoted, plain) in enumerate(items):
        if not minus and plain and plain.lower() == "or" and is_operand_before and number + 1 < len(items):
            alternatives.append([])
            is_operand_before = False
            continue
        found = tuple(words_of(quoted or plain or ""))
        if found:
            alternatives[-1].append(Phrase(found, len(minus) % 2 == 1))
        is_operand_before = True
    asked = [phrases for phrases in alternatives if phrases]
    if not asked:
        raise UsageFailed("TEXT has no word", hint="search for letters or digits: everything else is between words")
    if any([all([phrase.is_excluded for phrase in phrases]) for phrases in asked]):
        hint = "name a word that a match must have beside those that it must not have"
        raise UsageFailed("TEXT only excludes words", hint=hint)
    return WordQuery(asked)


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


def _first(pattern: re.Pattern[str], phrase: Phrase, texts: Sequence[str]) -> Place | None:
    for number, text in enumerate(texts):
        if phrase.words[0] in text and (found := pattern.search(text)):
            return Place(number, found.start(), found.end())
    return None
