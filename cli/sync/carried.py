"""Exchange the runs of a clone with their refs at the remote: fetch and absorb what is new, then send what is new here.

A ref's next commit is a child of the one that the remote has, so each push is a fast-forward; where another clone was
faster, its commit is fetched and absorbed, and ours is made again. The union is made in the log, never in git.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from faber_ledger.cli.sync.ref_intake import MERGED, absorb_commit
from faber_ledger.cli.sync.refs import (
    LEDGER,
    METADATA,
    STATE,
    Push,
    Pushed,
    Remote,
    Version,
    delete_refs,
    read,
    ref_name,
    write,
)
from faber_ledger.cli.sync.versions import (
    Warn,
    digest_of,
    digest_of_metadata,
    due_files,
    files_to_send,
    is_changed,
    message_of,
    time_of,
)
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed, ServerRefused, ServerUnavailable
from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.fold import fold
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.recording import record_waiting
from faber_ledger.recording.server_state import content_of
from faber_ledger.runs.carry import LOCK
from faber_ledger.runs.clone import lock_run, make_below
from faber_ledger.runs.kept import kept_run, runs_with_files
from faber_ledger.runs.layouts import copy_writers, find_run, tree_name
from faber_ledger.runs.log import lacks_ledger, open_run_log
from faber_ledger.runs.run import Run, clone_folder, path_in_clone
from faber_ledger.runs.seen import changed_at
from faber_ledger.runs.sent import Sent, SentState
from faber_ledger.runs.set_aside import report
from faber_ledger.runs.state_file import parse_state, read_state
from faber_ledger.runs.state_write import refresh_copy

ROUNDS = 5  # of fetching and sending, where other clones are faster
LOCK_SECONDS = 60.0
FASTER = (
    "other clones were faster, five times, or the remote hides its refs, or its push URL is another repository than its"
    " URL"
)


class TimeIsUp(BaseException):
    """An exchange has to end now; not a LedgerError, so that no loop over runs catches it and goes on."""


class Carried:
    """What an exchange did to a run: how many events came and went, and `why` it was not sent, if so.

    `hint` says what to run then, and `code` is the exit code. `has_sent` is also true of files alone, of which `due`
    are the names; `left_out` says why files cannot be sent. `was_lost` says that the remote had lost the ref; `waiting`
    counts the deliveries that could not be recorded before. `state` says what the state is that was taken from the ref,
    `has_metadata` whether its metadata was, and `may_purge` whether a redacted payload there is to be removed.
    """

    def __init__(self, run: Run) -> None:
        self.run = self._first = run
        self._done: set[str] = set()  # the places of its files that were exchanged
        self.next_place()
        self.fetched = self.sent = self.waiting = 0
        self.why: str | None = None
        self.hint: str | None = None
        self.code = 0
        self.has_sent = self.was_lost = False
        self.state = ""
        self.due: list[str] = []
        self.left_out: list[str] = []
        self.has_metadata = False
        self.may_purge = True

    def next_place(self) -> bool:
        """Go on with the next place of the run's files, as they are now; return whether there is one."""
        for run in self._find_places():
            if run.directory not in self._done:
                self._done.add(run.directory)
                self.run = run
                return True
        return False

    def _find_places(self) -> list[Run]:
        """Return the run where its state is: in this work tree, else where it changed last, else as the clone keeps it.

        Others follow if they have changes that nobody sent. So has the clone's copy, which comes first then, if the
        work tree that wrote it is without its file.
        """
        there, kept = runs_with_files(self._first), kept_run(self._first.root, self._first.run_id)
        if there and there[0].directory != find_run(self._first.root, self._first.run_id).directory:
            there.sort(key=lambda one: changed_at(one.state_path) or 0.0, reverse=True)
        names = {name for one in there for name in (tree_name(one), SentState(one).tree)}
        is_left = kept is not None and names.isdisjoint(copy_writers(kept)[:1])
        if kept is not None and is_left and (not there or not SentState(kept).digest or is_changed(kept)):
            there = [kept, *there]
        return [*there[:1], *filter(is_changed, there[1:])] or [self._first]

    def fail(self, error: Exception | str) -> None:
        """Note why the run was not sent, and the exit code."""
        self.why = error.message if isinstance(error, LedgerError) else str(error)
        if isinstance(error, RecursionError):
            self.why = "its state.json, or another of its files, is nested too deeply"
        self.hint = error.hint if isinstance(error, LedgerError) else None
        self.code = ServerRefused.exit_code if isinstance(error, str) else getattr(error, "exit_code", 1)

    @property
    def exit_code(self) -> int:
        """The exit code of the exchange: why the run was not sent, or 1 if a delivery or a file still waits."""
        return self.code or int(self.waiting > 0 or bool(self.left_out))

    def line(self, remote: str) -> str | None:
        """Return what was done; None if nothing was."""
        parts = []
        is_merged = self.state == MERGED
        if self.fetched or self.sent:
            parts.append(f"{events_shown(self.fetched)} fetched from {remote}, {self.sent} sent")
        elif self.has_sent and not is_merged:
            parts.append(f"its {METADATA if self.due == [METADATA] else 'state'} sent to {remote}")
        if is_merged:
            parts.append(f"state.json merged with {remote}'s{', and sent' if self.has_sent else ''}")
        elif self.state:
            parts.append(f"state.json taken from {remote} ({self.state})")
        if self.has_metadata:
            parts.append(f"{METADATA} taken from {remote}")
        if self.was_lost:
            parts.append(f"{remote} had lost its ref, which is there again")
        if self.why is not None:
            parts.append(f"not sent: {self.why}")
        if self.waiting:
            parts.append(f"{plural(self.waiting, 'delivery', 'deliveries')} not recorded")
        return f"{self.run.run_id}: {'; '.join(parts)}" if parts else None

    def data(self) -> dict[str, Any]:
        """Return what was done for `--json`."""
        return {
            "run_id": self.run.run_id,
            "fetched": self.fetched,
            "sent": self.sent,
            "state_taken": self.state or None,
            "was_lost": self.was_lost,
            "why_not_sent": self.why,
            "left_out": self.left_out,
            "waiting": self.waiting,
        }


