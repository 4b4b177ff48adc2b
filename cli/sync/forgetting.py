"""Delete a run's ref at the remote on purpose, once this clone has what is in it."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from faber_ledger.cli.sync.carried import lock_sending, unavailable
from faber_ledger.cli.sync.ref_intake import Warn, absorb_commit
from faber_ledger.cli.sync.refs import LEDGER, SENT, Push, Remote, delete_refs, read, ref_name
from faber_ledger.cli.sync.versions import place_of
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.command_errors import GitFailed, ServerRefused
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.ledger.foreign import event_ids
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.run import Run
from faber_ledger.runs.sent import Sent


class Forgotten(NamedTuple):
    """A ref that is deleted: what it `has`, as words, and how many events."""

    has: str
    events: int


def forget_at_remote(remote: Remote, run: Run, warn: Warn, *, is_sure: bool) -> Forgotten:
    """Delete a run's ref at the remote and what was fetched of it; this clone sends it no more.

    Its events are fetched into the log before. A ref that is gone is not sent again, either. Raises LedgerError with
    what would be deleted unless the user `is_sure`, ServerUnavailable, ServerRefused, and RunNotFound if there is no
    ref.
    """
    name = ref_name(run.run_id)
    with lock_sending(run.root):
        try:
            there = remote.heads(name)
            sent = Sent(run)
            if name not in there and not lacks_ledger(run):
                sent.is_forgotten, sent.commit = True, ""
                sent.save()
                return Forgotten("no event, since somebody has deleted it before", 0)
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
