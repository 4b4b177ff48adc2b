"""SQLite plays only the journal that a writer of this clone left, and nobody is shown a recovery that it did not make.

That a journal names another file, claims pages, is tracked or is another user's is in `runs/test_journals.py`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from support.journals import PAGE, journal, pages_of, texts
from support.project import RUN, Project

from faber_ledger.ledger import WRITING_ENDING
from faber_ledger.runs.ledger_notes import ledger_stem

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
JOURNAL, RECOVERED = f".fractary/runs/{RUN}/ledger.db-journal", f".fractary/runs/{RUN}/ledger.db.recovered"
NEWEST = "the newest note"
KEY = sha256(f".fractary/runs/{RUN}/ledger.db".encode()).hexdigest()[:32]  # by which a clone names a ledger's notes


@pytest.fixture
def origin(tmp_path: Path) -> Project:
    """A repository whose ledger has a newer note than `older`."""
    project = Project.noted(tmp_path / "origin")
    shutil.copy(project.ledger_path, tmp_path / "older.db")
    assert project.faber("note", "add", NEWEST).returncode == 0
    project.git("commit", "--quiet", "--all", "-m", "More")
    return project


@pytest.fixture
def rollback(origin: Project) -> bytes:
    """A flawless journal that takes the newest note back."""
    older = (origin.root.parent / "older.db").read_bytes()
    return journal(len(older) // PAGE, content=older)


def pull_and_reset(origin: Project, name: str, content: bytes) -> Project:
    """Pull a commit with a file, and take the commit back: git leaves the file, and no longer tracks it."""
    victim = origin.clone(origin.root.parent / "victim", "desktop")
    victim.deliver(START, client="mine")
    origin.write(name, content)
    origin.git("add", "--force", name)
    origin.git("commit", "--quiet", "-m", "Bring it along")
    victim.git("-c", "core.editor=true", "pull", "--quiet", "--no-rebase", "--autostash", "-X", "ours")
    victim.git("reset", "--quiet", "ORIG_HEAD" if victim.git("rev-list", "--merges", "HEAD") else "HEAD~1")
    assert (victim.root / name).exists()
    assert not victim.git("ls-files", "--", name)
    return victim


@pytest.mark.parametrize("words", [("log",), ("project",), ("note", "add", "one more"), ("seal",)], ids=" ".join)
def test_a_journal_that_git_no_longer_tracks_takes_no_event_back(
    origin: Project, rollback: bytes, words: tuple[str, ...]
) -> None:
    """A commit brings a journal; `git reset` leaves it in the work tree, untracked (H1)."""
    victim = pull_and_reset(origin, JOURNAL, rollback)
    done = victim.faber(*words)
    assert done.returncode == 0, done.stderr
    assert NEWEST in texts(victim)
    if words != ("log",):
        assert "ledger.db-journal was not left by a writer of this clone: it is never played" in done.stderr
        assert (victim.root / f"{JOURNAL}.malformed.backup").read_bytes() == rollback
        assert not (victim.root / JOURNAL).exists()


@pytest.mark.parametrize("name", ["log", "hook", "note"])
def test_an_archive_without_git_takes_no_event_back(origin: Project, rollback: bytes, name: str) -> None:
    """An archive has a flawless journal; the user may even make it a repository afterwards (H1)."""
    shutil.rmtree(origin.root / ".git")
    origin.write(JOURNAL, rollback)
    if name != "note":
        origin.git("init", "--quiet")
    if name == "hook":
        assert origin.deliver(START, client="two", pid="2").packet is not None
    elif name == "note":
        assert origin.faber("note", "add", "one more").returncode == 0
    assert NEWEST in texts(origin)
    assert (origin.root / JOURNAL).exists() == (name == "log")


def test_a_note_that_a_commit_brings_vouches_for_no_journal(origin: Project, rollback: bytes) -> None:
    """A commit has a note of a writer at work, under the name of the victim's, at any place that it can have (H1)."""
    theirs = str(origin.root.parent / "victim" / ".fractary" / "runs" / RUN / "ledger.db")
    for place in ("faber-ledger", ".fractary/faber-ledger", f".fractary/runs/{RUN}"):
        for key in ("ledger.db", KEY, sha256(theirs.encode()).hexdigest()[:32]):
            origin.write(f"{place}/ledgers/{key}.writing", "")
            origin.write(f"{place}/{key}.writing", "")
    origin.git("add", "--force", ".")
    origin.git("commit", "--quiet", "-m", "Notes")
    victim = pull_and_reset(origin, JOURNAL, rollback)
    assert NEWEST in texts(victim)


def test_a_writer_leaves_no_note_behind(origin: Project) -> None:
    """After a writer has ended, none of its notes vouches for a journal that comes later (H1)."""
    folder = origin.root / ".git" / "faber-ledger" / "ledgers"
    origin.deliver(START, client="two", pid="2")
    assert origin.faber("note", "add", "another").returncode == 0
    assert origin.faber("project").returncode == 0
    assert list(folder.glob(f"*{WRITING_ENDING}")) == []


KILLED = """
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


@pytest.mark.parametrize("has_git", [True, False])
def test_a_killed_writer_is_rolled_back_all_the_same(origin: Project, has_git: bool) -> None:
    """The journal of this clone's own writer is played, in its own project alone (H1)."""
    if not has_git:
        shutil.rmtree(origin.root / ".git")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, "session-load", "--force"],
        cwd=origin.root,
        env=origin.environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    copied = Project(origin.root.parent / "copied", RUN)
    shutil.copytree(origin.root, copied.root, ignore=shutil.ignore_patterns(".git"))
    assert (copied.root / JOURNAL).stat().st_size > 512
    before = (origin.root / JOURNAL).read_bytes()
    assert NEWEST in texts(origin)
    assert (origin.root / JOURNAL).read_bytes() == before
    assert origin.faber("project").returncode == 0
    assert NEWEST in texts(origin)
    assert not (origin.root / JOURNAL).exists()
    assert not (origin.root / f"{JOURNAL}.malformed.backup").exists()
    copied.faber("project")
    assert (copied.root / f"{JOURNAL}.malformed.backup").read_bytes() == before


@pytest.mark.parametrize("hook", [START, END])
def test_a_recovery_that_git_no_longer_tracks_is_not_shown(origin: Project, hook: str) -> None:
    """A commit brings `ledger.db.recovered`; `git reset` leaves it untracked: it is neither shown nor united (H4)."""
    other = Project.noted(origin.root.parent / "other")
    victim = pull_and_reset(origin, RECOVERED, other.ledger_path.read_bytes())
    before = texts(victim)
    assert NEWEST in before
    victim.deliver(hook, client="mine")
    assert not [line for line in victim.log_lines if "not recorded" in line]
    assert texts(victim).startswith(before)
    assert (victim.root / f"{RECOVERED}.backup").exists()
    assert not (victim.root / RECOVERED).exists()


def test_a_super_journal_beside_a_ledger_of_a_used_clone_is_not_played(origin: Project, tmp_path: Path) -> None:
    """A journal names a file of the user's, which SQLite deletes; the note of a killed writer does not help it (H1)."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    stem = ledger_stem(str(origin.ledger_path))
    assert stem is not None
    assert stem.endswith(KEY)
    content = journal(pages_of(origin.ledger_path), names=str(precious))
    Path(stem + WRITING_ENDING).touch()
    origin.write(JOURNAL, content)
    origin.deliver(START, client="two", pid="2")
    assert precious.read_text() == "mine"
    assert (origin.root / f"{JOURNAL}.malformed.backup").read_bytes() == content
