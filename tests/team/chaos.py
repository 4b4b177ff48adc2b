"""`make chaos`: clones share a server through a pooler, while connections are cut, and processes and server killed.

Each clone works on the run that all share and on one of its own. In the end each syncs once to push and once to fetch:
then every acknowledged note must be in every clone and on the server once, and all logs must be equal.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy.engine import make_url
from support.pooler import started_pooler
from support.postgres import DURABLE, Cluster, fresh_database, started_server
from support.project import RUN, Project
from support.proxy import TO_CLIENT, TO_SERVER, Proxy
from support.team_server import Team, started

from faber_ledger.ledger.log import Log
from faber_ledger.runs.kept import runs_here

if TYPE_CHECKING:
    import socket

    from sqlalchemy.engine import URL
    from support.postgres import Database, PostgresServer

SETTINGS = DURABLE | {"max_connections": "200"}
DELIVERIES = (
    "SessionStart.startup.print",
    "SessionStart.resume.print",
    "PreCompact.auto.print",
    "SessionEnd.other.print",
)
# 0 done, 1 a delivery waits, 11 the run is locked, 13 the server is away
EXPECTED = {"sync": {0, 1, 11, 13}, "note": {0, 11}}
STORED = "SELECT run_id, id, encode(hash, 'hex') FROM faber_ledger.event ORDER BY run_id, seq, id"


class Cutter(Proxy):
    """A port that forwards to a server, and cuts the connection on which another random number of bytes has passed."""

    def __init__(self, server: URL, chance: random.Random) -> None:
        self.chance = chance
        self.cuts = 0
        super().__init__(server, *self._draw(), cuts=True)

    def _draw(self) -> tuple[str, int]:
        return self.chance.choice((TO_SERVER, TO_CLIENT)), int(10 ** self.chance.uniform(3, 6))

    def _fail(self, client: socket.socket, server: socket.socket) -> None:
        self.cuts += 1
        self._close(client, server)
        self._direction, self._left = self._draw()


class Chaos:
    """What is done to some clones and their server, and what was acknowledged meanwhile."""

    def __init__(self, folder: Path, clones: int, seconds: float, seed: int) -> None:
        self.folder, self.count, self.seed = folder, clones, seed
        self.end = time.monotonic() + seconds
        self.notes: set[str] = set()  # acknowledged
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._mutex = threading.Lock()

    def tell(self, what: str, wrong: str = "") -> None:
        with self._mutex:
            self.done[what] += 1
            self.wrong += [wrong] if wrong else []

    def run(self, clone: Project, chance: random.Random, url: str, *words: str, kills: float = 0.15) -> bool:
        """Run a command in a clone, and sometimes kill it; return whether it ended well."""
        process = started(clone, url, *words[1:], command=words[0])
        is_killed = chance.random() < kills
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=chance.uniform(0.01, 0.4) if is_killed else 180)
        process.kill()
        _, errors = process.communicate()
        is_killed &= process.returncode == -signal.SIGKILL
        expected = is_killed or process.returncode in EXPECTED[words[0]]
        self.tell(
            "killed" if is_killed else f"{words[0]} {process.returncode}",
            "" if expected and "Traceback" not in errors else f"{words}: {process.returncode}: {errors}",
        )
        return process.returncode == 0

    def work(self, clone: Project, url: str, number: int) -> None:
        """Let an agent work in a clone."""
        chance, turn = random.Random(f"{self.seed}-work-{number}"), 0
        while time.monotonic() < self.end:
            turn += 1
            if chance.random() < 0.3:
                clone.deliver(chance.choice(DELIVERIES), client=f"client-{number}-{turn // 8}", pid=str(number))
                self.tell("deliveries")
                continue
            text = f"note {number}-{turn}."
            run_id = RUN if chance.random() < 0.6 else f"run-of-{number}"
            if self.run(clone, chance, url, "note", "add", text, "--run-id", run_id):
                self.notes.add(text)

    def sync(self, clone: Project, url: str, number: int) -> None:
        """Sync a clone again and again."""
        chance = random.Random(f"{self.seed}-sync-{number}")
        while time.monotonic() < self.end:
            words = chance.choice((["--all"], ["--all"], ["--all", "--push"], [RUN], ["--all", "--fetch"]))
            self.run(clone, chance, url, "sync", *words, kills=0.25)
            time.sleep(chance.uniform(0, 1))

    def crash(self, server: PostgresServer) -> None:
        """End the server as `pg_ctl stop -m immediate` does, and start it again."""
        chance = random.Random(f"{self.seed}-crash")
        while time.monotonic() < self.end:
            time.sleep(chance.uniform(4, 9))
            server.kill()
            time.sleep(chance.uniform(0, 2))
            server.start()
            self.tell("restarts of the server")

    def check(self, clones: list[Project], url: str, database: Database) -> None:
        """Let each clone push, then fetch; then compare everything."""
        chance = random.Random(self.seed)
        for how in ("--push", "--fetch"):
            for clone in clones:
                before = len(self.wrong)
                if not self.run(clone, chance, url, "sync", "--all", how, kills=0) and len(self.wrong) == before:
                    self.wrong.append(f"the last sync {how} of {clone.hostname} does not end with 0")
        with psycopg.connect(database.admin) as connection:
            there = connection.execute(STORED).fetchall()
        for clone in clones:
            if (found := stored_in(clone)) != there:
                odd = {*found} ^ {*there}
                self.wrong.append(f"{clone.hostname} differs from the server in {len(odd)} events: {sorted(odd)[:3]}")
            if (done := clone.faber("verify", "--all")).returncode != 0:
                self.wrong.append(f"verify in {clone.hostname}: {done.stdout}{done.stderr}")
            if missing := [run.run_id for run in runs_here(str(clone.root)) if not Path(run.state_path).exists()]:
                self.wrong.append(f"{clone.hostname} has no state.json of {missing}")
            texts = Counter(texts_in(clone))
            self.done["events in all clones"] = len(found)
            self.done["acknowledged notes"] = len(self.notes)
            self.done["lost"] += len(self.notes - texts.keys())
            self.done["doubled"] += sum([many - 1 for many in texts.values()])


def stored_in(clone: Project) -> list[tuple[Any, ...]]:
    """Return run, id and hash of each event in a clone's logs."""
    found: list[tuple[Any, ...]] = []
    for run in runs_here(str(clone.root)):
        with Log.read(run.log_path) as log:
            rows = log.connection.execute("SELECT id, lower(hex(hash)) FROM event ORDER BY seq, id")
            found += [(run.run_id, *row) for row in rows]
    return found


