"""`faber-ledger quarantine`: take the events that no ledger writes out of a run's files, and keep them aside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import confirm, json_option, show, warn
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.which_run import project_again, run_with_ledger
from faber_ledger.ledger.command_errors import ChoiceNeeded
from faber_ledger.ledger.gate import shown_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.runs.quarantine import Found, Judgement
    from faber_ledger.runs.run import Run


@click.command(short_help="Take refused events out of a run's ledger.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completion.runs)
@click.option("--yes", is_flag=True, help="Do not ask before the run's files are rewritten.")
@json_option
def quarantine(run: str | None, yes: bool, as_json: bool) -> None:
    """List the events of RUN (default: the active run) that are refused, and take them out of its files.

    Refused is what no ledger writes: an event whose id, type, time or session has another
    form, whose hash does not hold, or that does not come right after events that are there.
    The ledger and this clone's mirror are rewritten from the events that pass, and refused
    events are kept in a private file of this clone: one whose missing parent arrives later
    comes back. With --json, nothing is rewritten unless --yes is given, too.

    \b
    Example: faber-ledger quarantine --yes
    Exit codes: 0 done, or nothing is refused; 1 a file cannot be read or written, or you declined;
    2 wrong usage; 3 not confirmed, without a terminal; 10 no such run or ledger; 11 locked; 12 newer format;
    20 the ledger is damaged.
    """
    from faber_ledger.runs import quarantine as runs_quarantine  # at its use: `--help` loads every command

    chosen = run_with_ledger(run)
    judgement = runs_quarantine.judge(chosen)
    is_rewritten = judgement.is_due and (yes or (not as_json and _ask(chosen, judgement)))
    if is_rewritten:
        judgement = runs_quarantine.quarantine(chosen, warn)
        if not chosen.is_kept:
            project_again(chosen, rebuild=False)
    data = {
        "run_id": chosen.run_id,
        "refused": [_data(found) for found in judgement.refused],
        "dropped": [{"id": name, "why": why} for name, why in judgement.dropped],
        "changed": judgement.changed,
        "fault": judgement.fault,
        "returning": judgement.returning,
        "is_rewritten": is_rewritten,
    }
    show(data, _result_lines(chosen, judgement, is_rewritten=is_rewritten), as_json=as_json)


def _ask(chosen: Run, judgement: Judgement) -> bool:
    """Ask whether to rewrite a run's files, after saying what is refused; raises ChoiceNeeded without a terminal."""
    for line in _lines(judgement):
        warn(line)
    question = f"Take this out of {chosen.shown(chosen.ledger_path)}?"
    if not sys.stdin.isatty():
        raise ChoiceNeeded(question, hint="run the command again with --yes")
    confirm(question, "nothing was taken out")
    return True


def _result_lines(chosen: Run, judgement: Judgement, *, is_rewritten: bool) -> Iterator[str]:
    if not judgement.refused and not judgement.is_due:
        yield f"{chosen.run_id}: no event is refused"
    elif not is_rewritten:
        yield from _lines(judgement)
    else:
        taken = sum([found.is_in_file for found in judgement.refused])
        back = f", {plural(judgement.returning, 'event')} put back" if judgement.returning else ""
        written = "; its file is written again" if judgement.fault is not None else ""
        yield f"✓ {chosen.run_id}: {plural(taken, 'refused event')} taken out of its files{back}{written}"
        yield from [f"  {line}" for line in _lines(judgement)]
        for name, _ in judgement.dropped:
            yield f"  `faber-ledger redact {name} --yes` says in every clone that its payload is gone"


def _lines(judgement: Judgement) -> Iterator[str]:
    if judgement.fault is not None:
        yield f"the file as a whole is not a sound ledger: {judgement.fault}"
    for found in judgement.refused:
        where = "" if found.is_in_file else " (kept aside)" if found.is_aside else " (only its place is in the file)"
        yield f"event {shown_id(found.refused.id)}: {found.refused.why}{where}"
    for name in judgement.changed:
        yield f"event {shown_id(name)}: a copy of it was changed after it was written, and another is intact"
    for name, why in judgement.dropped:
        yield f"event {name}: its payload is not used: {why}"
    if judgement.returning:
        yield f"kept aside until now: {plural(judgement.returning, 'event')} that can be put back"


def _data(found: Found) -> dict[str, Any]:
    name = found.refused.id
    return {
        "id": name if isinstance(name, str) else shown_id(name),
        "hash": found.refused.hash.hex() if isinstance(found.refused.hash, bytes) else None,
        "seq": found.refused.seq if type(found.refused.seq) is int else None,
        "why": found.refused.why,
        "is_in_file": found.is_in_file,
        "is_aside": found.is_aside,
    }
