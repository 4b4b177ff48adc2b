"""An outline of a long text: headings with line numbers and sizes, then as much text as fits, important parts first.

In a specification these are the summary, requirements, acceptance criteria, files and phases (RECON, 0.2).
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

IMPORTANT = ("summary", "acceptance_criteria", "requirements", "files", "phases")
HEADINGS_SHARE, DEEP_SHARE = 0.5, 0.3  # of the room: for the headings of the first levels, for all headings
MAX_TITLE = 90
MIN_TEXT = 80
ROOM_FOR_MORE = 20
MIN_MEMBER = 20  # units: less of a JSON object's member says nothing
MIN_SHARE = 0.5  # of an equal share, however long the more important parts are


def outline(text: str, room: int, look: int) -> str:
    """Return a text's outline in at most `room` UTF-16 units; it may be empty.

    Only the first `look` characters are read, up to the end of a line; the outline says so if the text is longer.
    """
    members = _json_members(text)
    if members is not None:
        return clip(_members_text(members, room), max(room, 0))
    scope = ""
    if len(text) > look:
        text = text[: text.rfind("\n", 0, look) + 1 or look]
        scope = f"(of the first {kilobytes(len(text.encode('utf-8', 'replace')))})\n\n"
    lines = text.split("\n")
    sections = sections_of(lines)
    headings = scope + _headings(lines, sections, room - units(scope))
    excerpts = _excerpts(lines, sections, room - units(headings))
    return clip(headings + excerpts, max(room, 0))


def _headings(lines: list[str], sections: list[Section], room: int) -> str:
    """Return the headings with lines and sizes, as deep as a share of the room allows; left-out ones are counted."""
    listed = [section for section in sections if section["level"] < BELOW_HEADINGS]
    if not listed:
        return ""
    sizes = [0]
    for line in lines:
        sizes.append(sizes[-1] + (len(line) if line.isascii() else len(line.encode("utf-8", "replace"))) + 1)
    texts = [(section["level"], _heading(section, sizes)) for section in listed]
    kept = [text for _, text in texts]
    top = max(listed[0]["level"], 2)
    for depth in range(5, top - 1, -1):
        if sum(map(units, kept)) <= room * DEEP_SHARE:
            break
        kept = [text for level, text in texts if level <= depth] or kept
    left = room * HEADINGS_SHARE - ROOM_FOR_MORE
    for count, text in enumerate(kept):
        left -= units(text)
        if left < 0:
            del kept[count:]
            break
    if len(kept) < len(texts):
        kept.append(f"(and {len(texts) - len(kept)} {'more' if kept else 'headings'})\n")
    return "".join(kept) + "\n"


def _heading(section: Section, sizes: list[int]) -> str:
    size = (sizes[section["end"]] - sizes[section["start"]]) / 1024
    title = f"{'#' * section['level']} {one_line(section['title'], MAX_TITLE)}"
    return f"{section['start'] + 1}-{section['end']} {title} ({size:.1f} KB)\n"


def _excerpts(lines: list[str], sections: list[Section], room: int) -> str:
    """Return the text of the important sections, each as long as the others keep a part of an equal share.

    The rest of the text follows from its top; no line appears twice.
    """
    groups = _groups(sections)
    wanted = [sum([units(_lines_text(lines, *span)) for span in group]) for group in groups]
    least = shares(wanted, int(room * MIN_SHARE))
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
    """Return the line spans of the important sections, the most important group first, no line twice."""
    groups, taken = [], set()
    wanted = wanted_in(sections)
    for name in IMPORTANT:
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
    """Return the lines of spans in order, as many as fit; adjoining spans are joined."""
    pieces = []
    for start, end in _join(spans):
        piece = _lines_text(lines, start, end)
        fits = units(piece) <= room
        if not fits and room < MIN_TEXT:
            break
        pieces.append(piece if fits else _beginning(lines, start, end, room))
        room -= units(pieces[-1])
    return "".join(pieces)


def _join(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
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
    """Return the first lines that fit, or the beginning of the first, with "…" if more follows."""
    left = room - len(f"[lines {start + 1}-{end}]\n\n```\n…\n")
    at = start
    while at < end and units(lines[at]) + 1 <= left:
        left -= units(lines[at]) + 1
        at += 1
    kept = lines[:at]
    if left > MIN_TEXT and at < end:
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
    """Return the members of a JSON object, one on each line: small ones whole, the others cut to a fair share."""
    kept = list(members.items())[: max(room, 0) // MIN_MEMBER]
    try:
        texts = [one_line(f"{name}: {json.dumps(value, ensure_ascii=False)}", 4000) for name, value in kept]
    except RecursionError:
        return ""
    more = f"(and {len(members) - len(kept)} more)\n" if len(kept) < len(members) else ""
    limits = shares([units(line) for line in texts], room - len(texts) - len(more))
    return "".join([clip(line, limit) + "\n" for line, limit in zip(texts, limits, strict=True)]) + more
