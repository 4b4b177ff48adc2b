"""What the commands print with `--url` is what they print of the same events in the clone that recorded them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.engine import make_url
from support.project import RUN, Project
from support.team_server import Team, made_team

if TYPE_CHECKING:
    import subprocess

    from support.postgres import Database

COMMANDS = [
    ("verify", RUN, "--json"),
    ("verify", "--all"),
    ("replay", RUN, "--diff", "1", "4"),
    ("log", RUN, "--json", "--reverse"),
    ("show", "3", "--run", RUN),
    ("export", RUN, "--format", "cloudevents"),
    ("timeline", RUN, "-o", "-"),
]


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    """Return a team whose first clone has pushed a run with some of everything: all others have less of it."""
    made = made_team(database, tmp_path)
    first = made.clones[0]
    first.deliver("PreCompact.auto.print")
    first.deliver("SessionStart.compact.print")
    secret = first.faber("note", "add", "to be redacted")
    assert secret.returncode == 0
    assert first.faber("redact", first.events[-1]["id"], "--yes").returncode == 0
    first.deliver("SessionEnd.other.print")
    first.change_state(current_phase="evaluate")
    done = made.sync(first)
    assert done.returncode == 0, done.stderr
    return made


def elsewhere(team: Team, folder: Path) -> Project:
    """Return a machine that has nothing of the project, but knows the server."""
    place = Project(folder / "elsewhere", hostname="elsewhere")
    place.root.mkdir()
    return place


def ask(team: Team, place: Project, *words: str, url: str = "-") -> subprocess.CompletedProcess[str]:
    return place.faber(*words, "--url", url, "--project", team.project, env={"FABER_LEDGER_URL": team.url})


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_each_command_prints_of_the_servers_events_what_it_prints_of_the_ledger(team: Team, tmp_path: Path) -> None:
    first, place = team.clones[0], elsewhere(team, tmp_path)
    for words in COMMANDS:
        local, remote = first.faber(*words), ask(team, place, *words)
        assert local.returncode == 0, (words, local.stderr)
        assert local.stdout, words
        assert (remote.returncode, remote.stdout, remote.stderr) == (0, local.stdout, local.stderr), words
    assert files_below(place.root) == []


def test_a_run_is_the_active_one_or_named_by_its_beginning(team: Team) -> None:
    first, second, _ = team.clones
    expected = first.faber("log").stdout
    assert ask(team, second, "log").stdout == expected
    assert ask(team, second, "log", RUN[:20]).stdout == expected
    before = second.faber("log").stdout
    assert before != expected  # the second clone has fetched nothing
    ask(team, second, "log")
    assert second.faber("log").stdout == before


def test_a_url_that_is_given_needs_no_configuration(team: Team) -> None:
    second = team.clones[1]
    bare = make_url(team.url)._replace(password=None).render_as_string()
    done = second.faber("log", "--url", bare, env={"PGPASSWORD": team.login.password})
    assert (done.returncode, done.stdout) == (0, team.clones[0].faber("log").stdout)
    refused = second.faber("log", "--url", team.url)
    assert refused.returncode == 2
    assert team.login.password not in refused.stdout + refused.stderr


def test_nothing_is_left_in_the_temporary_and_the_state_folder(team: Team, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    kept = tmp_path / "state"
    place = elsewhere(team, tmp_path)
    for words in (("verify", RUN), ("log", "no-such-run"), ("project", RUN), ("timeline", RUN, "-o", "-")):
        place.faber(
            *words,
            "--url",
            "-",
            "--project",
            team.project,
            env={"FABER_LEDGER_URL": team.url, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(kept)},
        )
    assert list(kept.glob("faber-ledger/*")) == []
    assert files_below(temporary) == []
    assert list(temporary.iterdir()) == []
    home = Path(place.environment()["HOME"])
    assert [path for path in files_below(home) if "faber-ledger" in str(path)] == []


def test_an_event_that_no_ledger_writes_is_left_out(team: Team, tmp_path: Path) -> None:
    first = team.clones[0]
    team.put(team.forged(first, hash=b"\1" * 32))
    place = elsewhere(team, tmp_path)
    assert ask(team, place, "log", RUN).stdout == first.faber("log", RUN).stdout
    done = ask(team, place, "verify", RUN)
    assert (done.returncode, f"{RUN}: left_out: 1 event of the server left out" in done.stdout) == (20, True)


def test_project_with_a_url_prints_the_blocks_and_writes_nothing(team: Team) -> None:
    first, second, _ = team.clones
    before = second.state_path.read_bytes()
    done = ask(team, second, "project")
    assert done.stdout == first.faber("project", "--stdout").stdout
    assert second.state_path.read_bytes() == before


def test_what_cannot_be_asked_of_a_server_is_refused(database: Database, tmp_path: Path) -> None:
    made = made_team(database, tmp_path)
    assert made.sync(made.clones[0]).returncode == 0
    words: tuple[str, ...]
    for words, code, message in (
        (("log", "no-such-run"), 10, "there is no run no-such-run"),
        (("log", "../x"), 1, "is not a run id"),
        (("verify", "--git"), 2, "leave out --url"),
        (("replay", "--check"), 2, "leave out --url"),
        (("log", "--work-id", "258"), 2, "name the run"),
        (("export", RUN, "--project", "x"), 10, "no project x"),
        (("export", RUN, "--project", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), 10, "no project 01ARZ3"),
    ):
        done = made.clones[1].faber(*words, "--url", "-", env={"FABER_LEDGER_URL": made.url})
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_a_project_without_a_url_is_wrong_usage(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    done = project.faber("log", "--project", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (done.returncode, "--project needs --url" in done.stderr) == (2, True)
