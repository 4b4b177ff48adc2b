"""Project a log onto `state.json`, after restoring the file, or the run itself, where it is missing."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from faber_ledger.ledger import BACKUP_ENDING, disk
from faber_ledger.ledger.disk import FileRefused, folder_around, read_regular
from faber_ledger.ledger.errors import IntegrityError, LedgerError, NotWritable, RunNotFound, StateInvalid, StateMissing
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import blocks_of, fold
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.copies import read_in_head
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import copy_writers, find_run, sent_path, tree_name
from faber_ledger.runs.log import has_log, lacks_ledger, open_run_log
from faber_ledger.runs.old_copies import remove_old_copies
from faber_ledger.runs.publish import why_not_published
from faber_ledger.runs.run import is_run_id
from faber_ledger.runs.seen import LARGEST
from faber_ledger.runs.state_file import LARGEST_METADATA, metadata_copy_path, read_state_copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.runs.log import RunLog
    from faber_ledger.runs.run import Run

    # The name of what has the state, the state, and the file whose permissions it has.
    OldState = tuple[str, JsonText, str | None]


COPY = "this clone's copy"  # a source of a restored state
NEVER_KNOWN = ("status", "workflow_version", "target", "started_at", "phases", "artifacts")


class Reprojection(NamedTuple):
    """What `reproject` did.

    `source` is the name of the copy, backup or commit that a missing state.json was restored from; `unknown` has the
    keys that the new file lacks if there was none.
    """

    source: str | None
    is_changed: bool
    unknown: Sequence[str] = ()


def reproject(
    run: Run, *, rebuild: bool, warn: Warn, defaults: dict[str, str] | None = None, on_purpose: bool = False
) -> Reprojection:
    """Write a run's blocks from its log.

    With `defaults` a missing state.json is written: from this clone's copy, else a backup, else git; else from the log
    and from `defaults`, without the keys that neither knows. The file and the blocks are published with it.
    Where a payload was removed from the log, older copies are removed once state.json lacks it too.
    The run is published `on_purpose` wherever its folder is. Raises as `read_state`, `project_blocks`, `RunLock` and
    `open_log`, RunNotFound for a log without an event, and NotWritable for a directory in the place of `ledger.db`.
    """
    if has_directory(run):
        message = f"{run.shown(run.ledger_path)} is a directory, where the ledger is published"
        raise NotWritable(message, hint=f"remove it, then run `faber-ledger project {run.run_id}`")
    if rebuild:
        _make_damaged_log_again(run, warn)
    with lock_run(run), open_run_log(run, warn) as opened:
        _check_has_events(opened.log, run)
        try:
            result = _project(run, opened, rebuild=rebuild, warn=warn, defaults=defaults, on_purpose=on_purpose)
        except StateMissing:
            if opened.redacted:
                remove_old_copies(run, opened.log)
            raise
        if opened.redacted:
            remove_old_copies(run, opened.log)
        return result


def has_directory(run: Run) -> bool:
    """Return whether a directory is in the place of the published file: no file can be renamed over it."""
    return os.path.isdir(run.ledger_path) and not os.path.islink(run.ledger_path)


def _make_damaged_log_again(run: Run, warn: Warn) -> None:
    """Set a log aside in which a hash does not hold, and make it again from what passes."""
    from faber_ledger.ledger.verify import verified_rows
    from faber_ledger.runs.absorb import make_log_again

    if not has_log(run):
        return
    with lock_run(run):
        try:
            with Log.read(run.log_path) as log:
                for _ in verified_rows(log):
                    pass
        except (IntegrityError, sqlite3.DatabaseError) as error:
            make_log_again(run, error, warn).close()


def _project(
    run: Run, opened: RunLog, *, rebuild: bool, warn: Warn, defaults: dict[str, str] | None, on_purpose: bool
) -> Reprojection:
    try:
        state = state_write.read_known(run)
    except StateMissing:
        if defaults is None:
            raise
        return _write_missing(run, opened, defaults, warn)
    is_shown = not rebuild and state.shows(opened.log)
    folded = None if rebuild or is_shown else state.fold_news(opened.log)
    blocks, touched = folded or (blocks_of(state.value) if is_shown else fold_checked(opened.log), ())
    changed = state_write.project_blocks(
        *(run, opened, blocks),
        warn=warn,
        known=None if rebuild else state,
        touched=touched,
        on_purpose=on_purpose or rebuild,
    )
    if is_shown:
        state_write.refresh_copy(run, state.document, warn)
    if state.value.get("status") in progress.FINISHED:
        state_write.remove_backup(run)
    return Reprojection(None, is_changed=changed)


def _write_missing(run: Run, opened: RunLog, defaults: dict[str, str], warn: Warn) -> Reprojection:
    why = why_not_published(run, None, opened.note, on_purpose=True)
    if why is not None:
        message = f"the run {run.run_id} has no state.json, and none is written: {why}"
        raise StateMissing(message, hint="restore it from git")
    blocks = fold_checked(opened.log)
    found = next(read_older_states(run), None)
    unknown: list[str] = []
    _restore_from_copies(run, has_state=found is not None and found[0] == COPY)
    if found is None:
        known = {**known_members(opened.log, run), **defaults}
        unknown = [name for name in ("workflow_id", "work_id", "current_phase", *NEVER_KNOWN) if name not in known]
        state_write.write_new(run, json.dumps({**known, **blocks}, indent=2, ensure_ascii=False) + "\n")
    else:
        state_write.write_new(run, found[1].text, like=found[2])
    state_write.project_blocks(run, opened, blocks, warn=warn, on_purpose=True)
    if found is not None and found[1].value.get("status") in progress.FINISHED:
        state_write.remove_backup(run)
    return Reprojection(None if found is None else found[0], is_changed=True, unknown=unknown)


def _restore_from_copies(run: Run, *, has_state: bool) -> None:
    """Write a missing metadata.json from the clone's copy, if there is one that can be written.

    What this work tree has in common with the remote is then what the one had that wrote the copies, if it has the
    state from there, too; else nothing is known.
    """
    ours, writers = sent_path(run, tree_name(run)), sent_path(run, (copy_writers(run) or [""])[0])
    with suppress(FileRefused, OSError):
        if not has_state:
            disk.put(ours, b"{}", mode=disk.OWN, durable=False, locked=False)
        elif ours != writers:
            disk.put(ours, read_regular(writers, LARGEST), mode=disk.OWN, durable=False, locked=False)
    with suppress(FileRefused, OSError):
        if not os.path.lexists(run.metadata_path) and folder_around(run.own_directory, [run.root]) is not None:
            content = read_regular(metadata_copy_path(run), LARGEST_METADATA)
            os.makedirs(run.own_directory, exist_ok=True)
            disk.put(run.metadata_path, content)


def read_older_states(run: Run) -> Iterator[OldState]:
    """Yield the valid states of a run that are elsewhere: the copy of this clone, backups, git's last commit."""
    yield from _parse_old(run, COPY, read_state_copy(run))
    for path, state in state_file.read_backups(run):
        yield os.path.basename(path), state, path
    yield from _parse_old(run, "git's last commit", read_in_head(run, run.state_path))


