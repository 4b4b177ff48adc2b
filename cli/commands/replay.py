"""`faber-ledger replay`: show a run event by event, as it was at a moment, or what changed between two moments."""

from __future__ import annotations

import click

from faber_ledger.cli.reports.replay import EventFilter, Replay, changes_between, state_at
from faber_ledger.cli.reports.state_check import comparison_data, comparison_lines
from faber_ledger.cli.ui import completion, which_event
from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long, show_streamed
from faber_ledger.cli.ui.server import find_runs, server_copy_options
from faber_ledger.cli.ui.which_event import find_session
from faber_ledger.cli.ui.which_run import run_with_ledger, work_id_option
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.runs.run import Run


@click.command(short_help="Show a run event by event, or as it was at a moment.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completion.runs)
@work_id_option
@click.option("--at", metavar=which_event.MOMENT, help="Only the state at a moment.")
@click.option(
    "--diff",
    nargs=2,
    metavar="A B",
    help="What changed between two moments, field by field.",
)
@click.option(
    "--from",
    "start",
    metavar=which_event.MOMENT,
    help="Show the events from this moment on.",
)
@click.option(
    "--to",
    "end",
    metavar=which_event.MOMENT,
    help="Show the events up to this moment.",
)
@click.option(
    "--session",
    metavar="ID",
    help="One session: its id, its beginning or last part, or its client's id.",
)
@click.option("--step", is_flag=True, help="Also show the state after each event.")
@click.option("--strict", is_flag=True, help="Check each event against its model, and name those that do not fit.")
@click.option(
    "--check",
    is_flag=True,
    help="Show where state.json stops agreeing with the log, and what it calls completed that no event of FABER's tools"
    " confirms.",
)
@server_copy_options
@no_pager_option
@json_option
def replay(
    run: str | None,
    work_id: str | None,
    at: str | None,
    diff: tuple[str, str] | None,
    start: str | None,
    end: str | None,
    session: str | None,
    step: bool,
    strict: bool,
    check: bool,
    url: str | None,
    project: str | None,
    as_json: bool,
) -> int:
    """Show what happened in RUN (default: the active run), event by event, and a summary of each session.

    A moment is a seq (0: before the first event), an event's id or its beginning, or a time with its zone.

    \b
    Example: faber-ledger replay --at 2026-01-05T14:30:22Z
    Exit codes: 0 done; 2 wrong usage; 10 no such run, ledger, event or session, or several with that
    name; 12 newer format; 20 the ledger is damaged, or an event does not fit (--strict);
    21 state.json differs (--check).
    """
    _check_usage(
        {"--at": at, "--diff": diff, "--check": check, "--strict": strict},
        {"--from": start, "--to": end, "--session": session, "--step": step},
    )
    if check and url is not None:
        raise click.UsageError("--check compares this clone's state.json with its own log: leave out --url")
    root, (run,), _ = find_runs(url, project, [run], work_id)
    chosen = run_with_ledger(run, work_id, root=root)
    if check:
        return _check(chosen, as_json)
    if at is not None or diff is not None:
        return _moments(chosen, at, diff, as_json)
    wanted = EventFilter(
        start=which_event.parse_moment(chosen, start) if start is not None else None,
        end=which_event.parse_moment(chosen, end) if end is not None else None,
        session=find_session(chosen, session),
        step=step,
    )
    return _strict(chosen, wanted, as_json) if strict else _events(chosen, wanted, as_json)


def _moments(chosen: Run, at: str | None, diff: tuple[str, str] | None, as_json: bool) -> int:
    if diff is not None:
        first, second = (which_event.parse_moment(chosen, text) for text in diff)
        data, lines = changes_between(chosen, first, second)
    else:
        data, lines = state_at(chosen, which_event.parse_moment(chosen, at or ""))
    show(data, lines, as_json=as_json)
    return 0


def _check_usage(modes: dict[str, object], limits: dict[str, object]) -> None:
    """Raise UsageError for options that cannot be combined."""
    asked = [name for name, value in modes.items() if value is not None and value is not False]
    limited = [name for name, value in limits.items() if value is not None and value is not False]
    if len(asked) > 1:
        raise click.UsageError(f"give one of {', '.join(modes)}, not {' and '.join(asked)}")
    if asked == ["--strict"]:
        limited = [name for name in limited if name == "--step"]
    if asked and limited:
        raise click.UsageError(f"{asked[0]} cannot be combined with {' and '.join(limited)}")


def _events(run: Run, wanted: EventFilter, as_json: bool) -> int:
    if as_json:
        show_streamed(Replay(run, wanted).data())
    else:
        show_long(lambda: Replay(run, wanted).lines())
    return 0


def _strict(run: Run, wanted: EventFilter, as_json: bool) -> int:
    from faber_ledger.cli.reports.replay import Strict

    strict = Strict(run, wanted)
    if as_json:
        show(strict.data(), [], as_json=True)
    else:
        show(None, strict.lines(), as_json=False)
    return IntegrityError.exit_code if strict.misfits else 0


def _check(run: Run, as_json: bool) -> int:
    from faber_ledger.cli.reports.state_check import compare_phases, compare_state, lines_of

    result, completion = compare_state(run), compare_phases(run)
    data = {"run_id": run.run_id, "state": result, "completion": completion and comparison_data(completion)}
    show(data, [*lines_of(result), *(comparison_lines(completion) if completion else ())], as_json=as_json)
    return 0 if result["outcome"] == "agrees" else ProjectionDiffers.exit_code
