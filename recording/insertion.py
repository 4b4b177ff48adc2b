"""Insert events from elsewhere, a file or a server, into a run's log, and write the blocks that follow."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import NamedTuple

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import IntegrityError, LedgerError, StateMissing
from faber_ledger.ledger.gate import Refused
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.roots import STARTED, roots_in
from faber_ledger.ledger.row import ID, PAYLOAD, TYPE, is_place, parse_payload
from faber_ledger.ledger.union import OTHER_CONTENT, hash_in, merge_rows, missing_rows
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs.copies import mirror_with_events
from faber_ledger.runs.lost import lacks_ledger
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.run import path_form
from faber_ledger.runs.run_log import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.run_log import RunLog

    Row = tuple[Any, ...]


OTHER_START = "it starts another run"


class Inserted(NamedTuple):
    """What became of events that a log was offered.

    `added`: the number of those that entered it; `refused`: those that did not; `dropped`: by id, why an event entered
    without its payload. `redacted`: whether a payload was removed from the log.
    """

    added: int
    refused: list[Refused]
    dropped: list[tuple[str, str]]
    redacted: bool

    @property
    def conflicts(self) -> list[Refused]:
        """The refused events of which the log has another content."""
        return [one for one in self.refused if one.why == OTHER_CONTENT]


@contextmanager
def open_to_insert(run: Run, warn: Callable[[str], None]) -> Iterator[RunLog]:
    """Open a run's log under its lock, with its folder made; raises LedgerError, and as `RunLock` and `open_log`.

    What was inserted counts once the caller commits it.
    """
    try:
        os.makedirs(run.directory, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"cannot create {run.directory}: {error.strerror}", hint="check the permissions of the .fractary folder"
        ) from error
    with RunLock(run.lock_path), open_log(run, warn) as opened, opened.log.writing():
        yield opened


def insert_passing(run: Run, offered: Log, first_ids: Sequence[str], warn: Callable[[str], None]) -> Inserted:
    """Insert the events of another log, which is changed, that pass into a run's log: all of them or nothing.

    The run's log keeps what it has. A run that is new here gets its folder, unless none of the events starts it. Of
    several starts of one run the first in `first_ids`, the ids of the events with seq 1 in the order in which they
    became known, is the run's. Raises as `open_to_insert`, and UnionConflict.
    """
    others = _take_out_others(run, offered)
    start = None
    if lacks_ledger(run) and mirror_with_events(run) is None:
        start = _find_start(offered, first_ids)
        if start is None:
            return Inserted(0, [*others, *_refuse_all(offered)], [], redacted=False)
    with open_to_insert(run, warn) as opened:
        first = [start] if start is not None and not opened.log.heads() else []
        if first:
            opened.insert_rows(lambda log: [row for row in first if hash_in(log, row[ID]) is None], offered.connection)
        offer = _Offer(offered)
        opened.insert_rows(offer.missing_in, offered.connection)
        opened.commit()
        new = [one for one in others if hash_in(opened.log, one.id) != one.hash]
        refused = [*new, *offer.passing.refused]
        return Inserted(offer.added + len(first), refused, offer.passing.dropped, redacted=opened.redacted)


class _Offer:
    """The events that are offered to a log, and to its mirror after it; `passing` and `added` are about the log."""

    def __init__(self, offered: Log) -> None:
        self._offered = offered
        self._has_begun = False
        self.added = 0

    def missing_in(self, log: Log) -> Iterator[Row]:
        """Yield the events that a log lacks and that pass."""
        passing = missing_rows(log, self._offered, keeps=True)
        if self._has_begun:
            yield from passing
            return
        self.passing, self._has_begun = passing, True
        for row in passing:
            self.added += not is_place(row)
            yield row


def _take_out_others(run: Run, offered: Log) -> list[Refused]:
    """Take the first events that name another run out of the offered log, and return them."""
    others = [row for row in roots_in(offered.connection).values() if not _may_start(run, row)]
    offered.connection.executemany("DELETE FROM event WHERE id = ?", [(row[ID],) for row in others])
    return [Refused(row, OTHER_START) for row in others]


def _may_start(run: Run, row: Row) -> bool:
    if row[PAYLOAD] is None or row[TYPE] != STARTED:
        return True
    named = (parse_payload(row[PAYLOAD]) or {}).get("run_id")
    return isinstance(named, str) and path_form(named) == path_form(run.run_id)


def _find_start(offered: Log, first_ids: Sequence[str]) -> Row | None:
    """Return the event with which a run begins that this clone does not have, or None; an adopted run has several."""
    found = {row[ID]: row for row in roots_in(offered.connection).values()}
    in_order = sorted(found, key=lambda name: first_ids.index(name) if name in first_ids else len(first_ids))
    return found[in_order[0]] if in_order else None


def _refuse_all(offered: Log) -> list[Refused]:
    """Return what the gate refuses of a log that no event starts."""
    passing = merge_rows([offered])
    for _ in passing:
        pass
    return passing.refused


def write_blocks(
    run: Run, *, redacted: bool, warn: Callable[[str], None], defaults: dict[str, str] | None = None
) -> int:
    """Write a run's blocks after events were inserted, and return the exit code.

    If that fails, only warn, since the events are in the log by now. Without `defaults`, a run without a state.json
    gets none. Raises IntegrityError.
    """
    try:
        record_before_projecting(run, now(), warn=warn)
        reproject(run, rebuild=False, warn=warn, redacted=redacted, defaults=defaults)
    except StateMissing:
        return 0
    except IntegrityError:
        raise
    except LedgerError as error:
        warn(f"the events are in the log, and state.json does not show them yet: {error.message}")
        warn(f"hint: {error.hint or f'run `faber-ledger project {run.run_id}`'}")
        return error.exit_code
    return 0
