"""`replay --check`: from which event on the state.json of the work tree, or of HEAD, differs from its log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.cli.ui.words import plural, value_words
from faber_ledger.context.completed_phases import compare_completion
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import split_hashes
from faber_ledger.projections.agreement import explain_differences, find_best_fit, find_first_missing
from faber_ledger.projections.difference import MISSING, field_text
from faber_ledger.projections.fold import blocks_of, fold, text_of
from faber_ledger.runs.copies import head_copy
from faber_ledger.runs.git_command import run_git, top_of
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from faber_ledger.context.completed_phases import Comparison
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks


MAX_FIELDS = 20  # that differ and are listed
MAX_SIDES = 8  # the newest are tried
LINKS = "SELECT hash, parents FROM event ORDER BY seq DESC, id DESC"


class Side(NamedTuple):
    """One side of a merge: a flag for each event of the log, in order, that says whether the side had it."""

    flags: bytearray

    def of(self, events: Iterable[Recorded]) -> Iterator[Recorded]:
        """Return those of the events that the side had."""
        return (recorded for recorded, is_there in zip(events, self.flags, strict=False) if is_there)


def comparisons(run: Run) -> list[dict[str, Any]]:
    """Compare both states with their logs: `outcome` is agrees, behind, side, differs, missing or unreadable."""
    results = []
    with Log.read(run.ledger_path) as log, progress(run, "checking") as advance:
        results.append({"where": "the work tree", **_compare_work_tree(run, log, advance)})
    committed = _read_state_of_head(run)
    if committed is None:
        return [*results, {"where": "HEAD", "outcome": "missing", "reason": "git has no state.json of this run there"}]
    with _open_log_of_head(run) as (log, is_of_head):
        result = _compare_head(committed, log)
    if result["outcome"] == "behind" and not is_of_head and _is_adoption(result["agrees_up_to"]):
        result = {"outcome": "missing", "reason": "it was committed before the run had a ledger, which began with it"}
    return [*results, {"where": "HEAD", **result}]


def compare_phases(run: Run) -> Comparison | None:
    """Compare the phases of the work tree's state with FABER's events; None if that state cannot be read."""
    try:
        state = read_state(run).value
    except LedgerError:
        return None
    with read_log(run) as log:
        return compare_completion(run, state, log)


def _is_adoption(recorded: Recorded | None) -> bool:
    return recorded is not None and recorded["event"]["type"] == "run_adopted"


def _compare_work_tree(run: Run, log: Log, advance: Any) -> dict[str, Any]:
    try:
        found = blocks_of(read_state(run).value)
    except LedgerError as error:
        return {"outcome": "unreadable", "reason": error.message, "hint": error.hint}
    result = _compare(found, log, advance)
    hint = {
        "behind": f"run `faber-ledger project {run.run_id}` to write what it lacks",
        "side": f"run `faber-ledger project {run.run_id}`: the log has both sides",
        "differs": f"run `faber-ledger verify {run.run_id}`; if the log holds,"
        f" `faber-ledger project {run.run_id} --rebuild` writes the blocks from the log",
    }
    return result | ({"hint": hint[result["outcome"]]} if result["outcome"] in hint else {})


def _compare_head(content: bytes, log: Log) -> dict[str, Any]:
    try:
        found = blocks_of(JsonText(content.decode()).value)
    except (ValueError, RecursionError) as error:
        return {"outcome": "unreadable", "reason": str(error), "hint": "commit the state.json of the work tree"}
    result = _compare(found, log, lambda done: None)
    return result | ({} if result["outcome"] == "agrees" else {"hint": "commit state.json together with ledger.db"})


def _compare(found: Blocks, log: Log, advance: Any) -> dict[str, Any]:
    """Compare the blocks of a state with a log."""
    if text_of(fold(track_progress(read_verified(log), advance))) == text_of(found):
        return {"outcome": "agrees"}
    fit, side = find_best_fit(log.stream(), found), None
    if fit["distance"]:
        for one in _sides(log):
            other = find_best_fit(one.of(log.stream()), found)
            if other["distance"] < fit["distance"]:
                fit, side = other, one
    result: dict[str, Any] = {
        "outcome": "differs" if fit["distance"] else "side" if side else "behind",
        "agrees_up_to": fit["last"],
        "events_since": fit["events"] - fit["position"],
    }
    if fit["distance"]:
        count, fields = explain_differences(
            lambda: islice(side.of(log.stream()) if side else log.stream(), fit["position"]), found, MAX_FIELDS
        )
        result["differing"] = count
        result["fields"] = [_field(one["path"], one["expected"], one["found"], one["event"]) for one in fields]
        first = min(fields, key=lambda one: _place(one["event"]), default=None)
        return result | {"first": first and _field(first["path"], first["expected"], first["found"], first["event"])}
    if fit["position"] == fit["events"] and side is None:
        return {"outcome": "agrees"}  # only the order of keys differs
    lacking = find_first_missing(_mark_events(log.stream(), side, fit["position"]), found)
    return result | {"first": lacking and _field(lacking[1], lacking[2], lacking[3], lacking[0])}


def _mark_events(events: Iterable[Recorded], side: Side | None, position: int) -> Iterator[tuple[Recorded, bool]]:
    """Yield each event, and whether it is among the first `position` events of the side, or of all."""
    known = 0
    for number, recorded in enumerate(events):
        is_there = side is None or (number < len(side.flags) and bool(side.flags[number]))
        known += is_there
        yield recorded, is_there and known <= position


def _place(event: Recorded | None) -> tuple[bool, int, str]:
    return (True, 0, "") if event is None else (False, event["seq"], event["id"])


def _field(path: Any, expected: Any, found: Any, event: Recorded | None) -> dict[str, Any]:
    values = {name: value for name, value in (("expected", expected), ("found", found)) if value is not MISSING}
    return {"field": field_text(path), **values, "event": event}


def _sides(log: Log) -> Iterator[Side]:
    """Yield the sides that were merged into a log, newest first, each with the events that it had at its end."""
    tips: dict[bytes, None] = {}
    heads = [digest for _, digest in log.heads()]
    tips.update(dict.fromkeys(heads if len(heads) > 1 else []))
    merges = log.connection.execute("SELECT parents FROM event WHERE length(parents) > 32 ORDER BY seq DESC, id DESC")
    for (parents,) in merges:
        if len(tips) >= MAX_SIDES:
            break
        tips.update(dict.fromkeys(split_hashes(parents)))
    for tip in tips:
        wanted, flags = {tip}, bytearray()
        for digest, parents in log.connection.execute(LINKS):
            is_there = digest in wanted
            flags.append(is_there)
            if is_there:
                wanted.remove(digest)
                wanted.update(split_hashes(parents))
        flags.reverse()
        yield Side(flags)


def _read_state_of_head(run: Run) -> bytes | None:
    """Return the run's state.json from HEAD; None if HEAD does not have it, or without git."""
    if top_of(run.root) is None:
        return None
    shown = run_git("cat-file", "blob", f"HEAD:./{run.shown(run.state_path)}", at=run.root)
    return shown.stdout if shown.returncode == 0 else None


