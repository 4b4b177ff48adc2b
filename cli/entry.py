"""The console script: a hook goes its own way before click is imported, everything else is a click command."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run `faber-ledger` with the process's arguments and exit with its code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"] and not {"--help", "-h"} & set(arguments[1:2]) and arguments[1:]:
        gc.disable()  # the process ends before there is anything to collect
        from faber_ledger.cli.hook import run_hook

        os._exit(run_hook(arguments[1]))  # all is written and closed; taking the interpreter apart is a tenth of a hook
    from faber_ledger.cli.app import run

    sys.exit(run(arguments))
