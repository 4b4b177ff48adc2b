"""The names beside a chart's lanes: short enough for their place, and no two of them alike."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from faber_ledger.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 80  # letters of a name that are tried; no more have ever a place
WIDE = "mwMW@%"


def shown_names(names: Iterable[str], room: float) -> dict[str, str]:
    """Shorten names to what `room`, in times a font's size, has a place for, keeping that by which they differ."""
    whole = {name: printable(name).replace("\n", " ") for name in names}
    shown = {name: _cut(text, room) for name, text in whole.items()}
    for group in _alike(shown):
        texts = [whole[name] for name in group]
        start = _shared(texts)
        end = _shared([text[start:][::-1] for text in texts])
        shown |= {name: _around(text, start, len(text) - end, room) for name, text in zip(group, texts, strict=True)}
    for group in _alike(shown):
        for number, name in enumerate(group, 1):
            shown[name] = f"{_cut(whole[name], room - width(f' #{number}'))} #{number}"
    return shown


def width(text: str) -> float:
    """Estimate how wide a text is, in times the font's size: rather too wide, since every browser has other fonts."""
    return sum([_letter(letter) for letter in text])


def _letter(letter: str) -> float:
    if letter in WIDE:
        return 1.1
    if unicodedata.east_asian_width(letter) in "WF" or letter == "…":
        return 1.0
    return 0.78 if letter.isupper() else 0.42 if letter in "ilj.,:;'|!/ " else 0.69


def _alike(shown: dict[str, str]) -> list[list[str]]:
    """Give the names that are shown alike."""
    found: dict[str, list[str]] = {}
    for name, text in shown.items():
        found.setdefault(text, []).append(name)
    return [group for group in found.values() if len(group) > 1]


def _shared(texts: list[str]) -> int:
    """Count the letters that texts begin with alike."""
    shortest = min(map(len, texts))
    return next((place for place in range(shortest) if len({text[place] for text in texts}) > 1), shortest)


def _cut(text: str, room: float) -> str:
    """Take out of a text's middle what has no place."""
    if width(text[: LONGEST * 2]) <= room:
        return text
    for size in range(min(len(text) - 1, LONGEST), 1, -1):
        shorter = f"{text[: size // 2]}…{text[-(size - size // 2) :]}"
        if width(shorter) <= room:
            return shorter
    return "…"


def _around(text: str, start: int, end: int, room: float) -> str:
    """Show what stands between two places of a text, and of its beginning and end as much as has a place."""
    middle = _cut(text[start:end], room - 2 * width("…"))
    best = f"…{middle}…"
    for size in range(1, LONGEST):
        head = text[:size] + "…" if size < start else text[:start]
        tail = "…" + text[-size:] if size < len(text) - end else text[end:]
        if width(head + middle + tail) > room:
            break
        best = head + middle + tail
    return best
