"""Whose `metadata.json` a run's ref and its clones have where git ignores it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.carried import CarriedClone
from support.clones import RUN
from support.project import usual_state


def path_in(clone: CarriedClone) -> Path:
    return clone.state_path.parent / "metadata.json"


def put(clone: CarriedClone, plan: str) -> None:
    path_in(clone).write_text(json.dumps({"run_id": RUN, "plan_id": plan}) + "\n")


def plan_in(clone: CarriedClone) -> Any:
    return json.loads(path_in(clone).read_text())["plan_id"]


def plan_at(clone: CarriedClone) -> Any:
    """Return the plan that the ref's metadata has at the remote."""
    return json.loads(clone.origin.content("metadata.json"))["plan_id"]


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone whose run was sent with its metadata, which git ignores."""
    clone = CarriedClone.started(tmp_path / "one", ignores_state=True)
    put(clone, "first")
    clone.sync()
    return clone


@pytest.fixture
def two(one: CarriedClone) -> CarriedClone:
    """A clone that has resumed the run on another machine."""
    clone = one.second("two")
    clone.faber("run", "resume", RUN, "--yes")
    assert plan_in(clone) == "first"
    clone.sync()
    return clone


def test_a_change_of_the_metadata_alone_is_sent_and_taken(one: CarriedClone, two: CarriedClone) -> None:
    put(two, "second")
    unsent = "metadata.json here has changed since: `faber-ledger sync` sends it to origin"
    assert unsent in two.faber("status").stdout
    assert two.sync().stdout == f"{RUN}: its metadata.json sent to origin\n"
    assert unsent not in two.faber("status").stdout
    assert two.sync().stdout == "nothing to fetch from origin, and nothing to send\n"
    one.sync()
    assert (plan_in(one), plan_at(one)) == ("second", "second")
    assert "nothing to send" in one.sync().stdout


def test_an_old_copy_that_was_not_changed_undoes_nothing(one: CarriedClone, two: CarriedClone) -> None:
    put(two, "second")
    two.work("on the desktop")
    two.sync()
    one.work("on the laptop")
    assert "metadata.json taken from origin" in one.sync().stdout
    assert (plan_in(one), plan_at(one)) == ("second", "second")


def test_of_a_file_that_both_sides_changed_ours_is_used(one: CarriedClone, two: CarriedClone) -> None:
    put(two, "theirs")
    two.sync()
    put(one, "ours")
    assert f"{RUN}: metadata.json: it was changed here and at origin: the one here is used" in one.sync().stderr
    assert (plan_in(one), plan_at(one)) == ("ours", "ours")
    two.sync()
    assert plan_in(two) == "ours"


def test_an_old_copy_of_which_nothing_is_noted_undoes_nothing(one: CarriedClone, two: CarriedClone) -> None:
    put(two, "second")
    two.sync()
    (one.private(RUN) / "sent-main.json").unlink()
    one.work("on the laptop")
    one.sync()
    assert (plan_in(one), plan_at(one)) == ("second", "second")


def test_nothing_is_written_through_a_link_that_leads_out_of_the_project(one: CarriedClone, tmp_path: Path) -> None:
    run_id, name, plans = "plan-1-run-a", "plan-1%2Fa", one.root / ".fractary/faber/runs"
    (plans / "plan-1").mkdir(parents=True)
    state = {**usual_state(run_id), "updated_at": "2026-01-06T10:00:00Z"}
    (plans / "plan-1/state-a.json").write_text(json.dumps(state))
    (plans / run_id).mkdir()
    (plans / run_id / "metadata.json").write_text('{"plan_id": "first"}')
    with (one.root / ".gitignore").open("a") as file:
        file.write("state-a.json\n")
    one.name_run(run_id)
    one.deliver("session-start", "of a plan", hook_event_name="SessionStart", source="startup")
    one.sync()
    one.origin.put(
        {
            "ledger.db": one.origin.content("ledger.db", name),
            "state.json": one.origin.content("state.json", name),
            "metadata.json": b'{"plan_id": "second"}',
        },
        name,
    )
    shutil.move(plans / run_id, tmp_path / "outside")
    one.git("init", "-q", "../outside")
    (plans / run_id).symlink_to(tmp_path / "outside")
    one.sync()
    assert json.loads((tmp_path / "outside/metadata.json").read_text()) == {"plan_id": "first"}
    assert json.loads(one.origin.content("metadata.json", name)) == {"plan_id": "second"}


def test_of_metadata_that_git_tracks_the_file_stays(one: CarriedClone, two: CarriedClone) -> None:
    put(two, "second")
    two.sync()
    one.git("add", "--force", str(path_in(one)))
    one.work("on the laptop")
    one.sync()
    assert (plan_in(one), plan_at(one)) == ("first", "second")
