"""What to do where a client that is started in a folder lacks hooks of ours: never a second installation.

Nor is what the user has chosen to be removed: where other agents alone have the hooks, the client may not be in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faber_ledger.cli.setup.agent_files import list_agents
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.hooks.client_plugins import list_plugins
from faber_ledger.recording.call import HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator


def hint_to_install(root: str) -> str:
    """Return what to run where a client started in `root` has no hooks."""
    known = list_plugins(root)
    if not known:
        return "run `faber-ledger init` in it, and commit .claude/settings.json for the next one"
    for plugin in known:
        if plugin.scope is not None:
            return f"run `{plugin.command('enable')}` in it"
    return f"run `{known[0].command('install')}`, which reaches every folder of yours"


def describe_lacking(root: str, left: list[str], subject: str) -> Iterator[str]:
    """Say which hooks a client started in `root` lacks, those of the events `left`, and what to run."""
    alone = describe_agents_alone(root, left)
    if alone is not None:
        yield ": ".join(alone)
    elif left:
        missing = "no hooks" if len(left) == len(HOOKS) else f"no hook for {', '.join(left)}"
        yield f"{subject} {missing}: {hint_to_install(root)}"


def describe_agents(root: str) -> list[str]:
    """Return which files of other agents have our hooks, a sentence each."""
    return [f"{display_path(one.path, root)} has the hooks of {one.agent}" for one in list_agents(root)]


def describe_agents_alone(root: str, left: list[str]) -> tuple[str, str] | None:
    """Return that other agents have our hooks and the client lacks all, and what to do; None where it is otherwise.

    `left` are the events for which the client runs no hook of ours.
    """
    agents = describe_agents(root)
    if not agents or len(left) < len(HOOKS) or list_plugins(root):
        return None
    is_copilots = any([one.agent == "copilot" and one.scope == "project" for one in list_agents(root)])
    keeps = "`faber-ledger init --scope user`, which leaves Copilot's hooks as they are"
    install = keeps if is_copilots else "`faber-ledger init`"
    return (
        f"{', '.join(agents)}; the client itself has none: what it does is not recorded",
        f"nothing if you do not use it here; else run {install}",
    )
