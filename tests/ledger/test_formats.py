"""One text of the format: the hook and Alembic make the same schema of a ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from support.sample_log import append_sample

from faber_ledger.ledger import file
from faber_ledger.ledger.log import Log
from faber_ledger.migrations import upgrade

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"


def make_by_alembic(path: str) -> None:
    """Run the ledger's revisions on the empty database at `path`, in one transaction."""
    config = upgrade.make_config("ledger")
    engine = create_engine("sqlite://", creator=lambda: file.connect(path, "rwc"), poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = connection
        command.upgrade(config, file.REVISION)
        connection.commit()


def test_a_ledger_made_by_alembic_is_one_made_by_a_hook(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder, 100% odd: ledgers"
    shutil.copytree(upgrade.SCRIPTS, folder)
    monkeypatch.setattr(upgrade, "SCRIPTS", str(folder))
    make_by_alembic(str(folder / "alembic.db"))
    assert capfd.readouterr() == ("", "")
    with Log.open(str(folder / "hook.db")) as log:
        log.commit()
    assert append_sample(folder / "alembic.db")
    with Log.read(str(folder / "alembic.db")) as one, Log.read(str(folder / "hook.db")) as other:
        for question in (SCHEMA, "SELECT * FROM alembic_version", "PRAGMA application_id", "PRAGMA user_version"):
            assert one.connection.execute(question).fetchall() == other.connection.execute(question).fetchall()
