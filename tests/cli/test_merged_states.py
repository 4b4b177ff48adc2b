"""How `state.json` is merged: real git with the driver never stops, and `resolve` does the same without it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.clones import FOLDER, STATE, Clone
from support.sizes import few, pair

EARLY, LATE = "2026-02-01T10:00:00Z", "2026-02-01T09:30:00-01:00"  # the later one is not the later text
REMOVED = "(removed)"
DONE, BEGUN = {"status": "completed"}, {"status": "in_progress"}
FRAME, BUILD = {"name": "frame", **BEGUN}, {"name": "build", **BEGUN}

Members = dict[str, Any]


def in_build(step: str) -> Members:
    """Return what FABER writes of a step of the phase build."""
    where = {"current_step": step, "current_step_id": f"build:{step}"}
    return {**where, "phases": {"build": {**BEGUN, **where}}}


class Case(NamedTuple):
    """What the base has, what each side changes in it, what the merge has, and what is said of what it does not use."""

    base: Members
    ours: Members | str
    theirs: Members | str
    merged: Members
    lines: tuple[str, ...] = ()


CASES = {
    "each side changes its own keys": Case(
        {"updated_at": EARLY, "notes": {"a": 1, "b": 2}},
        {"updated_at": LATE, "mine": 1, "notes": {"a": 10, "b": 2}, "artifacts": {"pr": 7}},
        {"theirs": 2, "notes": {"a": 1, "b": 20}, "artifacts": {"spec": "s.md"}},
        {
            "updated_at": LATE,
            "mine": 1,
            "theirs": 2,
            "notes": {"a": 10, "b": 20},
            "artifacts": {"pr": 7, "spec": "s.md"},
        },
    ),
    "both complete another phase": Case(
        {"phases": {"frame": BEGUN, "build": BEGUN}},
        {"phases": {"frame": DONE, "build": BEGUN}},
        {"phases": {"frame": BEGUN, "build": DONE}},
        {"phases": {"frame": DONE, "build": DONE}},
    ),
    "both complete another phase of a list": Case(
        {"phases": [FRAME, BUILD]},
        {"phases": [{**FRAME, **DONE}, BUILD]},
        {"phases": [FRAME, {**BUILD, **DONE}, {"name": "release"}]},
        {"phases": [{**FRAME, **DONE}, {**BUILD, **DONE}, {"name": "release"}]},
    ),
    "one completes a phase on which the other works later": Case(
        {"updated_at": EARLY, "phases": {"build": BEGUN}},
        {"phases": {"build": {**DONE, "completed_at": EARLY}}},
        {"updated_at": LATE, "phases": {"build": {**BEGUN, "current_step": "test"}}},
        {"updated_at": LATE, "phases": {"build": {**DONE, "completed_at": EARLY}}},
        (
            "both sides changed phases.build: ours is used, theirs had"
            ' {"status": "in_progress", "current_step": "test"}',
        ),
    ),
    "one completes the run while the other works on it later": Case(
        {"updated_at": EARLY, "current_phase": "build", "status": "in_progress"},
        {"updated_at": LATE, "current_phase": "evaluate", "status": "paused", "mine": 1},
        {"current_phase": "release", "status": "completed", "completed_at": EARLY},
        {"updated_at": LATE, "current_phase": "release", "status": "completed", "completed_at": EARLY, "mine": 1},
        (
            'both sides changed status: theirs is used, ours had "paused"',
            'both sides changed current_phase: theirs is used, ours had "evaluate"',
        ),
    ),
    "one goes on to the next step, the other has gone back to an earlier phase": Case(
        {"updated_at": EARLY, "current_phase": "build", "current_step": "implement"},
        {"updated_at": LATE, "current_step": "test"},
        {"current_phase": "architect", "current_step": "refine-spec"},
        {"updated_at": LATE, "current_phase": "build", "current_step": "test"},
        (
            'both sides changed current_phase: ours is used, theirs had "architect"',
            'both sides changed current_step: ours is used, theirs had "refine-spec"',
        ),
    ),
    "both go on to another step, which stands in four places": Case(
        {"updated_at": EARLY, "current_phase": "build", **in_build("implement")},
        {"updated_at": LATE, **in_build("test")},
        in_build("commit"),
        {"updated_at": LATE, **in_build("test")},
        ('both sides changed phases.build.current_step: ours is used, theirs had "commit"',),
    ),
    "one works on in a phase that the other has completed": Case(
        {"updated_at": EARLY, "current_phase": "frame", "phases": {"frame": BEGUN, "build": BEGUN}},
        {"updated_at": LATE, "current_phase": "frame", "current_step": "again"},
        {"current_phase": "build", "current_step": "test", "phases": {"frame": DONE, "build": BEGUN}},
        {
            "updated_at": LATE,
            "current_phase": "build",
            "current_step": "test",
            "phases": {"frame": DONE, "build": BEGUN},
        },
        ('both sides changed current_step: theirs is used, ours had "again"',),
    ),
    "one goes back to a phase without a step": Case(
        {"current_phase": "build", "current_step": "implement", "updated_at": EARLY},
        {"current_step": "test"},
        {"current_phase": "architect", "current_step": REMOVED, "updated_at": LATE},
        {"current_phase": "architect", "updated_at": LATE},
        ('both sides changed current_step: theirs is used, ours had "test"',),
    ),
    "steps of one name in two phases are two": Case(
        {"updated_at": EARLY, "phases": {"build": {"current_step": "a"}, "frame": {"current_step": "a"}}},
        {"updated_at": LATE, "phases": {"build": {"current_step": "b"}, "frame": {"current_step": "b"}}},
        {"phases": {"build": {"current_step": "c"}, "frame": {"current_step": "c"}}},
        {"updated_at": LATE, "phases": {"build": {"current_step": "b"}, "frame": {"current_step": "b"}}},
        (
            'both sides changed phases.build.current_step: ours is used, theirs had "c"',
            'both sides changed phases.frame.current_step: ours is used, theirs had "c"',
        ),
    ),
    "one cancels the run, the other works on": Case(
        {"updated_at": EARLY, "status": "in_progress"},
        {"status": "cancelled"},
        {"updated_at": LATE, "status": "failed"},
        {"updated_at": LATE, "status": "cancelled"},
        ('both sides changed status: ours is used, theirs had "failed"',),
    ),
    "theirs is later": Case(
        {},
        {"updated_at": EARLY, "title": "first", "x": {"y": 1, "seen_at": EARLY}},
        {"updated_at": LATE, "title": "second", "x": {"y": 2, "seen_at": LATE, "z": 3}},
        {"updated_at": LATE, "title": "second", "x": {"y": 2, "seen_at": LATE, "z": 3}},
        (
            'both sides changed title: theirs is used, ours had "first"',
            "both sides changed x.y: theirs is used, ours had 1",
        ),
    ),
    "ours is later": Case(
        {},
        {"updated_at": LATE, "title": "first"},
        {"updated_at": EARLY, "title": "second"},
        {"updated_at": LATE, "title": "first"},
        ('both sides changed title: ours is used, theirs had "second"',),
    ),
    "the times are equal": Case(
        {"updated_at": LATE},
        {"title": "first"},
        {"title": "second"},
        {"title": "first"},
        ('both sides changed title: ours is used, theirs had "second"',),
    ),
    "a side has no time": Case(
        {"updated_at": EARLY},
        {"updated_at": REMOVED, "title": "first"},
        {"updated_at": LATE, "title": "second"},
        {"title": "first"},
        ('both sides changed title: ours is used, theirs had "second"',),
    ),
    "a side removes keys": Case(
        {"updated_at": EARLY, "gone": 1, "kept": 1, "x": {"a": 1, "b": 1}},
        {"gone": REMOVED, "kept": REMOVED, "x": {"b": 1}},
        {"updated_at": LATE, "kept": 2, "x": {"a": 1, "b": 2}},
        {"gone": REMOVED, "kept": 2, "x": {"b": 2}},
        ("both sides changed kept: theirs is used, ours removed it",),
    ),
    "theirs cannot be read": Case(
        {}, {"title": "first"}, "{", {"title": "first"}, ("theirs cannot be read: ours is used",)
    ),
    "ours cannot be read": Case(
        {}, "[1]", {"title": "second"}, {"title": "second"}, ("ours cannot be read: theirs is used",)
    ),
    "theirs is another run's": Case(
        {},
        {"title": "first"},
        '{"run_id": "another"}',
        {"title": "first"},
        ("the two sides are the states of two runs: ours is used",),
    ),
}
WAYS = ("merge", "rebase", "cherry-pick", "stash pop")


def put(clone: Clone, change: Members | str) -> None:
    if isinstance(change, str):
        clone.state_path.write_text(change)
        return
    members = {**clone.state, **change}
    clone.put({name: value for name, value in members.items() if value != REMOVED})


def begin(folder: Path, case: Case, way: str, *, driver: bool) -> tuple[Clone, set[str]]:
    """Make a clone whose branch is "ours", with the branch or stash `there` of another machine; return all events."""
    ours = Clone.first(folder / "ours", driver=driver)
    put(ours, {"base": 1, **case.base})
    ours.commit("base")
    theirs = ours.clone("theirs")
    ours.record("here")
    put(ours, case.ours)
    ours.commit("here")
    theirs.record("there")
    put(theirs, case.theirs)
    events = ours.ids() | theirs.ids()
    if way == "stash pop":
        theirs.git("stash", "-q")
        theirs.git("update-ref", "refs/heads/there", "stash")
    else:
        theirs.commit("there")
    ours.git("fetch", "-q", "../theirs", "there:there" if way == "stash pop" else "main:there")
    return ours, events


def bring(clone: Clone, way: str, *, code: int) -> str:
    """Bring the other machine's change to "ours", which in a rebase is the branch that it is put onto."""
    if way == "rebase":
        clone.git("checkout", "-q", "there")
        return clone.git("rebase", "main", code=code)
    if way == "stash pop":
        clone.git("stash", "store", "there")
        return clone.git("stash", "pop", code=code)
    return clone.git(way, "there", code=code)


