"""Redactions that come from another clone: what they hide, what they cannot do, and how they are undone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from support.files_with import files_with
from support.folders import copy_prepared
from support.forged_events import forge_event
from support.program import path_with_program
from support.project import Project
from support.redacting import forge

START = "SessionStart.startup.print"
SAID = "deploy only after Bob approves"


class Pair:
    """Ann, who wrote a note, and Bob, whose clone has it; both see each other's commits."""

    def __init__(self, folder: Path) -> None:
        copy_prepared(prepare, folder)
        self.ann = Project(folder / "ann")
        self.bob = Project(folder / "bob", self.ann.run_id, "desktop")
        (self.note,) = [
            one["id"]
            for one in self.ann.events
            if one["event"]["type"] == "note_recorded" and one["event"]["text"] == SAID
        ]


def prepare(folder: Path) -> None:
    ann = Project.made(folder / "ann")
    ann.faber("init", "--git-only")
    ann.deliver(START)
    ann.faber("note", "add", SAID)
    ann.commit("Work", "--allow-empty")
    bob = ann.clone(folder / "bob", "desktop")
    bob.faber("init", "--git-only")
    bob.faber("note", "add", "bob was here")
    bob.commit("Work", "--allow-empty")
    pull(ann, bob)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setenv("PATH", path_with_program())  # git calls the driver by its name
    return Pair(tmp_path)


def pull(into: Project, other: Project) -> None:
    into.git("pull", "--quiet", "--no-rebase", "--no-edit", str(other.root), "HEAD")


def redact_at_bobs(pair: Pair) -> None:
    pair.bob.redact(pair.note)
    pair.bob.commit("Work", "--allow-empty")
    pull(pair.ann, pair.bob)


def shown(project: Project) -> str:
    """Return what the commands show, and a new session's packet."""
    said = [project.faber(*words).stdout for words in (("log",), ("log", "--json"), ("export",))]
    return "\n".join([*said, project.deliver(START, client=str(len(project.events))).packet or ""])


def start_line(project: Project) -> str:
    """Return what a start tells the user."""
    return str(json.loads(project.deliver(START, client=str(len(project.events))).output)["systemMessage"])


def set_aside(project: Project) -> list[Path]:
    folder = project.root / ".git/faber-ledger/set-aside"
    return [*folder.iterdir()] if folder.exists() else []


def test_the_next_start_counts_redactions_from_elsewhere_and_names_who(pair: Pair) -> None:
    redact_at_bobs(pair)
    writer = pair.bob.events[-1]["writer"]
    assert SAID not in pair.ann.faber("log").stdout  # a command that only reads has taken it
    assert start_line(pair.ann).endswith("; redacted events (faber-ledger status)")
    assert "1 event was redacted elsewhere" in (line := pair.ann.faber("status").stdout)
    assert (
        f"until 30 days from now `faber-ledger redact --undo {pair.note} --run-id {pair.ann.run_id}` restores it"
        in line
    )
    assert f"redacted elsewhere, by clone {writer};" in line
    assert "event_redacted" in pair.ann.said("log", "--machine", writer)  # as it is printed
    assert "redacted elsewhere" not in pair.ann.faber("doctor").stdout.partition("ledger.set_aside")[0]
    assert "redacted events" not in start_line(pair.ann)
    assert SAID not in shown(pair.ann)
    (aside,) = set_aside(pair.ann)
    assert aside.name.endswith(".rows.jsonl")
    assert "*.rows.jsonl has in clear what others redacted" in pair.ann.faber("doctor").stdout
    assert aside.stat().st_mode & 0o777 == 0o600
    assert files_with(pair.ann.root, SAID) == [str(aside.relative_to(pair.ann.root))]
    assert pair.ann.faber("verify").returncode == 0
    pair.ann.assert_projected()


