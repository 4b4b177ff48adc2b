"""Draw a chart as SVG: lines over a logarithmic axis."""

from __future__ import annotations

import math
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 640, 320, 64, 40, 48, 180
COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7c3aed", "#be123c")


def chart(title: str, across: str, up: str, lines: Mapping[str, Points], *, log_up: bool = False) -> str:
    """Return a chart of named lines of (x, y) points above zero; y is logarithmic with `log_up`."""
    xs = [math.log10(x) for points in lines.values() for x, _ in points]
    ys = [_height(y, log_up) for points in lines.values() for _, y in points]
    low, high = (math.floor(min(ys)), math.ceil(max(ys))) if log_up else (0.0, max(ys) * 1.1)

    def place(x: float, y: float) -> tuple[float, float]:
        wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        right = (math.log10(x) - min(xs)) / ((max(xs) - min(xs)) or 1)
        return LEFT + wide * right, TOP + tall * (1 - (_height(y, log_up) - low) / ((high - low) or 1))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif"'
        f' font-size="11"><title>{escape(title)}</title><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 10}">{escape(across)}</text>',
        f'<text x="8" y="{TOP - 8}">{escape(up)}</text>',
    ]
    bottom = HEIGHT - BOTTOM
    for power in range(math.ceil(min(xs)), math.floor(max(xs)) + 1):
        x, _ = place(10.0**power, 10.0**low if log_up else low)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10**power:,}</text>')
    for value in _marks(low, high, log_up):
        _, y = place(10 ** min(xs), value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 16 * number + 8}" fill="{colour}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _height(y: float, log_up: bool) -> float:
    return math.log10(y) if log_up else y


def _marks(low: float, high: float, log_up: bool) -> list[float]:
    if log_up:
        return [10.0**power for power in range(int(low), int(high) + 1)]
    step = 10 ** math.floor(math.log10(high or 1)) / (1 if high / 10 ** math.floor(math.log10(high or 1)) > 4 else 2)
    return [step * number for number in range(int(high / step) + 1)]
