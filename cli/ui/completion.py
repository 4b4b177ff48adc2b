"""What a shell offers for a word: runs, events, sessions, artifacts, worktrees and files of its project."""

from __future__ import annotations

import os
import re
import sqlite3
from typing import TYPE_CHECKING

from faber_ledger.cli.ui.which_run import choose_run
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import find_root, run_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click
    from click.shell_completion import CompletionItem

    Source = Callable[[str, str], Iterator[tuple[str, str]]]


# The shell puts the word into the command line as it stands, and ids come from repositories: none with a character that
# means something to a shell is offered. A colon would be a word's end to bash.
HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*")


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the project's runs."""
    root = find_root(os.getcwd())
    active = active_run(root).run_id
    return _items([(run_id, "the active run" if run_id == active else "run") for run_id in run_ids(root)], incomplete)


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the sessions of the run that the command names, else of the active one."""
    from faber_ledger.ledger.prefixes import sessions_with

    return _items(_found(ctx, incomplete, sessions_with), incomplete)


def things(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer artifacts, sessions and events of the run that the command names, else of the active one."""
    from faber_ledger.ledger.prefixes import artifacts_with, events_with, sessions_with

    found = _found(ctx, incomplete, artifacts_with, sessions_with, events_with)
    return _items(found, incomplete)


def events(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the events of the run that the command names, else of the active one."""
    from faber_ledger.ledger.prefixes import events_with

    return _items(_found(ctx, incomplete, events_with), incomplete)


def worktrees(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the clone's other worktrees by the names of their folders."""
    from faber_ledger.runs.git import work_tree_of

    place = work_tree_of(find_root(os.getcwd()))
    tops = [top for top in place.other_tops() if top != place.main] if place else []
    return _items([(os.path.basename(top), "worktree") for top in tops], incomplete)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Leave the word to the shell, which completes names of files itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _found(ctx: click.Context, incomplete: str, *sources: Source) -> list[tuple[str, str]]:
    """Ask one run's log; one that cannot be read gives nothing, for a completion has nowhere to say why."""
    try:
        run = choose_run(find_root(os.getcwd()), ctx.params.get("run"))
        return [pair for source in sources for pair in source(run.ledger_path, incomplete)]
    except (LedgerError, sqlite3.Error, OSError):
        return []


def _items(found: list[tuple[str, str]], incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    beginning = incomplete.casefold()
    return [
        CompletionItem(name, help=told)
        for name, told in found
        if name.casefold().startswith(beginning) and HARMLESS.fullmatch(name)
    ]
