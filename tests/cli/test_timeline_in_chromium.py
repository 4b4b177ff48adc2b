"""The timeline as people meet it, in a real Chromium: `make test-browser`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.browser import Browser
from support.timelines import HOSTILE, draw, hostile, long_history, story_timeline

from faber_ledger.cli.commands.timeline import page
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.projections.timeline import build_timeline

pytestmark = pytest.mark.browser
CANARY = "<!doctype html><title>quiet</title><body><script>document.title = 'it ran'</script>"
PNG = b"\x89PNG\r\n"


def written(folder: Path, text: str, name: str = "run.html") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_no_part_of_a_hostile_payload_runs(tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(written(tmp_path, CANARY))
        assert browser.title == "it ran"  # so a script that got through would be seen
        path = written(tmp_path, page(build_timeline(HOSTILE, hostile(), seconds_of)))
        browser.open(path)
        assert browser.title == f"{HOSTILE}: timeline".replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
        assert not browser.has_alert()
        assert browser.url == path.as_uri()
        assert browser.run("return document.querySelectorAll('script, img, iframe, object').length") == 0
        assert browser.run("return document.body.innerText.includes('\\u202e')") is False


def test_a_click_on_a_bar_leads_to_its_row_without_javascript(tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", javascript=False) as browser:
        browser.open(written(tmp_path, CANARY))
        assert browser.title == "quiet"
        path = written(tmp_path, page(story_timeline("two-machines")))
        browser.open(path)
        unmarked = browser.style("#e2", "background-color")
        browser.click("a[href='#e2'] .bar.normal")
        assert browser.url == f"{path.as_uri()}#e2"
        assert browser.style("#e2", "background-color") != unmarked


def test_a_bar_has_a_role_and_a_name(tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(written(tmp_path, page(story_timeline("two-machines"))))
        role, name = browser.label("a[href='#e2']:has(.normal)")
        assert role == "link"
        assert name.startswith("claude-session-20260105-143030-abc123 on laptop: started 2026-01-05 14:30:30, ended")


def test_light_and_dark_follow_the_system(tmp_path: Path) -> None:
    grounds = []
    for number, flags in enumerate([(), ("--force-dark-mode",)]):
        with Browser(tmp_path / f"profile-{number}", *flags) as browser:
            browser.open(written(tmp_path, page(story_timeline("compaction-drops-artifacts"))))
            grounds.append(browser.style("body", "background-color"))
            assert browser.picture(1300, 900).startswith(PNG)
    assert grounds == ["rgba(255, 255, 255, 1)", "rgba(20, 24, 31, 1)"]


def test_letters_stay_in_the_chart_which_alone_scrolls(tmp_path: Path) -> None:
    outside = """
        const frame = document.querySelector('svg').getBoundingClientRect();
        return [...document.querySelectorAll('svg text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1;
        }).map(text => text.textContent)"""
    with Browser(tmp_path / "profile") as browser:
        for events in (draw(long_history(1)), draw(long_history(60)), story_timeline("two-machines")):
            browser.open(written(tmp_path, page(events)))
            browser.picture(1300, 900)
            assert browser.run(outside) == []
            browser.picture(600, 900)
            assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth") is True
