"""The timeline's chart as SVG: one lane a machine and an artifact, and labels that fit."""

import html
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from math import inf, log1p

from faber_ledger.cli.ui.words import duration, ran_words
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import utc_text
from faber_ledger.projections.history import ABANDONED, agent_shown
from faber_ledger.projections.timeline import Bar, Lane, Moment, Span, Timeline

GUTTER, MARGIN = 172, 14
LENGTH = 1200 - GUTTER - MARGIN  # of the axis, or more where many sessions need it
AXIS, GAP = 54, 16
PHASE, SESSION, ARTIFACT, LEVEL = 28, 30, 20, 13
MIN_BAR = 6.0  # the narrowest bar that can still be seen and clicked
MAX_LEVELS = 4  # of bars of one lane that are drawn one above the other
MAX_LANES = 24  # of a kind; the table has the events of all
LETTER = 6.7  # a letter's width, roughly
WIDTH_OF_LETTER = 0.64  # on average, of a lane's name, in multiples of the font's size
TICK = 74.0  # the smallest distance between two labels
REASONS = ("normal", "manual", "compaction", "abandoned")


def markup(text: object) -> str:
    """Escape a text for HTML, in content and in quotes; control and direction characters are made visible."""
    return html.escape(escape(str(text)), quote=True)


class Chart:
    """The chart of one run; its bars link to the table's rows."""

    def __init__(self, timeline: Timeline, address_of: Callable[[int], str] = "#e{}".format) -> None:
        """Take a timeline, and what returns the address of the row of an event's number."""
        self.timeline = timeline
        self.scale = Scale(timeline)
        self._address_of = address_of
        self.rows = [row["number"] for row in timeline["rows"]]
        self.height = 0.0

    def svg(self) -> str:
        """Return the chart."""
        self.height = AXIS
        body = [*self._phases(), *self._machines(), *self._artifacts()]
        width, label = f"{self.scale.width:.0f}", markup(f"Timeline of the run {self.timeline['run_id']}")
        size = f'viewBox="0 0 {width} {self.height + 8:g}" width="{self.scale.width * 0.72:.0f}"'
        svg = f'<svg {size} role="group" aria-label="{label}">'
        return "\n".join([svg, *self._axis(), *self._compactions(), *body, "</svg>"])

    # Behind the bars

    def _axis(self) -> Iterator[str]:
        for place, is_last, date, time in self.scale.ticks():
            anchor = ' text-anchor="end"' if is_last else ""
            day = f'<text x="{place:.1f}" y="14" class="day"{anchor}>{date}</text>' if date else ""
            yield (
                f'<path class="tick" d="M{place:.1f} 34V{self.height:g}"/>{day}'
                f'<text x="{place:.1f}" y="29" class="time"{anchor}>{time}</text>'
            )

    def _compactions(self) -> Iterator[str]:
        for bar in self.timeline["bars"]:
            if bar["session"]["end_reason"] == "compaction":
                line = f'<path class="compaction" d="M{self.scale.x(bar["end"]):.1f} {AXIS - 2}V{self.height:g}"/>'
                yield self._link(bar["end_row"], f"compaction at {_time(bar['end'])}", line)

    # The lanes

    def _phases(self) -> Iterator[str]:
        stretches = self.timeline["phases"]
        if not stretches:
            return
        names = list(dict.fromkeys(name for stretch in stretches for name in stretch["phases"]))
        yield self._open("Phases", "phases", "phases")
        for stretch in stretches:
            first, *others = stretch["phases"]
            bar = f'class="bar p{names.index(first) % 6}"'
            title = f"{', then '.join(stretch['phases'])}: {_times(stretch['start'], stretch['end'])}"
            texts = (" → ".join(stretch["phases"]), f"{first} → …" if others else first)
            drawn = self._bar(bar, stretch["start"], stretch["end"], PHASE - 6, texts)
            yield self._link(stretch["row"], title, drawn)
        yield "</g>"
        self.height += PHASE + GAP

    def _machines(self) -> Iterator[str]:
        lanes: dict[str, list[Bar]] = {}
        for bar in self.timeline["bars"]:
            lanes.setdefault(bar["machine"], []).append(bar)
        for machine in list(lanes)[:MAX_LANES]:
            bars = sorted(lanes[machine], key=lambda bar: bar["start"])
            levels = assign_levels([(bar["start"], bar["end"]) for bar in bars])
            yield self._open(f"Sessions on {machine}", machine, "machine")
            for level in range(max(levels) + 1):
                yield from [self._session(bar) for bar, at in zip(bars, levels, strict=True) if at == level]
                self.height += SESSION
            yield "</g>"
        self.height += GAP

    def _session(self, bar: Bar) -> str:
        one = bar["session"]
        reason = "open" if bar["is_open"] else one["end_reason"] or "ended"
        kind = reason if reason in (*REASONS, "open") else "normal"
        name = one["session_id"].rpartition("-")[2] or one["session_id"]
        drawn = self._bar(f'class="bar {kind}"', bar["start"], bar["end"], SESSION - 6, (f"{name} · {reason}", name))
        return self._link(bar["row"] or bar["end_row"], _session_title(bar), drawn)

    def _artifacts(self) -> Iterator[str]:
        for lane in self.timeline["lanes"][:MAX_LANES]:
            yield self._open(f"Context: {lane['artifact_id']}", lane["artifact_id"], "artifact")
            spans = sorted(lane["spans"], key=lambda span: span["start"])
            levels = assign_levels([(span["start"], span["end"]) for span in spans])
            for span, level in zip(spans, levels, strict=True):
                drawn = self._bar('class="bar load"', span["start"], span["end"], 11, (), down=3 + LEVEL * level)
                yield self._link(span["row"], _span_title(lane, span), drawn)
            for failure in lane["failures"]:
                title = f"{lane['artifact_id']} could not be loaded: {failure['error']}"
                cross = f"M{self.scale.x(failure['at']):.1f} {self.height + 4:g}l9 9m0 -9l-9 9"
                yield self._link(failure["row"], title, f'<path class="failed" d="{cross}"/>')
            yield "</g>"
            self.height += ARTIFACT + LEVEL * max(levels, default=0)

    # Their parts

    def _bar(self, kind: str, start: Moment, end: Moment, height: int, texts: tuple[str, ...], *, down: int = 0) -> str:
        """Return a bar, with the first of the texts that fits into it."""
        left = self.scale.x(start)
        width = max(MIN_BAR, self.scale.x(end) - left) - 1
        top = self.height + down
        text = next((text for text in texts if len(text) * LETTER + 14 <= width), "")
        label = f'<text class="on" x="{left + 7:.1f}" y="{top + 16:g}">{markup(text)}</text>' if text else ""
        return f'<rect {kind} x="{left:.1f}" y="{top:g}" width="{width:.1f}" height="{height}" rx="3"/>{label}'

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
        return f'<a href="{self._address_of(self.rows[max(0, place - 1)])}">{shown}</a>'


