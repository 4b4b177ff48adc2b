"""Measure what users wait for, as ratios, side by side in one run; writes bench/RESULTS.md unless `--quick`."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from growth import RELOADS, growth
from measure import Process, Row, count_instructions, measure
from memory import OPERATIONS
from report import counted, missed, table
from stage import DELIVERIES, Stage

from faber_ledger.hooks.client_settings import hook_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rounds = Sequence[tuple[float, float]]

HEAD = """\
# What it costs

Written by `make bench`. Each line is a ratio: the process was run right after its peer, round after round, on the same
machine, and what stands here is the median of the rounds' ratios, with the quartiles as the spread. REF is a whole
process of `python -c 'import sqlite3, json'` with the same interpreter: what any program that opens a ledger must pay.
The wheel is installed as users install it, bytecode included. The project is a git repository with a run of one ended
session; its hooks append their facts durably, write `state.json`, and on session-start ask git for the commit and print
the packet with three artifacts. RAW is `SELECT payload … ORDER BY seq, id`, `json.loads` and the same fold,
in one process, without a look at a hash. ROWS is an `executemany` of the rows, which are in memory; LOOP reads the
lines with `json.loads` first, and believes them. `eventsourcing` is that library's newest release with its SQLite
recorder, the same events and the same fold, in the shape that costs it least: one JSON object an event.
COPY is an `executemany` of the united rows into a new ledger. JSONL is one file with every column of the same events,
in a repository of its own with as many commits.
"""
TAIL = """
Processor is the ratio of processor time, git's included, and instructions are the process's own, counted by callgrind:
neither sees the waiting for the disk, and neither depends on how busy the machine is. The goals are about the whole
time. A dash under instructions: valgrind was not there, or the line is a loop or a shell that becomes the command.
"""
GROWTH = """
Each length has a run of its own, of sessions with 502 events each. A hook's work is told apart in one process, imports
excepted, as processor time: "ledger" is to open the log and its mirror, to ask them, to append and to commit, "state"
to read and to write state.json, "blocks" to fold onto its blocks and to hash them, "rest" all else: to decide, the
artifacts, of which state.json is one, and the packet.

