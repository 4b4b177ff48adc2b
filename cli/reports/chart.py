"""The timeline's chart as SVG: time to scale, long pauses folded, and labels that fit."""

import html
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import inf

from faber_ledger.cli.ui.words import duration
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import utc_text
from faber_ledger.projections.history import agent_shown
from faber_ledger.projections.timeline import Bar, Lane, Moment, Span, Timeline

WIDTH, GUTTER, MARGIN = 1200, 172, 14
LENGTH = WIDTH - GUTTER - MARGIN  # of the axis
AXIS, GAP = 54, 16
PHASE, SESSION, ARTIFACT = 28, 30, 20
MIN_BAR = 6.0  # the narrowest bar that can still be seen and clicked
MAX_LEVELS = 4  # of sessions drawn one above the other on one machine
MIN_PAUSE = 1.5  # the narrowest pause that is drawn
MAX_LANES = 24  # of a kind; the table has the events of all
LETTER = 6.7  # a letter's width, roughly
WIDTH_OF_LETTER = 0.64  # on average, of a lane's name, in multiples of the font's size
REASONS = ("normal", "manual", "compaction", "abandoned")


def markup(text: object) -> str:
    """Escape a text for HTML, in content and in quotes; control and direction characters are made visible."""
    return html.escape(escape(str(text)), quote=True)


