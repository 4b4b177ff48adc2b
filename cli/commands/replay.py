"""`faber-ledger replay`: show a run's sessions, its events with what each changed, or how it was at a moment."""

import click

from faber_ledger.cli.reports.replay import Replay, state_at
from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long
from faber_ledger.cli.ui.which_event import MOMENT, find_session, parse_moment
from faber_ledger.cli.ui.which_run import run_argument, run_with_ledger


@click.command(short_help="Show a run's sessions, what each event changed, or a moment.")
@run_argument
@click.option("--events", is_flag=True, help="Also show each event with what it changed.")
@click.option("--at", metavar=MOMENT, help="Only the state at a moment.")
@click.option("--session", metavar="ID", help="One session: its id, its beginning or last part, or its client's id.")
@no_pager_option
@json_option
def replay(run: str | None, events: bool, at: str | None, session: str | None, as_json: bool) -> None:
    """Show the sessions of RUN (default: the active run): when and where each ran, what it completed and loaded.

    A moment is a seq (0: before the first event), an event's id or its beginning, or a time with its zone.

    \b
    Example: faber-ledger replay --at 2026-01-05T14:30:22Z
    Exit codes: 0 done; 2 wrong usage; 10 no such run, ledger, event or session, or several with that
    name; 12 newer format; 20 the ledger is damaged.
    """
    if at is not None and (events or session is not None):
        raise click.UsageError("--at cannot be combined with --events and --session")
    chosen = run_with_ledger(run)
    if at is not None:
        data, lines = state_at(chosen, parse_moment(chosen, at))
        show(data, lines, as_json=as_json)
        return
    found = Replay(chosen, find_session(chosen, session))
    if as_json:
        show(found.data(), [], as_json=True)
    else:
        show_long(lambda: found.lines(has_events=events))
