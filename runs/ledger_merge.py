"""Merge two versions of a `ledger.db` that git brought: the union of both, or the one that can be read."""

from __future__ import annotations

import sqlite3

from faber_ledger.ledger.errors import IntegrityError, LedgerError, NewerFormat, UnionConflict
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.union import merge_rows, write_union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_ledgers(sides: Mapping[str, str], out: str) -> tuple[int, list[str]]:
    """Write the union of ledgers, by the names of their sides, to `out`; return its number of events, and what to say.

    A side that cannot be read is left out, and named; so is each event that the gate refuses. Raises NewerFormat,
    UnionConflict for two runs under one id, and IntegrityError if no side can be read; `out` is unchanged then.
    """
    try:
        return _unite([*sides.values()], out)
    except (NewerFormat, UnionConflict):
        raise
    except (LedgerError, sqlite3.Error):
        faults = {side: fault for side, path in sides.items() if (fault := _find_fault(path)) is not None}
    lines = [f"{side} cannot be read and is left out: {fault}" for side, fault in faults.items()]
    readable = [path for side, path in sides.items() if side not in faults]
    if not readable:
        raise IntegrityError("; ".join([f"{side} cannot be read: {fault}" for side, fault in faults.items()]))
    count, more = _unite(readable, out)
    return count, [*lines, *more]


def _unite(paths: list[str], out: str) -> tuple[int, list[str]]:
    united = write_union(paths, out, adopts=True)
    return united.count, [*united.lines_left_out()]


def _find_fault(path: str) -> str | None:
    """Return why a ledger cannot be read to its end, or None."""
    try:
        with open_untrusted(path, check_values=False) as log:
            for _ in merge_rows([log]):
                pass
    except (LedgerError, sqlite3.Error) as error:
        return str(error).replace(path, "it")
    return None
