"""A specification's front matter, and the sections that an implementer needs (RECON, 0.2 Load Specification)."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What RECON wants from a specification, and how real ones head it; the packet's outline looks for the same.
WANTED = {
    "summary": re.compile(r"(?<![-\w])(summary|overview|goals?|objectives?|purpose)\b", re.IGNORECASE),
    "requirements": re.compile(r"\brequirements?\b", re.IGNORECASE),
    "acceptance_criteria": re.compile(r"\b(acceptance|success) criteria\b|\bdefinition of done\b", re.IGNORECASE),
    "technical_approach": re.compile(r"\b(approach|design|architecture|solution)\b", re.IGNORECASE),
    "files": re.compile(r"\bfiles\b|\bfile changes\b", re.IGNORECASE),
    "phases": re.compile(r"\b(phases?|tasks?|implementation (plan|steps))\b", re.IGNORECASE),
}
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
BOLD = re.compile(r" {0,3}\*\*([^*]{1,80})\*\*:?[ \t\r]*$")
FENCE = re.compile(r" {0,3}(```|~~~)")
BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*(?:[ \t]+#.*)?")
BELOW_HEADINGS = 7  # a bold line on its own heads a part of its section, as FABER's own template has it
FRONT_MATTER_LINES = 200


def front_matter(text: str) -> dict[str, str | None]:
    """Read the plain `key: value` lines of a front matter; whatever else stands in it is passed over, or None."""
    lines = text.split("\n", FRONT_MATTER_LINES)[:FRONT_MATTER_LINES]
    if lines[0].strip() != "---":
        return {}
    found: dict[str, str | None] = {}
    for line in lines[1:]:
        if line.strip() in ("---", "..."):
            return found
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace() and not key.startswith(("#", "-")):
            found.setdefault(key.strip(), _scalar(value))
    return {}  # it never ends: a rule across the page, and no front matter


def title_of(text: str) -> str | None:
    """Give a text's first heading of the first level, or None."""
    return next((title for _, level, title in _headings(text.split("\n")) if level == 1), None)


def sections_of(text: str) -> dict[str, str | None]:
    """Give the wanted sections, each with its heading, several of a kind one after the other, or None."""
    lines = text.split("\n")
    headings = list(_headings(lines))
    found: dict[str, str | None] = {}
    for name in WANTED:
        pieces, taken = [], 0
        for count, (start, level, title) in enumerate(headings):
            if start < taken or not is_wanted(name, level, title):
                continue
            taken = next((at for at, other, _ in headings[count + 1 :] if other <= level), len(lines))
            pieces.append("\n".join(lines[start:taken]).strip())
        found[name] = "\n\n".join(pieces) or None
    return found


def is_wanted(name: str, level: int, title: str) -> bool:
    """Tell whether a heading heads what RECON wants; one of the first level names all of the text."""
    return level > 1 and WANTED[name].search(title) is not None


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Give each heading's line, level and title; what stands in a code block is none."""
    fence = ""
    for number, line in enumerate(lines):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        if fence:
            continue
        heading = HEADING.match(line)
        bold = BOLD.match(line) if heading is None else None
        if heading:
            yield number, len(heading[1]), heading[2].rstrip("# \t\r")
        elif bold:
            yield number, BELOW_HEADINGS, bold[1]


def _scalar(value: str) -> str | None:
    """Give a plain or quoted value in one line; None for a block that follows."""
    value = value.strip()
    if BLOCK_SCALAR.fullmatch(value):
        return None
    single = re.match(r"'((?:[^']|'')*)", value)
    if single:
        return single[1].replace("''", "'")
    if value[:1] == '"':
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value[1:]
    return value.split(" #", 1)[0].rstrip()
