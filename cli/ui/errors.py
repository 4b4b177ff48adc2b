"""How an error of a command becomes its message and its exit code."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys

import click

from faber_ledger.cli.ui.output import json_text, say, say_lines
from faber_ledger.ledger.command_errors import UsageFailed
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.file import is_busy, locked_error


def run_command(app: click.Command, arguments: list[str]) -> int:
    """Run one command of `app` and return its exit code; the one place where an error becomes an exit code."""
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
        return LedgerError("the current folder no longer exists", hint=hint)
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
