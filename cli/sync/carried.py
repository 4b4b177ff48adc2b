"""Exchange the runs of a clone with their refs at the remote: fetch and absorb what is new, then send what is new here.

A ref's next commit is a child of the one that the remote has, so each push is a fast-forward; where another clone was
faster, its commit is fetched and absorbed, and ours is made again. The union is made in the log, never in git.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from faber_ledger.cli.sync.refs import (
    LARGEST,
    LEDGER,
    METADATA,
    SENT,
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
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import now, seconds_of, utc_text
from faber_ledger.ledger.command_errors import GitFailed, ServerRefused, ServerUnavailable
from faber_ledger.ledger.disk import FileRefused, RunLock, read_regular
from faber_ledger.ledger.encoding import loads
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.ledger.foreign import event_ids
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.insertion import write_blocks
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.recording.server_state import content_of
from faber_ledger.runs.active import Here
from faber_ledger.runs.carry import LOCK
from faber_ledger.runs.clone import lock_run, make_below, writer_of
from faber_ledger.runs.git import project_key
from faber_ledger.runs.git_command import git
from faber_ledger.runs.log import lacks_ledger, open_run_log
from faber_ledger.runs.progress import current_phase
from faber_ledger.runs.run import Run, clone_folder, path_in_clone
from faber_ledger.runs.sent import Sent
from faber_ledger.runs.state_file import parse_state, read_state

ROUNDS = 5  # of fetching and sending, where other clones are faster
LOCK_SECONDS = 60.0
LONGEST_FIELD = 200
FASTER = "other clones were faster, five times"
Warn = Callable[[str], None]


class Carried:
    """What an exchange did to a run: how many events came and went, and `why` it was not sent, if so.

    `has_sent` is also true of a state alone; `was_lost` says that the remote had lost the ref; `waiting` counts the
    deliveries that could not be recorded before.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.fetched = self.sent = self.waiting = 0
        self.why: str | None = None
        self.has_sent = self.was_lost = False


def exchange_refs(
    remote: Remote, root: str, runs: Iterable[Run], warn: Warn, *, sends: bool = True, is_named: bool = False
) -> list[Carried]:
    """Fetch and absorb the refs of runs, then send what the remote lacks; return what was done with each run.

    One process of a clone does it at a time. A run that was forgotten at the remote is sent only if it `is_named`.
    Raises ServerUnavailable where the remote does not answer, and Locked.
    """
    found = {ref_name(run.run_id): Carried(run) for run in runs}
    make_below(root, clone_folder(root) or root, durable=False)
    with RunLock(path_in_clone(root, LOCK) or "", LOCK_SECONDS):
        try:
            for one in found.values() if sends else ():
                _record_waiting(one, warn)
            left = dict(found)
            for _ in range(ROUNDS):
                there = remote.heads()
                _absorb_all(remote, left, there, warn)
                left = _send_all(remote, left, there, warn, is_named=is_named) if sends else {}
                if not left:
                    break
            for one in left.values():
                one.why = FASTER
        except GitFailed as error:
            _note_problem(found.values(), remote, error.message)
            raise ServerUnavailable(f"{remote.name} does not answer: {error.message}", hint=error.hint) from error
        _note_problem([one for one in found.values() if one.why is not None], remote, "")
    return list(found.values())


def _record_waiting(one: Carried, warn: Warn) -> None:
    """Record the deliveries that wait, so that they are sent, too; warn if that fails."""
    try:
        if list_waiting(one.run):
            drain_waiting(one.run, now(), warn=warn)
    except (LedgerError, sqlite3.Error, OSError) as error:
        warn(f"{one.run.run_id}: what waits cannot be recorded: {error}")
    one.waiting = len(list_waiting(one.run))


def _note_problem(failed: Iterable[Carried], remote: Remote, message: str) -> None:
    """Note why runs were not sent, for the next start and for `status`."""
    for one in failed:
        sent = Sent(one.run)
        if not lacks_ledger(one.run) and not sent.is_whole(one.run, remote.name):
            sent.problem = message or one.why or ""
            sent.save()


# What comes


