"""Watch over a hook's time: at its deadline, or told to end, it spools what it has not recorded."""

from __future__ import annotations

import os
import sys
import time

from faber_ledger.ledger.deadline import OutOfTime, end_time, limit_time, time_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
else:
    try:
        import _signal as signal  # the module around it costs as much as a third of `json`
    except ImportError:  # another Python than CPython
        import signal

SECONDS = 10.0
SECONDS_AT_THE_END = 1.0  # the client kills a SessionEnd after 1.5 seconds
INPUT_SHARE = 0.5  # of this time, which a client may take for its delivery
PIECE = 65_536
# A session's end that has hardly computed is a process that a busy machine lets wait, and nearly done: it is spooled,
# and may go on until the client kills it.
SECONDS_AFTER_THE_END = 0.4
RING_AGAIN = 0.05


class EndOfInput(BaseException):
    """A client has not closed a hook's standard input in time."""


class Watch:
    """Stops what runs in its context, once, when the hook's time is over or the process is told to end.

    Outside its context nothing is stopped; whatever asks for time gets none then, and the next context is not entered.
    """

    def __init__(self) -> None:
        self._is_entered = self._is_reading = False
        self._error: OutOfTime | None = None
        self._stops = 2
        self._seconds = SECONDS
        self.keep: Callable[[], None] | None = None  # spools the delivery of an end that may go on

    def begin(self, hook: str) -> None:
        """Watch over this process from now on."""
        for name in ("SIGALRM", "SIGTERM", "SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores one
                signal.signal(number, self._ring)
        self.limit(hook)

    def limit(self, hook: str) -> None:
        """Set the time that a hook has."""
        self._seconds = SECONDS_AT_THE_END if hook == "SessionEnd" else SECONDS
        if self._error is None:
            limit_time(self._seconds)
            _ring_after(time_left())

    def read_input(self, limit: int) -> bytes:
        """Read standard input to its end, to more than `limit` bytes, or as long as there is time."""
        if sys.stdin is None:  # closed
            return b""
        pieces: list[bytes] = []
        size, self._is_reading = 0, True
        try:
            _ring_after(time_left(INPUT_SHARE * self._seconds))
            with self:
                while size <= limit and (piece := os.read(0, PIECE)):
                    pieces.append(piece)
                    size += len(piece)
        except (OSError, EndOfInput, OutOfTime):
            pass  # what has come may be a whole delivery, and the client's variables say as much
        self._is_reading = False
        return b"".join(pieces)

    def __enter__(self) -> Watch:
        """Raise OutOfTime if the time is over already."""
        self._is_entered = True
        if self._error is not None:
            self._is_entered = False
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self._is_entered = False

    def end(self) -> None:
        """Let nothing ring any more: a process that is ending has no handler for it."""
        self._is_entered = False
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._error is not None:
            self._stop()
            return
        if number != getattr(signal, "SIGALRM", None):
            self._error = end_time("it was told to end")
        elif self._is_reading and self._is_entered:
            raise EndOfInput
        elif self._is_entered and self.keep is not None and time.process_time() < self._seconds / 2:
            keep, self.keep = self.keep, None
            _ring_after(SECONDS_AFTER_THE_END)  # what asks for time gets none all the same
            keep()
            return
        else:
            self._error = end_time()
        self._stop()

    def _stop(self) -> None:
        """Raise the error, and once more a moment later: SQLite, if it is at work, turns the first into its own."""
        if self._error is not None and self._is_entered and self._stops > 0:
            self._stops -= 1
            _ring_after(RING_AGAIN)
            raise self._error


def _ring_after(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
