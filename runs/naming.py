"""Which run a state or a log says that it is: only asked where a place in the project allows two ids.

A state may be broken or in conflict, so it is searched for its member `run_id` rather than decoded.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.disk import FileRefused, open_regular
from faber_ledger.runs.run import LARGEST_STATE

BEGINNING = 64 * 1024  # of a state: other tools write its id first


def named_in_state(path: str, ids: list[str]) -> str | None:
    """Return which of some ids a state names; None if none, or if it is unreadable."""
    try:
        with open(open_regular(path), "rb") as file:
            text = file.read(BEGINNING).decode("utf-8", "replace")
            found = _named_in(text, ids)
            if len(found) != 1:
                text += file.read(LARGEST_STATE).decode("utf-8", "replace")
                found = _named_in(text, ids)
    except (FileRefused, OSError):
        return None
    if len(found) < 2:
        return found[0] if found else None
    from faber_ledger.ledger.encoding import loads  # a state that names both, the other one in another member

    try:
        named = loads(text)
    except (ValueError, RecursionError):
        return None
    return named["run_id"] if isinstance(named, dict) and named.get("run_id") in ids else None


def _named_in(text: str, ids: list[str]) -> list[str]:
    values = [piece.lstrip().removeprefix(":").lstrip() for piece in text.replace("\\/", "/").split('"run_id"')[1:]]
    return [one for one in ids if any([value.startswith(f'"{one}"') for value in values])]


def named_in_log(path: str, ids: list[str]) -> str | None:
    """Return which of some ids a log names; None if none or several, or if it is missing or unreadable."""
    if not os.path.isfile(path):
        return None
    import sqlite3  # only if a state is missing or broken

    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.ledger.foreign import open_untrusted
    from faber_ledger.ledger.union import runs_in

    try:
        with open_untrusted(path) as log:
            named = [one for one in ids if one in runs_in(log)]
    except (LedgerError, OSError, sqlite3.Error):
        return None
    return named[0] if len(named) == 1 else None