def _absorb_all(remote: Remote, runs: dict[str, Carried], there: dict[str, str], warn: Warn) -> None:
    """Fetch the refs that have changed at the remote, and absorb their ledgers."""
    new = [name for name in runs if name in there and Sent(runs[name].run).commit != there[name]]
    remote.fetch(new)
    with read(remote.top, [there[name] for name in new]) as commits:
        for name, files in zip(new, commits, strict=True):
            one = runs[name]
            try:
                one.fetched += absorb_commit(one.run, there[name], files, remote.name, warn)
            except (LedgerError, sqlite3.Error, OSError) as error:
                warn(f"{one.run.run_id}: what was fetched cannot be absorbed: {error}")


def absorb_commit(run: Run, commit: str, files: dict[str, str], remote: str, warn: Warn) -> int:
    """Absorb a commit's ledger, note what the remote has, and return how many events came."""
    sent, added = Sent(run), 0
    sent.remote, sent.commit, sent.heads, sent.events, sent.log = remote, commit, "", 0, None
    sent.updated_at, sent.noted_at, sent.problem = _updated_at(files.get(STATE)), now(), ""
    if LEDGER in files:
        with lock_run(run), open_run_log(run, warn) as opened:
            before = opened.log.count_events()
            heads = opened.absorb_fetched(files[LEDGER])
            added = opened.log.count_events() - before
            sent.heads, sent.events = heads, len(event_ids(files[LEDGER]))
            is_all = heads == opened.log.heads_text()
        if added or opened.restored or opened.redacted:
            write_blocks(run, warn=warn)
        if opened.redacted:
            delete_refs(run.root, [SENT + ref_name(run.run_id)])  # what this clone has sent reaches the payload
        if is_all and not _is_newer(run, sent):
            sent.note_files(run)
    sent.save()
    return added


def _updated_at(path: str | None) -> str:
    """Return the time of a fetched state in UTC; empty if it says none, or is not readable."""
    if path is None:
        return ""
    try:
        with open(path, "rb") as file:
            seconds = seconds_of(loads(file.read().decode()).get("updated_at"))
    except (ValueError, AttributeError, RecursionError):
        return ""
    return "" if seconds is None else utc_text(seconds)


def _is_newer(run: Run, sent: Sent) -> bool:
    """Return whether the state here is newer than the one that the remote has."""
    try:
        return _time_of(read_state(run).value) > sent.updated_at
    except LedgerError:
        return False


def _time_of(state: dict[str, Any]) -> str:
    seconds = seconds_of(state.get("updated_at"))
    return "" if seconds is None else utc_text(seconds)


# What goes


class Prepared(NamedTuple):
    """A version to send, and what the run's note says once the remote has it."""

    version: Version
    sent: Sent


def _send_all(
    remote: Remote, runs: dict[str, Carried], there: dict[str, str], warn: Warn, *, is_named: bool
) -> dict[str, Carried]:
    """Send the runs that the remote lacks something of; return those for which another clone was faster."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        prepared: dict[str, Prepared] = {}
        for name, one in runs.items():
            try:
                found = _prepare(remote, one, there.get(name, ""), folder, warn, is_named=is_named)
            except (LedgerError, sqlite3.Error, OSError) as error:
                one.why = str(error)
                continue
            if found is not None:
                prepared[name] = found
        if not prepared:
            return {}
        commits = write(remote.top, [one.version for one in prepared.values()])
    pushes = [
        Push(name, commits[name], there.get(name, "") if one.sent.must_purge else None)
        for name, one in prepared.items()
    ]
    behind = {}
    for name, pushed in remote.push(pushes).items():
        if name in prepared and _note_pushed(runs[name], prepared[name].sent, commits[name], pushed, remote, warn):
            behind[name] = runs[name]
    return behind


def _prepare(remote: Remote, one: Carried, parent: str, folder: str, warn: Warn, *, is_named: bool) -> Prepared | None:
    """Return the next commit of a run's ref; None if the remote has all of the run.

    The ledger is a copy, made in `folder` while nobody writes.
    """
    run, sent = one.run, Sent(one.run)
    if lacks_ledger(run) or (sent.is_forgotten and not is_named):
        return None
    if parent == sent.commit and sent.is_whole(run, remote.name):
        return None
    path = os.path.join(folder, ref_name(run.run_id))
    with lock_run(run), open_run_log(run, warn) as opened:
        log = opened.log
        heads, events = log.heads_text(), log.count_events()
        is_known = bool(parent) and parent == sent.commit and heads == sent.heads and not sent.must_purge
        if is_known and not _is_newer(run, sent):
            sent.note_files(run)
            sent.save()
            return None
        sent.note_files(run)
        shutil.copyfile(run.log_path, path)
        state = _state_to_send(remote, run, sent, parent)
        message, blocks = _message(run, state, log), dict(fold(log.stream()))
    files: dict[str, str | bytes] = {LEDGER: path}
    if state:
        files[STATE] = parse_state(run, content_of(state).encode()).with_members(blocks).encode()
    metadata = _metadata(run)
    if metadata is not None:
        files[METADATA] = metadata
    one.was_lost = bool(sent.commit) and not parent and sent.remote == remote.name
    one.sent = max(0, events - (sent.events if parent else 0))
    sent.remote, sent.heads, sent.events, sent.updated_at = remote.name, heads, events, _time_of(state)
    history = "" if sent.must_purge else parent
    return Prepared(Version(ref_name(run.run_id), files, message, history, int(now())), sent)


def _state_to_send(remote: Remote, run: Run, sent: Sent, parent: str) -> dict[str, Any]:
    """Return the state that goes with the log: ours, or the remote's if that is newer; empty if there is none."""
    try:
        state: dict[str, Any] = read_state(run).value
    except LedgerError:
        state = {}
    if parent and sent.updated_at > _time_of(state):
        try:
            return parse_state(run, git("cat-file", "blob", f"{parent}:{STATE}", at=remote.top)).value
        except LedgerError:
            return state
    return state


