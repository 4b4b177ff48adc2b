"""The log of a run: events, the file that holds them, and how it is written, read, verified and united.

An event is an immutable fact (`events` has its shape, `event_types` its row). A log is the ordered events of one run; a
ledger is the SQLite file that holds them. A head is an event that no other event names as its parent. Start with `log`,
then `row` and `union`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The endings of the files beside a ledger: SQLite's journal, an unfinished recovery, and a copy from before a change.
JOURNAL_ENDING = "-journal"
RECOVERED_ENDING = ".recovered"
BACKUP_ENDING = ".backup"

# Returns whether git tracks a file beside a ledger, None without git. A journal or a recovery that git tracks came with
# a commit, so it is not trusted. This package does not ask git: `faber_ledger.runs` sets this. Until then every file
# counts as tracked, so that nothing is used that may have come with a commit.
tracking_query: Callable[[str], bool | None] = lambda path: True  # noqa: E731 -- a function could not be replaced

# Returns the beginning of the paths of what this clone keeps of the ledger at a path where no commit can bring a file;
# None for a ledger that is there itself. `faber_ledger.runs` sets this, too.
private_stem: Callable[[str], str | None] = lambda path: None  # noqa: E731 -- a function could not be replaced
WRITING_ENDING = ".writing"  # there while a writer of this clone is at work, or was killed: SQLite's journal is its own
JUDGED_ENDING = ".judged"  # says which file at the ledger's path was last judged here, so that git's are known

# Returns the permissions of a file of ours in the folder of this path: 0600, or what a shared repository asks for.
# `faber_ledger.runs` sets this, too.
private_mode: Callable[[str], int] = lambda path: 0o600  # noqa: E731 -- a function could not be replaced
