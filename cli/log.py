"""`log`: the events of a run, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from faber_ledger.cli import completing
from faber_ledger.cli.ledgers import run_with_ledger
from faber_ledger.cli.output import json_text, tell
from faber_ledger.cli.words import session_shown, words_of
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.shapes import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.queries import Wanted


class Moment(click.ParamType[float]):
    """A time on the command line: ISO 8601 with its zone, in seconds since 1970."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the time; fails with a usage error."""
        seconds = seconds_of(value)
        if seconds is None:
            self.fail(f"{value} is no time with a zone, as 2026-01-05T14:30:22Z is", param, ctx)
        return seconds


@click.command(short_help="List the events of a run.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completing.runs)
@click.option("-n", "count", type=click.IntRange(min=1), metavar="N", help="The newest N events alone.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option(
    "--session",
    metavar="ID",
    shell_complete=completing.sessions,
    help="One session: its id, its last six letters, or its client's id.",
)
@click.option("--type", "kind", type=click.Choice(list(CURRENT)), metavar="TYPE", help=f"One of {', '.join(CURRENT)}.")
@click.option("--machine", metavar="NAME", help="Sessions on one machine: its host name, or its writer id.")
@click.option("--since", type=Moment(), metavar="TIME", help="From this time on, as 2026-01-05T14:30:22Z.")
@click.option("--until", type=Moment(), metavar="TIME", help="Up to this time, its second included.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: one object an event.")
def log(
    run: str | None,
    count: int | None,
    reverse: bool,
    session: str | None,
    kind: str | None,
    machine: str | None,
    since: float | None,
    until: float | None,
    as_json: bool,
) -> None:
    """List what happened in RUN (default: the active run), oldest first.

    \b
    Example: faber-ledger log --type session_started -n 5
    Exit codes: 0 done; 2 wrong usage; 10 no such run or ledger; 12 newer format;
    20 the ledger is damaged.
    """
    from faber_ledger.ledger.queries import Wanted  # at its use: `--help` loads every command

    path = run_with_ledger(run).ledger_path
    wanted = Wanted(session=session, type=kind, machine=machine, since=since, until=until)
    for recorded in _listed(path, wanted, count, reverse):
        if as_json:
            click.echo(json_text(recorded, indent=None))
        else:
            tell(line_of(recorded))


def line_of(recorded: Recorded) -> str:
    """Write an event as one line: seq, time, type, the end of its session's id, and what it says."""
    kind = recorded["event"]["type"]
    return f"{recorded['seq']:>5}  {recorded['at']}  {kind:<20}  {session_shown(recorded):<6}  {words_of(recorded)}"


def _listed(path: str, wanted: Wanted, count: int | None, reverse: bool) -> Iterator[Recorded]:
    from faber_ledger.ledger.queries import events

    found = events(path, wanted, limit=count, newest_first=reverse or count is not None)
    if count is None or reverse:
        yield from found
    else:
        yield from reversed(list(found))
