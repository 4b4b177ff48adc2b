"""The quarantine: what the gate refused of a run's log, taken out of its file and kept aside in this clone alone.

An event that is aside is judged again each time: one whose missing parent has arrived comes back into the run's file.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.ledger import BACKUP_ENDING, whole_file
from faber_ledger.ledger.aside import copy_private, free_name
from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NotWritable
from faber_ledger.ledger.file import DURABLE
from faber_ledger.ledger.gate import Refused, examine, is_typed_whole, shown_id
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import COLUMNS, HASH, ID, SEQ, is_place, place_of
from faber_ledger.ledger.table import open_table
from faber_ledger.ledger.union import (
    OTHER_CONTENT,
    merge_rows,
    remove_database,
    replace_rows,
    rows_named,
    rows_of,
    write_rows,
)
from faber_ledger.ledger.whole_file import move_into_place
from faber_ledger.runs.clone import is_recovery_due, kept_folder
from faber_ledger.runs.copies import mirror_with_events
from faber_ledger.runs.private_files import make_kept_folder, state_folder
from faber_ledger.runs.recovery import recover
from faber_ledger.runs.refusals import is_unfit
from faber_ledger.runs.run import QUARANTINE
from faber_ledger.runs.run_log import open_log
from faber_ledger.runs.unaccepted import keep_back
from faber_ledger.runs.united import find_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


LARGEST = 256 * 1024 * 1024


class Found(NamedTuple):
    """A refused event: whether the run's file or its mirror has it, and whether it is kept aside.

    If neither, the file only has its place, since other events stand on it.
    """

    refused: Refused
    is_in_file: bool
    is_aside: bool


class Judgement(NamedTuple):
    """What the gate says of all events of a run in this clone.

    `dropped` has the events that pass without the payload that a file has, and why; `returning` counts those aside that
    pass by now. `changed` has the events of which a file has a copy that does not pass, and another copy does. `fault`
    says why the run's file is no sound log as a whole.
    """

    refused: list[Found]
    dropped: list[tuple[str, str]]
    returning: int
    changed: list[str]
    fault: str | None

    @property
    def is_due(self) -> bool:
        """Return whether a file has to be rewritten."""
        return (
            self.returning > 0
            or self.fault is not None
            or bool(self.dropped or self.changed)
            or any([found.is_in_file for found in self.refused])
        )


def judge(run: Run) -> Judgement:
    """Judge every event that this clone has of a run, in its file, its mirror and aside; raises as `Log.read`."""
    with ExitStack() as stack:
        logs = _open_logs(run, stack)
        aside, contradicted = _split_aside(run, logs)
        there, kept = [_hashes_in(log) for log in logs], {row[HASH] for row in aside}
        passing = merge_rows(logs, keeps=logs[-1], aside=aside)
        returning = sum([row[HASH] in kept and not any([row[HASH] in one for one in there]) for row in passing])
        found: dict[str, Found] = {}
        whole = {place_of(one.row)[ID] for one in passing.refused if one.has_place and one.is_new}
        for one in [one for one in passing.refused if one.id not in whole]:  # of a row and its place, the row counts
            is_in_file = any([_has_row(log, one.row) for log in logs])
            found[repr(one.row)] = Found(one, is_in_file and one.is_new, one.hash in kept)
        found |= {
            repr(row): Found(Refused(row, OTHER_CONTENT), is_in_file=False, is_aside=True) for row in contradicted
        }
        named = {one.id for one in passing.refused} | {name for name, _ in passing.dropped}
        changed = {
            row[ID] for log in logs for row in rows_of(log) if row[ID] not in named and (is_unfit(row) or is_place(row))
        }
    return Judgement(list(found.values()), passing.dropped, returning, sorted(changed), find_fault(run))


def _split_aside(run: Run, logs: list[Log]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are aside, those of which a log has another sound event under their id apart."""
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in read_aside(run):
        others = [one for log in logs for one in rows_named(log, row[ID]) if one[HASH] != row[HASH]]
        parts[any([examine(one).fault is None for one in others])].append(row)
    return parts


def is_quarantine_due(run: Run) -> bool:
    """Return whether `quarantine` would rewrite a run's file; False if it could not."""
    try:
        return judge(run).is_due
    except (LedgerError, OSError, sqlite3.Error):
        return False


