"""The live page as people meet it, in a real Chromium: `make test-browser`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.browser import Browser
from support.project import RUN, Project
from support.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser
# Each text's contrast with what is behind it, by the formula of WCAG 2; the worst one and its text.
CONTRAST = """
const level = (c) => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
const luminance = ([r, g, b]) => 0.2126 * level(r) + 0.7152 * level(g) + 0.0722 * level(b);
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const found = numbers(getComputedStyle(at).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
let worst = [21, ''];
for (const one of document.querySelectorAll('body *:not(svg *)')) {
  const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
  if (!own || one.getBoundingClientRect().width <= 1) continue;  // what only a screen reader reads is as small
  const [a, b] = [luminance(numbers(getComputedStyle(one).color)), luminance(ground(one))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < worst[0]) worst = [ratio, one.textContent.trim().slice(0, 40)];
}
return worst;
"""
UNNAMED = """
return [...document.querySelectorAll('a, button, input, [role=region], table')]
  .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length))
  .map((one) => one.outerHTML.slice(0, 80));
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a session, two runs and a note."""
    project = Project.made(tmp_path / "shop")
    project.deliver("SessionStart.startup.print")
    project.start_run("77", "--run-id", "other", "--yes")
    project.faber("note", "the cache goes", "--run-id", RUN)
    project.change_state(status="awaiting_feedback", feedback_request={"prompt": "Which port?"})
    return project


@pytest.fixture
def page(project: Project) -> Iterator[Served]:
    """Its page, which nobody has opened."""
    served = Served(project.root, project.environment())
    yield served
    served.__exit__(None)


def test_the_list_follows_what_happens_in_place(project: Project, page: Served, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.resize(700, 400)
        browser.visit(page.address)
        assert "token" not in browser.url
        browser.wait_for("document.getElementById('live').textContent === 'live'")
        row = f"document.getElementById('run-{RUN}')"
        browser.run("document.body.style.paddingBottom = '900px'; scrollTo(0, 90)")
        browser.run(f"{row}.seen = true; {row}.querySelector('a').focus({{preventScroll: true}})")
        assert browser.run(f"return {row}.querySelector('.state').textContent") == "waiting: question"
        project.change_state(status="failed", feedback_request=None)
        browser.wait_for(f"{row}.querySelector('.state').textContent === 'failed'")
        assert browser.run(f"return [{row}.seen, scrollY, document.activeElement.textContent]") == [True, 90, RUN]
        project.start_run("78", "--run-id", "third", "--yes")
        browser.wait_for("document.getElementById('run-third') !== null")


def test_what_a_reader_has_open_stays_when_the_first_note_arrives(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "shop")
    project.deliver("SessionStart.startup.print")
    state = "return [fold.isConnected, fold.open, document.activeElement === fold.firstChild]"
    page = Served(project.root, project.environment())
    with Browser(tmp_path / "profile") as browser:
        browser.resize(700, 400)
        browser.visit(page.address)
        browser.visit(f"http://{page.host}/run/{RUN}")
        browser.wait_for("document.getElementById('live').textContent === 'live'")
        browser.run("window.fold = document.querySelector('#e2 details'); fold.open = true; fold.firstChild.focus()")
        top = browser.run("fold.scrollIntoView(); return Math.round(fold.getBoundingClientRect().top)")
        for number in (1, 2):
            project.faber("note", "a note", "--run-id", RUN)
            browser.wait_for(f"document.querySelectorAll('article').length === {number}")
            assert browser.run(state) == [True, True, True]
            assert browser.run("return Math.round(fold.getBoundingClientRect().top)") == top
    page.__exit__(None)


def test_the_focus_follows_a_run_that_moves_in_the_list(project: Project, page: Served, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.visit(page.address)
        browser.wait_for("document.getElementById('live').textContent === 'live'")
        browser.run("document.querySelector('#run-other a').focus()")
        project.change_state(status="completed", feedback_request=None)
        browser.wait_for(f"document.querySelector('tbody').lastElementChild.id === 'run-{RUN}'")
        assert browser.run("return document.activeElement.textContent") == "other"
        browser.run(f"document.querySelector('#run-{RUN} a').focus()")
        project.change_state(status="failed")
        browser.wait_for(f"document.querySelector('tbody').firstElementChild.id === 'run-{RUN}'")
        assert browser.run("return document.activeElement.textContent") == RUN


def test_a_hidden_tab_listens_to_nothing(page: Served, tmp_path: Path) -> None:
    hide = (
        "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}});"
        " document.dispatchEvent(new Event('visibilitychange'))"
    )
    with Browser(tmp_path / "profile") as browser:
        browser.visit(page.address)
        browser.wait_for("stream !== null && stream.readyState === 1")
        browser.run(f"window.before = stream; {hide.format('true')}")
        assert browser.run("return [stream, before.readyState]") == [None, 2]
        browser.run(hide.format("false"))
        browser.wait_for("stream !== null && stream.readyState === 1")


@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)])
def test_every_text_can_be_read_and_everything_has_a_name(page: Served, tmp_path: Path, flags: tuple[str, ...]) -> None:
    with Browser(tmp_path / "profile", *flags) as browser:
        browser.visit(page.address)
        for path in ("/", f"/run/{RUN}", "/search?q=cache", "/nothing"):
            browser.visit(f"http://{page.host}{path}")
            ratio, text = browser.run(CONTRAST)
            assert ratio >= 4.5, (path, text)
            assert browser.run(UNNAMED) == []
        browser.visit(f"http://{page.host}/")
        assert browser.label(f"#run-{RUN} .phases")[1] == "build"


def test_no_javascript_is_enough(page: Served, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", javascript=False) as browser:
        browser.visit(page.address)
        browser.click(f"#run-{RUN} a")
        assert browser.url == f"http://{page.host}/run/{RUN}"
        browser.click("#e1 summary")
        assert browser.label("#e1 a")[1] == "1"


def test_a_phones_width_is_enough(project: Project, page: Served, tmp_path: Path) -> None:
    views = {"/": "Runs", f"/run/{RUN}": RUN, f"/run/{RUN}/event/{project.recorded[0]['id']}": "Event 1: run_adopted"}
    with Browser(tmp_path / "profile") as browser:
        browser.resize(500, 800)  # the narrowest that a window can be
        browser.visit(page.address)
        for path, heading in views.items():
            browser.visit(f"http://{page.host}{path}")
            found = "return [document.querySelector('h1').textContent, document.documentElement.scrollWidth]"
            assert browser.run(found) == [heading, 500]


def test_times_are_the_readers(project: Project, page: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    at = str(project.recorded[0]["at"])
    with Browser(tmp_path / "profile") as browser:
        browser.visit(page.address)
        browser.visit(f"http://{page.host}/run/{RUN}")
        expected = browser.run(f"return new Date('{at}').toLocaleString('en-US', {{timeZone: 'Asia/Tokyo'}})")
        shown = "document.querySelector('#e1 time')"
        assert browser.run(f"return [{shown}.textContent, {shown}.title]") == [expected, at]