def texts_in(clone: Project) -> list[str]:
    """Return the texts of the notes in a clone's logs."""
    found = []
    for run in runs_here(str(clone.root)):
        with Log.read(run.log_path) as log:
            events = [dict(one["event"]) for one in log.stream() if one["event"]["type"] == "note_recorded"]
            found += [str(event["text"]) for event in events]
    return found


def made_clones(folder: Path, count: int) -> list[Project]:
    """Make a project with a run in git, and clones of it, each on a machine of its own with a run of its own."""
    first = Project.noted(folder / "clone-0")
    others = [first.clone(folder / f"clone-{number}", f"machine-{number}") for number in range(1, count)]
    for number, clone in enumerate([first, *others]):
        start = ("run", "start", "--work-id", str(number), "--run-id", f"run-of-{number}", "--yes")
        assert (done := clone.faber(*start)).returncode == 0, done.stderr
        clone.active_path.write_text(f"{RUN}\n")
    return [first, *others]


def run_chaos(folder: Path, clones: int, seconds: float, seed: int) -> Chaos:
    """Do everything at once for some seconds, then compare."""
    with started_server(settings=SETTINGS) as server, fresh_database(Cluster(server.url())) as database:
        made = made_clones(folder, clones)
        team = Team(database, made)
        with started_pooler(database, team.login, size=20) as direct:
            cutter = Cutter(make_url(direct), random.Random(f"{seed}-cut"))
            url, chaos = cutter.through(make_url(direct)), Chaos(folder, clones, seconds, seed)
            with ThreadPoolExecutor(2 * clones) as pool:
                work = [
                    pool.submit(act, clone, url, number)
                    for number, clone in enumerate(made)
                    for act in (chaos.work, chaos.sync)
                ]
                chaos.crash(server)  # in this thread: the server ends with the one that started it
                for one in work:
                    one.result()
            cutter.close()
            chaos.done["connections cut"] = cutter.cuts
            chaos.check(made, direct, database)
    return chaos


def main() -> None:
    """Print what was done and found; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="break what clones and their server do, then look for every note")
    parser.add_argument("--clones", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faber-chaos-"))
    sys.stdout.write(f"{asked.clones} clones for {asked.seconds:g} s, seed {asked.seed}, in {folder}\n")
    sys.stdout.flush()
    chaos = run_chaos(folder, asked.clones, asked.seconds, asked.seed)
    sys.stdout.write("".join([f"{what}: {count}\n" for what, count in sorted(chaos.done.items())]))
    sys.stdout.write("".join([f"wrong: {line}\n" for line in chaos.wrong]))
    if chaos.wrong or chaos.done["lost"] or chaos.done["doubled"]:
        sys.exit("promises were broken; the folder is kept")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
