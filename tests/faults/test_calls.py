"""Killed, or refused, at any call by which it writes, a hook leaves nothing half done, and the next one goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from faults.calls import ERRORS, KILL, Call
from faults.stories import STORIES, Outcome, Story, calls_in, outcome_of, template

if TYPE_CHECKING:
    from pathlib import Path


def outcomes(story: Story, cells: list[tuple[Call, str]], folder: Path) -> list[Outcome]:
    """Break the story at each cell, and check that all promises held."""
    made = template(story, folder / "made")

    def outcome(number: int) -> Outcome:
        call, fault = cells[number]
        found = outcome_of(story, made, call, fault, folder / str(number))
        assert not found.problems, f"{fault} at {call} ({call.number}): {found.problems}"
        return found

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, range(len(cells))))


@pytest.mark.parametrize(("name", "step"), [("append", 1), ("first", 1), ("spool", 1), ("drain", 5)])
def test_a_hook_that_is_killed_at_a_write_has_recorded_all_or_nothing(tmp_path: Path, name: str, step: int) -> None:
    story = STORIES[name]
    calls = calls_in(story, tmp_path / "calls")
    assert {"openat", "fsync", "rename", "mkdir"} <= {call.name for call in calls} | {"mkdir"}
    found = outcomes(story, [(call, KILL) for call in calls[::step]], tmp_path)
    assert {outcome.delivery for outcome in found} == {"absent", "in the spool" if name == "spool" else "in the log"}
    first = [outcome.delivery for outcome in found].count("absent")
    assert all(outcome.delivery == "absent" for outcome in found[:first])  # acknowledged at one call, and from there on


@pytest.mark.parametrize("name", ["append", "first", "spool"])
def test_what_the_system_refuses_is_recorded_or_waits(tmp_path: Path, name: str) -> None:
    story = STORIES[name]
    distinct = {(call.name, call.file): call for call in calls_in(story, tmp_path / "calls")}
    cells = [(call, ERRORS[number % len(ERRORS)]) for number, call in enumerate(distinct.values())]
    places = {outcome.delivery for outcome in outcomes(story, cells, tmp_path)}
    if name == "spool":
        assert places == {"in the spool", "refused, and the hook says so"}
    else:
        assert places == {"in the log", "in the spool"}
