"""Sessions in words: what each newly completed and loaded, and how long it ran."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.texts import duration
from faber_ledger.ledger.clock import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from faber_ledger.projections.history import ToldSession

TITLES = ("session", "machine", "started", "ran", "ended", "newly completed", "loaded")


def session_data(told: ToldSession) -> dict[str, Any]:
    """Give a session as `--json` has it; `ran_seconds` is null while it is open, or where its times cannot be read."""
    return {**told, "ran_seconds": ran_seconds(told)}


def ran_seconds(told: ToldSession) -> float | None:
    """Give how long a session ran, in seconds, as its clocks said; None if it is open or its times are unreadable."""
    started, ended = seconds_of(told["started_at"]), seconds_of(told["ended_at"])
    return None if started is None or ended is None else ended - started


def session_lines(told: ToldSession) -> Iterator[str]:
    """Say what a session came to."""
    end = (
        f"ended {told['ended_at']} ({told['end_reason'] or 'unknown'}), after {duration(ran_seconds(told))}"
        if told["ended_at"]
        else "open"
    )
    yield f"{told['session_id']} on {told['hostname'] or 'unknown'} ({told['platform'] or 'unknown'})"
    yield f"  started {told['started_at']}, {end}"
    yield f"  newly completed: {', '.join(told['newly_completed']) or 'none'}"
    yield f"  loaded: {', '.join(told['artifacts_loaded']) or 'none'}"


def session_table(sessions: Callable[[], Iterable[ToldSession]]) -> Iterator[str]:
    """Give a table of sessions, a line each; nothing for none. They are asked for twice, and never all kept."""
    widths = [len(title) for title in TITLES[:-1]]
    ends: Counter[str] = Counter()
    for told in sessions():
        ends[_end_of(told["session_id"])] += 1
    for told in sessions():
        widths = [max(width, len(cell)) for width, cell in zip(widths, _cells(told, ends), strict=False)]
    if ends:
        yield _row(TITLES, widths)
    for told in sessions():
        yield _row(_cells(told, ends), widths)


def _cells(told: ToldSession, ends: Counter[str]) -> tuple[str, ...]:
    end = _end_of(told["session_id"])
    return (
        end if ends[end] == 1 else told["session_id"],
        str(told["hostname"] or "unknown"),
        str(told["started_at"] or "unknown"),
        duration(ran_seconds(told)) if told["ended_at"] else "open",
        str(told["end_reason"] or "unknown") if told["ended_at"] else "-",
        ", ".join(told["newly_completed"]) or "-",
        ", ".join(told["artifacts_loaded"]) or "-",
    )


def _end_of(session_id: str) -> str:
    return session_id.rpartition("-")[2] or session_id


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, cells[-1]])
