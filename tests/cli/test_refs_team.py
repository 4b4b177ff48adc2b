"""A team whose ledgers travel in git refs: all is at the remote in the end, and git works as without this program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.clones import STATE, Clone
from support.sizes import few, pick
from team.fabers_order import Way, play
from team.simulate import report, simulate

if TYPE_CHECKING:
    from pathlib import Path

HARMS = ("PR conflicts", "forward to test: conflicts", "cleanup never merged")
LOSSES = (
    "deliveries not recorded",
    "events not at the remote",
    "runs without a record at the remote",
    "sessions without an end at the remote",
    "files of ours in pull requests",
)


@pytest.mark.long(alone=True)
@pytest.mark.parametrize(("ignores_state", "returns_to_main"), few([(True, False), (False, False), (True, True)], 1))
def test_fabers_order_goes_as_without_the_program(ignores_state: bool, returns_to_main: bool, tmp_path: Path) -> None:
    size = {"issues": pick(2, 8), "developers": pick(3, 4)}
    control, order = [
        play(tmp_path / str(carry), Way(carry, ignores_state, returns_to_main), **size) for carry in (None, "refs")
    ]
    assert [(name, order.counts[name]) for name in LOSSES if order.counts[name]] == []
    assert [name for name in HARMS if order.counts[name] > control.counts[name]] == []
    assert order.counts["cleaned up on main"] == control.counts["cleaned up on main"]
    assert order.codes == control.codes
    assert order.counts["events"] > 12 * size["issues"]
    if ignores_state:
        assert order.counts["hooks that changed git's status"] == 0
        assert order.counts["clones with a dirty git status at the end"] == 0


def test_resolve_settles_a_state_that_has_no_ledger_beside_it(tmp_path: Path) -> None:
    clone = Clone.first(tmp_path / "one", driver=False)
    clone.git("init", "-q", "--bare", "../origin.git")
    clone.git("remote", "add", "origin", "../origin.git")
    clone.faber("init", "--git-only", "--no-pre-commit", "--carry", "refs", "--no-auto-send")
    clone.forget_driver()
    clone.commit("refs")
    for branch, note in (("side", 1), ("main", 2)):
        clone.git("checkout", "-q", "-B", branch, "main")
        clone.change(notes={"a": note}, updated_at=f"2026-01-0{note}T10:00:00Z")
        clone.commit(branch)
    clone.git("merge", "side", code=1)
    assert clone.faber("resolve").stdout.startswith(f"resolved  {STATE}")
    assert clone.git("ls-files", "--unmerged") == ""


@pytest.mark.long(alone=True)
@pytest.mark.parametrize("seed", few([1, 2], 1))
def test_a_team_works_for_weeks_without_preparing_anything(seed: int, tmp_path: Path) -> None:
    weeks = pick(1, 50) / 50
    team = simulate(tmp_path / "team", seed, weeks, "refs")
    if team.differences:
        pytest.fail(report(team, weeks), pytrace=False)
    assert (team.counts["ends of clients"] > 0, team.counts["not sent yet"]) == (True, 0)
