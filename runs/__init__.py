"""A run on disk.

A *run* is one execution of a FABER workflow: a folder `.fractary/runs/<run_id>/` with `state.json`, which other tools
own and in which two members, the *blocks*, are ours, and with `ledger.db`, the run's log. The *active run* is the one
that hooks in a work tree record on. The *clone's log* of a run is below the git directory, where no checkout reaches;
the work tree's `ledger.db` is a copy of it, which is *published* (`publish`) and *absorbed* (`absorb`).

Read `run` first (names and files), then `active`, `state_file` and `log`. Hooks load most of this package: nothing
here prints, and what few calls need is imported where it is used.
"""

from __future__ import annotations

import faber_ledger.ledger


def _file_mode(path: str) -> int:
    from faber_ledger.runs.clone import file_mode  # it imports `ledger`

    faber_ledger.ledger.private_mode = file_mode
    return file_mode(path)


faber_ledger.ledger.private_mode = _file_mode
