"""A fact that the agent's next action depends on, and how to see whether a text has it."""

from __future__ import annotations

import re
from typing import NamedTuple

BEGINNING, ENDING = 600, 300  # characters


class Fact(NamedTuple):
    """One fact: what it is, in a sentence, and the wordings from which a reader would know it.

    A wording is text that stands in the packet. Upper and lower case, marks of Markdown and JSON, and line breaks do
    not count; a part of a word is not the word. `…` in it stands for up to 30 characters, `……` for up to 250. `only_in`
    looks at the beginning or the ending alone. A fact that `must_lack` its wordings holds if none is there.
    """

    is_essential: bool
    says: str
    wordings: tuple[str, ...]
    only_in: str = "text"
    must_lack: bool = False

    def is_in(self, text: str) -> bool:
        """Return whether a reader of the text knows the fact."""
        part = {"beginning": text[:BEGINNING], "ending": text[-ENDING:], "text": text}[self.only_in]
        plain = simplify(part)
        found = any(re.search(pattern_of(wording), plain) for wording in self.wordings)
        return found != self.must_lack


def essential(says: str, *wordings: str, only_in: str = "text", must_lack: bool = False) -> Fact:
    """Return a fact without which the agent does something wrong, or has to ask."""
    return Fact(True, says, wordings, only_in, must_lack)


def wanted(says: str, *wordings: str, only_in: str = "text") -> Fact:
    """Return a fact that saves the agent a look, or makes it surer."""
    return Fact(False, says, wordings, only_in)


def simplify(text: str) -> str:
    """Return a text as a reader takes it in: one line, lower case, without the marks of Markdown and JSON."""
    lines = [line.removeprefix("> ").removeprefix(">") for line in text.split("\n")]
    marks = str.maketrans(dict.fromkeys('`*"', ""))
    joined = " ".join(lines).replace("\\n", " ").replace("\\", "").translate(marks)
    return " ".join(joined.split()).lower()


def pattern_of(wording: str) -> str:
    """Return a wording as a regular expression over a simplified text."""
    parts = [".{0,30}?".join([_whole_words(word) for word in part.split("…")]) for part in wording.split("……")]
    return ".{0,250}?".join(parts)


def _whole_words(wording: str) -> str:
    """Return words as a regular expression that does not find them inside of longer ones."""
    plain = simplify(wording)
    before = "(?<![a-z0-9])" if plain[:1].isalnum() else ""
    after = "(?![a-z0-9])" if plain[-1:].isalnum() else ""
    return f"{before}{re.escape(plain)}{after}"


def units(text: str) -> int:
    """Return the length as the client counts it: in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, most: int) -> str:
    """Return the beginning of a text that has at most that many units."""
    return text.encode("utf-16-le", "surrogatepass")[: most * 2].decode("utf-16-le", "ignore")
