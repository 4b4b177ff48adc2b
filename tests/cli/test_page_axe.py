"""The live page has no violation of WCAG 2 A and AA that axe finds, nor of its best practices: `make test-browser`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.browser import Browser
from support.project import RUN, Project
from support.served import Served
from support.timelines import HOSTILE

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
START = """
window.found = null;
const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
axe.run({runOnly}).then((result) => {
  window.found = result.violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))]);
});
return null;
"""
WAIT = "return new Promise((done) => { const look = () => found ? done(found) : setTimeout(look, 20); look(); })"


def test_axe_finds_no_violation_in_any_view(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "shop")
    project.deliver("SessionStart.startup.print")
    project.faber("note", "the cache goes", "--run-id", RUN)
    (session,) = [event["session_id"] for event in project.of_type("session_started")]
    event = project.recorded[-1]["id"]
    views = ["/", f"/run/{RUN}", f"/run/{RUN}/session/{session}", f"/run/{RUN}/event/{event}", "/search?q=cache"]
    page = Served(project.root, project.environment())
    with Browser(tmp_path / "profile") as browser:
        browser.visit(page.address)
        found = {}
        for path in views:
            browser.visit(f"http://{page.host}{path}")
            browser.run(AXE.read_text(encoding="utf-8") + START)
            found[path] = browser.run(WAIT)
    page.__exit__(None)
    assert [(path, one) for path, ones in found.items() for one in ones] == []


def test_nothing_is_asked_elsewhere_and_the_console_is_empty(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "shop")
    project.deliver("SessionStart.startup.print")
    project.change_state(target=HOSTILE, branch=HOSTILE)
    project.faber("note", HOSTILE, "--run-id", RUN)
    (session,) = [event["session_id"] for event in project.of_type("session_started")]
    page = Served(project.root, project.environment())
    with Browser(tmp_path / "profile") as browser:
        browser.visit(page.address)
        for path in ("/", f"/run/{RUN}", f"/run/{RUN}/session/{session}"):
            browser.visit(f"http://{page.host}{path}")
        said, messages = browser.log("browser"), [json.loads(one)["message"] for one in browser.log("performance")]
    page.__exit__(None)
    sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert said == []
    assert f"http://{page.host}/run/{RUN}" in sent
    assert [
        url for url in sent if not url.startswith((f"http://{page.host}/", "data:", "chrome"))
    ] == []  # the first tab is Chromium's own