class Chart:
    """The chart of one run; its bars link to the table's rows."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.scale = Scale(timeline)
        self.rows = [row["number"] for row in timeline["rows"]]
        self.height = 0.0
        self.colours: dict[str, int] = {}

    def svg(self) -> str:
        """Return the chart."""
        self.height = AXIS
        body = [*self._phases(), *self._machines(), *self._artifacts()]
        compactions = [*self._compactions()]
        behind = [*self._axis(), *self._pauses()]
        label = markup(f"Timeline of the run {self.timeline['run_id']}")
        return "\n".join(
            [
                f'<svg viewBox="0 0 {WIDTH} {self.height + 8:g}" role="group" aria-label="{label}">',
                *behind,
                *compactions,
                *body,
                "</svg>",
            ]
        )

    # Behind the bars

    def _axis(self) -> Iterator[str]:
        bottom = self.height
        for place, is_last, date, time in self.scale.ticks():
            anchor = ' text-anchor="end"' if is_last else ""
            day = f'<text x="{place:.1f}" y="14" class="day"{anchor}>{date}</text>' if date else ""
            yield (
                f'<path class="tick" d="M{place:.1f} 34V{bottom:g}"/>{day}'
                f'<text x="{place:.1f}" y="29" class="time"{anchor}>{time}</text>'
            )

    def _pauses(self) -> Iterator[str]:
        for left, right, seconds in self.scale.folds() if self.scale.fold >= MIN_PAUSE else ():
            title = markup(f"pause of {duration(seconds)}, folded: no session was open")
            count, unit = duration(seconds).split()[:2]
            short = f"{count} {unit[0]}"
            text = ""
            if right - left > 3.4 * len(short) + 6:
                middle = (left + right) / 2
                text = f'<text x="{middle:.1f}" y="{self.height + 12:g}" class="fold">{short}</text>'
            yield (
                f'<g role="img" aria-label="{title}"><title>{title}</title><rect class="pause" x="{left + 2:.1f}" '
                f'y="{AXIS - 8}" width="{max(1.0, right - left - 4):.1f}" height="{self.height - AXIS:g}"/>{text}</g>'
            )
        if self.timeline["pauses"]:
            self.height += 16

    # The lanes

    def _phases(self) -> Iterator[str]:
        stretches = self.timeline["phases"]
        if not stretches:
            return
        for name in [name for stretch in stretches for name in stretch["phases"]]:
            self.colours.setdefault(name, len(self.colours) % 6)
        top = self.height
        yield self._open("Phases", "phases", "phases")
        places = [(self.scale.x(stretch["start"]), self.scale.x(stretch["end"])) for stretch in stretches]
        for left, right, first, last in merge_narrow(places):
            names = list(dict.fromkeys(name for one in stretches[first : last + 1] for name in one["phases"]))
            fill = f'style="fill:var(--p{self.colours[names[0]]})"'
            title = f"{', then '.join(names)}: {_times(stretches[first]['start'], stretches[last]['end'])}"
            text = _fitting(right - left, " → ".join(names), f"{names[0]} → …" if names[1:] else names[0])
            yield self._link(
                stretches[first]["row"],
                title,
                f'<rect class="bar" x="{left:.1f}" y="{top:g}" width="{right - left:.1f}" height="{PHASE - 6}" rx="3" '
                f"{fill}/>{_label(left, top + 16, text)}",
            )
        yield "</g>"
        self.height += PHASE + GAP

    def _machines(self) -> Iterator[str]:
        lanes: dict[str, list[Bar]] = {}
        for bar in self.timeline["bars"]:
            lanes.setdefault(bar["machine"], []).append(bar)
        for machine in list(lanes)[:MAX_LANES]:
            bars = sorted(lanes[machine], key=lambda bar: bar["start"])
            places = [self._place(bar) for bar in bars]
            levels = assign_levels([(bar["start"], bar["end"]) for bar in bars])
            yield self._open(f"Sessions on {machine}", machine, "machine")
            for level in range(max(levels) + 1):
                chosen = [index for index, at in enumerate(levels) if at == level]
                for left, right, first, last in merge_narrow([places[index] for index in chosen]):
                    yield self._session(left, right, [bars[index] for index in chosen[first : last + 1]])
                self.height += SESSION
            yield "</g>"
        self.height += GAP

    def _session(self, left: float, right: float, bars: list[Bar]) -> str:
        top, height = self.height, SESSION - 6
        shape = f'x="{left:.1f}" y="{top:g}" width="{right - left - 0.8:.1f}" height="{height}" rx="4"'
        if len(bars) > 1:
            title = f"{len(bars)} sessions, {_times(bars[0]['start'], bars[-1]['end'])}"
            text = _fitting(right - left, f"{len(bars)} sessions", f"{len(bars)}")
            return self._link(bars[0]["row"], title, f'<rect class="bar many" {shape}/>{_label(left, top + 16, text)}')
        bar = bars[0]
        one = bar["session"]
        reason = "open" if bar["is_open"] else one["end_reason"] or "ended"
        kind = reason if reason in (*REASONS, "open") else "normal"
        name = one["session_id"].rpartition("-")[2] or one["session_id"]
        text = _fitting(right - left, f"{name} · {reason}", name)
        return self._link(
            bar["row"] or bar["end_row"],
            _session_title(bar),
            f'<rect class="bar {kind}" {shape}/>{_label(left, top + 16, text)}',
        )

    def _artifacts(self) -> Iterator[str]:
        lanes = self.timeline["lanes"]
        for lane in lanes[:MAX_LANES]:
            top = self.height
            yield self._open(f"Context: {lane['artifact_id']}", lane["artifact_id"], "artifact")
            spans = lane["spans"]
            places = [(self.scale.x(span["start"]), self.scale.x(span["end"])) for span in spans]
            for left, right, first, last in merge_narrow(places):
                width = max(MIN_BAR - 1, right - left - 1)
                drawn = (
                    f'<rect class="bar load" x="{left:.1f}" y="{top + 3:g}" width="{width:.1f}" height="11" rx="3"/>'
                )
                yield self._link(spans[first]["row"], self._span_title(lane, spans[first : last + 1]), drawn)
            yield from self._failures(lane, top)
            yield "</g>"
            self.height += ARTIFACT

    def _failures(self, lane: Lane, top: float) -> Iterator[str]:
        failures = lane["failures"]
        places = [(place := self.scale.x(failure["at"]), place) for failure in failures]
        for left, _, first, last in merge_narrow(places):
            title = f"{lane['artifact_id']} could not be loaded: {failures[first]['error']}"
            more = f" (and {last - first} more)" if last > first else ""
            cross = f"M{left:.1f} {top + 4:g}l9 9m0 -9l-9 9"
            yield self._link(failures[first]["row"], title + more, f'<path class="failed" d="{cross}"/>')

    def _compactions(self) -> Iterator[str]:
        compactions = self.timeline["compactions"]
        places = [(place := self.scale.x(one["at"]), place) for one in compactions]
        for left, _, first, last in merge_narrow(places):
            one = compactions[first]
            count = last - first + 1
            title = f"compaction at {_time(one['at'])}" + (f", in {one['where']}" if one["where"] else "")
            line = f'<path class="compaction" d="M{left:.1f} {AXIS - 2}V{self.height:g}"/>'
            yield self._link(one["row"], title if count == 1 else f"{count} compactions from {title}", line)

    # Their parts

    def _place(self, bar: Bar) -> tuple[float, float]:
        left = self.scale.x(bar["start"])
        right = float(WIDTH - MARGIN) if bar["is_open"] else self.scale.x(bar["end"])
        return left, max(right, left + MIN_BAR)

    def _open(self, label: str, name: str, kind: str) -> str:
        middle, size = (13, 11) if kind == "artifact" else (16, 12)
        shown = shorten(name, int((GUTTER - 16) / (size * WIDTH_OF_LETTER)))
        return (
            f'<g role="group" aria-label="{markup(label)}"><text class="lane {kind}" x="{GUTTER - 12}" '
            f'y="{self.height + middle:g}"><title>{markup(name)}</title>{html.escape(shown)}</text>'
        )

    def _link(self, row: int | None, title: str, drawn: str) -> str:
        """Return what is drawn as a link to an event's row, or to the last row before it."""
        shown = f"<title>{markup(title)}</title>{drawn}"
        place = bisect_right(self.rows, row or 0)
        if not self.rows:
            return f"<g>{shown}</g>"
        return f'<a href="#e{self.rows[max(0, place - 1)]}">{shown}</a>'

    def _span_title(self, lane: Lane, spans: list[Span]) -> str:
        first, count = spans[0], len(spans)
        title = f"{lane['artifact_id']} in context, {_times(first['start'], spans[-1]['end'])}"
        if count > 1:
            return f"{title}, {count} loads"
        size = f", {first['size_bytes']:,} bytes" if first["size_bytes"] is not None else ""
        return f"{title}, from {first['source'] or 'an unknown place'}{size}"


