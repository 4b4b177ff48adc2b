"""`faber-ledger merge-driver`: what git calls to merge a run's files; it never needs a person for the ledger."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import say
from faber_ledger.files.change import read_file
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.union import write_union
from faber_ledger.runs.active import theirs_is_claimed_here
from faber_ledger.runs.run import ACTIVE_FILES, find_root
from faber_ledger.runs.state_merge import (
    merge_states,
    names,
    overwrite,
)

if TYPE_CHECKING:
    pass


ACTIVE_NAMES = {name.rpartition("/")[2] for name in ACTIVE_FILES}


class DriverCommand(click.Command):
    """A command whose fourth argument is a path, whatever it looks like: clones of 0.1.0 put no `--` before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, a bare fourth one as a path."""
        return super().parse_args(ctx, [*args[:3], "--", args[3]] if len(args) == 4 else args)


@click.command("merge-driver", cls=DriverCommand, short_help="Merge a run's file; git calls it.")
@click.argument("base", metavar="%O")
@click.argument("ours", metavar="%A")
@click.argument("theirs", metavar="%B")
@click.argument("path", metavar="%P")
def merge_driver(base: str, ours: str, theirs: str, path: str) -> int:
    """Merge two versions of the file at path %P into %A: git calls it, as `faber-ledger init` tells it to.

    \b
    A ledger becomes the union of both; of a state.json our blocks never conflict,
    and git merges the rest; the active file stays what it was in this work tree.
    Example: git config --local merge.faber-ledger.driver 'faber-ledger merge-driver %O %A %B -- %P'
    Exit codes: 0 merged; 1 a conflict is left, and ours stands in %A; 2 wrong usage.
    """
    name = os.path.basename(path)
    try:
        if name == "ledger.db":
            from faber_ledger.schemas.events import check_event  # at its use: `--help` loads every command

            write_union([ours, theirs], ours, check_event)
        elif name == "state.json":
            merged, left = merge_states(*[read_file(side) or b"" for side in (base, ours, theirs)])
            overwrite(ours, merged)
            if left:
                say(
                    f"faber-ledger: {path}: both sides changed the same key ({', '.join(names(left))}):"
                    " ours stays, and the conflict; all other keys are merged; see `faber-ledger resolve`"
                )
                return 1
        elif name not in ACTIVE_NAMES:
            raise LedgerError("no file that faber-ledger merges")
        elif theirs_is_claimed_here(find_root(os.path.dirname(os.path.abspath(path))), _named(ours), _named(theirs)):
            overwrite(ours, read_file(theirs) or b"")
    except (LedgerError, OSError, sqlite3.Error) as error:
        say(f"faber-ledger: {path}: {error}; our version stays, and the conflict")
        return 1
    return 0


def _named(path: str) -> str:
    """Give what an active file names; empty if it names nothing."""
    lines = (read_file(path) or b"").decode(errors="replace").strip().splitlines()
    return lines[0].strip() if lines else ""
