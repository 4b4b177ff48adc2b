"""`faber-ledger replay`: tell a run event by event, with what each event changed."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli import completing
from faber_ledger.cli.ledgers import run_with_ledger
from faber_ledger.cli.log import line_of
from faber_ledger.cli.output import json_option, show
from faber_ledger.cli.texts import duration
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.log import Log
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.difference import changes
from faber_ledger.projections.fold import Projector
from faber_ledger.projections.history import told_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.projections.history import Told

LONGEST = 100


@click.command(short_help="Tell a run event by event.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completing.runs)
@json_option
def replay(run: str | None, as_json: bool) -> None:
    """Tell what happened in RUN (default: the active run), event by event, and what each session came to.

    \b
    Example: faber-ledger replay
    Exit codes: 0 done; 2 wrong usage; 10 no such run or ledger; 12 newer format;
    20 the ledger is damaged.
    """
    path = run_with_ledger(run).ledger_path
    if as_json:
        steps = list(_steps(path))
        events = [{**recorded, "changes": changed} for recorded, changed, _ in steps]
        blocks = steps[-1][2] if steps else shape.empty()
        show({"events": events, "sessions": told_sessions(blocks)}, [], as_json=True)
    else:
        show(None, _lines(path), as_json=False)


def _steps(path: str) -> Iterator[tuple[Any, list[dict[str, Any]], Blocks]]:
    """Give each event with the fields that it changed and the blocks after it."""
    projector = Projector(shape.empty())
    with Log.read(path) as log:
        for recorded in log.stream():
            before = copy.deepcopy(projector.blocks)
            projector.apply(recorded)
            changed = [
                {"field": field, "before": one, "after": other}
                for field, one, other in changes(before, projector.blocks)
            ]
            yield recorded, changed, projector.blocks


def _lines(path: str) -> Iterator[str]:
    blocks = shape.empty()
    for recorded, changed, after in _steps(path):
        yield line_of(recorded)
        for change in changed:
            yield f"         {change['field']}: {_short(change['before'])} -> {_short(change['after'])}"
        blocks = after
    for told in told_sessions(blocks):
        yield ""
        yield from session_lines(told)


def session_lines(told: Told) -> Iterator[str]:
    """Say what a session came to."""
    started, ended = seconds_of(told["started_at"]), seconds_of(told["ended_at"])
    length = duration(ended - started) if started is not None and ended is not None else "unknown"
    end = (
        f"ended {told['ended_at']} ({told['end_reason'] or 'unknown'}), after {length}" if told["ended_at"] else "open"
    )
    yield f"{told['session_id']} on {told['hostname'] or 'unknown'} ({told['platform'] or 'unknown'})"
    yield f"  started {told['started_at']}, {end}"
    yield f"  newly completed: {', '.join(told['newly_completed']) or 'none'}"
    yield f"  loaded: {', '.join(told['artifacts_loaded']) or 'none'}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
