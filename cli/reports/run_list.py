"""What `run list` says of each run, and the cache of it, which nothing but `run list` reads, and only to print it.

The cache is one file of the clone, below the git directory. An entry holds as long as the run's two files have the
path, inode, size and time that they had when it was made. Anything in the file that does not look like an entry is
ignored, and made again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from typing import Any, TypeAlias

from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.summary import summarize
from faber_ledger.projections.fold import blocks_of, current_session, fold, session_history
from faber_ledger.runs.active import active_run
from faber_ledger.runs.left_state import runs_here
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.old_copies import run_list_path
from faber_ledger.runs.progress import current_phase
from faber_ledger.runs.projecting import known_members
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import is_state_ignored, read_state
from faber_ledger.runs.state_write import KnownState

VERSION = 1
LARGEST = 64 * 1024 * 1024
LONGEST_VALUE = 300
# A file may be written twice within what its file system counts as one moment: some count in steps of two seconds.
SETTLED_SECONDS = 3.0
WORDS = {"phase", "open_session", "last_event_at"}
WORDS_OR_NUMBERS = {"work_id", "status"}  # as another tool wrote them into state.json
COUNTS = {"sessions", "events"}
PROBLEMS = {"problem", "ledger_problem"}

Row: TypeAlias = dict[str, Any]
FileKey: TypeAlias = list[Any] | None  # path, inode, size, time; None if there is no such file
Entries: TypeAlias = dict[str, tuple[list[FileKey], Row]]  # by the path of the run's state


def list_runs(root: str) -> list[Row]:
    """Return what is known of each run that this clone has, newest first: by its last event, or the time of its state.

    `in_work_tree` is false for a run that the work tree lacks.
    """
    runs = runs_here(root)
    active = active_run(root).run_id
    known = _load(root)
    entries: Entries = {}
    times: dict[str, str] = {}
    rows = []
    for run in runs:
        files = [_file_key(path) for path in (run.state_path, run.ledger_path, run.log_path)]
        entry = known.get(run.state_path)
        row = entry[1] if entry is not None and entry[0] == files else _read_row(run)
        files = [_file_key(path) for path in (run.state_path, run.ledger_path, run.log_path)]  # it may have absorbed
        if _is_settled(files) and _is_row(row):
            entries[run.state_path] = (files, row)
        times[run.run_id] = row["last_event_at"] or (utc_text(files[0][3] / 1e9) if files[0] else "")
        about = {"run_id": run.run_id, "active": run.run_id == active, "in_work_tree": not run.is_kept}
        rows.append({**about, **row})
    if any([known.get(folder) != entry for folder, entry in entries.items()]):
        _save(root, {path: entry for path, entry in known.items() if os.path.isfile(path)} | entries)
    return sorted(rows, key=lambda row: (times[row["run_id"]], row["run_id"]), reverse=True)


def _read_row(run: Run) -> Row:
    try:
        document = read_state(run)
        state, problem, ledger_problem = document.value, None, None
    except LedgerError as error:
        document = JsonText("{}")
        state, problem, ledger_problem = {}, None if is_state_ignored(run) else error.message, None
    is_ignored = not state and problem is None
    log, blocks = None, blocks_of(state)
    try:
        if not lacks_ledger(run):
            with read_log(run) as opened:
                log = summarize(opened)
                state = known_members(opened, run) if is_ignored else state
                is_shown = not is_ignored and KnownState(document).shows(opened)
                blocks = blocks if is_shown else fold(opened.stream())
    except (LedgerError, sqlite3.DatabaseError) as error:
        ledger_problem = str(error)
    return {
        "work_id": state.get("work_id"),
        "status": state.get("status"),
        "phase": current_phase(state),
        "sessions": len(session_history(blocks)),
        "open_session": current_session(blocks),
        "events": log.events if log else 0,
        "last_event_at": log.last_at if log else None,
        "problem": problem,
        "ledger_problem": ledger_problem,
    }


def _file_key(path: str) -> FileKey:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [path, found.st_ino, found.st_size, found.st_mtime_ns]


def _is_settled(files: list[FileKey]) -> bool:
    latest = now() - SETTLED_SECONDS
    return all([file is None or file[3] / 1e9 < latest for file in files])


def _is_row(row: object) -> bool:
    """Return whether a row, which may come from the file, has only what is kept: no problem, nothing unprintable."""
    return (
        isinstance(row, dict)
        and row.keys() == WORDS | WORDS_OR_NUMBERS | COUNTS | PROBLEMS
        and all([row[name] is None or _is_word(row[name]) for name in WORDS])
        and all([row[name] is None or _is_word(row[name]) or type(row[name]) is int for name in WORDS_OR_NUMBERS])
        and all([type(row[name]) is int and row[name] >= 0 for name in COUNTS])
        and all([row[name] is None for name in PROBLEMS])
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_VALUE and value.isprintable()


def _load(root: str) -> Entries:
    path = run_list_path(root)
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path or os.devnull, flags)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            content = file.read() if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST else b""
        document = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return {}
    runs = document.get("runs") if isinstance(document, dict) and document.get("version") == VERSION else None
    if not isinstance(runs, dict):
        return {}
    pairs = {name: entry for name, entry in runs.items() if isinstance(entry, list) and len(entry) == 2}
    return {name: (files, row) for name, (files, row) in pairs.items() if isinstance(files, list) and _is_row(row)}


def _save(root: str, entries: Entries) -> None:
    path = run_list_path(root)
    if path is None or os.path.islink(os.path.dirname(path)):
        return
    content = json.dumps({"version": VERSION, "runs": entries}, separators=(",", ":")).encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        whole_file.put(path, content, mode=0o600, durable=False, locked=False)
    except OSError:
        pass  # the list was printed nevertheless, and is read again next time
