"""`faber-ledger doctor`: check the set-up, and say what is wrong and what to run."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from faber_ledger.cli.doctor import git, hooks, runs, workflows
from faber_ledger.cli.doctor.patient import LEVELS, Finding, Patient, run_check, worst
from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.words import plural
from faber_ledger.cli.worktrees.git import refuse_bare, require_project
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import NotWell
from faber_ledger.runs.git_command import limit_answers
from faber_ledger.runs.run import find_root

Results = dict[str, list[Finding]]
GIT_SECONDS = 10.0  # for each answer: whatever stops git from answering is what the user wants to find
# By name, `theme.subject`, in the order in which findings are reported.
CHECKS: dict[str, Callable[[Patient], Iterable[Finding]]] = {
    "files.permissions": runs.check_permissions,
    "git.repository": git.check_repository,
    "git.drivers": git.check_drivers,
    "git.lines": git.check_lines,
    "git.travels": git.check_travels,
    "git.stays": git.check_stays,
    "git.carry": git.check_carry,
    "hooks.settings": hooks.check_settings,
    "hooks.installed": hooks.check_installed,
    "hooks.once": hooks.check_once,
    "hooks.agents": hooks.check_agents,
    "hooks.program": hooks.check_program,
    "hooks.log": hooks.check_hook_log,
    "hooks.waiting": hooks.check_waiting,
    "runs.active": runs.check_active,
    "runs.backups": runs.check_backups,
    "ledger.sound": runs.check_ledgers,
    "ledger.set_aside": runs.check_set_aside,
    "workflow.usable": workflows.check_workflows,
    "workflow.artifacts": workflows.check_artifacts,
    "workflow.configuration": workflows.check_configuration,
}


@click.command()
@json_option
@limit_answers(GIT_SECONDS)
def doctor(as_json: bool) -> int:
    """Check hooks, git, files, runs, ledgers and clone, and say what to run; nothing is written.

    \b
    Example: faber-ledger doctor
    Exit codes: 0 no problems, or only notes; 1 outside a project; 2 wrong usage;
    23 a warning or an error is left.
    """
    root = find_root(os.getcwd())
    refuse_bare(root)
    require_project(root)
    results = run_checks(Patient(root, at=now()))
    data = {"root": root, "checks": [_check_data(name, findings) for name, findings in results.items()]}
    show(data, _lines(results), as_json=as_json)
    return NotWell.exit_code if {"warning", "error"} & set(map(worst, results.values())) else 0


def run_checks(patient: Patient) -> Results:
    """Run every check and return the findings by its name; a check that fails is itself a finding."""
    return {name: run_check(find, patient) for name, find in CHECKS.items()}


def _check_data(name: str, findings: list[Finding]) -> dict[str, Any]:
    data = [{"level": one.level, "what": one.what, "hint": one.hint} for one in findings]
    return {"check": name, "level": worst(findings), "findings": data}


def _lines(results: Results) -> Iterator[str]:
    """Return what needs somebody, the worst first, and how many findings there are of each level."""
    found = [(name, finding) for name, findings in results.items() for finding in findings]
    totals = []
    for level in reversed(LEVELS[1:]):
        of_level = [(name, finding) for name, finding in found if finding.level == level]
        for name, finding in of_level:
            yield f"{level:<7}  {name}: {finding.what}"
            if finding.hint:
                yield f"         hint: {finding.hint}"
        totals += [plural(len(of_level), level)] if of_level else []
    yield from [""] if totals else []
    yield f"{len(results)} checks: {', '.join(totals) or 'no problems'}"
