"""The guide of a team's server, command by command, on machines that share a real server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shown_commands import PROJECT, masked, renew, shown_in
from support.machines import machines

if TYPE_CHECKING:
    import pytest

PAGE = PROJECT / "docs" / "guides" / "TEAM-SERVER.md"


def test_the_guide_of_a_teams_server_prints_what_it_shows(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """If a difference is intended, `pytest --update-golden` with this test writes the page."""
    page = PAGE.read_text(encoding="utf-8")
    shown = shown_in(page)
    names = list(dict.fromkeys(one.machine for one in shown))
    with machines(tmp_path, names) as shells:
        printed = [shells[one.machine].printed_by(one.command) for one in shown]
    if request.config.getoption("--update-golden"):
        PAGE.write_text(renew(page, printed), encoding="utf-8")
        return
    for one, output in zip(shown, printed, strict=True):
        assert (one.machine, one.command, masked(output)) == (one.machine, one.command, masked(one.output))
