"""Rows as aligned columns, and counts with their nouns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faber_ledger.files.text import escape


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the rows as lines, each column as wide as its widest cell; all rows have the same number of cells.

    A cell may be any text of a repository: each row is one line.
    """
    rows = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: `1 event`, `3 events`; `nouns` is a plural that is not formed with s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