def exchange_refs(
    remote: Remote, root: str, runs: Iterable[Run], warn: Warn, *, sends: bool = True, is_named: bool = False
) -> list[Carried]:
    """Fetch and absorb the refs of runs, then send what the remote lacks; return what was done with each run.

    One process of a clone does it at a time. A run that was forgotten at the remote is sent only if it `is_named`.
    Raises ServerUnavailable where git fails, as where the remote does not answer, and Locked.
    """
    found = {ref_name(run.run_id): Carried(run) for run in runs}
    with lock_sending(root):
        try:
            for one in found.values() if sends else ():
                record_waiting(one.run, now(), warn=warn)
                one.waiting = len(list_waiting(one.run))
            left = dict(found)
            for _ in range(ROUNDS):
                there = remote.heads()
                left = _absorb_all(remote, left, there, warn)
                left = _send_all(remote, left, there, warn, is_named=is_named) if sends else {}
                left |= {name: one for name, one in found.items() if name not in left and one.next_place()}
                if not left:
                    break
        except (GitFailed, TimeIsUp) as error:
            failure = error if isinstance(error, GitFailed) else GitFailed(str(error), hint="run `faber-ledger sync`")
            _note_problem(found.values(), remote, failure)
            raise unavailable(remote, failure) from error
        _note_problem([one for one in found.values() if one.why is not None], remote)
        for sent in [sent for one in found.values() if one.why is None and (sent := Sent(one.run)).commit]:
            sent.asked_at = now()
            with suppress(OSError):  # the note that is there says what must last
                sent.save()
    return list(found.values())


def lock_sending(root: str) -> RunLock:
    """Return the lock of the clone's one process that sends; raises Locked where it is entered."""
    make_below(root, clone_folder(root) or root, durable=False)
    return RunLock(path_in_clone(root, LOCK) or "", LOCK_SECONDS)


def unavailable(remote: Remote, error: GitFailed) -> ServerUnavailable:
    """Return what is raised where an exchange failed with git."""
    return ServerUnavailable(f"the exchange with {remote.name} failed: {error.message}", hint=error.hint)


