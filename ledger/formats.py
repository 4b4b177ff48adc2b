"""The ledger file's formats: one literal text each, executed by the hook and by Alembic, compared at every open.

`id` is the only unique column and the table has no rowid, because with one more unique constraint, or a rowid,
`INSERT OR REPLACE` under a new id replaced an event past all triggers.
"""

from __future__ import annotations

APPLICATION_ID = 0x46424C47  # "FBLG"
FORMAT = 1
REVISION = "0001"
HIGHEST_SEQ = 2**53  # what any other program reads exactly; SQLite's own end would stop every later append
# A payload is read whole and as JSON takes some twenty times its size: what one event may cost a reader is bounded.
LONGEST_PAYLOAD = 8 * 1024 * 1024
LONGEST_VALUE = LONGEST_PAYLOAD + 1024 * 1024  # SQLite counts a row's other columns too

FORMAT_1 = """\
CREATE TABLE event (
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  version INTEGER NOT NULL,
  at TEXT NOT NULL,
  writer TEXT NOT NULL,
  session_id TEXT,
  client TEXT,
  parents BLOB NOT NULL,
  salt BLOB,
  payload TEXT,
  payload_hash BLOB,
  hash BLOB NOT NULL,
  PRIMARY KEY (seq, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX event_id ON event (id);

CREATE INDEX event_client ON event (client, seq) WHERE type = 'session_started';

CREATE INDEX event_session ON event (session_id, seq) WHERE type = 'session_started';

CREATE INDEX event_compaction ON event (seq) WHERE type = 'compaction_completed';

CREATE INDEX event_note ON event (seq) WHERE type = 'note_recorded';

CREATE TABLE head (
  hash BLOB NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (hash)
) WITHOUT ROWID;

CREATE TABLE projection (
  projector INTEGER NOT NULL,
  heads BLOB NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (projector)
) WITHOUT ROWID;

CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TRIGGER event_is_never_updated BEFORE UPDATE ON event
BEGIN
  SELECT RAISE(ABORT, 'an event is never updated');
END;

CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
BEGIN
  SELECT RAISE(ABORT, 'an event is never deleted');
END;

CREATE TRIGGER event_id_is_new BEFORE INSERT ON event
WHEN EXISTS (SELECT 1 FROM event WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'an event with this id is known');
END;
"""


def statements(text: str) -> list[str]:
    """Split a format's text into its statements, each as SQLite keeps it in its schema."""
    return [part.strip().removesuffix(";") for part in text.split("\n\n")]
