"""Write the pictures of the demo in docs/images, as Chromium shows it: `python tools/take_picture.py`.

timeline.png is its timeline, page.png the live page: the list, and below it the longest run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.browser import Browser
from support.served import Served

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COMMAND = Path(sys.executable).with_name("faber-ledger")
TIMELINE, LIST, RUN, PAGE = (1300, 830), (1300, 720), (1300, 800), (1300, 1389)  # of the window
BOTH = (
    '<!doctype html><body style="margin: 0; background: #888"><img src="list.png" style="display: block">'
    '<img src="run.png" style="display: block; margin-top: 12px">\n'
)


def main() -> int:
    """Play the demo and take the pictures."""
    folder = Path(tempfile.mkdtemp())
    try:
        played = subprocess.run(
            [COMMAND, "demo", "--keep", "--json"],
            env=os.environ | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
        data = json.loads(played.stdout)["data"]
        project = Path(data["directory"]) / "laptop" / "myproject"
        timeline = folder / "run.html"
        subprocess.run([COMMAND, "timeline", data["run_id"], "-o", timeline], cwd=project, check=True)
        served = Served(project, os.environ)
        try:
            take(folder, timeline, served, data["run_id"])
        finally:
            served.__exit__(None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def take(folder: Path, timeline: Path, served: Served, run_id: str) -> None:
    """Take both pictures; the browser is closed after it."""
    with Browser(folder / "profile") as browser:
        browser.open(timeline)
        (IMAGES / "timeline.png").write_bytes(browser.picture(*TIMELINE))
        browser.visit(served.address)  # which is good once
        (folder / "list.png").write_bytes(browser.picture(*LIST))
        browser.visit(f"http://{served.host}/run/{run_id}")
        (folder / "run.png").write_bytes(browser.picture(*RUN))
        (folder / "page.html").write_text(BOTH, encoding="utf-8")
        browser.open(folder / "page.html")
        (IMAGES / "page.png").write_bytes(browser.picture(*PAGE))


if __name__ == "__main__":
    sys.exit(main())
