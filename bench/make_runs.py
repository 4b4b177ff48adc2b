"""Make a project with many runs, and commit them five at a time. Arguments: its folder, the runs, all their events.

One run of thirty is long: it has a fortieth of the events of all. The last one is in progress and active.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

from long_log import BEGIN, drafts
from stage import WRITER

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold

GIT = ["git", "-c", "gc.auto=0"]
COMMITTED_AT_ONCE = 5
LONG = 30
SHARE = 40
SESSION = 12  # events of each session


def main() -> None:
    """Write the runs with their states, and commit them with some code."""
    project, count, events = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    subprocess.run([*GIT, "init", "--quiet", str(project)], check=True)
    for key, value in (("user.name", "Bench"), ("user.email", "bench@example.invalid")):
        subprocess.run([*GIT, "config", key, value], cwd=project, check=True)  # git's cache of texts needs them
    subprocess.run(["faber-ledger", "init"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    long = events // SHARE
    short = (events - long * (count // LONG)) // (count - count // LONG)
    for number in range(count):
        work_id = str(1000 + number)
        run_id = f"bench-{work_id}-20260105-143022-{number:06d}"
        write_run(project, run_id, work_id, number, long if number % LONG == LONG - 1 else short, count)
        (project / f"module_{number % 20}.py").write_text(f"VALUE = {number}\n" * 200)
        if number % COMMITTED_AT_ONCE == COMMITTED_AT_ONCE - 1 or number == count - 1:
            subprocess.run([*GIT, "add", "."], cwd=project, check=True)
            subprocess.run([*GIT, "commit", "--quiet", "--message", f"Work on {work_id}"], cwd=project, check=True)
    subprocess.run([*GIT, "gc", "--quiet"], cwd=project, check=True)
    active = project / ".fractary" / "faber" / ".active-run-id"
    active.write_text(f"{run_id}\n")
    for _ in range(2):  # the first gives the runs their logs
        subprocess.run(["faber-ledger", "seal", "--all"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*GIT, "commit", "--quiet", "--allow-empty", "--message", "Seal"], cwd=project, check=True)


def write_run(project: Path, run_id: str, work_id: str, number: int, events: int, count: int) -> None:
    """Write a run's log, of complete sessions, and its state."""
    folder = project / ".fractary" / "runs" / run_id
    folder.mkdir(parents=True)
    started = {"event": {"type": "run_started", "run_id": run_id, "workflow_id": "default", "work_id": work_id}}
    with Log.open(str(folder / "ledger.db")) as log:
        facts = itertools.islice(drafts(), events // SESSION * SESSION)
        log.append([started, *facts], at=BEGIN + 3600 * number, writer=WRITER)  # type: ignore[list-item]  # plain dicts of events
        log.commit()
        blocks = fold(log.stream())
    state = {
        "run_id": run_id,
        "work_id": work_id,
        "workflow_id": "default",
        "status": "in_progress" if number == count - 1 else "completed",
        "current_phase": "build",
        **blocks,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")


if __name__ == "__main__":
    main()
