"""The plugin's skills, read as the client reads them: the frontmatter's fields, and the text with its command."""

from __future__ import annotations

import re
from pathlib import Path

PLUGIN = Path(__file__).parents[2] / "plugin"
SKILLS = ["note", "reconstitute", "session-load", "session-save", "status", "what-happened"]
PARTS = re.compile(r"---\n((?:[a-z-]+: .+\n)+)---\n\n(.+)", re.DOTALL)
TIME = "date -u +%FT%TZ"  # when the skill was asked: the client shows an old one's output again after a compaction
INLINE = re.compile(r"!`([^`]*)`")


def read_skill(name: str) -> tuple[dict[str, str], str]:
    """Return a skill's fields and its text."""
    found = PARTS.fullmatch((PLUGIN / "skills" / name / "SKILL.md").read_text())
    assert found is not None, name
    return dict(line.split(": ", 1) for line in found[1].splitlines()), found[2]


def inline_command(name: str, arguments: str) -> str:
    """Return the line that the client gives to a shell, with the arguments that the user typed."""
    at, command = INLINE.findall(read_skill(name)[1])
    assert at == TIME
    return str(command).replace("$ARGUMENTS", arguments)
