"""Break the calls of hooks: the stories, and what must hold afterwards."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.command import COMMAND
from support.project import ARGUMENTS, Project

from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.recording import inbox
from faber_ledger.recording.sessions import delivery_of
from faber_ledger.runs.layouts import find_run
from faults.calls import KILL, Call, break_at, list_calls

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

START, PRE, END = "SessionStart.startup.print", "PreCompact.auto.print", "SessionEnd.other.print"


class Story(NamedTuple):
    """A delivery to a project; `waits`: others wait in the inbox already; `refuses`: the log refuses this one."""

    name: str
    title: str
    recorded: str
    has_ledger: bool
    waits: bool
    refuses: bool


STORIES = {
    story.name: story
    for story in (
        Story(
            "append", "a session's end, on a run that has a ledger", END, has_ledger=True, waits=False, refuses=False
        ),
        Story("first", "a session's start, on a run without one", START, has_ledger=False, waits=False, refuses=False),
        Story("refused", "a session's end that the log refuses", END, has_ledger=True, waits=False, refuses=True),
        Story("drain", "a compaction, while two deliveries wait", PRE, has_ledger=True, waits=True, refuses=False),
    )
}


class Outcome(NamedTuple):
    """Where the delivery was after the fault, and which state.json; `problems` is empty if all promises held."""

    delivery: str
    state: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.delivery}; state.json {self.state}"


def template(story: Story, folder: Path) -> Project:
    """Make the project for the delivery."""
    project = Project.made(folder / "project")
    shutil.rmtree(project.root / ".git" / "hooks", ignore_errors=True)
    if story.has_ledger:
        project.deliver(START, client="one", pid="1")
    if story.waits:
        project.refuse()
        project.deliver("SessionEnd.clear.print", client="one", pid="1")
        project.deliver("SessionStart.clear.print", client="two", pid="1")
        project.relent()
        assert len(_waiting(project)) == 2
    if story.refuses:
        project.refuse()
    return project


def calls_in(story: Story, folder: Path) -> list[Call]:
    """Return the calls of the story's undisturbed delivery, in a copy as `outcome_of` makes it."""
    made = template(story, folder / "made")
    shutil.copytree(made.root, folder / "project", symlinks=True)
    project = Project(folder / "project")
    delivery, environment = _delivery(story, project)
    return list_calls(_command(story), project.root, environment, delivery)


def outcome_of(story: Story, made: Project, call: Call, fault: str, folder: Path) -> Outcome:
    """Break one call of the story in a copy of the project, run the next hook, and return what held."""
    shutil.copytree(made.root, folder / "project", symlinks=True)
    project = Project(folder / "project")
    before, old = project.state_path.read_bytes(), events_of(project)
    delivery, environment = _delivery(story, project)
    ended = break_at(call, fault, _command(story), project.root, environment, delivery)
    problems = []
    if ended.code != (0 if fault != KILL else -9):
        problems.append(f"exit code {ended.code}: {ended.errors}")
    hook = "SessionStart" if story.recorded == START else "PreCompact" if story.recorded == PRE else "SessionEnd"
    if fault != KILL and story.recorded == START and '"additionalContext":' not in ended.output:
        problems.append("no packet")
    events = events_of(project)
    if events[: len(old)] != old:
        problems.append("what was acknowledged before is gone")
    is_recorded = _count(events[len(old) :], hook) == 1
    waits = hook in [json.loads(Path(path).read_text())["hook"] for path in _waiting(project)]
    where = "in the log" if is_recorded else "in the inbox" if waits else "absent"
    if where == "absent" and fault != KILL:
        problems.append(f"the delivery is lost: {ended.errors}")
    state = compare_state(project, before, events, waited=story.waits)
    if state == "broken":
        problems.append("state.json is neither the old nor the new one")
    problems += _check_next(story, project, hook, must=where != "absent")
    is_silent_start = story.recorded == START and not ended.output and is_recorded
    if is_silent_start and project.history[0]["artifacts_loaded"]:
        problems.append("what was not printed is recorded as given")
    shutil.rmtree(folder)
    return Outcome(where, state, tuple(problems))


def _check_next(story: Story, project: Project, hook: str, *, must: bool) -> list[str]:
    """Run the next hook; return what does not hold after it."""
    if story.refuses:
        project.relent()
    answer = project.deliver("SessionStart.resume.print", client="three", pid="3")
    if answer.code != 0 or not answer.packet:
        return [f"the next hook fails: {answer.errors}"]
    found, events = [], events_of(project)
    if not _count(events, "SessionStart", client="three"):
        found.append(f"the next hook is not recorded: {answer.errors}")
    count = sum(_count(events, hook, client=client) for client in ("one", "two"))
    if count > 1 or (must and count == 0):
        found.append(f"{hook} is recorded {count} times")
    if story.waits and (_count(events, "SessionEnd", "one"), _count(events, "SessionStart", "two")) != (1, 1):
        found.append("what had waited is not recorded once")
    if _waiting(project):
        found.append("deliveries still wait")
    try:
        project.assert_projected()
    except AssertionError as error:
        found.append(f"the projection differs: {error}")
    return found + left_behind(project)


def left_behind(project: Project) -> list[str]:
    """Return a problem if a temporary file is left in the run's folder, or a journal beside the clone's log."""
    files = [*project.run.glob("*.tmp"), *project.run.glob(".*.tmp"), *project.private.glob("*-journal")]
    left = [path.name for path in files]
    return [f"left behind: {left}"] if left else []


def _count(events: list[Recorded], hook: str, client: str | None = None) -> int:
    deliveries = [(event, delivery_of(event["event"])) for event in events]
    return sum(
        1
        for event, delivery in deliveries
        if delivery and delivery["hook"] == hook and (client is None or event["client"] == client)
    )


def compare_state(project: Project, before: bytes, events: list[Recorded], *, waited: bool) -> str:
    """Return whether state.json is, to the byte, the old one, the new one, one between them, or broken."""
    found = project.state_path.read_bytes()
    if found == before:
        return "old"
    document = JsonText(before.decode())
    if found == document.with_members(dict(fold(events))).encode():
        return "new"
    # A hook that records what waits writes twice, so a kill may leave the state between.
    between = [document.with_members(dict(fold(events[:count]))).encode() for count in range(len(events))]
    return "between" if waited and found in between else "broken"


def events_of(project: Project) -> list[Recorded]:
    """Return the events of the clone's log, also after a fault; raises LedgerError if it is not readable."""
    log = project.root / ".git" / "faber-ledger" / "runs" / project.run_id / "log.db"
    if not log.is_file() or log.stat().st_size == 0:
        return []
    with tempfile.TemporaryDirectory() as folder:
        for path in log.parent.glob("log.db*"):
            shutil.copy2(path, folder)  # the journal too: SQLite plays it, as at the next hook
        copy = Path(folder) / log.name
        with closing(sqlite3.connect(copy)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if not tables:
            return []  # killed in its first transaction
        with Log.read(str(copy)) as opened:
            return list(opened.stream())


def _command(story: Story) -> list[str]:
    payload = story.recorded.split(".")[0]
    return [str(COMMAND), "hook", ARGUMENTS[payload]]


def _delivery(story: Story, project: Project) -> tuple[bytes, dict[str, str]]:
    client = "two" if story.waits else "one"
    content, environment, _ = project.prepared(story.recorded, client=client, pid="1")
    return content, environment


def _waiting(project: Project) -> list[str]:
    return inbox.list_waiting(find_run(str(project.root), project.run_id))
