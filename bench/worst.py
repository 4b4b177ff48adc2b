"""Measure hooks on what a hostile repository may bring: very many heads, very long notes, a very large state."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Process, Row, measure
from stage import CLIENT, RUN_ID, WRITER

from faber_ledger.ledger.clock import event_id
from faber_ledger.ledger.encoding import HASH, INSERT, SEQ
from faber_ledger.ledger.log import Log, make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from stage import Stage

HEADS, NOTES, NOTE, STATE = 20_000, 20, 8_000_000, 12_000_000
GOAL = 3.0
BEGIN = 1_767_623_422.0
DECODE = "import gc, json, os, sys; gc.disable(); state = json.load(open(sys.argv[1])); os._exit(0)"
START = "session-start"


def measure_worst(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure a session's start on each, right after its peer: an ordinary start, or one decoding of the state."""
    share = 20 if quick else 1
    ordinary = _hook(stage, _project(stage, "ordinary", []))
    heads = _project(stage, "heads", [_note(f"note {number}") for number in range(HEADS // share)], beside=True)
    notes = _project(stage, "notes", [_note("x" * (NOTE // share)) for _ in range(NOTES)])
    large = _project(stage, "large", [], {"objects": [{}] * (STATE // share // 3)})
    state = large / ".fractary" / "runs" / RUN_ID / "state.json"
    decode = Process([stage.python, "-c", DECODE, str(state)], stage.folder, stage.environment)
    contenders = [
        (Row(f"`hook {START}` on {HEADS // share:,} heads", "an ordinary one", GOAL), _hook(stage, heads), ordinary),
        (
            Row(f"`hook {START}` on {NOTES} notes of {NOTE // share // 1_000_000} MB", "an ordinary one", GOAL),
            _hook(stage, notes),
            ordinary,
        ),
        (
            Row(f"`hook {START}` on a state of {STATE // share // 1_000_000} MB", "one decoding of it", GOAL),
            _hook(stage, large),
            decode,
        ),
    ]
    measure(contenders, 3 if quick else 15, _keep([ordinary.cwd, heads, notes, large]))
    return [row for row, _, _ in contenders]


def _note(text: str) -> dict[str, Any]:
    return {"type": "note_recorded", "kind": "note", "phase": None, "step": None, "text": text}


def _project(
    stage: Stage, name: str, events: list[Any], more: dict[str, Any] | None = None, *, beside: bool = False
) -> Path:
    """Make a project with these events in its log, each after or, as many heads, `beside` the one before."""
    project = stage.folder / f"worst-{name}"
    run = project / ".fractary" / "runs" / RUN_ID
    run.mkdir(parents=True)
    stage.run_command(["git", "init", "--quiet", str(project)])
    first: Any = {"type": "run_started", "run_id": RUN_ID, "workflow_id": "default", "work_id": "258"}
    rows = [make_row({"event": first}, first, [], BEGIN, WRITER)]
    for number, event in enumerate(events):
        named: Any = {"event": event, "id": event_id(BEGIN + 1 + number, bytes(10))}
        before = rows[0] if beside else rows[-1]
        rows.append(make_row(named, event, [(before[SEQ], before[HASH])], BEGIN + 1 + number, WRITER))
    with Log.open(str(run / "ledger.db")) as log:
        log.connection.executemany(INSERT, rows)
        log.set_heads([(row[SEQ], row[HASH]) for row in (rows[1:] if beside and events else rows[-1:])])
        log.commit()
    state = {"run_id": RUN_ID, "work_id": "258", "workflow_id": "default", "status": "in_progress", **(more or {})}
    # As compact as another tool may write it.
    (run / "state.json").write_text(json.dumps(state, separators=(",", ":")) + "\n")
    (project / ".fractary" / "faber").mkdir()
    (project / ".fractary" / "faber" / ".active-run-id").write_text(f"{RUN_ID}\n")
    stage.run_command([stage.command, "run", "resume", RUN_ID], project)
    stage.run_command([stage.command, "project", RUN_ID], project)  # makes the log, and writes the blocks
    delivery = {"session_id": CLIENT, "cwd": str(project), "hook_event_name": "SessionStart", "source": "startup"}
    (project / "delivery.json").write_text(json.dumps(delivery) + "\n")
    return project


def _hook(stage: Stage, project: Path) -> Process:
    environment = stage.environment | {"CLAUDE_PROJECT_DIR": str(project)}
    return Process(stage.hook(START), project, environment, project / "delivery.json")


def _keep(projects: list[Path]) -> Callable[[], None]:
    """Keep the projects as they are; return what puts them back."""
    kept = [(project, project.with_name(f"{project.name}-kept")) for project in projects]
    for project, copy in kept:
        shutil.copytree(project, copy, symlinks=True)

    def restore() -> None:
        for project, copy in kept:
            shutil.rmtree(project)
            shutil.copytree(copy, project, symlinks=True)
        os.sync()

    return restore
