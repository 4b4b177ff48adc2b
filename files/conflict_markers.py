"""Split a text with git's conflict markers into its sides; the styles `merge`, `diff3` and `zdiff3`."""

from __future__ import annotations

SHORTEST = 7  # signs in a marker; the attribute `conflict-marker-size` makes it longer
ALL, OURS, BASE, THEIRS = "all", "ours", "base", "theirs"
# Where a line stands, and the sign of a marker that follows there: where the lines after it stand.
NEXT = {(ALL, b"<"): OURS, (OURS, b"|"): BASE, (OURS, b"="): THEIRS, (BASE, b"="): THEIRS, (THEIRS, b">"): ALL}


def has_markers(content: bytes) -> bool:
    """Return whether a line begins with the marker of a conflict; no line of valid JSON does."""
    return b"\n" + b"<" * SHORTEST in b"\n" + content


def split_sides(content: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the base, our side and their side of a text with markers; None if they are not those of whole hunks.

    The base is empty unless each hunk has one.
    """
    sides: dict[str, list[bytes]] = {BASE: [], OURS: [], THEIRS: []}
    where, size, hunks, bases = ALL, 0, 0, 0
    for line in content.split(b"\n"):
        sign, length = _marker(line)
        size = size or length if sign == b"<" else size
        if sign and length == size:
            if (where, sign) not in NEXT:
                return None
            where = NEXT[where, sign]
            hunks += where == OURS
            bases += where == BASE
            continue
        for side in sides if where == ALL else (where,):
            sides[side].append(line)
    if where != ALL or not hunks:
        return None
    base, ours, theirs = (b"\n".join(lines) for lines in sides.values())
    return base if bases == hunks else b"", ours, theirs


def _marker(line: bytes) -> tuple[bytes, int]:
    """Return the sign of a marker and how often it stands there; empty and 0 for any other line."""
    line = line.removesuffix(b"\r")
    sign = line[:1]
    length = len(line) - len(line.lstrip(sign)) if sign and sign in b"<|=>" else 0
    is_marker = length >= SHORTEST and line[length : length + 1] in (b"", b" ")
    return (sign, length) if is_marker else (b"", 0)
