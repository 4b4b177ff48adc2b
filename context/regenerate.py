"""Making `state.json` show the log again: its two blocks, the file itself, or a backup with the blocks of today."""

from __future__ import annotations

import json
import os

from faber_ledger.context import state as states
from faber_ledger.context.mirror import MirroredLog
from faber_ledger.context.mirror_path import remembered
from faber_ledger.context.old_copies import remove_old_copies
from faber_ledger.ledger.errors import LedgerError, RunNotFound, StateInvalid, StateMissing
from faber_ledger.ledger.lock import RunLock
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.fold import PROJECTOR, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.project import Run
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.blocks import Blocks

UNKNOWN = ("status", "workflow_version", "target", "started_at", "phases", "artifacts")


def regenerated(
    run: Run,
    *,
    rebuild: bool,
    warn: Callable[[str], None],
    redacted: bool = False,
    made: dict[str, str] | None = None,
) -> tuple[bool, list[str]]:
    """Write a run's blocks from its log; tell whether state.json changed, and which keys a made one could not know.

    With `redacted` a payload was taken out of the log just before: once state.json is without it too, older copies go.
    Raises as `read_state`, `write_blocks`, `RunLock` and `Log.open`, and RunNotFound for a log without an event; a
    missing state.json is made of the log, and of what `made` gives.
    """
    with RunLock(run.lock_path), MirroredLog(run, warn) as opened:
        _check_has_events(opened.log, run)
        done = _written(run, opened, rebuild=rebuild, warn=warn, made=made or {})
        if redacted or opened.redacted:
            remove_old_copies(run, opened.log)
        return done


def _written(
    run: Run, opened: MirroredLog, *, rebuild: bool, warn: Callable[[str], None], made: dict[str, str]
) -> tuple[bool, list[str]]:
    try:
        state = states.read_state(run).value
    except StateMissing:
        blocks, known = _folded(opened), {**_known(opened.log, run), **made}
        states.write_new(run, json.dumps({**known, **blocks}, indent=2, ensure_ascii=False) + "\n")
        return True, [name for name in ("workflow_id", "work_id", "current_phase", *UNKNOWN) if name not in known]
    if not rebuild and opened.log.is_checkpoint(PROJECTOR, shape.digest(shape.blocks_of(state))):
        if opened.returned:
            opened.commit()  # state.json has shown all along what came back from the mirror
        return False, []
    changed = states.write_blocks(run, _folded(opened), warn=warn)
    if state.get("status") in states.FINISHED:
        states.remove_backup(run)
    return changed, []


def restored(run: Run, *, warn: Callable[[str], None]) -> tuple[str, bool]:
    """Put the newest readable backup in the place of state.json, and the log's blocks into it if it has an event.

    Gives the backup's name and whether there was a log to project. Raises LedgerError if state.json can be read or no
    backup can, and as `Log.open`.
    """
    with RunLock(run.lock_path):
        if not (os.path.lexists(run.ledger_path) or remembered(run)):
            return _put_back(run), False
        with MirroredLog(run, warn) as opened:
            name = _put_back(run)
            if not opened.log.heads():  # as a killed first hook leaves it: the next event adopts what was restored
                return name, False
            states.write_blocks(run, _folded(opened), warn=warn)
            if opened.redacted:
                remove_old_copies(run, opened.log)
            return name, True


def _put_back(run: Run) -> str:
    if _is_readable(run):
        raise LedgerError(
            f"{run.shown('state.json')} can be read, and a backup of it is older",
            hint=f"run `faber-ledger project {run.run_id}` to write its two blocks from the log",
        )
    found = states.read_backup(run)
    if found is None:
        raise LedgerError(
            f"the run {run.run_id} has no backup that can be read",
            hint=f"restore state.json from git, or move it aside and run `faber-ledger project {run.run_id}`",
        )
    name, backup = found
    if os.path.lexists(run.state_path):
        states.check_writable(run, os.lstat(run.state_path))
        os.replace(run.state_path, run.state_path + ".broken.backup")
    states.write_new(run, backup.text, like=os.path.join(run.directory, name))
    return name


def _check_has_events(log: Log, run: Run) -> None:
    """Refuse an empty log, as a killed first hook leaves it: the blocks in state.json are still to be adopted."""
    if not log.heads():
        from faber_ledger.context.lost_ledger import loss_of_events  # asks git

        lost = loss_of_events(run)
        if lost is not None:
            raise RunNotFound(lost[0], hint=lost[1])
        raise RunNotFound(
            f"the ledger of the run {run.run_id} holds no event yet",
            hint="its first event takes over what state.json says: run `faber-ledger session-load`",
        )


def _is_readable(run: Run) -> bool:
    try:
        states.read_state(run)
    except (StateInvalid, StateMissing):
        return False
    return True


def _folded(opened: MirroredLog) -> Blocks:
    from faber_ledger.ledger.checked import checked  # with OpenSSL, which hooks go without

    log = opened.log
    blocks = fold(checked(log))
    with log.writing():
        log.set_checkpoint(PROJECTOR, shape.digest(blocks))
        opened.commit()
    return blocks


def _known(log: Log, run: Run) -> dict[str, Any]:
    """Give what a log knows of the keys of a state that are not its own."""
    known: dict[str, Any] = {"run_id": run.run_id}
    for recorded in log.stream():
        known |= _said_by(recorded)
    return known


def _said_by(recorded: Recorded) -> dict[str, Any]:
    event = recorded["event"]
    if event["type"] == "run_started":
        return {"workflow_id": event["workflow_id"], "work_id": event["work_id"]}
    if event["type"] in ("session_started", "session_ended") and event["phase"] is not None:
        return {"current_phase": event["phase"]}
    return {}
