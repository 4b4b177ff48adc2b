"""`run resume` brings a run that a clone has never seen."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.engine import make_url
from support.command import COMMAND
from support.project import RUN, Project
from support.sizes import few
from support.team_server import Team, made_team

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

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


def test_a_configured_server_is_asked_for_a_run_that_is_not_here(team: Team, fresh: Project) -> None:
    done = resume(team, fresh, RUN[:24])
    assert done.returncode == 0, done.stderr
    assert fresh.state["plan"] == {"of": "the first"}
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


def test_a_fetch_that_stops_half_way_is_completed_by_the_next(team: Team, fresh: Project) -> None:
    """The events are fetched by then, and the state is refused."""
    with team.database.connect() as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION faber_ledger.state_of FROM faber_ledger_member")
    bare = make_url(team.url)._replace(password=None).render_as_string()
    done = fresh.faber("run", "resume", RUN, "--url", bare, env={"PGPASSWORD": team.login.password})
    assert done.returncode == 14, done.stderr
    assert not fresh.active_path.exists()
    with team.database.connect() as connection:
        connection.execute("GRANT EXECUTE ON FUNCTION faber_ledger.state_of TO faber_ledger_member")
    assert resume(team, fresh, RUN).returncode == 0
    assert fresh.state == team.clones[0].state


def test_a_link_in_the_place_of_the_folder_is_not_followed(team: Team, fresh: Project, tmp_path: Path) -> None:
    for place in (tmp_path / "outside", fresh.root / ".fractary" / "runs" / "other"):
        place.mkdir(parents=True)
        link = fresh.root / FOLDER
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)
        done = resume(team, fresh, RUN)
        assert done.returncode != 0
        assert list(place.iterdir()) == []
        link.unlink()


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


# A run that the server brought before git did: git refuses to pull over it, and the guide says how to go on.


def git(clone: Project, *words: str) -> subprocess.CompletedProcess[str]:
    who = {f"GIT_{who}_{what}": f"dev@{who}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = {"PATH": f"{COMMAND.parent}:{clone.environment()['PATH']}"}
    return subprocess.run(
        ["git", *words],
        cwd=clone.root,
        env=clone.environment({**who, **path, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("way", few(["resume", "sync"], 1))
def test_the_guides_way_out_of_a_refused_pull_unites_both(database: Database, tmp_path: Path, way: str) -> None:
    first = Project.noted(tmp_path / "first")
    bare, second = tmp_path / "bare", Project(tmp_path / "second", first.run_id, "second")
    assert git(first, "clone", "--quiet", "--bare", ".", str(bare)).returncode == 0
    git(first, "remote", "add", "origin", str(bare))
    assert git(first, "clone", "--quiet", str(bare), str(second.root)).returncode == 0
    assert second.faber("init", "--git-only").returncode == 0
    team = Team(database, [first, second])

    assert first.faber("run", "start", "--work-id", "9", "--yes").returncode == 0
    run_id = first.active_path.read_text().strip()
    assert first.faber("note", "add", "of the first").returncode == 0
    assert team.sync(first, "--all").returncode == 0
    if way == "sync":
        assert team.sync(second, "--all").returncode == 0
    else:
        done = second.faber("run", "resume", run_id, "--yes", env={"FABER_LEDGER_URL": team.url})
        assert done.returncode == 0, done.stderr
        assert second.faber("note", "add", "of the second").returncode == 0
    git(first, "add", "-A")
    assert git(first, "commit", "--quiet", "-m", "Run").returncode == 0
    done = git(first, "push", "--quiet", "origin", "HEAD")
    assert done.returncode == 0, done.stderr

    refused = git(second, "pull", "--no-rebase")
    assert refused.returncode == 1
    assert "untracked working tree files would be overwritten" in refused.stderr
    commands = (["add", ".fractary"], ["commit", "-m", "Runs of the server"], ["pull", "--no-rebase"])
    for words in commands:
        done = git(second, *words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert second.faber("verify", "--all").returncode == 0
    notes = second.faber("export", run_id).stdout
    assert notes.count("of the first") == 1
    assert notes.count("of the second") == (way == "resume")
    assert team.sync(second, "--all").returncode == 0
    if way == "resume":
        assert second.active_path.read_text().strip() == run_id