def test_a_redactor_is_named_by_his_session_in_another_run(pair: Pair) -> None:
    pair.bob.start_run("9", "--run-id", "other", "--yes")
    pair.bob.deliver(START, client="bobs")
    pair.bob.commit("Work")
    pull(pair.ann, pair.bob)
    pair.ann.said("log", "other")
    pair.bob.redact(pair.note, "--run-id", pair.bob.run_id)
    pair.bob.commit("Work", "--allow-empty")
    pull(pair.ann, pair.bob)
    pair.ann.deliver(START)
    assert "1 event was redacted elsewhere, by desktop; until" in pair.ann.said("status")
    (redaction,) = [one["id"] for one in pair.ann.events if one["event"]["type"] == "event_redacted"]
    assert f"its payload was redacted on desktop, by event {redaction}\n" in pair.ann.said("show", pair.note)


def test_set_aside_copies_stay_30_days_after_being_named(pair: Pair) -> None:
    redact_at_bobs(pair)
    pair.ann.faber("log")
    (aside,) = set_aside(pair.ann)
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(aside, (long_ago, long_ago))
    pair.ann.faber("note", "add", "no start has named it")
    assert aside.exists()
    start_line(pair.ann)
    os.utime(aside, (long_ago, long_ago))
    pair.ann.faber("note", "add", "later")
    assert set_aside(pair.ann) == []


def test_an_undo_puts_the_payload_back_in_every_clone(pair: Pair) -> None:
    redact_at_bobs(pair)
    pair.ann.faber("note", "add", "and on")
    assert pair.ann.faber("redact", pair.note, "--undo").returncode == 0
    assert pair.ann.types[-1] == "redaction_undone"
    pair.ann.commit("Work", "--allow-empty")
    pull(pair.bob, pair.ann)
    for one in (pair.ann, pair.bob):
        assert SAID in shown(one)
        assert one.faber("verify").returncode == 0
    pair.bob.redact(pair.note)  # of several, the last in the log's order counts
    assert SAID not in shown(pair.bob)


def by_bob(pair: Pair, **said: Any) -> str:
    """Let Bob write a redaction or an undo of Ann's note without the command, as anybody can."""
    (writer,) = {one["writer"] for one in pair.bob.events if "bob was here" in str(one["event"])}
    name = forge(str(pair.bob.ledger_path), said.pop("target", pair.note), writer=writer, **said)
    pair.bob.commit("Work", "--allow-empty")
    pull(pair.ann, pair.bob)
    pair.ann.faber("note", "add", "and on")
    return name


def test_a_writers_own_redaction_cannot_be_undone_elsewhere(pair: Pair) -> None:
    pair.ann.redact(pair.note)
    pair.ann.commit("Work", "--allow-empty")
    pull(pair.bob, pair.ann)
    pair.bob.faber("note", "add", "and on")
    pair.bob.redact(pair.note, "--undo", code=2)
    by_bob(pair, type="redaction_undone")
    assert SAID not in shown(pair.ann)


def test_a_redaction_cannot_be_redacted(pair: Pair) -> None:
    pair.bob.redact(pair.note)
    (redaction,) = [one["id"] for one in pair.bob.events if one["event"]["type"] == "event_redacted"]
    pair.bob.redact(redaction, code=2)
    by_bob(pair, target=redaction)
    assert any(one["id"] == redaction and one["event"].get("event_id") == pair.note for one in pair.ann.events)
    assert SAID not in shown(pair.ann)


def test_a_ledger_that_never_had_the_event_stays_set_aside(pair: Pair) -> None:
    forge_event(pair.ann.ledger_path, hash=b"\x22" * 32)
    pair.ann.faber("log")
    (kept,) = set_aside(pair.ann)
    pair.ann.faber("note", "add", "the customer is Swordfish")
    pair.ann.redact(pair.ann.events[-1]["id"])
    assert kept in set_aside(pair.ann)


def test_redact_goes_through_what_is_set_aside(pair: Pair) -> None:
    forge_event(pair.ann.ledger_path, hash=b"\x22" * 32)  # so that the file is set aside whole
    pair.ann.faber("log")
    pair.bob.redact(pair.note)
    pair.bob.commit("Work", "--allow-empty")
    pair.ann.git("checkout", "--quiet", "--", ".")
    pull(pair.ann, pair.bob)
    pair.ann.faber("note", "add", "and on")
    assert len(set_aside(pair.ann)) == 2
    pair.ann.redact(pair.note)
    assert files_with(pair.ann.root, SAID) == []
