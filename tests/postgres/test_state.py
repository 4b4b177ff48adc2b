"""The server has the newest state.json of a run, and a clone fetches it where it has none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN
from support.server_rows import FIRST, note, put, put_state, stored
from support.team_server import Team
from support.team_server import fresh as make_fresh

from faber_ledger.projections.fold import NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database

NOON, EVENING = "2026-01-05T12:00:00Z", "2026-01-05T18:00:00Z"


def on_server(team: Team) -> Any:
    """Return what the server's state of the run says; None if it has none."""
    found = [json.loads(row["content"]) for row in stored(team.database, "state")]
    assert len(found) < 2
    return found[0] if found else None


def test_a_push_leaves_out_our_blocks_the_work_tree_and_secrets(team: Team) -> None:
    first = team.clones[0]
    artifacts = {"login": {"api_key": "qF8a7sd6f87asd6f8asdf", "note": f"use ghp_{'aB3' * 12}"}}
    first.change_state(artifacts=artifacts, worktree={"path": "/home/ann/shop"})
    team.synced(first)
    content = on_server(team)
    assert set(content) == set(first.state) - {*NAMES, "worktree"}
    assert content["artifacts"] == {"login": {"api_key": "[masked]", "note": "use [masked: GitHub Token]"}}
    assert content["phases"] == first.state["phases"]


