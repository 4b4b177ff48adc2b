"""`faber-ledger redact`: remove an event's payload from the log, or put it back."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.sync.purge import Purge, note_due, purge_refs, send_run
from faber_ledger.cli.sync.refs import METADATA, STATE
from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.output import json_option, say, show, warn, warn_of
from faber_ledger.cli.ui.server import names_server, server_address
from faber_ledger.cli.ui.which_event import find_thing
from faber_ledger.cli.ui.which_run import run_option, run_with_ledger
from faber_ledger.cli.ui.words import plural
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import Aborted, ChoiceNeeded, GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.recording.redact import (
    RedactionPlan,
    RedactionResult,
    find_other_events,
    find_remains,
    plan_redaction,
    redact_event,
    runs_in_work_trees,
    scrub,
    undo_redaction,
)
from faber_ledger.recording.sessions import client_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git_command import TEXT_CACHE, remove_text_cache, run_git
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.settings import project_id, project_settings
from faber_ledger.runs.state_file import state_copy_path
from faber_ledger.runs.synced import was_exchanged

MAX_LINE = 200


@click.command()
@click.argument("event", metavar="EVENT")
@run_option
@click.option("--reason", metavar="TEXT", help="Why, for those who read the log later.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@click.option("--undo", is_flag=True, help="Put back what somebody else redacted, from a copy that is left.")
@click.option("--yes", is_flag=True, help="Do not ask, although no copy of what is removed is kept.")
@json_option
def redact(
    event: str, run: str | None, reason: str | None, dry_run: bool, undo: bool, yes: bool, as_json: bool
) -> None:
    """Remove the payload of EVENT (its seq or id) from the run's files in this clone.

    \b
    Git's history still holds what was removed, and so do other clones until they receive the redaction:
    docs/guides/REDACTION.md. Where the ledger travels in a git ref, the ref is replaced at once.
    What you redact is gone. What somebody else redacted, --undo can restore here for 30 days.
    Example: faber-ledger redact 3 --reason "a customer's name"
    Exit codes: 0 done, or done before; 1 a file cannot be read or written, or you declined; 2 wrong usage, or
    what cannot be removed; 3 not confirmed, without a terminal; 10 no such run or event, or no copy of a payload
    to put back; 11 locked; 12 newer format; 20 a ledger is damaged.
    """
    chosen = run_with_ledger(run)
    name = find_thing(chosen, event, ("event",)).id
    writer, client = writer_of(chosen.root), client_of(os.environ)
    if undo:
        if dry_run:
            raise click.UsageError("--undo takes no --dry-run")
        _undo(chosen, name, reason, writer, client, as_json=as_json)
        return
    with read_log(chosen) as log:
        plan = plan_redaction(log, name, reason, writer)
        found = log.event_beginning(plan.target)
    event_line = one_line(line_of(found), MAX_LINE) if found is not None else plan.target
    is_new = plan.event is not None
    data: dict[str, Any] = {"run_id": chosen.run_id, "event": plan.target, "type": plan.kind, "is_new": is_new}
    data["dry_run"] = dry_run
    if dry_run:
        what = "would be removed" if is_new else "is redacted already: nothing more would be removed"
        show(data, [f"the payload of event {plan.target} ({plan.kind}) {what}"], as_json=as_json)
        return
    if is_new and not yes:
        _confirm(chosen, event_line, f"Remove the payload of event {plan.target}?", as_json=as_json)
    outcome = _remove(chosen, name, reason, writer, client)
    beside, versions = _look_again(chosen, plan, outcome.cleaned), _count_versions(chosen, plan.target)
    data |= {"redaction": outcome.id, "rewritten": outcome.rewritten, "removed": outcome.removed, **beside}
    lines = [*_result_lines(chosen, plan, outcome, beside, versions)]
    data["removed_on_server"] = _push(chosen, name)
    if data["removed_on_server"]:
        lines.insert(
            1,
            "  removed on the team's server, too, where an admin can put it back for 30 days, unless an admin runs"
            f" `faber-ledger db purge {name}`; the next `faber-ledger sync` sends state.json",
        )
    purge = purge_refs(chosen, plan.target, warn)
    lines[1:1] = _purge_lines(purge, beside)
    show(data | {"versions_in_git": versions, "replaced_at_remote": purge.is_replaced}, lines, as_json=as_json)


def _undo(chosen: Run, name: str, reason: str | None, writer: str, client: str | None, *, as_json: bool) -> None:
    undone = undo_redaction(
        chosen, name, reason, _rows_on_server(chosen, name), at=now(), writer=writer, client=client, warn=warn_of
    )
    remote = remote_of(chosen.root)
    why = send_run(remote, chosen, warn) if remote is not None else None
    if why is not None:
        warn_of(f"not sent yet, which the next `faber-ledger sync` does: {why}")
    result = {"run_id": chosen.run_id, "event": name, "redaction_undone": undone}
    lines = [f"✓ Put the payload of event {name} back in this clone, recorded as event {undone}"]
    if names_server():
        lines.append("  after a sync other clones get it, too, unless the server has removed it for good")
    show(result, lines, as_json=as_json)


def _rows_on_server(chosen: Run, name: str) -> Iterator[tuple[Any, ...]]:
    """Yield the event as the team's server has it, to which an admin may have restored the payload."""
    if not names_server():
        return
    from faber_ledger.cli.sync.exchange import fetch_event  # most users have no server

    try:
        yield from fetch_event(chosen, name, server_address(None))
    except LedgerError as error:
        warn_of(f"the server could not be asked: {error.message}")


