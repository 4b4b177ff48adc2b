"""Measure texts as the client does, and cut them between characters and lines."""

from __future__ import annotations

from faber_ledger.ledger.canonical import without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_MARKS = 32  # more marks than any real text has on one character: they may be cut
CONTROLS = {code: "\ufffd" for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}
LEAST_END, LONGEST_STEP = 100, 200  # units of a useful end; letters that may be dropped to end with a full line
ZERO_WIDTH_JOINER = "\u200d"
VIRAMA = 9  # the combining class of the signs that join two consonants


def plain(text: str) -> str:
    """Replace control characters and lone surrogates by U+FFFD; tabs stay, and CRLF becomes LF.

    A text from a repository reaches a model and a terminal, and must control neither. No text becomes longer.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # much faster than looking at each character
    return without_surrogates(text.replace("\r\n", "\n").translate(CONTROLS))


def units(text: str) -> int:
    """Count a text's UTF-16 code units, which is how the client counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def one_line(text: object, longest: int = 300) -> str:
    """Return a text from a repository as one line of at most `longest` units."""
    start = str(text)
    if len(start) > 4 * longest:
        start = start[: _place(start, 4 * longest)]
    return clip(plain(" ".join(start.split())), longest)


def clip(text: str, room: int, mark: str = "…") -> str:
    """Cut a text to at most `room` units and end it with `mark`; a character keeps its combining marks."""
    if units(text) <= room:
        return text
    left = room - units(mark)
    return text[: _place(text, left)] + mark if left >= 0 else ""


def cut_middle(text: str, room: int, mark: str = "\n…\n") -> str:
    """Replace the middle of a text of more than `room` units by `mark`, between lines if they are short.

    A summary ends with what was done last and what comes next.
    """
    if units(text) <= room:
        return text
    half = (room - units(mark)) // 2
    if half < LEAST_END:
        return clip(text, room)
    head, start = text[: _place(text, half)], max(len(text) - half, 1)
    while start < len(text) and (units(text[start:]) > half or _joins(text, start)):
        start += 1
    tail = text[start:]
    line = head.rfind("\n", -LONGEST_STEP)
    head = head[:line] if line > 0 else head
    line = tail.find("\n", 0, LONGEST_STEP)
    return head + mark + (tail[line + 1 :] if line >= 0 else tail)


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Split room fairly: a want below an equal share is met, and the others share what is left."""
    given = [0] * len(wanted)
    for count, index in enumerate(sorted(range(len(wanted)), key=lambda at: wanted[at])):
        given[index] = min(wanted[index], max(room, 0) // (len(wanted) - count))
        room -= given[index]
    return given


def _place(text: str, room: int) -> int:
    """Return how many characters fit into `room` units, without separating a character from its marks."""
    at = min(room, len(text))
    while units(text[:at]) > room:
        at -= max((units(text[:at]) - room) // 2, 1)
    for place in range(at, max(at - MAX_MARKS, 0), -1):
        if place == len(text) or not _joins(text, place):
            return place
    return at if at > MAX_MARKS else 0


def _joins(text: str, at: int) -> bool:
    """Return whether the character at a place and the one before it are one to a reader (after UAX 29).

    True for marks, joiners, skin tones, the second half of a flag, the parts of a syllable, and LF after CR.
    """
    before, letter = text[at - 1], text[at]
    if letter.isascii():
        return (before, letter) == ("\r", "\n")
    if _is_of_flag(letter):
        run = at
        while run and _is_of_flag(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    import unicodedata  # rarely needed: most texts are cut between lines

    category = unicodedata.category(letter)
    if category[0] == "M" or before == ZERO_WIDTH_JOINER or letter in "\u200c\u200d":
        return True
    if "\U0001f3fb" <= letter <= "\U0001f3ff" or "\U000e0020" <= letter <= "\U000e007f":
        return True  # a skin tone, a region's tag
    if category == "Lo" and unicodedata.combining(before) == VIRAMA:
        return True
    leads = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    if leads and unicodedata.name(letter, "").startswith("HANGUL"):
        return True
    follows = "\u1160" <= letter <= "\u11ff" or "\ud7b0" <= letter <= "\ud7fb"
    return follows and unicodedata.name(before, "").startswith("HANGUL")


def _is_of_flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


LONGEST_QUOTE, LONGEST_ID = 200, 80


def quoted(text: object) -> str:
    """Quote a text that came from a repository: one bounded line in backticks, with none inside."""
    return f"`{one_line(text, LONGEST_QUOTE).replace('`', chr(39))}`"
