"""Measure how the work grows with events, sessions and writers; each as a table and a picture."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

from measure import Process, Row
from plot import chart
from stage import ARTIFACTS, RUN_ID, Stage

LENGTHS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
RELOADS = 50  # per session, which makes 502 events, so a million events are two thousand sessions
EACH = 2 + 10 * RELOADS
SESSIONS = (1, 10, 100, 500, 2_000)
HOOKS = ("session-start", "session-end")
# The goals of hooks on long runs: the hook and how many sessions, × REF.
LONG_RUNS = {
    ("session-start", 500): 2.0,
    ("session-end", 500): None,
    ("session-start", 2_000): 4.0,
    ("session-end", 2_000): 3.5,
}
PARTS = ("ledger", "blocks", "state", "rest")
WRITERS = (1, 2, 4, 8, 16, 32)
APPENDS = 20  # per writer
REF = "import sqlite3, json"
HERE = Path(__file__).parent


def measure_growth(stage: Stage, *, quick: bool) -> str:
    """Measure, draw the pictures unless `quick`, and return the tables."""
    return "\n".join([_events(stage, quick=quick), _sessions(stage, quick=quick), _writers(stage, quick=quick)])


def list_long_runs(stage: Stage, *, quick: bool) -> list[tuple[Row, Process, Process]]:
    """Return the hooks on long runs, each with REF as its peer; if `quick`, with fewer events in as many sessions."""
    ref = Process([stage.python, "-c", REF], stage.folder, stage.environment)
    found = []
    for (name, sessions), goal in LONG_RUNS.items():
        project = _project(stage, sessions, 1 if quick else RELOADS)
        environment = stage.environment | {"CLAUDE_PROJECT_DIR": str(project)}
        hook = Process(stage.hook(name), project, environment, _delivery(stage, name, project))
        found.append((Row(f"`hook {name}` after {sessions:,} sessions", "REF", goal), hook, ref))
    return found


def _events(stage: Stage, *, quick: bool) -> str:
    rebuilds, appends = [], []
    for events in LENGTHS[:-3] if quick else LENGTHS:
        path = stage.long_log(events, RELOADS)
        rebuilds.append(
            (events, _rebuild(stage, path, rounds=1 if events > 100_000 else 3 if quick or events > 10_000 else 9))
        )
        appends.append((events, _append(stage, path, rounds=3 if quick else 15)))
    lines = ["| events | rebuild, × RAW | durable append, × REF |", "|---|---|---|"]
    for (events, rebuild), (_, append) in zip(rebuilds, appends, strict=True):
        lines.append(f"| {events:,} | {rebuild:.2f} | {append:.2f} |")
    if not quick:
        _draw(
            "growth-events.svg",
            chart(
                "What grows with the log",
                "events in the log",
                "× its peer",
                {"rebuild, × RAW": rebuilds, "durable append, × REF": appends},
            ),
        )
    return "\n".join(lines) + "\n"


def _sessions(stage: Stage, *, quick: bool) -> str:
    """Measure hooks on runs with more and more sessions: as complete processes, and their parts in one process."""
    counts = SESSIONS[:2] if quick else SESSIONS
    rounds = 5 if quick else 15
    projects = {count: _project(stage, count) for count in counts}
    ref = Process([stage.python, "-c", REF], stage.folder, stage.environment)
    ratios: dict[str, dict[int, list[float]]] = {name: {count: [] for count in counts} for name in HOOKS}
    parts: dict[str, dict[int, list[dict[str, float]]]] = {name: {count: [] for count in counts} for name in HOOKS}
    for _ in range(rounds):
        for count, project in projects.items():
            for name in HOOKS:  # a start and an end in turn, so that every round begins alike
                for command, into in ((stage.hook(name), None), (_in_parts(stage, name), parts[name][count])):
                    environment = stage.environment | {"CLAUDE_PROJECT_DIR": str(project)}
                    hook = Process(command, project, environment, _delivery(stage, name, project))
                    if into is None:
                        ratios[name][count].append(hook.seconds()[0] / ref.seconds()[0])
                    else:
                        into.append(json.loads(hook.output()))
    heads = [f"`{name}`, {what}" for name in HOOKS for what in ("× REF", *(f"{part}, ms" for part in PARTS))]
    lines = [f"| sessions | events | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    medians = {
        name: {count: {part: _median([one[part] for one in parts[name][count]]) for part in PARTS} for count in counts}
        for name in HOOKS
    }
    for count in counts:
        cells = []
        for name in HOOKS:
            cells.append(f"{_median(ratios[name][count]):.2f}")
            cells += [f"{1000 * medians[name][count][part]:.1f}" for part in PARTS]
        lines.append(f"| {count:,} | {count * EACH:,} | {' | '.join(cells)} |")
    few, many = counts[0], counts[-1]
    factors = [f"`{name}` {medians[name][many]['ledger'] / medians[name][few]['ledger']:.2f}" for name in HOOKS]
    lines.append(f"\nThe ledger's work at {many:,} sessions against {few:,} (goal ≤ 1.10): {', '.join(factors)}.")
    if not quick:
        curves = {
            f"{name}: {part}, ms": [(count, 1000 * medians[name][count][part]) for count in counts]
            for name in HOOKS[:1]
            for part in PARTS
        }
        _draw("growth-sessions.svg", chart("What a hook does", "sessions in the run", "ms", curves, log_up=True))
    return "\n".join(lines) + "\n"


def _project(stage: Stage, sessions: int, reloads: int = RELOADS) -> Path:
    """Make a git project with an active run of that many sessions, and project its state.json, unless it exists."""
    project = stage.folder / f"sessions-{sessions}-{reloads}"
    if project.exists():
        return project
    run = project / ".fractary" / "runs" / RUN_ID
    run.mkdir(parents=True)
    stage.run_command(["git", "init", "--quiet", str(project)])
    (project / ".fractary" / "faber").mkdir()
    (project / ".fractary" / "faber" / ".active-run-id").write_text(f"{RUN_ID}\n")
    for name in ARTIFACTS:
        (project / name).parent.mkdir(parents=True)
        shutil.copyfile(stage.project / name, project / name)
    shutil.copyfile(stage.run / "state.json", run / "state.json")  # without the blocks of `stage`, once it is projected
    shutil.copyfile(stage.long_log(sessions * (2 + 10 * reloads), reloads), run / "ledger.db")
    stage.run_command([stage.command, "project"], project)
    for name in HOOKS:
        Process(stage.hook(name), project, stage.environment, _delivery(stage, name, project)).output()
    return project


def _in_parts(stage: Stage, name: str) -> list[str]:
    return [stage.python, str(HERE / "hook_parts.py"), name]


def _delivery(stage: Stage, name: str, project: Path) -> Path:
    path = project / f"{name}.json"
    if not path.exists():
        path.write_text(stage.delivery(name).read_text().replace(str(stage.project), str(project)))
    return path


def _writers(stage: Stage, *, quick: bool) -> str:
    """Let more and more processes append to one run at once."""
    lines = ["| writers × 20 appends | lost | doubled | p99, ms | longest, ms |", "|---|---|---|---|---|"]
    p99s, longests = [], []
    for writers in WRITERS[:3] if quick else WRITERS:
        folder = stage.folder / f"writers-{writers}"
        folder.mkdir()
        command = [stage.python, str(HERE / "writers.py"), str(folder), str(writers), str(APPENDS)]
        found = json.loads(Process(command, stage.folder, stage.environment).output())
        p99s.append((writers, 1000 * found["p99"]))
        longests.append((writers, 1000 * found["longest"]))
        cells = [f"{found['lost']}", f"{found['doubled']}", f"{p99s[-1][1]:.0f}", f"{longests[-1][1]:.0f}"]
        lines.append(f"| {writers} | {' | '.join(cells)} |")
    if not quick:
        curves = {"p99": p99s, "longest": longests}
        _draw("growth-writers.svg", chart("How long an append takes", "writers at once", "ms", curves, log_up=True))
    return "\n".join(lines) + "\n"


def _draw(name: str, picture: str) -> None:
    (HERE / name).write_text(picture, encoding="utf-8")


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _rebuild(stage: Stage, path: Path, rounds: int) -> float:
    seconds = json.loads(
        Process(
            [stage.python, str(Path(__file__).with_name("rebuild.py")), str(path), str(rounds)],
            stage.folder,
            stage.environment,
        ).output()
    )
    return statistics.median(ours[0] / raw[0] for ours, raw in zip(seconds["rebuild"], seconds["raw"], strict=True))


def _append(stage: Stage, path: Path, rounds: int) -> float:
    folder = stage.folder / f"growth-{path.stem}"
    folder.mkdir()
    shutil.copyfile(path, folder / "ledger.db")
    script = str(Path(__file__).with_name("append.py"))
    ours = Process([stage.python, script, str(folder)], stage.folder, stage.environment)
    ref = Process([stage.python, "-c", REF], stage.folder, stage.environment)
    ours.seconds()  # unmeasured: it also writes the copy's pages to disk
    found = statistics.median([ours.seconds()[0] / ref.seconds()[0] for _ in range(rounds)])
    shutil.rmtree(folder)
    return found