def _message(run: Run, state: dict[str, Any], log: Log) -> str:
    """Return a commit's message, from which `run list --remote` shows the run without its files."""
    branches = Here(run.root).branches_of(run, log)
    fields = {
        "Run": run.run_id,
        "Folder": project_key(run.root),
        "Work-Item": state.get("work_id"),
        "Branch": branches[0] if branches else None,
        "Status": state.get("status"),
        "Phase": current_phase(state),
        "Writer": writer_of(run.root),
    }
    lines = [f"{name}: {one_line(value, LONGEST_FIELD)}" for name, value in fields.items() if value]
    return "\n".join([run.run_id, "", *lines, ""])


def _metadata(run: Run) -> bytes | None:
    try:
        return read_regular(run.metadata_path, LARGEST[METADATA])
    except (FileRefused, OSError):
        return None


def _note_pushed(one: Carried, sent: Sent, commit: str, pushed: Pushed, remote: Remote, warn: Warn) -> bool:
    """Note what became of a pushed run; return whether another clone was faster."""
    if pushed.is_behind:
        return True
    if pushed.why is not None and sent.must_purge:
        warn(f"{one.run.run_id}: {remote.name} does not replace the ref, so it keeps what was redacted: {pushed.why}")
        purging = Sent(one.run)
        # The next commit is a child of the one that is there, which `redact` may have left without a ref here.
        purging.must_purge, purging.commit = False, ""
        purging.save()
        return True
    if pushed.why is not None:
        one.why, one.sent, one.was_lost = pushed.why, 0, False
        return False
    if sent.must_purge:
        delete_refs(remote.top, [remote.fetched(ref_name(one.run.run_id))])
    sent.commit, sent.at, sent.noted_at, sent.problem = commit, now(), now(), ""
    sent.is_forgotten = sent.must_purge = False
    sent.save()
    one.has_sent = True
    return False


def forget_at_remote(remote: Remote, run: Run) -> None:
    """Delete a run's ref at the remote and what was fetched of it; this clone sends it no more.

    Raises ServerUnavailable, ServerRefused, and RunNotFound if there is no ref.
    """
    name, sent = ref_name(run.run_id), Sent(run)
    try:
        there = remote.heads(name)
        if name not in there:
            raise RunNotFound(f"{remote.name} has no ref of {run.run_id}", hint="run `faber-ledger run list --remote`")
        pushed = remote.push([Push(name, "", there[name])])[name]
    except GitFailed as error:
        raise ServerUnavailable(f"{remote.name} does not answer: {error.message}", hint=error.hint) from error
    if pushed.why is not None:
        raise ServerRefused(f"{remote.name} keeps the ref: {pushed.why}", hint="delete it where the remote is hosted")
    delete_refs(remote.top, [remote.fetched(name), SENT + name])
    sent.commit, sent.heads, sent.events, sent.log, sent.is_forgotten = "", "", 0, None, True
    sent.save()
