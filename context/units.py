"""Texts measured as the client measures them, and cut where a reader does not stumble."""

from __future__ import annotations

from faber_ledger.ledger.canonical import without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_MARKS = 32  # a base character with more marks than this is no writing, and is cut like any other
JOINERS = "\u200d\ufe0e\ufe0f"


def units(text: str) -> int:
    """Count a text's UTF-16 code units, which is how the client counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def one_line(text: object, longest: int = 300) -> str:
    """Make one line of at most `longest` units of a text that came from a repository."""
    return clipped(" ".join(without_surrogates(str(text)[: 4 * longest]).split()), longest)


def clipped(text: str, room: int, mark: str = "…") -> str:
    """Cut a text to at most `room` units and end it with `mark`; neither a character nor its marks are cut apart."""
    if units(text) <= room:
        return text
    left = room - units(mark)
    return text[: _place(text, left)] + mark if left >= 0 else ""


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Split room fairly: who wants less than an equal share gets it all, and the others share what is left."""
    given = [0] * len(wanted)
    for count, index in enumerate(sorted(range(len(wanted)), key=lambda at: wanted[at])):
        given[index] = min(wanted[index], max(room, 0) // (len(wanted) - count))
        room -= given[index]
    return given


def _place(text: str, room: int) -> int:
    """Give how many characters fit into `room` units, without the base of marks that would be left behind."""
    if text.isascii():
        return room
    at = min(room, len(text))
    while units(text[:at]) > room:
        at -= max((units(text[:at]) - room) // 2, 1)
    for back in range(min(at, MOST_MARKS)):
        if at - back == len(text) or not _joins(text, at - back):
            return at - back
    return at


def _joins(text: str, at: int) -> bool:
    """Tell whether the character at a place belongs to the one before it: an accent, a joined or a tinted emoji."""
    import unicodedata  # rarely asked for: most texts are cut between lines

    letter = text[at]
    tinted = "\U0001f3fb" <= letter <= "\U0001f3ff"
    return unicodedata.category(letter)[0] == "M" or letter in JOINERS or tinted or text[at - 1] == "\u200d"
