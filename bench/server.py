"""Measure the team's server: push, pull, a few new events, many clients at once, and how each question is answered.

Alone, `python bench/server.py` measures this, and writes its section into bench/RESULTS.md unless `--quick`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from growth import RELOADS
from measure import Process, Row
from report import list_missed, write_table
from results import digest_code, name_commit, write_part
from server_plans import LONG_RUN, MANY_RUNS, RUN, WHOLE
from server_work import TYPES
from stage import REPOSITORY, Stage

from faber_ledger.ledger.encoding import COLUMNS
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of
from faber_ledger.projections.fold import fold
from faber_ledger.runs.layouts import find_run

sys.path.insert(0, str(REPOSITORY / "tests"))  # which start a server, too

from support.postgres import Cluster, Database, Login, fresh_database, started_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres import PostgresServer

WORK, PLANS = (str(Path(__file__).with_name(name)) for name in ("server_work.py", "server_plans.py"))
SETTINGS = {"listen_addresses": "", "shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "50"}
GOAL_PUSH, GOAL_PULL, GOAL_NEWS, GOAL_CLIENTS = 2.0, 1.3, 1.5, 1.5
CLIENTS = 16
NAMES = ", ".join(COLUMNS)
NEWS = 3
SHORT, SHORT_RUN = 1_000, "bench-short"
STATE = '{"run_id": "bench-run", "workflow_id": "w", "status": "in_progress"}'
MANY = 1_000_000
RUNS = 1_000  # of the project with many
TICKS = os.sysconf("SC_CLK_TCK")
DIGESTS = """\
SELECT run_id, count(*), encode(sha256(string_agg(hash, '' ORDER BY seq, id)), 'hex')
FROM faber_ledger.event GROUP BY run_id"""
# Copies of the long run's events as runs of the other project; the text of some has a word that is rare.
RARE = "CASE WHEN position % 5000 = 7 THEN replace(payload, 'docs', 'heron') ELSE payload END"
SPREAD = f"""\
INSERT INTO faber_ledger.event (project, run_id, position, {NAMES})
SELECT '{MANY_RUNS}', 'bench-' || copy || '-' || position % ({RUNS} / {{copies}}), position + copy * 10000000,
  {NAMES.replace(" payload,", f" {RARE},")}
FROM faber_ledger.event, generate_series(1, {{copies}}) AS copy WHERE project = '{LONG_RUN}'"""
ONE_STATE = "INSERT INTO faber_ledger.state (project, run_id, content, at, writer, log_end)"
STATES = f"""\
{ONE_STATE}
SELECT '{MANY_RUNS}', 'bench-1-' || number,
  json_build_object('work_id', number::text, 'status', 'in_progress', 'said', repeat('a word ', 100)
    || CASE WHEN number % 500 = 7 THEN 'heron' ELSE '' END), '2026-01-05T09:30:00Z', 'writer', ''
FROM generate_series(0, {RUNS} - 1) AS number"""
TEXT = """\
## The team's server

Of {commit}.

A PostgreSQL of its own on the same machine, with its default settings but for `shared_buffers` ({shared_buffers}) and
`max_wal_size` ({max_wal_size}); what it has committed is durable. Both sides of a ratio run in turn, {rounds} times
each, a push in a fresh database each time; the table has the medians. Other work used the machine, whose load average
was {load:.1f} before, so all but the clients at once is measured in processor time: of clients and server together, or
of the client where its part is named, and then the column "processor" has both.

- COPY is one `COPY` of the same rows from memory into the same table by its owner. A push also reads the ledger, looks
  for conflicts, and commits each 5,000 events.
- "one client" pushes the same {clients} runs one after the other.
- A pull is `sync --fetch` in a clone that has nothing of the run. `import` reads the same events from a file.
- {news} new events are notes of one clone, which another one brings. Both have all others.

After each round of the clients and each pull the number of events and their hashes are compared with the ledgers':
nothing was lost or doubled.

