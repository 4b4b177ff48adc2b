"""A team whose ledgers travel in git refs: all is at the remote in the end, and git works as without this program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.sizes import few, pick
from team.fabers_order import Way, play
from team.programs import install

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


@pytest.mark.long
@pytest.mark.parametrize(("ignores_state", "returns_to_main"), few([(True, False), (False, False), (True, True)], 1))
def test_fabers_order_goes_as_without_the_program(
    ignores_state: bool, returns_to_main: bool, tmp_path: Path
) -> None:
    size = {"issues": pick(3, 8), "developers": pick(3, 4)}
    control, order = [
        play(tmp_path / str(carry), Way(carry, ignores_state, returns_to_main), install(), **size)
        for carry in (None, "refs")
    ]
    assert [(name, order.counts[name]) for name in LOSSES if order.counts[name]] == []
    assert [order.counts[name] for name in HARMS] == [control.counts[name] for name in HARMS]
    assert order.counts["cleaned up on main"] == control.counts["cleaned up on main"]
    assert order.codes == control.codes
    assert order.counts["events"] > 12 * size["issues"]
    if ignores_state:
        assert order.counts["hooks that changed git's status"] == 0
        assert order.counts["clones with a dirty git status at the end"] == 0
