"""Read a run's log as this clone has it: its file, and the events that only the mirror has, united in memory."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import IndexesLie, IntegrityError, LedgerError
from faber_ledger.ledger.file import FORMAT_1, sqlite3, statements
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.runs.clone import is_empty, mirror_path
from faber_ledger.runs.ledger_notes import ALL, NOTHING, find_judged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


def read_log(run: Run) -> Log:
    """Open a run's log for reading, with the events of the mirror that its file lacks; raises as `Log.read`.

    The two are united only if they differ. A mirror that cannot be read, or united with the file, adds nothing.
    Of a file that is no sound log what passes is added to the mirror; without one, to nothing, if its indexes lie.
    """
    return open_united(run)[0]


def open_united(run: Run) -> tuple[Log, bool]:
    """Open a run's log as `read_log` does; return it, and whether the mirror has added events."""
    try:
        log = read_file(run)
    except IntegrityError as error:
        beside = _read_beside(run, is_readable=isinstance(error, IndexesLie))
        if beside is None:
            raise
        return beside, True
    try:
        united = _unite(run, log)
    except (LedgerError, OSError, sqlite3.Error):
        united = None
    if united is None:
        shown = log if _has_mirror(run) else _hide_unusable(log)
        shown.has_own_checkpoint = log.has_own_checkpoint
        return shown, shown is not log
    log.close()
    united[0].has_own_checkpoint = False
    return united[0], True


def read_file(run: Run) -> Log:
    """Open a run's file for reading, as it is; raises as `Log.read`.

    Of one that git or another program has written, the checkpoint proves nothing, and IndexesLie is raised if its
    indexes or its order lie.
    """
    log = Log.read(run.ledger_path)
    judged = ALL if run.is_kept else find_judged(run.ledger_path)
    log.has_own_checkpoint = judged == ALL
    if judged == NOTHING:
        from faber_ledger.ledger.table import check_indexes

        try:
            check_indexes(log)
        except BaseException:
            log.close()
            raise
    return log


def _has_mirror(run: Run) -> bool:
    path = mirror_path(run)
    return path is not None and os.path.isfile(path) and not is_empty(path)


def _hide_unusable(log: Log) -> Log:
    """Hide what a mirror, which there is not yet, would lack; a damaged log is returned as it is."""
    from faber_ledger.ledger.usable import hide_unusable

    try:
        return hide_unusable(log)
    except (IntegrityError, sqlite3.Error):
        return log


def _read_beside(run: Run, *, is_readable: bool) -> Log | None:
    """Return a log in memory with the mirror's events and what passes of the run's file, which is no sound log.

    None without a mirror, unless the file itself `is_readable`, or if neither has an event.
    """
    path = mirror_path(run) if _has_mirror(run) else None
    if path is None and not is_readable:
        return None
    from faber_ledger.ledger.effective import effective_redactions
    from faber_ledger.ledger.redaction import strip_in_place
    from faber_ledger.runs.refusals import take_passing

    if path is None:
        united = _make_empty(run)
    else:
        try:
            with Log.read(path) as mirror:
                united = _copy_with(mirror, ())
        except (LedgerError, OSError, sqlite3.Error):
            return None
    take_passing(run, united)
    if not united.heads():
        united.close()
        return None
    united.has_own_checkpoint = False
    strip_in_place(united.connection, effective_redactions(united.connection).gone)
    united.connection.execute("COMMIT")
    united.path = run.ledger_path
    return united


def _make_empty(run: Run) -> Log:
    """Return a log in memory without events, in an open transaction."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    for statement in statements(FORMAT_1):
        memory.execute(statement)
    memory.execute("BEGIN")
    return Log(memory, run.ledger_path)


def find_fault(run: Run) -> str | None:
    """Return why a run's file is no sound log, so that `read_log` takes the mirror; None if it is one."""
    try:
        read_file(run).close()
    except IntegrityError as error:
        return error.message
    except (LedgerError, OSError, sqlite3.Error):
        pass
    return None


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


def list_refused(run: Run) -> list[object]:
    """Return the ids of the events of a run's file that `read_log` leaves out, since the gate refuses them.

    Raises nothing; empty without git.
    """
    try:
        with read_file(run) as log:
            united = _unite(run, log)
    except (LedgerError, OSError, sqlite3.Error):
        return []
    if united is None:
        return []
    united[0].close()
    return [row[1] for row in united[1]]


def _unite(run: Run, log: Log) -> tuple[Log, list[Row]] | None:
    """Return a log in memory with the mirror's events and what passes of the file's, and the rows that do not.

    None if the mirror has no more than the file, and all of the file's pass. A clone that has recorded nothing yet has
    no mirror.
    """
    path = mirror_path(run)
    if path is None:
        return None
    if not os.path.isfile(path) or is_empty(path):
        return _judge(log)
    with Log.read(path) as mirror:
        if mirror.heads() == log.heads() and find_judged(log.path) != NOTHING:
            return None
        # Only after git has written the file, or a recording on the mirror.
        from faber_ledger.ledger.union import has_same_rows, missing_rows

        if has_same_rows(log, mirror):
            return None
        from faber_ledger.ledger.effective import effective_redactions, lost_rows
        from faber_ledger.ledger.redaction import restore_rows, still_holds_payload, strip_in_place
        from faber_ledger.runs.refusals import find_refused

        united = _copy_with(mirror, passing := missing_rows(mirror, log, keeps=True))
        refused = find_refused(log, united, passing)
        copies = [log.connection, mirror.connection]
        gone = effective_redactions(*([united.connection] if refused else copies)).gone
        rows: list[Row] = []
        if not refused:
            united.close()
            rows = list(missing_rows(log, mirror))
            united = _copy_with(log, rows)
        lost = lost_rows(united.connection, copies, gone)
        if not (refused or rows or lost or still_holds_payload(log.connection, gone)):
            united.close()
            return None
        if lost:
            restore_rows(united.connection, lost)
        strip_in_place(united.connection, gone)
        united.connection.execute("COMMIT")
    united.path = log.path
    return united, refused


def _judge(log: Log) -> tuple[Log, list[Row]] | None:
    """Return a log in memory with what passes of a log's events, and the rows that do not; None if all pass."""
    from faber_ledger.ledger.effective import effective_redactions
    from faber_ledger.ledger.redaction import strip_in_place
    from faber_ledger.ledger.union import merge_rows, replace_rows

    passing = merge_rows([log])
    for _ in passing:
        pass  # nearly always all pass, and a long log needs no copy
    refused = [one.row for one in passing.refused if one.is_new]
    if not refused and not passing.dropped:
        return None
    memory = sqlite3.connect(":memory:", isolation_level=None)
    log.connection.backup(memory)
    judged = Log(memory, log.path)
    memory.execute("BEGIN")
    replace_rows(judged, merge_rows([log]))
    strip_in_place(memory, effective_redactions(memory).gone)
    memory.execute("COMMIT")
    return judged, refused


def _copy_with(base: Log, rows: Iterable[Row]) -> Log:
    """Return a copy of a log in memory with more rows, in an open transaction."""
    from faber_ledger.ledger.union import insert_rows

    memory = sqlite3.connect(":memory:", isolation_level=None)
    base.connection.backup(memory)
    united = Log(memory, base.path)
    memory.execute("BEGIN")
    insert_rows(united, rows)
    return united
