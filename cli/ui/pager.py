"""Long output through a pager, as in git: only on a terminal, and leaving the pager early is not an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

import click

from faber_ledger.cli.ui.output import say, tell
from faber_ledger.files.text import escape

NOT_STARTED = (126, 127)  # a shell's exit codes for a program that is not executable or not found
SWITCHED_OFF = "faber_ledger.no_pager"


def _switch_off(ctx: click.Context, _: click.Parameter, is_off: bool) -> None:
    if is_off:
        ctx.meta[SWITCHED_OFF] = True


no_pager_option = click.option(
    "--no-pager", is_flag=True, expose_value=False, callback=_switch_off, help="Print without a pager."
)


def show_long(lines: Callable[[], Iterable[str]]) -> None:
    """Print lines with control characters made visible; on a terminal through the user's pager.

    `lines` is called again if the pager cannot be started.
    """
    command = _pager()
    if command and _page(command, lines()):
        return
    for line in lines():
        tell(line)


def _pager() -> str:
    """Return the pager's command line, for a shell; empty for no pager."""
    context = click.get_current_context(silent=True)
    is_on_terminal = sys.stdout is not None and sys.stdout.isatty()  # None: the shell closed it
    if not is_on_terminal or (context is not None and context.meta.get(SWITCHED_OFF)):
        return ""
    for name in ("FABER_LEDGER_PAGER", "PAGER"):
        command = os.environ.get(name)
        if command is not None:
            return "" if command.strip() in ("", "cat") else command
    return "less"


def _page(command: str, lines: Iterable[str]) -> bool:
    """Write lines to a pager and wait until it ends; return False if it could not be started."""
    import signal  # imported here: `--help` and `--version` load this module
    import subprocess

    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    # An interrupt is for the pager, where it ends a search; it must not end us while the pager uses the terminal.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with process.stdin as pipe:
            for line in lines:
                pipe.write(f"{escape(line)}\n".encode())
    except BrokenPipeError:
        pass  # the user has seen enough
    finally:
        code = process.wait()
        signal.signal(signal.SIGINT, before)
    if code in NOT_STARTED:
        say(f"cannot start the pager {command!r}; see FABER_LEDGER_PAGER and PAGER")
    return code not in NOT_STARTED
