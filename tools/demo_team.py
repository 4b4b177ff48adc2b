"""Show a team's server: a real PostgreSQL, three machines, and one that is killed in the middle of its work.

`make demo-team` runs it, in a temporary folder. It ends with exit code 1 if anything is not as it says, and leaves
neither a server nor a file behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # which start a server, too

from support.postgres import PostgresServer, started_server

from faber_ledger.cli.commands.demo import PROTOCOL, WORKFLOW_PROTOCOL, Machine, surroundings
from faber_ledger.ledger.command_errors import StepFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_SECONDS = 60
DECISION = "Prices are kept in cents, never in floating point"
LAST_NOTES = [f"Invoice {number} is rounded as the tax office wants it" for number in (1, 2, 3)]
ROLES = """\
CREATE ROLE shop_team NOLOGIN IN ROLE faber_ledger_member;
CREATE ROLE ann LOGIN IN ROLE shop_team PASSWORD 'of-ann';
CREATE ROLE ben LOGIN IN ROLE shop_team PASSWORD 'of-ben';
CREATE ROLE agent LOGIN IN ROLE shop_team PASSWORD 'of-agent';
"""


def main() -> int:
    """Play the story in a temporary folder, and check that nothing is left; return the exit code."""
    tell("One run, three machines and a PostgreSQL server. Every command below is really run.\n")
    folder = os.path.realpath(tempfile.mkdtemp(prefix="faber-team-"))
    try:
        with started_server() as server:
            process, place = server.process, server.folder
            tell_story(folder, server)
    except StepFailed as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 1
    finally:
        shutil.rmtree(folder)
    if process is None or process.poll() is None or place.exists() or os.path.exists(folder):
        sys.stderr.write("error: the server, or a folder of it, is still there\n")
        return 1
    tell("\nThe server is stopped, and all folders are removed.")
    return 0


def tell(line: str) -> None:
    """Print a line at once, so that a reader can follow."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def check(is_so: bool, otherwise: str) -> None:
    """Raise StepFailed if something is not as the story says."""
    if not is_so:
        raise StepFailed(otherwise, hint="this is a bug: please report it")


def tell_story(folder: str, server: PostgresServer) -> None:
    """Play the story in an empty folder; raises StepFailed."""
    laptop, desktop, ci = made_machines(folder, server)

    tell("\n2. A run on the laptop; `sync --watch` sends what happens there, beside the agent's work")
    started = laptop.run("faber-ledger", "run", "start", "--work-id", "258", "--target", "Invoices", shown=slice(1))
    run_id = started.split()[3]
    laptop.deliver("startup")
    laptop.run("faber-ledger", "sync", shown=slice(1))
    laptop.run("faber-ledger", "db", "admit", "shop_team", shown=slice(1))
    with watching(laptop) as watch:
        laptop.run("faber-ledger", "note", "add", DECISION)
        laptop.work("frame", "architect", current_phase="build")
        for kind in ("compacting", "compact", "compacted"):
            laptop.deliver(kind)

        tell("\n3. Meanwhile an agent of the CI has a run of its own")
        clone(ci)
        ci.run("faber-ledger", "run", "start", "--work-id", "301", "--target", "Nightly", shown=slice(1))
        ci.deliver("startup")
        ci.deliver("exit")
        ci.run("faber-ledger", "sync", "--yes", shown=slice(1))
        wait_until(lambda: run_of(ci, run_id)["compactions"] == 1, "the laptop's compaction did not reach the server")

        tell("\n4. The laptop is killed in the middle: no session ends, and nothing more is sent")
        for note in LAST_NOTES:
            laptop.run("faber-ledger", "note", "add", note)
        os.killpg(watch.pid, signal.SIGKILL)
        away = f"{laptop.directory}.away"
        os.rename(laptop.directory, away)
        tell("   laptop  SIGKILL, and its disk cannot be reached. Its run was never committed to git")

    tell("\n5. The desktop sees who works on what, and finds what was decided")
    clone(desktop)
    desktop.run("faber-ledger", "fleet", "--no-pager", shown=slice(0, None))
    seen = run_of(desktop, run_id)
    check(
        seen["machine"] == "laptop" and len(seen["open_sessions"]) == 1, "fleet does not show the laptop's open session"
    )
    hit = desktop.run("faber-ledger", "search", "prices cents", "--no-pager", shown=slice(0, None))
    check(run_id in hit and DECISION in hit, "search does not find the decision")

    tell("\n6. It goes on with the run, which it has never seen")
    desktop.run("faber-ledger", "run", "resume", run_id, "--yes", shown=slice(0, None))
    desktop.run("faber-ledger", "verify", run_id, shown=slice(1))
    desktop.deliver("resume")
    desktop.work("build", "evaluate", "release", current_phase="release", status="completed")
    desktop.deliver("exit")
    desktop.run("faber-ledger", "sync", shown=slice(1))
    history = desktop.state()["sessions"]["session_history"]
    reasons = [session["end_reason"] for session in history]
    check(reasons == ["compaction", "abandoned", "normal"], f"the sessions ended as {reasons}")
    completed = history[-1]["phases_completed"]
    check(completed == list(desktop.state()["phases"]), f"the last session completed {completed}")

    tell("\n7. The laptop comes back, with what it had not sent: nothing is lost, and nothing is doubled")
    os.rename(away, laptop.directory)
    laptop.run("faber-ledger", "sync", "--all", shown=slice(0, None))
    desktop.run("faber-ledger", "sync", shown=slice(1))
    seen = run_of(desktop, run_id)
    check((seen["status"], seen["phase"]) == ("completed", "release"), "fleet shows the laptop's older state")
    logs = [machine.run("faber-ledger", "export", run_id) for machine in (laptop, desktop)]
    ci.run("faber-ledger", "sync", run_id)
    logs.append(ci.run("faber-ledger", "export", run_id))
    check(logs[0] == logs[1] == logs[2], "laptop, desktop and server have different logs")
    check(all([logs[0].count(text) == 1 for text in (DECISION, *LAST_NOTES)]), "a note is lost or doubled")
    laptop.run("faber-ledger", "verify", run_id, shown=slice(1))
    laptop.run("faber-ledger", "fleet", "--no-pager", shown=slice(0, None))
    tell(f"   laptop, desktop and server have the same {len(logs[0].splitlines())} lines of the run, byte for byte")


