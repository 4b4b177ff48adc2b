"""Break the calls of commands: the commands, and what must hold afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from support.command import COMMAND
from support.project import Project

from faults.calls import KILL, Call, break_at, list_calls
from faults.stories import START, Outcome, compare_state, events_of, left_behind


class Command(NamedTuple):
    """A command on a run with a session; `records` is the type of the event that it appends, or None."""

    name: str
    title: str
    arguments: tuple[str, ...]
    records: str | None


COMMANDS = {
    command.name: command
    for command in (
        Command("project", "`project`, where `state.json` is behind the log", ("project",), None),
        Command("note", "`note add`", ("note", "add", "what is next"), "note_recorded"),
        Command("save", "`session-save`", ("session-save",), "session_ended"),
    )
}


def template(command: Command, folder: Path) -> Project:
    """Make the project for the command."""
    project = Project.made(folder / "project")
    behind = project.state_path.read_bytes()
    project.deliver(START, client="one", pid="1")
    if command.records is None:
        project.state_path.write_bytes(behind)  # as after a rollback by git
    return project


def calls_in(command: Command, folder: Path) -> list[Call]:
    """Return the calls of the undisturbed command, in a copy as `outcome_of` makes it."""
    made = template(command, folder / "made")
    shutil.copytree(made.root, folder / "project", symlinks=True)
    project = Project(folder / "project")
    return list_calls([str(COMMAND), *command.arguments], project.root, project.environment(), b"")


def outcome_of(command: Command, made: Project, call: Call, fault: str, folder: Path) -> Outcome:
    """Break one call of the command in a copy of the project, run others after it, and return what held."""
    shutil.copytree(made.root, folder / "project", symlinks=True)
    project = Project(folder / "project")
    before, old = project.state_path.read_bytes(), events_of(project)
    ended = break_at(call, fault, [str(COMMAND), *command.arguments], project.root, project.environment(), b"")
    problems = []
    if (ended.code != -9) if fault == KILL else (ended.code not in (0, 1) or "Traceback" in ended.errors):
        problems.append(f"exit code {ended.code}: {ended.errors}")
    events = events_of(project)
    if events[: len(old)] != old:
        problems.append("what was acknowledged before is gone")
    state = compare_state(project, before, events, waited=False)
    added = [event["event"]["type"] for event in events[len(old) :]]
    if added[1:] == ["checkout_recorded"]:  # what follows a session's end, in the same transaction
        del added[1]
    if state == "broken" or added not in ([], [command.records]):
        problems.append(f"state.json is {state}, and {added} are in the log")
    is_done = state == "new" if command.records is None else bool(added)
    if ended.code == 0 and not is_done:
        problems.append("nothing is done, and nothing is reported")
    if ended.code == 1 and not ended.errors:
        problems.append("nothing is reported")
    if ended.code != 0 and not is_done and events != old:
        problems.append("half of it is done")
    problems += _check_next(project)
    shutil.rmtree(folder)
    where = "in the log" if added else "done" if is_done else "absent" if fault == KILL else "refused, and it says so"
    return Outcome(where, state, tuple(problems))


def _check_next(project: Project) -> list[str]:
    """Run another command and a hook; return what does not hold after them."""
    done = project.faber("project")
    answer = project.deliver("SessionStart.resume.print", client="three", pid="3")
    if done.returncode != 0 or answer.code != 0 or not answer.packet or answer.errors:
        return [f"the next ones fail: {done.stderr}{answer.errors}"]
    found = []
    try:
        project.assert_projected()
    except AssertionError as error:
        found.append(f"the projection differs: {error}")
    return found + left_behind(project)
