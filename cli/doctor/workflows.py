"""The workflows of unfinished runs and what they require, and the configuration of project and user."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from faber_ledger.cli.doctor.patient import Finding, Patient
from faber_ledger.cli.ui.server import list_exposed
from faber_ledger.context.reload import gather_for_hook
from faber_ledger.context.workflow import lineage, load_workflow
from faber_ledger.ledger.errors import LedgerError, WorkflowNotFound
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import workflow_id_of

RELOADS = ("auto-reload", "prime-context", "session-load")
LISTS = ("pre_steps", "steps", "post_steps")
MOST = 20
MISSING = (
    "create it, or correct its path in the workflow; if a plugin brings it, install the plugin, or name its folder in"
    " plugin_roots of ~/.config/faber-ledger/config.json"
)


def check_workflows(patient: Patient) -> Iterator[Finding]:
    """Look for workflows of unfinished runs that are missing or malformed, or reload context outside of Frame.

    Hooks do that (SPEC-00027, section 6).
    """
    roots = read_user_config()["plugin_roots"]
    reported: set[tuple[str, str]] = set()
    for workflow_id, run_id in _find_workflows(patient).items():
        try:
            warnings = load_workflow(patient.root, workflow_id, roots)["warnings"]
            configurations = [*lineage(patient.root, workflow_id, roots)]
        except WorkflowNotFound as error:
            yield Finding("warning", f"{run_id}: {error.message}", error.hint)
            continue
        for warning in warnings:
            text = warning.removeprefix("⚠️ WARNING: ")
            yield Finding("warning", f"{run_id}: {text}", "correct `extends` in the workflow, or add that workflow")
        for _, path, configuration in configurations:
            for phase, step in _find_reloads(configuration):
                if (path, phase) not in reported:
                    reported.add((path, phase))
                    what = f"{path} also reloads context in {phase}, in its step {step}: hooks do that"
                    yield Finding("warning", what, f"remove the step from {phase}; only Frame needs it")


def check_artifacts(patient: Patient) -> Iterator[Finding]:
    """Look for required artifacts that the next session of a run at work would not get."""
    for run in [run for run in patient.runs if patient.is_run_active(run)][:MOST]:
        result = gather_for_hook(run, patient.state(run), compacted=False, at=patient.at, dry_run=True)
        for failed in result.required_failed:
            artifact, error = failed["artifact"], failed["error"]
            yield Finding(
                "warning",
                f"{run.run_id}: its required artifact {artifact['id']} cannot be loaded: {error.message}",
                MISSING if error.is_missing else "correct the artifact in the workflow, or what it names",
            )


def check_configuration(patient: Patient) -> Iterator[Finding]:
    """Look for problems in the configuration of project, run and user."""
    user = read_user_config()
    if user["problem"] is not None:
        yield Finding("warning", f"the configuration is ignored: {user['problem']}", "correct the file")
    problems = [*[f"{user['path']}: {one}" for one in user["unknown"]], *list_exposed(user)]
    with suppress(LedgerError):  # reported by the check of the active file
        problems += patient.settings.problems
    for problem in problems:
        yield Finding("warning", problem, "correct it, and run the command again")


def _find_workflows(patient: Patient) -> dict[str, str]:
    """Return the workflows of unfinished runs, each with the first run that has it."""
    found: dict[str, str] = {}
    for run in patient.runs:
        workflow_id = workflow_id_of(run, patient.state(run))
        if isinstance(workflow_id, str) and (patient.is_run_active(run) or run.run_id == patient.active):
            found.setdefault(workflow_id, run.run_id)
    return dict(list(found.items())[:MOST])


def _find_reloads(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the phases other than Frame with a step that reloads context, and the step's id."""
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
