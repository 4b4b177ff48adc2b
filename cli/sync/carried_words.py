"""What an exchange with git refs did, as lines and as data."""

from __future__ import annotations

from typing import Any

from faber_ledger.cli.sync.carried import Carried
from faber_ledger.cli.ui.words import events_shown, plural


def exit_code(one: Carried) -> int:
    """Return the exit code of a run's exchange: why it was not sent, or 1 if a delivery still waits."""
    return one.code or int(one.waiting > 0)


def carried_line(one: Carried, remote: str) -> str | None:
    """Return what was done with a run; None if nothing was."""
    parts = []
    if one.fetched or one.sent:
        parts.append(f"{events_shown(one.fetched)} fetched from {remote}, {one.sent} sent")
    elif one.has_sent:
        parts.append(f"its state sent to {remote}")
    if one.state:
        parts.append(f"state.json taken from {remote} ({one.state})")
    if one.was_lost:
        parts.append(f"{remote} had lost its ref, which is there again")
    if one.why is not None:
        parts.append(f"not sent: {one.why}")
    if one.waiting:
        parts.append(f"{plural(one.waiting, 'delivery', 'deliveries')} not recorded")
    return f"{one.run.run_id}: {'; '.join(parts)}" if parts else None


def carried_data(one: Carried) -> dict[str, Any]:
    """Return what was done with a run for `--json`."""
    return {
        "run_id": one.run.run_id,
        "fetched": one.fetched,
        "sent": one.sent,
        "state_taken": one.state or None,
        "was_lost": one.was_lost,
        "why_not_sent": one.why,
        "waiting": one.waiting,
    }
