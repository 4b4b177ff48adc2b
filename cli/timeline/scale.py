"""Where a moment stands on a timeline: time to scale, long pauses folded, no two telling moments in one place."""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import TYPE_CHECKING

from faber_ledger.ledger.clock import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from faber_ledger.projections.timeline_shapes import Moment, Timeline


STEP, STEPS = 64.0, 0.45  # a telling moment's own width, and the share of the whole that all of them may take
FOLD, FOLDS = 40.0, 0.25  # a folded pause's width, and the share of all pauses
SECOND = 6.0  # the most that a second takes: times are whole seconds
TICK = 74.0  # the least distance of two labels


class Scale:
    """Places moments between `left` and `left + width`."""

    def __init__(self, told: Timeline, left: float, width: float) -> None:
        self.left, self.width = left, width
        self.pauses = told["pauses"]
        self.steps = sorted({moment for bar in told["bars"] for moment in (bar["start"], bar["end"])})
        moments = [*([told["first"]] if told["first"] else []), *self.steps]
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
        """Give the place of a moment."""
        seconds = min(max(moment[0], self.begin[0]), self.end[0])
        steps = max(0, bisect_right(self.steps, moment) - 1)
        over = bisect_right(self.pauses, seconds, key=lambda pause: pause[1])
        flat = self.before[over]
        if over < len(self.pauses) and self.pauses[over][0] < seconds:
            flat += seconds - self.pauses[over][0]
        place = steps * self.step + over * self.fold + (seconds - self.begin[0] - flat) * self.second
        return self.left + min(place, self.width)

    def folds(self) -> Iterator[tuple[float, float, float]]:
        """Give each folded pause: where it begins and ends, and how many seconds it lasted."""
        for start, end in self.pauses:
            edge = self.x((start, inf))  # type: ignore[arg-type]  # after everything of that second
            yield edge, edge + self.fold, end - start

    def ticks(self) -> Iterator[tuple[float, bool, str, str]]:
        """Give labels for the axis: place, whether it ends there, date where it is a new one, and time."""
        seconds_told = self.end[0] - self.begin[0] - self.before[-1] < 1800
        reached, day, shown = -inf, "", ""
        for moment in self.steps:
            place = self.x(moment)
            text = utc_text(moment[0])
            time = text[11:19] if seconds_told else text[11:16]
            is_last = place > self.left + self.width - TICK + 16
            if place - reached < TICK * (1 + is_last) or (day == text[:10] and time == shown):
                continue
            yield place, is_last, text[:10] if text[:10] != day else "", time
            reached, day, shown = place, text[:10], time


def merged(places: Iterable[tuple[float, float]], least: float) -> Iterator[tuple[float, float, int, int]]:
    """Join neighbours that would be narrower than can be seen: left, right, and the first and last one's index.

    The places come with their left edges in order.
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


def stacked(spans: Iterable[tuple[Moment, Moment]], most: int) -> list[int]:
    """Give each span a level, of at most `most`, on which it covers none before it; their starts come in order."""
    reached: list[Moment] = []
    levels = []
    for start, end in spans:
        level = next((level for level, before in enumerate(reached) if before <= start), len(reached))
        level = min(level, most - 1)
        reached[level : level + 1] = [max(end, *reached[level : level + 1], start)]
        levels.append(level)
    return levels
