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
from report import list_missed, write_instructions, write_table
from server import measure_server
from stage import DELIVERIES, Stage
from worst import measure_worst

from faber_ledger.hooks.client_settings import hook_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rounds = Sequence[tuple[float, float]]

HEAD = """\
# What it costs

Written by `make bench`. Each line is a ratio: each round ran the process right after its peer, on the same machine. The
table has the median of the rounds' ratios, and their quartiles as the spread. The peers:

- REF is a complete process of `python -c 'import sqlite3, json'` with the same interpreter: the least that any program
  pays that opens a ledger.
- RAW is `SELECT payload … ORDER BY seq, id`, `json.loads` and the same fold, in one process, without checking a hash.
- ROWS is an `executemany` of rows in memory; LOOP reads the lines with `json.loads` first, and checks nothing.
- `eventsourcing` is that library's newest release with its SQLite recorder, the same events and the same fold, in the
  shape that costs it least: one JSON object per event.
- COPY is an `executemany` of the united rows into a new ledger.
- JSONL is one file with every column of the same events, in its own repository with as many commits.

The wheel is installed as users install it, bytecode included. The project is a git repository with a run of one ended
session. Its hooks append durably and write `state.json`; session-start also asks git for the commit and prints a packet
with three artifacts.
"""
TAIL = """
Processor is the ratio of processor time, with git's; instructions are the process's own, by callgrind. Neither includes
waiting for the disk, and neither depends on how busy the machine is. The goals apply to elapsed time. A dash under
instructions: valgrind was missing, or the line is a loop or a shell that becomes the command.
"""
GROWTH = """
Each length is a run of its own, with 502 events per session. The parts of a hook's work are measured in one process, as
processor time without imports. "ledger" opens the log and its mirror, queries them, appends and commits; "state" reads
and writes `state.json`; "blocks" folds and hashes the two blocks; "rest" is everything else: decisions, the packet, and
the artifacts, of which `state.json` is one.

![What grows with the log](growth-events.svg) ![What a hook does](growth-sessions.svg)
![How long an append takes](growth-writers.svg)
"""
LONG_RUNS = """

## Long runs

`state.json` has 0.8 KB per session: 1.6 MB at 2,000 sessions, and a hook decodes, folds, hashes and writes it. At
commit 7e016ec, before the modules were rearranged, the same benchmark gave, × REF: `session-start` 1.6 on the small
run, 3.4 at 500 sessions and 8.5 at 2,000; `session-end` 7.0 at 2,000; a durable append 1.16. Millions of instructions
since:

| | `session-start`, small | 500 | 2,000 | `session-end`, small | 500 | 2,000 | append |
|---|---|---|---|---|---|---|---|
| 7e016ec | 110.8 | 398.8 | 1,267.7 | 93.4 | 335.4 | 1,066.4 | 84.5 |
| after the modules were rearranged | 110.8 | 366.9 | 1,138.3 | 94.7 | 314.2 | 976.7 | 84.4 |
| decoded once, only what is new is written again | 109.5 | 167.4 | 339.0 | 93.2 | 150.0 | 317.1 | 82.8 |
| without the `json` package | 90.6 | 149.2 | 321.2 | 74.0 | 132.3 | 299.7 | 65.2 |

What each part of the second step gave, in milliseconds of one process at 2,000 sessions:

- A start reuses the state that it decoded before the lock if the bytes are the same under it: 7 → 0.1.
- The two blocks are decoded apart from the other members, so their places are known; finding them took two more parses
  and a search for escaped names: 16 → 0.3.
- The checkpoint's digest is of the blocks' text with two spaces of indentation, which most files have already. Before,
  each block was written as one line, before and after the fold, for the digest and to see whether it changed: 13 → 0.
- BLAKE2b instead of SHA-256, twice: 6 → 2.4.
- Sessions that no new event names keep their text when the block is written: 15 → 1.5.
- The file that was read back is decoded, and its blocks are compared as text: 23 → 7.

The third step: `json` loads `re` and `enum`, which cost two thirds of what starting Python costs; its functions in C
need neither. pip before version 25 writes a console script that loads `re` anyway (1.54 × REF for `session-start` on
the small run), so this benchmark installs with pip 25 or newer.

A file that another tool lays out in another way is read and written as a whole: with four spaces and 2,000 sessions a
start takes 1,006 million instructions and an end 957 (1,175 and 1,004 before the second step).

Tried and not kept: MD5 (2.2 ms for 1.6 MB), SHA-1 (5.9) and SHA-256 (4.7) instead of BLAKE2b (1.2); SHA-256 of OpenSSL
(0.9), which takes longer to load; a backup that is a hard link, which a tool that writes `state.json` in place would
change as well; a console script of our own, which an interpreter's path with spaces would break. Not done: decoding
nothing but the newest sessions, and parsing only what is new of the file that is read back. Each would save 7 ms at
2,000 sessions.
"""
TESTS = """
## The tests

`make test` took 8:52 minutes at commit 125dfa4 (3,763 tests) and takes 4:52 (3,891), one right after the other on two
cores: 0.55. `pytest` of both side by side, one worker each, needed 902 s of processor time before and 487 s (0.54)
after. The goal, a third, is missed. What was done:

- A command is forked from a process that has imported everything: `--version` takes 7 ms of processor time instead of
  81 so, without bytecode files. 403 tests of `cli/` took 206 s before and 85 s after.
- Random walks, property tests, broken calls and very many files are smaller in `make test`, and as large as before in
  `make test-long`.
- Each test project starts as a copy of one commit. Since these figures were measured, each clone, too, starts as a copy
  of a clone that is already set up.

What is left: 2,852 hooks, which are always started (130 s), 4,342 forked commands at work (150 s), git (55 s), the
pages' shell blocks, which start their commands (29 s), and the tests themselves (93 s). Forking the hooks, too, was not
tried: they are tested as users start them.
"""
MANY_RUNS = """
## Many runs

300 runs with 80,000 events, ten of them with 2,000, in a repository with 60 commits. Before is commit 125dfa4, in
a project made in the same way, on the same machine, which was busy: processor time, × `--version`, for `git log` × the
same with `--no-textconv`. After is the median of three rounds, of two for a first `git log`; before is one or two.

| | goal | before | after |
|---|---|---|---|
| `status` | ≤ 3.00 | 5.6 | 1.6 |
| `run list`, first | – | 24 | 5.4 |
| `run list`, again | – | 20 | 2.0 |
| `doctor` | – | 57 | 59 |
| `verify --all` | – | 53 | 73 |
| `seal --all` | – | 82 | 78 |
| `git log -S`, first | ≤ 10.00 | 394 | 53 |
| `git log -S`, again | ≤ 1.50 | 310 | 0.26 |
| `git log -G`, first | ≤ 10.00 | 567 | 97 |
| `git log -G`, again | ≤ 1.50 | 567 | 0.85 |
| `git log -p`, first | ≤ 10.00 | 323 | 47 |
| `git log -p`, again | ≤ 1.50 | 323 | 0.57 |

- `status` and `run list` count events with plain SQL; loading SQLAlchemy took longer than all else that they do.
- `run list` prints a run that has not changed from a file of the clone.
- `verify --all`, `doctor` and `seal --all` check each event of each run as before: right after each other, `verify
  --all` took 2.9 to 3.5 s of processor time before and 2.9 to 3.0 s after, `doctor` 2.5 to 2.6 s and 2.5 to 2.6 s. The
  first two show a progress bar, and `seal --all` lists only what changed.
- Git converts each version of a ledger once, in a process that takes as long as REF for 200 events, and without click.

The first `git log` misses its goal: git starts a process for each of 600 versions, and writes its cache after each.
With `head -c 20000` in place of our program it takes 14 ×, and 300 processes of Python that do nothing take 11 ×.

Tried and not kept: filling git's cache for all versions in one process, with `git log --raw`, `git cat-file --batch`,
our converter and `git fast-import`. Git takes the commit as its own cache: it then starts no `textconv`, keeps the
commit, and prints the same. One such process takes 1.8 s of processor time for the 600 versions (19 MB of text, 34 MB
of memory), and 0.06 s when none or one is new; git's own first call took 15 to 16 s here. Processor time, × the same
call with `--no-textconv`, the median of seven rounds, of one for git alone:

| | git alone, first | filled first | the fill included |
|---|---|---|---|
| `git log -S` | 73 | 0.16 | 8.3 |
| `git log -G` | 122 | 0.63 | 15 |
| `git log -p` | 69 | 0.49 | 7.6 |

So `-G` would still miss its goal with the fill included. Git has no hook before `git log`: a command has to fill the
cache beforehand, `init` in a new clone and `seal` or a command of its own for what is new.
"""
PACKET = """
## The packet

What a session is given at its start, in fourteen scenarios. Each is a real checkout, made with the installed command,
recorded deliveries and real commits, and has a list of 18 to 34 facts that the next action depends on, 399 in all
(`bench/packet_scenes.py`). 235 are essential: without one, the agent does something wrong or has to ask. The others are
wanted: each saves it a look. A fact counts if a reader finds it in the text, in whatever words. The facts were written
down before the packet was changed to hold them, and are not changed to fit it. "In 2,000" is the essential share
of the packet's beginning, which a client shows of a text that is too long. Two other texts stand beside the packet: the
files one after the other, cut at its size, and a pointer, "read state.json". `python bench/packet.py` measures this
alone, in seconds; `--faber PATH` measures another version, and `--facts` lists what is missing.

Before, at commit 23a21ac, 181 of the 235 essential facts were in the packet, and 76 of the 164 wanted ones:

| scenario | units | essential | wanted | in 2,000 | files: essential | wanted | pointer: essential | wanted |
|---|---|---|---|---|---|---|---|---|
| fresh run | 2,569 | 82% | 43% | 82% | 73% | 43% | 27% | 0% |
| after a compaction | 4,229 | 80% | 54% | 60% | 67% | 31% | 13% | 0% |
| after a kill | 4,132 | 73% | 45% | 53% | 60% | 36% | 13% | 0% |
| on another machine | 9,484 | 72% | 42% | 61% | 56% | 33% | 11% | 0% |
| failed step | 8,370 | 82% | 54% | 59% | 76% | 38% | 12% | 0% |
| awaiting feedback | 4,777 | 82% | 57% | 65% | 71% | 43% | 12% | 0% |
| 35 KB protocol | 9,446 | 63% | 50% | 42% | 42% | 21% | 11% | 0% |
| 240 KB state | 9,381 | 83% | 54% | 39% | 28% | 15% | 11% | 0% |
| 80 artifacts | 9,462 | 70% | 29% | 50% | 70% | 43% | 10% | 0% |
| notes | 9,492 | 76% | 50% | 59% | 59% | 25% | 12% | 0% |
| redacted | 4,366 | 81% | 45% | 62% | 62% | 27% | 19% | 0% |
| FABER's own layout | 4,498 | 81% | 45% | 62% | 62% | 27% | 12% | 0% |
| evaluate | 9,483 | 72% | 36% | 44% | 44% | 18% | 11% | 0% |
| release | 5,306 | 83% | 38% | 61% | 78% | 38% | 11% | 0% |
| **median** | 6,838 | 81% | 45% | 59% | 62% | 32% | 12% | 0% |
"""
RESUMED = """
### A conversation that is resumed

The client adds a hook's text unless the same bytes of that hook are in the conversation already. So each resume with a
changed state adds a whole packet. `python bench/packet_growth.py` resumes a conversation three times, with work in
between, and counts the units that are then in it; protocol and specification have 2 or 24 KB each. "Two handlers": one
gives the files, one the rest. "By step": what is shown of the files depends on phase and step, as it should. "Short at
a resume": one handler, which then leaves out the files that this conversation was given for this step. At commit
063086b:

| between the starts | packet | one handler | two handlers | two, by step | short at a resume |
|---|---|---|---|---|---|
| nothing was done, 2 KB each | 4,146 | 4,146 | 4,296 | 4,296 | 5,866 |
| a step failed again, 2 KB each | 4,452 | 17,808 | 10,680 | 10,680 | 10,530 |
| a step ended, 2 KB each | 4,142 | 16,455 | 9,327 | 17,055 | 16,455 |
| a phase ended, 2 KB each | 3,840 | 16,321 | 9,193 | 16,921 | 16,321 |
| a criterion was ticked, 2 KB each | 4,201 | 16,804 | 17,404 | 17,404 | 16,804 |
| nothing was done, 24 KB each | 8,964 | 8,964 | 9,114 | 9,114 | 11,543 |
| a step failed again, 24 KB each | 8,989 | 35,956 | 18,019 | 18,019 | 17,869 |
| a step ended, 24 KB each | 8,978 | 35,783 | 16,816 | 36,383 | 35,783 |
| a phase ended, 24 KB each | 8,956 | 35,724 | 16,401 | 36,324 | 35,724 |
| a criterion was ticked, 24 KB each | 9,078 | 36,312 | 36,912 | 36,912 | 36,312 |

A second handler was tried as a script that finds the run, loads the artifacts and packs them, and opens no log. At each
start it took 0.8 of the processor time of `hook session-start`, 1.5 (2 KB) and 1.7 (24 KB) × REF, and 129 and 145
million instructions, where `hook session-start` took 142 and 158. The first handler would save little: it
reads the same files, to record what was given. What speaks for and against is in
[the packet](../docs/internals/PACKET.md#why-one-handler-and-not-two).
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
GOAL_HOOK, GOAL_APPEND, GOAL_SIZE, GOAL_START = 1.5, 1.1, 1.5, 3.0
GOAL_REBUILD, GOAL_STRICT, GOAL_IMPORT = 1.25, 1.3, 1.6
GOAL_AGGREGATE, GOAL_NOTIFICATIONS, GOAL_PEER_APPEND = 0.2, 0.5, 0.5


def main() -> None:
    """Set up, measure, and print the tables."""
    quick = sys.argv[1:] == ["--quick"]
    if sys.argv[1:] and not quick:
        raise SystemExit("usage: bench/run.py [--quick]")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stage = Stage(Path(folder))
        print("installing the wheel …", file=sys.stderr)
        stage.install()
        stage.fill()
        check_hooks(stage)
        events, shared, commits = (10_000, 2_000, 5) if quick else (EVENTS, SHARED, COMMITS)
        contenders = list_processes(stage, events)
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
        print("measuring what a hostile repository may bring …", file=sys.stderr)
        rows += measure_worst(stage, quick=quick)
        print("measuring what the packet says …", file=sys.stderr)
        given = packet.write_table(packet.measure_all(stage.command))
        print("measuring memory and growth …", file=sys.stderr)
        used = measure_memory(stage, (events // 10, events) if quick else (EVENTS, MANY))
        grown = measure_growth(stage, quick=quick)
        text = f"{write_table(rows)}\n{list_missed(rows)}\n{write_instructions(rows)}\n{used}"
        text += f"{PACKET}\nNow:\n\n{given}{RESUMED}"
        text += f"{LONG_RUNS}{TESTS}{MANY_RUNS}{GROWTH}\n{grown}\n{describe_machine(stage, load)}"
        print("measuring a team's server …", file=sys.stderr)
        of_server = measure_server(stage, quick=quick)
    print(f"{text}\n{of_server}", end="")
    if not quick:
        RESULTS.write_text(f"{HEAD}\n{text}{TAIL}\n{of_server}")


def list_processes(stage: Stage, events: int) -> list[tuple[Row, Process, Process]]:
    """Return the processes to measure, each with its peer; the hooks in the order of a session."""

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


def check_hooks(stage: Stage) -> None:
    """Check that the hooks do their work: one that fails is fast, exits with 0 and prints nothing."""
    stage.restore()
    for name in DELIVERIES:
        before = count_events(stage)
        hook = Process(stage.hook(name), stage.project, stage.environment, stage.delivery(name))
        packet = hook.output()
        if count_events(stage) == before or (b"orchestration-protocol" in packet) != name.startswith("session-start"):
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
    """Measure the rebuild, plain and strict, against the raw loop, in one process."""
    seconds = run_script(stage, "rebuild.py", stage.long_log(events, RELOADS), rounds)
    what = f"rebuild of {events:,} events, each hash checked"
    return [
        row_of(f"{what}, standard library", "RAW", GOAL_REBUILD, seconds["rebuild"], seconds["raw"]),
        row_of(f"{what}, each payload through its model", "RAW", GOAL_STRICT, seconds["strict"], seconds["raw"]),
    ]


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
