"""Measure what users wait for, side by side in one run; write bench/RESULTS.md unless `--quick`."""

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

import packet
from growth import RELOADS, list_long_runs, measure_growth
from many_runs import measure_many_runs
from measure import Process, Row, count_instructions, measure
from memory import OPERATIONS
from refs import measure_refs
from report import list_missed, write_table
from results import digest_code, name_commit, write_part
from server import measure_server
from stage import CONVERSATIONS, DELIVERIES, Stage
from worst import measure_worst

from faber_ledger.hooks.client_settings import hook_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rounds = Sequence[tuple[float, float]]

HEAD = """\
## Other processes

Of {commit}. The peers:

- RAW is `SELECT payload … ORDER BY seq, id`, `json.loads` and the same fold, in one process, without checking a hash.
- ROWS is an `executemany` of rows in memory; LOOP reads the lines with `json.loads` first, and checks nothing.
- `eventsourcing` is that library's newest release with its SQLite recorder, the same events and the same fold, in the
  shape that costs it least: one JSON object per event.
- COPY is an `executemany` of the united rows into a new ledger.
- JSONL is one file with every column of the same events, in its own repository with as many commits.
"""
GROWTH = """
Each length is a run of its own, with 502 events per session. The parts of a hook's work are measured in one process, as
processor time without imports. "ledger" opens the log, queries it, appends and commits; "state" reads
and writes `state.json`; "blocks" folds and hashes the two blocks; "rest" is everything else: decisions, the packet, and
the artifacts, of which `state.json` is one.

![What grows with the log](growth-events.svg) ![What a hook does](growth-sessions.svg)
![How long an append takes](growth-writers.svg)
"""
SCRIPTS = Path(__file__).parent
REF = "import sqlite3, json"
EVENTS = 100_000
SHARED = 20_000
COMMITS = 40
MERGE_SECONDS = 2.0
MANY = 1_000_000
MOST_MEMORY = 200  # MB
GOAL_HOOK, GOAL_APPEND, GOAL_SIZE, GOAL_START = 1.5, 1.1, 1.5, 3.0
GOAL_REBUILD, GOAL_IMPORT = 1.25, 1.6
GOAL_AGGREGATE, GOAL_NOTIFICATIONS, GOAL_PEER_APPEND = 0.2, 0.5, 0.5


