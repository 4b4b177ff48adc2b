"""Measure hooks as users have them, installed with the pip of a fresh virtual environment and with the newest.

Writes its part of RESULTS.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from measure import count_instructions, measure
from report import list_missed, write_table
from results import digest_code, name_commit, write_part
from run import check_hooks, describe_machine, list_hooks
from stage import SUMMARY, Stage

ROUNDS = 20
TEXT = """\
## Hooks

Of {commit}.

The wheel is installed in two fresh virtual environments: with the pip that `python -m venv` brings, and with the
newest. The real summary of a compaction has {size:.1f} KB and mentions tokens and keys (`bench/summary.txt`).

{table}
{missed}
{machine}"""


def main() -> None:
    """Measure, and write the part."""
    load, commit, digest = os.getloadavg()[0], name_commit("hooks"), digest_code("hooks")
    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stages = [Stage(Path(folder) / name) for name in ("first", "newest")]
        for stage, is_newest in zip(stages, (False, True), strict=True):
            stage.folder.mkdir()
            stage.install(is_newest=is_newest, extras="")
            stage.fill()
            check_hooks(stage)
        rows = []
        for stage in stages:
            contenders = list_hooks(stage)
            for row, _, _ in contenders:
                row.what += f", pip {stage.pip_version()}"
            print(f"measuring hooks with pip {stage.pip_version()} …", file=sys.stderr)
            measure(contenders, ROUNDS, stage.restore)
            count_instructions(contenders, stage.restore, stage.folder)
            rows += [row for row, _, _ in contenders]
        machine = describe_machine(stages[0], load)
    tables = {"table": write_table(rows), "missed": list_missed(rows)}
    write_part("hooks", digest, TEXT.format(commit=commit, size=len(SUMMARY) / 1000, machine=machine, **tables))


if __name__ == "__main__":
    main()
