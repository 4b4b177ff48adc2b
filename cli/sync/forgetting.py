"""Delete a run's ref at the remote, on purpose."""

from __future__ import annotations

from faber_ledger.cli.sync.carried import lock_sending, unavailable
from faber_ledger.cli.sync.refs import SENT, Push, Remote, delete_refs, ref_name
from faber_ledger.ledger.command_errors import GitFailed, ServerRefused
from faber_ledger.ledger.errors import RunNotFound
from faber_ledger.runs.run import Run
from faber_ledger.runs.sent import Sent


def forget_at_remote(remote: Remote, run: Run) -> None:
    """Delete a run's ref at the remote and what was fetched of it; this clone sends it no more.

    Raises ServerUnavailable, ServerRefused, and RunNotFound if there is no ref.
    """
    name = ref_name(run.run_id)
    with lock_sending(run.root):
        try:
            there = remote.heads(name)
            if name not in there:
                hint = "run `faber-ledger run list --remote`"
                raise RunNotFound(f"{remote.name} has no ref of {run.run_id}", hint=hint)
            pushed = remote.push([Push(name, "", there[name])])[name]
            if pushed.why is not None:
                hint = "delete it where the remote is hosted"
                raise ServerRefused(f"{remote.name} keeps the ref: {pushed.why}", hint=hint)
            delete_refs(remote.top, [remote.fetched(name), SENT + name])
        except GitFailed as error:
            raise unavailable(remote, error) from error
        sent = Sent(run)
        sent.commit, sent.heads, sent.events, sent.log, sent.is_forgotten = "", "", 0, None, True
        sent.save()