def main() -> None:
    """Set up, measure, and print the tables."""
    quick = sys.argv[1:] == ["--quick"]
    if sys.argv[1:] and not quick:
        raise SystemExit("usage: bench/run.py [--quick]")
    load, commit, digest = os.getloadavg()[0], name_commit("other processes"), digest_code("server")
    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stage = Stage(Path(folder))
        print("installing the wheel …", file=sys.stderr)
        stage.install()
        stage.fill()
        check_hooks(stage)
        events, shared, commits = (10_000, 2_000, 5) if quick else (EVENTS, SHARED, COMMITS)
        contenders = list_processes(stage)
        check_completion(contenders)
        print("measuring processes …", file=sys.stderr)
        measure(contenders, 5 if quick else 60, stage.restore)
        if not quick:
            count_instructions(contenders, stage.restore, stage.folder)
        print("measuring hooks on long runs …", file=sys.stderr)
        long_runs = list_long_runs(stage, quick=quick)
        measure(long_runs, 5 if quick else 30, os.sync)
        if not quick:
            count_instructions(long_runs, os.sync, stage.folder)
        rounds = 2 if quick else 9
        print("measuring the union and the size in git …", file=sys.stderr)
        rows = [row for row, _, _ in [*contenders, *long_runs]]
        rows += [
            measure_union(stage, shared, rounds),
            measure_merge(stage, shared, rounds),
            measure_size(stage, commits),
        ]
        print("measuring what reads complete logs …", file=sys.stderr)
        few = 2 if quick else 5
        rows += measure_rebuild(stage, events if quick else MANY, few)
        rows += measure_peer(stage, events, few)
        rows += measure_import(stage, events, few)
        print("measuring many runs …", file=sys.stderr)
        rows += measure_many_runs(stage, quick=quick)
        print("measuring ledgers in git refs …", file=sys.stderr)
        rows += measure_refs(stage, quick=quick)
        print("measuring what a hostile repository may bring …", file=sys.stderr)
        rows += measure_worst(stage, quick=quick)
        print("measuring what the packet says …", file=sys.stderr)
        given = packet.write_table(packet.measure_all(stage.command))
        print("measuring memory and growth …", file=sys.stderr)
        used = measure_memory(stage, (events // 10, events) if quick else (EVENTS, MANY))
        grown = measure_growth(stage, quick=quick)
        text = f"{write_table(rows)}\n{list_missed(rows)}\n{used}"
        text += f"\nThe packet:\n\n{given}\n{GROWTH}\n{grown}\n{describe_machine(stage, load)}"
        print("measuring a team's server …", file=sys.stderr)
        of_server = measure_server(stage, quick=quick)
    print(f"{text}\n{of_server}", end="")
    if not quick:
        write_part("other processes", digest, f"{HEAD.format(commit=commit)}\n{text}")
        write_part("server", digest, of_server)


def list_processes(stage: Stage) -> list[tuple[Row, Process, Process]]:
    """Return the processes to measure, each with its peer."""

    def process(command: list[str], cwd: Path = stage.project, stdin: Path | None = None) -> Process:
        return Process(command, cwd, stage.environment | {"CLAUDE_PROJECT_DIR": str(cwd)}, stdin)

    def completion(cwd: Path, *words: str) -> Process:
        asked = {"_FABER_LEDGER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["faber-ledger", *words])}
        return Process([stage.command], cwd, stage.environment | asked | {"COMP_CWORD": str(len(words))})

    ref = process([stage.python, "-c", REF])
    append = process([stage.python, str(SCRIPTS / "append.py"), str(stage.run)])
    return [
        (Row("durable append, by a script", "REF", GOAL_APPEND), append, ref),
        (Row("`--version`", "REF", GOAL_START), process([stage.command, "--version"]), ref),
        (Row("`--help`", "REF", GOAL_START), process([stage.command, "--help"]), ref),
        (Row("completion of a command", "REF", None), completion(stage.project, "st"), ref),
    ]


def list_hooks(stage: Stage) -> list[tuple[Row, Process, Process]]:
    """Return the hooks, in the order of a session, and a start where no run is active, each with its peer."""

    def process(command: list[str], cwd: Path = stage.project, stdin: Path | None = None) -> Process:
        return Process(command, cwd, stage.environment | {"CLAUDE_PROJECT_DIR": str(cwd)}, stdin)

    ref = process([stage.python, "-c", REF])
    start = stage.delivery("session-start")
    idle = process(stage.hook("session-start"), stage.elsewhere, start)
    guarded = process(["sh", "-c", hook_command("SessionStart")], stage.elsewhere, start)
    goals = {**dict.fromkeys(DELIVERIES, 0.0), **{name: share for name, (_, share) in CONVERSATIONS.items()}}
    return [
        *[
            (Row(f"`hook {name}`", "REF", GOAL_HOOK + goal), process(stage.hook(name), stdin=stage.delivery(name)), ref)
            for name, goal in goals.items()
        ],
        (Row("`hook session-start` where no run is active", "REF", None), idle, ref),
        (Row("the same, guarded as `init` writes it", "the bare command", None), guarded, idle),
    ]


def check_hooks(stage: Stage) -> None:
    """Check that the hooks do their work: one that fails is fast, exits with 0 and prints nothing."""
    stage.restore()
    for name in [*DELIVERIES, *CONVERSATIONS]:
        before = count_events(stage)
        hook = Process(stage.hook(name), stage.project, stage.environment, stage.delivery(name))
        packet = hook.output()
        recorded, least = count_events(stage) - before, 2 if name in CONVERSATIONS else 1
        if recorded < least or (b"orchestration-protocol" in packet) != name.startswith("session-start"):
            raise SystemExit(f"`hook {name}` did not do its work: see hooks.log")


def check_completion(contenders: list[tuple[Row, Process, Process]]) -> None:
    """Check that completions find something: one that fails offers nothing."""
    for row, process, _ in contenders:
        if row.what.startswith("completion") and not process.output().startswith(b"plain,"):
            raise SystemExit(f"the {row.what} found nothing")


def count_events(stage: Stage) -> int:
    """Count the events of the run."""
    with closing(sqlite3.connect(stage.run / "ledger.db")) as connection:
        found: int = connection.execute("SELECT count(*) FROM event").fetchone()[0]
    return found


def measure_rebuild(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the rebuild against the raw loop, in one process."""
    seconds = run_script(stage, "rebuild.py", stage.long_log(events, RELOADS), rounds)
    what = f"rebuild of {events:,} events, each hash checked"
    return [row_of(f"{what}, standard library", "RAW", GOAL_REBUILD, seconds["rebuild"], seconds["raw"])]


def measure_peer(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the rebuild, and an append in a fresh process, against the `eventsourcing` library."""
    seconds = run_script(stage, "peer.py", stage.long_log(events), stage.folder, rounds)
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
        row_of(what, "`eventsourcing`: aggregate", GOAL_AGGREGATE, ours, seconds["aggregate"]),
        row_of(what, "`eventsourcing`: notification log", GOAL_NOTIFICATIONS, ours, seconds["notifications"]),
        row_of(checked, "`eventsourcing`: aggregate", None, seconds["rebuild"], seconds["aggregate"]),
        row_of(checked, "`eventsourcing`: notification log", None, seconds["rebuild"], seconds["notifications"]),
        append,
    ]


def measure_import(stage: Stage, events: int, rounds: int) -> list[Row]:
    """Measure the import of JSON lines against the plain loop, and against its `executemany` alone."""
    seconds = run_script(stage, "import_lines.py", stage.long_log(events), stage.folder, rounds)
    what = f"import of {events:,} JSON lines"
    return [
        row_of(what, "ROWS", GOAL_IMPORT, seconds["import"], seconds["rows"]),
        row_of(what, "LOOP", None, seconds["import"], seconds["loop"]),
    ]


def run_script(stage: Stage, name: str, *arguments: object) -> dict[str, list[tuple[float, float]]]:
    """Run a script of this folder with the installed wheel, and return the seconds that it printed."""
    command = [stage.python, str(SCRIPTS / name), *map(str, arguments)]
    found: dict[str, list[tuple[float, float]]] = json.loads(Process(command, stage.folder, stage.environment).output())
    return found


def row_of(what: str, against: str, goal: float | None, ours: Rounds, theirs: Rounds) -> Row:
    """Return the row of rounds that one process measured."""
    row = Row(what, against, goal)
    for one, other in zip(ours, theirs, strict=True):
        row.add(one, other)
    return row


def measure_memory(stage: Stage, lengths: tuple[int, ...]) -> str:
    """Return a table of the peak memory of each operation, measured in a process of its own."""
    lines = [f"| peak, in MB (goal ≤ {MOST_MEMORY}) | {' | '.join(f'{length:,} events' for length in lengths)} |"]
    lines.append("|---" * (1 + len(lengths)) + "|")
    for operation in OPERATIONS:
        cells = []
        for length in lengths:
            command = [stage.python, str(SCRIPTS / "memory.py"), operation, str(stage.long_log(length, RELOADS))]
            found = Process([*command, str(stage.folder)], stage.folder, stage.environment).output()
            cells.append(f"{float(found):.0f}")
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def measure_union(stage: Stage, shared: int, rounds: int) -> Row:
    """Measure a union against a plain copy of its result, both in one process."""
    path = stage.long_log(shared)
    command = [stage.python, str(SCRIPTS / "union.py"), str(path), str(stage.folder), str(rounds)]
    seconds = json.loads(Process(command, stage.folder, stage.environment).output())
    took = statistics.median([processor for _, processor in seconds["union"]])
    row = Row(f"union of {shared:,} + 500 + 500 events, {took:.2f} s of work", "COPY", None)
    for ours, raw in zip(seconds["union"], seconds["copy"], strict=True):
        row.add(ours, raw)
    return row


def measure_merge(stage: Stage, shared: int, rounds: int) -> Row:
    """Time `git merge` of two branches of a ledger against the two seconds that it may take."""
    path = stage.long_log(shared)
    command = [stage.python, str(SCRIPTS / "merge.py"), str(path), str(stage.folder), str(rounds)]
    driver = {"PATH": f"{Path(stage.python).parent}{os.pathsep}{os.environ['PATH']}"}
    row = Row(f"`git merge` of {shared:,} + 500 + 500 events", f"{MERGE_SECONDS:g} s", 1.0)
    for took in json.loads(Process(command, stage.folder, stage.environment | driver).output()):
        row.add(tuple(took), (MERGE_SECONDS, MERGE_SECONDS))
    return row


def measure_size(stage: Stage, commits: int) -> Row:
    """Compare the size in git of a ledger's history with that of one JSONL file; the size does not vary."""
    command = [stage.python, str(SCRIPTS / "size.py"), str(stage.folder), str(commits)]
    sizes = json.loads(Process(command, stage.folder, stage.environment).output())
    row = Row(f"size in git of {commits} commits of 50 events, after `git gc`", "JSONL", GOAL_SIZE)
    for _ in range(2):
        row.add((sizes["ledger"], sizes["ledger"]), (sizes["jsonl"], sizes["jsonl"]))
    return row


def describe_machine(stage: Stage, load: float) -> str:
    """Return a line about the machine; `load` is its load average before measuring."""
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
    """Return the median time of making 4 KB durable in `folder`."""
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
