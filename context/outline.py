"""A long text in little room: its headings with line numbers and sizes, and as much text as fits, what matters first.

Of a specification that is the summary, the requirements, the acceptance criteria, files and phases (RECON, 0.2).
"""

from __future__ import annotations

import json

from faber_ledger.context.markdown import BELOW_HEADINGS, sections_of, wanted_in
from faber_ledger.context.messages import kilobytes
from faber_ledger.files.text import clip, one_line, shares, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.markdown import Section

MATTERS = ("summary", "acceptance_criteria", "requirements", "files", "phases")
HEADINGS_SHARE, DEEP_SHARE = 0.5, 0.3  # for the headings of the first two levels, and for all
LONGEST_TITLE = 90
SHORTEST_TEXT = 80
ROOM_FOR_MORE = 20
LEAST_MEMBER = 20  # units of a JSON object's member that say something
LEAST_SHARE = 0.5  # of an equal share, however long what matters more is


def outline(text: str, room: int, look: int) -> str:
    """Give a text's outline in at most `room` UTF-16 units, which may be empty.

    It is that of the text's first `look` characters, up to a line's end, and says so where the text goes on.
    """
    members = _json_members(text)
    if members is not None:
        return clip(_members_text(members, room), max(room, 0))
    told = ""
    if len(text) > look:
        text = text[: text.rfind("\n", 0, look) + 1 or look]
        told = f"(of the first {kilobytes(len(text.encode('utf-8', 'replace')))})\n\n"
    lines = text.split("\n")
    sections = sections_of(lines)
    headings = told + _headings(lines, sections, room - units(told))
    excerpts = _excerpts(lines, sections, room - units(headings))
    return clip(headings + excerpts, max(room, 0))


def _headings(lines: list[str], sections: list[Section], room: int) -> str:
    """List headings with their lines and sizes, as deep as a share of the room allows; what is left out is counted."""
    told_of = [section for section in sections if section["level"] < BELOW_HEADINGS]
    if not told_of:
        return ""
    sizes = [0]
    for line in lines:
        sizes.append(sizes[-1] + (len(line) if line.isascii() else len(line.encode("utf-8", "replace"))) + 1)
    told = [(section["level"], _heading(section, sizes)) for section in told_of]
    kept = [text for _, text in told]
    top = max(told_of[0]["level"], 2)
    for depth in range(5, top - 1, -1):
        if sum(map(units, kept)) <= room * DEEP_SHARE:
            break
        kept = [text for level, text in told if level <= depth] or kept
    left = room * HEADINGS_SHARE - ROOM_FOR_MORE
    for count, text in enumerate(kept):
        left -= units(text)
        if left < 0:
            del kept[count:]
            break
    if len(kept) < len(told):
        kept.append(f"(and {len(told) - len(kept)} {'more' if kept else 'headings'})\n")
    return "".join(kept) + "\n"


def _heading(section: Section, sizes: list[int]) -> str:
    size = (sizes[section["end"]] - sizes[section["start"]]) / 1024
    title = f"{'#' * section['level']} {one_line(section['title'], LONGEST_TITLE)}"
    return f"{section['start'] + 1}-{section['end']} {title} ({size:.1f} KB)\n"


def _excerpts(lines: list[str], sections: list[Section], room: int) -> str:
    """Give the text of what matters, in this order and whole while the others keep a part of an equal share.

    Then of the rest from the top; every line stands once.
    """
    groups = _groups(sections)
    wanted = [sum([units(_lines_text(lines, *span)) for span in group]) for group in groups]
    least = shares(wanted, int(room * LEAST_SHARE))
    pieces, taken = [], set()
    for at, group in enumerate(groups):
        piece = _spans_text(lines, group, room - sum(least[at + 1 :]))
        pieces.append(piece)
        room -= units(piece)
        taken.update([start for start, _ in group])
    starts = [(0, sections[0]["start"] if sections else len(lines))]
    starts += [(section["start"], section["own_end"]) for section in sections]
    rest = [span for span in starts if span[0] not in taken and span[1] > span[0]]
    return "".join([*pieces, _spans_text(lines, rest, room)])


def _groups(sections: list[Section]) -> list[list[tuple[int, int]]]:
    """Give the lines of the sections that matter, as spans, the most important group first, none twice."""
    groups, taken = [], set()
    wanted = wanted_in(sections)
    for name in MATTERS:
        group = []
        end = 0
        heads = {section["start"] for section in wanted[name]}
        for section in sections:
            if section["start"] in heads:
                end = max(end, section["end"])
            if section["start"] < end and section["start"] not in taken:
                taken.add(section["start"])
                group.append((section["start"], section["own_end"]))
        if group:
            groups.append(group)
    return groups


def _spans_text(lines: list[str], spans: list[tuple[int, int]], room: int) -> str:
    """Give the lines of spans from their beginning, joined where they adjoin, as many as fit."""
    pieces = []
    for start, end in _joined(spans):
        piece = _lines_text(lines, start, end)
        fits = units(piece) <= room
        if not fits and room < SHORTEST_TEXT:
            break
        pieces.append(piece if fits else _beginning(lines, start, end, room))
        room -= units(pieces[-1])
    return "".join(pieces)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        adjoins = joined and joined[-1][1] == start
        joined.append((joined.pop()[0] if adjoins else start, end))
    return joined


def _lines_text(lines: list[str], start: int, end: int) -> str:
    while end > start and not lines[end - 1].strip():
        end -= 1
    body = "\n".join(lines[start:end])
    if not body.strip():
        return ""
    return f"[lines {start + 1}-{end}]\n{body}\n\n"


def _beginning(lines: list[str], start: int, end: int, room: int) -> str:
    """Give the first lines that fit, or the first one's beginning, and say by "…" that more follows."""
    left = room - len(f"[lines {start + 1}-{end}]\n\n```\n…\n")
    at = start
    while at < end and units(lines[at]) + 1 <= left:
        left -= units(lines[at]) + 1
        at += 1
    kept = lines[:at]
    if left > SHORTEST_TEXT and at < end:
        kept = [*kept, clip(lines[at], left - 1)]
    fences = sum([line.lstrip().startswith("```") for line in kept[start:]])
    if fences % 2 and kept[-1].lstrip().startswith("```"):
        kept.pop()
        fences -= 1
    text = _lines_text(kept, start, len(kept)).rstrip("\n")
    closed = "\n```" if fences % 2 else ""
    goes_on = "" if text.endswith("…") else "\n…"
    return f"{text}{closed}{goes_on}\n\n" if text else ""


def _json_members(text: str) -> dict[str, Any] | None:
    if text.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _members_text(members: dict[str, Any], room: int) -> str:
    """List the members of a JSON object, one a line, the small ones whole, the others cut to a fair share."""
    kept = list(members.items())[: max(room, 0) // LEAST_MEMBER]
    try:
        told = [one_line(f"{name}: {json.dumps(value, ensure_ascii=False)}", 4000) for name, value in kept]
    except RecursionError:
        return ""
    more = f"(and {len(members) - len(kept)} more)\n" if len(kept) < len(members) else ""
    limits = shares([units(line) for line in told], room - len(told) - len(more))
    return "".join([clip(line, limit) + "\n" for line, limit in zip(told, limits, strict=True)]) + more
