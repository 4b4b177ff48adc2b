"""`faber-ledger show`: everything about one event, session or artifact."""

import json
import os
import sys
from typing import Any

import click

from faber_ledger.cli.reports.file_versions import find_content
from faber_ledger.cli.reports.show import DESCRIBE
from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long, warn
from faber_ledger.cli.ui.server import names_server, server_address, url_option
from faber_ledger.cli.ui.which_event import find_thing
from faber_ledger.cli.ui.which_run import run_option, run_with_ledger
from faber_ledger.files.text import escape_lines
from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.command_errors import NotFound
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import Address
from faber_ledger.postgres.project import who_brought
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.kept import kept_logs
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.settings import project_id

SECONDS_TO_ASK = 5  # a server, for a line


@click.command("show")
@click.argument("what", metavar="EVENT|SESSION|ARTIFACT")
@run_option
@url_option
@click.option("--content", is_flag=True, help="Print what was loaded: an artifact's newest load, or the event's.")
@no_pager_option
@json_option
def show_one(what: str, run: str | None, url: str | None, content: bool, as_json: bool) -> None:
    """Show one event (its seq or id), one session (its id, its last part, or its client's id) or one artifact.

    \b
    The beginning of an id is enough; an event's whole id is found in any run. A file's content is found by its
    digest, also in git's history, in the clone that loaded it. Where a server is named, it says whose clone wrote an
    event, and which login brought it.
    Example: faber-ledger show specification --content
    Exit codes: 0 done; 2 wrong usage; 10 no such run or ledger, nothing or several things with that
    name, or a content that no longer exists; 12 newer format; 20 the ledger is damaged.
    """
    root = find_root(os.getcwd())
    logs = kept_logs(root) if run is None and is_event_id(what.upper()) else ()
    holders = [one.run_id for one, log in logs if log.event_beginning(what.upper())]  # anybody may copy an id
    active = active_run(root).run_id
    chosen = run_with_ledger(run or (active if active in holders else next(iter(holders), None)))
    match = find_thing(chosen, what)
    data, lines = DESCRIBE[match.kind](chosen, match.id)
    if match.kind == "event" and (url is not None or names_server()):
        data["on_server"] = _ask_server(chosen, match.id, url)
        lines += ["", f"on the server: {data['on_server']}"] if data["on_server"] else []
    text = _content(chosen, data) if content else None
    if as_json:
        show(data if text is None else data | {"content": text}, [], as_json=True)
    elif text is None:
        show_long(lambda: lines)
    elif sys.stdout.isatty():
        click.echo(escape_lines(text), nl=False)
    else:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))


def _ask_server(run: Run, name: str, url: str | None) -> str | None:
    """Return whose clone wrote an event and which login brought it; None, after a warning, if the server is away."""
    try:
        address = server_address(url)
        quick = Address({"connect_timeout": str(SECONDS_TO_ASK), **address.parameters})
        with open_server(quick, patience=SECONDS_TO_ASK) as server:
            return who_brought(server, project_id(run.root), run.run_id, [name]).get(name, "not there")
    except LedgerError as error:
        warn(f"the server could not be asked: {error.message}")
        return None


def _content(run: Run, data: dict[str, Any]) -> str:
    """Return what a load gave the agent; raises NotFound if it is gone, or cannot be compared in this clone."""
    recorded = data.get("event", {})
    load = data["loads"][-1] if data["kind"] == "artifact" and data["loads"] else recorded.get("event")
    if not load or not isinstance(load.get("sha256"), str) or not isinstance(load.get("source"), str):
        raise click.UsageError("--content needs an artifact that was loaded, or the event of a load")
    found = find_content(run.root, load["source"], load["sha256"])
    if found is not None:
        return found
    writer, own = load.get("writer") or recorded.get("writer"), writer_of(run.root)
    if writer != own:
        with read_log(run) as log:
            machine = log.machine_of(writer) or "another machine"
        for one in [one for one in reversed(data.get("loads", ())) if one["writer"] == own]:
            if (found := find_content(run.root, one["source"], one["sha256"])) is not None:
                newest = f"the newest load, at {load['at']} on {machine}, is another clone's"
                warn(f"note: {newest}: this is what was loaded here at {one['at']}")
                return found
        raise NotFound(
            f"the load was recorded on {machine}, in another clone, and only that clone can find its content",
            hint="run it there",
        )
    raise NotFound(
        f"the content with the digest {load['sha256']} is neither in {json.dumps(load['source'])} as it is now nor"
        " in any version that git has of it, nor in a plugin root; a command's answer and a folder are not kept",
        hint="run it after `git fetch --all`",
    )
