"""Absorb: take what a work tree's `ledger.db`, or git's last commit, has of a run through the gate into the log.

The file may be anybody's. It is read with SQLite's `immutable=1`: no journal beside it is played, no lock is taken.
"""

from __future__ import annotations

import os
from itertools import zip_longest

from faber_ledger.ledger import JOURNAL_ENDING, disk
from faber_ledger.ledger.disk import FileRefused
from faber_ledger.ledger.encoding import ID, ROW, WRITER
from faber_ledger.ledger.errors import IntegrityError, LedgerError, NewerFormat, NotWritable, UnionConflict
from faber_ledger.ledger.file import FORMAT_1, sqlite3, statements
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import effective_redactions, restore_rows
from faber_ledger.ledger.roots import find_foreign_roots, may_start, roots_in
from faber_ledger.ledger.union import Passing, insert_rows
from faber_ledger.runs import seen
from faber_ledger.runs.clone import is_empty, writer_of
from faber_ledger.runs.copies import head_copy, is_as_in_head, runs_in_other_work_trees
from faber_ledger.runs.git import is_git_at_work
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.run import path_form
from faber_ledger.runs.set_aside import LARGEST, read_rows, report, row_line, set_file_aside, set_rows_aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.seen import TreeNote


WAITING = "waiting.jsonl"  # beside the log: events that lack a parent
MOST_WAITING = 10_000
FETCHED = "the fetched ref"
HINT = "check permissions and space of the git directory"


def take_file(run: Run, log: Log, note: TreeNote, warn: Callable[[str], None], *, may_write: bool = True) -> int:
    """Insert what passes of a work tree's file into a log, open for appending, and note which file it was.

    Return how many payloads were put back.
    """
    before = seen.shape_of(run.ledger_path)
    note.heads, note.barred = "", ""
    if before is None or (is_empty(run.ledger_path) and os.path.isfile(run.ledger_path)):
        note.shape = before
        return 0
    try:
        with _open(run) as offered:
            if _is_foreign(run, log, offered):
                note.shape, note.barred = before, seen.FOREIGN
                what = f"{run.shown(run.ledger_path)} is the ledger of another run: it is left as it is"
                report(run, warn, what, may_write=may_write)
                return 0
            passing = Passing([offered], log, rows_waiting(run))
            restored = insert(run, log, passing, passing.payloads)  # which has them once the rows were taken
            if not passing.refused and _holds_all(offered, log):
                note.heads = log.heads_text()
    except NewerFormat as error:
        note.shape, note.barred = before, seen.NEWER
        what = f"{error.message}{_commit_that_brought(run)}; it is left as it is, and the log goes on"
        report(run, warn, what, may_write=may_write)
        return 0
    except (LedgerError, FileRefused, OSError, UnicodeError, sqlite3.Error) as error:
        if is_git_at_work(run.root) or seen.shape_of(run.ledger_path) != before:
            return 0  # git has not written it to its end
        note.shape = before
        if may_write:
            _set_aside(run, warn, f"is not a sound ledger ({_reason(error)})", run.ledger_path)
        return 0
    note.shape = before
    if may_write:
        _sort_out(run, passing, warn, run.ledger_path)
    return restored


def take_fetched(run: Run, log: Log, path: str, warn: Callable[[str], None]) -> tuple[str, int]:
    """Insert what passes of a ledger that a fetch brought into a private file, as of a work tree's file.

    Return its heads if the log now holds all of its events, else an empty text; and how many payloads were put back.
    Raises UnionConflict for the ledger of another run, and IntegrityError for one that cannot be taken.
    """
    try:
        with open_untrusted(path) as offered:
            if _is_foreign(run, log, offered):
                hint = (
                    "start the run here again under another id (`faber-ledger run start --run-id ID`); or, if nobody"
                    f" needs the other, run `faber-ledger run forget --remote {run.run_id}`"
                )
                raise UnionConflict("its ref is another run with the same id: nothing of it is used", hint=hint)
            passing = Passing([offered], log, rows_waiting(run))
            restored = insert(run, log, passing, passing.payloads)
            heads = "" if passing.refused else offered.heads_text()
    except (OSError, UnicodeError, sqlite3.Error) as error:
        raise IntegrityError(f"the ledger of its ref cannot be taken: {error}") from error
    _sort_out(run, passing, warn, path)
    return heads, restored