@contextmanager
def _open_log_of_head(run: Run) -> Iterator[tuple[Log, bool]]:
    """Open the log of HEAD, else the work tree's; also yield whether it is HEAD's."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        path = head_copy(run, folder)
        with Log.read(run.ledger_path) if path is None else open_untrusted(path) as log:
            yield log, path is not None


def lines_of(results: list[dict[str, Any]]) -> Iterator[str]:
    """Return the lines that report a check."""
    for result in results:
        name, last = f"state.json in {result['where']}", result.get("agrees_up_to")
        upto = f"event {last['seq']} {last['id']} ({last['event']['type']})" if last else "before the first event"
        since = result.get("events_since", 0)
        outcome = result["outcome"]
        if outcome == "agrees":
            yield f"{name}: shows what the log says"
        elif outcome in ("missing", "unreadable"):
            yield f"{name}: cannot be compared: {result['reason']}"
        elif outcome == "behind":
            yield f"{name}: shows the log up to {upto}; {plural(since, 'event')} since"
        elif outcome == "side":
            yield f"{name}: shows what one side of a merge had, up to {upto}, and not what was merged with it"
        else:
            older = f", and {plural(since, 'event')} since are not in it" if since else ""
            fields = plural(result["differing"], "field")
            yield f"{name}: agrees best up to {upto}{older}; {fields} not set by any event"
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
