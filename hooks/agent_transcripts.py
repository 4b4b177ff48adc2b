"""What other agents write into their own files about a compaction: its summary, and when it was.

Only the file of the delivery's own session is read, at its end. Each function takes the path of a client's transcript
and a moment (seconds since 1970), and returns the newest summary after it; None if there is none.
"""

from __future__ import annotations

import os
import re

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.disk import FileRefused, open_regular
from faber_ledger.ledger.encoding import loads
from faber_ledger.runs.seen import changed_at, names_in

LARGEST_END = 64 * 1024
LARGEST_ROLLOUT_END = 1024 * 1024  # a summary stands before the whole history that replaces the earlier one
IN_STRING = r'(?:[^"\\]|\\.)*'
SUMMARY_OF_ROLLOUT = re.compile(
    rf'(?:"timestamp":"([^"\\]+)",)?(?:"ordinal":\d+,)?"type":"compacted","payload":\{{"message":("{IN_STRING}")'
)
BEFORE_SUMMARY = "to assist with your own analysis:\n"
COMPRESSED = re.compile(r'"timestamp":"([^"\\]+)","type":"info","content":"(Context compressed from |")')
REPLACED = '{"$set":{"messages":'
SNAPSHOT, SNAPSHOT_END = "<state_snapshot>", "</state_snapshot>"
CHECKPOINT = re.compile(r"(\d+)-.+\.md")


def read_rollout(path: str, since: float) -> str | None:
    """Codex: a line of the transcript has the summary, after a sentence of its own."""
    found = SUMMARY_OF_ROLLOUT.findall(read_part(path, LARGEST_ROLLOUT_END))
    if not found or (found[-1][0] and (seconds_of(found[-1][0]) or 0) < int(since)):
        return None
    return str(loads(found[-1][1])).rpartition(BEFORE_SUMMARY)[2]


def read_checkpoint(path: str, since: float) -> str | None:
    """Copilot: each compaction writes a numbered file beside the transcript."""
    folder = os.path.join(os.path.dirname(path), "checkpoints")
    numbered = {int(found[1]): name for name in names_in(folder) if (found := CHECKPOINT.fullmatch(name))}
    newest = os.path.join(folder, numbered[max(numbered)]) if numbered else ""
    return read_part(newest, LARGEST_END) if (changed_at(newest) or 0) >= since else None


def read_snapshot(path: str, since: float) -> str | None:
    """Gemini: the history that replaces the earlier one has the summary, and a message is the next line."""
    end = read_part(path, LARGEST_END)
    found = [*COMPRESSED.finditer(end)]
    if not found or (seconds_of(found[-1][1]) or 0) < int(since):
        return None
    replaced = end[: found[-1].start()].split("\n")[-2:-1]
    if not replaced or not replaced[0].startswith(REPLACED):
        return None  # a compression that failed, or a longer history
    before, has_end, _ = replaced[0].rpartition(SNAPSHOT_END)
    _, has_beginning, said = before.rpartition(SNAPSHOT)
    return str(loads(f'"{said}"')) if has_end and has_beginning else None


READERS = {"rollout": read_rollout, "checkpoint": read_checkpoint, "snapshot": read_snapshot}


def compressed_at(path: str) -> float | None:
    """Return when Gemini has compressed its history by itself; None if the end of its transcript does not say."""
    found = [one for one in COMPRESSED.finditer(read_part(path, LARGEST_END)) if one[2] != '"']
    return seconds_of(found[-1][1]) if found else None


def read_part(path: str, size: int, *, from_end: bool = True) -> str:
    """Return at most `size` bytes from the end of a client's own file, or its beginning; empty if it is unreadable."""
    try:
        descriptor = open_regular(path)
    except (FileRefused, OSError, ValueError):
        return ""
    with open(descriptor, "rb") as file:
        if from_end:
            file.seek(max(os.fstat(descriptor).st_size - size, 0))
        return file.read(size).decode("utf-8", "replace")
