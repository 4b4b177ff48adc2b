"""Write the broken ledgers, one per kind of damage: `python tools/break_ledgers.py`.

Each is the frozen ledger of format 1, changed behind the back of its triggers: they are dropped, and created again
afterwards. `test_broken.py` and docs/reference/FILE-FORMAT.md have what `verify` must report of each.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support.forging import forge

from faber_ledger.ledger.file import FORMAT_1, statements

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "broken"
INTACT = FOLDER.parent / "format-1" / "ledger.db"
TRIGGERS = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER")]
UNIQUE = "CREATE UNIQUE INDEX event_id ON event (id)"
BROKEN: dict[str, tuple[str, ...]] = {
    "changed-payload": ("UPDATE event SET payload = replace(payload, '\"frame\"', '\"build\"') WHERE seq = 3",),
    "removed-middle": ("DELETE FROM event WHERE seq = 5",),
    "cut-tail": ("DELETE FROM event WHERE seq >= 9",),
    "swapped-order": (
        "UPDATE event SET seq = -4 WHERE seq = 4",
        "UPDATE event SET seq = 4 WHERE seq = 7",
        "UPDATE event SET seq = 7 WHERE seq = -4",
    ),
    "forged-parent": ("UPDATE event SET parents = (SELECT hash FROM event WHERE seq = 2) WHERE seq = 6",),
    "duplicated-id": (
        "DROP INDEX event_id",
        "INSERT INTO event SELECT 9, id, type, version, at, writer, session_id, client, parents, salt, payload,"
        " payload_hash, hash FROM event WHERE seq = 4",
        "CREATE INDEX event_id ON event (id)",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = '{UNIQUE}' WHERE name = 'event_id'",
        "PRAGMA writable_schema = RESET",
    ),
    "emptied-heads": ("DELETE FROM head",),
    "another-revision": ("UPDATE alembic_version SET version_num = '0002'",),
}


def break_all(folder: Path = FOLDER) -> None:
    """Write every broken ledger into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, changes in BROKEN.items():
        break_one(folder / f"{name}.db", changes)
    shutil.copyfile(INTACT, folder / "surplus.db")
    os.truncate(folder / "surplus.db", INTACT.stat().st_size + 4096)


def break_one(path: Path, changes: tuple[str, ...]) -> None:
    """Copy the frozen ledger and change the copy."""
    shutil.copyfile(INTACT, path)
    forge(path, *changes)


if __name__ == "__main__":
    break_all()
