"""Where a moment is on a timeline: time to scale, long pauses folded, a place of its own for every start and end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING

from faber_ledger.ledger.clock import utc_text

if TYPE_CHECKING:
    from faber_ledger.projections.timeline_shapes import Moment, Timeline


STEP, STEPS = 64.0, 0.45  # the width of each start or end, and the share of the whole that all of them may take
FOLD, FOLDS = 40.0, 0.25  # a folded pause's width, and the share of all pauses
SECOND = 6.0  # the largest width of a second: times are whole seconds
TICK = 74.0  # the smallest distance between two labels


class Scale:
    """Places moments between `left` and `left + width`."""

    def __init__(self, timeline: Timeline, left: float, width: float) -> None:
        self.left, self.width = left, width
        self.pauses = timeline["pauses"]
        self.steps = sorted({moment for bar in timeline["bars"] for moment in (bar["start"], bar["end"])})
        moments = [*([timeline["first"]] if timeline["first"] else []), *self.steps]
        self.begin = min(moments, default=(0.0, 0))
        self.end = max(moments, default=(0.0, 0))
        gaps = max(1, len(self.steps) - 1)
        self.fold = min(FOLD, FOLDS * width / max(1, len(self.pauses)))
        folds = self.fold * len(self.pauses)
        self.before = [0.0]  # how much time the pauses before each one took
        for start, end in self.pauses:
            self.before.append(self.before[-1] + end - start)
        span = self.end[0] - self.begin[0] - self.before[-1]
        step = min(STEP, STEPS * width / gaps)
        self.second = min(SECOND, (width - folds - step * gaps) / span) if span > 0 else 0.0
        self.step = (width - folds - self.second * span) / gaps

    def x(self, moment: Moment) -> float:
        """Return the horizontal position of a moment."""
        seconds = min(max(moment[0], self.begin[0]), self.end[0])
        steps = max(0, bisect_right(self.steps, moment) - 1)
        over = bisect_right(self.pauses, seconds, key=lambda pause: pause[1])
        flat = self.before[over]
        if over < len(self.pauses) and self.pauses[over][0] < seconds:
            flat += seconds - self.pauses[over][0]
        place = steps * self.step + over * self.fold + (seconds - self.begin[0] - flat) * self.second
        return self.left + min(place, self.width)

    def folds(self) -> Iterator[tuple[float, float, float]]:
        """Yield each folded pause: where it begins and ends, and how many seconds it lasted."""
        for start, end in self.pauses:
            edge = self.x((start, inf))  # type: ignore[arg-type]  # after everything of that second
            yield edge, edge + self.fold, end - start

    def ticks(self) -> Iterator[tuple[float, bool, str, str]]:
        """Yield the axis labels: position, whether the label ends there, the date if it is a new one, and the time."""
        shows_seconds = self.end[0] - self.begin[0] - self.before[-1] < 1800
        reached, day, shown = -inf, "", ""
        for moment in self.steps:
            place = self.x(moment)
            text = utc_text(moment[0])
            time = text[11:19] if shows_seconds else text[11:16]
            is_last = place > self.left + self.width - TICK + 16
            if place - reached < TICK * (1 + is_last) or (day == text[:10] and time == shown):
                continue
            yield place, is_last, text[:10] if text[:10] != day else "", time
            reached, day, shown = place, text[:10], time


def merge_narrow(places: Iterable[tuple[float, float]], least: float) -> Iterator[tuple[float, float, int, int]]:
    """Join neighbours too narrow to be seen separately; yields left, right, and the first and last one's index.

    The places must be ordered by their left edges.
    """
    group: tuple[float, float, int, int] | None = None
    for index, (left, edge) in enumerate(places):
        right = max(edge, left + least)
        if group is not None and left - group[0] < least:
            group = (group[0], max(group[1], right), group[2], index)
            continue
        if group is not None:
            yield group
        group = (left, right, index, index)
    if group is not None:
        yield group


def assign_levels(spans: Iterable[tuple[Moment, Moment]], max_levels: int) -> list[int]:
    """Return a level for each span where it overlaps no earlier one, if `max_levels` suffice; starts are in order."""
    reached: list[Moment] = []
    levels = []
    for start, end in spans:
        level = next((level for level, before in enumerate(reached) if before <= start), len(reached))
        level = min(level, max_levels - 1)
        reached[level : level + 1] = [max(end, *reached[level : level + 1], start)]
        levels.append(level)
    return levels
