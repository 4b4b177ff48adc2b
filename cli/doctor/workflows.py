"""The workflows of the runs at work, and what the project and the user have configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.context.workflow import lineage, load_workflow
from faber_ledger.ledger.errors import LedgerError, WorkflowNotFound
from faber_ledger.runs.run import find_run
from faber_ledger.runs.settings import Settings, read_user_config

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


RELOADS = ("auto-reload", "prime-context", "session-load")
LISTS = ("pre_steps", "steps", "post_steps")
MOST = 20


def workflows_can_be_used(patient: Patient) -> Iterator[Finding]:
    """Look for runs at work whose workflow is missing or malformed."""
    roots = read_user_config()["plugin_roots"]
    for workflow_id, run_id in _used(patient).items():
        try:
            load_workflow(patient.root, workflow_id, roots)
        except WorkflowNotFound as error:
            yield Finding("warning", f"{run_id}: {error.message}", error.hint)


def context_is_reloaded_in_frame_alone(patient: Patient) -> Iterator[Finding]:
    """Look for a step that reloads context in another phase than Frame: hooks do that (SPEC-00027, section 6)."""
    roots = read_user_config()["plugin_roots"]
    told: set[tuple[str, str]] = set()
    for workflow_id in _used(patient):
        try:
            for _, path, config in lineage(patient.root, workflow_id, roots):
                for phase, step in _reloads(config):
                    if (path, phase) not in told:
                        told.add((path, phase))
                        what = f"{path} reloads context in {phase} too, by its step {step}: hooks do that"
                        yield Finding("warning", what, f"take the step out of {phase}; Frame alone has it")
        except WorkflowNotFound:
            continue  # told by the check before


def configuration_is_taken(patient: Patient) -> Iterator[Finding]:
    """Look for what could not be taken of the project's, the run's and the user's configuration."""
    problem = read_user_config()["problem"]
    if problem is not None:
        yield Finding("warning", f"the configuration counts as empty: {problem}", "correct the file")
    try:
        run = find_run(patient.root, patient.active or "none")
    except LedgerError:
        return  # told by the check of the active file
    for problem in Settings(run, os.environ).problems:
        yield Finding("warning", problem, "correct it; `faber-ledger config show` tells what holds")


def _used(patient: Patient) -> dict[str, str]:
    """Give the workflows of the runs at work, each with the first run that has it."""
    found: dict[str, str] = {}
    for run in patient.runs:
        workflow_id = patient.state(run).get("workflow_id")
        if isinstance(workflow_id, str) and (patient.is_at_work(run) or run.run_id == patient.active):
            found.setdefault(workflow_id, run.run_id)
    return dict(list(found.items())[:MOST])


def _reloads(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the phases other than Frame that have a reloading step, and the step's id."""
    phases = config.get("phases")
    for phase, content in phases.items() if isinstance(phases, dict) else ():
        if phase == "frame" or not isinstance(content, dict):
            continue
        for name in LISTS:
            steps = content.get(name)
            for step in steps if isinstance(steps, list) else ():
                said = [step.get("id"), step.get("prompt"), step.get("command")] if isinstance(step, dict) else [step]
                if any([word in text for text in said if isinstance(text, str) for word in RELOADS]):
                    yield phase, str(said[0])[:80]
