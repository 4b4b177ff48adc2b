"""Long output through a pager, as git does it: on a terminal alone, and a pager that is left early is no error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import say, tell
from faber_ledger.cli.ui.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


NOT_STARTED = (126, 127)  # what a shell says of a program that is not there, or is none
SWITCHED_OFF = "faber_ledger.no_pager"


def _switch_off(ctx: click.Context, _: click.Parameter, is_off: bool) -> None:
    if is_off:
        ctx.meta[SWITCHED_OFF] = True


no_pager_option = click.option(
    "--no-pager", is_flag=True, expose_value=False, callback=_switch_off, help="Print without a pager."
)


def show_long(lines: Callable[[], Iterable[str]]) -> None:
    """Print lines, each with its control characters made visible; on a terminal through the user's pager.

    `lines` is asked again if the pager cannot be started.
    """
    command = _pager()
    if command and _paged(command, lines()):
        return
    for line in lines():
        tell(line)


def _pager() -> str:
    """Give the pager's command line, for a shell; empty for none."""
    context = click.get_current_context(silent=True)
    if not sys.stdout.isatty() or (context is not None and context.meta.get(SWITCHED_OFF)):
        return ""
    for name in ("FABER_LEDGER_PAGER", "PAGER"):
        command = os.environ.get(name)
        if command is not None:
            return "" if command.strip() in ("", "cat") else command
    return "less"


def _paged(command: str, lines: Iterable[str]) -> bool:
    """Write lines to a pager and wait for its end; False if it could not be started."""
    import signal  # both at their use: `--help` and `--version` load this module
    import subprocess

    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    # An interrupt is the pager's: it ends a search there, and must not take the terminal from under it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with process.stdin as pipe:
            for line in lines:
                pipe.write(f"{printable(line)}\n".encode())
    except BrokenPipeError:
        pass  # the user has seen enough
    finally:
        code = process.wait()
        signal.signal(signal.SIGINT, before)
    if code in NOT_STARTED:
        say(f"the pager {command!r} cannot be started; see FABER_LEDGER_PAGER and PAGER")
    return code not in NOT_STARTED
