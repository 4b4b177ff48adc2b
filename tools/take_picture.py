"""Write pictures into docs/images, as Chromium shows them: `python tools/take_picture.py`.

Of the demo, timeline.png is its timeline, and page.png the live page: the list, and below it the longest run.
mcp.png is Gemini's terminal: its model, a mock, asks our server. `make .agents/pinned` installs Gemini.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from real_agents.mock_model import MockModel, Said
from real_agents.project import Clients
from real_agents.terminal import PROGRAMS
from real_agents.terminal_program import Terminal
from support.browser import Browser
from support.served import Served

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COMMAND = Path(sys.executable).with_name("faber-ledger")
TIMELINE, LIST, RUN, PAGE, TERMINAL = (1300, 830), (1300, 720), (1300, 800), (1300, 1389), (1300, 335)  # of the window
BOTH = (
    '<!doctype html><body style="margin: 0; background: #888"><img src="list.png" style="display: block">'
    '<img src="run.png" style="display: block; margin-top: 12px">\n'
)

QUESTION, ANSWER = "what did we decide about the cache", "Not to have one: one query is enough."
SCREEN = (
    '<!doctype html><meta charset="utf-8"><body style="margin: 0; background: #16161e; color: #c0caf5">'
    '<pre style="margin: 12px 16px; font: 14px/1.25 DejaVu Sans Mono, monospace">{}</pre>'
)


class Answering(MockModel):
    """A model that calls a tool, and then says what was decided."""

    def answer(self, body: str) -> Said:
        """Return the call, then the answer."""
        said = super().answer(body)
        return ANSWER if isinstance(said, str) else said


def main() -> int:
    """Play the demo, let an agent ask, and take the pictures."""
    folder = Path(tempfile.mkdtemp())
    try:
        screen = folder / "screen.html"
        screen.write_text(SCREEN.format(html.escape(ask_agent(folder / "agent"))), encoding="utf-8")
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


def ask_agent(folder: Path) -> str:
    """Return what Gemini's terminal shows after a question that our server answers."""
    model = Answering()
    try:
        clients = Clients(folder, model)
        clients.run("faber-ledger", "init", "--mcp", "gemini")
        clients.run("faber-ledger", "run", "start", "--work-id", "258")
        clients.run("faber-ledger", "note", "--decision", "no cache: one query is enough")
        model.calls = [("search", {"text": "cache"})]
        with Terminal(clients, PROGRAMS["gemini"].ready, *PROGRAMS["gemini"].start, "--yolo") as terminal:
            terminal.type(QUESTION)
            terminal.wait(lambda: ANSWER in terminal.shown, "answer")
            shown = terminal.shown
    finally:
        model.close()
    asked = shown.index(f"> {QUESTION}")
    return shown[asked : shown.index(ANSWER) + len(ANSWER)]


def take(folder: Path, timeline: Path, served: Served, run_id: str) -> None:
    """Take the pictures; the browser is closed after it."""
    with Browser(folder / "profile") as browser:
        browser.open(folder / "screen.html")
        (IMAGES / "mcp.png").write_bytes(browser.picture(*TERMINAL))
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