def insert(run: Run, log: Log, rows: Iterable[Row], payloads: Iterable[Row]) -> int:
    """Insert rows that passed the gate, and payloads that the log lacks; return how many payloads were put back."""
    insert_rows(log, rows)
    gone = effective_redactions(log.connection)
    restored = [row for row in payloads if row[ID] not in gone]
    if restored:
        restore_rows(log.connection, restored)
        seen.forget_checkpoints(run)
        log.checkpoint = None
    return len(restored)


def take_head(run: Run, log: Log) -> None:
    """Insert what passes of the ledger in git's last commit, where a clone has neither log nor file of a run."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        path = head_copy(run, folder)
        if path is not None:
            _take_from(run, log, path)


def make_log_again(run: Run, error: Exception, warn: Callable[[str], None]) -> Log:
    """Set a log aside that cannot be read, and make it again from what passes of it and of the published files."""
    try:
        aside = set_file_aside(run, run.log_path, move=True)
        disk.remove(run.log_path + JOURNAL_ENDING)
        disk.write(run.log_path, b"", mode=disk.OWN)
    except (OSError, FileRefused) as refusal:
        raise NotWritable(f"cannot set {run.log_path} aside: {refusal}", hint=HINT) from refusal
    log = Log.open(run.log_path)
    paths = [aside, run.ledger_path, *[one.ledger_path for one in runs_in_other_work_trees(run)]]
    for path in paths:
        if os.path.isfile(path) and not os.path.islink(path):
            _take_from(run, log, path)
    take_head(run, log)
    seen.forget_checkpoints(run)
    log.commit()
    log.begin()
    what = f"the log of {run.run_id} could not be read ({_reason(error)}): it was set aside, {aside}, and is made again"
    report(run, warn, what, aside)
    return log


def _take_from(run: Run, log: Log, path: str) -> None:
    try:
        with open_untrusted(path) as offered:
            if not _is_foreign(run, log, offered):
                insert_rows(log, Passing([offered], log))
    except (LedgerError, OSError, UnicodeError, sqlite3.Error):
        pass  # `insert_rows` has taken back what it inserted


def copy_to_memory(run: Run) -> Log:
    """Return a copy of a run's log in memory, in an open transaction; without a log, an empty one.

    What a killed writer left is rolled back in a copy, since the clone's own file cannot be written.
    """
    import shutil
    import tempfile
    from contextlib import suppress

    memory = sqlite3.connect(":memory:", isolation_level=None)
    if not is_empty(run.log_path):
        with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
            path = os.path.join(folder, "log.db")
            for ending in (JOURNAL_ENDING, ""):
                with suppress(FileNotFoundError):
                    shutil.copyfile(run.log_path + ending, path + ending)
            with Log.open(path) as log:
                log.connection.execute("ROLLBACK")
                log.connection.backup(memory)
    else:
        for statement in statements(FORMAT_1):
            memory.execute(statement)
    memory.execute("BEGIN")
    return Log(memory, run.log_path)


def keep_redacted(run: Run, log: Log, rows: list[Row], warn: Callable[[str], None]) -> None:
    """Set rows aside before a redaction from elsewhere takes their payloads from the log; raises NotWritable.

    One in this clone's own name too: anybody can write the name, and `redact` itself takes the payload at once.
    """
    found = effective_redactions(log.connection)
    try:
        path = set_rows_aside(run, rows)
    except OSError as error:
        raise NotWritable(f"cannot keep what a redaction removes: {error.strerror or error}", hint=HINT) from error
    writers = sorted({found[row[ID]].writer for row in rows})
    machines = [machine_of_clone(run, log, writer) or f"clone {writer}" for writer in writers]
    count = f"{len(rows)} event{'s were' if len(rows) > 1 else ' was'}"
    what = f"{count} redacted elsewhere, by {', '.join(machines)}"
    own = writer_of(run.root)
    # A redaction by the event's own writer is undone by that writer alone.
    undoable = [row[ID] for row in rows if row[WRITER] == own or found[row[ID]].writer != row[WRITER]]
    if undoable:
        which = f"the first of {len(undoable)} of them" if undoable[1:] else "it"
        command = f"faber-ledger redact --undo {undoable[0]} --run-id {run.run_id}"
        what += f"; until 30 days from now `{command}` restores {which}"
    report(run, warn, what, path)


def machine_of_clone(run: Run, log: Log, writer: str) -> str | None:
    """Return the machine of a clone by its newest session in a run, else in another run here; None if it has none."""
    from faber_ledger.files.text import one_line  # rarely needed
    from faber_ledger.runs.kept import kept_logs

    others = (name for _, other in kept_logs(run.root) if (name := other.machine_of(writer)))
    found = log.machine_of(writer) or next(others, None)
    return one_line(found, 40) if found is not None else None


def _open(run: Run) -> Log:
    if os.stat(run.ledger_path, follow_symlinks=False).st_size > LARGEST:
        raise IntegrityError("it is too large")
    return open_untrusted(run.ledger_path)


def _is_foreign(run: Run, log: Log, offered: Log) -> bool:
    """Return whether a file is another run's: it names one, or has no first event in common and neither was adopted."""
    theirs = roots_in(offered.connection)
    own = path_form(run.run_id)
    if theirs and not any([may_start(row, lambda name: path_form(name) == own) for row in theirs.values()]):
        return True
    return bool(theirs) and theirs.keys() <= find_foreign_roots(log, offered)