def finish(clone: Clone, way: str) -> None:
    if way == "stash pop":
        clone.commit("popped", "--allow-empty")
    else:
        is_empty = way != "merge" and clone.git("diff", "--cached", "--name-only") == ""
        clone.git(way, "--skip" if is_empty else "--continue")


def assert_merged(clone: Clone, case: Case, events: set[str]) -> None:
    for name, value in case.merged.items():
        assert clone.state.get(name, REMOVED) == value, name
    assert clone.ids() >= events
    clone.assert_sound()
    assert clone.git("status", "--porcelain") == ""


@pytest.mark.long
@pytest.mark.parametrize(("case", "way"), few(pair(CASES, WAYS), 7))
def test_a_merge_with_the_driver_never_stops(tmp_path: Path, case: str, way: str) -> None:
    clone, events = begin(tmp_path, CASES[case], way, driver=True)
    said = bring(clone, way, code=0)
    for line in CASES[case].lines:
        assert f"faber-ledger: {STATE}: {line}\n" in said
    assert said.count("both sides changed ") == len([line for line in CASES[case].lines if "changed" in line])
    if way == "stash pop":
        finish(clone, way)
    assert_merged(clone, CASES[case], events)  # with both ledgers' sessions, before any command writes the blocks


@pytest.mark.long
@pytest.mark.parametrize(("case", "way"), few(pair(CASES, WAYS), 4))
def test_resolve_does_the_same_where_git_has_stopped(tmp_path: Path, case: str, way: str) -> None:
    clone, events = begin(tmp_path, CASES[case], way, driver=False)
    bring(clone, way, code=1)
    done = clone.faber("resolve")
    for line in CASES[case].lines:
        assert f"  {line}\n" in done.stdout or done.stdout.endswith(f"{STATE}: {line}\n")
    assert "differed" not in done.stderr  # its blocks are those of both ledgers
    assert clone.git("diff", "--name-only", "--diff-filter=U") == ""
    finish(clone, way)
    assert_merged(clone, CASES[case], events)