def _parse_old(run: Run, source: str, content: bytes | None) -> Iterator[OldState]:
    with suppress(LedgerError):  # another one may be readable
        if content is not None:
            yield source, state_file.parse_state(run, content), None


def restore_backup(run: Run, *, warn: Warn) -> tuple[str, bool]:
    """Replace state.json by its newest readable backup; return its path, and whether there is a log to project onto it.

    A log without an event, as a killed first hook leaves it, is none: its first event adopts the restored blocks.
    Raises LedgerError if state.json is readable or no backup is, and as `open_log`.
    """
    with lock_run(run):
        if lacks_ledger(run):
            return _replace_by_backup(run), False
        with open_run_log(run, warn) as opened:
            return _replace_by_backup(run), bool(opened.log.heads())


def _replace_by_backup(run: Run) -> str:
    if _is_readable(run):
        raise LedgerError(
            f"{run.shown(run.state_path)} can be read, and a backup of it is older",
            hint=f"run `faber-ledger project {run.run_id}` to write its two blocks from the log",
        )
    found = state_file.read_backup(run)
    if found is None:
        raise LedgerError(
            f"the run {run.run_id} has no backup that can be read",
            hint=f"restore state.json from git, or move it aside and run `faber-ledger project {run.run_id}`",
        )
    path, backup = found
    if os.path.lexists(run.state_path):
        state_write.check_writable(run, os.lstat(run.state_path))
        os.replace(run.state_path, f"{run.state_path}.broken{BACKUP_ENDING}")
    state_write.write_new(run, backup.text, like=path)
    _restore_from_copies(run, has_state=False)
    return path


