"""`faber-ledger migrate`: upgrade older ledgers to the newest format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import check_in_tree, run_argument, runs_with_ledgers
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.log import read_log

if TYPE_CHECKING:
    from faber_ledger.migrations.upgrade import Outcome


@click.command(short_help="Upgrade a ledger to the newest format.")
@run_argument
@click.option("--all", "every", is_flag=True, help="Upgrade every ledger of the project.")
@click.option("--dry-run", is_flag=True, help="Upgrade and verify a copy, and do not change the ledger.")
@json_option
def migrate(run: str | None, every: bool, dry_run: bool, as_json: bool) -> None:
    """Upgrade RUN's ledger (default: the active run's) to the newest format: a copy is upgraded, verified and renamed.

    \b
    Example: faber-ledger migrate --all --dry-run
    Exit codes: 0 done, or nothing to do; 1 failed; 2 wrong usage; 10 no such run or
    ledger; 11 locked; 12 newer format; 20 the ledger or its copy is damaged.
    If anything fails, the ledger stays as it was.
    """
    from faber_ledger.migrations.upgrade import migrate_file  # at its use: `--help` loads every command

    runs = [*map(check_in_tree, runs_with_ledgers(run, every=every, in_tree=True))]
    outcomes: dict[str, Outcome] = {}
    failures: list[LedgerError] = []
    for one in runs:
        try:
            read_log(one, warn).close()  # which absorbs the work tree's file
            outcomes[one.run_id] = migrate_file(one.log_path, one.lock_path, dry_run=dry_run)
        except LedgerError as error:
            failures.append(error)
            if len(runs) > 1:
                warn(f"{one.run_id}: {error.message}")
    data = [{"run_id": run_id, **outcome._asdict(), "dry_run": dry_run} for run_id, outcome in outcomes.items()]
    show({"runs": data}, [_line(run_id, outcome, dry_run) for run_id, outcome in outcomes.items()], as_json=as_json)
    if failures:
        raise failures[0]


def _line(run_id: str, outcome: Outcome, dry_run: bool) -> str:
    if outcome.before == outcome.after:
        return f"{run_id}: already at format {outcome.after}"
    verb = "would be upgraded" if dry_run else "upgraded"
    return f"{run_id}: {verb} from format {outcome.before} to format {outcome.after}"
