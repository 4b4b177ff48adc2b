"""Clones that redact events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import strip_in_place
from faber_ledger.ledger.union import write_union
from faber_ledger.recording.redact import plan_redaction
from support.sample_log import START
from support.worked_clones import EVENTS, Clones, rows

NOTE = {"type": "note_recorded", "kind": "note", "phase": "build", "step": "implement"}


def secret(number: int) -> str:
    return f"hunter-{number:04d}-§"


def note(number: int) -> Any:
    return {**NOTE, "text": f"the password is {secret(number)}"}


def redact(path: str, name: str) -> None:
    """Redact an event of a log as the command does, and write the log again."""
    with Log.open(path, "OFF") as log:
        plan = plan_redaction(log, name, None, "f" * 32)
        if plan.event is not None:
            log.append([{"event": plan.event}], at=START, writer="f" * 32)
        log.commit()
    write_union([path], path)


def payload_of(path: str, name: str) -> dict[str, Any]:
    """Return an event's payload, or what is shown in its place since it was redacted."""
    with Log.read(path) as log:
        (event,) = [dict(one["event"]) for one in log.stream() if one["id"] == name]
    return {key: value for key, value in event.items() if key not in ("type", "session_id")}


def forge(path: str, target: str, *, writer: str = "e" * 32, **said: Any) -> str:
    """Write a redaction without `redact`, as anyone can, and return its id."""
    event: Any = {"type": "event_redacted", "event_id": target, "reason": None}
    with Log.open(path, "OFF") as log:
        (recorded,) = log.append([{"event": event | said}], at=START + 5000, writer=writer)
        log.commit()
    return recorded["id"]


def lose(path: str, *names: str) -> None:
    """Remove payloads, though no redaction names them."""
    with Log.open(path, "OFF") as log:
        strip_in_place(log.connection, names)
        log.commit()
        log.connection.execute("VACUUM")


class Redacting(Clones):
    """Clones that write notes with a secret in each, and redact some of them."""

    count = 0

    def append(self, clone: int, kind: int, drift: int) -> None:
        self.clocks[clone] += drift
        self.count += 1
        with Log.open(self.paths[clone], "OFF") as log:
            log.append([{"event": note(self.count)}], at=START + self.clocks[clone], writer=self.writers[clone])
            log.commit()

    def redact(self, clone: int, which: int) -> None:
        notes = [row for row in rows(self.paths[clone]) if row[2] == "note_recorded"]
        if notes:
            redact(self.paths[clone], notes[which % len(notes)][1])


def sample(path: Path) -> dict[str, str]:
    """Write a log with every type; return the id of the first event of each."""
    with Log.open(str(path)) as log:
        recorded = log.append([{"event": event} for event in EVENTS], at=START, writer="a" * 32)
        log.commit()
    return {one["event"]["type"]: one["id"] for one in reversed(recorded)}
