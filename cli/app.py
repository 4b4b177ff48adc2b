"""The click application: which module has which command."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from faber_ledger import __version__
from faber_ledger.cli.ui.errors import run_command
from faber_ledger.cli.ui.output import no_pager_option, say
from faber_ledger.runs.git import unused_tops

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# A command's module is imported when the command is called; its short help is here for the list of all commands.
SECTIONS = {
    "Set up": {
        "init": ("init:init", "Add the four hooks to the client's settings."),
        "uninstall": ("uninstall:uninstall", "Remove what `init` added."),
        "db": ("db:db", "Set up the team's server."),
        "team": ("team:team", "Join a team's server."),
        "demo": ("demo:demo", "Show a run on two machines."),
        "hook": ("hook:hook", "Answer one of the client's hooks."),
    },
    "Runs": {
        "run": ("run:run", "Start, resume and list runs."),
        "worktree": ("worktree:worktree", "List and clean up the worktrees of this clone."),
        "workflow-run": ("run_start:workflow_run", "Alias of `run start`."),
    },
    "Context": {
        "session-load": ("session_load:session_load", "Load the critical artifacts into context."),
        "prime-context": ("session_load:session_load", "Alias of `session-load`."),
        "session-save": ("session_save:session_save", "End the open session and record it."),
        "session-end": ("session_save:session_save", "Alias of `session-save`."),
        "reconstitute": ("reconstitute:reconstitute", "Reconstitute the context of a run."),
        "note": ("note:note", "Record what the next session should know."),
        "mcp": ("mcp:mcp", "Answer an agent's calls of the Model Context Protocol."),
    },
    "Look": {
        "status": ("status:status", "Show where a run stands."),
        "log": ("log:log", "List the events of a run."),
        "replay": ("replay:replay", "Show a run's sessions, what each event changed, or a moment."),
        "show": ("show:show_one", "Show everything about one event, session or artifact."),
        "fleet": ("fleet:fleet", "Show who works on what, on all machines."),
        "search": ("search:search", "Find words in what the runs recorded."),
        "page": ("page:page", "Show the runs live in the browser."),
        "timeline": ("timeline:timeline", "Draw a run as a file."),
    },
    "Check": {
        "verify": ("verify:verify", "Check a log, and state.json against it."),
        "doctor": ("doctor:doctor", "Check the set-up, and say what to run."),
        "project": ("project:project", "Write state.json's two blocks from the log."),
        "redact": ("redact:redact", "Remove an event's payload from the log, or put it back."),
    },
    "Git": {
        "seal": ("seal:seal", "Make a run ready for a commit, and stage it."),
        "resolve": ("resolve:resolve", "Resolve the conflicts that a merge left in runs' files."),
        "merge-driver": ("git_calls:merge_driver", "Merge a run's file; git calls it."),
        "textconv": ("git_calls:textconv", "Show a ledger file as text; git calls it."),
    },
    "Exchange": {
        "sync": ("sync:sync", "Exchange runs with git refs or the server."),
        "export": ("exchange:export", "Write a run's events as JSON lines."),
        "import": ("exchange:import_events", "Import events that `export` wrote."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
# What each alias stands for; it has the help of that command.
ALIASES = {"workflow-run": "run start", "prime-context": "session-load", "session-end": "session-save"}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that no command pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"faber_ledger.cli.commands.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; an unknown name fails with the names that are similar."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands section by section, without importing any."""
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in section])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands and options that begin with `incomplete`, as click does, without importing any."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in COMMANDS if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="faber-ledger")
@no_pager_option
def app() -> None:
    """Record what happens to the agent's sessions in a FABER run, and restore its context."""


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; say which repository above the project was not used."""
    _open_closed_streams()
    code = run_command(app, arguments)
    if unused_tops and "--json" not in arguments:
        from faber_ledger.runs.ownership import describe_unused  # only below a repository of another user

        say(" - ".join(describe_unused()))
    return code


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that the caller has closed: Python has None for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, errors="replace"))  # noqa: SIM115  # it stays open
