"""`faber-ledger export --sqlite`: tables for SQL."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND, run_command
from support.sample_log import FIRST, RUN, SECOND, write_run

from faber_ledger.ledger.log import Log


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_run(tmp_path)
    return tmp_path


def export(project: Path, *arguments: str, code: int = 0) -> str:
    done = run_command([COMMAND, "export", *arguments], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return str(done.stderr)


def ask(project: Path, question: str) -> list[Any]:
    connection = sqlite3.connect(project / "audit.db")
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def test_each_table_has_what_the_log_says(project: Path) -> None:
    assert export(project, "--sqlite", "audit.db") == "audit.db: 11 events of 1 run\n"
    assert ask(project, "SELECT * FROM runs") == [
        (RUN, "fractary-faber:default", "258", "2026-01-05T14:30:22Z", "2026-01-05T14:32:02Z", 11, 2, 1)
    ]
    with Log.read(str(project / ".fractary" / "runs" / RUN / "ledger.db")) as log:
        for recorded, row in zip(
            log.stream(), ask(project, "SELECT * FROM events ORDER BY run_id, seq, id"), strict=True
        ):
            event = {**json.loads(row[-1]), "type": row[3]} | ({"session_id": row[7]} if row[7] else {})
            assert (row[0], row[1], row[2], event) == (RUN, recorded["seq"], recorded["id"], recorded["event"])
    assert ask(project, "SELECT session_id, hostname, ended_at, seconds, newly_completed FROM sessions") == [
        ("claude-session-20260104-xyz789", None, None, None, "[]"),
        (FIRST, "dev-machine-1", "2026-01-05T14:31:52Z", 70, '["frame", "architect"]'),
        (SECOND, "desktop", None, None, "[]"),
    ]
    assert ask(project, "SELECT artifact_id, outcome, size_bytes FROM loads ORDER BY event_id") == [
        ("workflow-state", "loaded", 4096),
        ("spécification", "failed", None),
        ("orchestration-protocol", "skipped", None),
    ]
    assert ask(project, "SELECT session_id, trigger, phase FROM compactions") == [(FIRST, "auto", "build")]


def test_all_runs_go_into_one_database(project: Path) -> None:
    write_run(project, "second-run")
    export(project, "--sqlite", "audit.db", "--all")
    assert ask(project, "SELECT run_id, events FROM runs ORDER BY run_id") == [(RUN, 11), ("second-run", 11)]
    assert sorted(path.name for path in project.iterdir()) == [".fractary", "audit.db"]


def test_a_file_that_is_there_is_not_replaced(project: Path) -> None:
    (project / "audit.db").write_text("mine\n")
    assert "audit.db is there already" in export(project, "--sqlite", "audit.db", code=1)
    assert (project / "audit.db").read_text() == "mine\n"


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_nothing_is_written_beside_a_journal_that_sqlite_would_play(project: Path, suffix: str) -> None:
    """A repository may contain one, and opening the export would delete the files that it names."""
    beside = project / f"audit.db{suffix}"
    beside.write_bytes(b"brought along")
    output = export(project, "--sqlite", "audit.db", code=1)
    assert output == f"error: {beside} is there already\n\nhint: move {beside} away, or name another file\n"
    assert [path for path in project.iterdir() if path.is_file()] == [beside]
