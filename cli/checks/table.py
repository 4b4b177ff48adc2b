"""The table of all checks, in the order in which they are told and mended."""

from __future__ import annotations

from faber_ledger.cli.checks import client, clone, deliveries, files, git, hooks, layout, ledgers, machine, workflows
from faber_ledger.cli.checks.finding import Check

CHECKS = (
    Check("versions", machine.versions_are_known),
    Check("files.system", machine.file_system_is_local),
    Check("files.space", machine.file_system_can_be_written),
    Check("files.permissions", files.files_can_be_used),
    Check("git.repository", git.git_is_there),
    Check("git.drivers", git.drivers_are_registered),
    Check("git.autostash", git.pulls_go_over_changes),
    Check("git.attributes", git.attributes_are_written),
    Check("git.ignore", git.leavings_are_ignored),
    Check("git.travels", git.travellers_are_taken),
    Check("git.stays", git.leavings_are_untracked),
    Check("hooks.settings", hooks.settings_can_be_read),
    Check("hooks.installed", hooks.hooks_are_installed),
    Check("hooks.once", hooks.hooks_are_installed_once),
    Check("hooks.place", hooks.hooks_are_in_place),
    Check("hooks.command", hooks.commands_are_current),
    Check("hooks.timeout", hooks.hooks_have_time),
    Check("hooks.program", client.program_is_found),
    Check("hooks.client", client.client_is_new_enough),
    Check("hooks.compactions", client.compactions_are_completed),
    Check("hooks.log", deliveries.hooks_have_not_failed),
    Check("hooks.repeated", deliveries.deliveries_come_once),
    Check("hooks.waiting", deliveries.nothing_waits),
    Check("runs.folder", layout.runs_folder_is_one),
    Check("runs.names", layout.runs_have_their_names),
    Check("runs.leftovers", layout.folders_hold_runs_alone),
    Check("runs.active", layout.active_run_is_there),
    Check("runs.sessions", ledgers.sessions_are_open_where_they_run),
    Check("runs.sizes", files.sizes_are_usual),
    Check("runs.backups", files.backups_are_few),
    Check("ledger.format", ledgers.formats_are_known),
    Check("ledger.sound", ledgers.ledgers_are_sound),
    Check("ledger.rollback", ledgers.nothing_is_rolled_back),
    Check("ledger.projection", ledgers.states_show_the_logs),
    Check("clone.mirrors", clone.mirrors_have_their_runs),
    Check("clone.worktrees", clone.worktrees_are_in_order),
    Check("clone.registry", clone.registry_can_be_read),
    Check("workflow.usable", workflows.workflows_can_be_used),
    Check("workflow.reload", workflows.context_is_reloaded_in_frame_alone),
    Check("workflow.configuration", workflows.configuration_is_taken),
)
