"""The `run` group: the one module that imports other commands, to register them."""

from __future__ import annotations

import click

from faber_ledger.cli.commands.run.finish import finish
from faber_ledger.cli.commands.run.forget import forget
from faber_ledger.cli.commands.run.list import run_list
from faber_ledger.cli.commands.run.start import resume, start


@click.group(short_help="Start, resume and list runs.")
def run() -> None:
    """Start, resume, finish, list and forget the runs of this project."""


for command in (run_list, forget, finish, start, resume):
    run.add_command(command)
