"""What a command prints besides the contents that an agent asked for, bounded, so that these reach the agent whole.

The client gives the agent a command's output up to 30,000 characters; of a longer one it keeps a file and shows 2 KB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from faber_ledger.files.text import clip, cut_middle, escape, units

BESIDE_CONTENTS = 4_500  # units: with contents of 25,000 well below the client's limit
LEAST = 200  # units of the first text
LIST_ALL = "`faber-ledger session-load --dry-run` lists all"
CUT = f"\n  … ({LIST_ALL})\n"


class Bounded:
    """The room that is left for what is printed besides the contents, in UTF-16 units; None where nothing is cut."""

    def __init__(self, room: int | None) -> None:
        self.left = room

    def count(self, text: str) -> str:
        """Return a text that is printed whole, and take its room."""
        if self.left is not None:
            self.left -= units(text) + 1
        return text

    def add(self, room: int) -> None:
        """Add the room that the contents leave free."""
        if self.left is not None:
            self.left += room

    def first(self, texts: Iterable[str], share: float, more: str) -> list[str]:
        """Return the texts that fit into a share of the room, the first one always, then how many are left out."""
        every = [*texts]
        if self.left is None:
            return every
        kept: list[str] = []
        room = int(max(self.left, 0) * share)
        for number, text in enumerate(every):
            if number and units(text) >= room:
                return [*kept, f"… and {len(every) - number} more {more}: {LIST_ALL}"]
            kept.append(clip(text, max(room, LEAST)))
            room -= units(text) + 1
        return kept

    def fit(self, lines: Iterable[str], shorter: Callable[[], Iterable[str]]) -> list[str]:
        """Return the lines if they fit into the room, otherwise the shorter ones, without their middle if need be."""
        every = [*lines]
        if self.left is None or units("\n".join(every)) < self.left:
            return every
        return cut_middle("\n".join(map(escape, shorter())), max(self.left, len(CUT)), CUT).split("\n")
