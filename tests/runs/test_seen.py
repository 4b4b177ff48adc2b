"""What a clone keeps of its clients: when each was first seen, and which run its newest session is on."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project

from faber_ledger.runs.seen import SeenClient, note_delivery, note_session, seen_client

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = 1_760_000_000.0
DAY = 24 * 3600


def folder(project: Project) -> Path:
    return project.root / ".git/faber-ledger/clients"


def file_of(project: Project, client: str = "client") -> Path:
    """Return the file with what was heard of a client; the other is the one of its session."""
    return folder(project) / sha256(client.encode()).hexdigest()[:32]


def seen(project: Project, client: str = "client") -> SeenClient:
    found = seen_client(str(project.root), client)
    assert found is not None
    return found


def test_a_reused_process_id_does_not_take_the_earlier_clients_run(project: Project, tmp_path: Path) -> None:
    project.deliver("SessionStart.startup.print", client="earlier", pid="42")
    project.deliver("SessionEnd.other.print", client="earlier", pid="42")
    project.active_path.unlink()
    project.deliver("SessionStart.startup.print", client="later", pid="42")
    project.deliver("SessionEnd.clear.interactive", client="later", pid="42")
    before = len(project.events)
    assert project.deliver("SessionStart.clear.interactive", client="cleared", pid="42").packet is None
    assert len(project.events) == before


def test_clients_are_forgotten_after_30_days(project: Project) -> None:
    root = str(project.root)
    note_session(root, "client", "7", RUN, MOMENT)
    os.utime(file_of(project), (MOMENT, MOMENT))
    assert note_delivery(root, "client", "7", MOMENT + 31 * DAY) is None
    assert (seen(project).first_at, seen(project).run_id) == (MOMENT + 31 * DAY, None)
    note_session(root, "client", "7", RUN, MOMENT)
    for path in folder(project).iterdir():
        os.utime(path, (MOMENT, MOMENT))
    note_delivery(root, "another", "7", MOMENT + 31 * DAY)
    assert seen_client(root, "client") is None
    assert list(folder(project).iterdir()) == [file_of(project, "another")]


@pytest.mark.parametrize("client", ["../../config", "NUL\0", "\ud800"])
def test_no_client_chooses_the_name_of_a_file(project: Project, client: str) -> None:
    note_delivery(str(project.root), client, None, MOMENT)
    assert seen_client(str(project.root), client) is not None
    (path,) = folder(project).iterdir()
    assert len(path.name) == 32
    assert path.stat().st_mode & 0o777 == 0o600


BROKEN = [
    b"{" * 10_000,
    b"\xff",
    b'{"client": "client", "pid": null, "first_at": NaN, "last_at": 1, "run_id": null, "root": null}',
    b'{"client": "another", "pid": null, "first_at": 1, "last_at": 1, "run_id": null, "root": null}',
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_file_is_none(project: Project, content: bytes) -> None:
    note_session(str(project.root), "client", "7", RUN, MOMENT)
    file_of(project).write_bytes(content)
    assert seen_client(str(project.root), "client") is None
    assert project.deliver("SessionStart.startup.print", client="client").packet is not None
    assert seen(project).run_id == RUN


def test_a_copied_clone_leaves_the_sessions_of_the_original_alone(project: Project, tmp_path: Path) -> None:
    me = {"CLAUDE_CODE_SESSION_ID": "client", "CLAUDE_PID": "7"}
    project.deliver("SessionStart.startup.print", client="client", pid="7")
    assert project.faber("run", "start", "--run-id", "other", "--work-id", "1", "--yes").returncode == 0
    shutil.copytree(project.root, tmp_path / "copy", symlinks=True)
    copy, before = Project(tmp_path / "copy"), project.events
    assert copy.faber("run", "resume", "other", "--yes", env=me).returncode == 0
    assert project.events == before
    assert copy.of_type("session_ended")[0]["reason"] == "normal"
