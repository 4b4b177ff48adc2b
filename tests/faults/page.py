"""Write results into docs/internals/RELIABILITY.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "RELIABILITY.md"


def write_lines(name: str, lines: Iterable[str]) -> None:
    """Write lines between the marks of `name`."""
    begin, end = f"<!-- begin of {name}, written by `make faults` -->", f"<!-- end of {name} -->"
    text = "\n".join([begin, *lines, "", end])
    written = PAGE.read_text(encoding="utf-8")
    head, _, rest = written.partition(begin)
    _, _, tail = rest.partition(end)
    PAGE.write_text(head + text + tail, encoding="utf-8")