def _span_title(lane: Lane, span: Span) -> str:
    size = f", {span['size_bytes']:,} bytes" if span["size_bytes"] is not None else ""
    times = _times(span["start"], span["end"])
    return f"{lane['artifact_id']} in context, {times}, from {span['source'] or 'an unknown place'}{size}"


def _session_title(bar: Bar) -> str:
    one = bar["session"]
    length = duration(bar["end"][0] - bar["start"][0]) if bar["is_open"] else ran_words(one)
    end = "still open" if bar["is_open"] else f"ended {_time(bar['end'])} ({one['end_reason'] or 'unknown'})"
    if one["end_reason"] == ABANDONED:
        end = f"its end never came, last heard of {_time(bar['end'])}"
    done = f"; completed {', '.join(one['newly_completed'])}" if one["newly_completed"] else ""
    loaded = f"; loaded {', '.join(one['artifacts_loaded'])}" if one["artifacts_loaded"] else ""
    by = f" by {agent_shown(one['agent'], one['agent_version'])}" if one["agent"] else ""
    return f"{one['session_id']}{by} on {bar['machine']}: started {_time(bar['start'])}, {end}, {length}{done}{loaded}"


def _times(start: Moment, end: Moment) -> str:
    return f"{_time(start)} to {_time(end)}"


def _time(moment: Moment) -> str:
    text = utc_text(moment[0])
    return f"{text[:10]} {text[11:19]}"


def shorten(name: str, most: int) -> str:
    """Return a name of at most `most` letters, without its middle if it is longer."""
    text = escape(name)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"


class Scale:
    """Places moments between the gutter and the margin.

    The room between two starts or ends of sessions grows with the logarithm of the time between them: a night without a
    session leaves room for minutes of work.
    """

    def __init__(self, timeline: Timeline) -> None:
        edges = {moment for bar in timeline["bars"] for moment in (bar["start"], bar["end"])}
        self.edges = sorted(edges | ({timeline["first"]} if timeline["first"] else set()))
        shares = [1 + log1p(after[0] - before[0]) / 3 for before, after in pairwise(self.edges)]
        unit = max(LENGTH / max(sum(shares), 1), MIN_BAR)
        self.places = [*accumulate([share * unit for share in shares], initial=float(GUTTER))]
        self.width = max(self.places[-1], GUTTER + LENGTH) + MARGIN

    def x(self, moment: Moment) -> float:
        """Return the horizontal position of a moment."""
        at = bisect_right(self.edges, moment) - 1
        if at < 0 or at + 1 >= len(self.edges):
            return self.places[max(at, 0)]
        begin, end = self.edges[at][0], self.edges[at + 1][0]
        share = (moment[0] - begin) / (end - begin) if end > begin else 0.0
        return self.places[at] + share * (self.places[at + 1] - self.places[at])

    def ticks(self) -> Iterator[tuple[float, bool, str, str]]:
        """Yield the axis labels: position, whether the label ends there, the date if it is a new one, and the time."""
        reached, day, shown = -inf, "", ""
        for moment, place in zip(self.edges, self.places, strict=True):
            text = utc_text(moment[0])
            is_last = place > self.width - MARGIN - TICK + 16
            if place - reached < TICK * (1 + is_last) or text[:19] == shown:
                continue
            yield place, is_last, text[:10] if text[:10] != day else "", text[11:19]
            reached, day, shown = place, text[:10], text[:19]


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
