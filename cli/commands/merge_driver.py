"""`faber-ledger merge-driver`: git calls it to merge a run's files; a ledger never conflicts."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import say
from faber_ledger.files.change import read_file
from faber_ledger.ledger.errors import LedgerError, UnionConflict
from faber_ledger.ledger.union import write_union
from faber_ledger.runs.run import LEDGER, STATE, kind_of
from faber_ledger.runs.state_merge import find_newer, merge_states, names, overwrite

if TYPE_CHECKING:
    from faber_ledger.runs.state_merge import Left, Newer


@click.command("merge-driver", short_help="Merge a run's file; git calls it.")
@click.argument("base", metavar="%O")
@click.argument("ours", metavar="%A")
@click.argument("theirs", metavar="%B")
@click.argument("path", metavar="%P")
def merge_driver(base: str, ours: str, theirs: str, path: str) -> int:
    """Merge two versions of the file at path %P into %A: git calls it, as `faber-ledger init` sets it up.

    \b
    A ledger becomes the union of both; an event that no ledger writes is left out, and named. In a
    state.json our two blocks never conflict, and every other key is merged as git merges lines.
    Example: git config --local merge.faber-ledger.driver 'faber-ledger merge-driver %O %A %B -- %P'
    Exit codes: 0 merged; 1 a conflict is left, with our version in %A; 2 wrong usage.
    """
    kind, _ = kind_of(os.path.basename(path)) or ("", "")
    try:
        if kind == LEDGER:
            for line in write_union([ours, theirs], ours, adopts=True).lines_left_out():
                say(f"faber-ledger: {path}: {line}")
        elif kind == STATE:
            merged, left, newer = _merge_states(base, ours, theirs, path)
            overwrite(ours, merged)
            if left:
                taken = f"; `faber-ledger resolve --newer` takes {newer}" if newer is not None else ""
                say(
                    f"faber-ledger: {path}: both sides changed the same key ({', '.join(names(left))}): our value and"
                    f" the conflict stay, all other keys are merged; see `faber-ledger resolve`{taken}"
                )
                return 1
        else:
            raise LedgerError("faber-ledger does not merge this file")
    except UnionConflict as error:
        for line in (f"{error.lines[0]}; our version and the conflict stay", *error.lines[1:], error.hint):
            say(f"faber-ledger: {path}: {line}")
        return 1
    except (LedgerError, OSError, sqlite3.Error) as error:
        say(f"faber-ledger: {path}: {error}; our version and the conflict stay")
        return 1
    return 0


def _merge_states(base: str, ours: str, theirs: str, path: str) -> tuple[bytes, list[Left], Newer | None]:
    """Merge three files with a state; return the merge, the keys that both sides changed, and the newer side.

    Our blocks are those of the united ledger, if it can be found.
    """
    from faber_ledger.recording.masked_state import mask_alike  # at its use: `--help` loads every command
    from faber_ledger.recording.merged_blocks import fold_merged

    before, mine, other = (read_file(side) or b"" for side in (base, ours, theirs))
    blocks = fold_merged(os.getcwd(), path, mine, other)
    return *merge_states(before, mine, other, blocks, align=mask_alike), find_newer(mine, other)
