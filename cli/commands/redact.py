"""`faber-ledger redact`: remove an event's payload, or some of its fields, from the log."""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import confirm, json_option, show, warn
from faber_ledger.cli.ui.server import names_server, server_address
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.which_event import find_thing
from faber_ledger.cli.ui.which_run import project_again, run_with_ledger
from faber_ledger.files.text import one_line
from faber_ledger.ledger.command_errors import ChoiceNeeded, GitFailed, NotFound
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.gate import shown_id
from faber_ledger.ledger.row import ID, TYPE
from faber_ledger.runs.clone import state_copy_path
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.settings import project_id, project_settings
from faber_ledger.runs.synced import was_exchanged
from faber_ledger.runs.text_cache import TEXT_CACHE, remove_text_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.log import Log
    from faber_ledger.ledger.redaction import Redaction
    from faber_ledger.recording.redact import RedactionPlan, RedactionResult
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


@click.command(short_help="Remove an event's payload, or some of its fields, from the log.")
@click.argument("words", nargs=-1, metavar="EVENT", shell_complete=completion.events)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="PATH",
    help="One field, for example `environment.hostname`; repeatable.",
)
@click.option(
    "--run", metavar="RUN", shell_complete=completion.runs, help="The event's run, instead of the active one."
)
@click.option("--reason", metavar="TEXT", help="Why, for those who read the log later.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed and what would stay, and change nothing.")
@click.option(
    "--accept",
    is_flag=True,
    help="Accept redactions from elsewhere: `--accept RUN` lists them, `--accept EVENT RUN` or `--accept --all RUN`"
    " removes for good what this clone keeps.",
)
@click.option("--all", "accept_all", is_flag=True, help="With --accept: all that wait.")
@click.option("--yes", is_flag=True, help="Do not ask, although what is removed cannot be restored.")
@json_option
def redact(
    words: tuple[str, ...],
    fields: tuple[str, ...],
    run: str | None,
    reason: str | None,
    dry_run: bool,
    accept: bool,
    accept_all: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the payload of EVENT (its seq or id), or some of its fields, from the run's files in this clone.

    \b
    The event keeps its place and its hash. Git's history still holds what was removed, and so do other
    clones until they receive the redaction: docs/guides/REDACTION.md. Redacting an event_redacted removes
    its reason; --reason gives a new one. What a redaction from elsewhere has removed is hidden everywhere, and
    kept in this clone until --accept.
    Example: faber-ledger redact 3 --field environment.hostname --reason "a customer's name"
    Exit codes: 0 done, or done before; 1 a file cannot be read or written, or you declined; 2 wrong usage, or
    what cannot be removed; 3 not confirmed, without a terminal; 10 no such run, event or field; 11 locked;
    12 newer format; 20 a ledger is damaged.
    """
    from faber_ledger.ledger.clock import now
    from faber_ledger.recording.leftovers import find_remains
    from faber_ledger.recording.redact import plan_redaction, redact_event, runs_in_work_trees
    from faber_ledger.recording.sessions import client_of
    from faber_ledger.runs.clone import writer_of  # at its use: `--help` loads every command
    from faber_ledger.runs.united import read_log
    from faber_ledger.schemas.events import check_event

    if accept:
        if fields or reason or dry_run:
            raise click.UsageError("--accept takes no --field, --reason or --dry-run")
        _accept(words, run, everything=accept_all, yes=yes, as_json=as_json)
        return
    if accept_all:
        raise click.UsageError("--all goes with --accept")
    if len(words) != 1:
        raise click.UsageError("name one EVENT")
    (event,) = words
    chosen = run_with_ledger(run)
    try:
        name = find_thing(chosen, event, ("event",)).id
    except NotFound:
        if not _is_refused(chosen, event):
            raise
        _redact_aside(chosen, event, dry_run=dry_run, yes=yes, as_json=as_json)
        return

    def make_plan(log: Log) -> RedactionPlan:
        return plan_redaction(log, name, fields, reason, check_event)

    with read_log(chosen) as log:
        plan = make_plan(log)
        is_kept = _is_kept(chosen, log, plan.target)
    data = _data(chosen, plan) | {"dry_run": dry_run}
    if dry_run:
        show(data, _plan_lines(plan), as_json=as_json)
        return
    if (plan.event is not None or is_kept) and not yes:
        _ask(plan, is_kept=is_kept, as_json=as_json)
    writer = writer_of(chosen.root)
    client = client_of(os.environ)

    def clean(log: Log, plan: RedactionPlan) -> dict[str, Any]:
        return _clean_files(log, plan, runs_in_work_trees(chosen), is_whole=not fields)

    outcome = redact_event(
        chosen, make_plan, clean, at=now(), writer=writer, client=client, warn=lambda text: warn(f"⚠️  {text}")
    )
    beside = outcome.cleaned
    try:
        beside["text_cache_removed"] |= remove_text_cache(chosen.root)  # `git log -p` may have made one meanwhile
    except GitFailed as error:
        warn(f"⚠️  {TEXT_CACHE} is there again, and may hold what is redacted: {error.message}; run the command again")
    texts = plan.texts.difference(beside.pop("common"))
    beside["also_in_files"] = [
        path for path in find_remains(runs_in_work_trees(chosen), texts) if not path.endswith(".db")
    ]
    versions = _versions(chosen)
    data |= {"redaction": outcome.id, "rewritten": outcome.rewritten, "removed": outcome.removed, **beside}
    lines = [*_result_lines(chosen, plan, outcome, beside, versions)]
    data["removed_on_server"] = _push(chosen)
    if data["removed_on_server"]:
        lines.insert(1, "  removed on the team's server, too")
    show(data | {"versions_in_git": versions}, lines, as_json=as_json)


def _push(chosen: Run) -> bool:
    """Send the redaction to the server that is configured, if it can be reached; return whether it has it now.

    Where none is named, a run that was exchanged with one has its text there still.
    """
    is_named = names_server()
    has_project = project_settings(chosen.root, os.environ).project is not None
    if not (is_named and has_project) and not was_exchanged(chosen.root, chosen.run_id):
        return False
    from faber_ledger.cli.sync.redaction import push_redaction  # most users have no server

    try:
        return push_redaction(chosen, project_id(chosen.root), server_address(None), warn)
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        warn(f"⚠️  the server may still have what was redacted: {error}")
        command = f"`faber-ledger sync {chosen.run_id} --push{'' if is_named else ' --url URL'}`"
        when = "as soon as it can be reached" if is_named else "with the URL of the team's server"
        warn(f"hint: run {command} {when}")
        return False


def _is_refused(chosen: Run, name: str) -> bool:
    """Return whether an id is that of an event aside; raises NotFound for a refused event that a file has."""
    from faber_ledger.runs.quarantine import read_aside
    from faber_ledger.runs.united import list_refused

    if name in map(shown_id, list_refused(chosen)):
        raise NotFound(
            f"the event {shown_id(name)} is refused, and still in the run's file",
            hint=f"run `faber-ledger quarantine {chosen.run_id}`, then run the command again",
        )
    return any([shown_id(row[ID]) == name for row in read_aside(chosen)])


def _redact_aside(chosen: Run, name: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove a refused event, all of it, from what the quarantine keeps aside."""
    from faber_ledger.runs.quarantine import aside_path, remove_aside

    what = f"the refused event {shown_id(name)}, which is kept aside"
    if not dry_run:
        if not yes:
            _confirm(f"Remove {what}? It cannot be restored.", as_json=as_json)
        remove_aside(chosen, name)
    done = {"redaction": None, "rewritten": [aside_path(chosen)], "removed": []}
    data = {"run_id": chosen.run_id, "event": name, "is_new": True, "is_aside": True, "dry_run": dry_run}
    show(data | done, [f"{what}, would be removed" if dry_run else f"✓ Removed {what}"], as_json=as_json)


def _accept(words: tuple[str, ...], run: str | None, *, everything: bool, yes: bool, as_json: bool) -> None:
    """List the redactions from elsewhere that wait, or accept them: all, or that of one event."""
    from faber_ledger.recording.redact import accept_redactions
    from faber_ledger.runs.unaccepted import find_waiting
    from faber_ledger.runs.united import read_log

    event: str | None = None
    rest = list(words)
    if rest and not everything and (len(rest) > 1 or run is not None or _is_event_word(rest[0])):
        event = rest.pop(0)
    if rest and run is None:
        run = rest.pop(0)
    if rest:
        raise click.UsageError("--accept takes EVENT and RUN, or --all and RUN")
    chosen = run_with_ledger(run)
    if event is None and not everything:
        with read_log(chosen) as log:
            found = find_waiting(chosen, log)
        waits = [f"  {line}" for line in _waiting_lines(found)]
        head = f"{chosen.run_id}: {plural(len(found), 'event')} redacted elsewhere, kept in this clone until accepted:"
        none = f"{chosen.run_id}: no redaction from elsewhere waits"
        command = "faber-ledger redact --accept"
        more = f"accept one with `{command} EVENT {chosen.run_id}`, or all with `{command} --all {chosen.run_id}`"
        show(_accept_data(chosen, found, "waiting"), [head, *waits, more] if found else [none], as_json=as_json)
        return
    name = None if event is None else find_thing(chosen, event, ("event",)).id
    if not yes:
        what = f"{name} took out" if name is not None else "redactions from elsewhere took out"
        _confirm(
            f"Remove what {what} of {chosen.run_id} from this clone, too? It cannot be restored.",
            as_json=as_json,
            to_look=f"without {'--all' if everything else 'EVENT'} to see what waits",
        )
    found, is_changed = accept_redactions(chosen, name, lambda text: warn(f"⚠️  {text}"))
    if is_changed:
        project_again(chosen, rebuild=False, redacted=True)
    line = f"{chosen.run_id}: {plural(len(found), 'redacted event')} accepted, and removed from this clone for good"
    show(
        _accept_data(chosen, found, "accepted"), [line, *[f"  {one}" for one in _waiting_lines(found)]], as_json=as_json
    )


def _is_event_word(text: str) -> bool:
    """Return whether a word is an event's seq or id, and not a run's id."""
    return text.isdecimal() or (len(text) == 26 and text.isalnum() and text.isupper())


def _accept_data(chosen: Run, found: list[tuple[Redaction, Row]], member: str) -> dict[str, Any]:
    listed = [
        {"event": row[ID], "type": row[TYPE], "redaction": one.id, "fields": one.fields, "reason": one.reason}
        for one, row in found
    ]
    return {"run_id": chosen.run_id, member: listed}


def _waiting_lines(found: list[tuple[Redaction, Row]]) -> Iterator[str]:
    for one, row in found:
        what = one_line(", ".join(one.fields)) if one.fields else "the whole payload"
        why = f": {one_line(one.reason)}" if one.reason else ""
        yield f"event {row[ID]} ({row[TYPE]}): {what}, by {one.id}{why}"


def _clean_files(log: Log, plan: RedactionPlan, places: list[Run], *, is_whole: bool) -> dict[str, Any]:
    """Clean the files beside the log, and return which other events contain the same texts.

    If a whole payload is removed, a text that other events contain too is not specific to it, and stays.
    """
    from faber_ledger.recording.leftovers import find_other_events, scrub

    past = plan.event["supersedes"] if plan.event is not None else []
    others = find_other_events(log, plan.texts, [plan.target, *past])
    common = sorted(others) if is_whole else []
    return {
        "text_cache_removed": remove_text_cache(places[0].root),  # first: if git refuses, nothing was changed
        "scrubbed": scrub(places, plan.texts.difference(common)),
        "also_in_events": sorted({name for names in others.values() for name in names}),
        "common": common,
    }


def _is_kept(chosen: Run, log: Log, target: str) -> bool:
    """Return whether this clone keeps what a redaction from elsewhere took out of an event: redacting accepts it."""
    from faber_ledger.runs.unaccepted import find_waiting

    try:
        return any([one.target == target for one, _ in find_waiting(chosen, log)])
    except (LedgerError, OSError, sqlite3.Error):
        return False  # what cannot be read is named when it is written


def _ask(plan: RedactionPlan, *, is_kept: bool, as_json: bool) -> None:
    kept = ", and what this clone keeps of it since it was redacted elsewhere" if is_kept else ""
    _confirm(f"Remove {_what(plan)} from event {plan.target}{kept}? It cannot be restored.", as_json=as_json)


def _confirm(question: str, *, as_json: bool, to_look: str = "with --dry-run to see what would be removed") -> None:
    if as_json or not sys.stdin.isatty():
        raise ChoiceNeeded(question, hint=f"run the command again with --yes, or {to_look}")
    confirm(question, "nothing was removed")


def _versions(chosen: Run) -> int | None:
    """Return how many commits have a version of this ledger; None without git."""
    listed = run_git("log", "--all", "--full-history", "--format=%H", "--", chosen.ledger_path, at=chosen.root)
    return len(listed.stdout.split()) if listed.returncode == 0 else None


def _what(plan: RedactionPlan) -> str:
    return ", ".join(plan.fields) if plan.fields else "the whole payload"


def _data(chosen: Run, plan: RedactionPlan) -> dict[str, Any]:
    return {
        "run_id": chosen.run_id,
        "event": plan.target,
        "type": plan.kind,
        "fields": plan.fields,
        "is_new": plan.event is not None,
        "remains": plan.event["remains"] if plan.event is not None else None,
    }


def _plan_lines(plan: RedactionPlan) -> Iterator[str]:
    if plan.event is None:
        yield f"{_what(plan)} of event {plan.target} ({plan.kind}) is redacted already: nothing more would be removed"
        return
    yield f"{_what(plan)} of event {plan.target} ({plan.kind}) would be removed; these would stay:"
    for name, value in plan.event["remains"].items():
        yield f"  {name}: {value if isinstance(value, str) else _json(value)}"


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _result_lines(
    chosen: Run, plan: RedactionPlan, outcome: RedactionResult, beside: dict[str, Any], versions: int | None
) -> Iterator[str]:
    if outcome.id is None:
        yield f"{_what(plan)} of event {plan.target} was redacted already; every file that still had it was rewritten"
    else:
        yield f"✓ Removed {_what(plan)} from event {plan.target} ({plan.kind}), recorded as event {outcome.id}"
    for title, paths in (
        ("rewritten", outcome.rewritten),
        ("removed", outcome.removed),
        ("cleaned", beside["scrubbed"]),
    ):
        for path in paths:
            yield f"  {title}: {os.path.relpath(path, chosen.root)}"
    if beside["text_cache_removed"]:
        yield f"  removed: {TEXT_CACHE}, git's cache of ledgers as text; its objects stay until git prunes them"
    if beside["also_in_events"]:
        yield f"  the same text is also in other events: {', '.join(beside['also_in_events'])}"
    for path in beside["also_in_files"]:
        shown = os.path.relpath(path, chosen.root)
        if path == state_copy_path(chosen):
            yield f"  still in {shown}, this clone's copy of it: run `faber-ledger project {chosen.run_id}` after that"
        else:
            yield f"  still in {shown}, which does not belong to the log: change it yourself"
    if versions:
        yield (
            f"  git still holds {plural(versions, 'commit')} with an earlier ledger.db, and so may every clone: "
            "see docs/guides/REDACTION.md"
        )
    yield "  If it was a password or a key, change it: whoever has an old copy can read it."
