"""What the page's views show: a run, its sessions and events, as the templates get it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.reports.chart import Chart
from faber_ledger.cli.reports.run_list import state_facts
from faber_ledger.cli.reports.usage import usage_line
from faber_ledger.cli.ui.attention import NUMBER, decide_state, pull_request, reason_of, state_words
from faber_ledger.cli.ui.event_words import session_shown, words_of
from faber_ledger.cli.ui.words import plural, ran_words, tokens_shown
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import CLIENT, HASH, READ, ROW, SEQ, compute_hash, decode_row
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.history import agent_shown, count_compactions
from faber_ledger.projections.timeline import Timeline, build_timeline
from faber_ledger.projections.usage import Usage
from faber_ledger.runs.progress import (
    branch_name,
    error_message,
    is_granted,
    place_of_error,
    text_of_value,
    words_of_approval,
)

if TYPE_CHECKING:
    from faber_ledger.cli.page.source import Source
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log

PHASES = ("frame", "architect", "build", "evaluate", "release")
EVENTS_A_PAGE, SESSIONS_A_PAGE = 100, 50
MOST_DRAWN = 200  # sessions of a chart that a run's own view has: a longer one has a view of its own
MOST_TEXTS = 50
# The types of event whose texts are shown, and what each is called.
TEXTS = {
    "note_recorded": "note",
    "compaction_completed": "summary",
    "artifact_failed": "failed load",
    "event_redacted": "redaction",
    "redaction_undone": "redaction undone",
}
LOADS = ("artifact_loaded", "artifact_skipped", "artifact_failed")


class Event(NamedTuple):
    """An event as a row of a table: its number in the log, its words, and all that is stored of it.

    `compacted_into` is the session that has the context after the compaction that the event is of.
    """

    number: int | None
    id: str
    seq: int
    at: str
    kind: str
    session: str
    words: str
    stored: str
    hash: str
    is_sound: bool
    compacted_into: str | None


class Text(NamedTuple):
    """What somebody noted, approved, a model summed up, or what went wrong; of a state, without an event."""

    kind: str
    at: str
    where: str
    text: str
    event_id: str | None = None


class RunView(NamedTuple):
    """A run: what its log says, folded once, and whether the log is sound."""

    timeline: Timeline
    usage: Usage
    texts: list[Text]
    problem: str | None


def steps_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the five phases, each done, now or to come; of another workflow the one that is known."""
    done, now = row["phases_completed"], row["phase"]
    if now not in (None, *PHASES):
        return [(str(now), "now")]
    at = "failed" if row["state"] == "failed" else "now"
    return [(name, "done" if name in done else at if name == now else "ahead") for name in PHASES]


def link_of(text: str | None) -> tuple[str, str | None]:
    """Return a pull request as `#87`, if its name ends with a number, and its address if it is one of the web."""
    number = NUMBER.search(text or "")
    is_address = text is not None and text.startswith(("https://", "http://"))
    return f"#{number[1]}" if number else text or "-", text if is_address else None


