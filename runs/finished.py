"""The last events of a finished run that is committed: they are recorded on the kept run, so that main stays clean.

FABER commits a finished run while its last session is open. The end of that session would change the ledger on main
after every merged run. It is in this clone's mirror alone, until `seal RUN`, or the next event on the run, brings it
into the file.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.plain_json import loads
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.projections.fold import fold
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import is_recovery_due
from faber_ledger.runs.copies import is_as_in_head, read_state_in_head
from faber_ledger.runs.kept import kept_run
from faber_ledger.runs.run_log import open_log
from faber_ledger.runs.united import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run


def run_to_record_on(run: Run, state: JsonText | None) -> Run:
    """Return the run that a session's end is recorded on: the kept one if `run` is finished and its ledger committed.

    The caller holds the run's lock, and has read the state under it.
    """
    if run.is_kept or state is None or not is_finished_and_committed(run, state):
        return run
    return kept_run(run.root, run.run_id) or run


def is_finished_and_committed(run: Run, state: JsonText) -> bool:
    """Return whether a run is finished and git's last commit has it so, with its ledger as it is."""
    is_finished = state.value.get("status") in progress.FINISHED
    return is_finished and not is_recovery_due(run) and is_as_in_head(run) and _is_finished_in_head(run)


def _is_finished_in_head(run: Run) -> bool:
    """Return whether git's last commit has a run as finished, which is finished here.

    Where git ignores its state.json, or the committed one is not readable, the one here counts.
    """
    content = read_state_in_head(run)
    try:
        state = loads(content.decode()) if content is not None else None
    except (ValueError, RecursionError):
        return True
    return not isinstance(state, dict) or state.get("status") in progress.FINISHED


def bring_up_to_date(kept: Run, run: Run, state: JsonText, warn: Callable[[str], None]) -> None:
    """Copy to a kept run the events of the run's ledger that it lacks, and the other tools' keys of the run's state.

    The run's backup of its state is removed if the state shows what its log says: no event comes that would do it. The
    caller holds the locks of both. Raises as `open_log`, and LedgerError and sqlite3.Error if the two logs cannot be
    united.
    """
    with read_file(run) as log, open_log(kept, warn) as opened:
        if log.heads() != opened.log.heads():
            from faber_ledger.ledger.union import missing_rows  # as after a pull

            opened.insert_rows(lambda known: missing_rows(known, log), log.connection)
        opened.commit()
        is_shown = os.path.lexists(run.backup_path) and _is_shown(state_write.KnownState(state), log)
    if is_shown:
        state_write.remove_backup(run)
    try:
        shown = blocks_of(state_file.read_state(kept).value)
    except LedgerError:
        shown = {}
    state_write.copy_state(run, state.with_members(shown).encode(), warn)


def _is_shown(state: state_write.KnownState, log: Log) -> bool:
    """Return whether a state has the blocks of a log, which is folded where others wrote its checkpoint."""
    return state.shows(log) if log.has_own_checkpoint else state.texts == state_write.texts_of(fold(log.stream()))
