"""Read a run's log as this clone has it: its file, and the events that only the mirror has, united in memory."""

from __future__ import annotations

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.runs.copies import mirror_with_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run


def read_log(run: Run) -> Log:
    """Open a run's log for reading, with the events of the mirror that its file lacks; raises as `Log.read`.

    The two are united only if their heads differ. A mirror that cannot be read, or united with the file, adds nothing.
    """
    log = Log.read(run.ledger_path)
    try:
        return _unite(run, log) or log
    except (LedgerError, OSError, sqlite3.Error):
        return log


def blocks_beside(run: Run, found: Blocks) -> Blocks:
    """Return the blocks of a run's log as `read_log` opens it, where its mirror has more; else those that were `found`.

    Raises nothing: a log that cannot be read adds nothing.
    """
    try:
        with Log.read(run.ledger_path) as log:
            united = _unite(run, log)
    except (LedgerError, OSError, sqlite3.Error):
        return found
    if united is None:
        return found
    with united:
        return fold(united.stream())


def _unite(run: Run, log: Log) -> Log | None:
    """Return a log in memory with the mirror's events too, and close `log`; None if the mirror adds nothing."""
    path = mirror_with_events(run)
    if path is None:
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
