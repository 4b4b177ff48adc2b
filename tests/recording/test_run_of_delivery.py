"""Which run a delivery is about: the rule of DECISIONS 37, as a table of situations.

Each line has the situation; what happened before, in order; the delivery; and the runs on which something is recorded
by it ("-": none). In "before", `start A` is a start of the client while the active file names A, `file B` writes the
active file afterwards, `B completed` changes a status, and `in PATH` launches the client in a folder.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """
situation                                             | before                                   | delivery | recorded on
------------------------------------------------------|------------------------------------------|----------|------------
a new conversation                                    | file A                                   | startup  | A
no run is active                                      |                                          | startup  | -
the client compacts                                   | start A                                  | compact  | A
the client compacts, the file is gone                 | start A, file                            | compact  | A
the client compacts, the file is gone                 | start A, file                            | pre      | A
another run was started meanwhile                     | start A, file B                          | pre      | A B
a conversation is resumed                             | start A                                  | resume   | A
a conversation is resumed, another run was started    | start A, file B                          | resume   | A B
the file was written again with the same name         | start A, file A                          | pre      | A
the file names nothing that is here                   | start A, file ghost                      | pre      | A
the client ends                                       | start A                                  | end      | A
the client ends, another run was started meanwhile    | start A, file B                          | end      | A
the client ends, its run is completed                 | start A, A completed                     | end      | A
the client compacts, its run is completed             | start A, A completed                     | pre      | A
the client compacts on a completed run, B is at work  | start A, A completed, file B             | compact  | A B
a new conversation on a completed run                 | start A, A completed                     | clear    | -
/clear, another run was started meanwhile             | start A, file B                          | clear    | A B
the file had another name before the session began    | file B, start A                          | pre      | A
launched in a run's folder                            | file B, in .fractary/runs/run-a          | startup  | A
launched in a folder below a run's                    | file B, in .fractary/runs/run-a/events   | startup  | A
launched in a plan's folder without a state           | file B, in .fractary/faber/runs/plan     | startup  | -
launched in the folder of a plan with several runs    | file B, in .fractary/faber/runs/many     | startup  | -
launched in another folder of the project             | file B, in src                           | startup  | B
a compaction is over                                  | start A, file B, file A                  | post     | A
an end of a client that was never seen                | file A                                   | end      | -
a compaction of a client that was never seen          | file A                                   | pre      | A
"""
COLUMNS, _, *ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().split("\n")]
RECORDED = {
    "startup": "SessionStart.startup.interactive",
    "compact": "SessionStart.compact.interactive",
    "resume": "SessionStart.startup.interactive",
    "clear": "SessionStart.startup.interactive",
    "pre": "PreCompact.auto.print",
    "post": "PostCompact.auto.print",
    "end": "SessionEnd.other.interactive",
}
ME = {"client": "324802ff-0231-4ac6-8eb6-c6c99574fbae", "pid": "1"}
RUNS = {"A": "run-a", "B": "run-b"}


@pytest.mark.parametrize("row", ROWS, ids=[row[0].replace(" ", "-").replace("/", "") for row in ROWS])
def test_the_rule(row: list[str], tmp_path: Path) -> None:
    _, before, delivery, wanted = row
    project = prepare(tmp_path / "project")
    launched: dict[str, Any] = {}
    for step in filter(None, before.split(", ")):
        word, _, rest = step.partition(" ")
        if word == "start":
            name_run(project, rest)
            assert "# FABER run" in (project.deliver(RECORDED["startup"], **ME).packet or "")
        elif word == "file":
            name_run(project, rest)
        elif word == "in":
            folder = project.root / rest
            folder.mkdir(parents=True, exist_ok=True)
            launched = {"env": {"CLAUDE_PROJECT_DIR": str(folder)}, "fields": {"cwd": str(folder)}}
        else:
            change_status(project, RUNS[word], rest)
    counts = {name: count(project, run_id) for name, run_id in RUNS.items()}
    fields = {"source": delivery} if delivery in ("resume", "clear") else {}
    changes = {**ME, **launched} if launched else {**ME, "fields": fields}
    assert project.deliver(RECORDED[delivery], **changes).code == 0
    changed = [name for name, run_id in RUNS.items() if count(project, run_id) != counts[name]]
    assert " ".join(changed) == wanted.strip("-")


def prepare(root: Path) -> Project:
    project = Project.fresh(root)
    project.write("README", "a project\n")
    project.commit("Begin")
    for run_id in RUNS.values():
        project.write(f".fractary/runs/{run_id}/state.json", json.dumps(usual_state(run_id)))
    for suffix in ("x", "y"):
        project.write(f".fractary/faber/runs/many/state-{suffix}.json", json.dumps(usual_state(f"many-run-{suffix}")))
    return project


def name_run(project: Project, name: str) -> None:
    """Write the active file, later than all that happened before; without a name, remove it."""
    if not name:
        project.active_path.unlink()
        return
    project.write(".fractary/faber/.active-run-id", f"{RUNS.get(name, name)}\n")
    os.utime(project.active_path, (now(), now()))


def change_status(project: Project, run_id: str, status: str) -> None:
    path = project.root / ".fractary/runs" / run_id / "state.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"status": status, "completed_at": "2030-01-01T00:00:00Z"})
    )


def count(project: Project, run_id: str) -> int:
    """Return how many events a run has, wherever this clone has them."""
    path = project.root / ".fractary/runs" / run_id / "ledger.db"
    if not path.exists():
        return 0
    with Log.read(str(path)) as log:
        return len(list(log.stream()))
