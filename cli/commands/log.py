"""`faber-ledger log`: the events of a run, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.output import json_text, no_pager_option, say, show_long
from faber_ledger.cli.ui.which_event import Time, find_session
from faber_ledger.cli.ui.which_run import run_argument, run_with_ledger
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.log import read_log
from faber_ledger.runs.seen import hostname

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

ROUTINE = (
    "artifact_loaded",
    "artifact_skipped",
    "checkout_recorded",
    "compaction_completed",
    "context_reconstituted",
    "context_reloaded",
    "run_adopted",
    "usage_recorded",
)
LEFT_OUT = "(loads, checkouts, tokens and the like are left out; --json has all)"


@click.command()
@run_argument
@click.option("-n", "count", type=click.IntRange(min=1), metavar="N", help="Only the last N events.")
@click.option("--reverse", is_flag=True, help="Last first.")
@click.option("--session", metavar="ID", help="One session: its id, its beginning or last part, or its client's id.")
@click.option(
    "--type",
    "kinds",
    type=click.Choice(list(EVENT_TYPES)),
    multiple=True,
    metavar="TYPE",
    help=f"One of {', '.join(EVENT_TYPES)}; may be given several times.",
)
@click.option("--machine", metavar="NAME", help="Events of one machine: its host name, or its writer id.")
@click.option("--phase", metavar="PHASE", help="Only events that name this phase.")
@click.option("--since", type=Time(), metavar="TIME", help="From this time on, for example 2026-01-05T14:30:22Z.")
@click.option("--until", type=Time(), metavar="TIME", help="Up to this time, its second included.")
@no_pager_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: one object for each event.")
def log(
    run: str | None,
    count: int | None,
    reverse: bool,
    session: str | None,
    kinds: tuple[str, ...],
    machine: str | None,
    phase: str | None,
    since: float | None,
    until: float | None,
    as_json: bool,
) -> None:
    """List what happened in RUN (default: the active run), oldest first; on a terminal through a pager.

    Without --json, --session and --type it leaves out loads, checkouts, tokens, reconstitutions, adoptions, and an end
    that was only inferred where the session's own end came later.

    \b
    Example: faber-ledger log --type session_started -n 5
    Exit codes: 0 done; 2 wrong usage; 10 no such run, ledger or session, or
    several sessions of that name; 12 newer format; 20 the ledger is damaged.
    """
    if since is not None and until is not None and since > until:
        raise click.UsageError("--since is later than --until: no event is between them")
    chosen = run_with_ledger(run)
    is_all = bool(kinds or session or as_json)
    wanted = EventQuery(
        session=find_session(chosen, session),
        types=kinds,
        without=() if is_all else ROUTINE,
        machine=machine,
        since=since,
        until=until,
        phase=phase,
    )
    if machine == hostname():
        wanted = wanted._replace(here=known_writer(chosen.root))

    ends = () if is_all else find_events(partial(read_log, chosen), EventQuery(types=("session_ended",)))
    own = {end["event"].get("session_id") for end in ends if dict(end["event"]).get("inferred") is False}

    def find() -> Iterator[Recorded]:
        found = find_events(partial(read_log, chosen), wanted, newest_first=reverse or count is not None)
        kept = islice((one for one in found if not _is_replaced(one, own)), count)
        return kept if reverse or count is None else reversed([*kept])

    routine = iter(()) if is_all else find_events(partial(read_log, chosen), wanted._replace(types=ROUTINE, without=()))
    left_out = [LEFT_OUT] if next(routine, None) is not None else []
    if next(find(), None) is None and not left_out:
        alone = f" of a session on {machine}; --machine WRITER also finds what a clone recorded outside of sessions"
        say(f"no events{alone if machine else ''}")
    elif as_json:
        for recorded in find():
            click.echo(json_text(recorded, indent=None))
    else:
        show_long(lambda: chain(map(line_of, find()), left_out))


def _is_replaced(recorded: Recorded, own: set[object]) -> bool:
    """Return whether an event is an inferred end of a session that has an end of its `own` (DECISIONS 10)."""
    event = dict(recorded["event"])
    is_inferred = event["type"] == "session_ended" and event.get("inferred") is True
    return is_inferred and event.get("session_id") in own
