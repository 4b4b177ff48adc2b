"""`faber-ledger note add`: notes for the next session, through the installed command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.project import RUN, Project

from faber_ledger.context.notes import MAX_LETTERS


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.change_state(current_step="implement")
    return made


def typed(project: Project, content: bytes, *arguments: str) -> subprocess.CompletedProcess[Any]:
    """Run `note add` with this input."""
    return project.faber("note", "add", *arguments, input=content, text=False, encoding=None)


def test_a_note_is_recorded_with_where_the_run_was(project: Project) -> None:
    project.faber("session-load", "--trigger", "session_start")
    done = project.faber("note", "add", "the lock in auth/cache.py must stay")
    assert done.stdout == f"✓ Recorded a note on {RUN}\n"
    assert project.faber("note", "add", "x").stdout.endswith(f"{RUN}\n")
    note = project.of_type("note_recorded")[0]
    assert note == {
        "type": "note_recorded",
        "session_id": project.current,
        "kind": "note",
        "text": "the lock in auth/cache.py must stay",
        "phase": "build",
        "step": "implement",
    }
    project.assert_projected()


def test_a_text_without_a_subcommand_is_a_note(project: Project) -> None:
    for words in (["the lock must stay"], ["--run-id", RUN, "add more words"], ["add", "add"]):
        done = project.faber("note", *words)
        assert done.stdout.startswith(f"✓ Recorded a note on {RUN}\n"), done.stderr
    assert [note["text"] for note in project.of_type("note_recorded")] == [
        "the lock must stay",
        "add more words",
        "add",
    ]
    for words in (["add"], ["two", "words"], ["a text", "--from-stdin"]):
        assert project.faber("note", *words).returncode == 2


def test_an_agent_writes_a_summary_on_standard_input(project: Project) -> None:
    done = typed(project, "\ufeffWorked on ünï\nNext: tests\n".encode(), "--from-stdin", "--kind", "summary", "--json")
    data = json.loads(done.stdout)["data"]
    assert (data["run_id"], data["kind"], data["text"]) == (RUN, "summary", "Worked on ünï\nNext: tests")
    assert "session_id" not in data


def test_notes_come_back_in_reconstitution_and_in_the_log(project: Project) -> None:
    for text in ("first\nand more", "second"):
        project.faber("note", "add", text)
    done = project.faber("reconstitute")
    first, second = [event["at"] for event in project.events if event["event"]["type"] == "note_recorded"]
    assert (
        f"""
## Notes for whoever goes on, newest first

- [{second}] note at build:implement: second
- [{first}] note at build:implement:
> first
> and more
"""
        in done.stdout
    )
    data = json.loads(project.faber("reconstitute", "--json").stdout)["data"]
    assert [note["text"] for note in data["notes"]] == ["second", "first\nand more"]
    assert "note, in build: first and more" in project.faber("log").stdout


def test_the_newest_summary_stays_and_what_is_left_out_is_counted(project: Project) -> None:
    project.faber("note", "add", "--kind", "summary", "all of it")
    for number in range(6):
        project.faber("note", "add", f"note {number}")
    packet = project.deliver("SessionStart.startup.print").packet
    assert packet is not None
    kept = [f"build:implement) note {number}" for number in (5, 4, 3, 2)]
    kept.append("summary at build:implement) all of it")
    more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
    assert re.findall(r"^- (?:\(20\S+, )?(.*build:implement\) .*|… and .*)", packet, re.M) == [
        *kept,
        f"… and 2 more: {more}",
    ]


def test_reconstitution_has_every_note(project: Project) -> None:
    for number in range(14):
        project.faber("note", "add", f"note {number}: {'word ' * 300}")
    notes = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["notes"]
    assert [note["text"][:7].strip(":") for note in notes] == [f"note {number}" for number in range(13, -1, -1)]


def test_a_note_can_be_a_decision(project: Project) -> None:
    done = project.faber("note", "add", "--decision", "no cache: one query a page is fast enough")
    assert done.stdout.startswith(f"✓ Recorded a decision on {RUN}\n")
    assert project.faber("note", "add", "--kind", "decision", "SQLite, not files").returncode == 0
    lines = [
        line.partition("] ")[2] for line in project.faber("reconstitute", "--only", "decisions").stdout.split("\n")
    ]
    assert lines[-3:-1] == [
        "decision at build:implement: SQLite, not files",
        "decision at build:implement: no cache: one query a page is fast enough",
    ]
    assert project.faber("reconstitute", "--only", "notes").stdout == "There is nothing here for: notes\n"
    hits = json.loads(project.faber("search", "--json", "query page").stdout)["data"]["runs"][0]["hits"]
    assert [hit["kind"] for hit in hits] == ["decision"]
    assert "no cache: one query" in (project.deliver("SessionStart.startup.print").packet or "")
    project.assert_projected()


@pytest.mark.parametrize("text", ["x" * (MAX_LETTERS + 1), "é" * (MAX_LETTERS + 1), "a" + "😀" * 100_000])
def test_a_note_that_is_too_long_is_refused(project: Project, text: str) -> None:
    done = typed(project, text.encode(), "--from-stdin")
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: the note has ")
    assert not project.ledger_path.exists() or project.of_type("note_recorded") == []


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ([], b""),
        (["text", "--from-stdin"], b"text"),
        (["  \n"], b""),
        (["--from-stdin"], b""),
        (["--from-stdin"], b"\xff"),
    ],
)
def test_an_empty_note_is_wrong_usage(project: Project, arguments: list[str], content: bytes) -> None:
    assert typed(project, content, *arguments).returncode == 2
    assert not project.ledger_path.exists()
