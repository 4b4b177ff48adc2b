"""The click application: which module has which command, and how an error becomes an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

import click

from faber_ledger import __version__
from faber_ledger.cli.ui.output import json_text, no_pager_option, say, say_lines
from faber_ledger.ledger.command_errors import UsageFailed
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.file import is_busy, locked_error
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
    code = _run(arguments)
    if unused_tops and "--json" not in arguments:
        from faber_ledger.runs.ownership import describe_unused  # only below a repository of another user

        say(" - ".join(describe_unused()))
    return code


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code; the one place where an error becomes an exit code."""
    pending_warnings: list[str] = []  # click's context carries them to where a command's JSON object is printed
    output = sys.stdout
    try:
        code = app.main(arguments, prog_name="faber-ledger", standalone_mode=False, obj=pending_warnings)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return 130
    except SystemExit:
        if sys.stdout is output:
            raise
        return 0  # the reader of our output has left: click puts another file in its place then, and exits with 1
    except BrokenPipeError:
        _drop_unwritten_output()
        return 0
    except (click.ClickException, LedgerError, sqlite3.DatabaseError, OSError) as error:
        _drop_unwritten_output()
        return _report(_as_ledger_error(error), pending_warnings, as_json="--json" in arguments)


def _drop_unwritten_output() -> None:
    """Drop what standard output cannot take, so that Python does not try again, and fail, when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_ledger_error(error: click.ClickException | LedgerError | sqlite3.DatabaseError | OSError) -> LedgerError:
    if isinstance(error, LedgerError):
        return error
    if isinstance(error, click.ClickException):
        return _usage_error(error)
    if isinstance(error, sqlite3.DatabaseError):
        if is_busy(error):
            return locked_error("the ledger")
        return IntegrityError(f"the ledger cannot be read: {error}", hint="run `faber-ledger verify`")
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as os.getcwd raises it
        hint = "go to a folder that exists, and run the command again"
        return LedgerError("the current folder does not exist any more", hint=hint)
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free space on the disk" if is_full else "check that the file exists and that you may use it"
    return LedgerError(message, hint=hint)


def _usage_error(error: click.ClickException) -> LedgerError:
    """Return click's error with the wording and the hint that every other error has."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context else "faber-ledger"
    message = error.format_message().removesuffix(".")
    return UsageFailed(message[:1].lower() + message[1:], hint=f"run `{path} --help`")


def _report(error: LedgerError, pending_warnings: list[str], *, as_json: bool) -> int:
    """Print an error on standard error and return its exit code."""
    if as_json:
        data: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint, **error.data}
        if pending_warnings:
            data["warnings"] = pending_warnings
        click.echo(json_text({"error": data}, indent=None), err=True)
    elif error.block:
        say_lines(error.block)
    else:
        first, *others = error.lines
        for line in (f"error: {first}", *others):
            say(line)
        if error.hint:
            say("")
            say(f"hint: {error.hint}")
    return error.exit_code
