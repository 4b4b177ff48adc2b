"""The clone's log and the published file: git takes nothing from the log, and the file is never opened for writing."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.command import COMMAND
from support.program import path_with_program
from support.project import Project

from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

STRACE = shutil.which("strace")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.noted(tmp_path / "project")


def run_of(project: Project) -> Run:
    return Run(str(project.root), project.run_id, str(project.run))


def ids_in(path: str | Path) -> list[str]:
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as connection:
        return [name for (name,) in connection.execute("SELECT id FROM event ORDER BY seq, id")]


def note(project: Project, text: str) -> None:
    project.said("note", "add", text)


def verify(project: Project) -> subprocess.CompletedProcess[str]:
    return project.faber("verify", project.run_id)


def test_the_file_is_a_byte_copy_of_the_log(project: Project) -> None:
    note(project, "first")
    run = run_of(project)
    assert Path(run.log_path).read_bytes() == project.ledger_path.read_bytes()
    assert ".git" in run.log_path


@pytest.mark.parametrize(
    "act",
    [
        ["checkout", "-q", "--", "."],
        ["reset", "-q", "--hard"],
        ["stash", "-q", "-u"],
        ["clean", "-qfdx", "-e", ".claude"],
        ["rm", "-qrf", "--cached", ".fractary/runs"],
    ],
    ids=" ".join,
)
def test_no_git_command_takes_an_event_away(project: Project, act: list[str]) -> None:
    note(project, "kept by the log alone")
    before = ids_in(run_of(project).log_path)
    project.git(*act)
    assert ids_in(run_of(project).log_path) == before
    note(project, "after it")
    after = ids_in(run_of(project).log_path)
    assert after[: len(before)] == before
    assert len(after) == len({*after}) == len(before) + 1
    if project.state_path.exists():
        assert ids_in(project.ledger_path) == after
        assert verify(project).returncode == 0


def test_without_log_and_file_a_run_goes_on_from_the_commit(project: Project) -> None:
    before = ids_in(project.ledger_path)
    shutil.rmtree(Path(run_of(project).log_path).parent)
    project.ledger_path.unlink()
    note(project, "after it")
    assert ids_in(project.ledger_path)[: len(before)] == before


def test_a_copied_and_a_moved_clone_go_on_with_their_logs(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path_with_program())  # git finds the drivers
    assert project.faber("init", "--git-only", "--no-pre-commit").returncode == 0
    copied, moved = Project(tmp_path / "copied"), Project(tmp_path / "moved")
    shutil.copytree(project.root, copied.root, symlinks=True)
    note(project, "in the first")
    note(copied, "in the copy")
    project.root.rename(moved.root)
    note(moved, "after it was moved")
    moved.commit()
    copied.commit()
    copied.git("pull", "--quiet", "--no-rebase", str(moved.root), "HEAD")
    note(copied, "after the pull")
    ids = ids_in(copied.ledger_path)
    assert len(ids) == len({*ids}) == len(ids_in(moved.ledger_path)) + 2
    assert verify(copied).returncode == 0


def put_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def put_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_another_programs(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cookie (name TEXT)")
    connection.close()


BROKEN: dict[str, Callable[[Path], object]] = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "not a database": lambda path: path.write_bytes(b"<<<<<<< HEAD\n" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a link": put_a_link,
    "a pipe": put_a_pipe,
    "another program's": put_another_programs,
}
SET_ASIDE = ("torn", "not a database", "another program's")


@pytest.mark.parametrize("is_hook", [True, False])
@pytest.mark.parametrize("how", BROKEN)
def test_whatever_is_in_the_files_place_the_log_publishes_again(project: Project, how: str, *, is_hook: bool) -> None:
    before = ids_in(run_of(project).log_path)
    BROKEN[how](project.ledger_path)
    if is_hook:
        assert project.deliver("SessionStart.resume.print", client="another").packet
    else:
        note(project, "after it")
    assert ids_in(project.ledger_path)[: len(before)] == before
    assert not project.ledger_path.is_symlink()
    assert verify(project).returncode == 0
    aside = [*(project.root / ".git/faber-ledger/set-aside").glob("*")]
    assert len(aside) == (1 if how in SET_ASIDE else 0)


def test_a_directory_in_the_files_place_is_named_by_what_publishes(project: Project) -> None:
    project.ledger_path.unlink()
    project.ledger_path.mkdir()
    assert f"remove the directory there, then run `faber-ledger project {project.run_id}`" in verify(project).stdout
    for command in ("project", "seal"):
        done = project.faber(command, project.run_id)
        assert (done.returncode, done.stdout) == (1, "")
        assert "ledger.db is a directory" in done.stderr
        assert "remove it" in done.stderr
    assert project.deliver("SessionStart.resume.print", client="another").packet
    assert "is a directory; the log has all events" in project.log_lines[-1].lower()
    project.ledger_path.rmdir()
    assert project.faber("project", project.run_id).returncode == 0
    assert verify(project).returncode == 0


def test_a_file_that_cannot_be_read_is_set_aside_and_named_once(project: Project) -> None:
    shutil.rmtree(project.root / ".git/faber-ledger")
    project.ledger_path.write_bytes(b"no database" * 1000)
    for command in ("verify", "status", "log"):
        project.faber(command, project.run_id)
    assert len([*(project.root / ".git/faber-ledger/set-aside").iterdir()]) == 1
    started = project.deliver("SessionStart.startup.print")
    assert started.errors.count("is not a sound ledger") == 1, started.errors


def test_while_git_has_stopped_nothing_is_published(project: Project) -> None:
    note(project, "before")
    (project.root / ".git" / "MERGE_HEAD").write_text("0" * 40)
    file, state = project.ledger_path.read_bytes(), project.state_path.read_bytes()
    note(project, "meanwhile")
    assert (project.ledger_path.read_bytes(), project.state_path.read_bytes()) == (file, state)
    done = verify(project)
    assert (done.returncode, "1 event of the log" in done.stdout) == (0, True)
    assert f"hint: `faber-ledger seal {project.run_id}` publishes all events" in done.stdout
    assert "run resume" not in done.stdout
    (project.root / ".git" / "MERGE_HEAD").unlink()
    note(project, "after it")
    assert ids_in(project.ledger_path) == ids_in(run_of(project).log_path)


@pytest.mark.skipif(STRACE is None or sys.platform != "linux", reason="strace shows the system calls")
def test_the_tracked_file_has_no_writer_journal_or_lock(project: Project) -> None:
    trace = project.root.parent / "trace"
    delivery, environment, event = project.prepared("SessionStart.resume.print")
    commands = (["note", "add", "x"], ["verify"], ["project", "--rebuild"], ["seal"], ["log"], ["hook", event])
    for command in commands:
        subprocess.run(
            [STRACE or "", "-f", "--seccomp-bpf", "-qq", "-e", "trace=%file", "-o", str(trace), COMMAND, *command],
            cwd=project.root,
            env=environment,
            input=delivery,
            check=True,
            capture_output=True,
        )
        text = trace.read_text(errors="replace")
        beside = [line for line in text.splitlines() if re.search(r'ledger\.(db-\w+|lock)"', line)]
        assert [line for line in beside if "O_CREAT" in line or "O_RDWR" in line] == []
        opened = [line for line in text.splitlines() if re.search(r'/ledger\.db"', line) and "open" in line]
        assert [line for line in opened if re.search("O_WRONLY|O_RDWR|O_CREAT", line)] == []
    assert sorted(path.name for path in project.run.iterdir() if "ledger" in path.name) == ["ledger.db"]