def test_the_ending_commit_has_a_finished_runs_inferred_end(tmp_path: Path) -> None:
    way = "merge"
    clone, _ = begin(tmp_path, CASES["one completes the run while the other works on it later"], way, driver=False)
    bring(clone, way, code=1)
    clone.faber("resolve")
    finish(clone, way)
    assert clone.git("status", "--porcelain") == ""
    still_open = [one for one in clone.state["sessions"]["session_history"] if "ended_at" not in one]
    assert [one["environment"]["hostname"] for one in still_open] == ["theirs"]  # its end is that machine's to record
    clone.assert_sound()


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "deleted", "driver"),
    few([("merge", "theirs", True), ("rebase", "ours", True), *product(WAYS, ["ours", "theirs"], [True, False])], 2),
)
def test_a_run_on_one_side_alone_comes_from_there(tmp_path: Path, way: str, deleted: str, driver: bool) -> None:
    """Git calls no driver then."""
    case = Case({}, {"title": "kept"}, {"title": "kept"}, {"title": "kept"})
    ours = Clone.first(tmp_path / "ours", driver=driver)
    ours.git("checkout", "-qb", "there")
    if deleted == "theirs":
        ours.git("rm", "-rq", FOLDER)
    else:
        ours.record("there")
        put(ours, case.theirs)
    if way == "stash pop":
        ours.git("stash", "-q")
        ours.git("update-ref", "refs/heads/there", "stash")
        ours.git("stash", "drop", "-q")
    else:
        ours.commit("there")
    ours.git("checkout", "-q", "main")
    if deleted == "ours":
        ours.git("rm", "-rq", FOLDER)
    else:
        ours.record("here")
        put(ours, case.ours)
    ours.commit("here")
    bring(ours, way, code=1)
    assert f"{STATE}: the side that has it\n" in ours.faber("resolve").stdout
    assert ours.git("diff", "--name-only", "--diff-filter=U") == ""
    finish(ours, way)
    assert_merged(ours, case, set())
    assert ("there" if deleted == "ours" else "here") in ours.clients()
