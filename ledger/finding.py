"""What may be wrong with a log, and what is wrong with its file, whatever the events in it say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.ledger import formats
from faber_ledger.ledger.header import surplus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.log import Log

RESTORE = (
    "run `git log --oneline -- ledger.db` in the run's folder, keep this file aside,"
    " and restore the newest version that verifies, or another machine's"
)
NOTES = (
    "unknown_shape",
    "torn_version",
    "redacted_version",
    "unredacted_version",
    "not_pulled",
    "in_another_worktree",
    "empty",
)
FORGED = "forged_redaction"
UPGRADE = "nothing is lost; upgrade faber-ledger on this machine to have it checked and shown"
MEND = "run `faber-ledger union ledger.db -o ledger.db` in the run's folder: it writes the file anew from its events"
DOUBLES = "SELECT id FROM event NOT INDEXED GROUP BY id HAVING count(*) > 1"


class Finding(NamedTuple):
    """One thing that is wrong: its kind, the event (None: the log as a whole), what it is, and what to do."""

    kind: str
    event: str | None
    what: str
    hint: str

    @property
    def is_note(self) -> bool:
        """Tell whether the log is sound all the same."""
        return self.kind in NOTES

    @property
    def is_damage(self) -> bool:
        """Return whether the log itself is not whole: what somebody forged in it is named, and takes out nothing."""
        return self.kind != FORGED and not self.is_note


def damage(log: Log, doubles: set[Any]) -> Iterator[Finding]:
    """Ask SQLite itself; the full check, since the quick one does not see an index that lacks an event's id."""
    connection = log.connection
    for (what,) in connection.execute("PRAGMA integrity_check"):
        if what != "ok" and not (doubles and "non-unique entry in index event_id" in what):
            yield Finding("damaged", None, f"SQLite finds the file damaged: {what}", RESTORE)
    revisions = [revision for (revision,) in connection.execute("SELECT version_num FROM alembic_version")]
    if revisions != [formats.REVISION]:
        told = ", ".join(map(repr, revisions)) or "none"
        yield Finding("revision", None, f"it names another revision of its schema than it has: {told:.100}", MEND)
    file = connection.execute("PRAGMA database_list").fetchone()[2]  # none is read where a journal was played in memory
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_master")  # from here on nobody writes
    extra = surplus(connection, file) if os.path.isfile(file) else 0
    connection.execute("COMMIT")
    if extra:
        yield Finding("surplus", None, f"it goes on for {extra:,} bytes after its last page", MEND)
