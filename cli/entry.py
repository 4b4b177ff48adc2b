"""The console script: hooks and git's `textconv` run without click; everything else is a click command."""

from __future__ import annotations

import gc
import os
import sys

ASKING = {"--help", "-h", "--version"}


def main() -> None:
    """Run `faber-ledger` with the process's arguments and exit with its code."""
    arguments = sys.argv[1:]
    words = _hook_in(arguments)
    if words is not None:
        gc.disable()  # the process ends before there is anything to collect
        from faber_ledger.hooks.main import main as hook

        hook(words)
    if _is_call_of_git(arguments):
        gc.disable()
        from faber_ledger.cli.ui.event_words import print_ledger

        try:
            print_ledger(arguments[1])
            os._exit(0)
        except OSError:
            pass  # standard output cannot be written: the command below finds that too, and reports it
    from faber_ledger.cli.app import run
    from faber_ledger.hooks.agent_call import join_session

    join_session()
    sys.exit(run(arguments))


def _hook_in(arguments: list[str]) -> list[str] | None:
    """Return the words after `hook`, whatever options precede it; None for another command, and for its help."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    if arguments[at : at + 1] != ["hook"] or ASKING & set(arguments[: at + 2]):
        return None
    return arguments[at + 1 :] or None


def _is_call_of_git(arguments: list[str]) -> bool:
    """Return whether git asks for the text of a ledger, which it does for each version of each ledger that it shows."""
    return len(arguments) == 2 and arguments[0] == "textconv" and arguments[1][:1] not in ("", "-")
