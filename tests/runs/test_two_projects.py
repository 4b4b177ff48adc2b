"""Two projects in one repository: what this clone keeps of each project below the top is that project's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, usual_state
from support.sizes import few

from faber_ledger.ledger.log import Log

START, COMPACTED = "SessionStart.startup.print", "SessionStart.compact.print"
PRE, END = "PreCompact.auto.print", "SessionEnd.other.print"
FOLDERS = [("x/ä b%2F..", "x/" + "long-" * 40), (".", "sub"), ("a", "b"), ("sub", ".")]

pytestmark = pytest.mark.long


def repository(top: Path, *folders: str) -> list[Project]:
    """Make a repository with projects in these folders, set up on main; the branch `feature` is checked out."""
    top.mkdir()
    Project(top).git("init", "-q", "-b", "main")
    (top / ".gitignore").write_text("environment-of-*\nhome-*\n")  # the files of the test's machine, beside a project
    projects = [add(top, folder, f"run-{number}") for number, folder in enumerate(folders)]
    commit(top)
    Project(top).git("checkout", "-qb", "feature")
    return projects


def add(top: Path, folder: str, run_id: str) -> Project:
    project = Project((top / folder).resolve(), run_id)
    (project.root / ".fractary").mkdir(parents=True)
    assert project.faber("init", "--git-only").returncode == 0
    return project


def write_run(project: Project) -> None:
    """Write a run and the active file as FABER leaves them."""
    project.run.mkdir(parents=True)
    project.put_state(usual_state(project.run_id))
    project.active_path.parent.mkdir(exist_ok=True)
    project.active_path.write_text(f"{project.run_id}\n")


def commit(top: Path) -> None:
    Project(top).commit("work")


@pytest.fixture(params=few(FOLDERS, 1), ids=" and ".join)
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Project, Project]:
    one, two = repository(tmp_path / "repository", *request.param)
    write_run(one)
    write_run(two)
    return one, two


def top_of(project: Project) -> Path:
    return Path(project.git("rev-parse", "--show-toplevel"))


def mirrors(project: Project) -> dict[str, list[str]]:
    """Return the logs of a clone: the path of each below `.git/faber-ledger`, and the ids of its events."""
    kept = Path(project.git("rev-parse", "--path-format=absolute", "--git-common-dir")) / "faber-ledger"
    return {str(path.relative_to(kept)): ids(path) for path in sorted(kept.rglob("log.db"))}


def ids(path: Path) -> list[str]:
    with Log.read(str(path)) as log:
        return [one["id"] for one in log.stream()]


def listed(project: Project) -> list[str]:
    return [row["run_id"] for row in json.loads(project.faber("run", "list", "--json").stdout)["data"]]


def active(project: Project) -> Any:
    rows = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    return next((row["run_id"] for row in rows if row["active"]), None)


def is_sound(project: Project) -> bool:
    done = project.faber("verify", project.run_id)
    return done.stdout == f"{project.run_id}: sound\n"


# Each client stays in its project


def test_a_client_gets_the_run_of_its_own_project(pair: tuple[Project, Project]) -> None:
    for number, project in enumerate(pair):
        assert f"# FABER run {project.run_id}" in (
            project.deliver(START, client=f"c{number}", pid=str(number)).packet or ""
        )
    commit(top_of(pair[0]))
    for order in (pair, pair[::-1]):
        for project in order:
            me = {"client": f"c{pair.index(project)}", "pid": str(pair.index(project))}
            assert f"`{project.run_id}`" in project.deliver(PRE, **me).output.decode()
            assert f"# FABER run {project.run_id}" in (project.deliver(COMPACTED, **me).packet or "")
            assert (listed(project), active(project)) == ([project.run_id], project.run_id)
    for number, project in enumerate(pair):
        project.deliver(END, client=f"c{number}", pid=str(number))
        assert [entry["end_reason"] for entry in project.history] == ["compaction", "compaction", "normal"]
        assert is_sound(project)


def test_two_runs_with_one_id_are_not_mixed(tmp_path: Path) -> None:
    pair = [Project(one.root, "same") for one in repository(tmp_path / "repository", "a", "b")]
    for number, project in enumerate(pair):
        write_run(project)
        project.deliver(START, client=f"c{number}", pid=str(number))
        project.deliver(PRE, client=f"c{number}", pid=str(number))
    for project in pair:
        assert len(project.history) == 1
        assert is_sound(project)
    assert sorted(mirrors(pair[0]).values()) == sorted([ids(project.ledger_path) for project in pair])


def test_a_redaction_reaches_the_copies_of_its_own_project(pair: tuple[Project, Project]) -> None:
    for project in pair:
        project.deliver(START, client=project.run_id, pid="1")
        assert project.faber("note", "add", "the customer is Aubergine").returncode == 0
        assert project.faber("run", "list").returncode == 0
    one, two = pair
    note = next(event for event in one.events if event["event"]["type"] == "note_recorded")["id"]
    assert one.faber("redact", note, "--yes").returncode == 0
    left = [path for path in Path(top_of(one)).rglob("*") if path.is_file() and b"Aubergine" in path.read_bytes()]
    assert left
    assert all([two.run_id in str(path) for path in left]), left
    assert is_sound(one)


# A work tree of both
