"""A journal beside a log: rolled back where it belongs, never played where git has put another file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import Project

from faber_ledger.ledger.log import Log

START, END = "SessionStart.startup.print", "SessionEnd.other.print"

# Dies with pages of its transaction in the file: they are too many for a cache of one.
TORN = """
import os, signal
from faber_ledger.cli.entry import main
from faber_ledger.ledger.log import INSERT, Log

def die(self):
    self.connection.execute("PRAGMA cache_size = 1")
    row = (2, "a", "w", None, None, b"", b"s" * 16, "x" * 3000, None, bytes(32))
    self.connection.executemany(INSERT, [(1000 + n, f"{n:026d}", "torn", *row[:1], *row[1:]) for n in range(60)])
    os.kill(os.getpid(), signal.SIGKILL)

Log.commit = die
main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a committed run that went on since."""
    project = Project.made(tmp_path / "project")
    project.deliver(START, client="one", pid="1")
    project.faber("init", "--git-only")
    project.git("add", "--all")
    project.git("commit", "-m", "A run")
    project.deliver(END, client="one", pid="1")
    return project


def ids(project: Project) -> list[str]:
    return [recorded["id"] for recorded in project.events]


def tear(project: Project) -> Path:
    """Kill a command in the middle of its transaction; return its journal."""
    before = project.ledger_path.stat().st_size
    killed = subprocess.run(
        [sys.executable, "-c", TORN, "session-load", "--force"],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert project.ledger_path.stat().st_size > before
    journal = Path(f"{project.ledger_path}-journal")
    assert journal.stat().st_size > 512
    return journal


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


COMMANDS = [("session-save",), ("session-load", "--force"), ("project",), ("seal",)]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_journal_of_its_own_is_rolled_back_and_every_event_is_there(project: Project, command: tuple[str]) -> None:
    had = ids(project)
    journal = tear(project)
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert "a journal stood beside" in done.stderr
    assert not journal.exists()
    assert ids(project)[: len(had)] == had
    assert "torn" not in project.types
    assert {"ledger.db.backup", "ledger.db-journal.backup"} <= set(files(project.run))
    assert not project.git("status", "--porcelain", "--", "*.backup")
    project.faber("project")
    project.assert_projected()


def test_a_hook_recovers_too(project: Project) -> None:
    had = ids(project)
    tear(project)
    answer = project.deliver(START, client="two", pid="2")
    assert answer.packet is not None
    assert ids(project)[: len(had)] == had
    assert len(ids(project)) > len(had)
    project.assert_projected()


def test_a_log_is_recovered_before_the_first_commit(project: Project) -> None:
    """Git has no last commit then, but still says what it tracks."""
    had = ids(project)
    journal = tear(project)
    project.git("update-ref", "-d", "HEAD")
    shutil.rmtree(project.root / ".git" / "faber-ledger" / "runs")
    read = project.faber("log", "--json")
    assert [recorded["id"] for recorded in map(json.loads, read.stdout.splitlines())] == had, read.stderr
    assert project.faber("project").returncode == 0
    assert ids(project) == had
    assert not journal.exists()
    assert not Path(f"{journal}.malformed.backup").exists()


def test_without_git_sqlite_rolls_the_journal_back(project: Project) -> None:
    had = ids(project)
    shutil.rmtree(project.root / ".git")
    journal = tear(project)
    assert project.faber("project").returncode == 0
    assert ids(project) == had
    assert not journal.exists()


@pytest.mark.parametrize("verb", [("checkout", "HEAD", "--", "."), ("reset", "--hard"), ("stash",)], ids=str)
@pytest.mark.parametrize("has_mirror", [True, False])
def test_a_journal_beside_a_file_that_git_replaced_is_never_played(
    project: Project, verb: tuple[str, ...], has_mirror: bool
) -> None:
    committed = len(ids(project)) - 1
    had = ids(project)
    journal = tear(project)
    project.git(*verb)
    assert journal.exists()
    if not has_mirror:
        shutil.rmtree(project.root / ".git" / "faber-ledger" / "runs")
    done = project.faber("project")
    assert done.returncode == 0, done.stderr
    assert "the last commit" in done.stderr
    assert ids(project)[:committed] == had[:committed]
    if has_mirror:
        assert ids(project) == had
    assert not journal.exists()
    project.assert_projected()


def test_events_that_were_pulled_over_a_journal_stay(project: Project) -> None:
    project.git("commit", "--all", "-m", "More")
    other = project.clone(project.root.parent / "other", "desktop")
    other.deliver(START, client="two", pid="2")
    other.git("commit", "--all", "-m", "From the desktop")
    tear(project)
    project.git("checkout", "HEAD", "--", ".")
    project.git("pull", "--quiet", str(other.root), "HEAD")
    project.faber("session-save")
    assert set(ids(other)) <= set(ids(project))
    project.assert_projected()


def test_a_pull_that_sets_a_torn_file_aside_and_puts_it_back_loses_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `merge.autoStash`, as `init` sets it, git stashes the torn file and unites it with what it pulled."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    other = project.clone(project.root.parent / "other", "desktop")
    other.deliver(START, client="two", pid="2")
    other.git("commit", "--all", "-m", "From the desktop")
    had = {*ids(project), *ids(other)}
    tear(project)
    project.git("pull", "--quiet", "--no-rebase", str(other.root), "HEAD")
    assert not project.git("ls-files", "--unmerged")
    assert project.faber("project").returncode == 0
    assert set(ids(project)) == had
    project.assert_projected()


def test_a_journal_without_its_file_stops_nothing(project: Project) -> None:
    had = ids(project)
    journal = tear(project)
    project.ledger_path.unlink()
    assert project.faber("project").returncode == 0
    assert ids(project) == had
    assert not journal.exists()


UNFINISHED = """
import os, signal
from faber_ledger.cli.entry import main
replace = os.replace

