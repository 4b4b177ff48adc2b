"""What a reader of the repository cannot guess: an unmasked delivery, and the content of an artifact."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from support.digests import keyed_digest
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path


START = "SessionStart.startup.print"
COMPACTED = "PostCompact.manual.print"
SUMMARY = "log in with password: Sommer2026! and go on"


def digests(project: Project) -> list[str]:
    events: list[dict[str, Any]] = [dict(recorded["event"]) for recorded in project.events]
    return [event["delivery"]["digest"] for event in events if isinstance(event.get("delivery"), dict)]


def ignored(project: Project) -> list[str]:
    return [event["reason"] for event in project.of_type("delivery_ignored")]


def test_a_masked_secret_cannot_be_guessed_from_the_deliverys_digest(project: Project) -> None:
    """(H10)"""
    project.deliver(START, client="one")
    project.deliver(COMPACTED, client="one", fields={"compact_summary": SUMMARY})
    content = project.prepared(COMPACTED, client="one", fields={"compact_summary": SUMMARY})[0]
    last = digests(project)[-1]
    assert last == keyed_digest(project.root / ".git", content)
    key = (project.root / ".git" / "faber-ledger" / "key").read_bytes()
    in_tree = [path.read_bytes() for path in project.root.rglob("*") if path.is_file() and ".git" not in path.parts]
    for known in (key, key.hex().encode(), hashlib.sha256(content).hexdigest().encode(), b"Sommer2026!"):
        assert not any(known in one for one in in_tree)


def test_the_key_is_its_users_alone_and_each_clones_own(project: Project, tmp_path: Path) -> None:
    """(H10)"""
    project.git("config", "core.sharedRepository", "world")
    umask = os.umask(0)
    try:
        project.deliver(START)
    finally:
        os.umask(umask)
    key = project.root / ".git" / "faber-ledger" / "key"
    assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o660, 32)
    project.commit()
    other = project.clone(tmp_path / "other", "laptop")
    other.deliver("SessionStart.resume.print")
    assert (other.root / ".git" / "faber-ledger" / "key").read_bytes() != key.read_bytes()


def test_without_a_key_no_digest_is_recorded_and_none_is_like_another(project: Project) -> None:
    """(H10)"""
    (project.root / ".git" / "faber-ledger" / "key").mkdir(parents=True)
    project.write(".env", "TOKEN=1\n")
    for _ in range(2):
        assert project.deliver(START).packet is not None
    assert set(digests(project)) == {""}
    assert ignored(project) == []
    assert "" in loaded(project).values()
    assert project.faber("verify").returncode == 0


def test_a_link_in_the_keys_place_is_not_followed(project: Project, tmp_path: Path) -> None:
    """(H10)"""
    known = tmp_path / "known"
    known.write_bytes(bytes(32))
    folder = project.root / ".git" / "faber-ledger"
    (folder / "key").symlink_to(known)
    project.deliver(START)
    assert (folder / "key").read_bytes() != known.read_bytes() == bytes(32)
    assert digests(project) == [keyed_digest(project.root / ".git", project.prepared(START)[0])]


# Artifacts


def naming(project: Project, **files: str) -> None:
    """Let the workflow that came with the repository name files."""
    project.name_artifacts(*[{"id": name, "path": path, "required": True} for name, path in files.items()])


def loaded(project: Project) -> dict[str, str]:
    return {load["artifact_id"]: load["sha256"] for load in project.of_type("artifact_loaded")}


def test_a_workflow_that_names_a_secret_records_nothing_to_guess_it_from(project: Project) -> None:
    """(W13)"""
    secret, tracked = b"PIN=481516\n", b"Tracked.\n"
    project.write(".env", secret)
    project.write("docs/a.md", tracked)
    (project.root / "docs" / "latest.md").symlink_to("../.env")
    naming(project, secret=".env", tracked="docs/a.md", link="docs/latest.md")
    project.git("add", "docs")
    project.git("commit", "--quiet", "-m", "Docs")
    packet = project.deliver(START).packet or ""
    assert "481516" in packet  # the workflow may name it, as the client's own instructions may
    found = loaded(project)
    assert found["secret"] == found["link"] == f"keyed:{keyed_digest(project.root / '.git', secret)}"
    assert found["tracked"] == f"keyed:{keyed_digest(project.root / '.git', tracked)}"
    text = project.faber("export").stdout
    assert hashlib.sha256(secret).hexdigest() not in text
    assert "481516" not in text


def test_a_file_is_compared_in_its_own_clone_alone(project: Project, tmp_path: Path) -> None:
    """(W13)"""
    project.write(".env", "PIN=481516\n")
    naming(project, secret=".env")
    assert project.faber("session-load").returncode == 0
    assert project.faber("session-load").returncode == 0
    assert [one["artifact_id"] for one in project.of_type("artifact_skipped")] == ["secret"]  # it is the same
    project.write(".env", "PIN=481517\n")
    assert project.faber("session-load").returncode == 0
    assert len({load["sha256"] for load in project.of_type("artifact_loaded")}) == 2
    assert project.faber("show", "secret", "--content").stdout == "PIN=481517\n"
    project.git("add", ".fractary")
    project.git("commit", "--quiet", "-m", "Work")
    other = project.clone(tmp_path / "other", "laptop")
    other.write(".env", "PIN=481517\n")
    assert other.faber("init", "--git-only").returncode == 0
    assert other.faber("note", "add", "here", "--run-id", other.run_id).returncode == 0
    done = other.faber("show", "secret", "--run", other.run_id, "--content")
    assert (done.returncode, "only that clone can find its content" in done.stderr) == (10, True)
    assert other.faber("verify", other.run_id).returncode == 0
