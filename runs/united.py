"""Read a run's log as this clone has it: its file, and the events that only the mirror has, united in memory."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.runs.clone import is_empty, mirror_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run


def read_log(run: Run) -> Log:
    """Open a run's log for reading, with the events of the mirror that its file lacks; raises as `Log.read`.

    The two are united only if their heads differ. A mirror that cannot be read, or united with the file, adds nothing.
    """
    return open_united(run)[0]


def open_united(run: Run) -> tuple[Log, bool]:
    """Open a run's log as `read_log` does; return it, and whether the mirror has added events."""
    log = Log.read(run.ledger_path)
    try:
        united = _unite(run, log)
    except (LedgerError, OSError, sqlite3.Error):
        united = None
    return (log, False) if united is None else (united, True)


def blocks_beside(run: Run, found: Blocks) -> Blocks:
    """Return the blocks of a run's log as `read_log` opens it, where its mirror has more; else those that were `found`.

    Raises nothing: a log that cannot be read adds nothing.
    """
    try:
        log, is_united = open_united(run)
        with log:
            return fold(log.stream()) if is_united else found
    except (LedgerError, OSError, sqlite3.Error):
        return found


def _unite(run: Run, log: Log) -> Log | None:
    """Return a log in memory with the mirror's events too, and close `log`; None if the mirror adds nothing."""
    path = mirror_path(run)
    if path is None or not os.path.isfile(path) or is_empty(path):
        return None
    with Log.read(path) as mirror:
        if mirror.heads() == log.heads():
            return None
        from faber_ledger.ledger.effective import effective_redactions  # only after git, or a recording on the mirror
        from faber_ledger.ledger.redaction import strip_in_place
        from faber_ledger.ledger.union import insert_rows, missing_rows

        rows = list(missing_rows(log, mirror))
        if not rows:
            return None
        gone = effective_redactions(log.connection, mirror.connection).gone
        memory = sqlite3.connect(":memory:", isolation_level=None)
        log.connection.backup(memory)
        united = Log(memory, log.path)
        memory.execute("BEGIN")
        insert_rows(united, rows)
        strip_in_place(memory, gone)
        memory.execute("COMMIT")
    log.close()
    return united
