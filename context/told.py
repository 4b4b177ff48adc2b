"""What a run's log holds for whoever goes on: the newest notes, and what another conversation came to."""

from __future__ import annotations

from itertools import islice

from faber_ledger.context.notes import notes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.packet import Told
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log

COMPACTIONS_LOOKED_AT = 64  # a session's start must not read more the longer a run gets


def newest_notes(log: Log) -> list[Told]:
    """Give the newest notes of a run, newest first, and say so where there are others."""
    notes, others = notes_of(log)
    told: list[Told] = [
        {
            "text": note["text"],
            "phase": note["phase"],
            "step": note["step"],
            "kind": note["kind"],
            "event_id": note["event_id"],
        }
        for note in notes
    ]
    if others:
        more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
        told.append({"text": f"… and {others} older: {more}", "phase": None, "step": None})
    return told


def summary_for(log: Log, client: str | None, source: str) -> Told | None:
    """Give the newest summary that another client recorded before this client's first session on the run.

    It is looked for in the newest 64 compactions of others before that, and no further back.
    So a conversation gets what it has never seen, and always the same. `source` is that of the session about to start.
    None for a fork, which has seen what it was forked from, and for a client without an id.
    """
    if client is None:
        return None
    first = log.first_start_of(client)
    if first is not None and first["event"]["type"] == "session_started":
        source = first["event"]["source"]
    if source == "fork":
        return None
    for recorded in islice(log.compactions(not_by=client, before=first), COMPACTIONS_LOOKED_AT):
        event = recorded["event"]
        told = _told(recorded, "summary")
        if told is not None and event["type"] == "compaction_completed" and event["agent_id"] is None:
            return told
    return None


def _told(recorded: Recorded, name: str) -> Told | None:
    """Read an event that may come from elsewhere: what is no text is none."""
    values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
    text, phase, step = values.get(name), values.get("phase"), values.get("step")
    if not (isinstance(text, str) and text.strip()):
        return None
    return {
        "text": text,
        "phase": phase if isinstance(phase, str) else None,
        "step": step if isinstance(step, str) else None,
        "event_id": recorded["id"],
    }
