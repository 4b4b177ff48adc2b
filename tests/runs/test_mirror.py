"""Events that git removes come back from this clone's mirror, and no state of the mirror stops an append."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.forging import forge
from support.project import RUN, Project, answer_of, usual_state

from faber_ledger.context.notes import note_recorded
from faber_ledger.ledger.errors import NotWritable, Replaced
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ID
from faber_ledger.ledger.union import rows_of
from faber_ledger.postgres.fetch import Fetched
from faber_ledger.recording.insertion import insert_passing
from faber_ledger.recording.recording import Recording
from faber_ledger.runs.progress import snapshot
from faber_ledger.runs.run import find_run
from faber_ledger.runs.run_log import open_log

if TYPE_CHECKING:
    from collections.abc import Callable

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


def ids(path: Path) -> list[str]:
    with Log.read(str(path)) as log:
        return [recorded["id"] for recorded in log.stream()]


def stored_rows(path: Path) -> list[tuple[object, ...]]:
    with Log.read(str(path)) as log:
        return [*rows_of(log)]


def mirror_of(project: Project) -> Path:
    common = Path(project.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    return common / "faber-ledger" / "runs" / project.run_id / "ledger.db"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose run is committed after its first session began, and went on since."""
    project = Project.made(tmp_path / "project")
    project.deliver(START, client="one", pid="1")
    project.faber("init", "--git-only")
    project.git("add", "--all")
    project.git("commit", "-m", "A run")
    project.deliver(END, client="one", pid="1")
    project.deliver(START, client="two", pid="2")
    return project


LOSSES: dict[str, list[list[str]]] = {
    "stash": [["stash"]],
    "reset --hard": [["reset", "--hard"]],
    "checkout of the files": [["checkout", "HEAD", "--", "."]],
    "checkout of another commit": [["checkout", "--force", "HEAD~1"], ["checkout", "main"]],
    "clean -fdx of a ledger that is not tracked": [
        ["rm", "--cached", "-r", ".fractary/runs"],
        ["clean", "-fdx", ".fractary/runs/*/*/ledger.db", ".fractary/runs/*/ledger.db"],
    ],
}
RETURNS: dict[str, Callable[[Project], object]] = {
    "a hook": lambda project: project.deliver(END, client="two", pid="2"),
    "session-save": lambda project: project.faber("session-save"),
    "session-load": lambda project: project.faber("session-load", "--force"),
    "project": lambda project: project.faber("project"),
    "seal": lambda project: project.faber("seal"),
}


@pytest.mark.parametrize(
    ("loss", "back"),
    [
        (loss, back)
        for loss in LOSSES
        for back in RETURNS
        if (loss[:5], back) != ("clean", "seal")  # `seal` has nothing to stage without a ledger file
    ],
)
def test_events_that_git_removed_come_back_with_the_next_command(project: Project, loss: str, back: str) -> None:
    had = ids(project.ledger_path)
    for verb in LOSSES[loss]:
        project.git(*verb)
    assert not project.ledger_path.exists() or len(ids(project.ledger_path)) < len(had)
    RETURNS[back](project)
    assert ids(project.ledger_path)[: len(had)] == had
    assert ids(mirror_of(project)) == ids(project.ledger_path)
    project.assert_projected()


@pytest.fixture
def tree(project: Project) -> Project:
    """A worktree linked to the project's clone, on a branch of its own, in which the run was resumed, too."""
    project.git("worktree", "add", "--quiet", "-b", "side", str(project.root.parent / "tree"))
    tree = Project(project.root.parent / "tree", project.run_id)
    assert tree.faber("run", "resume", project.run_id).returncode == 0
    return tree


def test_linked_worktrees_share_the_mirror_of_a_run(project: Project, tree: Project) -> None:
    tree.deliver(START, client="three", pid="3")
    project.deliver(END, client="two", pid="2")
    assert set(ids(tree.ledger_path)) < set(ids(project.ledger_path))
    tree.faber("project")
    assert ids(tree.ledger_path) == ids(project.ledger_path) == ids(mirror_of(project))
    for one in (project, tree):
        one.assert_projected()


def test_linked_worktrees_keep_different_runs_apart(project: Project, tree: Project) -> None:
    other = Project(tree.root, "another-258")
    other.run.mkdir()
    other.put_state(usual_state("another-258"))
    assert other.faber("run", "resume", "another-258", "--yes").returncode == 0
    before = ids(project.ledger_path)
    other.deliver(START, client="three", pid="3")
    project.faber("project")
    assert ids(project.ledger_path) == before
    assert not set(ids(other.ledger_path)) & set(before)
    assert mirror_of(other).parent.parent == mirror_of(project).parent.parent


