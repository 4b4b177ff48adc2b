"""Have a redacted payload removed from a run's git refs: here at once, at the remote by a commit without a parent."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, suppress
from typing import NamedTuple

from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.sync.carried import Warn, exchange_refs, lock_sending
from faber_ledger.cli.sync.ref_versions import may_have_event, reaches_payload, refs_here
from faber_ledger.cli.sync.refs import SENT, Remote, delete_refs, ref_name
from faber_ledger.ledger.errors import LedgerError, Locked
from faber_ledger.runs.git_command import top_of
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
        problem = f"{sent.remote} may still have what was redacted: this clone sends no ledgers to it any more"
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
