"""Times as the documents write them: UTC, whole seconds, `YYYY-MM-DDTHH:MM:SSZ`."""

from __future__ import annotations

import time


def now() -> float:
    """Give the present moment, in seconds since 1970."""
    return time.time()


def utc_text(seconds: float) -> str:
    """Write a moment (seconds since 1970) as the documents do, cut to whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text: object) -> float | None:
    """Read an ISO 8601 moment as seconds since 1970; None for anything else, a time without a zone included."""
    if not isinstance(text, str):
        return None
    import datetime  # costs as much as `json`; who only writes times goes without

    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.timestamp()
