"""Our hooks in other agents' files: complete, once, and as `init --agent` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.setup.agent_files import EVENTS, list_agents, list_damaged
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.cli.setup.copilot import describe_copilot_twice, settings_of_copilot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.doctor.patient import Patient


def agents_hooks_are_in_order(patient: Patient) -> Iterator[Finding]:
    """Look for agents' hooks that are missing, repeated, edited, or in two files that the agent reads.

    And for files that no agent can read.
    """
    for agent, problem in list_damaged(patient.root):
        yield Finding("warning", f"{problem}; {agent} runs none of its hooks", "fix the file")
    files = list_agents(patient.root)
    for file in files:
        shown = display_path(file.path, patient.root)
        add = f"faber-ledger init --agent {file.agent}{' --scope user' if file.scope == 'user' else ''}"
        missing = [event for event in EVENTS[file.agent] if event not in file.entries]
        if missing:
            what = f"{shown} has no hook for {', '.join(missing)}: what {file.agent} does then is not recorded"
            yield Finding("warning", what, f"run `{add}`")
        for event, entries in file.entries.items():
            if len(entries) > 1:
                what = f"{shown} has {len(entries)} hooks for {event}: {file.agent} runs each"
                yield Finding("warning", what, "remove all but one")
            if file.is_edited(event):
                what = f"{shown} runs a hook at {event} in another form than `init --agent {file.agent}` writes"
                yield Finding("note", what, f"leave it if it is intended; or remove it, then run `{add}`")
    for what, hint in describe_copilot_twice(patient.root, settings_of_copilot(patient.root)):
        yield Finding("warning", what, hint)
    for agent in EVENTS:
        paths = [display_path(file.path, patient.root) for file in files if file.agent == agent]
        if len(paths) > 1:
            what = f"{' and '.join(paths)} both have the hooks of {agent}: each delivery is recorded once"
            yield Finding("note", what, "nothing to do, unless you want them in one place only")