def quarantine(run: Run, warn: Callable[[str], None]) -> Judgement:
    """Rewrite a run's file, and its mirror, from what passes, and keep what is refused aside.

    Waits for the run's lock. Raises Locked, NotWritable, and as `Log.read`, `recover` and `open_log`.
    """
    with RunLock(run.lock_path):
        fault = find_fault(run)
        if fault is not None and mirror_with_events(run) is not None:
            _clear_the_way(run, warn)
            if not os.path.lexists(run.ledger_path):
                with open_log(run, warn) as opened:  # what the mirror has comes back
                    opened.commit()
        if is_recovery_due(run):
            recover(run, warn)
        judgement = judge(run)._replace(fault=fault)
        if judgement.is_due:
            try:
                refused = [found.refused.row for found in judgement.refused if found.refused.is_new]
                _keep_aside(run, [*read_aside(run), *refused])  # before anything is taken out
                if judgement.fault is not None:
                    _back_up(run.ledger_path)
                _rewrite(run)
                _keep_aside(run, refused)
            except OSError as error:
                raise NotWritable(
                    f"cannot rewrite {run.shown(run.ledger_path)}: {error.strerror}",
                    hint="check permissions and space of the run's folder",
                ) from error
        with open_log(run, warn) as opened:
            opened.commit()
    return judgement


def _clear_the_way(run: Run, warn: Callable[[str], None]) -> None:
    """Take what no ledger is, or makes, out of the place of a run's file and from beside it; raises NotWritable.

    A folder, or a file, is kept under the name of a backup.
    """
    write_ahead = f"{run.ledger_path}-wal"
    for path in (run.ledger_path, run.journal_path, write_ahead):
        is_link = os.path.islink(path)
        if not os.path.lexists(path) or (os.path.isfile(path) and not is_link and path != write_ahead):
            continue
        try:
            if is_link or not (os.path.isfile(path) or os.path.isdir(path)):
                os.unlink(path)
                warn(f"{run.shown(path)} was removed")
            else:
                aside = free_name(f"{path}.malformed", BACKUP_ENDING)
                os.replace(path, aside)
                warn(f"{run.shown(path)} was moved to {run.shown(aside)}")
        except OSError as error:
            raise NotWritable(
                f"cannot move {run.shown(path)} aside: {error.strerror}",
                hint="check permissions of the run's folder",
            ) from error


def _open_logs(run: Run, stack: ExitStack, open_mirror: Callable[[str], Log] = Log.read) -> list[Log]:
    """Open a run's file and its mirror; a mirror that cannot be read adds nothing, and is made again by a hook.

    The last one is what this clone has, whatever the others say. One that somebody else writes raises Locked. Where
    there is a mirror, a file that cannot be read to its end adds nothing.
    """
    logs: list[Log] = []
    mirror = mirror_with_events(run)
    if mirror is not None:
        try:
            logs.append(stack.enter_context(open_mirror(mirror)))
        except Locked:
            raise
        except (LedgerError, sqlite3.Error):
            pass
    try:
        log = stack.enter_context(open_table(run.ledger_path))
        for _ in rows_of(log):
            pass
    except (LedgerError, UnicodeError, sqlite3.Error):
        if not logs or find_fault(run) is None:
            raise
        return logs
    return [log, *logs]


def _back_up(path: str) -> None:
    """Keep a file that is no sound log as its backup; raises OSError."""
    if os.path.isfile(path) and not os.path.islink(path):
        whole_file.remove(path + BACKUP_ENDING)
        copy_private(path, path + BACKUP_ENDING)


def _hashes_in(log: Log) -> set[object]:
    return {digest for (digest,) in log.connection.execute("SELECT hash FROM event")}


def _has_row(log: Log, row: Row) -> bool:
    is_text = type(row[ID]) is str and not any(["\ud800" <= letter <= "\udfff" for letter in row[ID]])
    return row in rows_named(log, row[ID]) if is_text else any([one == row for one in rows_of(log)])


