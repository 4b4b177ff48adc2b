"""The timeline: how a history is drawn, the page, and the command that writes it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from support.golden import GOLDEN
from support.histories import broken_histories, histories
from support.project import Project
from support.sample_log import write_run
from support.timelines import (
    HOSTILE,
    RUN,
    History,
    append_history,
    draw,
    hostile,
    long_history,
    story_timeline,
    write_clones,
)

from faber_ledger.cli.commands.timeline import page
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.event_types import USED
from faber_ledger.projections.timeline import build_timeline

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
DRAWN = ["compaction-drops-artifacts", "two-machines"]


class Page(HTMLParser):
    """The elements of a page, its links, ids, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def attribute(self, name: str) -> list[str]:
        return [value for _, given in self.elements if (value := given.get(name)) is not None]


# What is shown


@pytest.mark.parametrize("story", DRAWN)
def test_a_story_is_drawn_as_its_page(story: str, request: pytest.FixtureRequest) -> None:
    varying = r'(?<=content="faber-ledger) [^"]+|(?<=<style>).*?(?=</style>)'
    written = re.sub(varying, "", page(story_timeline(story)), flags=re.DOTALL)
    golden = GOLDEN / story / "timeline.html"
    if request.config.getoption("--update-golden"):
        golden.write_text(written, "utf-8")
    assert written == golden.read_text("utf-8")


