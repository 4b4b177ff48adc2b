"""All checks, in the order in which their findings are reported and fixed."""

from __future__ import annotations

from faber_ledger.cli.doctor import files, git, hooks, runs, workflows
from faber_ledger.cli.doctor.finding import Check

CHECKS = (
    Check("files.permissions", files.check_permissions),
    Check("git.repository", git.check_repository),
    Check("git.drivers", git.check_drivers),
    Check("git.lines", git.check_lines),
    Check("git.travels", git.check_travels),
    Check("git.stays", git.check_stays),
    Check("hooks.settings", hooks.check_settings),
    Check("hooks.installed", hooks.check_installed),
    Check("hooks.once", hooks.check_once),
    Check("hooks.agents", hooks.check_agents),
    Check("hooks.program", hooks.check_program),
    Check("hooks.log", hooks.check_hook_log),
    Check("hooks.waiting", hooks.check_waiting),
    Check("runs.folder", runs.check_folders),
    Check("runs.active", runs.check_active),
    Check("runs.backups", files.check_backups),
    Check("ledger.sound", runs.check_ledgers),
    Check("ledger.set_aside", runs.check_set_aside),
    Check("clone.worktrees", git.check_worktrees),
    Check("workflow.usable", workflows.check_workflows),
    Check("workflow.artifacts", workflows.check_artifacts),
    Check("workflow.configuration", workflows.check_configuration),
)
