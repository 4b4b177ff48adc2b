"""Insert events from elsewhere, a file or a server, into a run's log, and write the blocks that follow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.encoding import ID
from faber_ledger.ledger.errors import IntegrityError, LedgerError, StateMissing
from faber_ledger.ledger.gate import Refused
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.roots import find_start, take_out_others
from faber_ledger.ledger.union import OTHER_CONTENT, Passing, hash_in
from faber_ledger.recording.recording import drain_waiting, record_before_projecting
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.log import lacks_ledger, open_run_log, read_log
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.publish import why_not_published
from faber_ledger.runs.run import Run, path_form
from faber_ledger.runs.seen import TreeNote
from faber_ledger.runs.state_write import read_known

CACHE_SIZE = 65_536  # KB: ids come in any order, and with SQLite's 2 MB a long log's index is read again and again
OTHER_START = "it starts another run"


class Inserted(NamedTuple):
    """What became of events that a log was offered.

    `added`: the number of those that entered it; `refused`: those that did not; `dropped`: by id, why an event entered
    without its payload; `restored`: the number of payloads that the log had lost.
    """

    added: int
    refused: list[Refused]
    dropped: list[tuple[str, str]]
    restored: int = 0

    @property
    def conflicts(self) -> list[Refused]:
        """The refused events that the log has with another content."""
        return [one for one in self.refused if one.why == OTHER_CONTENT]


def insert_passing(
    run: Run, offered: Log, first_ids: Sequence[str], warn: Callable[[str], None], *, dry_run: bool = False
) -> Inserted:
    """Insert the events of another log, which is changed, that pass into a run's log: all of them or nothing.

    With `dry_run`, only say what would become of them.

    The run's log keeps what it has. A run that is new here gets its folder, unless none of the events starts it. Of
    several starts of one run the first in `first_ids`, the ids of the events with seq 1 in the order in which they
    became known, is the run's. Raises LedgerError, UnionConflict, and as `lock_run` and
    `open_run_log`.
    """
    taken_out = take_out_others(offered, lambda name: path_form(name) == path_form(run.run_id))
    others = [Refused(row, OTHER_START) for row in taken_out]
    is_new = lacks_ledger(run)
    start = find_start(offered, first_ids) if is_new else None
    if dry_run or (is_new and start is None):  # of a log that no event starts, nothing passes
        with nullcontext() if is_new else read_log(run, warn) as log:
            passing = Passing([offered], log)
            return Inserted(sum(1 for _ in passing), [*others, *passing.refused], passing.dropped)
    try:
        os.makedirs(run.directory, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"cannot create {run.directory}: {error.strerror}", hint="check the permissions of the .fractary folder"
        ) from error
    with lock_run(run), open_run_log(run, warn) as opened, opened.log.writing():
        opened.log.connection.execute(f"PRAGMA cache_size = -{CACHE_SIZE}")
        first = [start] if start is not None and not opened.log.heads() else []
        if first:
            opened.insert_rows([row for row in first if hash_in(opened.log, row[ID]) is None])
        before = opened.log.count_events()
        passing = Passing([offered], opened.log)
        opened.insert_rows(passing, passing.payloads)  # which has them once the rows were taken
        added = opened.log.count_events() - before + len(first)
        opened.commit()
        new = [one for one in others if hash_in(opened.log, one.id) != one.hash]
        return Inserted(added, [*new, *passing.refused], passing.dropped, opened.restored)


def write_blocks(run: Run, *, warn: Callable[[str], None], defaults: dict[str, str] | None = None) -> int:
    """Write a run's blocks after events were inserted, and return the exit code.

    If that fails, only warn, since the events are in the log by now. Without `defaults`, a run without a state.json
    gets none, and nothing is folded where this clone does not publish the run. Raises IntegrityError.
    """
    try:
        drain_waiting(run, now(), warn=warn)
        if defaults is None and not run.is_kept and _why_not_published(run) is not None:
            return 0
        record_before_projecting(run, now(), warn=warn)
        reproject(run, rebuild=False, warn=warn, defaults=defaults)
    except StateMissing:
        return 0
    except IntegrityError:
        raise
    except LedgerError as error:
        warn(f"the events are in the log, and state.json does not show them yet: {error.message}")
        warn(f"hint: {error.hint or f'run `faber-ledger project {run.run_id}`'}")
        return error.exit_code
    return 0


def _why_not_published(run: Run) -> str | None:
    with read_log(run) as log:
        return why_not_published(run, read_known(run).value, TreeNote(run), log)