def _rewrite(run: Run) -> None:
    """Write file and mirror again from the events that pass.

    The mirror keeps its file, which other work trees may have open, and is not theirs to write until it is committed.
    """
    temporary = run.ledger_path + ".tmp"
    with ExitStack() as stack:
        stack.callback(remove_database, temporary)
        if (kept := _open_kept(run)) is not None:
            stack.enter_context(kept)
        logs = _open_logs(run, stack, Log.open)
        mirrors = [log for log in logs if log.path != run.ledger_path]
        passing = run.ledger_path + ".passing.tmp"
        stack.callback(remove_database, passing)
        for path in (temporary, passing):
            remove_database(path)
        write_rows(merge_rows(logs, keeps=logs[-1], aside=_split_aside(run, logs)[0]), passing)
        with Log.read(passing) as whole:  # what is refused redacts nothing
            found = effective_redactions(whole.connection)
            for mirror in mirrors:
                keep_back(run, mirror.connection, found)
            write_rows(merge_rows([whole], found.gone), temporary)
        for mirror in mirrors:  # first: until the file is replaced, the command can be run again
            _replace(mirror, temporary)
        for log in logs:
            log.close()
        if kept is None:
            move_into_place(temporary, run.ledger_path)
        else:
            _replace(kept, temporary)


def _open_kept(run: Run) -> Log | None:
    """Open a kept run's log, which is the mirror; None if it is no sound one, which nobody has open, either."""
    try:
        return Log.open(run.ledger_path) if run.is_kept else None
    except IntegrityError:
        return None


def _replace(log: Log, temporary: str) -> None:
    """Give a log, which is open for appending, the rows of another one, and commit."""
    with log.writing(), Log.read(temporary) as fresh:
        log.connection.execute("PRAGMA secure_delete = ON")
        replace_rows(log, rows_of(fresh))
        log.commit()
        log.connection.execute(f"PRAGMA synchronous = {DURABLE}")
        log.connection.execute("VACUUM")  # freed pages may still hold what a redaction removes


# What is aside


def aside_path(run: Run) -> str:
    """Return the file with the events that were taken out of a run here; it is private to this clone."""
    folder = kept_folder(run.root, run.run_id) or os.path.join(state_folder(run.root), "runs", *run.run_id.split("/"))
    return os.path.join(folder, QUARANTINE)


def read_aside(run: Run) -> list[Row]:
    """Return the rows that were taken out of a run's files here, in the order that a union takes.

    Raises NotWritable for a file that cannot be read.
    """
    rows = [row for line in _read_lines(run) if (row := _row_of(line)) is not None]
    return sorted(rows, key=lambda row: (row[SEQ], row[ID]) if is_typed_whole(row) else (0, ""))


def _read_lines(run: Run) -> list[bytes]:
    path = aside_path(run)
    try:
        return read_regular(path, LARGEST).splitlines()
    except FileNotFoundError:
        return []
    except (FileRefused, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise NotWritable(
            f"what was taken out of the run, {path}, cannot be read: {why}",
            hint="move the file to another place; the run itself does not need it",
        ) from error


def remove_aside(run: Run, name: str) -> None:
    """Remove the refused events with an id from what is aside; waits for the run's lock. Raises NotWritable."""
    with RunLock(run.lock_path):
        try:
            _keep_aside(run, [row for row in read_aside(run) if shown_id(row[ID]) != name])
        except OSError as error:
            raise NotWritable(
                f"cannot write {aside_path(run)}: {error.strerror}", hint="check permissions and space of its folder"
            ) from error


def _row_of(line: bytes) -> Row | None:
    """Return the row of a line; None for a line that this version's quarantine does not write."""
    try:
        values = json.loads(line)
        row = tuple([bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in values])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_flat = all([value is None or type(value) in (int, float, str, bytes) for value in row])
    return row if is_flat and len(row) == len(COLUMNS) else None


def _line_of(row: Row) -> bytes:
    return json.dumps([{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]).encode()


def _keep_aside(run: Run, rows: list[Row]) -> None:
    """Write which rows are aside, and keep the lines that another version wrote; raises OSError."""
    path = aside_path(run)
    other = [line for line in _read_lines(run) if _row_of(line) is None]
    make_kept_folder(run, os.path.dirname(path))
    lines = dict.fromkeys([*other, *map(_line_of, rows)])
    if lines:
        whole_file.put(path, b"".join([line + b"\n" for line in lines]), mode=whole_file.OWN)
    else:
        whole_file.remove(path)
