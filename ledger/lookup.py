"""Find the event, session or artifact of one run's log that a word stands for."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from faber_ledger.ledger.queries import HOSTNAME, PHASE, STARTED, OpenLog, connection_to
from faber_ledger.ledger.tables import EVENT

ARTIFACT_TYPES = ("artifact_loaded", "artifact_failed", "artifact_skipped")
ARTIFACT_ID = func.json_extract(EVENT.c.payload, "$.artifact_id")
MAX_MATCHES = 6


class Match(NamedTuple):
    """Something that a word may mean: its kind (event, session or artifact), its full id, and a description."""

    kind: str
    id: str
    words: str = ""


def find_matches(open_log: OpenLog, text: str) -> list[Match]:
    """Return what `text` may mean in a log; only exact ids and positions if there are any.

    The text is an event's seq or id, a session's id, its last part or its client's id, or an artifact's id; all but a
    seq may be abbreviated to a prefix. Returns at most 7 of each kind; raises as `open_log`.
    """
    with connection_to(open_log) as connection:
        exact = _find(connection, text, whole=True)
        return exact or (_find(connection, text, whole=False) if text else [])


def is_client(open_log: OpenLog, text: str) -> bool:
    """Return whether a text is a client's own session id in a log; raises as `open_log`."""
    return _has_event(open_log, EVENT.c.client == text)


def is_writer(open_log: OpenLog, text: str) -> bool:
    """Return whether a text is the writer of an event in a log; raises as `open_log`."""
    return _has_event(open_log, EVENT.c.writer == text)


def _has_event(open_log: OpenLog, condition: ColumnElement[bool]) -> bool:
    with connection_to(open_log) as connection:
        return connection.execute(select(EVENT.c.seq).where(condition).limit(1)).first() is not None


def list_machines(open_log: OpenLog) -> list[str]:
    """Return the host names of the sessions in a log, sorted; raises as `open_log`."""
    return _list_texts(open_log, HOSTNAME, STARTED)


def list_phases(open_log: OpenLog) -> list[str]:
    """Return the phases that events of a log name, sorted; raises as `open_log`."""
    return _list_texts(open_log, PHASE, PHASE.is_not(None))


def _list_texts(open_log: OpenLog, value: ColumnElement[Any], condition: ColumnElement[bool]) -> list[str]:
    with connection_to(open_log) as connection:
        found = connection.scalars(select(value).where(condition).distinct().order_by(value))
        return [text for text in found if isinstance(text, str)]


def find_similar(open_log: OpenLog, text: str) -> list[Match]:
    """Return sessions and artifacts spelled like `text`, else the nearest events; raises as `open_log`."""
    with connection_to(open_log) as connection:
        names = list(connection.scalars(_sessions()))
        sessions = {name.casefold().rpartition("-")[2]: name for name in names}
        sessions |= {name.casefold(): name for name in names}
        artifacts = {name.casefold(): name for name in connection.scalars(_artifacts()) if isinstance(name, str)}
        found = []
        for kind, known in (("artifact", artifacts), ("session", sessions)):
            close = difflib.get_close_matches(text.casefold(), known, n=3, cutoff=0.5)
            found += [Match(kind, name) for name in dict.fromkeys([known[name] for name in close])]
        if found:
            return found
        if text.isdecimal():
            newest = select(EVENT).order_by(EVENT.c.seq.desc()).limit(1)
            return _events(connection, newest)
        below = select(EVENT).where(EVENT.c.id <= text.upper()).order_by(EVENT.c.id.desc()).limit(1)
        above = select(EVENT).where(EVENT.c.id > text.upper()).order_by(EVENT.c.id).limit(1)
        return [*_events(connection, below), *_events(connection, above)]


def _find(connection: Connection, text: str, *, whole: bool) -> list[Match]:
    if text.isdecimal() and len(text) <= 16 and whole:
        events = _events(connection, select(EVENT).where(EVENT.c.seq == int(text)).limit(MAX_MATCHES + 1))
    elif whole:
        events = _events(connection, select(EVENT).where(EVENT.c.id == text.upper()))
    else:
        events = _events(
            connection,
            select(EVENT).where(EVENT.c.id >= text.upper(), EVENT.c.id < text.upper() + "a").limit(MAX_MATCHES + 1),
        )
    named = EVENT.c.session_id
    if whole:
        wanted = or_(named == text, named.endswith("-" + text, autoescape=True), EVENT.c.client == text)
        artifact = ARTIFACT_ID.is_not_distinct_from(text)
    else:
        wanted = or_(named.startswith(text, autoescape=True), EVENT.c.client.startswith(text, autoescape=True))
        artifact = ARTIFACT_ID.startswith(text, autoescape=True)
    sessions = connection.scalars(_sessions().where(wanted).limit(MAX_MATCHES + 1))
    artifacts = connection.scalars(_artifacts().where(artifact).limit(MAX_MATCHES + 1))
    return [
        *events,
        *[Match("session", name) for name in sessions],
        *[Match("artifact", name) for name in artifacts if isinstance(name, str)],
    ]


def _events(connection: Connection, question: Select[Any]) -> list[Match]:
    rows = connection.execute(question)
    return [Match("event", row.id, f"{row.seq}, {row.type} at {row.at}") for row in rows]


def _sessions() -> Select[Any]:
    return select(EVENT.c.session_id).where(EVENT.c.session_id.is_not(None)).distinct()


def _artifacts() -> Select[Any]:
    return select(ARTIFACT_ID).where(EVENT.c.type.in_(ARTIFACT_TYPES)).distinct()
