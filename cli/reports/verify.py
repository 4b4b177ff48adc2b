"""What `verify` finds wrong with a run, and what evidence outside its log shows: truncation, rollback, other copies."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.reports.file_versions import list_versions
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.which_run import recheck_under_lock
from faber_ledger.cli.ui.words import events_of_log_are, events_shown, plural, publishing_hint, value_words
from faber_ledger.context.branch import branch_of_run, where_files_are
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.encoding import HASH, ID, PAYLOAD, ROW
from faber_ledger.ledger.errors import IntegrityError, LedgerError, StateInvalid, StateMissing
from faber_ledger.ledger.event_types import RECORDED_BY_LOOKS
from faber_ledger.ledger.file import check_file
from faber_ledger.ledger.foreign import missing_in_file, open_untrusted
from faber_ledger.ledger.gate import examine
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.union import rows_of
from faber_ledger.ledger.verify import LogProblem, find_problems
from faber_ledger.projections.difference import MISSING, find_difference
from faber_ledger.projections.fold import blocks_of
from faber_ledger.runs import seen
from faber_ledger.runs.absorb import rows_waiting
from faber_ledger.runs.active import is_finished
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.copies import is_as_in_head
from faber_ledger.runs.git_command import TEXT_CACHE, git, has_cached_text, run_git, top_of
from faber_ledger.runs.layouts import places_of
from faber_ledger.runs.log import has_log, read_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.projecting import has_directory
from faber_ledger.runs.publish import AS_FINISHED, carries_refs, is_finished_in_head, why_not_published
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import TreeNote
from faber_ledger.runs.set_aside import is_of, list_set_aside
from faber_ledger.runs.state_file import is_state_ignored, read_state

if TYPE_CHECKING:
    from faber_ledger.projections.difference import Difference


def run_findings(run: Run, *, is_one_of_many: bool) -> list[LogProblem]:
    """Return everything that is wrong with a run's log, its published file and its state.json.

    A progress bar is shown for a long log, if the run is not one of many. Raises NewerFormat for a file of a newer
    format, and as `find_problems`.
    """
    found: list[LogProblem] = []
    try:
        read_log(run).close()  # which absorbs the file
    except IntegrityError as error:
        found.append(LogProblem(error.code, None, error.message, error.hint))
    note = TreeNote(run)
    if note.barred == seen.NEWER:
        check_file(run.ledger_path)  # raises NewerFormat
    with progress(run, "verifying", has_place=not is_one_of_many) as advance:
        if has_log(run):
            found += find_problems(run.log_path, advance=advance)
    is_damaged = any(not finding.is_note for finding in found)
    if run.is_kept and not is_finished(run):
        found.append(_not_in_tree(run))
    found += _beside(run, note)
    if not run.is_kept:
        with suppress(LedgerError, OSError, sqlite3.Error):  # a log that cannot be read has been reported above
            found += recheck_under_lock(run, lambda: list(_published_findings(run, is_damaged=is_damaged)))
    return found


def _not_in_tree(run: Run) -> LogProblem:
    what = "not in this work tree: the log of this clone was verified"
    return LogProblem("not_in_tree", None, what, where_files_are(run, branch_of_run(run)), is_note=True)


def _beside(run: Run, note: TreeNote) -> Iterator[LogProblem]:
    """Yield what the file has that is not in the log: notes, since it is somebody else's."""
    waiting = len(rows_waiting(run))
    if waiting:
        verb = "lack a parent, and wait" if waiting > 1 else "lacks a parent, and waits"
        what = f"{events_shown(waiting)} of the file {verb} outside the log"
        hint = "pull or merge the branch that has it: they enter with it"
        yield LogProblem("waiting", None, what, hint, is_note=True)
    if note.barred == seen.FOREIGN:
        what = f"{run.shown(run.ledger_path)} is the ledger of another run, and is left as it is"
        hint = f"check out a commit that has its own, or remove the file and run `faber-ledger project {run.run_id}`"
        yield LogProblem("foreign_run", None, what, hint, is_note=True)
    aside = [path for path in list_set_aside(run.root) if is_of(run, path)]
    if aside:
        what = f"{plural(len(aside), 'file')} with what did not enter the log, or was redacted elsewhere, set aside"
        hint = f"look at it, or leave it: it is kept for 30 days; {aside[-1]}"
        yield LogProblem("set_aside", None, what, hint, is_note=True)


