"""Record from a command where the clone's folder cannot be written, as in an agent's sandbox (DECISIONS 58).

The command decides its facts on a copy of the log in memory and leaves them in the project's own inbox. The next
recording that can write takes them.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress

from faber_ledger.ledger import clock
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.recording import inbox
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.sessions import View
from faber_ledger.runs.log import read_in_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.runs.run import Run


@contextmanager
def record_or_leave(run: Run, *, at: float, writer: str, warn: Callable[[str], None]) -> Iterator[Recording]:
    """Open a recording; where the clone's folder cannot be written, one that leaves its facts in the project.

    Raises what `Recording` raises; NotWritable where the project cannot be written either.
    """
    with ExitStack() as stack:
        try:
            recording = stack.enter_context(Recording(run, at=at, writer=writer, warn=warn))
        except NotWritable:
            recording = stack.enter_context(_Leaving(run, at=at, writer=writer, warn=warn))
        yield recording


class _Leaving(Recording):
    """A recording on a copy of the log, whose facts are left in the project."""

    def __enter__(self) -> _Leaving:
        self._read_state()
        self._log = read_in_memory(self.run, self.warn)
        self.view = View(self._log, self._known_blocks())
        for file in inbox.take(self.run):  # what waits has happened before, as the session that a load has opened
            with suppress(LedgerError, OSError, inbox.Malformed):
                self._record_found(file.read())
            file.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def append(self, drafts: list[Draft]) -> list[Recorded]:
        """Leave facts in the project's inbox; raises NotWritable."""
        ids = [clock.event_id(self.at, os.urandom(10)) for _ in drafts]
        facts: list[Draft] = [
            {"client": None, **draft, "id": name, "salt": os.urandom(16).hex()}
            for draft, name in zip(drafts, ids, strict=True)
        ]
        recorded = self.add(facts, at=self.at, writer=self.writer)
        try:
            file = inbox.put_in_tree(
                self.run,
                {"inbox": inbox.VERSION, "id": ids[0], "run_id": self.run.run_id, "at": self.at, "facts": facts},
            )
        except OSError as error:
            raise NotWritable(
                f"neither the clone nor the project can be written: {error.strerror or error}",
                hint="check the permissions of the project",
            ) from error
        file.close()
        self.warn(
            f"the git directory cannot be written: this waits in {self.run.shown(file.path)}, and the next recording"
            " that can write takes it"
        )
        return recorded

    def project(self) -> bool:
        """Write nothing."""
        return False
