"""What responses cost, in words and as data: tokens, and money by the user's own prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.words import duration, join_names, plural, tokens_shown
from faber_ledger.files.text import one_line
from faber_ledger.projections.history import ABANDONED, SessionSummary
from faber_ledger.projections.usage import Usage, Used
from faber_ledger.runs.progress import FINISHED, PHASES
from faber_ledger.runs.settings import read_user_config

if TYPE_CHECKING:
    from faber_ledger.ledger.log import Log

MILLION = 1_000_000
LONGEST_PHASES = LONGEST_MODELS = 150
MOST_LOST = 2
NOT_SPLIT = "not split by phase"


def usage_data(usage: Usage) -> dict[str, Any] | None:
    """Return the sums of a run, of its phases and its models; None for no response."""
    if not usage.used.turns:
        return None
    phases = {phase or NOT_SPLIT: _data_of(one) for phase, one in usage.by("phase").items()}
    return {**_data_of(usage), "phases": phases, "models": {of: _data_of(one) for of, one in usage.by("model").items()}}


def _data_of(usage: Usage) -> dict[str, Any]:
    used = usage.used._asdict()
    used.pop("active_seconds")  # how long somebody was at work is shown to nobody else
    return {**used, "tokens": usage.used.tokens, "cost": cost_of(usage)}


def cost_of(usage: Usage) -> float | None:
    """Return what responses cost by the user's prices of a million tokens; None if a model has none.

    The price with the longest name that a model's name begins with is its own.
    """
    prices, cost = read_user_config()["prices"], 0.0
    for model, one in usage.by("model").items():
        name = max([name for name in prices if model.startswith(name)], key=len, default=None)
        if name is None:
            return None
        used, price = one.used, prices[name]
        counts = {"input": used.input_tokens, "cached": used.cached_tokens, "output": used.output_tokens}
        cost += sum([count * price.get(kind, 0) for kind, count in counts.items()]) / MILLION
    return round(cost, 4)


def _money(usage: Usage) -> str:
    """Return what responses cost in words, else which models have no price, if others have one."""
    if (cost := cost_of(usage)) is not None:
        return f"; {cost:,.2f} by your prices"
    models = usage.by("model")
    missing = [model for model, one in models.items() if cost_of(one) is None]
    return f"; no price for {one_line(', '.join(missing), LONGEST_MODELS)}" if len(missing) < len(models) else ""


def usage_line(
    usage: Usage, sessions: Iterable[SessionSummary] = (), *, has_money: bool = True, lacks_end: bool = False
) -> str | None:
    """Return what a run cost as one line, with its phases, and which of its `sessions` are not counted.

    None for no response. `lacks_end` is what `lacks_last_end` returns.
    """
    if not usage.used.turns:
        return None
    found = usage.by("phase")
    order = [*PHASES, None]
    named = sorted(found.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order))
    phases = [f"{phase or NOT_SPLIT} {tokens_shown(one.used.tokens)}" for phase, one in named]
    money = _money(usage) if has_money else ""
    in_phases = f": {one_line(', '.join(phases), LONGEST_PHASES)}" if set(found) != {None} else ""
    missing = join_names(list_not_counted(usage, list(sessions)))
    until = "; up to the commit that finished the run" if lacks_end else ""
    return f"{_words_of(usage.used)}{in_phases}{money}{until}{f'; not counted: {missing}' if missing else ''}"


def lacks_last_end(log: Log, writer: str | None, state: dict[str, Any]) -> bool:
    """Return whether a finished run's last session, of another clone, may have gone on: its end was only inferred."""
    start = log.last_start(before=None) if state.get("status") in FINISHED else None
    ends = [] if start is None or start["writer"] == writer else [dict(one["event"]) for one in log.ends_of(start)]
    return bool(ends) and all([one.get("inferred") is True and one.get("reason") != ABANDONED for one in ends])


def list_not_counted(usage: Usage, sessions: list[SessionSummary]) -> list[str]:
    """Return which sessions have uncounted tokens: the open one, and any that broke off on another machine.

    The clone of such a session counts it at its next start on the run.
    """
    counted = usage.by("session_id")
    lost = [
        f"a session that broke off on {one['hostname']}"
        for one, after in pairwise(sessions)
        if one["end_reason"] == ABANDONED and one["session_id"] not in counted
        if one["hostname"] not in (None, after["hostname"])
    ]
    is_open = any([not one["ended_at"] for one in sessions])
    return [*(["the open session"] if is_open else []), *lost[-MOST_LOST:]]


def _words_of(used: Used) -> str:
    parts = f"{tokens_shown(used.cached_tokens)} cached, {tokens_shown(used.output_tokens)} out"
    return f"{tokens_shown(used.tokens)} ({parts}) in {plural(used.turns, 'response')}"


def _weeks_of(usage: Usage) -> dict[str, Usage]:
    """Return the sums of each week, by the date of its Monday."""
    weeks: dict[str, Usage] = {}
    for day, one in usage.by("day").items():
        try:
            at = date.fromisoformat(day)
        except ValueError:
            continue
        weeks.setdefault((at - timedelta(days=at.weekday())).isoformat(), Usage()).add(one)
    return dict(sorted(weeks.items()))


def weeks_data(usage: Usage) -> dict[str, dict[str, Any]]:
    """Return the sums of each week, by the date of its Monday, with the seconds that somebody was at work."""
    weeks = _weeks_of(usage).items()
    return {monday: {**_data_of(one), "active_seconds": one.used.active_seconds} for monday, one in weeks}


def week_lines(usage: Usage) -> Iterator[str]:
    """Yield a line for each week: tokens, the time at work, and money."""
    for monday, one in _weeks_of(usage).items():
        cost = cost_of(one)
        money = "" if cost is None else f", {cost:,.2f} by your prices"
        used = f"{_words_of(one.used)}, {duration(one.used.active_seconds)} at work"
        yield f"this clone's part in the week of {monday}: {used}{money}"