def made_machines(folder: str, server: PostgresServer) -> tuple[Machine, Machine, Machine]:
    """Set up the database and the project; return laptop, desktop and the CI's machine."""
    tell("1. A PostgreSQL server, with a database, a group and three logins in it; and a project in git")
    environment = {name: value for name, value in surroundings(folder).items() if not name.startswith("PG")}
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), str(server.programs), environment["PATH"]])

    def machine(name: str, pid: int, login: str, password: str) -> Machine:
        place = str(server.folder).replace("/", "%2F")
        url = f"postgresql://{login}:{password}@/ledger?host={place}"
        return Machine(name, pid, environment | {"FABER_LEDGER_URL": url}, tell)

    admin = machine("admin", 100, "postgres", "")
    psql = ["psql", "--quiet", "--host", str(server.folder), "--username", "postgres", "--command"]
    admin.run(*psql, "CREATE DATABASE ledger TEMPLATE template0 ENCODING 'UTF8'", quiet=True)
    admin.run("faber-ledger", "db", "upgrade", shown=slice(1))
    admin.run(*psql, ROLES, quiet=True)
    laptop = machine("laptop", 26210, "ann", "of-ann")
    laptop.run("git", "init", "--bare", "../origin.git", quiet=True)
    laptop.clone("shop")
    laptop.write(WORKFLOW_PROTOCOL, PROTOCOL)
    laptop.run("faber-ledger", "init", quiet=True)
    laptop.commit("Set up faber-ledger")
    admin.clone("shop")
    admin.run("faber-ledger", "db", "project", "add", "--admin", "ann", shown=slice(1))
    return laptop, machine("desktop", 30728, "ben", "of-ben"), machine("ci", 412, "agent", "of-agent")


def clone(machine: Machine) -> None:
    """Clone the project on a machine, and set up its git."""
    machine.clone("shop")
    machine.run("faber-ledger", "init", "--git-only", quiet=True)


def run_of(machine: Machine, run_id: str) -> dict[str, Any]:
    """Return what `fleet` says of a run; an empty run if it does not name it."""
    runs = json.loads(machine.run("faber-ledger", "fleet", "--json", quiet=True))["data"]["runs"]
    nothing: dict[str, Any] = {"machine": None, "open_sessions": [], "compactions": 0}
    return next((dict(run) for run in runs if run["run_id"] == run_id), nothing)


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Ask again and again until something is so; raises StepFailed after a while."""
    latest = time.monotonic() + WAIT_SECONDS
    while not is_so():
        check(time.monotonic() < latest, otherwise)
        time.sleep(0.2)


@contextmanager
def watching(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """Run `sync --watch` beside the work on a machine; it is killed at the latest at the end of the block."""
    tell(f"   {machine.name:<7} $ faber-ledger sync --watch 1 &")
    process = subprocess.Popen(
        ["faber-ledger", "sync", "--watch", "1"],
        cwd=machine.directory,
        env=machine.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
