"""A run's state.json travels beside its events, and what has changed in a clone is replaced by no other's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.rows import dict_row
from support.project import RUN, Project
from support.team_server import Team, made_team, started

from faber_ledger.projections.blocks import NAMES, empty

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    return made_team(database, tmp_path)


def documents(team: Team) -> list[dict[str, Any]]:
    """Return the documents on the server in the order in which they arrived."""
    with team.database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM faber_ledger.document ORDER BY position").fetchall()


def contents(team: Team) -> list[Any]:
    """Return what the documents on the server say; None where one is emptied."""
    return [one["content"] and json.loads(one["content"]) for one in documents(team)]


def put_document(team: Team, content: str, heads: bytes) -> None:
    """Insert a document as a member may."""
    statement = (
        "INSERT INTO faber_ledger.document (project, run_id, id, position, heads, content, at, writer)"
        " VALUES (%s, %s, 'forged', 0, %s, %s, '2026-01-05T14:30:22Z', 'x')"
    )
    with team.database.connect() as connection:
        connection.execute(statement, [team.project, RUN, heads, content])


def heads_of(clone: Project) -> bytes:
    from faber_ledger.ledger.log import Log

    with Log.read(str(clone.ledger_path)) as log:
        return b"".join([digest for _, digest in log.heads()])


def fresh_clone(team: Team, folder: Path, name: str = "fresh") -> Project:
    """Return a clone of the same project that has another run alone."""
    fresh = Project.made(folder / name, run_id=f"run-of-{name}")
    fresh.hostname = name
    settings = ".fractary/faber/ledger.json"
    fresh.write(settings, (team.clones[0].root / settings).read_bytes())
    return fresh


def others(state: dict[str, Any]) -> str:
    """Return the members of a state that are not ours, in their order."""
    return json.dumps({name: value for name, value in state.items() if name not in NAMES})


def state_in(clone: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((clone.root / ".fractary" / "runs" / RUN / "state.json").read_text())
    return found


def test_a_sync_pushes_the_state_without_our_blocks_and_without_secrets(team: Team) -> None:
    first = team.clones[0]
    token = "ghp_" + "aB3" * 12
    first.change_state(artifacts={"login": {"api_key": "qF8a7sd6f87asd6f8asdf", "note": f"use {token}"}})
    team.synced(first)
    (content,) = contents(team)
    assert list(content) == list(first.state)
    assert {name: content[name] for name in NAMES} == empty()
    assert content["artifacts"] == {"login": {"api_key": "[masked]", "note": "use [masked: GitHub Token]"}}
    assert content["phases"] == first.state["phases"]


def test_a_state_is_pushed_again_only_once_it_has_changed_and_replaces_its_own(team: Team) -> None:
    first = team.clones[0]
    team.synced(first)
    (before,) = documents(team)
    team.synced(first)
    assert documents(team) == [before]
    first.change_state(current_phase="evaluate")
    team.synced(first)
    (after,) = documents(team)
    assert (after["id"], json.loads(after["content"])["current_phase"]) != (before["id"], "build")
    assert after["supersedes"] == [before["id"]]


def test_a_clone_without_the_state_gets_the_newest_and_our_blocks_from_its_log(team: Team, tmp_path: Path) -> None:
    first = team.clones[0]
    first.change_state(current_phase="evaluate", plan={"of": "the team"})
    team.synced(first)
    fresh = fresh_clone(team, tmp_path)
    done = team.sync(fresh, RUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert state_in(fresh) == first.state
    assert list(state_in(fresh)) == list(first.state)
    assert fresh.faber("verify", RUN).returncode == 0
    assert len(documents(team)) == 1


APART = "on the server do not include each other"


def test_a_state_that_nobody_changed_here_gives_way_to_a_newer_one(team: Team) -> None:
    first, second, third = team.clones
    for one in team.clones:
        team.synced(one)
    first.change_state(current_phase="evaluate", plan={"of": "the first"})
    assert first.faber("note", "add", "build is done").returncode == 0
    team.synced(first)
    second.deliver("SessionStart.startup.print")  # it records on; its state stays the one that it has fetched
    for one in (second, third):
        assert team.synced(one)["state"] == "fetched"
        assert others(one.state) == others(first.state)
        assert one.faber("verify", RUN).returncode == 0
    assert second.history[-1]["environment"]["hostname"] == "laptop"
    assert [one["current_phase"] for one in contents(team)] == ["evaluate"]
    second.change_state(current_phase="release")
    assert team.synced(second)["state"] == "pushed"
    assert team.synced(first)["state"] == "fetched"
    assert first.state["current_phase"] == "release"


def test_a_state_that_came_with_git_gives_way_and_one_that_git_has_newer_stays(team: Team) -> None:
    first, second, third = team.clones
    first.change_state(current_phase="evaluate")
    assert first.faber("note", "add", "build is done").returncode == 0
    team.synced(first)
    assert team.synced(second)["state"] == "fetched"
    assert second.state["current_phase"] == "evaluate"
    first.change_state(current_phase="release")
    first.git("add", "-A")
    first.git("commit", "--quiet", "-m", "Release")
    third.git("pull", "--quiet")
    assert third.faber("note", "add", "after the pull").returncode == 0
    third.change_state(current_phase="done")
    assert team.synced(third)["state"] == "pushed"  # it includes what the first has pushed
    assert [one["current_phase"] for one in contents(team)] == ["done"]


def commit_state(clone: Project) -> None:
    """Commit the state that is here, so that git can put it back."""
    clone.git("add", "-A")
    clone.git("commit", "--quiet", "--allow-empty", "-m", "A state that is exchanged")


def put_back(clone: Project) -> None:
    """Let git put back the state of the last commit."""
    clone.git("checkout", "--", str(clone.state_path))
    assert clone.state["current_phase"] == "build"


@pytest.mark.parametrize("words", [(), ("--fetch",)])
def test_a_state_that_git_puts_back_gives_way_to_the_newest_and_is_not_pushed(
    team: Team, words: tuple[str, ...]
) -> None:
    first, second, third = team.clones
    for one in team.clones:
        team.synced(one)
        commit_state(one)
    first.change_state(current_phase="evaluate", plan={"of": "the first"})
    assert first.faber("note", "add", "build is done").returncode == 0
    team.synced(first)
    for one in (second, third):
        assert team.synced(one)["state"] == "fetched"
    before = documents(team)
    second.deliver("SessionStart.startup.print")
    put_back(second)  # where it was fetched
    put_back(first)  # where it was pushed
    for one in (second, first):
        assert team.synced(one, *words)["state"] == "fetched"
        assert one.state["current_phase"] == "evaluate"
        assert json.loads(one.state_path.with_name("state.json.backup").read_text())["current_phase"] == "build"
        assert one.faber("verify", RUN).returncode == 0
    assert documents(team) == before
    assert team.synced(third)["state"] is None
    put_back(second)
    third.change_state(current_phase="release")
    assert team.synced(third)["state"] == "pushed"
    assert team.synced(second)["state"] == "fetched"  # a newer one than it ever had
    second.change_state(current_phase="done")
    assert team.synced(second)["state"] == "pushed"
    assert [one["current_phase"] for one in contents(team)] == ["done"]


def test_a_push_alone_names_the_ways_out_of_a_state_that_git_has_put_back(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    commit_state(first)
    first.change_state(current_phase="evaluate")
    team.synced(first)
    assert team.synced(second)["state"] == "fetched"
    before = documents(team)
    put_back(first)
    done = team.sync(first, "--push")
    assert (done.returncode, done.stderr.count("is not pushed, as it is an earlier one")) == (0, 1)
    assert f"faber-ledger sync {RUN}` for the newest one" in done.stderr
    assert f"faber-ledger run resume {RUN} --document here` to keep it" in done.stderr
    assert documents(team) == before
    kept = first.faber("run", "resume", RUN, "--document", "here", env={"FABER_LEDGER_URL": team.url})
    assert (kept.returncode, first.state["current_phase"]) == (0, "build")
    assert team.synced(first, "--push")["state"] == "pushed"
    assert [one["current_phase"] for one in contents(team)] == ["build"]
    assert team.synced(second)["state"] == "fetched"
    assert second.state["current_phase"] == "build"


def test_a_resume_replaces_a_state_that_git_has_put_back(team: Team) -> None:
    first = team.clones[0]
    team.synced(first)
    commit_state(first)
    first.change_state(current_phase="evaluate")
    team.synced(first)
    put_back(first)
    done = first.faber("run", "resume", RUN, "--url", "-", env={"FABER_LEDGER_URL": team.url})
    assert (done.returncode, first.state["current_phase"]) == (0, "evaluate"), done.stderr
    assert team.synced(first)["state"] is None


def test_a_state_put_back_beside_two_on_the_server_gives_way_to_this_clones(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    commit_state(first)
    for one, phase in ((first, "evaluate"), (second, "release")):
        one.change_state(current_phase=phase)
        assert one.faber("note", "add", f"in {phase}").returncode == 0
        team.sync(one, "--push")
    before = contents(team)
    assert [one["current_phase"] for one in before] == ["evaluate", "release"]
    put_back(first)
    assert APART in team.sync(first).stderr
    assert (first.state["current_phase"], contents(team)) == ("evaluate", before)
    put_back(first)
    resumed = first.faber("run", "resume", RUN, "--json", env={"FABER_LEDGER_URL": team.url})
    assert resumed.returncode == 0, resumed.stderr
    assert first.state["current_phase"] == "evaluate"
    asked = first.faber("run", "resume", RUN, "--url", "-", env={"FABER_LEDGER_URL": team.url})
    assert (asked.returncode, "Choose one:" in asked.stderr) == (3, True)


def test_a_state_put_back_where_a_redaction_has_emptied_the_newest_is_not_pushed(team: Team) -> None:
    first = team.clones[0]
    note = first.events[-1]["id"]
    team.synced(first)
    commit_state(first)
    first.change_state(current_phase="evaluate")
    team.synced(first)
    assert first.faber("redact", note, "--yes").returncode == 0
    put_back(first)
    done = team.sync(first)
    assert "is not pushed, as it is an earlier one" in done.stderr
    assert "for the newest one" not in done.stderr
    assert contents(team) == [None]
    kept = first.faber("run", "resume", RUN, "--document", "here", env={"FABER_LEDGER_URL": team.url})
    assert kept.returncode == 0
    assert team.synced(first)["state"] == "pushed"


def test_a_state_that_was_chosen_again_is_no_earlier_one(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    commit_state(second)
    commit_state(first)
    first.change_state(current_phase="evaluate")
    team.synced(first)
    assert team.synced(second)["state"] == "fetched"
    put_back(first)
    first.faber("run", "resume", RUN, "--document", "here", env={"FABER_LEDGER_URL": team.url})
    assert team.synced(first)["state"] == "pushed"
    put_back(second)  # git brought it before the server did
    before = documents(team)
    assert team.synced(second)["state"] is None
    assert (documents(team), second.state["current_phase"]) == (before, "build")
    second.change_state(current_phase="release")
    assert team.synced(second)["state"] == "pushed"
    assert [one["current_phase"] for one in contents(team)] == ["release"]


def test_a_state_that_was_not_changed_here_is_not_pushed(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    before = documents(team)
    assert second.faber("note", "add", "only noted").returncode == 0
    assert team.synced(second)["state"] is None
    assert documents(team) == before


def test_a_state_that_has_changed_here_and_there_is_kept_in_both_places(team: Team, tmp_path: Path) -> None:
    first, second, third = team.clones
    for one in team.clones:
        team.synced(one)
    first.change_state(current_phase="evaluate")
    assert first.faber("note", "add", "newer").returncode == 0
    team.synced(first)
    second.change_state(current_phase="release")
    mine = others(second.state)
    assert "the server has one that is not fetched" in team.sync(second, "--push").stderr
    done = team.sync(second, "--fetch")
    assert APART in done.stderr
    assert second.faber("note", "add", "after what it has fetched").returncode == 0
    done = team.sync(second)
    assert (done.returncode, APART in done.stderr) == (0, True)
    assert f"faber-ledger run resume {RUN}" in done.stderr
    assert others(second.state) == mine
    assert [one["current_phase"] for one in contents(team)] == ["evaluate", "release"]
    for one in (first, third):
        before = others(one.state)
        assert APART in team.sync(one).stderr
        assert others(one.state) == before
    fresh = fresh_clone(team, tmp_path)
    assert f"{RUN} has 2 states on the server" in team.sync(fresh, RUN).stderr


def test_a_state_that_was_not_chosen_is_named_where_it_is_kept(team: Team) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    for one, phase in ((first, "evaluate"), (second, "release")):
        one.change_state(current_phase=phase)
        assert one.faber("note", "add", f"in {phase}").returncode == 0
        team.sync(one)
    kept = first.faber("run", "resume", RUN, "--document", "here", env={"FABER_LEDGER_URL": team.url})
    assert kept.returncode == 0
    assert team.synced(first)["state"] == "pushed"
    done = team.sync(second)
    assert "state.json fetched" in done.stdout
    assert f"yours is in .fractary/runs/{RUN}/state.json.backup" in done.stderr
    backup = json.loads(second.state_path.with_name("state.json.backup").read_text())
    assert (backup["current_phase"], second.state["current_phase"]) == ("release", "evaluate")


def test_what_is_masked_on_the_server_keeps_its_text_here(team: Team) -> None:
    first, second, _ = team.clones
    secret = {"login": [{"api_key": "qF8a7sd6f87asd6f8asdf", "user": "ann"}]}
    first.change_state(artifacts=secret)
    team.synced(first)
    assert first.faber("note", "add", "go on").returncode == 0
    team.synced(first)
    team.synced(second)
    assert second.state["artifacts"]["login"][0]["api_key"] == "[masked]"
    second.change_state(current_phase="release", artifacts={"login": [{"api_key": "[masked]", "user": "ben"}]})
    team.synced(second)
    team.synced(first)
    assert first.state["current_phase"] == "release"
    assert first.state["artifacts"] == {"login": [{"api_key": "qF8a7sd6f87asd6f8asdf", "user": "ben"}]}


def test_a_sync_says_when_a_state_went_or_came(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    team.synced(second)
    first.change_state(current_phase="evaluate")
    assert "0 events fetched, 0 pushed, state.json pushed" in team.sync(first).stdout
    assert "0 events fetched, 0 pushed, state.json fetched" in team.sync(second).stdout
    assert "nothing new" in team.sync(first).stdout


def test_a_link_in_the_place_of_a_state_is_neither_followed_nor_replaced(team: Team, tmp_path: Path) -> None:
    first, second, _ = team.clones
    for one in (first, second):
        team.synced(one)
    outside = tmp_path / "outside.json"
    outside.write_bytes(second.state_path.read_bytes())
    before = outside.read_bytes()
    second.state_path.unlink()
    second.state_path.symlink_to(outside)
    first.change_state(current_phase="evaluate")
    team.synced(first)
    done = team.sync(second)
    assert "is not pushed" in done.stderr
    assert (second.state_path.is_symlink(), outside.read_bytes()) == (True, before)


def test_an_older_state_does_not_replace_a_newer_one_by_fetching_its_events(team: Team, tmp_path: Path) -> None:
    first, second, third = team.clones
    assert second.faber("note", "add", "seen before").returncode == 0
    team.synced(second)
    team.synced(first)
    first.change_state(current_phase="evaluate")
    assert first.faber("note", "add", "newer").returncode == 0
    team.synced(first)
    for one in (second, third, second):  # one that worked on it before, one that never did; both states are older
        team.synced(one)
    fresh = fresh_clone(team, tmp_path)
    team.sync(fresh, RUN)
    assert state_in(fresh)["current_phase"] == "evaluate"


def test_states_that_do_not_include_each_other_both_stay(team: Team, tmp_path: Path) -> None:
    first, second, _ = team.clones
    for one, phase in ((first, "evaluate"), (second, "release")):
        one.change_state(current_phase=phase)
        assert one.faber("note", "add", f"in {phase}").returncode == 0
        team.synced(one, "--push")
    assert [one["current_phase"] for one in contents(team)] == ["evaluate", "release"]
    fresh = fresh_clone(team, tmp_path)
    done = team.sync(fresh, RUN)
    assert done.returncode == 0
    assert f"{RUN} has 2 states on the server" in done.stderr
    assert f"faber-ledger run resume {RUN}" in done.stderr
    assert not (fresh.root / ".fractary" / "runs" / RUN / "state.json").exists()
    for _ in range(2):
        assert APART in team.sync(first).stderr
        assert (
            len(documents(team)) == 2
        )  # the first clone's state is no newer for what it has fetched, or recorded then
        assert first.faber("note", "add", "after both").returncode == 0


def test_a_redaction_empties_the_states_and_the_next_push_brings_one_again(team: Team) -> None:
    first, second, _ = team.clones
    note = first.events[-1]["id"]
    team.synced(first)
    second.change_state(current_phase="release")
    assert second.faber("note", "add", "of the second").returncode == 0
    team.synced(second)
    assert first.faber("redact", note, "--yes").returncode == 0
    team.synced(first, "--push")
    found = contents(team)
    assert found[-1]["current_phase"] == "build"
    assert found[:-1] == [None]
    second.change_state(current_phase="done")
    assert second.faber("note", "add", "done").returncode == 0
    done = team.sync(second, "--push")  # its state may still say what was removed
    assert "a redaction that is not fetched" in done.stderr
    assert contents(team) == found
    assert APART in team.sync(second).stderr
    assert [one["current_phase"] for one in contents(team) if one] == ["build", "done"]


@pytest.mark.parametrize(
    "content",
    ["no JSON", "[]", '{"run_id": "another"}', '{"a": ' * 100_000 + "1" + "}" * 100_000, '{"status": NaN}'],
    ids=["text", "list", "other run", "deep", "NaN"],
)
def test_a_forged_state_is_refused_by_name_and_leaves_no_file(team: Team, tmp_path: Path, content: str) -> None:
    first = team.clones[0]
    first.state_path.unlink()
    team.synced(first)
    put_document(team, content, heads_of(first))
    fresh = fresh_clone(team, tmp_path)
    done = team.sync(fresh, RUN)
    assert done.returncode == 0
    assert f"{RUN} gets no state.json from the server" in done.stderr
    folder = fresh.root / ".fractary" / "runs" / RUN
    assert not (folder / "state.json").exists()
    assert team.export(fresh, RUN) == team.export(first, RUN)


def test_a_state_of_a_history_that_nobody_has_counts_only_alone(team: Team, tmp_path: Path) -> None:
    first = team.clones[0]
    team.synced(first)
    put_document(team, json.dumps({"run_id": RUN, "status": "stolen"}), b"\1" * 32)
    fresh = fresh_clone(team, tmp_path)
    team.sync(fresh, RUN)
    assert state_in(fresh)["status"] == "in_progress"


def test_a_broken_state_is_named_and_its_events_are_pushed(team: Team) -> None:
    first = team.clones[0]
    first.put_state("{broken")
    done = team.sync(first)
    assert done.returncode == 0
    assert f"the state.json of {RUN} is not pushed" in done.stderr
    assert documents(team) == []
    assert len(team.rows()) == len(first.events)


@pytest.mark.parametrize("words", [("--push",), ()])
def test_a_state_that_another_overtakes_is_compared_again_and_pushed(team: Team, words: tuple[str, ...]) -> None:
    first, second, _ = team.clones
    team.synced(first)
    state = json.loads(first.state_path.read_bytes())
    first.state_path.write_text(json.dumps({**state, "target": "of the first"}))
    with team.database.connect() as connection, team.database.connect(autocommit=True) as watching:
        connection.execute("SELECT FROM faber_ledger.project FOR UPDATE")
        process = started(first, team.url, *words)
        while watching.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone() != (1,):
            assert process.poll() is None, process.communicate()
        connection.execute(
            "SELECT faber_ledger.push_document(%s, %s, 'other', %s, '{}', '{\"target\": \"of another\"}', %s, 'x')",
            [team.project, RUN, heads_of(second), "2026-01-05T14:30:22Z"],
        )
    _, errors = process.communicate()
    assert (process.returncode, "not pushed" in errors) == (0, False)
    assert "of the first" in [one["target"] for one in contents(team)]


def test_a_state_that_is_missing_can_be_fetched(team: Team) -> None:
    first, second, _ = team.clones
    for clone in (first, second):
        team.synced(clone)
    for path in second.state_path.parent.glob("state.json*"):
        path.unlink()
    assert team.synced(second)["state"] == "fetched"