def _has_all_rows(path: str, log: Log) -> bool:
    """Return whether a published file has every row of the log, whatever else it has."""
    try:
        with open_untrusted(path) as published:
            found = set(published.connection.execute(ROW))
    except (LedgerError, OSError, UnicodeError, sqlite3.Error):
        return False
    return all(row in found for row in log.connection.execute(ROW))


def _published_findings(run: Run, *, is_damaged: bool) -> Iterator[LogProblem]:
    """Compare the published file and the blocks with the log, where they should show it."""
    note = TreeNote(run)
    state, problem = None, None
    try:
        state = read_state(run).value
    except (StateMissing, StateInvalid) as error:
        problem = error
    why = why_not_published(run, state, note)
    with read_log(run) as log:
        names = dict(log.connection.execute("SELECT id, hash FROM event"))
        difference = find_difference(log.stream, blocks_of(state)) if state is not None else None
        is_complete = carries_refs(run.root) or note.heads == log.heads_text() or _has_all_rows(run.ledger_path, log)
        lacking = set[str]() if carries_refs(run.root) else missing_in_file(log, run.ledger_path)
        has_more = log.has_others(lacking, RECORDED_BY_LOOKS)
    lacked = len(lacking)
    if why is None and lacked and not any([names[one].hex() in note.published for one in lacking]):
        were = "it was" if lacked == 1 else "they were"
        why = f"{were} recorded elsewhere in this clone, or while git had taken the run away"
    if why is not None:
        if has_more:
            is_over = state is not None and state.get("status") in FINISHED and not note.barred
            why = AS_FINISHED if is_over and is_finished_in_head(run) else why  # whatever is checked out
            if why != AS_FINISHED:  # nothing needs to be done
                what = f"{events_of_log_are(lacked)} not in {run.shown(run.ledger_path)}: {why}"
                yield LogProblem("not_published", None, what, publishing_hint(run, note, state), is_note=True)
        if problem is None:
            return
    elif not is_complete:
        what = f"{run.shown(run.ledger_path)} lacks {events_shown(lacked)} of this clone's log"
        if not lacked:
            what = f"{run.shown(run.ledger_path)} is not what this clone has of the run"
        is_behind = difference is not None and not is_damaged  # as where git has put back both files
        what += ", and state.json differs from the log" if is_behind else ""
        difference = None if is_behind else difference
        it = "both" if is_behind else "it"
        hint = f"run `faber-ledger project {run.run_id}`, which writes {it} again; so does the next event"
        if has_directory(run):
            hint = f"remove the directory there, then run `faber-ledger project {run.run_id}`"
        yield LogProblem("rolled_back", None, what, hint)
    if problem is not None or state is None:
        if problem is not None and not is_state_ignored(run):
            what = f"state.json cannot be compared: {problem.message}"
            yield LogProblem(ProjectionDiffers.code, None, what, problem.hint)
        return
    if difference is not None:
        if carries_refs(run.root) and not is_damaged and is_as_in_head(run, run.state_path):
            what = "state.json is as git's last commit has it, and differs from the log, as after a pull"
            hint = "run `faber-ledger sync`, which fetches what was sent; the next session writes the file"
            yield LogProblem(ProjectionDiffers.code, None, what, hint, is_note=True)
            return
        yield _differs(run, difference, is_empty=not names, is_damaged=is_damaged)


def _differs(run: Run, found: Difference, *, is_empty: bool, is_damaged: bool) -> LogProblem:
    """Return the finding for the first field of `state.json` that is not what the log says."""
    hint = f"run `faber-ledger project {run.run_id}`: it takes over sessions that another tool wrote into the block,"
    hint += " and writes both blocks from the log"
    if is_damaged:
        hint = "fix the log first: what it projects now is not reliable"
    elif is_empty:
        hint = "the log has no event yet, and its first one adopts what state.json says: run"
        hint += f" `faber-ledger session-load --run-id {run.run_id}`"
    event = found["event"]
    by = f" by its event {event['seq']} {event['id']} ({event['event']['type']})" if event else ""
    field, there, expected = found["field"], found["found"], found["expected"]
    if isinstance(there, list) and isinstance(expected, list):  # the first entry in which they differ
        pairs = enumerate(zip_longest(there, expected, fillvalue=MISSING))
        at, (there, expected) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        field += f"[{at}]"
    what = f"{field} in state.json is {value_words(there)}, and the log says {value_words(expected)}{by}"
    return LogProblem(ProjectionDiffers.code, None, what, hint)


WRITER = 5
UNKNOWN = "nothing needs to be run: what it held beyond the versions that were read is not known"


