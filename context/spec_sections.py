"""A specification's front matter, and the sections that an implementer needs (RECON, 0.2 Load Specification)."""

from __future__ import annotations

import re

from faber_ledger.context.headings import FRONT_MATTER_LINES, sections_of, wanted_in

BLOCK_SCALAR = r"[|>][-+0-9]*(?:[ \t]+#.*)?"


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
    return next((section["title"] for section in sections_of(text.split("\n")) if section["level"] == 1), None)


def wanted_sections(text: str) -> dict[str, str | None]:
    """Give the wanted sections, each with its heading, several of a kind one after the other, or None."""
    lines = text.split("\n")
    told: dict[str, str | None] = {}
    for name, sections in wanted_in(sections_of(lines)).items():
        pieces, end = [], 0
        for section in sections:
            if section["start"] >= end:
                end = section["end"]
                pieces.append("\n".join(lines[section["start"] : end]).strip())
        told[name] = "\n\n".join(pieces) or None
    return told


def _scalar(value: str) -> str | None:
    """Give a plain or quoted value in one line; None for a block that follows."""
    value = value.strip()
    if re.fullmatch(BLOCK_SCALAR, value):
        return None
    single = re.match(r"'((?:[^']|'')*)", value)
    if single:
        return single[1].replace("''", "'")
    if value[:1] == '"':
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value[1:]
    return value.split(" #", 1)[0].rstrip()