def die(source, target):
    if str(target).endswith("ledger.db") and not os.path.lexists(f"{target}-journal"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = die
main()
"""


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize("has_mirror", [True, False])
def test_a_recovery_that_is_killed_before_its_last_step_is_finished_by_the_next(
    project: Project, command: tuple[str, ...], has_mirror: bool
) -> None:
    had = ids(project)
    journal = tear(project)
    killed = subprocess.run(
        [sys.executable, "-c", UNFINISHED, "project"], cwd=project.root, env=project.environment(), check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert not journal.exists()  # what is left is torn, and nothing beside it would roll it back
    (recovered,) = (project.root / ".git" / "faber-ledger" / "ledgers").glob("*.recovered")
    if not has_mirror:
        shutil.rmtree(project.root / ".git" / "faber-ledger" / "runs")
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert "an unfinished recovery stood beside" in done.stderr
    assert ids(project)[: len(had)] == had
    assert "torn" not in project.types
    assert not recovered.exists()
    project.faber("project")
    project.assert_projected()


def test_verify_names_a_journal_that_is_not_the_files_own_and_no_damage(project: Project) -> None:
    for number in range(6):  # pages that the journal does not have, and git's older file neither
        project.faber("note", "add", f"{number} " + "long " * 700)
    project.git("commit", "--all", "-m", "Newer")
    tear(project)
    project.git("checkout", "HEAD~1", "--", ".")
    before = files(project.run)
    done = project.faber("verify")
    assert done.returncode == 20
    first, hint = done.stdout.splitlines()[:2]
    assert f"{project.run_id}: journal: the journal beside the file is never played: it claims more" in first
    assert "hint: run `faber-ledger project`" in hint
    assert "damaged" not in done.stdout
    assert files(project.run) == before
    project.faber("project")
    assert project.faber("verify").returncode == 0


def test_nothing_is_changed_if_no_copy_is_readable(project: Project) -> None:
    tear(project)
    project.git("rm", "--quiet", "--cached", "-r", ".fractary")
    project.git("commit", "--quiet", "-m", "Not here")
    shutil.rmtree(project.root / ".git" / "faber-ledger" / "runs")
    for name in ("ledger.db", "ledger.db-journal"):
        path = project.run / name
        path.write_bytes(b"junk" * (path.stat().st_size // 4))
    before = files(project.run)
    done = project.faber("session-save")
    assert done.returncode == 1  # END knows no other code for its command
    assert "cannot be read" in done.stderr
    done = project.faber("project")
    assert done.returncode == 20
    assert "restore ledger.db" in done.stderr
    assert files(project.run) == before


@pytest.mark.parametrize(
    "command", [("log",), ("log", "--json"), ("verify",), ("replay",), ("status",), ("run", "list")], ids=str
)
def test_readers_write_nothing_and_see_every_acknowledged_event(project: Project, command: tuple[str, ...]) -> None:
    whole = project.faber(*command)
    tear(project)
    before = files(project.run)
    done = project.faber(*command)
    assert files(project.run) == before
    assert (done.returncode, done.stdout) == (whole.returncode, whole.stdout)


def test_a_reader_beside_a_writer_at_work_sees_what_is_committed(project: Project) -> None:
    had = ids(project)
    with Log.open(str(project.ledger_path)) as log:
        log.append(
            [
                {
                    "event": {
                        "type": "delivery_ignored",
                        "reason": "repeated",
                        "delivery": {"hook": "x", "digest": "d", "pid": None},
                    }
                }
            ],
            at=1.0,
            writer="w",
        )
        assert Path(f"{project.ledger_path}-journal").exists()
        with Log.read(str(project.ledger_path)) as reader:  # of the file itself: a copy of both could be of two times
            assert [recorded["id"] for recorded in reader.stream()] == had
            assert reader.connection.execute("PRAGMA database_list").fetchone()[2] == str(project.ledger_path)


def test_no_backup_of_a_recovery_is_written_through_a_link(project: Project, tmp_path: Path) -> None:
    """A repository can contain a journal, and a link in its backup's place."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("ledger.db-journal.backup", "ledger.db.backup"):
        (project.run / name).symlink_to(precious)
    (project.run / "ledger.db-journal").write_text("echo PWNED")
    project.deliver("SessionStart.startup.print")
    assert precious.read_text() == "mine"
    assert not (project.run / "ledger.db-journal").exists()


def test_a_journal_that_is_a_link_is_named_and_not_waited_for(project: Project, tmp_path: Path) -> None:
    (project.run / "ledger.db-journal").symlink_to(tmp_path / "elsewhere")
    done = project.faber("session-save")
    assert done.returncode == 1
    assert "ledger.db-journal is not a regular file" in done.stderr
