"""`run resume` brings a run that a clone has never seen, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project
from support.team_server import Team, made_team

if TYPE_CHECKING:
    import subprocess

    from support.postgres import Database

FOLDER = f".fractary/runs/{RUN}"


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    made = made_team(database, tmp_path)
    made.clones[0].change_state(current_phase="evaluate", plan={"of": "the first"})
    made.synced(made.clones[0])
    return made


@pytest.fixture
def fresh(team: Team, tmp_path: Path) -> Project:
    """Return a clone of the project that has no run."""
    made = Project.made(tmp_path / "fresh", run_id="another")
    made.hostname = "fresh"
    settings = ".fractary/faber/ledger.json"
    made.write(settings, (team.clones[0].root / settings).read_bytes())
    (made.run / "state.json").unlink()
    made.run.rmdir()
    made.active_path.unlink()
    return Project(made.root, RUN, "fresh")


def resume(team: Team, clone: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return clone.faber("run", "resume", *words, env={"FABER_LEDGER_URL": team.url})


def ids_of(asked: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the ids that are offered where a choice is needed."""
    return [one["id"] for one in json.loads(asked.stderr)["error"]["documents"]]


def push_two_states(team: Team) -> None:
    for one, phase in zip(team.clones, ("evaluate", "release"), strict=False):
        one.change_state(current_phase=phase, plan={"of": phase})
        assert one.faber("note", "add", f"in {phase}").returncode == 0
        team.synced(one, "--push")


def test_a_run_that_a_clone_has_never_seen_is_brought_and_goes_on(team: Team, fresh: Project) -> None:
    first = team.clones[0]
    done = resume(team, fresh, RUN, "--url", "-")
    assert done.returncode == 0, done.stderr
    assert f"Workflow resumed: {RUN}" in done.stdout
    assert "Traceback" not in done.stderr
    assert fresh.active_path.read_text().strip() == RUN
    assert fresh.state == first.state
    assert team.export(fresh) == team.export(first)
    assert fresh.faber("verify", RUN).returncode == 0
    fresh.deliver("SessionStart.startup.print")
    team.synced(fresh)
    team.synced(first)
    assert first.history[-1]["environment"]["hostname"] == "fresh"


def test_a_configured_server_is_asked_for_a_run_that_is_not_here(team: Team, fresh: Project) -> None:
    done = resume(team, fresh, RUN[:24])
    assert done.returncode == 0, done.stderr
    assert fresh.state["plan"] == {"of": "the first"}
    team.clones[0].change_state(current_phase="release")
    team.synced(team.clones[0])
    done = resume(team, fresh, RUN, "--url", "-")
    assert (done.returncode, fresh.state["current_phase"]) == (0, "release")  # nothing has changed here
    missing = resume(team, fresh, "no-such-run")
    assert (missing.returncode, "there is no run no-such-run" in missing.stderr) == (10, True)


def test_without_the_server_this_clone_decides(team: Team, fresh: Project) -> None:
    nowhere = {"FABER_LEDGER_URL": "postgresql:///x?host=/nowhere"}
    here = team.clones[1].faber("run", "resume", RUN, env=nowhere)
    assert (here.returncode, here.stderr) == (0, "")
    done = fresh.faber("run", "resume", RUN, env=nowhere)
    assert done.returncode == 13
    assert "there is no run" not in done.stderr
    named = fresh.faber("run", "resume", RUN, "--url", nowhere["FABER_LEDGER_URL"])
    assert named.returncode == 13
    assert not (fresh.root / FOLDER).exists()


def test_of_two_states_the_user_chooses(team: Team, fresh: Project) -> None:
    push_two_states(team)
    done = resume(team, fresh, RUN, "--json")
    assert done.returncode == 3
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "choice_needed"
    assert len(error["documents"]) == 2
    assert not (fresh.root / FOLDER).exists()
    named = resume(team, fresh, RUN)
    assert named.returncode == 3
    assert f"faber-ledger run resume {RUN} --document {error['documents'][1]['id']}" in named.stderr
    assert resume(team, fresh, RUN, "--document", "none").returncode == 10
    assert not (fresh.root / FOLDER).exists()
    done = resume(team, fresh, RUN, "--document", error["documents"][1]["id"])
    assert (done.returncode, fresh.state["current_phase"]) == (0, "release")
    assert fresh.faber("verify", RUN).returncode == 0


def test_a_choice_is_that_of_all_after_the_next_sync(team: Team, fresh: Project) -> None:
    push_two_states(team)
    ids = ids_of(resume(team, fresh, RUN, "--json"))
    assert resume(team, fresh, RUN, "--document", ids[1]).returncode == 0
    assert "state.json pushed" in team.sync(fresh).stdout
    assert "state.json fetched" in team.sync(team.clones[0]).stdout
    assert team.synced(team.clones[1])["state"] is None  # it has the same one
    for one in team.clones[:2]:
        assert one.state["current_phase"] == "release"