"""
READ = """
What each question reads, as the server counts it; {pulled:,} events are in one
run, and {stored:,} in {runs:,} runs of another project. No table is ever read whole.

| question | indexes |
|---|---|
"""


class Span(NamedTuple):
    """How much is measured."""

    pushed: int
    pulled: int
    stored: int  # for the plans, at least as many as are pulled
    rounds: int


def measure_server(stage: Stage, *, quick: bool, pulled: int = 100_000) -> str:
    """Measure everything; return its section. Raises SystemExit if an event is lost, or a table is read whole."""
    span = Span(10_000, 10_000, 10_000, 2) if quick else Span(100_000, pulled, MANY, 3)
    load = os.getloadavg()[0]
    with started_server(settings=SETTINGS) as server:
        cluster = Cluster(server.url())
        rows = [measure_push(stage, server, cluster, span), measure_clients(stage, server, cluster, span)]
        with project_in(cluster) as (database, member):
            runs = {RUN: stage.long_log(span.pulled, RELOADS), SHORT_RUN: stage.long_log(SHORT, RELOADS)}
            seed(database, runs, span.stored // span.pulled)
            rows.append(measure_pull(stage, server, database.url(member), span))
            rows += measure_news(stage, server, database.url(member), span)
            plans = list_plans(stage, database, member)
    text = TEXT.format(
        **SETTINGS, **span._asdict(), load=load, news=NEWS, clients=CLIENTS, commit=name_commit("server")
    )
    text += f"{write_table(rows)}\n{list_missed(rows)}" + READ.format(pulled=span.pulled, stored=span.stored, runs=RUNS)
    text += "".join([f"| {question} | {', '.join(dict.fromkeys(scans))} |\n" for question, scans in plans.items()])
    return text


@contextmanager
def project_in(cluster: Cluster) -> Iterator[tuple[Database, Login]]:
    """Yield a fresh database with two projects, and the member who made them."""
    with fresh_database(cluster) as database:
        member = database.login()
        for project in (LONG_RUN, MANY_RUNS):
            database.add_project(project, member)
        yield database, member


def measure_push(stage: Stage, server: PostgresServer, cluster: Cluster, span: Span) -> Row:
    """Measure the push of a run against a COPY of its rows."""
    row = Row(f"push of {span.pushed:,} events", "COPY", GOAL_PUSH)
    runs = {RUN: stage.long_log(span.pushed, RELOADS)}
    for number in range(span.rounds):
        took = {}
        for what in in_turn(("push", "copy"), number):
            with project_in(cluster) as (database, member):
                url = database.url(member) if what == "push" else database.admin
                took[what] = work(stage, server, [Client(what, url, runs)])
                check(database, runs)
        row.add(*[(took[what][1], took[what][1]) for what in ("push", "copy")])
    return row


def measure_clients(stage: Stage, server: PostgresServer, cluster: Cluster, span: Span) -> Row:
    """Measure clients that push at once, a run each, against one that pushes all of their runs."""
    row = Row(f"{CLIENTS} clients that push {span.pushed:,} events at once", "one client", GOAL_CLIENTS)
    part = stage.long_log(span.pushed // CLIENTS, RELOADS)
    runs = {f"{RUN}-{number}": part for number in range(CLIENTS)}
    for number in range(span.rounds):
        took = {}
        for what in in_turn(("many", "one"), number):
            with project_in(cluster) as (database, member):
                url = database.url(member)
                each = [dict([one]) for one in runs.items()]
                took[what] = work(
                    stage, server, [Client("push", url, some) for some in (each if what == "many" else [runs])]
                )
                check(database, runs)
        row.add(took["many"], took["one"])
    return row


def in_turn(names: tuple[str, str], number: int) -> tuple[str, ...]:
    """Return the names, in the other order every second time."""
    return names if number % 2 else names[::-1]


class Client(NamedTuple):
    """What a client is to do with runs, by id, and their ledgers."""

    what: str
    url: str
    runs: dict[str, Path]


def work(stage: Stage, server: PostgresServer, clients: list[Client]) -> tuple[float, float]:
    """Let clients work at once; return the time until the last one is done, and the processor time of all processes."""
    before = server_seconds(server)
    started = [
        subprocess.Popen(
            [stage.python, WORK, one.what, one.url, LONG_RUN, *[f"{path}={run}" for run, path in one.runs.items()]],
            env=stage.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for one in clients
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [json.loads(process.communicate()[0] or "null") for process in started]
    if any([process.returncode for process in started]):
        raise SystemExit("a client has failed")
    starts, took, processor = zip(*printed, strict=True)
    ends = map(sum, zip(starts, took, strict=True))
    return max(ends) - min(starts), sum(processor) + server_seconds(server) - before


def server_seconds(server: PostgresServer) -> float:
    """Return the processor time that a server has used, all its processes together; 0 where it is not known."""
    if server.process is None or not Path("/proc/self/stat").exists():
        return 0.0
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(stat.parent.name) == server.process.pid:
            used += sum(map(int, fields[11:15]))  # its own, and that of its children that have ended
        elif int(fields[1]) == server.process.pid:
            used += sum(map(int, fields[11:13]))
    return used / TICKS


def check(database: Database, runs: dict[str, Path]) -> None:
    """Check that the server has the events of each ledger, each once; raises SystemExit."""
    with database.connect() as connection:
        found = {row[0]: (row[1], row[2]) for row in connection.execute(DIGESTS)}
    if found != {run_id: digest_of(path) for run_id, path in runs.items()}:
        raise SystemExit("events are lost, or doubled")


def digest_of(path: Path) -> tuple[int, str]:
    """Return the number of events in a ledger and a digest of their hashes."""
    with Log.read(str(path)) as log:
        hashes = [digest for (digest,) in log.connection.execute("SELECT hash FROM event ORDER BY seq, id")]
    return len(hashes), sha256(b"".join(hashes)).hexdigest()


def seed(database: Database, runs: dict[str, Path], copies: int) -> None:
    """Fill a database: ledgers as runs of one project, and their events as many runs of the other one, with states."""
    with database.connect() as connection:
        definition = connection.execute("SELECT pg_get_indexdef('faber_ledger.event_words'::regclass)").fetchone()
        connection.execute("SET session_replication_role = replica")  # without triggers: it takes minutes with them
        connection.execute("DROP INDEX faber_ledger.event_words")
        names = f"project, run_id, position, {NAMES}"
        with connection.cursor().copy(f"COPY faber_ledger.event ({names}) FROM STDIN (FORMAT BINARY)".encode()) as copy:
            copy.set_types(TYPES)
            position = count(1)
            for run_id, path in runs.items():
                with Log.read(str(path)) as log:
                    for row in rows_of(log):
                        copy.write_row((LONG_RUN, run_id, next(position), *row))
        states = [
            f"{ONE_STATE} VALUES ('{LONG_RUN}', '{name}', '{STATE.replace(RUN, name)}', '', '', '')" for name in runs
        ]
        for statement in (SPREAD.format(copies=copies), STATES, *states, definition[0] if definition else ""):
            connection.execute(statement.encode())
    with database.connect(autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def measure_pull(stage: Stage, server: PostgresServer, url: str, span: Span) -> Row:
    """Measure a first pull, with the state and the blocks, against an import of the same events."""
    path = stage.long_log(span.pulled, RELOADS)
    fresh, file = stage.folder / "fresh", stage.folder / "exported.jsonl"
    state_path = fresh / ".fractary/runs" / RUN / "state.json"
    fetch = Process([stage.command, "sync", "--fetch", RUN], fresh, stage.environment | {"FABER_LEDGER_URL": url})
    write = Process([stage.command, "export", RUN, "--output", str(file)], fresh, stage.environment)
    read = Process([stage.command, "import", str(file), "--run-id", RUN], fresh, stage.environment)
    row = Row(f"pull and rebuild of {span.pulled:,} events, client's part", "`import`", GOAL_PULL)
    with Log.read(str(path)) as log:
        blocks = fold(log.stream())

    def is_whole() -> bool:
        has_blocks = json.loads(state_path.read_text()).items() >= blocks.items()
        return has_blocks and digest_of(Path(find_run(str(fresh), RUN).log_path)) == digest_of(path)

    for _ in range(span.rounds):
        clone(stage, fresh)
        took = seconds_with_server(server, fetch)
        if not is_whole():
            raise SystemExit("events are lost, or doubled, or the blocks differ")
        write.seconds()
        clone(stage, fresh)
        state_path.parent.mkdir(parents=True)
        state_path.write_text(STATE)  # as git brings it
        imported = read.seconds()[1]
        row.add(took, (imported, imported))
        if not is_whole():
            raise SystemExit("an import loses events, or doubles them")
    return row


def measure_news(stage: Stage, server: PostgresServer, url: str, span: Span) -> list[Row]:
    """Measure syncs of a few new events of a long run against those of a short one, in the clones of two machines."""
    ours, theirs = stage.folder / "ours", stage.folder / "theirs"
    environment = stage.environment | {"FABER_LEDGER_URL": url}
    what = f"{NEWS} events of a run of {span.pulled:,}, client's part"
    pushed, brought = [Row(f"sync that {how} {what}", f"of {SHORT:,}", GOAL_NEWS) for how in ("pushes", "brings")]
    for folder in (ours, theirs):
        clone(stage, folder)
        for run in (RUN, SHORT_RUN):
            Process([stage.command, "sync", "--fetch", run], folder, environment).seconds()
    for number in range(span.rounds + 1):
        took = {}
        for run in in_turn((RUN, SHORT_RUN), number):
            for _ in range(NEWS):
                stage.run_command([stage.command, "note", "add", "a word", "--run-id", run], ours)
            took[run] = [
                seconds_with_server(server, Process([stage.command, "sync", run], folder, environment))
                for folder in (ours, theirs)
            ]
        if number:  # the first round brings the states
            for row, long, short in zip((pushed, brought), took[RUN], took[SHORT_RUN], strict=True):
                row.add(long, short)
    return [pushed, brought]


def seconds_with_server(server: PostgresServer, process: Process) -> tuple[float, float]:
    """Run a command; return its processor time, and the same with the server's."""
    before = server_seconds(server)
    processor = process.seconds()[1]
    return processor, processor + server_seconds(server) - before