def _note_problem(failed: Iterable[Carried], remote: Remote, failure: GitFailed | None = None) -> None:
    """Note why runs were not sent, for the next start and for `status`: each its own reason, if the remote answered."""
    hint = failure.hint if failure is not None and failure is remote.refusal else ""
    for one in failed:
        sent = Sent(one.run)
        if not lacks_ledger(one.run) and not sent.is_forgotten and not sent.is_whole(one.run, remote.name):
            sent.problem, sent.hint = (failure.message, hint or "") if failure else (one.why or "", one.hint or "")
            with suppress(OSError):  # the note that is there says what must last
                sent.save()


def _absorb_all(remote: Remote, runs: dict[str, Carried], there: dict[str, str], warn: Warn) -> dict[str, Carried]:
    """Fetch the refs that have changed at the remote, and absorb their ledgers; `there` gets what they had then.

    Return the runs that may be sent: not those of which the remote may have what this clone could not absorb.
    """
    wanted = []
    for name, one in runs.items():
        sent = Sent(one.run)
        is_same = sent.here.has_files_of(one.run) if one.run.is_kept else not os.path.lexists(one.run.state_path)
        is_compared = is_same or sent.here.seen == there.get(name)
        if name in there and not (sent.commit == there[name] and is_compared):
            wanted.append(name)
    new = _fetch(remote, runs, wanted)
    failed = {*wanted} - {*new}
    with read(remote.top, [remote.fetched(name) for name in new]) as commits:
        for name, commit in zip(new, commits, strict=True):
            one = runs[name]
            try:
                about: Any = {"may_purge": one.may_purge, "is_heard": not remote.is_quiet}
                taken = absorb_commit(one.run, commit, remote.name, warn, **about)
                there[name] = commit.name if commit is not None else there[name]
                one.fetched += taken.added
                one.state = taken.state or one.state
                one.has_metadata |= taken.has_metadata
            except (LedgerError, sqlite3.Error, OSError, RecursionError) as error:
                one.fail(error)
                failed.add(name)
    return {name: one for name, one in runs.items() if name not in failed}


def _fetch(remote: Remote, runs: dict[str, Carried], names: list[str]) -> list[str]:
    """Fetch refs, and return those that came: one that git refuses, or that was deleted, does not stop the others.

    Raises GitFailed where the remote does not answer.
    """
    try:
        remote.fetch(names)
        return names
    except GitFailed:
        remote.heads("-")
    fetched = []
    for name in names:
        try:
            remote.fetch([name])
            fetched.append(name)
        except GitFailed as error:
            runs[name].fail(error)
    return fetched


class Prepared(NamedTuple):
    """A version to send, the run's note once the remote has it, and whether its state is this clone's."""

    version: Version
    sent: Sent
    has_our_state: bool


