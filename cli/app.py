"""The click application: which command stands in which module, and how an error becomes an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sqlite3
import sys

import click

from faber_ledger import __version__
from faber_ledger.cli.output import json_text, kept, say
from faber_ledger.ledger.errors import IntegrityError, LedgerError, UsageFailed
from faber_ledger.ledger.header import is_busy, locked

COMMANDS = {
    "init": "faber_ledger.cli.init:init",
    "uninstall": "faber_ledger.cli.uninstall:uninstall",
    "run": "faber_ledger.cli.run:run",
    "workflow-run": "faber_ledger.cli.run:workflow_run",
    "worktree": "faber_ledger.cli.worktree:worktree",
    "session-load": "faber_ledger.cli.session_load:session_load",
    "prime-context": "faber_ledger.cli.session_load:session_load",
    "session-save": "faber_ledger.cli.session_save:session_save",
    "session-end": "faber_ledger.cli.session_save:session_save",
    "reconstitute": "faber_ledger.cli.reconstitute:reconstitute",
    "note": "faber_ledger.cli.note:note",
    "status": "faber_ledger.cli.run_list:status",
    "config": "faber_ledger.cli.config:config",
    "log": "faber_ledger.cli.log:log",
    "replay": "faber_ledger.cli.replay:replay",
    "show": "faber_ledger.cli.show:show_one",
    "export": "faber_ledger.cli.export:export",
    "import": "faber_ledger.cli.import_events:import_events",
    "timeline": "faber_ledger.cli.timeline:timeline",
    "verify": "faber_ledger.cli.verify:verify",
    "redact": "faber_ledger.cli.redact:redact",
    "project": "faber_ledger.cli.project:project",
    "seal": "faber_ledger.cli.seal:seal",
    "resolve": "faber_ledger.cli.resolve:resolve",
    "union": "faber_ledger.cli.union:union",
    "merge-driver": "faber_ledger.cli.merge_driver:merge_driver",
    "textconv": "faber_ledger.cli.textconv:textconv",
    "doctor": "faber_ledger.cli.doctor:doctor",
    "migrate": "faber_ledger.cli.migrate:migrate",
    "hook": "faber_ledger.cli.hook_command:hook",
    "demo": "faber_ledger.cli.demo:demo",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for, so that one command does not pay for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of all commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="faber-ledger")
def app() -> None:
    """Record what happens to the agent's sessions in a FABER run, and give its context back."""


def run(arguments: list[str]) -> int:
    """Run one command and give its exit code; the one place where an error becomes one."""
    kept.clear()
    try:
        code = app.main(arguments, prog_name="faber-ledger", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        if "--json" in arguments:
            return _failed(_wrong_usage(error), arguments)
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LedgerError as error:
        return _failed(error, arguments)
    except sqlite3.DatabaseError as error:
        damaged = IntegrityError(f"the ledger cannot be read: {error}", hint="run `faber-ledger verify`")
        return _failed(locked("the ledger") if is_busy(error) else damaged, arguments)
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free space on the disk" if full else "check that the file exists and that you may use it"
        return _failed(LedgerError(named, hint=hint), arguments)


def _wrong_usage(error: click.ClickException) -> LedgerError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context else "faber-ledger"
    return UsageFailed(error.format_message(), hint=f"run `{path} --help`")


def _failed(error: LedgerError, arguments: list[str]) -> int:
    if "--json" in arguments:
        told: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint, **error.data}
        if kept:
            told["warnings"] = kept
        click.echo(json_text({"error": told}, indent=None), err=True)
    elif error.block:
        say(error.block)
    else:
        say(f"error: {error.message}")
        if error.hint:
            say("")
            say(f"hint: {error.hint}")
    return error.exit_code
