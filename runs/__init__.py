"""A run on disk.

A *run* is one execution of a FABER workflow: a folder `.fractary/runs/<run_id>/` with `state.json`, which other tools
own and in which two members, the *blocks*, are ours, and with `ledger.db`, the run's log. The *active run* is the one
that hooks in a work tree record on; a work tree's *claim* says which run it is working on. The *mirror* is this clone's
second copy of a run's log, under the git directory, where no checkout reaches.

Read `run` first (names and files), then `active`, `state_file` and `run_log`. Hooks load most of this package: nothing
here prints, and what few calls need is imported where it is used.
"""

from __future__ import annotations

import faber_ledger.ledger


def _is_tracked(path: str) -> bool | None:
    from faber_ledger.runs.git import is_tracked  # only if a journal or a recovery lies beside a ledger

    return is_tracked(path)


# Every reader and writer of a ledger file needs the answer, also those that know no run, and `ledger` must not import
# git: so it has these settings, and whoever imports any module of `runs` has set it.
faber_ledger.ledger.tracking_query = _is_tracked


def _private_stem(path: str) -> str | None:
    from faber_ledger.runs.ledger_notes import ledger_stem  # it imports `ledger`

    return ledger_stem(path)


faber_ledger.ledger.private_stem = _private_stem


def _file_mode(path: str) -> int:
    from faber_ledger.runs.private_files import file_mode  # it imports `ledger`

    return file_mode(path)


faber_ledger.ledger.private_mode = _file_mode