def _session_title(bar: Bar) -> str:
    one = bar["session"]
    length = duration(bar["end"][0] - bar["start"][0])
    end = "still open" if bar["is_open"] else f"ended {_time(bar['end'])} ({one['end_reason'] or 'unknown'})"
    done = f"; completed {', '.join(one['newly_completed'])}" if one["newly_completed"] else ""
    loaded = f"; loaded {', '.join(one['artifacts_loaded'])}" if one["artifacts_loaded"] else ""
    by = f" by {agent_shown(one['agent'], one['agent_version'])}" if one["agent"] else ""
    return f"{one['session_id']}{by} on {bar['machine']}: started {_time(bar['start'])}, {end}, {length}{done}{loaded}"


def _times(start: Moment, end: Moment) -> str:
    return f"{_time(start)} to {_time(end)}"


def _time(moment: Moment) -> str:
    text = utc_text(moment[0])
    return f"{text[:10]} {text[11:19]}"


def _fitting(width: float, *texts: str) -> str:
    """Return the first text that fits, or an empty one."""
    return next((text for text in texts if len(text) * LETTER + 14 <= width), "")


def _label(left: float, bottom: float, text: str) -> str:
    return f'<text class="on" x="{left + 7:.1f}" y="{bottom:g}">{markup(text)}</text>' if text else ""


def shorten(name: str, most: int) -> str:
    """Return a name of at most `most` letters, without its middle if it is longer."""
    text = escape(name)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"


STEP, STEPS = 64.0, 0.45  # the width of each start or end, and the share of the whole that all of them may take
FOLD, FOLDS = 40.0, 0.25  # a folded pause's width, and the share of all pauses
SECOND = 6.0  # the largest width of a second: times are whole seconds
TICK = 74.0  # the smallest distance between two labels


class Scale:
    """Places moments between the gutter and the margin."""

    def __init__(self, timeline: Timeline) -> None:
        self.pauses = timeline["pauses"]
        self.steps = sorted({moment for bar in timeline["bars"] for moment in (bar["start"], bar["end"])})
        moments = [*([timeline["first"]] if timeline["first"] else []), *self.steps]
        self.begin = min(moments, default=(0.0, 0))
        self.end = max(moments, default=(0.0, 0))
        gaps = max(1, len(self.steps) - 1)
        self.fold = min(FOLD, FOLDS * LENGTH / max(1, len(self.pauses)))
        folds = self.fold * len(self.pauses)
        self.before = [0.0]  # how much time the pauses before each one took
        for start, end in self.pauses:
            self.before.append(self.before[-1] + end - start)
        span = self.end[0] - self.begin[0] - self.before[-1]
        step = min(STEP, STEPS * LENGTH / gaps)
        self.second = min(SECOND, (LENGTH - folds - step * gaps) / span) if span > 0 else 0.0
        self.step = (LENGTH - folds - self.second * span) / gaps

    def x(self, moment: Moment) -> float:
        """Return the horizontal position of a moment."""
        seconds = min(max(moment[0], self.begin[0]), self.end[0])
        steps = max(0, bisect_right(self.steps, moment) - 1)
        over = bisect_right(self.pauses, seconds, key=lambda pause: pause[1])
        flat = self.before[over]
        if over < len(self.pauses) and self.pauses[over][0] < seconds:
            flat += seconds - self.pauses[over][0]
        place = steps * self.step + over * self.fold + (seconds - self.begin[0] - flat) * self.second
        return GUTTER + min(place, LENGTH)

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
            is_last = place > WIDTH - MARGIN - TICK + 16
            if place - reached < TICK * (1 + is_last) or (day == text[:10] and time == shown):
                continue
            yield place, is_last, text[:10] if text[:10] != day else "", time
            reached, day, shown = place, text[:10], time


def merge_narrow(places: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float, int, int]]:
    """Join neighbours too narrow to be seen separately; yields left, right, and the first and last one's index.

    The places must be ordered by their left edges.
    """
    group: tuple[float, float, int, int] | None = None
    for index, (left, edge) in enumerate(places):
        right = max(edge, left + MIN_BAR)
        if group is not None and left - group[0] < MIN_BAR:
            group = (group[0], max(group[1], right), group[2], index)
            continue
        if group is not None:
            yield group
        group = (left, right, index, index)
    if group is not None:
        yield group


def assign_levels(spans: Iterable[tuple[Moment, Moment]]) -> list[int]:
    """Return a level for each span where it overlaps no earlier one, if `MAX_LEVELS` suffice; starts are in order."""
    reached: list[Moment] = []
    levels = []
    for start, end in spans:
        level = next((level for level, before in enumerate(reached) if before <= start), len(reached))
        level = min(level, MAX_LEVELS - 1)
        reached[level : level + 1] = [max(end, *reached[level : level + 1], start)]
        levels.append(level)
    return levels