![What grows with the log](growth-events.svg) ![What a hook does](growth-sessions.svg)
![How long an append takes](growth-writers.svg)
"""
RESULTS = Path(__file__).with_name("RESULTS.md")
SCRIPTS = RESULTS.parent
REF = "import sqlite3, json"
EVENTS = 100_000
SHARED = 20_000
COMMITS = 40
MERGE_SECONDS = 2.0
MANY = 1_000_000
MOST_MEMORY = 200  # MB
GOAL_HOOK, GOAL_APPEND, GOAL_SIZE, GOAL_START = 1.6, 1.35, 1.5, 3.0
GOAL_REBUILD, GOAL_STRICT, GOAL_IMPORT = 1.25, 1.3, 1.6
GOAL_AGGREGATE, GOAL_NOTIFICATIONS, GOAL_PEER_APPEND = 0.2, 0.5, 0.5


def main() -> None:
    """Set the stage, measure, print the table."""
    quick = sys.argv[1:] == ["--quick"]
    if sys.argv[1:] and not quick:
        raise SystemExit("usage: bench/run.py [--quick]")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stage = Stage(Path(folder))
        print("installing the wheel …", file=sys.stderr)
        stage.install()
        stage.fill()
        check(stage)
        events, shared, commits = (10_000, 2_000, 5) if quick else (EVENTS, SHARED, COMMITS)
        contenders = processes(stage, events)
        check_completion(contenders)
        print("measuring processes …", file=sys.stderr)
        measure(contenders, 5 if quick else 60, stage.restore)
        if not quick:
            count_instructions(contenders, stage.restore, stage.folder)
        rounds = 2 if quick else 9
        print("measuring the union and the size in git …", file=sys.stderr)
        rows = [row for row, _, _ in contenders]
        rows += [union(stage, shared, rounds), merge(stage, shared, rounds), size(stage, commits)]
        print("measuring what goes through whole logs …", file=sys.stderr)
        rows += [*rebuild(stage, events if quick else MANY, 2 if quick else 5), *peer(stage, events, 2 if quick else 5)]
        rows += imports(stage, events, 2 if quick else 5)
        print("measuring memory and growth …", file=sys.stderr)
        used = memory(stage, (events // 10, events) if quick else (EVENTS, MANY))
        grown = growth(stage, quick=quick)
        text = f"{table(rows)}\n{missed(rows)}\n{counted(rows)}\n{used}{GROWTH}\n{grown}\n{facts(stage, load)}"
    print(text, end="")
    if not quick:
        RESULTS.write_text(f"{HEAD}\n{text}{TAIL}")


def processes(stage: Stage, events: int) -> list[tuple[Row, Process, Process]]:
    """Give the processes to measure, each with its peer, in the order in which a session has them."""

    def process(command: list[str], cwd: Path = stage.project, stdin: Path | None = None) -> Process:
        return Process(command, cwd, stage.environment | {"CLAUDE_PROJECT_DIR": str(cwd)}, stdin)

    def completion(cwd: Path, *words: str) -> Process:
        asked = {"_FABER_LEDGER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["faber-ledger", *words])}
        return Process([stage.command], cwd, stage.environment | asked | {"COMP_CWORD": str(len(words))})

    ref = process([stage.python, "-c", REF])
    found = [
        (Row(f"`hook {name}`", "REF", GOAL_HOOK), process(stage.hook(name), stdin=stage.delivery(name)), ref)
        for name in DELIVERIES
    ]
    append = process([stage.python, str(SCRIPTS / "append.py"), str(stage.run)])
    start = stage.delivery("session-start")
    idle = process(stage.hook("session-start"), stage.elsewhere, start)
    guarded = process(["sh", "-c", hook_command("SessionStart")], stage.elsewhere, start)
    return [
        *found,
        (Row("durable append, by a script", "REF", GOAL_APPEND), append, ref),
        (Row("`hook session-start` where no run is active", "REF", None), idle, ref),
        (Row("the same, guarded as `init` writes it", "the bare command", None), guarded, idle),
        (Row("`--version`", "REF", GOAL_START), process([stage.command, "--version"]), ref),
        (Row("`--help`", "REF", GOAL_START), process([stage.command, "--help"]), ref),
        (Row("completion of a command", "REF", None), completion(stage.project, "st"), ref),
        (
            Row(f"completion of one of {events:,} events", "REF", None),
            completion(stage.long_run(events), "show", "0"),
            ref,
        ),
    ]


def check(stage: Stage) -> None:
    """See that the hooks do what is to be measured: one that fails is quick, exits 0 and says nothing."""
    stage.restore()
    for name in DELIVERIES:
        before = count(stage)
        hook = Process(stage.hook(name), stage.project, stage.environment, stage.delivery(name))
        packet = hook.output()
        if count(stage) == before or (b"orchestration-protocol" in packet) != name.startswith("session-start"):
            raise SystemExit(f"`hook {name}` did not do its work: see hooks.log")


def check_completion(contenders: list[tuple[Row, Process, Process]]) -> None:
    """See that completions find something: one that fails offers nothing."""
    for row, process, _ in contenders:
        if row.what.startswith("completion") and not process.output().startswith(b"plain,"):
            raise SystemExit(f"the {row.what} found nothing")


def count(stage: Stage) -> int:
    """Count the events of the run."""
    with closing(sqlite3.connect(stage.run / "ledger.db")) as connection:
        found: int = connection.execute("SELECT count(*) FROM event").fetchone()[0]
    return found


def rebuild(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the rebuild, plain and strict, against the raw loop, all in one process."""
    seconds = script(stage, "rebuild.py", stage.long_log(events, RELOADS), rounds)
    what = f"rebuild of {events:,} events, each hash checked"
    return [
        ratios(f"{what}, standard library", "RAW", GOAL_REBUILD, seconds["rebuild"], seconds["raw"]),
        ratios(f"{what}, each payload through its model", "RAW", GOAL_STRICT, seconds["strict"], seconds["raw"]),
    ]


