"""A hook that is killed, or refused, at any of its writes leaves nothing half done, and the next hook continues."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.sizes import few, pick

from faults import commands
from faults.calls import ERRORS, KILL, Call
from faults.stories import STORIES, Outcome, Story, calls_in, outcome_of, template

if TYPE_CHECKING:
    from pathlib import Path


PLACES = ("absent", "in the inbox", "in the log")
DECISIVE = {"fdatasync", "fsync", "rename", "unlink"}
MANY = 20  # calls; a short story is broken at each of them


def outcomes(story: Story, cells: list[tuple[Call, str]], folder: Path) -> list[Outcome]:
    """Break the story at each cell, and check that every promise held."""
    made = template(story, folder / "made")

    def outcome(number: int) -> Outcome:
        call, fault = cells[number]
        found = outcome_of(story, made, call, fault, folder / str(number))
        assert not found.problems, f"{fault} at {call} ({call.number}): {found.problems}"
        return found

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, range(len(cells))))


def once(calls: list[Call], *, last: bool = False) -> list[Call]:
    """Return the first, or last, call of each name on each file; `make faults` breaks every one.

    Of many, `make test` takes those that decide what is recorded, the first and the last, and every fifth other one.
    """
    distinct = {str(call): call for call in (calls if last else reversed(calls))}.values()
    found = sorted(distinct, key=calls.index)
    step = pick(5, 1) if len(found) > MANY else 1
    return [call for at, call in enumerate(found) if at % step == 0 or call is found[-1] or call.name in DECISIVE]


def assert_breaks_in_order(story: Story, calls: list[Call], folder: Path) -> None:
    """Kill at each call, in order: from one call on the delivery waits, from another one on it is recorded."""
    assert {"openat", "rename", "flock" if story.refuses else "fsync"} <= {call.name for call in calls}
    found = [outcome.delivery for outcome in outcomes(story, [(call, KILL) for call in calls], folder)]
    assert set(found) == set(PLACES[:2] if story.refuses else PLACES)
    assert found == sorted(found, key=PLACES.index)


@pytest.mark.long
@pytest.mark.parametrize("name", few(["first", "drain", "refused"], 2))
def test_a_hook_killed_at_a_write_records_all_or_nothing(tmp_path: Path, name: str) -> None:
    assert_breaks_in_order(STORIES[name], once(calls_in(STORIES[name], tmp_path / "calls"), last=True), tmp_path)


@pytest.mark.long
def test_an_append_killed_at_a_write_is_recorded_or_absent(tmp_path: Path) -> None:
    calls = calls_in(STORIES["append"], tmp_path / "calls")
    chosen = sorted({*once(calls), *once(calls, last=True)}, key=calls.index)
    assert_breaks_in_order(STORIES["append"], chosen, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", few(["first", "append", "refused"], 1))
def test_a_delivery_that_the_system_refuses_is_recorded_or_waits(tmp_path: Path, name: str) -> None:
    story = STORIES[name]
    calls = once(calls_in(story, tmp_path / "calls"))
    if name == "append":  # the story `first` covers the files that both write
        known = {str(call) for call in calls_in(STORIES["first"], tmp_path / "known")}
        calls = [
            call
            for call in calls
            if str(call) not in known or call.file in ("private/log.db", "private/log.db-journal")
        ]
    cells = [(call, ERRORS[number % len(ERRORS)]) for number, call in enumerate(calls)]
    places = {outcome.delivery for outcome in outcomes(story, cells, tmp_path)}
    assert places == ({"in the inbox"} if name == "refused" else {"in the inbox", "in the log"})


@pytest.mark.long
def test_a_broken_projection_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    command = commands.COMMANDS["project"]
    calls = once(commands.calls_in(command, tmp_path / "calls"), last=True)
    cells = [(call, KILL) for call in calls]
    cells += [(call, ERRORS[number % len(ERRORS)]) for number, call in enumerate(calls) if "state.json" in call.file]
    made = commands.template(command, tmp_path / "made")
    with ThreadPoolExecutor(2) as pool:
        work = [
            pool.submit(commands.outcome_of, command, made, *cell, tmp_path / str(n)) for n, cell in enumerate(cells)
        ]
        found = [done.result() for done in work]
    assert [(cell, outcome) for cell, outcome in zip(cells, found, strict=True) if outcome.problems] == []
    assert {outcome.state for outcome in found} == {"old", "new"}
