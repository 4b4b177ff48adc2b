"""`redact`: what was removed is in no file of the clone, does not return, and is never removed only in part."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.command import COMMAND
from support.files_with import files_with
from support.folders import copy_prepared
from support.inbox import leave, waiting
from support.program import path_with_program
from support.project import Project

from faber_ledger.runs.git_command import TEXT_CACHE
from faber_ledger.runs.layouts import find_run

SECRET = "hunter2-§-hunter2"
TRIGGER = "SELECT sql FROM sqlite_master WHERE name = 'event_is_never_updated'"
CACHED = {"textconv": f"{COMMAND} textconv", "cachetextconv": "true"}
SETTINGS = [word for key, value in CACHED.items() for word in ("-c", f"diff.faber-ledger.{key}={value}")]
SHOW_CACHED = (*SETTINGS, "log", "-p")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Give a project with a session whose machine has a name, and a note that holds a secret."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "p")


def prepare(folder: Path) -> None:
    made = Project.made(folder / "p")
    assert made.faber("init", "--git-only").returncode == 0
    made.commit("Set up")
    made.deliver("SessionStart.startup.print")
    assert made.faber("note", "add", f"the customer is {SECRET}, says Ada").returncode == 0


def note_id(project: Project, text: str = SECRET) -> str:
    return next(one["id"] for one in project.events if text in json.dumps(one["event"], ensure_ascii=False))


def test_a_redacted_note_is_in_no_file_of_the_clone(project: Project, tmp_path: Path) -> None:
    for name in ("state.json.backup", "state.json.broken.backup", "state.backup.json"):
        (project.run / name).write_text(SECRET)
    for name in (".state.json.0123456789abcdef.faber-ledger.tmp", ".state.json.backup.0123.faber-ledger.tmp"):
        (project.run / name).write_text(SECRET)
    mirror = project.root / ".git" / "faber-ledger" / "runs" / project.run_id
    for name in ("state.json.backup", "state.json.tmp"):
        (mirror / name).write_text(SECRET)
    aside = project.root / ".git" / "faber-ledger" / "set-aside" / f"20260101T000000Z.{project.run_id}.1.json"
    aside.parent.mkdir(parents=True)
    delivery = json.dumps({"summary": f"the customer is {SECRET}, says Ada"})
    aside.write_text(json.dumps({"delivery": delivery, "kept": 1}))
    project.log_path.parent.mkdir(parents=True, exist_ok=True)
    project.log_path.write_text(f"2026-01-05T14:30:22Z SessionStart the customer is {SECRET}, says Ada: failed\nkept\n")
    assert len(files_with(project.root, SECRET)) > 8
    output = project.redact(note_id(project), "--reason", "a password")
    assert files_with(project.root, SECRET) == []
    assert SECRET not in output
    assert json.loads(aside.read_text()) == {"delivery": '{"summary": "[redacted]"}', "kept": 1}
    assert project.log_lines == ["2026-01-05T14:30:22Z SessionStart [redacted]: failed", "kept"]
    project.assert_projected()
    project.said("verify", project.run_id)


def test_an_event_of_the_same_step_and_kind_is_not_named(project: Project) -> None:
    project.change_state(current_step="implement")
    for text in ("the customer is Ada", "drop the cache"):
        assert project.faber("note", "add", text, "--decision").returncode == 0
    assert "also in other events" not in project.redact(note_id(project, "the customer is Ada"))


def test_a_waiting_delivery_with_the_text_is_recorded_and_named(project: Project) -> None:
    run = find_run(str(project.root), project.run_id)
    text = f"{SECRET}, says Ada"  # nothing that a summary is masked for
    project.faber("note", "add", text)
    note = project.events[-1]["id"]
    assert project.faber("init", "--summaries").returncode == 0
    delivery = json.dumps({"trigger": "auto", "compact_summary": text})
    leave(run, "PostCompact", delivery.encode())
    output = project.redact(note)
    assert waiting(project) == []
    (recorded,) = [one for one in project.events if one["event"]["type"] == "compaction_completed"]
    named = next(line for line in output.splitlines() if "the same text is also in other events" in line)
    assert recorded["id"] in named
    project.redact(recorded["id"])
    project.redact(note_id(project))
    assert files_with(project.root, SECRET) == []
    project.assert_projected()
    project.said("verify", project.run_id)


def test_every_reader_says_redacted_and_none_fails(project: Project, tmp_path: Path) -> None:
    for one in project.events:
        if one["event"]["type"] != "run_adopted":
            project.redact(one["id"])
    for arguments in (
        ["log"],
        ["show", "2"],
        ["replay"],
        ["timeline", "-o", str(tmp_path / "run.html")],
        ["export"],
        ["status"],
        ["session-load", "--force"],
        ["reconstitute"],
        ["textconv", str(project.ledger_path)],
    ):
        done = project.faber(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        if arguments[0] in ("session-load", "reconstitute"):  # a note that says nothing is noise to an agent
            assert "(redacted)" not in done.stdout
    assert project.faber("log").stdout.count("(redacted)") >= 2
    assert "(redacted)" in (tmp_path / "run.html").read_text()
    answer = project.deliver("SessionStart.resume.print")
    assert answer.code == 0
    assert project.log_lines == []
    project.assert_projected()


def test_gits_cache_of_ledgers_as_text_goes_too(project: Project) -> None:
    project.commit("With a secret")
    project.git(*SHOW_CACHED)
    name = note_id(project)
    output = project.redact(name)
    assert f"removed: {TEXT_CACHE}, git's cache of ledgers as text" in output
    assert project.git("for-each-ref", "refs/notes") == ""
    assert not any(TEXT_CACHE in path for path in files_with(project.root / ".git", TEXT_CACHE))
    verified = project.faber("verify", "--git").stdout
    assert "still holds the payload of 1 event redacted by now\n" in verified
    project.git(*SHOW_CACHED)  # git's history still has it, so it is in the cache again
    verified = project.faber("verify", "--git").stdout
    assert f"redacted by now, and so does {TEXT_CACHE}, git's cache of ledgers as text\n" in verified
    assert "redacted already" in (again := project.redact(name))
    assert f"removed: {TEXT_CACHE}" in again


def test_a_second_redaction_says_so_and_finishes_what_a_crash_left(project: Project) -> None:
    mirror = project.root / ".git" / "faber-ledger" / "runs" / project.run_id / "log.db"
    name, old = note_id(project), mirror.read_bytes()
    project.redact(name)
    count = len(project.events)
    other = project.root / ".git" / "old.db"
    other.write_bytes(old)
    with sqlite3.connect(mirror) as connection:  # as if the mirror had not been reached
        (trigger,) = connection.execute(TRIGGER).fetchone()
        connection.execute("DROP TRIGGER event_is_never_updated")
        connection.execute("ATTACH ? AS old", (str(other),))
        connection.execute(
            "UPDATE event SET payload_hash = NULL, salt = (SELECT salt FROM old.event o WHERE o.id = event.id),"
            " payload = (SELECT payload FROM old.event o WHERE o.id = event.id) WHERE id = ?",
            (name,),
        )
        connection.execute(trigger)
    connection.close()
    other.unlink()
    (project.run / "state.json.backup").write_text(SECRET)
    done = project.faber("verify", project.run_id)
    assert (done.returncode, "not_redacted" in done.stdout) == (20, True)
    assert f"faber-ledger redact {name} --yes" in done.stdout
    output = project.redact(name)
    assert "redacted already" in output
    assert files_with(project.root, SECRET) == []
    assert len(project.events) == count
    project.said("verify", project.run_id)


def test_a_dry_run_and_an_unanswered_question_change_nothing(project: Project) -> None:
    project.faber("seal")  # in a copied clone, git and we note the files first
    before = {path: path.read_bytes() for path in project.root.rglob("*") if path.is_file()}
    done = project.faber("redact", note_id(project), "--dry-run")
    assert done.returncode == 0
    assert "would be removed" in done.stdout
    assert SECRET not in done.stdout
    done = project.faber("redact", note_id(project))
    assert done.returncode == 3
    assert "--yes" in done.stderr
    shown, code = project.on_terminal("redact", note_id(project), answers=["n"])
    assert (code, shown.splitlines()[-1]) == (1, "error: nothing was removed")
    assert (
        f"note, in build: the customer is {SECRET}, says Ada\nRemove the payload of event {note_id(project)}?" in shown
    )
    assert {path: path.read_bytes() for path in project.root.rglob("*") if path.is_file()} == before


def test_linked_worktrees_lose_it_too(project: Project, tmp_path: Path) -> None:
    project.commit()
    other = Project(tmp_path / "w", project.run_id)
    project.git("worktree", "add", "--quiet", str(other.root))
    assert other.faber("note", "add", "written there", "--run-id", project.run_id).returncode == 0
    assert files_with(other.root, SECRET) != []
    project.redact(note_id(project))
    assert files_with(other.root, SECRET) == []
    assert files_with(project.root, SECRET) == []
    assert [one["text"] for one in other.of_type("note_recorded")] == ["[redacted]", "written there"]
    other.assert_projected()
    other.said("verify", other.run_id)
    project.said("verify", project.run_id)


def test_a_linked_worktree_with_a_backup_alone_loses_it_too(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "--quiet", str(tmp_path / "w"))
    project.git("-C", str(tmp_path / "w"), "rm", "-rq", ".fractary/runs")
    backup = tmp_path / "w" / project.run.relative_to(project.root) / "state.json.backup"
    backup.parent.mkdir(parents=True)
    backup.write_text(SECRET)
    project.redact(note_id(project))
    assert files_with(tmp_path / "w", SECRET) == []


# Git, other clones


def committed(project: Project, message: str) -> None:
    assert project.faber("seal").returncode == 0
    project.commit(message, "--allow-empty")


@pytest.fixture
def other(project: Project, tmp_path: Path) -> Project:
    """Return another clone that has the note in its ledger and its mirror."""
    committed(project, "Work")
    clone = project.clone(tmp_path / "other", "desktop")
    assert clone.faber("init", "--git-only").returncode == 0
    assert clone.faber("note", "add", "from the other").returncode == 0
    assert files_with(clone.root, SECRET) != []
    return clone


def test_another_clone_that_pulls_the_redaction_loses_the_payload_everywhere(
    project: Project, other: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path_with_program())
    name = note_id(project)
    project.redact(name)
    committed(project, "Redact")
    committed(other, "Its own work")
    other.git("pull", "--quiet", "--no-rebase", "--no-edit")
    (other.run / "state.json.broken.backup").write_text(SECRET)
    assert other.faber("seal").returncode == 0
    (aside,) = files_with(other.root, SECRET)
    assert aside.endswith(".redacted.rows.jsonl")
    assert other.faber("redact", name, "--yes").returncode == 0  # that of this clone goes through it, too
    assert files_with(other.root, SECRET) == []
    other.assert_projected()
    other.said("verify", other.run_id)
    committed(other, "On")
    project.git("remote", "add", "other", str(other.root))
    project.git("pull", "--quiet", "--no-rebase", "other", "main")
    assert project.faber("project").returncode == 0
    assert files_with(project.root, SECRET) == []
    assert [one["id"] for one in project.events] == [one["id"] for one in other.events]
    project.assert_projected()


def test_git_bringing_an_old_ledger_back_does_not_bring_the_payload_back(project: Project) -> None:
    committed(project, "Work")
    project.redact(note_id(project))
    committed(project, "Redact")
    project.git("reset", "--hard", "--quiet", "HEAD~1")
    assert SECRET.encode() in project.ledger_path.read_bytes()
    assert project.faber("project").returncode == 0
    assert files_with(project.root, SECRET) == []
    project.assert_projected()
    project.said("verify", project.run_id)


def test_an_import_never_restores_it_and_applies_a_redaction(project: Project) -> None:
    name = note_id(project)
    plain = project.root.parent / "plain.jsonl"
    plain.write_text(project.faber("export").stdout)
    project.redact(name)
    taken = project.root.parent / "redacted.jsonl"
    taken.write_text(project.faber("export").stdout)
    assert project.faber("import", str(plain)).returncode == 0
    assert files_with(project.root, SECRET) == []
    shutil.rmtree(project.run)
    shutil.rmtree(project.root / ".git" / "faber-ledger")
    project.run.mkdir()
    project.put_state({"run_id": project.run_id, "workflow_id": "w", "status": "in_progress"})
    both = project.root.parent / "both.jsonl"
    both.write_text(plain.read_text() + taken.read_text())
    done = project.faber("import", str(both), "--run-id", project.run_id)
    assert done.returncode == 0, done.stderr
    assert [path for path in files_with(project.root, SECRET) if "set-aside" not in path] == []  # another writer's


def test_a_long_payload_leaves_nothing_in_freed_pages(project: Project) -> None:
    assert project.faber("note", "add", "long: " + "correct-horse-battery " * 90).returncode == 0
    assert len(files_with(project.root, "correct-horse")) >= 2
    project.redact(note_id(project, "correct-horse"))
    assert files_with(project.root, "correct-horse") == []


def test_an_older_commits_file_undoes_ones_own_redaction(project: Project) -> None:
    committed(project, "Work")
    name = note_id(project, SECRET)
    assert project.faber("redact", name, "--yes").returncode == 0
    project.git("commit", "--quiet", "-am", "Redact")
    done = project.faber("redact", name, "--undo")
    assert (done.returncode, "ledger.db from an older commit" in done.stderr) == (10, True), done.stderr
    assert "no copy of the payload" in done.stderr
    assert project.faber("redact", name, "--undo", "--dry-run").returncode == 2
    project.git("checkout", "--quiet", "HEAD~1", "--", str(project.ledger_path))
    assert project.faber("redact", name, "--undo").returncode == 0
    assert SECRET.encode() in project.ledger_path.read_bytes()
    assert project.faber("verify").returncode == 0
    project.assert_projected()


def test_another_tools_temporary_file_that_has_the_text_is_named_and_kept(project: Project) -> None:
    temporary = project.run / "state.json.tmp"
    temporary.write_text(f"the customer is {SECRET}, says Ada")
    assert f".fractary/runs/{project.run_id}/state.json.tmp" in project.redact(note_id(project))
    assert SECRET in temporary.read_text()
