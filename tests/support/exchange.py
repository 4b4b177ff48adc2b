"""Export and import in tests."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

from faber_ledger.ledger.encoding import canonical, payload_hash
from faber_ledger.ledger.importing import Staged, line_of, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, insert_rows, rows_of
from support.command import COMMAND, run_command


def faber(project: Path, *arguments: str | Path, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = run_command([COMMAND, *arguments], cwd=project, input=content, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def export_of(path: str) -> bytes:
    with Log.read(path) as log:
        return b"".join(map(line_of, rows_of(log)))


def import_lines(content: bytes, path: str) -> None:
    """Import lines into the log at a path, as the command does."""
    staged = Staged(io.BytesIO(content))
    raise_problems(staged.problems, "the file")
    with Log.open(path, "OFF") as log:
        insert_rows(log, Passing([staged.log], log))
        log.commit()


def change_line(line: bytes, **members: Any) -> bytes:
    return json.dumps({**json.loads(line), **members}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def redact_line(line: bytes) -> bytes:
    event = json.loads(line)
    digest = payload_hash(bytes.fromhex(event["salt"]), canonical(event["payload"]))
    return change_line(line, salt=None, payload=None, payload_hash=digest.hex())
