"""One writer per run at a time: a blocking lock on a file beside the ledger, with a deadline.

SQLite's own busy handler polls, and with 32 writers its slowest took 1 to 3 s; a blocking flock took 0.12 to 0.45 s.
"""

from __future__ import annotations

import os
import time

from faber_ledger.ledger.errors import Locked, NotWritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

try:
    import fcntl
except ImportError:  # Windows: only SQLite's own lock is left, which polls
    fcntl = None  # type: ignore[assignment]  # None means below that there is no lock

LOCK_SECONDS = 10.0  # how long a command waits; hooks give up sooner


class RunLock:
    """Hold the lock file at `path`; raises Locked after `seconds`.

    With `gives_up`, also as soon as the process gets a signal to end, so that a hook can still spool its delivery.
    """

    def __init__(self, path: str, seconds: float = LOCK_SECONDS, *, gives_up: bool = False) -> None:
        self.path = path
        self.seconds = seconds
        self.gives_up = gives_up
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            self._descriptor = os.open(self.path, flags, 0o666)
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

    def _wait(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        import threading  # expensive, and only needed to wait

        if threading.current_thread() is threading.main_thread():
            self._wait_for_alarm()
        else:
            self._wait_by_polling()

    def _wait_for_alarm(self) -> None:
        import signal

        def ring(number: int, frame: FrameType | None) -> None:
            raise self._locked_error()

        ends = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP] if self.gives_up else []
        ends = [number for number in ends if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores one
        before = [(number, signal.signal(number, ring)) for number in (signal.SIGALRM, *ends)]
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before:
                signal.signal(number, handler)

    def _wait_by_polling(self) -> None:
        """Poll, where no alarm is available: only the main thread gets signals."""
        deadline = time.monotonic() + self.seconds
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
