"""`replay --check`: from which event on state.json differs from its log, and which completed phases no event has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.cli.ui.words import plural, value_words
from faber_ledger.context.completed_phases import compare_completion, failed_status
from faber_ledger.context.reconstitution.faber_files import event_line
from faber_ledger.files.text import LONGEST_ID, one_line
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.projections.agreement import explain_differences, find_best_fit, find_first_missing
from faber_ledger.projections.difference import MISSING, field_text
from faber_ledger.projections.fold import blocks_of, fold, text_of
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from faber_ledger.context.completed_phases import Comparison, CompletionWarning
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks


MAX_FIELDS = 20  # that differ and are listed


def compare_state(run: Run) -> dict[str, Any]:
    """Compare the work tree's state with its log: `outcome` is agrees, behind, differs or unreadable."""
    try:
        found = blocks_of(read_state(run).value)
    except LedgerError as error:
        return {"outcome": "unreadable", "reason": error.message, "hint": error.hint}
    with Log.read(run.ledger_path) as log, progress(run, "checking") as advance:
        result = _compare(found, log, advance)
    hint = {
        "behind": f"run `faber-ledger project {run.run_id}` to write what it lacks",
        "differs": f"run `faber-ledger verify {run.run_id}`; if the log holds,"
        f" `faber-ledger project {run.run_id} --rebuild` writes the blocks from the log",
    }
    return result | ({"hint": hint[result["outcome"]]} if result["outcome"] in hint else {})


def compare_phases(run: Run) -> Comparison | None:
    """Compare the phases of the work tree's state with FABER's events; None if that state cannot be read."""
    try:
        state = read_state(run).value
    except LedgerError:
        return None
    with read_log(run) as log:
        return compare_completion(run, state, log)


def _compare(found: Blocks, log: Log, advance: Any) -> dict[str, Any]:
    """Compare the blocks of a state with a log."""
    if text_of(fold(track_progress(read_verified(log), advance))) == text_of(found):
        return {"outcome": "agrees"}
    fit = find_best_fit(log.stream(), found)
    position, since = fit["position"], fit["events"] - fit["position"]
    result: dict[str, Any] = {"agrees_up_to": fit["last"], "events_since": since}
    if fit["distance"]:
        count, differing = explain_differences(lambda: islice(log.stream(), position), found, MAX_FIELDS)
        fields = [_field(one["path"], one["expected"], one["found"], one["event"]) for one in differing]
        first = min(fields, key=lambda one: _place(one["event"]), default=None)
        return {"outcome": "differs", **result, "differing": count, "fields": fields, "first": first}
    if not since:
        return {"outcome": "agrees"}  # only the order of keys differs
    events = ((recorded, number <= position) for number, recorded in enumerate(log.stream(), 1))
    lacking = find_first_missing(events, found)
    return {"outcome": "behind", **result, "first": lacking and _field(*lacking[1:], lacking[0])}


def _place(event: Recorded | None) -> tuple[bool, int, str]:
    return (True, 0, "") if event is None else (False, event["seq"], event["id"])


def _field(path: Any, expected: Any, found: Any, event: Recorded | None) -> dict[str, Any]:
    values = {name: value for name, value in (("expected", expected), ("found", found)) if value is not MISSING}
    return {"field": field_text(path), **values, "event": event}


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """Return the lines that report a check."""
    last, outcome = result.get("agrees_up_to"), result["outcome"]
    upto = f"event {last['seq']} {last['id']} ({last['event']['type']})" if last else "before the first event"
    since = plural(result.get("events_since", 0), "event")
    if outcome == "agrees":
        yield "state.json: shows what the log says"
    elif outcome == "unreadable":
        yield f"state.json: cannot be compared: {result['reason']}"
    elif outcome == "behind":
        yield f"state.json: shows the log up to {upto}; {since} since"
    else:
        older = f", and {since} since are not in it" if result["events_since"] else ""
        fields = plural(result["differing"], "field")
        yield f"state.json: agrees best up to {upto}{older}; {fields} not set by any event"
    yield from _first_lines(result)
    if result.get("hint"):
        yield f"  hint: {result['hint']}"


def _first_lines(result: dict[str, Any]) -> Iterator[str]:
    first = result.get("first")
    if not first:
        return
    yield f"  it stops agreeing at:  {first['field']}"
    yield f"    the log says:        {value_words(first.get('expected', MISSING))}"
    yield f"    state.json says:     {value_words(first.get('found', MISSING))}"
    yield f"    by the event:        {line_of(first['event']).strip() if first['event'] else 'no event of the log'}"
    others = [one for one in result.get("fields", []) if one != first]
    for one in others:
        values = (
            f"{value_words(one.get('expected', MISSING))} in the log, {value_words(one.get('found', MISSING))} here"
        )
        yield f"  and:                   {one['field']}: {values}"
    more = result.get("differing", 0) - len(others) - 1
    if more > 0:
        yield f"  and {plural(more, 'field')}"


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
