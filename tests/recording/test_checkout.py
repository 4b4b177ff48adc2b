"""What git has checked out when a session starts or ends: the branch, and whether something is not committed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.program import make_program
from support.project import RUN, Project

from faber_ledger.recording.call import checkout_at_end, read_environment
from faber_ledger.runs import git_query as queries
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import forget_work_trees

if TYPE_CHECKING:
    from collections.abc import Iterator


STARTUP = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
END = "SessionEnd.other.interactive"
ME = {"client": "324802ff-0231-4ac6-8eb6-c6c99574fbae", "pid": "26210"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(queries, "SECONDS", 60)  # whatever else this machine does
    project = Project.made(tmp_path / "myproject")
    project.git("switch", "--quiet", "--create", "feat/258-csv")
    project.write(".gitignore", "build/\n")
    project.write("src/a.txt", "one\n")
    project.commit("work")
    note_use(str(project.root), project.run_id, is_taken_up=True)
    forget_work_trees()
    yield project
    forget_work_trees()


def uncommitted(project: Project) -> bool:
    known = checkout_at_end(find_run(str(project.root), RUN))
    assert known is not None
    assert known["branch"] == "feat/258-csv"
    assert (known["uncommitted"] is True) == ("uncommitted_count" in known) == ("uncommitted_names" in known)
    return known["uncommitted"] is True


def following(project: Project, kind: str) -> list[dict[str, Any]]:
    """Return, for each event of a type, the one that follows it, without its type."""
    events = [dict(recorded["event"]) for recorded in project.events]
    after = [events[number + 1] for number, event in enumerate(events) if event["type"] == kind]
    assert [event.pop("type") for event in after] == ["checkout_recorded"] * len(after)
    return after


# When it is recorded


def test_it_follows_each_start_and_end_of_a_delivery(project: Project) -> None:
    project.deliver(STARTUP, **ME)
    project.deliver(PRE, **ME)
    project.git("switch", "--quiet", "--create", "other")
    project.deliver("SessionStart.compact.interactive", **ME)
    project.deliver(END, **ME)
    project.git("switch", "--quiet", "feat/258-csv")
    assert project.faber("project", RUN).returncode == 0  # on the run's branch it is published
    first, second = [entry["session_id"] for entry in project.history]
    assert following(project, "session_started") == [
        {"session_id": first, "is_end": False, "has_run": True, "branch": "feat/258-csv", "uncommitted": None},
        {"session_id": second, "is_end": False, "has_run": True, "branch": "other", "uncommitted": None},
    ]
    ends = following(project, "session_ended")
    assert [(end["session_id"], end["branch"]) for end in ends] == [(first, "feat/258-csv"), (second, "other")]
    assert not any(end["uncommitted"] for end in ends)
    project.assert_projected()


def test_the_start_of_a_run_records_the_branch_without_a_client_too(project: Project) -> None:
    assert project.faber("run", "start", "--work-id", "9", "--run-id", "nine", "--yes").returncode == 0
    started = Project(project.root, "nine")
    assert following(started, "run_started") == [
        {"is_end": False, "has_run": True, "branch": "feat/258-csv", "uncommitted": None}
    ]
    assert "feat/258-csv checked out at the start" in project.said("log", "nine", "--type", "checkout_recorded")
    started.assert_projected()


# Uncommitted changes


def test_what_is_uncommitted_outside_our_folder_is_seen(project: Project) -> None:
    assert not uncommitted(project)
    project.write(".fractary/notes.txt", "ours\n")
    project.write("build/out.o", "ignored\n")
    os.utime(project.root / "src/a.txt", (1, 1))
    assert not uncommitted(project)
    project.write("src/a.txt", "two\n")
    assert uncommitted(project) is True
    project.git("add", "src/a.txt")
    assert uncommitted(project) is True
    project.commit("work")
    assert not uncommitted(project)
    project.write("new.txt", "untracked\n")
    assert uncommitted(project) is True
    project.commit("work")
    (project.root / "new.txt").unlink()
    assert uncommitted(project) is True


def test_an_end_names_the_first_ten_uncommitted_files(project: Project) -> None:
    project.deliver(STARTUP, **ME)
    for number in range(12):
        project.write(f"new-{number:02}.txt", "x\n")
    project.write("deep/er/file.txt", "x\n")
    project.deliver(END, **ME)
    (end,) = following(project, "session_ended")
    assert end["uncommitted_count"] == 13
    assert end["commit"] == project.git("rev-parse", "HEAD").strip()
    assert end["uncommitted_names"] == ["deep/", *[f"new-{number:02}.txt" for number in range(9)]]


@pytest.mark.parametrize("kind", ["clean", "process", "included", "worktree"])
def test_no_program_of_the_repository_runs(project: Project, tmp_path: Path, kind: str) -> None:
    """A filter, a file system monitor, a hook: whoever made the repository may have set them."""
    ran, program = tmp_path / "ran", tmp_path / "evil"
    make_program(program, f"echo x >> {ran}\nexit 1")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/post-index-change").symlink_to(program)
    where = ["--file", str(project.root / ".git/more")] if kind == "included" else []
    if kind == "included":
        project.git("config", "include.path", "more")
    if kind == "worktree":
        project.git("config", "extensions.worktreeConfig", "true")
        where = ["--worktree"]
    for name in ("filter.evil.process" if kind == "process" else "filter.evil.clean", "core.fsmonitor"):
        project.git("config", *where, name, str(program))
    project.git("config", *where, "filter.evil.required", "true")
    project.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    project.write(".git/info/attributes", "*.txt filter=evil\n")
    project.write("src/a.txt", "two\n")
    index = (project.root / ".git/index").read_bytes()
    assert not uncommitted(project)  # the filter alone could tell, as with git-lfs
    project.deliver(STARTUP, **ME)
    project.deliver(END, **ME)
    assert not ran.exists()
    assert (project.root / ".git/index").read_bytes() == index
    project.write("unfiltered.md", "new\n")
    assert uncommitted(project) is True
    assert not ran.exists()
    subprocess.run(["git", "status"], cwd=project.root, capture_output=True, check=False)
    assert ran.exists(), "git itself would not have run it, so that this shows nothing"


# The commit of a session's environment is as short as git shows it, without asking git (DECISIONS 18).


MANY = 17_000  # objects, of which git shows 8 digits


@pytest.mark.parametrize("kind", ["small", "many objects", "core.abbrev", "packed reference"])
def test_the_commit_is_what_git_shows(tmp_path: Path, kind: str) -> None:
    project = Project.made(tmp_path / "project")
    if kind == "many objects":
        blobs = "".join([f"blob\ndata {len(str(number))}\n{number}\n" for number in range(MANY)])
        subprocess.run(["git", "fast-import", "--quiet"], cwd=project.root, input=blobs.encode(), check=True)
    if kind == "core.abbrev":
        project.git("config", "core.abbrev", "12")
    if kind == "packed reference":
        project.git("pack-refs", "--all")
    shown = project.git("rev-parse", "--short", "HEAD")
    assert len(shown) == {"many objects": 8, "core.abbrev": 12}.get(kind, 7)
    assert read_environment(str(project.root))["git_commit"] == shown
