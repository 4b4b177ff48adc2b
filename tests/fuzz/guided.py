"""`make fuzz`: fuzz the readers of outside input, guided by coverage with atheris.

A reader may refuse its input with an error of its own. Any other exception is a defect, and atheris names the file with
the input. `python -m fuzz.guided SECONDS` fuzzes each reader for that long, in a process of its own.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["faber_ledger"]):
    from faber_ledger.context.selection import ConditionError, evaluate
    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.ledger.importing import Staged
    from faber_ledger.ledger.log import Log
    from faber_ledger.ledger.union import Passing
    from faber_ledger.projections.fold import fold
    from faber_ledger.recording.call import Call

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
STATE = {"work_id": "258", "artifacts": {"spec_path": "a.md"}, "phases": [{"name": "frame", "done": True}], "n": 1.5}
BLOCKS = {"sessions": {"total_sessions": 1, "session_history": []}, "context_metadata": None}


def delivery(content: bytes) -> None:
    """Read a hook's delivery."""
    call = Call("SessionStart", content, {})
    for name in ("session_id", "cwd", "source", "trigger", "reason", "agent_id"):
        text = call.text(name)
        assert text is None or text.encode()


def document(content: bytes) -> None:
    """Read a state.json, and check that replacing members changes nothing else."""
    try:
        found = JsonText(content.decode("utf-8", "replace"))
    except ValueError:
        return
    again = JsonText(found.with_members(BLOCKS))
    assert {**found.value, **BLOCKS} == again.value
    assert again.with_members(BLOCKS) == again.text


def condition(content: bytes) -> None:
    """Evaluate a workflow's condition."""
    try:
        assert evaluate(content.decode("utf-8", "replace"), STATE) in (True, False)
    except ConditionError:
        pass


def lines(content: bytes) -> None:
    """Stage an exported file."""
    with closing(Staged(io.BytesIO(content))) as staged:
        assert staged.problems or staged.lines >= 0
        assert len(list(Passing([staged.log]))) <= staged.lines


def ledger(content: bytes) -> None:
    """Read a ledger from elsewhere."""
    Path("ledger.db").write_bytes(content)
    try:
        with Log.read("ledger.db") as log:
            fold(log.stream())
    except (LedgerError, sqlite3.DatabaseError):
        pass


READERS: dict[str, tuple[Callable[[bytes], None], list[Path], tuple[str, ...]]] = {
    "delivery": (delivery, sorted((FIXTURES / "hook-payloads").iterdir()), ('"\\"session_id\\":"', '"\\\\ud800"')),
    "document": (document, [FIXTURES / "states" / "spec-00027.json"], ('"\\"sessions\\":"', '"\\xef\\xbb\\xbf"')),
    "condition": (condition, [], ('"state."', '"==="', '"!=="', '"&&"', '"||"', '"null"', '"undefined"', '"[0]"')),
    "lines": (lines, [FIXTURES / "format-1" / "events.jsonl"], ('"\\"parents\\":[]"', '"\\"payload\\":{"', '"null"')),
    "ledger": (ledger, [FIXTURES / "format-1" / "ledger.db"], ('"SQLite format 3"', '"CREATE TABLE event"')),
}


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one reader in the working directory, and end the process; its exit code is not 0 if it found a defect."""
    reader, paths, words = READERS[name]
    os.mkdir("seeds")
    for path in paths:
        content = path.read_bytes()
        if name == "delivery":
            content = json.dumps(json.loads(content)["stdin"]).encode()
        Path("seeds", path.name).write_bytes(content)
    Path("words").write_text("".join(f"{word}\n" for word in words))
    options = [f"-max_total_time={seconds}", "-dict=words", "-max_len=65536", "-timeout=10", "-verbosity=0"]
    options += [f"-artifact_prefix={tempfile.gettempdir()}{os.sep}", "seeds"]
    atheris.Setup([sys.argv[0], *options], reader)
    atheris.Fuzz()


def fuzz_all(seconds: int) -> None:
    """Fuzz each reader in a process and a temporary folder of its own; raises SystemExit for a defect."""
    for name in READERS:
        sys.stdout.write(f"{name}: {seconds} seconds\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            command = [sys.executable, __file__, str(seconds), name]
            if subprocess.run(command, cwd=folder, check=False).returncode:
                sys.exit(f"a defect was found in the reader: {name}")


if __name__ == "__main__":
    if sys.argv[2:]:
        fuzz(sys.argv[2], int(sys.argv[1]))
    else:
        fuzz_all(int(sys.argv[1]))
