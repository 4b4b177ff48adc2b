"""What `replay --check` and `status` say about phases that the state calls completed and FABER's events do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.words import plural
from faber_ledger.context.completed_phases import failed_status
from faber_ledger.context.reconstitution.faber_files import event_line
from faber_ledger.files.text import LONGEST_ID, one_line

if TYPE_CHECKING:
    from faber_ledger.context.completed_phases import Comparison, CompletionWarning

NOTHING_TO_COMPARE = "Completion: nothing to compare with: FABER's tools have recorded no event of this run"
MAX_NAMED = 20
KEPT = ("event_id", "type", "timestamp", "phase", "step", "status", "message")  # of an event of FABER's, in JSON


def comparison_lines(found: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison: one where there is nothing to compare or nothing to say."""
    if not found["events"]:
        yield NOTHING_TO_COMPARE + (f" that can be read ({_unreadable(found)})" if found["unreadable"] else "")
        return
    events = f"{plural(found['events'], 'event')} of FABER's tools"
    yield f"Completion: {plural(len(found['warnings']), 'warning') if found['warnings'] else 'no warning'}, by {events}"
    groups: dict[tuple[int, ...], list[CompletionWarning]] = {}
    for warning in found["warnings"]:
        groups.setdefault(tuple(map(id, warning["around"].values())), []).append(warning)
    for same in groups.values():
        for warning in same:
            yield f"  warning: {_words_of(warning)}"
        yield from _around_lines(same[0])
    if found["not_compared"]:
        yield f"  not compared, since completed before the first of these events: {_names(found['not_compared'])}"
    if found["is_partial"]:
        yield "  note: git ignores this run's events: those that other clones recorded are not here"
    if found["unreadable"]:
        yield f"  not read: {_unreadable(found)}"


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Return a comparison for programs."""
    return {**found, "warnings": [_warning_data(warning) for warning in found["warnings"]]}


def _unreadable(found: Comparison) -> str:
    return f"{plural(found['unreadable'], 'event')} in files that cannot be read"


def _words_of(warning: CompletionWarning) -> str:
    names = _names(warning["phases"]) if warning["phases"] else ""
    are = "is" if len(warning["phases"]) == 1 else "are"
    if warning["code"] == "no_event":
        return f"{names} {are} completed in state.json, and no event of FABER's tools says so"
    if warning["code"] == "one_write":
        return f"{names} became completed together"
    open_ones = [f"{names} {are} open"] if warning["phases"] else []
    if warning["steps"]:
        open_ones.append(f"these steps are open: {_names(warning['steps'])}")
    return f"the run is completed in state.json, but {', and '.join(open_ones)}"


def _around_lines(warning: CompletionWarning) -> Iterator[str]:
    around = warning["around"]
    if warning["code"] == "pending_steps":
        yield f"    last event:      {_faber_line(around['before'])}"
        return
    yield f"    event before:    {_faber_line(around['before'])}"
    yield f"    event after:     {_faber_line(around['after'])}"
    without, first = around["last_without"], around["first_with"]
    if without is not None:
        yield f"    not yet in:      {line_of(without).strip()}"
    if first is not None:
        yield f"    first in:        {line_of(first).strip()}"


def _faber_line(event: dict[str, Any] | None) -> str:
    if event is None:
        return "none"
    failed = failed_status(event)
    return event_line(event) + (f" ({failed})" if failed else "")


def _names(names: list[str]) -> str:
    shown = [one_line(name, LONGEST_ID) for name in names[:MAX_NAMED]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([part for part in (", ".join(shown[:-1]), shown[-1]) if part])


def _warning_data(warning: CompletionWarning) -> dict[str, Any]:
    around: dict[str, Any] = {**warning["around"]}
    for name in ("before", "after"):
        event = around[name]
        around[name] = event and {key: _plain(event[key]) for key in KEPT if key in event}
    return {**warning, "around": around}


def _plain(value: object) -> object:
    return value if isinstance(value, int | None) else one_line(value)