class Anchors:
    """The anchors of one run: `checked` names those that were read, `findings` is what they show."""

    def __init__(self, run: Run) -> None:
        """Read the log's hashes; raises like `Log.read`."""
        self.run = run
        self.checked: list[str] = []
        self.findings: list[LogProblem] = []
        with Log.read(run.log_path, allow_incomplete=True) as log:
            self._hashes = dict(log.connection.execute("SELECT id, hash FROM event"))
            self.gone = {*effective_redactions(log.connection)}
        self._reported: set[str] = set()

    def check(self) -> None:
        """Compare the log with every anchor."""
        if top_of(self.run.root) is None:
            return
        self._check_versions("HEAD", "missing_event", "the history of HEAD")
        upstream = run_git("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", at=self.run.root)
        if upstream.returncode == 0:
            name = upstream.stdout.decode("utf-8", "replace").strip()
            self._check_versions("HEAD..@{upstream}", "not_pulled", f"{name}, as last fetched, beyond HEAD")
        if self.run.is_kept and not self.checked:
            self._check_versions("--all", "other_branch", "the history of other branches, as last fetched")

    def _check_versions(self, revisions: str, kind: str, where: str) -> None:
        # Where another layout has the run now, that is another run: this one may have been there before.
        places = [one for one in places_of(self.run.root, self.run.run_id) if not one.is_recorded()]
        there = [] if self.run.is_kept else [self.run]
        ledgers = [self.run.shown(one.ledger_path) for one in (*there, *places)]
        counted = 0
        with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
            path = os.path.join(folder, "ledger.db")
            for version in list_versions(self.run.root, revisions, *ledgers):
                with open(path, "wb") as file:
                    file.write(git("cat-file", "blob", version.blob, at=self.run.root))
                commit = f"commit {version.commit[:12]}"
                unredacted = self.compare(commit, path, kind)
                counted += unredacted is not None
                if unredacted:
                    self._note_unredacted(commit, unredacted, version.blob)
        if not counted:
            return
        versions_text = f"{plural(counted, 'version')} in {where}"
        if run_git("rev-parse", "--is-shallow-repository", at=self.run.root).stdout.strip() == b"true":
            versions_text += ", which this shallow clone has in part"
        self.checked.append(versions_text)

    def compare(self, where: str, path: str, kind: str) -> set[str] | None:
        """Find what a copy has and the log lacks; return the redacted events whose payload it has.

        None if the copy cannot be read to its end.
        """
        unredacted, missing = set(), []
        try:
            with open_untrusted(path) as copy:
                for row in rows_of(copy):
                    unredacted |= {row[ID]} if row[PAYLOAD] is not None and row[ID] in self.gone else set()
                    if self._hashes.get(row[ID]) != row[HASH]:
                        if examine(row).fault is not None:
                            raise LedgerError(f"event {row[ID]} is not what its hash says")
                        missing.append(row)
        except (LedgerError, OSError, sqlite3.Error) as error:
            what = error.message if isinstance(error, LedgerError) else str(error)
            self._note("torn_version", f"{where} is not counted: {what.replace(path, 'its ledger')}")
            return None
        for row in missing:
            self._miss(where, row, kind)
        return unredacted

    def _note_unredacted(self, where: str, unredacted: set[str], blob: str) -> None:
        what = f"{where} still holds the payload of {events_shown(len(unredacted))} redacted by now"
        if has_cached_text(self.run.root, blob):
            what += f", and so does {TEXT_CACHE}, git's cache of ledgers as text"
        hint = "docs/guides/REDACTION.md shows how to rewrite history; change the secret as well"
        self._note("unredacted_version", what, hint)

    def _miss(self, where: str, row: tuple[Any, ...], kind: str) -> None:
        name = row[ID]
        if name in self._reported:
            return
        self._reported.add(name)
        if name in self._hashes:
            self.findings.append(
                LogProblem("changed_event", name, f"{where} has it with other content", "keep both files, and compare")
            )
        elif kind != "missing_event" and row[WRITER] != writer_of(self.run.root):
            command = "git pull" if kind == "not_pulled" else f"faber-ledger sync {self.run.run_id}"
            hint = _not_in_tree(self.run).hint if kind == "other_branch" else f"run `{command}`"
            self._note(kind, f"event {name} of {where} is not here yet", hint)
        else:
            hint = f"put that copy in place of the run's ledger.db, then run `faber-ledger project {self.run.run_id}`"
            self.findings.append(LogProblem("missing_event", name, f"{where} has it, and the log does not", hint))

    def _note(self, kind: str, what: str, hint: str = UNKNOWN) -> None:
        self.findings.append(LogProblem(kind, None, what, hint, is_note=True))
