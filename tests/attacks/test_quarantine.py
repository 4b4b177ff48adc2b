"""The way out of a forged event stays open, whatever a peer pushes, and loses nothing that another program writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.clones import LEDGER, RUN, Clone
from support.forged_events import FORGED_ID, forge_event, forged_row
from support.forging import forge
from support.project import Project

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.lock import RunLock
from faber_ledger.runs.quarantine import aside_path
from faber_ledger.runs.run import find_run
from faber_ledger.runs.run_log import open_log

MIRROR = f".git/faber-ledger/runs/{RUN}/ledger.db"
ASIDE = f".git/faber-ledger/runs/{RUN}/quarantine.jsonl"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    clone = Clone.first(tmp_path / "alice")
    clone.record("alice-1")
    return clone


def refused_in(clone: Clone) -> list[dict[str, Any]]:
    refused: list[dict[str, Any]] = json.loads(clone.faber("quarantine", RUN, "--json").stdout)["data"]["refused"]
    return refused


def test_two_forged_events_with_one_seq_and_id_are_both_taken_out_and_kept(clone: Clone) -> None:
    """A peer pushes an event, and after it was taken out the same one with another hash (H5)."""
    before = clone.ids()
    for byte in (b"\x22", b"\x33"):
        forge_event(clone.ledger, hash=byte * 32)
        clone.faber("quarantine", RUN, "--yes")
        assert clone.ids() == before
    assert [(one["id"], one["is_aside"], one["is_in_file"]) for one in refused_in(clone)] == [
        (FORGED_ID, True, False)
    ] * 2
    assert not clone.faber("quarantine", RUN, "--yes").stderr
    assert len((clone.root / ASIDE).read_text().splitlines()) == 2
    clone.faber("redact", FORGED_ID, "--yes")
    assert not (clone.root / ASIDE).exists()
    clone.assert_sound()


def test_a_question_that_is_answered_with_no_changes_nothing(clone: Clone) -> None:
    forge_event(clone.ledger, hash=b"\x22" * 32)
    shown, code = Project(clone.root, RUN).on_terminal("quarantine", RUN, answers=["n"])
    assert (code, shown.splitlines()[-1]) == (1, "error: nothing was taken out")
    assert FORGED_ID in [one["id"] for one in refused_in(clone) if one["is_in_file"]]


def test_two_refused_copies_of_one_hash_are_both_taken_out(clone: Clone) -> None:
    """A peer pushes a forged event again under the same hash, with other words (H5)."""
    for text in ("FIRST", "SECOND"):
        forge_event(clone.ledger, hash=b"\x22" * 32, writer=text)
        clone.faber("quarantine", RUN, "--yes")
        assert FORGED_ID not in clone.ids()
    assert [text in (clone.root / ASIDE).read_text() for text in ("FIRST", "SECOND")] == [True, True]


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [("x'0102'", r"b'\x01\x02'", r"b'\x01\x02'"), ("CAST(x'ff41' AS TEXT)", "\udcffA", r"'\udcffA'")],
    ids=["bytes", "not UTF-8"],
)
def test_an_id_that_is_no_text_stops_no_command_and_is_taken_out(
    clone: Clone, value: str, name: str, shown: str
) -> None:
    """A peer pushes an event whose id is bytes, or a text that no program can decode (H5)."""
    forge_event(clone.ledger, hash=b"\x22" * 32)
    forge(clone.ledger, f"UPDATE event SET id = {value} WHERE id = '{FORGED_ID}'")
    (one,) = refused_in(clone)
    assert (one["id"], one["is_in_file"]) == (name, True)
    clone.faber("status")
    clone.faber("log")
    assert f"faber-ledger quarantine {RUN}" in clone.faber("verify", RUN, code=20).stdout
    for _ in range(2):  # the second time, it is aside alone
        clone.faber("quarantine", RUN, "--yes")
        (one,) = refused_in(clone)
        assert (one["id"], one["is_aside"], one["is_in_file"]) == (name, True, False)
    clone.assert_sound()
    clone.faber("redact", shown, "--yes")
    assert not (clone.root / ASIDE).exists()


def test_what_another_version_put_aside_stays_there(clone: Clone) -> None:
    """A line that this version does not understand is not dropped when the file is written again (H5)."""
    line = '{"of": "another version"}'
    forge_event(clone.ledger, hash=b"\x22" * 32)
    clone.faber("quarantine", RUN, "--yes")
    with (clone.root / ASIDE).open("a") as file:
        file.write(f"{line}\n")
    forge_event(clone.ledger, hash=b"\x33" * 32)
    clone.faber("quarantine", RUN, "--yes")
    assert line in (clone.root / ASIDE).read_text().splitlines()
    clone.faber("redact", FORGED_ID, "--yes")
    assert (clone.root / ASIDE).read_text() == f"{line}\n"


def test_a_file_aside_that_cannot_be_read_is_not_written_again(clone: Clone) -> None:
    """A peer pushes until what is aside is larger than what is read: nothing of it is lost (H5)."""
    forge_event(clone.ledger, hash=b"\x22" * 32)
    clone.faber("quarantine", RUN, "--yes")
    with (clone.root / ASIDE).open("r+b") as file:
        file.truncate(2**30)
    forge_event(clone.ledger, hash=b"\x33" * 32)
    done = clone.faber("quarantine", RUN, "--yes", code=1)
    assert "at most" in done.stderr
    assert (clone.root / ASIDE).stat().st_size == 2**30


def test_quarantine_waits_for_another_work_tree_that_writes_the_mirror(clone: Clone) -> None:
    """What another work tree records in the mirror while a forged event is taken out stays there (H5)."""
    forge_event(clone.ledger, hash=b"\x22" * 32)
    clone.git("add", "-A")
    clone.git("commit", "-q", "--no-verify", "-m", "a note")
    clone.git("worktree", "add", "-q", "-b", "other", "../other")
    other = find_run(str(clone.root.parent / "other"), RUN)
    inode = (clone.root / MIRROR).stat().st_ino
    warnings: list[str] = []
    note: Any = {"type": "note_recorded", "kind": "note", "text": "OTHER", "phase": None, "step": None}
    with RunLock(other.lock_path), open_log(other, warnings.append) as opened:
        assert opened.is_alone, warnings
        (recorded,) = opened.log.append([{"event": note}], at=1767600000.0, writer="w" * 32)
        clone.faber("quarantine", RUN, "--yes", code=11)
        opened.commit()
        clone.faber("quarantine", RUN, "--yes")
        opened.begin()
        (second,) = opened.log.append([{"event": note}], at=1767600001.0, writer="w" * 32)
        opened.commit()
    assert (clone.root / MIRROR).stat().st_ino == inode
    assert {recorded["id"], second["id"]} <= clone.ids(clone.root / MIRROR)
    assert FORGED_ID not in clone.ids(clone.root / MIRROR) | clone.ids()
    assert recorded["id"] in clone.ids()


def test_a_place_with_a_payload_is_no_place(clone: Clone) -> None:
    """A peer makes a forged event look as if only its place were kept, so that no check looks at it (H5)."""
    forge_event(clone.ledger, hash=b"\x22" * 32)
    forge_event(clone.ledger, id=FORGED_ID[:-1] + "1")
    forge(clone.ledger, f"UPDATE event SET type = 'refused', version = 0 WHERE id = '{FORGED_ID}'")
    clone.faber("verify", RUN, code=20)
    assert [one["id"] for one in refused_in(clone)] == [FORGED_ID]
    assert "FORGED" in (clone.faber("log").stdout)  # the sound event that stands on it
    clone.faber("quarantine", RUN, "--yes")
    assert FORGED_ID not in clone.ids()
    assert FORGED_ID[:-1] + "1" in clone.ids()
    clone.faber("verify", RUN)


@pytest.mark.parametrize("is_set_up", [False, True])
def test_a_forged_event_is_shown_to_nobody_in_a_clone_that_has_recorded_nothing(
    clone: Clone, *, is_set_up: bool
) -> None:
    """A peer pushes an event that somebody else's fresh clone shows before its first hook (H5)."""
    forge_event(clone.ledger, hash=b"\x22" * 32)
    clone.git("add", "-A")
    clone.git("commit", "-q", "--no-verify", "-m", "a note")
    fresh = clone.clone("fresh", driver=is_set_up)
    for words in (("log",), ("status",), ("replay",), ("show", FORGED_ID)):
        done = fresh.call("faber-ledger", *words)
        assert "FORGED" not in done.stdout + done.stderr, words
        assert FORGED_ID in done.stdout or words != ("log",)
    assert json.loads(fresh.faber("status", "--json").stdout)["data"]["refused"] == 1
    fresh.faber("export", RUN, "-o", "events.jsonl")
    assert "FORGED" not in (fresh.root / "events.jsonl").read_text()
    assert (fresh.root / LEDGER).read_bytes() == clone.ledger.read_bytes()


def test_what_is_aside_under_a_known_id_does_not_stop_the_quarantine(tmp_path: Path) -> None:
    """The sound event arrives in the file after another content of it was taken out, and the mirror lacks both (H5)."""
    project = Project.made(tmp_path / "project")
    project.deliver("SessionStart.startup.print")
    (mirror,) = (project.root / ".git" / "faber-ledger" / "runs").rglob("ledger.db")
    before = mirror.read_bytes()
    project.faber("note", "add", "mine")
    known = project.events
    said = canonical({"kind": "note", "text": "another", "phase": None, "step": None})
    row = forged_row(project.ledger_path, id=known[-1]["id"], payload=said)
    path = Path(aside_path(find_run(str(project.root), project.run_id)))
    path.write_bytes(line_of(row))
    mirror.write_bytes(before)
    done = project.faber("quarantine", "--yes")
    assert done.returncode == 0, done.stderr
    assert project.events == known
    assert path.read_bytes() == line_of(row)
    assert "the log has another event with its id" in project.faber("quarantine").stdout


def line_of(row: tuple[Any, ...]) -> bytes:
    """Return a row as a line of what is aside."""
    return json.dumps([{"hex": one.hex()} if isinstance(one, bytes) else one for one in row]).encode() + b"\n"
