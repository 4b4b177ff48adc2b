"""A team works for weeks: nothing is lost, and no pull request is in conflict because of us."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.sizes import few, pick

from team.simulate import report, simulate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
@pytest.mark.parametrize("seed", few([1, 2], 1))
def test_a_team_works_for_weeks(seed: int, tmp_path: Path) -> None:
    weeks = pick(1, 4) / 4
    team = simulate(tmp_path / "team", seed, weeks)
    if team.differences:
        pytest.fail(report(team, weeks), pytrace=False)
