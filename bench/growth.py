"""How a rebuild and an append grow with the log: each length measured next to its peer, as a table and as a picture."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

from measure import Process
from plot import chart
from stage import Stage

LENGTHS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
RELOADS = 50  # of a session, so that a million events are two thousand sessions
REF = "import sqlite3, json"
PICTURE = Path(__file__).with_name("growth-events.svg")


def growth(stage: Stage, *, quick: bool) -> str:
    """Measure each length, draw the picture unless `quick`, and give the table."""
    rebuilds, appends = [], []
    for events in LENGTHS[:-2] if quick else LENGTHS:
        path = stage.long_log(events, RELOADS)
        rebuilds.append((events, _rebuild(stage, path, rounds=3 if events > 10_000 else 9)))
        appends.append((events, _append(stage, path, rounds=3 if quick else 15)))
    lines = ["| events | rebuild, × RAW | durable append, × REF |", "|---|---|---|"]
    for (events, rebuild), (_, append) in zip(rebuilds, appends, strict=True):
        lines.append(f"| {events:,} | {rebuild:.2f} | {append:.2f} |")
    if not quick:
        PICTURE.write_text(
            chart(
                "What grows with the log",
                "events in the log",
                "× its peer",
                {"rebuild, × RAW": rebuilds, "durable append, × REF": appends},
            )
        )
    return "\n".join(lines) + "\n"


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
    ours.seconds()  # the copy's pages go to the disk in nobody's time
    found = statistics.median([ours.seconds()[0] / ref.seconds()[0] for _ in range(rounds)])
    shutil.rmtree(folder)
    return found