def _send_all(
    remote: Remote, runs: dict[str, Carried], there: dict[str, str], warn: Warn, *, is_named: bool
) -> dict[str, Carried]:
    """Send the runs that the remote lacks something of; return those for which another clone was faster."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        prepared: dict[str, Prepared] = {}
        for name, one in runs.items():
            one.why, one.hint, one.code = None, None, 0  # what the round before said
            try:
                found = _prepare(remote, one, there.get(name, ""), folder, warn, is_named=is_named)
            except (LedgerError, sqlite3.Error, OSError, RecursionError) as error:
                one.fail(error)
                continue
            if found is not None:
                prepared[name] = found
        if not prepared:
            return {}
        try:
            commits = write(remote.top, [one.version for one in prepared.values()])
        except GitFailed as error:
            return _fetch_again(runs, prepared, error)
    pushes = [
        Push(name, commits[name], there.get(name, "") if one.sent.must_purge else None)
        for name, one in prepared.items()
    ]
    pushed = remote.push(pushes)
    cut = Pushed("the push ended before its answer")
    return {
        name: runs[name]
        for name, one in prepared.items()
        if _note_pushed(runs[name], one, commits[name], pushed.get(name, cut), remote, warn)
    }


def _fetch_again(runs: dict[str, Carried], prepared: dict[str, Prepared], error: GitFailed) -> dict[str, Carried]:
    """Forget which commits this clone has, as somebody may have deleted its refs, and return the runs to send."""
    for name in prepared:
        runs[name].fail(error)
        sent = Sent(runs[name].run)
        sent.commit = ""
        with suppress(OSError):
            sent.save()
    return {name: runs[name] for name in prepared}


def _prepare(remote: Remote, one: Carried, parent: str, folder: str, warn: Warn, *, is_named: bool) -> Prepared | None:
    """Return the next commit of a run's ref; None if the remote has all of the run.

    The ledger is a copy, made in `folder` while nobody writes.
    """
    if not os.path.lexists(one.run.state_path):
        one.next_place()  # its folder was removed since
    run, sent = one.run, Sent(one.run)
    if sent.is_forgotten and not is_named and sent.commit and not parent:
        sent.commit = ""  # another clone had sent it again, and it was deleted again
        sent.save()
    if lacks_ledger(run) or (sent.is_forgotten and not is_named):
        return None
    if parent == sent.commit and sent.is_whole(run, remote.name):
        return None
    path = os.path.join(folder, ref_name(run.run_id))
    with lock_run(run), open_run_log(run, warn) as opened:
        log = opened.log
        heads, events = log.heads_text(), log.count_events()
        is_known = bool(parent) and parent == sent.commit and heads == sent.heads and not sent.must_purge
        one.left_out = []
        one.due = due_files(run, sent, one.left_out.append)
        for why in one.left_out:
            report(run, warn, f"{run.run_id}: {why}")
        if not one.left_out:
            sent.note_files(run)
        if is_known and not one.due:
            sent.remote = remote.name
            sent.save()
            return None
        sent.noted_at = now()
        shutil.copyfile(run.log_path, path)
        state, metadata = files_to_send(remote, run, sent, parent, one.due)
        with suppress(LedgerError):
            refresh_copy(run, read_state(run), warn)  # so that no copy is older than what was exchanged
        blocks = dict(fold(log.stream()))
        message = message_of(run, state, log, blocks, is_purge=sent.must_purge)
    files: dict[str, str | bytes] = {LEDGER: path}
    if metadata is not None:
        files[METADATA] = metadata
    if state:
        files[STATE] = parse_state(run, content_of(state).encode()).with_members(blocks).encode()
    one.was_lost = bool(sent.commit) and not parent and sent.remote == remote.name
    one.sent += max(0, events - (sent.events if parent else 0))
    sent.remote, sent.heads, sent.events = remote.name, heads, events
    sent.updated_at, sent.is_completed = time_of(state), state.get("status") == "completed"
    version = Version(ref_name(run.run_id), files, message, "" if sent.must_purge else parent, int(now()))
    return Prepared(version, sent, bool(state) and sent.here.digest == digest_of(state))


def _note_pushed(one: Carried, prepared: Prepared, commit: str, pushed: Pushed, remote: Remote, warn: Warn) -> bool:
    """Note what became of a pushed run; return whether another clone was faster."""
    sent = prepared.sent
    if pushed.why is not None:
        one.sent, one.was_lost = 0, False
    if pushed.is_behind:
        one.fail(f"{FASTER}: {pushed.why}")
        return True
    if pushed.why is not None and sent.must_purge:
        warn(f"{one.run.run_id}: {remote.name} does not replace the ref, so it keeps what was redacted: {pushed.why}")
        purging = Sent(one.run)
        # The next commit is a child of the one that is there, which `redact` may have left without a ref here.
        purging.commit, one.may_purge = "", False
        purging.save(is_purged=True)
        return True
    if pushed.why is not None:
        one.fail(pushed.why)
        return False
    if sent.must_purge:
        delete_refs(remote.top, [remote.fetched(ref_name(one.run.run_id))])
    sent.commit, sent.at, sent.problem = commit, now(), ""
    if prepared.has_our_state:
        sent.note_shared(sent.here.digest)
    metadata = prepared.version.files.get(METADATA, b"")
    if isinstance(metadata, bytes) and digest_of_metadata(metadata) == sent.here.metadata:
        sent.here.metadata_base = commit
    sent.is_forgotten = False
    sent.save(is_purged=sent.must_purge)
    one.has_sent, one.why, one.code = True, None, 0
    return False
