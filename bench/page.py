"""Measure how soon the live page shows something: the first contentful paint, as a multiple of an empty view's.

`PYTHONPATH=tests python bench/page.py`: 300 runs, one of them with 20,000 events, in a temporary folder.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.browser import Browser
from support.served import Served

RUN = "big-1-20260105-143022-000001"
STATE = {"run_id": RUN, "work_id": "1", "workflow_id": "default", "status": "in_progress", "current_phase": "build"}
VIEWS = {"empty view": "/search", "300 runs": "/", "their last page": "/?page=6", "20,000 events": f"/run/{RUN}"}
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
TRIES = 15


def main() -> None:
    """Make the runs, look at each view, and print the table."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        project = Path(folder) / "project"
        subprocess.run([sys.executable, here / "make_runs.py", project, "300", "30000"], env=environment, check=True)
        run = project / ".fractary" / "runs" / RUN
        run.mkdir()
        subprocess.run([sys.executable, here / "long_log.py", run / "ledger.db", "20000", "1"], check=True)
        (run / "state.json").write_text(json.dumps(STATE))
        page = Served(project, environment)
        with Browser(Path(folder) / "profile") as browser:
            browser.visit(page.address)
            found = {name: measure(browser, f"http://{page.host}{path}") for name, path in VIEWS.items()}
        page.__exit__(None)
    empty = found["empty view"]
    print("| view | first contentful paint, of an empty view's |\n|---|---|")
    for name, paint in found.items():
        print(f"| {name} | {paint / empty:.2f} |")


def measure(browser: Browser, address: str) -> float:
    """Return the median time of the first paint, in milliseconds, once the view was seen."""
    times: list[float] = []
    browser.visit(address)
    while len(times) < TRIES:
        browser.visit(address)
        while not (paint := browser.run(PAINT)):
            time.sleep(0.05)
        times.append(paint)
    return statistics.median(times)


if __name__ == "__main__":
    main()
