"""A hook's time and memory: what a repository or a peer brings cannot hold up the client, or lose a delivery."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.program import make_program
from support.project import Answer, Project
from support.sizes import few, pair

from faber_ledger.ledger.file import FORMAT_1, HEADS_FIT, statements
from faber_ledger.ledger.log import LONG, Log

if TYPE_CHECKING:
    from collections.abc import Iterator

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
BEFORE = "PreCompact.auto.print"
# The hook's program, changed before it begins.
CHANGED = """
import os, signal, sys
from faber_ledger.hooks import main as hook
from faber_ledger.cli import entry
def tell_to_end(module, name):
    called = getattr(module, name)
    def call(*values, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        return called(*values, **named)
    setattr(module, name, call)
{change}
entry.main()
"""
# What a delivery adds to a run with an open session of the same clone; a start is another client's.
ADDED = {START: ["session_ended", "session_started"], BEFORE: ["session_ended"], END: ["session_ended"]}


def deliver_changed(project: Project, recorded: str, change: str, code: int = 0, **changes: Any) -> Answer:
    """Deliver a recorded payload to a hook whose program is changed first."""
    program = [sys.executable, "-c", CHANGED.format(change=change), "hook"]
    answer = project.deliver(recorded, program=program, **changes)
    assert answer.code == code, answer.errors
    return answer


def waiting(project: Project) -> list[Path]:
    """Return the deliveries that wait."""
    return sorted((project.root / ".git" / "faber-ledger").rglob("inbox/**/*.json"))


def put_git(project: Project, script: str) -> dict[str, str]:
    """Put a script in the place of git for an artifact's `git log`; return the variables with which it is found."""
    folder = project.root.parent / "bin"
    make_program(folder / "git", f'case " $* " in *" log "*) {script};; esac\nPATH=${{PATH#*:}} exec git "$@"')
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_an_endless_artifact_program_costs_the_hooks_time_at_most(project: Project) -> None:
    """Its artifact, and each after it, is listed as not read, and the start is not lost (W1)."""
    named = {"type": "git_info", "command": "git log -1"}
    project.name_artifacts({"id": "first", **named, "required": True}, {"id": "second", **named})
    change = "from faber_ledger.hooks import hook\nhook.SECONDS_TO_RECORD = 8.0"
    answer = deliver_changed(project, START, change, env=put_git(project, "exec sleep 1000"))
    assert answer.packet is not None
    assert "Error: Not read, since a hook has 10 seconds; `faber-ledger session-load` loads all" in answer.packet
    assert "second (optional): not loaded, git log -1: Not read, since a hook has 10 seconds" in answer.packet
    assert project.faber("project").returncode == 0
    assert project.types == ["run_adopted", "session_started"]
    assert [failed["artifact_id"] for failed in project.of_type("artifact_failed")] == ["first", "second"]
    assert waiting(project) == []


IN_THE_MIDDLE = {
    "the lock is taken": "from faber_ledger.recording import recording\ntell_to_end(recording, 'lock_run')",
    "the log is opened": "from faber_ledger.ledger.log import Log\ntell_to_end(Log, 'open')",
    "the events are added": "from faber_ledger.ledger.log import Log\ntell_to_end(Log, 'append')",
}


@pytest.mark.long
@pytest.mark.parametrize(("moment", "recorded"), pair(IN_THE_MIDDLE, [START, BEFORE, END]))
def test_a_hook_ended_in_the_middle_leaves_its_delivery(project: Project, moment: str, recorded: str) -> None:
    """SIGTERM arrives while it works, not only while it waits for the lock (W1)."""
    project.deliver(START, client="one")
    before = project.types
    deliver_changed(project, recorded, IN_THE_MIDDLE[moment], client="two" if recorded == START else "one", code=-15)
    assert len(waiting(project)) == 1
    assert project.types == before
    assert project.faber("project").returncode == 0
    assert project.types[len(before) :] == ADDED[recorded]
    assert waiting(project) == []
    project.assert_projected()


WAITS = """
from faber_ledger.ledger.log import Log
append = Log.append
def wait_and_append(*values, **named):
    open({pipe!r}).close()
    return append(*values, **named)
Log.append = wait_and_append
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_end_that_waits_for_the_disk_is_recorded_once(project: Project, tmp_path: Path, *, is_killed: bool) -> None:
    """A disk that does not answer makes it wait for longer than the client does (W1)."""
    project.deliver(START)
    before = project.types
    os.mkfifo(tmp_path / "pipe")
    change = WAITS.format(pipe=str(tmp_path / "pipe"))
    change = CHANGED.format(change=f"{change}hook.SECONDS_TO_ANSWER = 60.0")
    with project.started(END, program=[sys.executable, "-c", change, "hook"]) as process:
        assert process.stdin is not None
        process.stdin.write(project.prepared(END)[0])
        process.stdin.close()
        while process.poll() is None and not waiting(project):
            pass  # its file is there from its first act on
        assert process.poll() is None, "it did not wait"
        if is_killed:
            process.kill()
        else:
            (tmp_path / "pipe").write_text("")
        process.wait(timeout=60)
    assert project.types[len(before) :] == ([] if is_killed else ADDED[END])
    assert len(waiting(project)) == int(is_killed)
    assert project.faber("project").returncode == 0
    assert project.types[len(before) :] == ADDED[END]
    assert waiting(project) == []


@pytest.mark.long
@pytest.mark.parametrize("recorded", few([START, END], 1))
def test_standard_input_without_an_end_holds_up_no_hook(project: Project, recorded: str) -> None:
    """The client writes its line and leaves the pipe open (W14)."""
    if recorded == END:
        project.deliver(START)
    change = CHANGED.format(change="hook.SECONDS = 2.0")
    with project.started(recorded, program=[sys.executable, "-c", change, "hook"]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(project.prepared(recorded)[0])
        process.stdin.flush()
        output = process.stdout.read()  # while standard input is open
        assert process.wait(timeout=60) == 0
    assert bool(output) == (recorded == START)
    assert project.types[-1] == ("session_started" if recorded == START else "session_ended")
    assert waiting(project) == []


@pytest.fixture
def held(project: Project) -> Iterator[None]:
    """Let another process hold SQLite's lock on the ledger."""
    project.deliver(START)
    with closing(sqlite3.connect(project.clones_log, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


@pytest.mark.usefixtures("held")
@pytest.mark.long
@pytest.mark.parametrize("recorded", few([END, START], 1))
def test_a_ledger_that_another_program_keeps_locked_holds_up_no_hook(project: Project, recorded: str) -> None:
    """SQLite waits no longer than the hook may; the delivery waits instead (W1)."""
    answer = deliver_changed(project, recorded, "hook.SECONDS = hook.SECONDS_AT_THE_END = 1.0")
    assert "another process is writing" in answer.errors or "a hook has 1 second" in answer.errors
    assert len(waiting(project)) == 1


def test_another_users_lock_keeps_no_hook_beyond_its_time(project: Project) -> None:
    """The wait for the lock has no time of its own (W1, W6)."""
    project.deliver(START)
    with project.lock_path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deliver_changed(project, END, "hook.SECONDS_AT_THE_END = 0.5")
    assert len(waiting(project)) == 1


def steps_of_look_at_heads(count: int) -> int:
    """Return how many hundreds of steps SQLite takes to look at `count` heads that stand beside each other."""
    steps = []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for text in statements(FORMAT_1):
            connection.execute(text)
        heads = [(2, number.to_bytes(32, "big")) for number in range(count)]
        connection.executemany(
            "INSERT INTO event VALUES (?, hex(?2), 'x', 1, 'at', 'w', NULL, NULL, x'', NULL, '{}', NULL, ?2)", heads
        )
        connection.executemany("INSERT INTO head (seq, hash) VALUES (?, ?)", heads)
        connection.set_progress_handler(lambda: steps.append(1), 100)
        assert connection.execute(HEADS_FIT).fetchone() == (1,)
        connection.set_progress_handler(None, 0)
        connection.execute("DELETE FROM head WHERE hash = ?", heads[0][1:])
        connection.execute("INSERT INTO head (seq, hash) VALUES (2, x'ff')")
        assert connection.execute(HEADS_FIT).fetchone() == (0,)
    return len(steps)


def test_very_many_heads_do_not_hold_up_everyone_who_opens_the_ledger() -> None:
    """Twice the heads take twice the steps, not four times as many (H13)."""
    assert steps_of_look_at_heads(8_000) < 2.2 * steps_of_look_at_heads(4_000)


def record_long_notes(project: Project, count: int, letters: int) -> None:
    """Append notes that are longer than any that a command records."""
    with Log.open(str(project.ledger_path)) as log:
        for number in range(count):
            text = f"note {number} \\ " + "ä" * letters
            event: Any = {"type": "note_recorded", "kind": "note", "phase": None, "step": None, "text": text}
            log.append([{"event": event}], at=1_800_000_000.0 + number, writer="5f" * 16)
        log.commit()


def test_few_very_long_notes_are_read_for_a_packet(project: Project) -> None:
    """A hundred notes of 8 MB, which git keeps in kilobytes, are not decoded for each packet (W3)."""
    project.deliver(START)
    record_long_notes(project, 12, LONG)
    with Log.read(str(project.ledger_path)) as log:
        read = [dict(recorded["event"]) for recorded in log.newest_notes()]
    assert [str(event["text"])[:7] for event in read] == ["note 11", "note 10", "note 9 ", "note 8 ", "note 7 "]
    packet = project.deliver(START, client="two").packet
    assert packet is not None
    assert "note 11 \\ ää" in packet
    assert "note 7 \\ ää" in packet
    assert len(packet.encode("utf-16-le")) // 2 <= 9_500


QUICK = """
from faber_ledger.runs import git_command
limit_answers = git_command.limit_answers
git_command.limit_answers = lambda seconds: limit_answers(min(seconds, 0.5))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", few([".fractary/.gitattributes", ".git/info/attributes"], 1))
def test_a_pipe_where_git_looks_for_attributes_holds_up_no_seal(project: Project, name: str) -> None:
    """An archive has a pipe in place of a file that git opens and waits for (W15)."""
    project.git("init", "--quiet")
    project.deliver(START)
    path = project.root / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = project.faber("seal", program=[sys.executable, "-c", CHANGED.format(change=QUICK)])
    assert (done.returncode, "git did not answer in time" in done.stderr) == (1, True), done.stderr


NAMES_WHAT_IT_DECODES = """
from faber_ledger.runs import state_file
parse_state = state_file.parse_state
def parse_and_name(run, content):
    print("decoded", run.run_id, file=sys.stderr)
    return parse_state(run, content)
state_file.parse_state = parse_and_name
"""


def test_large_states_of_other_runs_delay_no_delivery(project: Project) -> None:
    """Which run is active is found out before the hook's time is watched: a peer commits states of many MB (W2)."""
    project.deliver(START)
    state = json.loads((project.run / "state.json").read_text())
    sizes = {"small": 0, "large": 2_000_000}
    for (name, count), file in zip(sizes.items(), (".active-run-id", "runs/.active-run-id"), strict=True):
        text = json.dumps({**state, "run_id": name, "more": [0] * count})
        project.write(f".fractary/runs/{name}/state.json", text)
        project.write(f".fractary/faber/{file}", f"{name}\n")
    answer = deliver_changed(project, END, NAMES_WHAT_IT_DECODES)
    assert "decoded large" not in answer.errors
    assert project.types[-1] == "session_ended"
