"""The first events of logs, which say whose run they are: two logs are of one run only if they share one.

Only an intact event without a parent counts: anybody can write a hash into a column. Two different `run_started` are
two runs, whatever else their logs share: a stranger can copy a first event, and would get what this clone keeps.
"""

from __future__ import annotations

from faber_ledger.ledger.encoding import HASH, ID, PAYLOAD, ROW, TYPE, decode_any, parse_payload
from faber_ledger.ledger.gate import examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.file import sqlite3
    from faber_ledger.ledger.log import Log


STARTED, ADOPTED = "run_started", "run_adopted"


def roots_in(connection: sqlite3.Connection) -> dict[bytes, Row]:
    """Return the intact events without a parent, by their hashes."""
    factory, connection.text_factory = connection.text_factory, decode_any
    try:
        rows = map(tuple, connection.execute(f"{ROW} WHERE seq = 1 AND parents = x''"))
        return {row[HASH]: row for row in rows if examine(row).fault is None}
    finally:
        connection.text_factory = factory


def find_foreign_roots(own: Log, log: Log) -> set[bytes]:
    """Return the hashes of the first events that make a log, or a part of it, another run's than `own`."""
    ours, theirs = roots_in(own.connection), roots_in(log.connection)
    if ours and theirs and not ours.keys() & theirs.keys():
        is_adopted = ADOPTED in {row[TYPE] for row in [*ours.values(), *theirs.values()]}
        return set() if is_adopted else {*theirs}
    known, started = [{digest for digest, row in one.items() if row[TYPE] == STARTED} for one in (ours, theirs)]
    return started - known if known or (ours and len(started) > 1) else set()


def take_out_others(offered: Log, is_named: Callable[[str], bool]) -> list[Row]:
    """Take the first events that name another run out of a log, which the gate has not checked yet, and return them."""
    others = [row for row in roots_in(offered.connection).values() if not may_start(row, is_named)]
    offered.connection.executemany("DELETE FROM event WHERE id = ?", [(row[ID],) for row in others])
    return others


def may_start(row: Row, is_named: Callable[[str], bool]) -> bool:
    """Return whether a log of the run may begin with an event: not with a start that names another run."""
    return row[PAYLOAD] is None or row[TYPE] != STARTED or any(map(is_named, runs_named([row])))


def runs_named(rows: Iterable[Row]) -> set[str]:
    """Return the ids of the runs that events begin, sound ones without a parent."""
    named = [(parse_payload(row[PAYLOAD] or "") or {}).get("run_id") for row in rows]
    return {name for name in named if isinstance(name, str)}


def find_start(offered: Log, first_ids: Sequence[str]) -> Row | None:
    """Return the event with which the run of a log begins, or None.

    Of several it is the first in `first_ids`, their ids in the order in which they became known; an adopted run may
    have several.
    """
    found = {row[ID]: row for row in roots_in(offered.connection).values()}
    in_order = sorted(found, key=lambda name: first_ids.index(name) if name in first_ids else len(first_ids))
    return found[in_order[0]] if in_order else None
