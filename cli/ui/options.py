"""Options that `init` and `uninstall` share."""

from __future__ import annotations

import click

from faber_ledger.hooks.client_settings import SCOPES

scope_option = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="project",
    show_default=True,
    help="project: .claude/settings.json, shared. local: .claude/settings.local.json, this machine. "
    "user: settings.json in ~/.claude or $CLAUDE_CONFIG_DIR, all projects.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change as a diff and write nothing.")
