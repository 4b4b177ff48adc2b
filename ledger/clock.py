"""The time, the ids that are made from it, and the one deadline of a hook.

Whatever waits, or gathers much, asks here how long it may. No command has a deadline.
"""

from __future__ import annotations

import time

LATEST = 253_402_300_799.0  # 9999-12-31T23:59:59Z


def now() -> float:
    """Return the present moment, in seconds since 1970; a clock that shows no year from 1970 to 9999 is corrected.

    No event could have the time that such a clock shows.
    """
    return min(max(time.time(), 0.0), LATEST)


def utc_text(seconds: float) -> str:
    """Write a moment (seconds since 1970) as the documents do, cut to whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text: object) -> float | None:
    """Read an ISO 8601 moment as seconds since 1970; None for anything else, a time without a zone included."""
    if not isinstance(text, str):
        return None
    import datetime  # costs as much as `json`, and only reading a time needs it

    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.timestamp()


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"


def event_id(seconds: float, randomness: bytes) -> str:
    """Make a ULID: 48 bits of milliseconds and 80 bits of the given randomness, in 26 characters."""
    number = (int(seconds * 1000) & 0xFFFFFFFFFFFF) << 80 | int.from_bytes(randomness[:10], "big")
    return "".join([CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5)])


def is_event_id(text: str) -> bool:
    """Return whether a text is an event id as `event_id` writes it."""
    return len(text) == 26 and text[0] in "01234567" and all([letter in CROCKFORD for letter in text])


def session_id(seconds: float, randomness: bytes) -> str:
    """Make `claude-session-YYYYMMDD-HHMMSS-xxxxxx` (UTC), from six bytes of randomness (AGENT, Step 3)."""
    return f"claude-session-{_stamp(seconds, randomness)}"


def run_id(project: str, work_id: str, seconds: float, randomness: bytes) -> str:
    """Make `<project>-<work id>-YYYYMMDD-HHMMSS-xxxxxx` (UTC), from six bytes of randomness (SPEC, Active Run ID)."""
    return f"{project}-{work_id}-{_stamp(seconds, randomness)}"


def _stamp(seconds: float, randomness: bytes) -> str:
    six = "".join([LOWER[byte % len(LOWER)] for byte in randomness[:6]])
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}-{six}"


FOREVER = float("inf")


class OutOfTime(BaseException):
    """A hook's time is over; the text says so. Only the hook itself catches it."""


class _Deadline:
    """When everything has to be done, as `time.monotonic` counts, and what is said then."""

    began: float | None = None
    at = FOREVER
    reason = ""


_deadline = _Deadline()  # of this process


def limit_time(seconds: float) -> None:
    """Set the deadline, in seconds from the first call."""
    if _deadline.began is None:
        _deadline.began = time.monotonic()
    _deadline.at = _deadline.began + seconds
    _deadline.reason = f"a hook has {seconds:g} seconds"


def reserve_time(seconds: float) -> None:
    """Bring the deadline forward; a negative number moves it back."""
    _deadline.at -= seconds


def time_left(longest: float = FOREVER) -> float:
    """Return the seconds until the deadline, at most `longest` and at least 0."""
    return longest if _deadline.at == FOREVER else max(min(longest, _deadline.at - time.monotonic()), 0.0)


def check_time() -> None:
    """Raise OutOfTime after the deadline."""
    if _deadline.at != FOREVER and time.monotonic() >= _deadline.at:
        raise OutOfTime(_deadline.reason)