def _check_has_events(log: Log, run: Run) -> None:
    """Raise RunNotFound for an empty log, as a killed first hook leaves it: state.json is not adopted yet."""
    if not log.heads():
        raise RunNotFound(
            f"the ledger of the run {run.run_id} holds no event yet",
            hint="its first event takes over what state.json says: run `faber-ledger session-load`",
        )


def _is_readable(run: Run) -> bool:
    try:
        state_file.read_state(run)
    except (StateInvalid, StateMissing):
        return False
    return True


def fold_checked(log: Log) -> Blocks:
    """Fold a log whose hashes are checked; raises as `read_verified`."""
    from faber_ledger.ledger.verify import read_verified  # no hook checks every event

    return fold(read_verified(log))


def known_members(log: Log, run: Run) -> dict[str, Any]:
    """Return the members of a state that a log knows, other than the two blocks."""
    known: dict[str, Any] = {"run_id": run.run_id}
    for recorded in log.stream():
        known |= _members_of(recorded)
    return known


def _members_of(recorded: Recorded) -> dict[str, Any]:
    event = recorded["event"]
    if event["type"] == "run_started":
        return {"workflow_id": event["workflow_id"], "work_id": event["work_id"]}
    if event["type"] in ("session_started", "session_ended") and event["phase"] is not None:
        return {"current_phase": event["phase"]}
    return {}


STATE_DEFAULTS = {"status": "in_progress"}  # a finished run is hardly ever left uncommitted


def restore_missing(run: Run, why: str, warn: Warn) -> None:
    """Write the state of a run that has none here, and say `why` and from what; raises as `reproject`."""
    os.makedirs(run.directory, exist_ok=True)
    result = reproject(run, rebuild=False, warn=warn, defaults=STATE_DEFAULTS)
    made = f"made of the log, which does not know: {', '.join(result.unknown)}; its status is set to in_progress"
    warn(f"{why}; state.json is {f'taken from {result.source}' if result.source else made}")
    if "workflow_id" in result.unknown:
        path = run.shown(run.state_path)
        warn(f"add workflow_id to {path}, or copy the file from the machine that has it: a load needs the workflow")


def restore_gone(root: str, named: str, warn: Warn) -> None:
    """Write the state of a named run that the work tree lacks, if this clone's log can restore it."""
    run = find_restorable(root, named)
    if run is not None:
        restore_missing(run, f"{run.run_id} was not in this work tree: it is brought here from this clone's log", warn)


def restore_copy(root: str, named: str, warn: Warn) -> None:
    """Write the state of a run that the work tree lacks from this clone's copy, if there is one."""
    run = find_restorable(root, named)
    if run is not None and next(_parse_old(run, COPY, read_state_copy(run)), None) is not None:
        restore_gone(root, named, warn)


def restore_ignored(run: Run, warn: Warn) -> None:
    """Write the state of a run that git ignores and that is not here."""
    if state_file.is_state_ignored(run):
        restore_missing(run, f"git ignores {run.shown(run.state_path)}, which was not here", warn)


def find_restorable(root: str, named: str | None) -> Run | None:
    """Return the named run if the work tree lacks it and the log can restore it, else None."""
    if named is None or not is_run_id(named):
        return None
    run = find_run(root, named)
    if run.is_recorded() or os.path.islink(run.directory) or not has_log(run):
        return None
    return run


def is_committed(run: Run) -> bool:
    """Return whether a commit of any branch or tag has the run, or git does not answer."""
    path = run.shown(run.ledger_path)
    return GitQuery(["rev-list", "--all", "--max-count=1", "--", path], run.root).answer() != ""
