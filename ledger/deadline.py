"""The one deadline of a hook: whatever waits, or gathers much, asks here how long it may. No command has one."""

from __future__ import annotations

import os
import time

FOREVER = float("inf")
OLDEST = 60.0  # seconds that a hook can have run when it asks: any other age is a wrong clock


class OutOfTime(BaseException):
    """A hook's time is over; the text says so. Only the hook itself catches it."""


class _Deadline:
    """When everything has to be done, as `time.monotonic` counts, and what is said then."""

    def __init__(self) -> None:
        self.at = FOREVER
        self.reason = ""


_deadline = _Deadline()  # of this process


def limit_time(seconds: float) -> None:
    """Set the deadline, in seconds from the start of this process."""
    _deadline.at = time.monotonic() + seconds - _age()
    _deadline.reason = f"a hook has {seconds:g} second{'' if seconds == 1 else 's'}"


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


def _age() -> float:
    """Return for how many seconds this process has been running; at least its processor time is known."""
    try:
        descriptor = os.open("/proc/self/stat", os.O_RDONLY)
        try:
            fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError, IndexError):  # not on Linux
        return time.process_time()
    return age if 0.0 <= age < OLDEST else time.process_time()
