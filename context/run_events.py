"""The newest of the events that FABER's own tools wrote into a run's `events/` (RECON, 0.5 Review Recent Events)."""

from __future__ import annotations

from faber_ledger.context.findings import one_line
from faber_ledger.context.run_files import check_texts, json_files, json_object
from faber_ledger.files.untrusted import FileRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.findings import Journal
    from faber_ledger.runs.run import Run

FOLDER = "events"
NEWEST = 20
KEY_TYPES = ("phase_complete", "step_error", "decision_point", "approval_granted")


def load_events(run: Run, journal: Journal) -> list[dict[str, Any]]:
    """Read the newest twenty events, oldest first. One that cannot be read is skipped with a warning."""
    try:
        files = json_files(run, FOLDER)
    except FileRefused as error:
        _warned(FOLDER, str(error), journal)
        return []
    if not files:
        journal.info("events_missing" if files is None else "events_empty", "ℹ No events found (new run)")
        return []
    events = [event for path in files[-NEWEST:] if (event := _read(run, path, journal)) is not None]
    journal.log(f"✓ Loaded {len(events)} recent events")
    for event in events:
        if event.get("type") in KEY_TYPES:
            journal.log(f"  {event_line(event)}")
    return events


def event_line(event: dict[str, Any]) -> str:
    """Tell an event in one line: `[timestamp] type: message`."""
    return f"[{one_line(event.get('timestamp'))}] {one_line(event.get('type'))}: {one_line(event.get('message'))}"


def _read(run: Run, path: str, journal: Journal) -> dict[str, Any] | None:
    try:
        event = json_object(run, path)
        if event is not None and not isinstance(event.get("type"), str):
            raise ValueError("its type is no text")
        check_texts(event or {}, ("timestamp", "message"))
    except (FileRefused, ValueError) as error:
        _warned(path, str(error), journal)
        return None
    if event is None:
        _warned(path, "No such file or directory", journal)
    return event


def _warned(path: str, reason: str, journal: Journal) -> None:
    journal.warn(
        "events_read_error", "Events read error", {"Path": path, "Error": reason}, "Recent events may be missing"
    )
