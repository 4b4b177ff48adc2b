"""A run on disk: its files, which run is active, `state.json`, log and mirror, recovery, git, settings."""

from __future__ import annotations

import faber_ledger.ledger


def git_tracks(path: str) -> bool | None:
    """Return whether git tracks a file, as `is_tracked` does."""
    from faber_ledger.runs.git import is_tracked  # only where something odd stands beside a ledger

    return is_tracked(path)


faber_ledger.ledger.git_tracks = git_tracks