def test_worktrees_that_write_one_run_at_once_lose_nothing(project: Project, tree: Project) -> None:
    started = []
    for number in range(6):
        one = (project, tree)[number % 2]
        changes = {"client": f"client-{number}", "pid": str(100 + number)}
        started.append((one.started(START, **changes), one.prepared(START, **changes)[0]))
    assert {answer_of(process, content).code for process, content in started} == {0}
    for one in (project, tree, project):
        assert one.faber("project").returncode == 0
    assert ids(project.ledger_path) == ids(tree.ledger_path)
    starts = [recorded["client"] for recorded in project.events if recorded["event"]["type"] == "session_started"]
    assert sorted(str(client) for client in starts)[:6] == [f"client-{number}" for number in range(6)]
    project.assert_projected()
    tree.assert_projected()


def test_without_git_there_is_no_mirror(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    shutil.rmtree(project.root / ".git")
    project.deliver(START)
    project.deliver(END)
    assert [recorded["seq"] for recorded in project.events] == list(range(1, len(project.events) + 1))
    assert not (project.root / ".git").exists()
    assert project.log_lines == []
    project.assert_projected()


def another_programs(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_file_for_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_forged_event(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO event SELECT 99, 'x', type, version, at, writer, 5, client, parents, salt,"
            " payload, payload_hash, hash FROM event LIMIT 1"
        )
        connection.execute("DELETE FROM head")


@pytest.mark.parametrize(
    "spoil",
    [
        another_programs,
        cut,
        a_folder,
        a_link,
        a_forged_event,
        lambda path: path.write_bytes(b"junk" * 2000),
    ],
)
def test_a_damaged_mirror_is_moved_aside_and_made_again(project: Project, spoil: Callable[[Path], None]) -> None:
    mirror = mirror_of(project)
    spoil(mirror)
    count = len(project.events)
    answer = project.deliver(END, client="two", pid="2")
    assert answer.code == 0
    assert "was damaged and is made again" in answer.errors
    assert len(project.events) == count + 2  # the end, and what was checked out
    assert os.path.lexists(f"{mirror}.backup")
    with Log.read(str(mirror)) as log:
        assert list(log.stream()) == project.events
    project.assert_projected()


def a_broken_leaf(path: Path) -> None:
    """Change one byte of a page of events; the heads, which a hook compares, can still be read."""
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()
    content = bytearray(path.read_bytes())
    at = (page - 1) * 4096
    while content[at] == 2:  # an inner page of an index
        cell = at + int.from_bytes(content[at + 12 : at + 14], "big")
        at = (int.from_bytes(content[cell : cell + 4], "big") - 1) * 4096
    assert content[at] == 10  # its leaf
    content[at] = 99
    path.write_bytes(content)


@pytest.mark.parametrize("words", [["project"], ["seal"], ["redact", "EVENT", "--yes"]], ids=lambda words: words[0])
def test_a_mirror_with_a_damaged_page_stops_no_command(project: Project, words: list[str]) -> None:
    assert project.faber("note", "add", "a secret" * 1000).returncode == 0
    assert project.faber("note", "add", "more").returncode == 0
    mirror, had = mirror_of(project), [one["id"] for one in project.events]
    name = next(one["id"] for one in project.events if one["event"]["type"] == "note_recorded")
    a_broken_leaf(mirror)
    done = project.faber(*[name if word == "EVENT" else word for word in words])
    assert done.returncode == 0, done.stderr
    assert "was damaged and is made again" in done.stderr
    assert os.path.lexists(f"{mirror}.backup") == (words[0] != "redact")  # which removes older copies
    assert [one["id"] for one in project.events][: len(had)] == had
    with Log.read(str(mirror)) as log:
        assert list(log.stream()) == project.events
    project.assert_projected()


def test_a_mirror_with_sound_events_is_rewritten_and_keeps_those_that_only_it_has(project: Project) -> None:
    had = project.events
    project.git("checkout", "HEAD", "--", str(project.ledger_path))
    with sqlite3.connect(mirror_of(project)) as connection:
        connection.execute("DELETE FROM head")
    answer = project.deliver(END, client="two", pid="2")
    assert "is not used" not in answer.errors
    assert {one["id"] for one in had} <= {one["id"] for one in project.events}


def test_an_unusable_mirror_is_reported_and_stops_nothing(project: Project) -> None:
    a_file_for_its_folder(mirror_of(project))
    count = len(project.events)
    answer = project.deliver(END, client="two", pid="2")
    assert answer.code == 0
    assert "the mirror of this run under the git directory is not used" in answer.errors
    assert len(project.events) == count + 2  # the end, and what was checked out
    project.assert_projected()


def test_a_mirror_that_a_stopped_process_holds_costs_half_a_second_at_most(project: Project) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            " c.execute('BEGIN EXCLUSIVE'); print(flush=True); input()",
            str(mirror_of(project)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    count = len(project.events)
    warnings = project.deliver(END, client="two", pid="2").errors
    assert "is not used" in warnings
    assert "ledger.db alone has the newest events: commit it before git takes the file back" in warnings
    assert len(project.events) == count + 2  # the end, and what was checked out
    holder.communicate(b"\n")
    with open_log(find_run(str(project.root), RUN), pytest.fail) as opened:
        assert opened.mirror.log is not None
        assert opened.mirror.log.connection.execute("PRAGMA busy_timeout").fetchone() == (500,)
        opened.commit()
    assert ids(mirror_of(project)) == ids(project.ledger_path)  # and what it missed it has again


def test_a_fresh_clones_first_append_gives_it_the_whole_run(project: Project) -> None:
    project.git("commit", "--all", "-m", "More")
    clone = project.clone(project.root.parent / "clone", "desktop")
    assert not mirror_of(clone).exists()
    clone.deliver(START, client="three", pid="3")
    assert ids(mirror_of(clone)) == ids(clone.ledger_path)
    assert set(ids(project.ledger_path)) < set(ids(clone.ledger_path))


def test_a_run_deleted_and_made_again_has_its_events_unless_they_are_forgotten(project: Project) -> None:
    had = ids(project.ledger_path)
    state = project.state_path.read_bytes()

    def make_again() -> None:
        shutil.rmtree(project.run)
        project.run.mkdir()
        project.put_state(state)

    make_again()
    project.deliver(END, client="two", pid="2")
    assert ids(project.ledger_path)[: len(had)] == had
    shutil.rmtree(project.run)
    done = project.faber("run", "forget", project.run_id, "--yes")
    assert done.returncode == 0, done.stderr
    project.git("commit", "--quiet", "--all", "--message", "Forget it")  # else the last commit still has its ledger
    project.run.mkdir()
    project.put_state(state)
    project.deliver(START, client="nine", pid="9")
    assert not set(ids(project.ledger_path)) & set(had)


def test_a_ledger_that_git_replaces_during_an_append_is_opened_again(project: Project) -> None:
    """SQLite refuses to write a file that was replaced; the events go to the new file."""
    project.deliver("SessionStart.startup.print")
    before = project.ledger_path.read_bytes()
    run = find_run(str(project.root), project.run_id)
    with Recording(run, at=1_800_000_000.0, writer="w", warn=lambda warnings: None) as recording:
        project.ledger_path.unlink()  # as git does: another file of the same name
        project.ledger_path.write_bytes(before)
        recording.append([{"event": note_recorded("kept", "note", None, snapshot(recording.state))}])
    assert project.of_type("note_recorded")[0]["text"] == "kept"
    project.assert_projected()


def test_a_ledger_that_is_replaced_while_open_is_an_error(project: Project) -> None:
    project.deliver("SessionStart.startup.print")
    before = project.ledger_path.read_bytes()
    log = Log.open(str(project.ledger_path))
    project.ledger_path.unlink()
    project.ledger_path.write_bytes(before)
    with log, pytest.raises(Replaced, match="was replaced while it was open"), log.writing():
        log.append([{"event": note_recorded("x", "note", None, snapshot({}))}], at=1.0, writer="w")


def test_an_append_to_a_damaged_ledger_reaches_the_mirror(project: Project) -> None:
    """An event of a wrong type is refused: the file is left as it is, and the mirror gets the new event."""
    git_took = project.ledger_path.read_bytes()
    project.deliver(START, client="lost", pid="9")
    intact = ids(project.ledger_path)
    project.ledger_path.write_bytes(git_took)
    forge(project.ledger_path, "UPDATE event SET payload = CAST(payload AS BLOB) WHERE seq = 1")
    damaged = project.ledger_path.read_bytes()
    done = project.faber("note", "add", "seen")
    assert (done.returncode, "faber-ledger quarantine" in done.stderr) == (0, True), done.stderr
    assert project.ledger_path.read_bytes() == damaged
    assert '"text": "seen"' in project.faber("log", "--json").stdout
    assert set(ids(mirror_of(project))) > set(intact)
    assert project.faber("quarantine", "--yes").returncode == 0
    assert project.of_type("note_recorded")[0]["text"] == "seen"
    project.assert_projected()


def test_a_delivery_to_a_ledger_with_a_foreign_trigger_reaches_the_mirror(project: Project) -> None:
    mine = project.ledger_path.read_bytes()
    with sqlite3.connect(project.ledger_path) as connection:
        connection.execute("CREATE TRIGGER forge AFTER INSERT ON event BEGIN SELECT 1; END")
    connection.close()
    forged = project.ledger_path.read_bytes()
    assert "faber-ledger quarantine" in project.deliver(START, client="waits", pid="9").errors
    assert project.ledger_path.read_bytes() == forged
    project.ledger_path.write_bytes(mine)
    assert project.faber("note", "add", "one").returncode == 0
    assert "waits" in {recorded["client"] for recorded in project.events}


def test_a_mirror_that_refuses_once_is_tried_again_in_the_same_append(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_newer = Log.copy_newer

    def refuses(mirror: Log, _: Log) -> None:
        monkeypatch.setattr(Log, "copy_newer", copy_newer)
        mirror.connection.execute("ROLLBACK")  # as SQLite does on its own
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Log, "copy_newer", refuses)
    warnings: list[str] = []
    with open_log(find_run(str(project.root), RUN), warnings.append) as opened:
        opened.log.append([{"event": {"type": "session_ended", "session_id": "s"}}], at=1.0, writer="w")  # type: ignore[typeddict-item]  # an event with other fields
        opened.commit()
    assert warnings == ["the mirror of this run under the git directory is not used: disk I/O error"]
    assert ids(mirror_of(project)) == ids(project.ledger_path)


def test_a_mirror_that_was_locked_is_tried_again_in_the_same_append(project: Project) -> None:
    holder = sqlite3.connect(mirror_of(project), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    warnings: list[str] = []
    with open_log(find_run(str(project.root), RUN), warnings.append) as opened:
        holder.close()
        opened.log.append([{"event": {"type": "session_ended", "session_id": "s"}}], at=1.0, writer="w")  # type: ignore[typeddict-item]  # an event with other fields
        opened.commit()
    assert len(warnings) == 1
    assert ids(mirror_of(project)) == ids(project.ledger_path)


@pytest.mark.parametrize("append", [True, False])
def test_a_redaction_that_arrives_while_the_mirror_is_locked_is_applied_later(project: Project, append: bool) -> None:
    secret = "hunter-2"
    assert project.faber("note", "add", secret).returncode == 0
    shutil.copytree(project.root, project.root.parent / "other")
    other = Project(project.root.parent / "other", project.run_id)
    assert other.faber("redact", project.events[-1]["id"], "--yes").returncode == 0
    assert secret.encode() in mirror_of(project).read_bytes()
    shutil.copy(other.ledger_path, project.ledger_path)  # as a pull does
    holder = sqlite3.connect(mirror_of(project), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    warnings: list[str] = []
    with open_log(find_run(str(project.root), RUN), warnings.append) as opened:
        holder.close()
        if append:
            opened.log.append([{"event": note_recorded("x", "note", None, snapshot({}))}], at=1.0, writer="w")
        opened.commit()
    assert "alone has the newest events" in warnings[-1]
    assert project.faber("note", "add", "one").returncode == 0
    assert secret.encode() not in mirror_of(project).read_bytes()
    assert ids(mirror_of(project)) == ids(project.ledger_path)


def test_a_mirror_that_is_refused_for_a_link_is_not_written_through_it(project: Project, tmp_path: Path) -> None:
    folder = mirror_of(project).parent
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    before = (elsewhere / "ledger.db").read_bytes()
    assert "is not used" in project.deliver(END, client="two", pid="2").errors
    assert (elsewhere / "ledger.db").read_bytes() == before


def test_a_transaction_that_sqlite_rolled_back_is_an_error_and_nothing_is_appended_without_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.git("reset", "--hard")
    before = project.ledger_path.read_bytes()

    def refuses(log: Log, _: object) -> None:
        if log.path == str(project.ledger_path):
            log.connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("faber_ledger.ledger.union.insert_rows", refuses)
    with pytest.raises(NotWritable, match="disk is full"):
        open_log(find_run(str(project.root), RUN), pytest.fail)
    assert project.ledger_path.read_bytes() == before


def test_events_that_arrive_with_a_redaction_of_one_of_them_are_in_the_mirror_too(
    project: Project, tmp_path: Path
) -> None:
    assert project.faber("note", "add", "the word is hunter-2").returncode == 0
    rows = stored_rows(project.ledger_path)
    assert project.faber("redact", project.events[-1]["id"], "--yes").returncode == 0
    offered = Fetched()
    offered.add([*enumerate([*rows, stored_rows(project.ledger_path)[-1]], 1)])
    fresh = Project.made(tmp_path / "fresh")
    with closing(offered):
        insert_passing(find_run(str(fresh.root), RUN), offered.log, offered.first_ids, pytest.fail)
    assert ids(mirror_of(fresh)) == ids(fresh.ledger_path) == [row[ID] for row in rows] + [project.events[-1]["id"]]