def _holds_all(offered: Log, log: Log) -> bool:
    """Return whether a file has exactly the log's rows: a payload may have been changed in place."""
    question = f"{ROW} ORDER BY seq, id"
    rows = [one.connection.execute(question) for one in (offered, log)]
    return offered.heads() == log.heads() and all(mine == theirs for mine, theirs in zip_longest(*rows))


def _sort_out(run: Run, passing: Passing, warn: Callable[[str], None], path: str) -> None:
    """Keep the events that lack a parent, and set the file at `path` aside if others were refused."""
    waiting = [one.row for one in passing.refused if one.is_waiting]
    refused = [one for one in passing.refused if not one.is_waiting]
    kept = os.path.join(run.private_folder, WAITING)
    try:
        if waiting:
            disk.put(kept, b"".join(map(row_line, waiting[:MOST_WAITING])), mode=disk.OWN, durable=False)
        else:
            disk.remove(kept)
    except OSError as error:
        warn(f"the events that wait for a parent cannot be kept: {error.strerror or error}")
    if refused:
        count = f"{len(refused)} event{'s' if len(refused) > 1 else ''}"
        _set_aside(run, warn, f"has {count} that cannot enter the log: the first {refused[0].why}", path)


def _set_aside(run: Run, warn: Callable[[str], None], what: str, path: str) -> None:
    shown = run.shown(path) if path == run.ledger_path else f"{FETCHED} of {run.run_id}"
    try:
        copy = set_file_aside(run, path)
    except (FileRefused, OSError) as error:
        report(run, warn, f"{shown} {what}; it cannot be copied: {error}")
    else:
        report(run, warn, f"{shown} {what}; a copy of it is kept for 30 days: {copy}", copy)


def _commit_that_brought(run: Run) -> str:
    if not is_as_in_head(run, run.ledger_path):
        return ""
    asked = ["log", "-1", "--format=%h", "--", run.shown(run.ledger_path)]
    commit = GitQuery(asked, run.root).answer()
    return f"; commit {commit} brought it" if commit else ""


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, LedgerError) else str(error)


def rows_waiting(run: Run) -> list[Row]:
    """Return the events of a run that wait for a parent."""
    return read_rows(os.path.join(run.private_folder, WAITING))