def test_a_clone_without_the_run_or_its_state_gets_the_servers(team: Team, tmp_path: Path) -> None:
    first, second, _ = team.clones
    first.change_state(current_phase="evaluate", plan={"of": "the team"})
    team.synced(first)
    fresh = make_fresh(team, tmp_path / "fresh")
    done = team.sync(fresh, RUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((fresh.root / f".fractary/runs/{RUN}/state.json").read_text()) == first.state
    assert fresh.faber("verify", RUN).returncode == 0
    for path in second.state_path.parent.glob("state.json*"):
        path.unlink()
    assert team.synced(second)["state"] == "fetched"
    assert team.synced(second)["state"] is None
    assert second.state["plan"] == {"of": "the team"}


def test_a_run_whose_events_came_alone_gets_its_state_later(team: Team, tmp_path: Path) -> None:
    first, fresh = team.clones[0], make_fresh(team, tmp_path / "fresh")
    team.synced(first)
    with team.database.connect() as connection:
        connection.execute("DELETE FROM faber_ledger.state")
    assert team.synced(fresh, RUN)["state"] is None
    assert team.synced(first)["state"] == "pushed"
    assert team.synced(fresh, RUN)["state"] == "fetched"
    assert json.loads((fresh.root / f".fractary/runs/{RUN}/state.json").read_text()) == first.state


def test_a_state_that_is_here_stays_and_only_a_change_is_pushed(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    first.change_state(current_phase="evaluate")
    assert "0 events fetched, 0 pushed, state.json pushed" in team.sync(first).stdout
    assert "nothing new" in team.sync(first).stdout
    assert "nothing new" in team.sync(second).stdout
    assert (second.state["current_phase"], on_server(team)["current_phase"]) == ("build", "evaluate")
    second.change_state(current_phase="release")
    assert team.synced(second)["state"] == "pushed"
    assert team.synced(first)["state"] is None
    assert (first.state["current_phase"], on_server(team)["current_phase"]) == ("evaluate", "release")


def test_an_older_state_that_git_puts_back_is_not_pushed(team: Team) -> None:
    first = team.clones[0]
    first.change_state(current_phase="evaluate", updated_at="2026-02-01T12:00:00+01:00")
    team.synced(first)
    first.change_state(current_phase="build", updated_at="2026-02-01T10:59:59Z")
    assert team.synced(first)["state"] is None
    assert on_server(team)["current_phase"] == "evaluate"


@pytest.mark.parametrize(
    ("pushed", "kept"),
    [
        ([NOON, EVENING], 1),
        ([EVENING, NOON], 0),
        ([NOON, NOON], 1),
        (["", ""], 1),
        ([NOON, ""], 0),
        (["9999-12-31T23:59:59Z", NOON], 0),
        (["9999-12-31T23:59:59Z", "no time at all"], 1),  # both count as now
    ],
)
def test_the_later_time_counts_and_of_equal_ones_the_last(database: Database, pushed: list[str], kept: int) -> None:
    member = database.login()
    database.add_project(FIRST, member)
    with database.connect(member, autocommit=True) as connection:
        put(connection, FIRST, note("one"))
        for number, at in enumerate(pushed):
            assert put_state(connection, FIRST, str(number), at) == (number <= kept)
    (found,) = stored(database, "state")
    assert found["content"] == str(kept)
    assert found["at"] < "3"


def test_a_redaction_removes_the_state_and_who_knows_it_brings_one_again(team: Team) -> None:
    first, second, _ = team.clones
    name = first.events[-1]["id"]
    second.change_state(current_phase="release")
    team.synced(second)
    with team.database.connect() as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION faber_ledger.put_state FROM faber_ledger_member")
    assert first.faber("redact", name, "--yes").returncode == 0
    team.sync(first, "--push")
    assert on_server(team) is None
    with team.database.connect() as connection:
        connection.execute("GRANT EXECUTE ON FUNCTION faber_ledger.put_state TO faber_ledger_member")
    done = team.sync(second, "--push")  # its state may still say what was removed
    assert (done.returncode, "the server has a redaction that is not fetched" in done.stderr) == (1, True)
    assert on_server(team) is None
    assert "state.json pushed" in team.sync(second).stdout
    assert on_server(team)["current_phase"] == "release"


def test_a_redaction_sends_no_state_that_may_still_have_the_text(team: Team) -> None:
    first, text = team.clones[0], "the word is hunter-0001"
    assert first.faber("note", "add", text).returncode == 0
    first.change_state(plan={"word": text})
    team.synced(first)
    done = first.faber("redact", first.events[-1]["id"], "--yes", env={"FABER_LEDGER_URL": team.url})
    assert "state.json, which does not belong to the log: change it yourself" in done.stdout
    assert on_server(team) is None
    first.change_state(plan={"word": ""})
    assert team.synced(first)["state"] == "pushed"
    assert on_server(team)["plan"] == {"word": ""}


def test_a_changed_state_whose_time_says_nothing_is_left_out_by_name(team: Team) -> None:
    first = team.clones[0]
    first.change_state(updated_at=NOON)
    team.synced(first)
    first.change_state(current_phase="evaluate", updated_at="2026-02-01T12:00:00.123456")
    said = f"the state.json of {RUN} is left out: its updated_at is not a time with a zone"
    done = team.sync(first)
    assert (done.returncode, said in done.stderr) == (1, True)
    assert on_server(team)["current_phase"] == "build"


@pytest.mark.parametrize(
    "content", ['{"run_id": "another"}', '{"a": ' * 100_000 + "1" + "}" * 100_000], ids=["other run", "deep"]
)
def test_a_forged_state_is_refused_by_name_and_leaves_no_file(team: Team, tmp_path: Path, content: str) -> None:
    first = team.clones[0]
    team.synced(first)
    with team.database.connect(team.login) as connection:
        assert put_state(connection, team.project, content, "9")
    fresh = make_fresh(team, tmp_path / "fresh")
    done = team.sync(fresh, RUN)
    said = f"{RUN}: the server's state.json of {team.login.role} is left out: "
    assert (done.returncode, said in done.stderr) == (0, True)
    assert not (fresh.root / ".fractary" / "runs" / RUN / "state.json").exists()
    assert team.export(fresh, RUN) == team.export(first, RUN)


def test_a_broken_state_is_named_and_its_events_are_pushed(team: Team) -> None:
    first = team.clones[0]
    first.put_state("{broken")
    done = team.sync(first)
    assert (done.returncode, f"the state.json of {RUN} is left out" in done.stderr) == (1, True)
    assert on_server(team) is None
    assert len(team.rows()) == len(first.events)


def test_a_link_instead_of_a_state_is_neither_followed_nor_replaced(team: Team, tmp_path: Path) -> None:
    first, second, _ = team.clones
    team.synced(first)
    before = second.state_path.read_bytes()
    outside = tmp_path / "outside.json"
    second.state_path.rename(outside)
    second.state_path.symlink_to(outside)
    assert "is left out" in team.sync(second).stderr
    assert (second.state_path.is_symlink(), outside.read_bytes()) == (True, before)
