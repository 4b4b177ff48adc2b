"""All checks by name, `theme.subject`, in the order in which their findings are reported and fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from faber_ledger.cli.doctor import files, git, hooks, runs, workflows
from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.doctor.patient import Patient

CHECKS: dict[str, Callable[[Patient], Iterable[Finding]]] = {
    "files.permissions": files.check_permissions,
    "git.repository": git.check_repository,
    "git.drivers": git.check_drivers,
    "git.lines": git.check_lines,
    "git.travels": git.check_travels,
    "git.stays": git.check_stays,
    "hooks.settings": hooks.check_settings,
    "hooks.installed": hooks.check_installed,
    "hooks.once": hooks.check_once,
    "hooks.agents": hooks.check_agents,
    "hooks.program": hooks.check_program,
    "hooks.log": hooks.check_hook_log,
    "hooks.waiting": hooks.check_waiting,
    "runs.folder": runs.check_folders,
    "runs.active": runs.check_active,
    "runs.backups": files.check_backups,
    "ledger.sound": runs.check_ledgers,
    "ledger.set_aside": runs.check_set_aside,
    "clone.worktrees": git.check_worktrees,
    "workflow.usable": workflows.check_workflows,
    "workflow.artifacts": workflows.check_artifacts,
    "workflow.configuration": workflows.check_configuration,
}
