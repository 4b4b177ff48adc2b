"""The id by which a team's server knows a project stays its own, also where the project's settings are removed."""

from __future__ import annotations

import json

import pytest
from support.project import Project
from support.sizes import few
from support.team_server import Team

from faber_ledger.ledger.clock import is_event_id

SETTINGS = ".fractary/faber/ledger.json"


def id_of(clone: Project) -> str:
    found: str = json.loads((clone.root / SETTINGS).read_text())["project"]
    return found


def test_a_clone_that_has_exchanged_keeps_the_id_through_uninstall_and_init(team: Team) -> None:
    first, second, third = team.clones
    team.synced(first)
    assert second.faber("sync", "--fetch", env={"FABER_LEDGER_URL": team.url}).returncode == 0
    for clone in (first, second):
        done = clone.faber("uninstall", "--scope", "local")
        assert done.returncode == 0, done.stderr
        assert SETTINGS not in done.stdout
        assert id_of(clone) == team.project
        (clone.root / SETTINGS).unlink()
        assert clone.faber("init", "--git-only").returncode == 0
        assert id_of(clone) == team.project
        assert team.synced(clone)["pushed"] == 0
    assert third.faber("uninstall", "--scope", "local").returncode == 0  # it has never asked the server
    assert not (third.root / SETTINGS).exists()
    third.git("commit", "--quiet", "-m", "without faber-ledger", "--", SETTINGS)
    assert third.faber("init", "--git-only").returncode == 0
    assert id_of(third) != team.project


@pytest.mark.long
@pytest.mark.parametrize("text", few([None, '{"project": "not-an-id"}', "", "[]", '{"project": 5}', "{"], 2))
def test_init_takes_the_id_of_the_commit_that_is_checked_out(team: Team, text: str | None) -> None:
    third = team.clones[2]
    if text is not None:
        third.write(SETTINGS, text.encode())
        third.git("commit", "--quiet", "-m", "other settings", "--", SETTINGS)
    (third.root / SETTINGS).unlink()
    assert third.faber("init", "--git-only").returncode == 0
    assert is_event_id(id_of(third))
    assert (id_of(third) == team.project) == (text is None)
