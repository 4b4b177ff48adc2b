"""How commands print and ask: data on standard output, messages on standard error, and one JSON envelope.

Long output goes through a pager, as in git: only on a terminal, and leaving the pager early is not an error.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import click

from faber_ledger.files.text import escape, escape_lines, is_hidden
from faber_ledger.ledger.command_errors import ChoiceNeeded
from faber_ledger.ledger.errors import LedgerError

P = ParamSpec("P")
R = TypeVar("R")

RESULT_VERSION = 1

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def show(data: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a command's result: its lines for people, or its data in the JSON envelope."""
    if as_json:
        warnings = pending_warnings()
        answer = {**data, "warnings": warnings} if warnings and isinstance(data, dict) else data
        click.echo(json_text({"result_version": RESULT_VERSION, "data": answer}))
    else:
        for line in lines:
            tell(line)


def json_text(data: Any, indent: int | None = 2) -> str:
    """Return data as JSON, with control and other invisible characters escaped."""
    try:
        text = json.dumps(data, ensure_ascii=False, indent=indent)
    except RecursionError:  # indenting takes a stack frame per level, reading does not
        text = json.dumps(data, ensure_ascii=False)
    return escape_json(text)


def escape_json(text: str) -> str:
    """Escape invisible characters in a JSON text; the newlines between its members stay."""
    if text.isascii() and "\x7f" not in text:
        return text
    hidden = [letter for letter in set(text) if letter != "\n" and is_hidden(letter)]
    return text.translate({ord(letter): json.dumps(letter)[1:-1] for letter in hidden}) if hidden else text


def tell(line: str) -> None:
    """Print one line on standard output, with newlines and invisible characters escaped."""
    click.echo(escape(line))


def say(line: str) -> None:
    """Print one line on standard error, escaped as by `tell`."""
    click.echo(escape(line), err=True)


def tell_lines(text: str) -> None:
    """Print a text of several lines on standard output; each value in it that is not ours must be one line."""
    click.echo(escape_lines(text))


def say_lines(text: str) -> None:
    """Print a text of several lines on standard error, as `tell_lines` does."""
    click.echo(escape_lines(text), err=True)


def warn(line: str) -> None:
    """Print a warning of one line on standard error; with `--json` keep it for the one object that is printed."""
    _warn(line, say)


def warn_of(text: str) -> None:
    """Warn as `warn` does, with a mark, of something that went wrong beside what the command does."""
    warn(f"⚠️  {text}")


def warn_lines(text: str) -> None:
    """Warn as `warn` does, with a text of several lines; each value in it that is not ours must be one line."""
    _warn(text, say_lines)


def _warn(text: str, print_text: Callable[[str], None]) -> None:
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("as_json"):
        pending_warnings().append(text)
        return
    print_text(text)


def pending_warnings() -> list[str]:
    """Return the warnings that the command's JSON object will carry; `cli.app` makes the list for each call."""
    context = click.get_current_context(silent=True)
    pending: list[str] | None = context.ensure_object(list) if context is not None else None
    return [] if pending is None else pending


def ask_number(last: int) -> int:
    """Ask for a number from 1 to `last` until one is given; raises click's Abort at the end of the input."""
    while True:
        number: int = click.prompt("", prompt_suffix="> ", type=int, err=True)
        if 1 <= number <= last:
            return number
        say(f"There is no number {number}.")


def documents_codes(command: Callable[P, R]) -> Callable[P, R]:
    """Make a command fail with exit code 1 only, or 3 if it needs a choice, as the requirement documents say."""

    @functools.wraps(command)
    def call_command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except LedgerError as error:
            error.exit_code = 3 if isinstance(error, ChoiceNeeded) else 1
            raise

    return call_command


def _switch_off(ctx: click.Context, _: click.Parameter, is_off: bool) -> None:
    if is_off:
        ctx.meta[SWITCHED_OFF] = True


SWITCHED_OFF = "faber_ledger.no_pager"
no_pager_option = click.option(
    "--no-pager", is_flag=True, expose_value=False, callback=_switch_off, help="Print without a pager."
)


def show_long(lines: Callable[[], Iterable[str]]) -> None:
    """Print lines with control characters made visible; on a terminal through the user's pager."""
    if not sys.stdout.isatty() or click.get_current_context().meta.get(SWITCHED_OFF):
        for line in lines():
            tell(line)
        return
    os.environ.setdefault("LESS", "FRX")  # as git does: what fits on the screen needs no pager
    with click.get_pager_file() as pager:
        for line in lines():
            pager.write(f"{escape(line)}\n")