def _remove(chosen: Run, name: str, reason: str | None, writer: str, client: str | None) -> RedactionResult:
    """Remove the payload; first note that the remote's ref has to be replaced, so that an interrupt leaves it due."""
    note_due(chosen, name)
    return redact_event(
        chosen,
        lambda log: plan_redaction(log, name, reason, writer),
        lambda log, plan: _clean_files(log, plan, runs_in_work_trees(chosen)),
        at=now(),
        writer=writer,
        client=client,
        warn=warn_of,
    )


def _look_again(chosen: Run, plan: RedactionPlan, beside: dict[str, Any]) -> dict[str, Any]:
    """Return what was cleaned beside the log, with the files that still have one of the texts."""
    try:
        beside["text_cache_removed"] |= remove_text_cache(chosen.root)  # `git log -p` may have made one meanwhile
    except GitFailed as error:
        warn_of(f"{TEXT_CACHE} is there again, and may hold what is redacted: {error.message}; run the command again")
    texts = plan.texts.difference(beside.pop("common"))
    remains = find_remains(runs_in_work_trees(chosen), texts)
    return beside | {"also_in_files": [path for path in remains if not path.endswith(".db")]}


def _purge_lines(purge: Purge, beside: dict[str, Any]) -> Iterator[str]:
    """Yield what became of the run's ref at the remote, and warn if it was not replaced."""
    if purge.problem:
        warn_of(purge.problem)
        warn(f"hint: {purge.hint}")
    if purge.is_replaced:
        yield f"  replaced: the run's ref at {purge.remote}, whose host may keep what it had; other clones follow"
    if purge.remote and {STATE, METADATA}.intersection(map(os.path.basename, beside["also_in_files"])):
        yield "  the ref has these files, too: redact the event again after you changed them"


def _push(chosen: Run, name: str) -> bool:
    """Send the redaction to the configured server, if it can be reached; return whether the server has it now.

    If none is configured, a server with which the run was exchanged still has the text.
    """
    is_named = names_server()
    has_project = project_settings(chosen.root, os.environ).project is not None
    if not (is_named and has_project) and not was_exchanged(chosen.root, chosen.run_id):
        return False
    from faber_ledger.cli.sync.exchange import push_redaction  # most users have no server

    try:
        return push_redaction(chosen, project_id(chosen.root), server_address(None), name, warn)
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        warn_of(f"the server may still have what was redacted: {error}")
        command = f"`faber-ledger sync {chosen.run_id} --push{'' if is_named else ' --url URL'}`"
        when = "as soon as it can be reached" if is_named else "with the URL of the team's server"
        warn(f"hint: run {command} {when}")
        return False


def _clean_files(log: Log, plan: RedactionPlan, places: list[Run]) -> dict[str, Any]:
    """Clean the files beside the log, and return which other events contain the same texts.

    A text that other events contain too is not specific to the payload, and stays.
    """
    others = find_other_events(log, plan.texts, [plan.target])
    found = log.event_beginning(plan.target)
    event: dict[str, Any] = dict(found["event"]) if found is not None else {}
    place = (event.get("phase"), event.get("step"))  # which every event there has
    return {
        "text_cache_removed": remove_text_cache(places[0].root),  # first: if git refuses, nothing was changed
        "scrubbed": scrub(places, plan.texts.difference(others)),
        "also_in_events": sorted({name for text, names in others.items() if text not in place for name in names}),
        "common": sorted(others),
    }


def _confirm(chosen: Run, event_line: str, question: str, *, as_json: bool) -> None:
    remote = remote_of(chosen.root)
    of_ref = f", and the run's ref at {remote.name} is replaced if it has the event" if remote is not None else ""
    question = f"{question} No copy of it is kept here{of_ref}."
    if as_json or not sys.stdin.isatty():
        hint = "run the command again with --yes, or with --dry-run to see what would be removed"
        raise ChoiceNeeded(question, hint=hint)
    say(event_line)
    if not click.confirm(question, err=True):
        raise Aborted("nothing was removed")


def _count_versions(chosen: Run, event: str) -> int | None:
    """Return how many commits of the code have a version of this ledger that has the event; None without git."""
    revisions = ("--exclude=refs/faber-ledger*", "--all")  # the refs of ledgers were looked at before
    listed = run_git("log", *revisions, "--full-history", "--format=%H", "--", chosen.ledger_path, at=chosen.root)
    commits = listed.stdout.decode().split()
    if not commits:  # `git grep` would search the work tree
        return 0 if listed.returncode == 0 else None
    found = run_git("grep", "--text", "--files-with-matches", event, *commits, "--", chosen.ledger_path, at=chosen.root)
    return len(found.stdout.splitlines())


def _result_lines(
    chosen: Run, plan: RedactionPlan, outcome: RedactionResult, beside: dict[str, Any], versions: int | None
) -> Iterator[str]:
    if outcome.id is None:
        yield f"the payload of event {plan.target} was redacted already; every file that still had it was rewritten"
    else:
        yield f"✓ Removed the payload of event {plan.target} ({plan.kind}), recorded as event {outcome.id}"
    files = {"rewritten": outcome.rewritten, "removed": outcome.removed, "cleaned": beside["scrubbed"]}
    for title, paths in files.items():
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
