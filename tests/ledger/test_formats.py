"""One text per format: the hook and Alembic have the same schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from support.sample_log import append_sample

from faber_ledger.ledger import file
from faber_ledger.ledger.errors import IntegrityError, NewerFormat, RunNotFound
from faber_ledger.ledger.log import Log
from faber_ledger.migrations import upgrade
from faber_ledger.migrations.upgrade import Format, Outcome, migrate_file, run_revisions

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"
SECOND = """\
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("CREATE TABLE tag (\\n  name TEXT NOT NULL\\n)")
    op.get_bind().exec_driver_sql("PRAGMA user_version = 2")
"""
FORMAT_2 = Format("0002", file.FORMAT_1.rstrip() + "\n\nCREATE TABLE tag (\n  name TEXT NOT NULL\n);\n")
KNOWN = {**upgrade.FORMATS, 2: FORMAT_2}


def test_a_ledger_made_by_alembic_is_one_made_by_a_hook(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_revisions(str(tmp_path / "alembic.db"))
    assert capfd.readouterr() == ("", "")
    with Log.open(str(tmp_path / "hook.db")) as log:
        log.commit()
    assert append_sample(tmp_path / "alembic.db")
    with Log.read(str(tmp_path / "alembic.db")) as one, Log.read(str(tmp_path / "hook.db")) as other:
        for question in (SCHEMA, "SELECT * FROM alembic_version", "PRAGMA application_id", "PRAGMA user_version"):
            assert one.connection.execute(question).fetchall() == other.connection.execute(question).fetchall()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    append_sample(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of the revisions, which is replaced by one in which a second format follows the first."""
    own = Path(upgrade.SCRIPTS)
    folder = tmp_path / "a folder, 100% odd: scripts"
    (folder / "ledger").mkdir(parents=True)
    (folder / "env.py").write_text((own / "env.py").read_text())
    (folder / "ledger" / "0001.py").write_text((own / "ledger" / "0001_format_1.py").read_text())
    (folder / "ledger" / "0002.py").write_text(SECOND)
    monkeypatch.setattr(upgrade, "SCRIPTS", str(folder))
    monkeypatch.setattr(upgrade, "FORMATS", KNOWN)
    return str(folder)


def test_a_current_ledger_is_left_alone(ledger: Path) -> None:
    before = ledger.read_bytes()
    assert migrate_file(str(ledger), str(ledger.with_name("ledger.lock"))) == Outcome(1, 1)
    assert ledger.read_bytes() == before
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.db"]


@pytest.mark.usefixtures("scripts")
def test_an_upgrade_keeps_every_event(ledger: Path) -> None:
    ledger.chmod(0o640)
    with Log.read(str(ledger)) as log:
        before = log.connection.execute("SELECT * FROM event").fetchall()
        heads = log.heads()
    assert migrate_file(str(ledger), str(ledger.with_name("ledger.lock"))) == Outcome(1, 2)
    connection = sqlite3.connect(ledger)
    assert connection.execute("SELECT * FROM event").fetchall() == before
    assert connection.execute("SELECT seq, hash FROM head").fetchall() == heads
    assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("0002",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT count(*) FROM tag").fetchone() == (0,)
    assert ledger.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in ledger.parent.glob("ledger*")} == {"ledger.db", "ledger.lock"}
    with pytest.raises(NewerFormat):
        Log.read(str(ledger))


@pytest.mark.parametrize(
    "mistake",
    [
        "DELETE FROM head; DROP TRIGGER event_is_never_deleted",
        "SELECT * FROM nothing",
        "INSERT INTO event SELECT 99, '01KE7HV3R0ZZZZZZZZZZZZZZZZ', type, version, at, writer, session_id, client,"
        " parents, salt, payload, payload_hash, hash FROM event WHERE seq = 1",
    ],
)
def test_a_failed_upgrade_does_not_change_the_ledger(ledger: Path, scripts: str, mistake: str) -> None:
    before = ledger.read_bytes()
    statements = "".join(f"    op.get_bind().exec_driver_sql({text!r})\n" for text in mistake.split("; "))
    Path(scripts, "ledger", "0002.py").write_text(SECOND + statements)
    with pytest.raises(IntegrityError):
        migrate_file(str(ledger), str(ledger.with_name("ledger.lock")))
    assert ledger.read_bytes() == before
    assert {path.name for path in ledger.parent.glob("ledger*")} == {"ledger.db", "ledger.lock"}


def test_a_ledger_of_a_newer_format_or_none_is_refused(ledger: Path) -> None:
    with pytest.raises(RunNotFound):
        migrate_file(str(ledger.with_name("none.db")), str(ledger.with_name("ledger.lock")))
    sqlite3.connect(ledger).execute("PRAGMA user_version = 99")
    with pytest.raises(NewerFormat):
        migrate_file(str(ledger), str(ledger.with_name("ledger.lock")))