def clone(stage: Stage, folder: Path) -> None:
    """Make a git project with the id of the server's, in place of an older one."""
    shutil.rmtree(folder, ignore_errors=True)
    stage.run_command(["git", "init", "--quiet", str(folder)])
    stage.run_command([stage.command, "init"], folder)
    settings = folder / ".fractary/faber/ledger.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "project": LONG_RUN}))


def list_plans(stage: Stage, database: Database, member: Login) -> dict[str, list[str]]:
    """Return how each question reads the tables; raises SystemExit if one reads a table whole."""
    asked = Process([stage.python, PLANS, database.admin, database.url(member)], stage.folder, stage.environment)
    found: dict[str, list[str]] = json.loads(asked.output())
    whole = [
        question for question, scans in found.items() if not scans or any([one.startswith(WHOLE) for one in scans])
    ]
    if whole:
        raise SystemExit(f"a table is read whole: {whole}: {[found[one] for one in whole]}")
    return found


def main() -> None:
    """Measure the server alone."""
    parser = argparse.ArgumentParser(description="measure a team's server")
    parser.add_argument("--quick", action="store_true", help="measure a little, and print it")
    parser.add_argument("--pulled", type=int, default=100_000, help="the events of a pull")
    asked = parser.parse_args()
    digest = digest_code("server")
    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stage = Stage(Path(folder))
        stage.install()
        section = measure_server(stage, quick=asked.quick, pulled=asked.pulled)
    print(section, end="")
    if not asked.quick:
        write_part("server", digest, section)


if __name__ == "__main__":
    main()
