"""Events in words, one line each, and with them a whole ledger for git.

Git runs `textconv` for each version of a ledger that it shows, so this module and what it imports are the standard
library's cheap part, as in a hook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from faber_ledger.files.text import escape
from faber_ledger.ledger.encoding import canonical
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.event_types import NOT_CHECKABLE
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.gate import find_form_fault, shown_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded


LONGEST_LINE = 200
WITH_SESSIONS = " with the sessions that its state.json had"


def words_of(recorded: Recorded) -> str:
    """Return an event's content as one line of at most 200 characters; an event of an unknown shape as JSON."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event.pop("type")
    if recorded.get("redacted"):
        return NOT_CHECKABLE
    try:
        text = _event_text(kind, event)
    except (KeyError, TypeError, AttributeError):
        text = _as_json({name: value for name, value in event.items() if name != "session_id"})
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def _as_json(event: dict[str, Any]) -> str:
    try:
        return canonical(event)
    except (ValueError, RecursionError):  # NaN, or nested too deeply: this program never writes it
        return "its content cannot be shown"


def session_shown(recorded: Recorded) -> str:
    """Return the last part of an event's session id, by which the sessions of a run differ; `-` for none."""
    session_id = recorded["event"].get("session_id")
    return session_id.rpartition("-")[2] if isinstance(session_id, str) and session_id else "-"


def line_of(recorded: Recorded) -> str:
    """Return an event as one line: seq, time, type, the end of its session's id, and its content.

    If no ledger writes such an envelope, the line has only the event's id.
    """
    if find_form_fault(envelope_of(recorded)) is not None:
        return f"{recorded['seq']:>5}  {refused_shown(recorded['id'])}"
    kind = recorded["event"]["type"]
    return f"{recorded['seq']:>5}  {recorded['at']}  {kind:<20}  {session_shown(recorded):<6}  {words_of(recorded)}"


def envelope_of(recorded: Recorded) -> tuple[Any, ...]:
    """Return an event's envelope as the first columns of its row have it."""
    event = recorded["event"]
    names = (recorded["seq"], recorded["id"], event["type"], recorded["version"], recorded["at"], recorded["writer"])
    return (*names, event.get("session_id"), recorded["client"])


def refused_shown(name: object) -> str:
    """Return what is shown of an event that the gate refuses."""
    return f"{shown_id(name)} (refused)"


def _has_no_sessions(blocks: str) -> bool:
    """Return whether the blocks that a run was adopted with have no session; they are canonical JSON, or redacted."""
    return blocks.startswith("{") and '"session_id":"' not in blocks and '"current_session_id":"' not in blocks


def _event_text(kind: str, event: dict[str, Any]) -> str:
    if kind == "run_started":
        work = f", work item {event['work_id']}" if event["work_id"] else ""
        return f"run {event['run_id']} started with {event['workflow_id']}{work}"
    if kind == "run_adopted":
        had = "; its state.json had no sessions" if _has_no_sessions(event["blocks"]) else WITH_SESSIONS
        return f"run {event['run_id']} adopted{had}"
    if kind == "session_started":
        named = " ".join(filter(None, [event.get("agent"), event.get("agent_version")]))
        by = f" by {named}" if event.get("agent") not in (None, "claude") else ""
        return f"session started ({event['source']}){by} on {event['environment']['hostname']}{_where(event)}"
    if kind == "session_ended":
        inferred = ", inferred" if event["inferred"] else ""
        said = f" (the client said: {event['client_reason']})" if event["client_reason"] else ""
        return f"session ended: {event['reason']}{said}{inferred}{_where(event)}"
    if kind == "checkout_recorded":
        when = "end" if event["is_end"] else "start"
        without = "" if event["has_run"] else ", without the run's files"
        return f"{event['branch'] or 'no branch'} checked out at the {when}{without}{WORK[event['uncommitted']]}"
    if kind == "artifact_loaded":
        return f"loaded {event['artifact_id']} ({event['given']}, {event['size_bytes']} bytes) from {event['source']}"
    if kind == "artifact_failed":
        needed = "required" if event["required"] else "optional"
        return f"could not load {event['artifact_id']} ({needed}) from {event['source']}: {event['error']}"
    if kind == "artifact_skipped":
        return f"skipped {event['artifact_id']}, loaded at {event['loaded_at']}"
    if kind == "context_reloaded":
        counts = f"{event['loaded']} loaded, {event['failed']} failed, {event['skipped']} skipped"
        return f"context reloaded ({event['trigger']}): {counts}"
    if kind == "compaction_completed":
        whose = f" of the subagent {event['agent_id']}" if event["agent_id"] else ""
        return f"compaction ({event['trigger'] or 'unknown'}) completed{whose}{_where(event)}"
    if kind == "delivery_ignored":
        return f"{event['delivery']['hook']} changed nothing: {REASONS.get(event['reason'], event['reason'])}"
    if kind == "answer_lost":
        return "the session's start was not answered: its hook was killed, and what it had loaded was not given"
    if kind == "note_recorded":
        return f"{event['kind']}{_where(event)}: {event['text']}"
    if kind == "context_reconstituted":
        point = ":".join(filter(None, [event["phase"], event["step"]])) or "an unknown point"
        resumed = f"{event['mode']} at {point}" if event["mode"] else "nothing to resume"
        problems = [
            f"{found['severity']} {found['code']}" for found in event["findings"] if found["severity"] != "INFO"
        ]
        return f"context reconstituted ({event['status']}, {resumed}){': ' + ', '.join(problems) if problems else ''}"
    if kind == "event_redacted":
        return f"redaction of event {event['event_id']}{': ' + event['reason'] if event['reason'] else ''}"
    if kind == "redaction_undone":
        return f"redaction undone of event {event['event_id']}{': ' + event['reason'] if event['reason'] else ''}"
    raise KeyError(kind)


WORK = {True: ", with uncommitted changes", False: ", nothing uncommitted", None: ""}
REASONS = {"repeated": "the same delivery arrived twice", "subagent": "it is about a subagent"}


def _where(event: dict[str, Any]) -> str:
    return f", in {event['phase']}" if event["phase"] else ""


MOST = 50_000


def print_ledger(path: str) -> None:
    """Print a ledger on standard output, for git; raises OSError if that cannot be written."""
    if sys.stdout is None:
        return  # it is closed, and no one is listening
    for line in ledger_lines(path):
        sys.stdout.write(f"{escape(line)}\n")
    sys.stdout.flush()


def ledger_lines(path: str) -> Iterator[str]:
    """Return the events of a ledger as lines; the last line says why, if it is not shown or not all of it."""
    path = os.path.abspath(path)  # a short name could be a part of any word of an error
    try:
        with open_untrusted(path) as log:
            for count, recorded in enumerate(log.stream()):
                if count == MOST:
                    yield f"(the first {MOST} events; `faber-ledger log` shows all)"
                    return
                yield line_of(recorded)
    except (LedgerError, OSError, sqlite3.Error) as error:
        yield f"(not shown: {' '.join(str(error).replace(path, 'the file').split())})"