@given(histories())
def test_any_history_gives_one_page_whose_links_all_work(events: list[Recorded]) -> None:
    written = page(draw(events))
    assert page(draw(events)) == written
    parsed = Page(written)
    ids = parsed.attribute("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in parsed.attribute("href") if link.startswith("#")} <= set(ids)


@given(broken_histories())
def test_a_history_that_another_program_wrote_is_drawn(events: list[Recorded]) -> None:
    assert page(draw(events)).endswith("</html>\n")


def test_no_part_of_a_payload_becomes_markup() -> None:
    written = page(build_timeline(HOSTILE, hostile(), seconds_of))
    parsed = Page(written)
    assert not {"script", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in parsed.elements}
    assert not [name for _, given in parsed.elements for name in given if name.startswith("on")]
    assert not {"\u202e", "\x1b"} & set(written)
    assert "\\u202etxt\\x1b[31m" in "".join(parsed.text)


def test_the_page_needs_no_network_and_no_script() -> None:
    parsed = Page(page(story_timeline("two-machines")))
    assert all(link.startswith(("#", "data:,")) for link in parsed.attribute("href"))
    assert not parsed.attribute("src")
    (policy,) = [
        given["content"] for _, given in parsed.elements if given.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_two_thousand_sessions_fit_into_three_megabytes() -> None:
    events = long_history(2000)
    written = page(draw(events))
    assert len(written.encode()) < 3_000_000
    assert f"Events (4,000 of {len(events):,})" in written


# The command


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", RUN)
    write_run(project.root)
    return project


def test_a_published_ledger_that_a_page_replaced_is_written_again(project: Project) -> None:
    assert project.faber("project", RUN).returncode == 0
    events = project.events
    for name in ("run.html", "run.html", str(project.run / "ledger.db")):
        assert project.faber("timeline", RUN, "-o", name).returncode == 0
    assert project.faber("project", RUN).returncode == 0
    assert project.events == events


@pytest.fixture
def at_once(tmp_path: Path) -> Project:
    """A run on two machines at once: both compact the context; the desktop completes build, the laptop merges it."""
    project = Project.made(tmp_path / "project", run_id=RUN)
    ready, built = ["frame", "architect"], ["frame", "architect", "build"]
    clones, at = [], {"step": None, "phase": "evaluate"}
    for one, machine, first, second, source in (
        ("l", "laptop", 10, 90, "compact"),
        ("d", "desktop", 20, 30, "resume"),  # as Codex begins where a resume compacts at once
    ):
        history = History().start(f"{one}-1", first, machine=machine, completed=ready).load(f"{one}-1", "spec")
        history.end(f"{one}-1", second, reason="compaction", completed=built, **at)
        history.start(f"{one}-2", 10, machine=machine, source=source, completed=built, **at).load(f"{one}-2", "spec")
        history.add("compaction_completed", 5, session_id=f"{one}-2", trigger="auto", agent_id=None, **at)
        clones.append(history)
    laptop, desktop = clones
    laptop.add("note_recorded", 100, session_id="l-2", kind="note", text="still open", **at)
    desktop.load("d-2", "protocol").end("d-2", 100, completed=built, **at)  # in the log after the laptop's note
    write_clones(str(project.ledger_path), laptop, desktop)
    return project


def test_clones_at_once_are_drawn_by_session_and_time(at_once: Project) -> None:
    at_once.said("timeline", "-o", "run.html")
    drawn = (at_once.root / "run.html").read_text()
    titles = re.findall("<title>([^<]*)</title>", drawn)
    assert [title for title in titles if title.startswith("compaction")] == [
        "compaction at 2026-01-05 08:01:40",
        "compaction at 2026-01-05 08:00:50",
    ]
    spans = [re.findall(r" \d\d:(\d\d:\d\d)", title) for title in titles if title.startswith("spec in context")]
    assert spans == [["00:10", "01:40"], ["00:20", "00:50"], ["01:00", "02:45"], ["01:50", "03:35"]]
    first, second, *others = re.findall(r'class="bar load" x="[^"]+" y="(\d+)"', drawn)
    assert first != second
    assert others[:2] == [second, first]  # one below the other where both are in a context
    phases = [title for title in titles if title.startswith(("build:", "evaluate:"))]
    assert phases == [
        "build: 2026-01-05 08:00:10 to 2026-01-05 08:00:50",
        "evaluate: 2026-01-05 08:00:50 to 2026-01-05 08:03:35",
    ]
    spans_of = re.findall(
        r'"name": ?"phase (\w+)".*?"endTimeUnixNano": ?"(\d+)000000000"', at_once.said("export", "--format", "otlp")
    )
    assert spans_of == [("build", "1767600050"), ("evaluate", "1767600215")]


def test_a_phase_is_completed_by_the_session_that_ended_first(at_once: Project) -> None:
    sessions = json.loads(at_once.said("replay", "--json"))["data"]["sessions"]
    assert {one["session_id"]: one["newly_completed"] for one in sessions if one["newly_completed"]} == {
        "d-1": ["frame", "architect", "build"]
    }


def test_at_a_moment_the_context_is_that_of_the_session(at_once: Project) -> None:
    said = at_once.said("replay", "--at", "2026-01-05T08:00:55Z")
    assert "session:  l-1\n" in said
    assert "  spec, loaded 2026-01-05T08:00:10Z from a.md\n" in said


def test_an_abandoned_session_ran_until_it_was_heard_of_last(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project", run_id=RUN)
    history = History().add("run_started", run_id=RUN, workflow_id="default", work_id="258").start("s-one")
    history.load("s-one", "spec")
    history.add("note_recorded", 120, session_id="s-one", kind="note", text="hot", phase="evaluate", step=None)
    history.end("s-one", 50_000, reason="abandoned", inferred=True, completed=["build"]).start("s-two")
    history.add("usage_recorded", session_id="s-one", model="m", in_phase=None, read_files={}, **dict.fromkeys(USED, 1))
    append_history(str(project.ledger_path), history)
    assert "  over 2 minutes  abandoned  " in project.said("replay")
    assert "  over 2 minutes  abandoned  " in project.said("show", "one")
    project.said("timeline", "-o", "run.html")
    drawn = (project.root / "run.html").read_text()
    assert ", its end never came, last heard of 2026-01-05 08:02:00, over 2 minutes" in drawn
    assert "<title>build: 2026-01-05 08:00:00 to " in drawn
    assert "<title>spec in context, 2026-01-05 08:00:00 to 2026-01-05 08:02:00, " in drawn
    assert "<title>evaluate" not in drawn  # the note says where it was written, and not since when
