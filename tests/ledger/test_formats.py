"""One text of the format: the hook and Alembic make the same schema of a ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.sample_log import append_sample

from faber_ledger.ledger.log import Log
from faber_ledger.migrations import upgrade

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"


def test_a_ledger_made_by_alembic_is_one_made_by_a_hook(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder, 100% odd: ledgers"
    shutil.copytree(upgrade.SCRIPTS, folder)
    monkeypatch.setattr(upgrade, "SCRIPTS", str(folder))
    upgrade.make_ledger(str(folder / "alembic.db"))
    assert capfd.readouterr() == ("", "")
    with Log.open(str(folder / "hook.db")) as log:
        log.commit()
    assert append_sample(folder / "alembic.db")
    with Log.read(str(folder / "alembic.db")) as one, Log.read(str(folder / "hook.db")) as other:
        for question in (SCHEMA, "SELECT * FROM alembic_version", "PRAGMA application_id", "PRAGMA user_version"):
            assert one.connection.execute(question).fetchall() == other.connection.execute(question).fetchall()
