"""A run's surroundings: its files, its workflow, its artifacts, and what the agent is given."""

from __future__ import annotations

import faber_ledger.ledger


def git_tracks(path: str) -> bool | None:
    """Return whether git tracks a file, as `is_tracked` does."""
    from faber_ledger.context.tracked import is_tracked  # only where something odd stands beside a ledger

    return is_tracked(path)


faber_ledger.ledger.git_tracks = git_tracks
