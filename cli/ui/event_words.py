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
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.events import Recorded


LONGEST_LINE = 200
WITH_SESSIONS = " with the sessions of its state.json that the log lacked"


def words_of(recorded: Recorded) -> str:
    """Return an event's content as one line of at most 200 characters; an event of an unknown shape as JSON."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event.pop("type")
    if recorded.get("redacted"):
        return NOT_CHECKABLE
    try:
        text = TEXTS[kind](event)
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


def _and(words: str, value: object) -> str:
    """Return words with the value filled in; empty without a value."""
    return words.format(value) if value else ""


def _where(event: dict[str, Any]) -> str:
    return _and(", in {}", event["phase"])


def _by(event: dict[str, Any]) -> str:
    agent, version = event.get("agent"), event.get("agent_version")
    return "" if agent is None or (agent, version) == ("claude", None) else f" by {agent}{_and(' {}', version)}"


def _adopted(event: dict[str, Any]) -> str:
    blocks = event["blocks"]  # canonical JSON, or redacted
    has_none = blocks.startswith("{") and '"session_id":"' not in blocks and '"current_session_id":"' not in blocks
    return f"run {event['run_id']} adopted{'; its state.json had no sessions' if has_none else WITH_SESSIONS}"


def _reconstituted(event: dict[str, Any]) -> str:
    problems = [f"{found['severity']} {found['code']}" for found in event["findings"] if found["severity"] != "INFO"]
    return f"context reconstituted{_and(': {}', ', '.join(problems))}"


def _notable(reason: str | None) -> str | None:
    """Return a client's reason if it adds something to ours, else None."""
    return None if reason in ("auto", "prompt_input_exit", "other") else reason


def _checkout(event: dict[str, Any]) -> str:
    without = "" if event["has_run"] else ", without the run's files"
    when = "end" if event["is_end"] else "start"
    work = ", with uncommitted changes" if event["uncommitted"] else ""
    return f"{event['branch'] or 'no branch'} checked out at the {when}{without}{work}"


INFERRED = " (inferred)"  # its phase would be what this clone knew
REASONS = {"repeated": "the same delivery arrived twice", "subagent": "it is about a subagent"}
TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "run_started": lambda one: (
        f"run {one['run_id']} started with {one['workflow_id']}{_and(', work item {}', one['work_id'])}"
    ),
    "run_adopted": _adopted,
    "session_started": lambda one: (
        f"session started ({one['source']}){_by(one)} on {one['environment']['hostname']}{_where(one)}"
    ),
    "session_ended": lambda one: (
        f"session ended: {one['reason']}{_and(' ({})', _notable(one['client_reason']))}"
        f"{INFERRED if one['inferred'] else _where(one)}"
    ),
    "checkout_recorded": _checkout,
    "artifact_loaded": lambda one: (
        f"asked the agent to load {one['artifact_id']}: {one['source']}"
        if one["given"] == "deferred"
        else f"loaded {one['artifact_id']} ({one['given']}, {one['size_bytes']} bytes) from {one['source']}"
    ),
    "artifact_failed": lambda one: (
        f"could not load {one['artifact_id']} ({'required' if one['required'] else 'optional'})"
        f"{'' if one['source'] in one['error'] else _and(' from {}', one['source'])}: {one['error']}"
    ),
    "artifact_skipped": lambda one: f"skipped {one['artifact_id']}, loaded at {one['loaded_at']}",
    "context_reloaded": lambda one: (
        f"context reloaded ({one['trigger']}): {one['loaded']} loaded, {one['failed']} failed, {one['skipped']} skipped"
    ),
    "compaction_completed": lambda one: (
        f"compaction ({one['trigger'] or 'unknown'}) completed"
        f"{_and(' of the subagent {}', one['agent_id'])}{_where(one)}"
    ),
    "delivery_ignored": lambda one: (
        f"{one['delivery']['hook']} changed nothing: {REASONS.get(one['reason'], one['reason'])}"
    ),
    "answer_lost": lambda _: (
        "the session's start was not answered: its hook was killed, and what it had loaded was not given"
    ),
    "note_recorded": lambda one: f"{one['kind']}{_where(one)}: {one['text']}",
    "context_reconstituted": _reconstituted,
    "usage_recorded": lambda one: (
        f"{one['input_tokens'] + one['cached_tokens'] + one['output_tokens']:,} tokens"
        f" ({one['cached_tokens']:,} cached, {one['output_tokens']:,} out) in {one['turns']}"
        f" response{'' if one['turns'] == 1 else 's'} of {one['model']}{_and(', in {}', one['in_phase'])}"
    ),
    "event_redacted": lambda one: f"redaction of event {one['event_id']}{_and(': {}', one['reason'])}",
    "redaction_undone": lambda one: f"redaction undone of event {one['event_id']}{_and(': {}', one['reason'])}",
}


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