def peer(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the rebuild, and an append in a fresh process, against the `eventsourcing` library."""
    seconds = script(stage, "peer.py", stage.long_log(events), stage.folder, rounds)
    what, checked = f"fold of {events:,} events", f"rebuild of {events:,} events, each hash checked"
    ours = seconds["fold"]
    path = stage.folder / "peer-append.db"
    command = [stage.python, str(SCRIPTS / "peer_append.py"), str(path)]
    run_id = Process(command, stage.folder, stage.environment).output().decode().strip()
    append = Row("append of one event in a fresh process", "`eventsourcing`", GOAL_PEER_APPEND)
    theirs = Process([*command, run_id], stage.folder, stage.environment)
    mine = Process([stage.python, str(SCRIPTS / "append.py"), str(stage.run)], stage.folder, stage.environment)
    measure([(append, mine, theirs)], 3 * rounds, stage.restore)
    return [
        ratios(what, "`eventsourcing`: aggregate", GOAL_AGGREGATE, ours, seconds["aggregate"]),
        ratios(what, "`eventsourcing`: notification log", GOAL_NOTIFICATIONS, ours, seconds["notifications"]),
        ratios(checked, "`eventsourcing`: aggregate", None, seconds["rebuild"], seconds["aggregate"]),
        ratios(checked, "`eventsourcing`: notification log", None, seconds["rebuild"], seconds["notifications"]),
        append,
    ]


def imports(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the import of JSON lines against the plain loop, and against the `executemany` in it."""
    seconds = script(stage, "import_lines.py", stage.long_log(events), stage.folder, rounds)
    what = f"import of {events:,} JSON lines"
    return [
        ratios(what, "ROWS", GOAL_IMPORT, seconds["import"], seconds["rows"]),
        ratios(what, "LOOP", None, seconds["import"], seconds["loop"]),
    ]


def script(stage: Stage, name: str, *arguments: object) -> dict[str, list[tuple[float, float]]]:
    """Run a script of this folder with the installed wheel, and give the seconds that it printed."""
    command = [stage.python, str(SCRIPTS / name), *map(str, arguments)]
    found: dict[str, list[tuple[float, float]]] = json.loads(Process(command, stage.folder, stage.environment).output())
    return found


def ratios(what: str, against: str, goal: float | None, ours: Rounds, theirs: Rounds) -> Row:
    """Make a row of rounds that one process measured."""
    row = Row(what, against, goal)
    for one, other in zip(ours, theirs, strict=True):
        row.add(one, other)
    return row


def memory(stage: Stage, lengths: tuple[int, ...]) -> str:
    """Measure the most memory that each operation takes, in a process of its own, as a table."""
    lines = [f"| at most, in MB (goal ≤ {MOST_MEMORY}) | {' | '.join(f'{length:,} events' for length in lengths)} |"]
    lines.append("|---" * (1 + len(lengths)) + "|")
    for operation in OPERATIONS:
        cells = []
        for length in lengths:
            command = [stage.python, str(SCRIPTS / "memory.py"), operation, str(stage.long_log(length, RELOADS))]
            found = Process([*command, str(stage.folder)], stage.folder, stage.environment).output()
            cells.append(f"{float(found):.0f}")
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def union(stage: Stage, shared: int, rounds: int) -> Row:
    """Measure a union against a plain copy of what comes of it, both in one process."""
    path = stage.long_log(shared)
    command = [stage.python, str(SCRIPTS / "union.py"), str(path), str(stage.folder), str(rounds)]
    seconds = json.loads(Process(command, stage.folder, stage.environment).output())
    took = statistics.median([processor for _, processor in seconds["union"]])
    row = Row(f"union of {shared:,} + 500 + 500 events, {took:.2f} s of work", "COPY", None)
    for ours, raw in zip(seconds["union"], seconds["copy"], strict=True):
        row.add(ours, raw)
    return row


def merge(stage: Stage, shared: int, rounds: int) -> Row:
    """Time `git merge` of two branches of a ledger against the two seconds that it may take."""
    path = stage.long_log(shared)
    command = [stage.python, str(SCRIPTS / "merge.py"), str(path), str(stage.folder), str(rounds)]
    driver = {"PATH": f"{Path(stage.python).parent}{os.pathsep}{os.environ['PATH']}"}
    row = Row(f"`git merge` of {shared:,} + 500 + 500 events", f"{MERGE_SECONDS:g} s", 1.0)
    for took in json.loads(Process(command, stage.folder, stage.environment | driver).output()):
        row.add(tuple(took), (MERGE_SECONDS, MERGE_SECONDS))
    return row


def size(stage: Stage, commits: int) -> Row:
    """Weigh a ledger's history in git against the same events as one JSONL file; it does not vary."""
    command = [stage.python, str(SCRIPTS / "size.py"), str(stage.folder), str(commits)]
    weights = json.loads(Process(command, stage.folder, stage.environment).output())
    row = Row(f"size in git of {commits} commits of 50 events, after `git gc`", "JSONL", GOAL_SIZE)
    for _ in range(2):
        row.add((weights["ledger"], weights["ledger"]), (weights["jsonl"], weights["jsonl"]))
    return row


def facts(stage: Stage, load: float) -> str:
    """Say what it was measured on; `load` is the machine's load before."""
    ref = Process([stage.python, "-c", REF], stage.folder, stage.environment)
    known = [
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}",
        f"{platform.system()} on {platform.machine()}",
        f"{os.cpu_count()} cores",
        f"REF takes {1000 * statistics.median([ref.seconds()[0] for _ in range(9)]):.0f} ms",
        f"an fsync takes {1000 * fsync_seconds(stage.folder):.2f} ms",
        f"load average {load:.1f} before",
    ]
    return ", ".join(known) + ".\n"


def fsync_seconds(folder: Path) -> float:
    """Give how long it takes to make 4 KB durable here."""
    seconds = []
    with (folder / "fsync").open("wb") as file:
        for _ in range(15):
            file.write(bytes(4096))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
