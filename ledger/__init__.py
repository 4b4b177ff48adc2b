"""The log of a run: events, the file that holds them, and how it is written, read, verified and united.

An event is an immutable fact (`events` has its shape, `event_types` its row). A log is the ordered events of one run; a
ledger is the SQLite file that holds them. A head is an event that no other event names as its parent. Start with `log`,
then `encoding` and `union`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

JOURNAL_ENDING = "-journal"  # of the file in which SQLite keeps what a transaction replaces
BACKUP_ENDING = ".backup"  # of a copy from before a change

# Returns the permissions of a file of ours in the folder of this path: 0600, or what a shared repository asks for.
# `faber_ledger.runs` sets this, too.
private_mode: Callable[[str], int] = lambda path: 0o600  # noqa: E731 -- a function could not be replaced
