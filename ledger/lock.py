"""One writer per run at a time: a blocking lock on a private file beside the run's log, with a deadline.

SQLite's own busy handler polls, and with 32 writers its slowest took 1 to 3 s; a blocking flock took 0.12 to 0.45 s.
Whoever may open the file may hold the lock, so only its owner may.
"""

from __future__ import annotations

import os
import time

from faber_ledger.ledger.clock import time_left
from faber_ledger.ledger.errors import Locked, NotWritable
from faber_ledger.ledger.whole_file import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

try:
    import fcntl
except ImportError:  # Windows: only SQLite's own lock is left, which polls
    fcntl = None  # type: ignore[assignment]  # None means below that there is no lock

LOCK_SECONDS = 10.0  # how long a command waits; hooks give up sooner


class RunLock:
    """Hold the lock file at `path`; raises Locked after `seconds`, or at a hook's deadline."""

    def __init__(self, path: str, seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self.seconds = seconds
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise NotWritable(
                f"cannot open the lock file {self.path}: {error.strerror}",
                hint="check that the folder exists and is writable",
            ) from error
        try:
            self._wait()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def _open(self) -> int:
        """Open the file and return its descriptor; raises OSError."""
        flags = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            descriptor = os.open(self.path, flags | os.O_CREAT, 0o600)
            make_private(descriptor, self.path)
            return descriptor

    def _wait(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not time_left(self.seconds):
                raise self._locked_error() from None
        import threading  # expensive, and only needed to wait

        if threading.current_thread() is threading.main_thread():
            self._wait_for_alarm()
        else:
            self._wait_by_polling()

    def _wait_for_alarm(self) -> None:
        import signal

        def ring(number: int, frame: FrameType | None) -> None:
            raise self._locked_error()

        start, handler = time.monotonic(), signal.signal(signal.SIGALRM, ring)
        due, _ = signal.setitimer(signal.ITIMER_REAL, max(time_left(self.seconds), 0.001))
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if due:  # a hook's own alarm
                signal.setitimer(signal.ITIMER_REAL, max(due - (time.monotonic() - start), 0.001))

    def _wait_by_polling(self) -> None:
        """Poll, where no alarm is available: only the main thread gets signals."""
        deadline = time.monotonic() + time_left(self.seconds)
        while time.monotonic() < deadline:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.01)
        raise self._locked_error()

    def _locked_error(self) -> Locked:
        return Locked(
            f"another process has held {self.path} for longer than the {self.seconds:g} seconds that this one waits",
            hint="wait for it to end, or find it with `fuser` and the path of the lock file",
        )
