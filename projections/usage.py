"""What the responses of a run cost, summed by session, phase, model, day and clone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from faber_ledger.ledger.event_types import USED, is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded

MOST = 10**15  # more than anybody takes: nobody's sum grows beyond what JSON holds
DAY = 10  # letters of a date


class Used(NamedTuple):
    """Numbers of tokens, of responses, and of seconds; `input_tokens` are those that no cache had."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    active_seconds: int = 0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.cached_tokens + self.output_tokens


class Of(NamedTuple):
    """What some responses belong to; `phase` is None if it changed in their session, and its time is not known."""

    session_id: str
    phase: str | None
    model: str
    day: str
    writer: str


class Usage:
    """The sums of what was noted."""

    def __init__(self, events: Iterable[Recorded] = ()) -> None:
        self._rows: dict[Of, Used] = {}
        for recorded in events:
            self.note(recorded)

    def note(self, recorded: Recorded) -> None:
        """Add an event; one of another type, without a payload or with an absurd number adds nothing."""
        event: dict[str, Any] = dict(recorded["event"])
        if event["type"] != "usage_recorded" or recorded.get("redacted") or not is_foldable(recorded):
            return
        values = [event[name] for name in USED]
        if min(values) < 0 or max(values) > MOST:
            return
        phase = event.get("in_phase")
        day = recorded["at"][:DAY]
        of = Of(event["session_id"], phase or None, event["model"], day, recorded["writer"])
        self._rows[of] = _sum([self._rows.get(of, Used()), Used(*values)])

    def add(self, other: Usage) -> None:
        """Add the sums of another run."""
        for of, used in other._rows.items():
            self._rows[of] = _sum([self._rows.get(of, Used()), used])

    @property
    def used(self) -> Used:
        """The sum of all."""
        return _sum(self._rows.values())

    def by(self, name: str) -> dict[Any, Usage]:
        """Return the sums for each value of a field of `Of`, in the order in which they came."""
        found: dict[Any, Usage] = {}
        for of, used in self._rows.items():
            found.setdefault(getattr(of, name), Usage())._rows[of] = used
        return found


def _sum(numbers: Iterable[Used]) -> Used:
    return Used(*map(sum, zip(Used(), *numbers, strict=True)))
