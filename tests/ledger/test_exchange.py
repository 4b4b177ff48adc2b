"""An export can be imported, to the byte; nothing is imported that does not verify."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from faults.calls import KILL, break_call
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command import COMMAND
from support.exchange import change_line, export_of, faber, import_lines, redact_line
from support.forging import forge
from support.sample_log import RUN, START, append_sample, drafts, every_type, write_run
from support.sizes import pick
from support.worked_clones import Work, do_work, rows, unite, worked

from faber_ledger.ledger import importing
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.importing import Staged, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing
from faber_ledger.runs.run import Run

LINES = 11


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_run(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty" / ".fractary").mkdir(parents=True)
    return tmp_path / "empty"


def exported(project: Path, *arguments: str) -> bytes:
    done = faber(project, "export", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def log_of(project: Path) -> Path:
    """Return the path of the clone's log."""
    return Path(Run(str(project), RUN, str(project / ".fractary" / "runs" / RUN)).log_path)


def ledger_of(project: Path, run_id: str = RUN) -> Path:
    return project / ".fractary" / "runs" / run_id / "ledger.db"


# Round trips


@pytest.mark.long
@given(worked, st.randoms())
@settings(max_examples=pick(6, 30))
def test_an_export_is_imported_to_the_byte_in_any_order_of_lines(work: Work, order: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = do_work(folder, work)
        for number, path in enumerate(made.paths):
            content = export_of(path)
            lines = content.splitlines(keepends=True)
            order.shuffle(lines)
            back = str(folder / f"back{number}.db")
            import_lines(b"".join(lines), back)
            import_lines(content, back)
            assert export_of(back) == content
            assert rows(back) == rows(path)
            assert unite(path, back) == unite(path)


def test_an_import_into_a_project_without_the_run_makes_the_same_run(project: Path, empty: Path) -> None:
    content = exported(project)
    assert len(content.splitlines()) == LINES
    done = faber(empty, "import", "-", content=content)
    assert (done.returncode, done.stdout.decode()) == (
        0,
        f"{RUN}: {LINES} events imported, 0 of {LINES} known already\n",
    )
    assert exported(empty, RUN) == content
    assert faber(empty, "verify", RUN).stdout == f"{RUN}: sound\n".encode()
    states = [json.loads((ledger_of(root).with_name("state.json")).read_text()) for root in (project, empty)]
    assert states[0]["sessions"] == states[1]["sessions"]


def test_a_killed_import_of_a_new_run_can_be_repeated(tmp_path: Path, empty: Path) -> None:
    write_notes(tmp_path / "long.db", 900)
    (tmp_path / "lines").write_bytes(export_of(str(tmp_path / "long.db")))
    subprocess.run(["git", "init", "-q"], cwd=empty, check=True)
    command = [str(COMMAND), "import", str(tmp_path / "lines"), "--run-id", RUN]
    ended, _ = break_call("pwrite64", 300, KILL, command, empty, dict(os.environ), b"", log_of(empty))
    assert ended.code == -signal.SIGKILL
    again = faber(empty, "import", tmp_path / "lines", "--run-id", RUN)
    assert again.returncode == 0, again.stderr
    assert exported(empty, RUN) == (tmp_path / "lines").read_bytes()


def write_notes(path: Path, count: int) -> None:
    """Write a log that does not fit into SQLite's cache."""
    (note,) = [event for event in every_type() if event["type"] == "note_recorded"]
    notes: Any = [{"event": {**note, "text": "x" * 4_000}} for _ in range(count)]
    with Log.open(str(path)) as log:
        log.append([*drafts()[:1], *notes], at=START, writer="w")
        log.commit()


def test_an_import_twice_changes_nothing(project: Path) -> None:
    before, content = ledger_of(project).read_bytes(), exported(project)
    done = faber(project, "import", "-", "--json", content=content + content)
    data = {"run_id": RUN, "new": 0, "read": 2 * LINES, "left_out": 0, "dry_run": False}
    assert json.loads(done.stdout)["data"] == data
    assert ledger_of(project).read_bytes() == before


def test_a_dry_run_reports_the_outcome_and_changes_nothing(project: Path, empty: Path) -> None:
    done = faber(empty, "import", "-", "--dry-run", content=exported(project))
    assert done.stdout.decode() == f"{RUN}: {LINES} events would be imported, 0 of {LINES} known already\n"
    assert list((empty / ".fractary").iterdir()) == []


def test_events_of_another_run_are_refused(project: Path, empty: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "third", "third")
    stranger = exported(project)
    ledger_of(tmp_path / "third", "third").unlink()
    with Log.open(str(ledger_of(tmp_path / "third", "third"))) as log:
        event: Any = {"type": "run_started", "run_id": "third", "workflow_id": "w", "work_id": None}
        log.append([{"event": event}], at=START, writer="w")
        log.commit()
    own = exported(tmp_path / "third", "third")
    done = faber(tmp_path / "third", "import", "-", "--run-id", "third", content=stranger)
    assert (done.returncode, b"it starts another run" in done.stderr) == (22, True)
    assert exported(tmp_path / "third", "third") == own
    assert faber(empty, "import", "-", "--run-id", "another-name", content=stranger).returncode == 22
    assert list((empty / ".fractary").iterdir()) == []


# What does not hold


def damaged_lines(lines: list[bytes]) -> dict[str, bytes]:
    """Return damaged versions of the fourth line, by the messages that they cause."""
    line, event = lines[3], json.loads(lines[3])
    payload = event["payload"]
    return {
        "it is not JSON": b"hello\n",
        "can't decode byte": b'{"seq":"\xff"}\n',
        "it is not an object with exactly these members": b"[]\n",
        "these members: ": change_line(line, surprise=1),
        "it names a member twice": line.replace(b'{"seq"', b'{"seq":1,"seq"', 1),
        "it is nested too deeply": b"[" * 200_000 + b"\n",
        "its seq is not what": change_line(line, seq="4"),
        "its seq is not what ": change_line(line, seq=True),
        "its parents are not a list of hashes": change_line(line, parents=["ab"]),
        "its salt is not hexadecimal": change_line(line, salt="no"),
        "its hash is not hexadecimal": change_line(line, hash=event["hash"].upper()),
        "its payload is neither an object nor null": change_line(line, payload=[1]),
        "its payload has no canonical form": line.replace(b'"payload":{', b'"payload":{"a":NaN,', 1),
        "surrogates not allowed": line.replace(b'"payload":{', b'"payload":{"a":"\\ud800",', 1),
        "its writer is not what": change_line(line, writer=1),
        "its version is not a number": change_line(line, version=0),
        "its id is not a ULID": change_line(line, id="\x1b[31m"),
        "its time is not a time": change_line(line, at="yesterday"),
        "its hash does not match what it says": change_line(line, payload={**payload, "size_bytes": 1}),
        "its hash does not match": change_line(line, salt=None),
    }


LEFT_OUT = ("its version", "its id is", "its time", "its hash does")


def test_a_line_without_an_event_is_reported_and_nothing_is_imported(project: Path) -> None:
    lines = exported(project).splitlines(keepends=True)
    found = {message: line for message, line in damaged_lines(lines).items() if not message.startswith(LEFT_OUT)}
    assert len(found) > 5
    for message, damaged in found.items():
        staged = Staged(io.BytesIO(b"".join([*lines[:3], damaged, *lines[4:]])))
        assert len(staged.problems) == 1
        assert staged.problems[0].startswith("line 4: ")
        assert message in staged.problems[0]
        with pytest.raises(IntegrityError, match="line 4: "):
            raise_problems(staged.problems, "e.jsonl")


def test_an_event_that_does_not_pass_is_left_out_with_what_follows(project: Path) -> None:
    lines = exported(project).splitlines(keepends=True)
    for message, damaged in damaged_lines(lines).items():
        if message.startswith(LEFT_OUT):
            staged = Staged(io.BytesIO(b"".join([*lines[:3], damaged, *lines[4:]])))
            passing = Passing([staged.log])
            assert len(list(passing)) == 3, message
            assert message in passing.refused[0].why
            assert [one.is_waiting for one in passing.refused] == [False, *[True] * (LINES - 4)], message
            assert staged.problems == []


def test_the_command_names_every_damaged_line_and_shows_no_control_character(project: Path, empty: Path) -> None:
    lines = exported(project).splitlines(keepends=True)
    lines[1], lines[4] = b"\x1b]0;owned\x07\n", b"\x1b[2J\n"
    done = faber(empty, "import", "-", content=b"".join(lines))
    assert done.returncode == 20
    assert done.stderr.startswith(b"error: - is not imported, and nothing was changed:\n  line 2: it is not JSON")
    assert b"  line 5: " in done.stderr
    assert b"\x1b" not in done.stderr
    assert list((empty / ".fractary").iterdir()) == []


def test_events_after_a_missing_line_are_left_out_until_it_arrives(project: Path, empty: Path) -> None:
    lines = exported(project).splitlines(keepends=True)
    content = b"".join([*lines[:5], *lines[6:]])
    planned = json.loads(faber(empty, "import", "-", "--dry-run", "--json", content=content).stdout)["data"]
    counted = {"new": 5, "read": LINES - 1, "left_out": LINES - 6}
    warned = planned.pop("warnings")
    assert planned == {"run_id": RUN, **counted, "dry_run": True}
    done = faber(empty, "import", "-", content=content)
    assert done.returncode == 0
    output = done.stderr.decode().splitlines()
    assert warned == output
    assert len(output) == LINES - 6
    assert all(re.fullmatch(r"event \w{26} is left out: its parent [0-9a-f]{12} is not here", line) for line in output)
    assert exported(empty, RUN) == b"".join(lines[:5])
    rest = faber(empty, "import", "-", "--run-id", RUN, content=b"".join(lines[5:]))
    assert (rest.returncode, exported(empty, RUN)) == (0, b"".join(lines))


def test_one_id_with_two_contents_is_a_conflict(tmp_path: Path) -> None:
    logs = []
    for name in ("first", "second"):
        logs.append(str(tmp_path / f"{name}.db"))
        event: Any = {"type": "run_started", "run_id": RUN, "workflow_id": name, "work_id": None}
        with Log.open(logs[-1]) as log:
            log.append([{"id": "01KE7Q3S8W000000000000000A", "event": event}], at=1.0, writer="w")
            log.commit()
    one, other = map(export_of, logs)
    assert Staged(io.BytesIO(one + other)).problems == [
        "line 2: event 01KE7Q3S8W000000000000000A has another content than in an earlier line"
    ]


def test_a_redacted_event_is_imported_and_a_copy_with_its_payload_wins(tmp_path: Path) -> None:
    append_sample(tmp_path / "a.db")
    lines = export_of(str(tmp_path / "a.db")).splitlines(keepends=True)
    gone = [*lines[:4], redact_line(lines[4]), *lines[5:]]
    for number, content in enumerate([gone, [*lines, gone[4]], [gone[4], *lines]]):
        back = str(tmp_path / f"{number}.db")
        import_lines(b"".join(content), back)
        assert export_of(back) == b"".join(lines if number else gone)


def test_an_endless_line_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1 << 20
    monkeypatch.setattr(importing, "MAX_LINE_BYTES", limit)

    class Endless(io.RawIOBase):
        left = 30 * limit

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            size = min(len(buffer), self.left)
            buffer[:size] = b"x" * size
            self.left -= size
            return size

    tracemalloc.start()
    staged = Staged(io.BufferedReader(Endless()))
    assert staged.problems == ["line 1: it is longer than 1 MB"]
    assert tracemalloc.get_traced_memory()[1] < 10 * limit
    tracemalloc.stop()


def test_a_pipe_is_read(project: Path, empty: Path) -> None:
    assert faber(empty, "import", "/dev/stdin", content=exported(project)).returncode == 0


# Output


def test_an_output_file_is_complete_or_absent(project: Path) -> None:
    target = project / "events.jsonl"
    assert faber(project, "export", "-o", target).returncode == 0
    before = target.read_bytes()
    assert before == exported(project)
    forge(log_of(project), "UPDATE event SET payload = '{ }' WHERE seq = 8")
    done = faber(project, "export", "-o", target)
    assert done.returncode == 20
    assert b"hint: run `faber-ledger verify`" in done.stderr
    assert target.read_bytes() == before
    assert faber(project, "export").stdout == b""
    assert sorted(path.name for path in project.iterdir()) == [".fractary", "events.jsonl"]


def test_a_device_is_not_replaced(project: Path) -> None:
    assert faber(project, "export", "-o", os.devnull).returncode == 1
    assert not os.path.isfile(os.devnull)
