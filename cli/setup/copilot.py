"""Copilot reads the client's settings of a project too: where our hooks are in them, it needs none of its own.

With both, each session would be recorded twice, since Copilot's deliveries to the two differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faber_ledger.cli.setup.agent_files import list_agents
from faber_ledger.cli.setup.agent_hooks import remove_agent_hooks
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.hooks.client_plugins import list_settings_with_hooks
from faber_ledger.hooks.client_settings import PROGRAM, settings_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from faber_ledger.files.change import FileChange


def settings_of_copilot(root: str) -> list[str]:
    """Return the client's settings files with our hooks, in any form, that Copilot reads too: those in the project."""
    return [path for scope, path in list_settings_with_hooks(root) if scope != "user"]


def skip_copilot(root: str, scope: str, settings: str) -> tuple[list[FileChange], list[str]]:
    """Return what to do and say in place of adding hooks to a scope's file for Copilot: it runs those of `settings`."""
    says = f"no hooks of Copilot are written: it reads {display_path(settings, root)} too, which has the hooks"
    changes, notes = leave_to_settings(root, settings) if scope == "project" else ([], [])
    return changes, [says, *notes]


def leave_to_settings(root: str, settings: str) -> tuple[list[FileChange], list[str]]:
    """Return the change that removes our hooks from a project's file for Copilot, which runs those of the settings."""
    changes = remove_agent_hooks(root, "project", ("copilot",))
    says = ["Copilot reads the client's settings too: its own hooks are removed" for _ in changes]
    return changes, [*says, *[f"{what}; {hint}" for what, hint in describe_copilot_twice(root, [settings], changes)]]


def describe_copilot_twice(
    root: str, settings: list[str], changes: Iterable[FileChange] = ()
) -> Iterator[tuple[str, str]]:
    """Say for each file of Copilot's own with our hooks that they run twice, and what to do."""
    for file in list_agents(root, changes) if settings else ():
        if file.agent == "copilot":
            shown = display_path(file.path, root)
            what = f"{shown} and {display_path(settings[0], root)} both have the hooks: Copilot runs and records both"
            by_init = file.scope == "project" and not any([file.is_edited(event) for event in file.entries])
            named = "" if settings_path("project", root) in settings else " --scope local"
            by_hand = f"remove the entries with `{PROGRAM}` from {shown}"
            yield what, f"run `{PROGRAM} init{named}`, which takes them out of {shown}" if by_init else by_hand
