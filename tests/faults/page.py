"""Write results into a page: into docs/internals/RELIABILITY.md unless another is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "RELIABILITY.md"


def write_lines(name: str, lines: Iterable[str], *, by: str = "make faults", page: Path = PAGE) -> None:
    """Write lines between the marks of `name` on a page."""
    begin, end = f"<!-- begin of {name}, written by `{by}` -->", f"<!-- end of {name} -->"
    text = "\n".join([begin, *lines, "", end])
    written = page.read_text(encoding="utf-8")
    head, _, rest = written.partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(head + text + tail, encoding="utf-8")
