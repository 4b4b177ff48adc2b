"""What a shell offers for a word: runs and worktrees of the project."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from faber_ledger.files.text import escape
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.active import active_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.kept import run_ids_here
from faber_ledger.runs.run import find_root

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# The shell inserts the word into the command line unquoted: a name with a character that is special to a shell is not
# offered. To bash, a colon ends a word.
HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*")


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the runs that this clone has."""
    try:
        root = find_root(os.getcwd())
    except LedgerError:
        return []
    active = active_run(root).run_id
    known = run_ids_here(root)
    return _items([(run_id, "the active run" if run_id == active else "run") for run_id in known], incomplete)


def worktrees(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the other worktrees of the clone by their folder names."""
    try:
        work_tree = work_tree_of(find_root(os.getcwd()))
    except LedgerError:
        return []
    tops = [top for top in work_tree.other_tops() if top != work_tree.main] if work_tree else []
    return _items([(os.path.basename(top), "worktree") for top in tops], incomplete)


def _items(found: list[tuple[str, str]], incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    beginning = incomplete.casefold()
    return [
        CompletionItem(name, help=escape(text))  # a line of its own, to zsh
        for name, text in found
        if name.casefold().startswith(beginning) and HARMLESS.fullmatch(name)
    ]
