"""Watch over a hook's time: it has one deadline, which is asked before each wait, and it ends a little later."""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger.clock import FOREVER, limit_time, time_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    try:
        import _signal as signal  # the module around it costs as much as a third of `json`
    except ImportError:  # another Python than CPython
        import signal

SECONDS = 10.0
SECONDS_AT_THE_END = 1.0  # the client kills a SessionEnd after 1.5 seconds
SECONDS_TO_ANSWER = 0.4  # after its deadline
INPUT_SHARE = 0.5  # of this time, which a client may take for its delivery
PIECE = 65_536


def begin(hook: str) -> None:
    """Set the time that a hook has, and let an interrupt end this process at once, as any other signal does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit(hook)


def limit(hook: str) -> None:
    """Set the time that a hook has."""
    limit_time(SECONDS_AT_THE_END if hook == "SessionEnd" else SECONDS)


def end_after_deadline() -> None:
    """End this process a little after its deadline, whatever it waits for then: its delivery is in the inbox."""
    if hasattr(signal, "setitimer") and time_left() != FOREVER:
        signal.signal(signal.SIGALRM, _exit)
        signal.setitimer(signal.ITIMER_REAL, time_left() + SECONDS_TO_ANSWER)


def end() -> None:
    """Let nothing end this process any more."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def read_input(limit: int) -> bytes:
    """Read standard input to its end, to more than `limit` bytes, or as long as there is time."""
    if sys.stdin is None:  # closed
        return b""
    import select

    pieces: list[bytes] = []
    size, reserved = 0, INPUT_SHARE * time_left()
    try:
        while size <= limit and select.select([0], [], [], max(time_left() - reserved, 0.0))[0]:
            piece = os.read(0, PIECE)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    except (OSError, ValueError):
        pass  # what has come may be a whole delivery, and the client's variables say as much
    return b"".join(pieces)


def _exit(number: int, frame: FrameType | None) -> None:
    os._exit(0)