def test_a_state_that_has_changed_on_both_sides_is_asked_about_where_it_is(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    for one, phase in ((first, "evaluate"), (second, "release")):
        one.change_state(current_phase=phase, plan={"of": phase})
        team.sync(one)
    assert second.state["current_phase"] == "release"
    asked = resume(team, second, RUN)
    assert asked.returncode == 3, asked.stderr
    ids = ids_of(resume(team, second, RUN, "--json"))
    assert len(ids) == 2
    assert f", from {first.hostname}, by " in asked.stderr
    assert ", from this clone, as it is here)" in asked.stderr
    assert f"faber-ledger run resume {RUN} --document here  (" in asked.stderr
    assert ids[1] not in asked.stderr  # it is the one here
    done = resume(team, second, RUN, "--document", ids[0])
    assert (done.returncode, second.state["current_phase"]) == (0, "evaluate")
    assert "Phase: evaluate" in done.stdout
    assert second.faber("verify", RUN).returncode == 0
    assert resume(team, second, RUN).returncode == 0  # it is not asked again


def test_changes_that_the_server_does_not_have_are_not_replaced(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    second.change_state(current_phase="release")
    first.change_state(current_phase="done")
    assert first.faber("note", "add", "newer").returncode == 0
    team.synced(first)
    asked = resume(team, second, RUN, "--url", "-", "--json")
    error = json.loads(asked.stderr)["error"]
    assert [one["id"] for one in error["documents"]] == ["here"]  # what would be refused is not offered
    (other,) = error["after_push"]
    refused = resume(team, second, RUN, "--document", other["id"])
    assert (refused.returncode, "changes that the server does not have" in refused.stderr) == (1, True)
    named = resume(team, second, RUN, "--url", "-")
    assert named.returncode == 3
    assert f"  faber-ledger run resume {RUN} --document here  (" in named.stderr
    assert f"  faber-ledger sync --push {RUN}  (" in named.stderr
    assert f"--document {other['id']}" not in named.stderr
    assert second.state["current_phase"] == "release"
    assert resume(team, second, RUN, "--document", "here").returncode == 0
    assert second.state["current_phase"] == "release"
    assert "state.json pushed" in team.sync(second).stdout
    assert "state.json fetched" in team.sync(first).stdout
    assert first.state["current_phase"] == "release"


def test_changes_are_chosen_among_once_they_are_pushed(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    second.change_state(current_phase="release")
    first.change_state(current_phase="done")
    team.synced(first)
    assert resume(team, second, RUN, "--url", "-").returncode == 3
    assert team.sync(second, "--push", RUN).returncode == 0  # what it says to run
    asked = json.loads(resume(team, second, RUN, "--url", "-", "--json").stderr)["error"]
    (theirs,) = [one["id"] for one in asked["documents"] if not one["is_here"]]
    assert resume(team, second, RUN, "--document", theirs).returncode == 0
    assert second.state["current_phase"] == "done"


def test_what_is_shown_of_each_state_tells_them_apart(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    first.change_state(target="cents", updated_at="2026-01-05T16:00:00Z")
    second.change_state(target="euros", updated_at="2026-01-05T17:00:00Z", **{f"key{n}": n for n in range(6)})
    for one in (first, second):
        team.sync(one)
    asked = resume(team, second, RUN)
    assert "; they differ in key0, key1, key2, key3, key4 and 2 more. Choose one:" in asked.stderr
    assert ", updated 2026-01-05T17:00:00Z, pushed 2" in asked.stderr
    error = json.loads(resume(team, second, RUN, "--json").stderr)["error"]
    assert error["differ_in"] == [*[f"key{n}" for n in range(6)], "target"]
    theirs, own = error["documents"]
    assert (theirs["updated_at"], own["updated_at"]) == ("2026-01-05T16:00:00Z", "2026-01-05T17:00:00Z")
    assert (theirs["machine"], theirs["is_own"], theirs["is_here"]) == (first.hostname, False, False)
    assert (own["machine"], own["is_own"], own["is_here"]) == (None, True, True)
    assert min(theirs["pushed_at"], own["pushed_at"]) > "2026-01-05T18"
    config = Path(second.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"url": team.url}))
    shown, code = second.on_terminal("run", "resume", RUN, answers=["2"])
    assert code == 0, shown
    assert "1. status in_progress, current_phase evaluate, updated 2026-01-05T16:00:00Z, pushed 2" in shown


def test_a_state_with_hostile_names_is_shown_in_one_line(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    for one in (first, second):
        one.change_state(**{"\u001b[31m\nrm": str(one.root), "status": "x" * 500})
        team.sync(one)
    asked = resume(team, second, RUN)
    assert asked.returncode == 3
    assert "\x1b" not in asked.stderr
    assert len(asked.stderr.splitlines()) == 3
    assert max(map(len, asked.stderr.splitlines())) < 500


def test_a_document_without_a_server_is_refused(team: Team) -> None:
    done = team.clones[0].faber("run", "resume", RUN, "--document", "here", env={"FABER_LEDGER_URL": None})
    assert (done.returncode, "--document needs a server" in done.stderr) == (2, True)


def test_a_run_that_came_without_its_state_gets_the_one_that_is_chosen(team: Team, fresh: Project) -> None:
    push_two_states(team)
    team.sync(fresh, RUN)
    assert not (fresh.root / FOLDER / "state.json").exists()
    ids = ids_of(resume(team, fresh, RUN, "--json"))
    assert resume(team, fresh, RUN, "--document", ids[0]).returncode == 0
    assert fresh.state["current_phase"] == "evaluate"


def test_a_run_whose_state_nobody_pushed_is_made_of_its_log(team: Team, fresh: Project) -> None:
    first = team.clones[0]
    assert first.faber("run", "start", "--work-id", "9", "--yes").returncode == 0
    run_id = first.active_path.read_text().strip()
    (first.run.parent / run_id / "state.json").unlink()
    team.sync(first, run_id)
    done = resume(team, fresh, run_id)
    assert done.returncode == 0, done.stderr
    state = json.loads((fresh.root / f".fractary/runs/{run_id}/state.json").read_text())
    assert (state["status"], state["work_id"]) == ("in_progress", "9")


@pytest.mark.parametrize("content", ["no JSON", '{"run_id": "other"}', '{"status": "\\u001b[31m"'])
def test_a_forged_state_is_left_out(team: Team, fresh: Project, content: str) -> None:
    with team.database.connect() as connection:
        connection.execute(
            "INSERT INTO faber_ledger.document"
            " SELECT project, run_id, 'forged', 0, heads, ARRAY[id], %s, at, writer FROM faber_ledger.document",
            [content],
        )
    done = resume(team, fresh, RUN)
    assert "is left out" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert fresh.state["run_id"] == RUN
    assert fresh.faber("verify", RUN).returncode == 0


def test_nothing_is_written_if_the_server_stops_half_way(team: Team, fresh: Project) -> None:
    """The events are fetched by then, and the state is refused."""
    with team.database.connect() as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION faber_ledger.content_of FROM faber_ledger_member")
    before = sorted(fresh.root.rglob("*"))
    done = resume(team, fresh, RUN, "--url", "-")
    assert done.returncode == 14, done.stderr
    assert sorted(fresh.root.rglob("*")) == before


def test_a_link_in_the_place_of_the_folder_is_not_followed(team: Team, fresh: Project, tmp_path: Path) -> None:
    for place in (tmp_path / "outside", fresh.root / ".fractary" / "runs" / "other"):
        place.mkdir(parents=True)
        link = fresh.root / FOLDER
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)
        done = resume(team, fresh, RUN, "--url", "-")
        assert done.returncode != 0
        assert list(place.iterdir()) == []
        link.unlink()


def test_on_a_terminal_the_user_is_asked_by_number(team: Team, fresh: Project) -> None:
    push_two_states(team)
    config = fresh.root.parent / "home-fresh" / ".config" / "faber-ledger" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"url": team.url}))
    config.chmod(0o600)
    shown, code = fresh.on_terminal("run", "resume", RUN, answers=["2"])
    assert (code, fresh.state["current_phase"]) == (0, "release"), shown
    assert "1. status in_progress, current_phase evaluate" in shown.replace("\n", " ")


def test_a_note_is_no_part_of_another_clones_session(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    theirs = first.current
    assert second.faber("note", "add", "from the second").returncode == 0
    second.deliver("SessionStart.startup.print", client="another")
    own = second.current
    assert second.faber("note", "add", "in a session of its own").returncode == 0
    team.synced(second)
    team.synced(first)
    assert first.history[-1]["session_id"] == own != theirs
    assert first.faber("note", "add", "from the first").returncode == 0
    filed = {note["text"]: note.get("session_id") for note in first.of_type("note_recorded")}
    assert filed == {
        "it went well": theirs,
        "from the second": None,
        "in a session of its own": own,
        "from the first": None,
    }
    assert "  -       note, in evaluate: from the first" in first.faber("log", "-n", "1").stdout
