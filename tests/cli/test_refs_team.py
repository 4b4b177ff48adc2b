"""A team whose ledgers travel in git refs: all is at the remote in the end, and git works as without this program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.clones import STATE, Clone
from support.sizes import few, pick
from team.fabers_order import Order, Way, play, run_of
from team.programs import install
from team.simulate import report, simulate

if TYPE_CHECKING:
    from collections.abc import Callable
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
        play(tmp_path / str(carry), Way(carry, ignores_state, returns_to_main), install(), **size)
        for carry in (None, "refs")
    ]
    assert [(name, order.counts[name]) for name in LOSSES if order.counts[name]] == []
    assert [name for name in HARMS if order.counts[name] > control.counts[name]] == []
    assert order.counts["cleaned up on main"] == control.counts["cleaned up on main"]
    assert order.codes == control.codes
    assert order.counts["events"] > 12 * size["issues"]
    if ignores_state:
        assert order.counts["hooks that changed git's status"] == 0
        assert order.counts["clones with a dirty git status at the end"] == 0


class Pair:
    """Two sites with two clones each, between which the same is done; only the first has the program."""

    def __init__(self, folder: Path) -> None:
        self.orders = []
        for carry in ("refs", None):
            (folder / str(carry)).mkdir()
            way = Way(carry, ignores_state=True, returns_to_main=False)
            self.orders.append(Order(folder / str(carry), way, install(), 2))
        self.order = self.orders[0]

    def git(self, at: int, *words: str) -> int:
        """Run git in the same clone of both, and return the exit code, which is the same."""
        mine, control = [order.machines[at].git(order.machines[at].main, *words) for order in self.orders]
        assert mine.code == control.code, mine.said + control.said
        return mine.code

    def begin(self) -> None:
        for order in self.orders:
            order.begin(0)

    def lose_remote(self) -> None:
        self._for_each_clone("config", "url.file:///nowhere.insteadOf", lambda order: [order.site.url])

    def find_remote(self) -> None:
        self._for_each_clone("config", "--unset-all", lambda order: ["url.file:///nowhere.insteadOf"])

    def _for_each_clone(self, verb: str, option: str, more: Callable[[Order], list[str]]) -> None:
        for order in self.orders:
            for machine in order.machines:
                machine.git(machine.main, verb, option, *more(order))

    def session(self, *, ends: bool = True) -> None:
        self.order.hook(self.order.machine(0), 0, "SessionStart", source="startup")
        if ends:
            self.order.hook(self.order.machine(0), 0, "SessionEnd", reason="other")

    def lost(self) -> int:
        return self.order.judge(1)["events not at the remote"]


def test_an_offline_day_loses_nothing_and_git_goes_as_ever(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.begin()
    pair.session(ends=False)
    assert pair.git(0, "fetch", "--prune") == 0
    pair.lose_remote()
    pair.session()
    assert pair.git(0, "pull") != 0
    pair.session()
    assert pair.order.judge(1)["events not at the remote"] > 0
    pair.find_remote()
    assert pair.git(0, "fetch") == 0
    assert pair.git(0, "pull") == 0
    assert pair.git(1, "pull", "--prune") == 0
    pair.order.counts.clear()
    pair.session()
    assert pair.lost() == 0
    assert pair.order.counts["sessions without an end at the remote"] == 0
    assert pair.git(0, "pull") == 0
    assert pair.git(0, "push") == 0


def test_clones_that_fetch_between_each_others_sessions_lose_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.begin()
    pair.session()
    laptop, desktop = pair.order.machines
    for machine in (desktop, laptop):
        answer = machine.faber(machine.main, "run", "resume", "--yes", run_of(0))
        assert answer.code == 0, answer.said
        pair.order.hook(machine, 7, "SessionStart", source="startup")
        for at in (0, 1):
            assert pair.git(at, "fetch") == 0
            assert pair.git(at, "pull") == 0
        pair.order.hook(machine, 7, "SessionEnd", reason="other")
    assert pair.lost() == 0
    assert pair.order.counts["sessions without an end at the remote"] == 0
    assert pair.order.counts["hooks that changed git's status"] == 0


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
    team = simulate(tmp_path / "team", seed, weeks, install(), "refs")
    if team.differences:
        pytest.fail(report(team, weeks), pytrace=False)
    assert (team.counts["ends of clients"] > 0, team.counts["not sent yet"]) == (True, 0)
