"""Measure what reads all runs of a project, and git's history of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from measure import Process, Row, measure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stage import Stage

RUNS, EVENTS = 300, 80_000
QUICK = (10, 2_000)
CACHE = Path(".git", "faber-ledger", "run-list.json")
TEXT_CACHE = "refs/notes/textconv/faber-ledger"
GOAL_STATUS, GOAL_FIRST, GOAL_SECOND = 3.0, 10.0, 1.5
WORDS = "artifact-7"


def measure_many_runs(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure commands over all runs against `--version`, and git's history against the same without the drivers."""
    runs, events = QUICK if quick else (RUNS, EVENTS)
    project = stage.many_runs(runs, events)
    rounds = 2 if quick else 7

    def process(*command: str) -> Process:
        return Process([*command], project, stage.environment)

    def forget_list() -> None:
        (project / CACHE).unlink(missing_ok=True)

    def forget_texts() -> None:
        subprocess.run(["git", "update-ref", "-d", TEXT_CACHE], cwd=project, check=True)

    def forget_nothing() -> None:
        pass

    version = process(stage.command, "--version")
    rows = []
    for words, goal, forget in (
        ("status", GOAL_STATUS, forget_nothing),
        ("run list", None, forget_list),
        ("run list", None, forget_nothing),
        ("doctor", None, forget_nothing),
        ("verify --all", None, forget_nothing),
        ("seal --all", None, forget_nothing),
    ):
        state = {forget_list: ", first", forget_nothing: ", again" if words == "run list" else ""}[forget]
        row = Row(f"`{words}`{state}, {runs} runs, {events:,} events", "`--version`", goal)
        measure([(row, process(stage.command, *words.split()), version)], rounds, forget)
        rows.append(row)
    for options in (("-S", WORDS), ("-G", WORDS), ("-p",)):
        log = ["git", "log", *options]
        plain = process(*log, "--no-textconv")
        for forget, goal, state in ((forget_texts, GOAL_FIRST, "first"), (forget_nothing, GOAL_SECOND, "again")):
            row = Row(f"`git log {' '.join(options)}`, {state}, of {runs} runs", "`--no-textconv`", goal)
            measure([(row, process(*log), plain)], 2 if forget is forget_texts else rounds, forget)
            rows.append(row)
    return rows
