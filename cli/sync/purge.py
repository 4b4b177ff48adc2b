"""Remove from git refs: a redacted payload, at the remote by a commit without a parent, or a whole run."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, suppress
from typing import NamedTuple

from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.sync.carried import exchange_refs, lock_sending, unavailable
from faber_ledger.cli.sync.ref_intake import absorb_commit
from faber_ledger.cli.sync.ref_versions import may_have_event, reaches_payload, refs_here
from faber_ledger.cli.sync.refs import LEDGER, SENT, Push, Remote, delete_refs, read, ref_name
from faber_ledger.cli.sync.versions import Warn, place_of
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.command_errors import GitFailed, ServerRefused
from faber_ledger.ledger.errors import LedgerError, Locked, RunNotFound
from faber_ledger.ledger.foreign import event_ids
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run
from faber_ledger.runs.sent import Sent


class Purge(NamedTuple):
    """What became of a run's ref at the remote: whether it was replaced, or why not, and what to do then.

    Without a problem a ref that was not replaced did not have the event, or this clone sends the run to nobody.
    """

    is_replaced: bool = False
    remote: str = ""
    problem: str = ""
    hint: str = ""


def note_due(run: Run, event: str) -> None:
    """Note that the remote's ref has to be replaced if it may have an event; an interrupt leaves it due.

    It waits for no lock.
    """
    with suppress(LedgerError, OSError):
        top = top_of(run.root)
        if top is not None:
            _find_stale(run, top, event)


def purge_refs(run: Run, event: str, warn: Warn) -> Purge:
    """Delete this clone's refs that reach a redacted event, and replace the one at the remote if it has the event.

    What cannot be replaced now is replaced by the next sync: the run's note says so.
    """
    top = top_of(run.root)
    if top is None:
        return Purge()
    try:
        _forget_here(run, top, event)
    except (LedgerError, OSError) as error:
        return Purge(problem=f"git's refs may still reach what was redacted: {error}", hint="redact the event again")
    remote, sent = remote_of(run.root), Sent(run)
    if remote is None and sent.commit and may_have_event(top, sent.commit, event):
        problem = f"{sent.remote} may still have what was redacted: this clone no longer sends ledgers to it"
        hint = (
            "`faber-ledger init --carry refs` and the same redaction replace the ref; or delete it where it is hosted"
        )
        return Purge(False, sent.remote, problem, hint)
    if remote is None or not sent.must_purge or sent.is_forgotten:
        return Purge()
    hint = f"run `faber-ledger sync {run.run_id}` as soon as it can be reached"
    why = send_run(remote, run, warn)
    if why is not None:
        return Purge(False, remote.name, f"{remote.name} may still have what was redacted: {why}", hint)
    if reaches_payload(top, Sent(run).commit, event):
        problem = f"{SENT}{ref_name(run.run_id)} at {remote.name} still reaches what was redacted"
        hint = "redact the event again once the remote allows that its refs are replaced: docs/guides/REDACTION.md"
        return Purge(False, remote.name, problem, hint)
    return Purge(True, remote.name)


def send_run(remote: Remote, run: Run, warn: Warn) -> str | None:
    """Exchange one run with its ref; return why it was not sent, None if it was."""
    try:
        (done,) = exchange_refs(remote, run.root, [run], warn)
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        return str(error)
    return done.why


def _forget_here(run: Run, top: str, event: str) -> None:
    """Delete the refs here that reach the event, and note that the remote's has to be replaced if it had it.

    What is being sent meanwhile was made before the redaction: its end is waited for, so that its note is there.
    """
    with ExitStack() as stack:
        if carries_refs(run.root):
            with suppress(Locked):
                stack.enter_context(lock_sending(run.root))
        stale = _find_stale(run, top, event)
        if stale:
            delete_refs(top, stale)


def _find_stale(run: Run, top: str, event: str) -> list[str]:
    """Return the refs here that may have the event, and note whether the remote's may."""
    refs = refs_here(top, ref_name(run.run_id))
    stale = [ref for ref, commit in refs.items() if may_have_event(top, commit, event)]
    sent = Sent(run)
    if carries_refs(run.root) and (stale or not sent.commit or may_have_event(top, sent.commit, event)):
        sent.must_purge = True
        sent.save()
    return stale


# A whole run, on purpose, once this clone has what is in its ref


class Forgotten(NamedTuple):
    """A ref that is deleted: what it `has`, as words, and how many events; no words for one that was gone already."""

    has: str
    events: int


def forget_at_remote(remote: Remote, run: Run, warn: Warn, *, is_sure: bool) -> Forgotten:
    """Delete a run's ref at the remote and what was fetched of it; this clone no longer sends it.

    Its events are fetched into the log before. A ref that is gone is not sent again, either. Raises LedgerError with
    what would be deleted unless the user `is_sure`, ServerUnavailable, ServerRefused, and RunNotFound if there is no
    ref.
    """
    name = ref_name(run.run_id)
    with lock_sending(run.root):
        try:
            there = remote.heads(name)
            sent = Sent(run)
            if name not in there and (sent.at or sent.is_forgotten) and not lacks_ledger(run):
                sent.is_forgotten, sent.commit = True, ""
                sent.save()
                return Forgotten("", 0)
            if name not in there:
                hint = "run `faber-ledger run list --remote`"
                raise RunNotFound(f"{remote.name} has no ref of {run.run_id}", hint=hint)
            found, tip = _fetch(remote, run, there[name], warn)
            if not is_sure:
                what = f"this would delete {SENT}{name} at {remote.name}, with {found.has}"
                raise LedgerError(what, hint="--yes deletes it there, and nothing here")
            sent = Sent(run)
            was_forgotten, sent.is_forgotten = sent.is_forgotten, True
            sent.save()  # first: a deletion whose answer is lost is not undone by the next sync
            pushed = remote.push([Push(name, "", tip)])[name]
            if pushed.why is not None:
                sent.is_forgotten = was_forgotten
                sent.save()
                hint = "delete it where the remote is hosted"
                raise ServerRefused(f"{remote.name} keeps the ref: {pushed.why}", hint=hint)
            delete_refs(remote.top, [remote.fetched(name), SENT + name])
        except GitFailed as error:
            raise unavailable(remote, error) from error
        sent.commit, sent.heads, sent.events, sent.log, sent.problem = "", "", 0, None, ""
        sent.save(is_purged=True)
    return found


def _fetch(remote: Remote, run: Run, tip: str, warn: Warn) -> tuple[Forgotten, str]:
    """Fetch a ref and absorb it; one that cannot be absorbed may be what is to be deleted.

    Return also which commit that is, as the ref may have been replaced since it was at `tip`.
    """
    remote_name, events = remote.name, 0
    try:
        remote.fetch([ref_name(run.run_id)])
        with read(remote.top, [remote.fetched(ref_name(run.run_id))]) as commits:
            commit = next(commits)
            tip = commit.name if commit is not None else tip
            events = len(event_ids(commit.files.get(LEDGER, ""))) if commit is not None else 0
            absorb_commit(place_of(run.root, run.run_id, commit), commit, remote_name, warn)
    except (LedgerError, sqlite3.Error, OSError) as error:
        why = error.message if isinstance(error, LedgerError) else str(error)
        return Forgotten(f"{events_shown(events)}, which this clone does not have: {why}", events), tip
    absent = events - Sent(run).events
    if absent:
        return Forgotten(f"{events_shown(events)}, {absent} of which this clone's log does not have", events), tip
    return Forgotten(f"{events_shown(events)}, all of them in this clone's log", events), tip