def standing_of(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the list says of a run that waits, has failed or is done, with the reason; else None."""
    found, waits_for = decide_state(state, is_open=False, quiet=None, stale_after=0.0)
    if found not in ("waiting", "failed", "done"):
        return None
    words = state_words({"state": found, "waits_for": waits_for, "status": state.get("status")})
    return {"state": found, "words": words, "reason": reason_of(state)}


def facts_of(state: dict[str, Any], view: RunView, *, has_money: bool = True) -> Iterator[tuple[str, str]]:
    """Yield what is known of a run, each fact with its name."""
    timeline, bars = view.timeline, view.timeline["bars"]
    compactions = count_compactions([bar["session"] for bar in bars])
    known = state_facts(state)
    facts = {
        **known,
        "work item": known["work item"] or timeline["work_id"],
        "workflow": timeline["workflow_id"],
        "why": reason_of(state),
        "branch": text_of_value(branch_name(state)),
        "pull request": pull_request(state),
        "sessions": f"{len(bars)} on {plural(len({bar['machine'] for bar in bars}), 'machine')}" if bars else None,
        "compactions": str(compactions) if compactions else None,
        "events": f"{timeline['events']:,}",
        "tokens": usage_line(view.usage, has_money=has_money),
    }
    yield from ((name, value) for name, value in facts.items() if value)


def read_run(source: Source, run_id: str) -> RunView:
    """Return a run's view; raises RunNotFound, LedgerError."""
    with source.open_log(run_id) as log:
        timeline = build_timeline(run_id, log.stream(), seconds_of)
        usage = Usage(log.usage())
        newest = f"{READ} WHERE type IN {tuple(TEXTS)} ORDER BY at DESC, seq DESC, id DESC LIMIT {MOST_TEXTS}"
        texts = [_text_of(decode_row(row)) for row in log.connection.execute(newest)]
        problem = next((one.what for one in find_problems(log.path) if not one.is_note), None)
    return RunView(timeline, usage, texts, problem)


def draw(timeline: Timeline, address: str) -> str:
    """Return a run's chart, whose bars lead to their events in the view at an address; empty without a session."""
    count = timeline["events"]
    pages = -(-count // EVENTS_A_PAGE)

    def address_of(number: int) -> str:
        return f"{address}?page={pages - (count - number) // EVENTS_A_PAGE}#e{number}"

    return Chart(timeline, address_of).svg() if timeline["bars"] else ""


def read_events(log: Log, end: int) -> list[Event]:
    """Return a page of events, in their order, up to the one with the number `end`."""
    first = max(0, end - EVENTS_A_PAGE)
    rows = log.connection.execute(f"{ROW} ORDER BY seq, id LIMIT ? OFFSET ?", (end - first, first))
    return [_event_of(log, row, number) for number, row in enumerate(rows, first + 1)]


def find_event(log: Log, event_id: str) -> Event | None:
    """Return one event; None if the log has none of that id."""
    row = log.connection.execute(f"{ROW} WHERE id = ?", (event_id,)).fetchone()
    return None if row is None else _event_of(log, row, None)


def _event_of(log: Log, row: tuple[Any, ...], number: int | None) -> Event:
    recorded = decode_row((*row[:8], row[10]))
    return Event(
        number,
        recorded["id"],
        recorded["seq"],
        str(recorded["at"]),
        recorded["event"]["type"],
        session_shown(recorded),
        words_of(recorded),
        json.dumps(recorded, ensure_ascii=False, indent=2),
        row[HASH].hex(),
        compute_hash(row) == row[HASH],
        _compacted_into(log, row, dict(recorded["event"])),
    )


def _compacted_into(log: Log, row: tuple[Any, ...], event: dict[str, Any]) -> str | None:
    """Return the first session of the client after the end that a compaction brought, if the event is of one.

    A client tells of its completion before or after that session starts.
    """
    is_of_compaction = {
        "session_ended": event.get("reason") == "compaction",
        "session_started": event.get("source") == "compact",
        "compaction_completed": event.get("agent_id") is None,
    }
    if not is_of_compaction.get(event["type"]):
        return None
    of_client = "type = '{}' AND client = ? AND seq {} ? ORDER BY seq"
    ends = f"{READ} WHERE {of_client.format('session_ended', '<=')} DESC LIMIT 1"
    starts = f"SELECT session_id FROM event WHERE {of_client.format('session_started', '>')} LIMIT 1"
    end = log.connection.execute(ends, (row[CLIENT], row[SEQ])).fetchone()
    if end is None or dict(decode_row(end)["event"]).get("reason") != "compaction":
        return None
    found = log.connection.execute(starts, (row[CLIENT], end[SEQ])).fetchone()
    return None if found is None else str(found[0])


def _text_of(recorded: Recorded) -> Text:
    event = dict(recorded["event"])
    kind = str(event["type"])
    name = str(event["kind"]) if kind == "note_recorded" and isinstance(event.get("kind"), str) else TEXTS[kind]
    said = event.get("text") or event.get("summary")
    text = said if isinstance(said, str) else "" if kind == "compaction_completed" else words_of(recorded)
    where = ":".join([part for part in (event.get("phase"), event.get("step")) if isinstance(part, str)])
    return Text(name, str(recorded["at"]), where, text, recorded["id"])


def newest_texts(state: dict[str, Any], view: RunView) -> list[Text]:
    """Return the texts of a run's log, and the errors and approvals of its state, newest first."""
    texts = [one for one in (*view.texts, *_texts_of_state(state)) if one.text]
    return sorted(texts, key=lambda one: seconds_of(one.at) or 0.0, reverse=True)[:MOST_TEXTS]


def _texts_of_state(state: dict[str, Any]) -> Iterator[Text]:
    errors, *asked = [state.get(name) for name in ("errors", "pending_approvals", "approvals")]
    for error in reversed(errors) if isinstance(errors, list) else ():
        yield Text("error", _newest_time(error), place_of_error(error), error_message(error))
    for one in [one for some in asked if isinstance(some, list) for one in some if isinstance(one, dict)]:
        said = "given" if is_granted(one) else text_of_value(one.get("status") or one.get("decision")) or "asked for"
        yield Text(f"approval {said}", _newest_time(one), "", words_of_approval(one))


def _newest_time(said: object) -> str:
    times = {at: seconds for at in said.values() if (seconds := seconds_of(at))} if isinstance(said, dict) else {}
    return max(times, key=lambda at: times[at], default="")


def session_rows(view: RunView) -> Iterator[dict[str, Any]]:
    """Yield the sessions of a run, the newest first."""
    usage = view.usage.by("session_id")
    for bar in reversed(view.timeline["bars"]):
        one = bar["session"]
        yield {
            "id": one["session_id"],
            "agent": agent_shown(one["agent"], one["agent_version"]),
            "machine": bar["machine"],
            "started_at": one["started_at"],
            "is_after_compaction": bar["source"] == "compact",
            "length": ran_words(one),
            "end": "open" if bar["is_open"] else one["end_reason"] or "ended",
            "completed": ", ".join(one["newly_completed"]),
            "loaded": len(one["artifacts_loaded"]),
            "tokens": tokens_shown(usage[one["session_id"]].used.tokens) if one["session_id"] in usage else "",
        }


def given_to(log: Log, session_id: str) -> list[dict[str, str]]:
    """Return what a session was given of each artifact, and what was left out, in the order of its events."""
    found = []
    loads = f"{READ} WHERE session_id = ? AND type IN {LOADS} ORDER BY seq, id"
    for recorded in map(decode_row, log.connection.execute(loads, (session_id,))):
        event = dict(recorded["event"])
        how = {"artifact_loaded": event.get("given"), "artifact_skipped": "was there", "artifact_failed": "left out"}
        about = {"artifact": str(event.get("artifact_id")), "given": str(how[str(event["type"])] or "whole")}
        found.append({**about, "words": words_of(recorded), "event_id": recorded["id"]})
    return found


def events_of_session(log: Log, session_id: str) -> list[Event]:
    """Return a session's events, the first thousand."""
    rows = log.connection.execute(f"{ROW} WHERE session_id = ? ORDER BY seq, id LIMIT 1000", (session_id,))
    return [_event_of(log, row, None) for row in rows]


def markdown_of(run_id: str, state: dict[str, Any], view: RunView) -> str:
    """Return a run as Markdown for an issue: facts, sessions, decisions and notes."""
    lines = [
        f"## {run_id}",
        "",
        *[f"- {name}: {_plain(value)}" for name, value in facts_of(state, view, has_money=False)],
        "",
    ]
    lines += ["| session | agent | machine | started (UTC) | ran | end | completed |", "|---|---|---|---|---|---|---|"]
    for one in session_rows(view):
        cells = (one["id"], one["agent"], one["machine"], one["started_at"], one["length"], one["end"])
        lines.append(f"| {' | '.join([_plain(cell) for cell in (*cells, one['completed'])])} |")
    for text in newest_texts(state, view):
        lines += ["", f"**{text.kind}**{f' ({_plain(text.where)})' if text.where else ''}, {text.at}", ""]
        lines += [f"> {line.replace('<', '&lt;').replace('![', '!&#91;')}" for line in text.text.splitlines()]
    sound = f"is not sound: {view.problem}" if view.problem else "is verified: each event matches its hash"
    return "\n".join([*lines, "", f"Its ledger {sound}."]) + "\n"


def _plain(value: object) -> str:
    """Return a value that neither ends a table's cell nor begins a tag."""
    return str(value or "-").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
