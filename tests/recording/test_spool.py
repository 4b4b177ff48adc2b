"""Deliveries that were refused: they wait, durably and in order, and the next append records each once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from faults.calls import break_call
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.command import COMMAND
from support.project import Project, heed_interrupts, payload_of, without_overrides

from faber_ledger.files import folders
from faber_ledger.files.folders import TrackedFolder
from faber_ledger.hooks import hook as hooks
from faber_ledger.hooks.hook import Hook
from faber_ledger.hooks.watch import Watch
from faber_ledger.recording import incoming, recording, spool
from faber_ledger.recording.call import Call
from faber_ledger.recording.spooled import VARIABLES
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import make_kept_folder, spool_path
from faber_ledger.runs.run import Run, find_run

START, PRE, POST, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


def waiting(project: Project) -> list[Path]:
    return [Path(path) for path in spool.waiting(find_run(str(project.root), project.run_id))]


def refuse(project: Project) -> None:
    """Put a folder in the lock's place, which no program can lock."""
    project.lock_path.unlink(missing_ok=True)
    project.lock_path.mkdir()


def relent(project: Project) -> None:
    project.lock_path.rmdir()


def spooled(project: Project, *recorded: str, **changes: Any) -> list[Path]:
    """Deliver to a run whose ledger cannot be written; return the waiting files."""
    refuse(project)
    for name in recorded:
        answer = project.deliver(name, **changes)
        assert answer.code == 0
        assert bool(answer.packet) == name.startswith("SessionStart")
    relent(project)
    return waiting(project)


def test_what_is_delivered_while_the_lock_is_held_is_recorded_by_the_next_hook(project: Project) -> None:
    with project.lock_path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert project.deliver(START, client="one").packet
        assert len(waiting(project)) == 1
        assert "another process has held" in project.log_lines[0]
        assert str(waiting(project)[0]) in project.log_lines[0]
    project.deliver(END, client="one")
    assert waiting(project) == []
    assert project.types == ["run_adopted", "session_started", "session_ended"]
    project.assert_projected()


def test_a_refused_day_is_the_same_day_once_it_is_recorded(project: Project, tmp_path: Path) -> None:
    other = Project.made(tmp_path / "other")
    day = [START, PRE, "SessionStart.compact.print", POST, END]
    for name in day:
        other.deliver(name, client="one", pid="11")
    assert len(spooled(project, *day, client="one", pid="11")) == 5
    for one in (project, other):
        assert one.faber("note", "add", "one").returncode == 0
    assert waiting(project) == []
    assert project.types == other.types
    assert [entry["artifacts_loaded"] for entry in project.history] == [
        entry["artifacts_loaded"] for entry in other.history
    ]
    assert [entry.get("end_reason") for entry in project.history] == [
        entry.get("end_reason") for entry in other.history
    ]
    assert [event.get("summary") for event in project.of_type("compaction_completed")] == [
        event.get("summary") for event in other.of_type("compaction_completed")
    ]
    project.assert_projected()


def test_a_spooled_delivery_keeps_the_time_it_arrived(project: Project) -> None:
    (path,) = spooled(project, START)
    values = json.loads(path.read_text())
    values["at"] = 1_700_000_000.5
    path.write_text(json.dumps(values))
    project.deliver(END)
    assert project.history[0]["started_at"] == "2023-11-14T22:13:20Z"
    assert project.events[1]["id"] == values["id"]
    project.assert_projected()


def test_a_delivery_that_is_in_the_log_already_is_not_recorded_again(project: Project) -> None:
    (path,) = spooled(project, START)
    content = path.read_bytes()
    assert project.faber("note", "add", "one").returncode == 0
    before = project.types
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)  # as a hook leaves it that was killed between the commit and the unlink
    assert project.faber("note", "add", "two").returncode == 0
    assert project.types == [*before, "note_recorded"]
    assert waiting(project) == []


KILLED = """
import os, signal, sys
from faber_ledger.cli.entry import main
from faber_ledger.recording import spool

def die(path):
    os.kill(os.getpid(), signal.SIGKILL)

spool.remove = die
main()
"""


def test_a_hook_that_is_killed_while_it_drains_the_spool_doubles_nothing(project: Project) -> None:
    spooled(project, START, PRE, "SessionStart.compact.print", client="one")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, "note", "add", "one"],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(waiting(project)) == 3
    assert project.faber("note", "add", "two").returncode == 0
    assert waiting(project) == []
    assert project.types == [
        "run_adopted",
        "session_started",
        "session_ended",
        "session_started",
        "note_recorded",
    ]
    project.assert_projected()


def test_a_file_that_is_not_a_delivery_is_moved_aside_and_holds_up_nothing(project: Project) -> None:
    first, _ = spooled(project, START, END)
    bad = {
        "00000000000000000-empty.json": b"",
        "00000000000000001-text.json": b"not json",
        "00000000000000002-list.json": b"[]",
        "00000000000000003-loads.json": json.dumps({**json.loads(first.read_text()), "loads": [{}]}).encode(),
        "00000000000000004-time.json": json.dumps({**json.loads(first.read_text()), "at": 1e300}).encode(),
        "00000000000000005-run.json": json.dumps({**json.loads(first.read_text()), "run_id": "other"}).encode(),
        "00000000000000006-many.json": b"[" + b"{}," * 100_000 + b"{}]",
    }
    for name, content in bad.items():
        (first.parent / name).write_bytes(content)
    done = project.faber("note", "add", "one")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("could not be recorded, and was moved to") == len(bad)
    assert "it is large because of something other than its texts" in done.stderr
    assert waiting(project) == []
    kept = [Path(path) for path in spool.moved_aside(find_run(str(project.root), project.run_id))]
    assert [path.read_bytes() for path in kept] == list(bad.values())
    assert project.types == ["run_adopted", "session_started", "session_ended", "note_recorded"]
    project.assert_projected()


def test_links_and_folders_in_a_repositorys_spool_are_moved_aside(project: Project, tmp_path: Path) -> None:
    shutil.rmtree(project.root / ".git")
    folder = Path(spool_path(Run(str(project.root), project.run_id, str(project.run))))
    folder.mkdir(parents=True)
    (tmp_path / "theirs").write_text("theirs")
    (folder / "00000000000000000-link.json").symlink_to(tmp_path / "theirs")
    (folder / "00000000000000001-folder.json").mkdir()
    (folder / "00000000000000001-folder.malformed").write_text("in the way")
    os.mkfifo(folder / "00000000000000002-pipe.json")
    output = project.deliver(START).errors
    assert output.count("could not be recorded, and was moved to") == 3
    assert output.count("it is not a regular file") == 3
    assert waiting(project) == []
    assert len(list(folder.iterdir())) == 4
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert project.deliver(END).errors == ""
    project.assert_projected()


def test_files_that_were_moved_aside_do_not_count_as_deliveries(project: Project) -> None:
    (path,) = spooled(project, START)
    for number in range(spool.MAX_FILES):
        (path.parent / f"{number}.malformed").touch()
    refuse(project)
    assert "it waits in" in project.deliver(END).errors
    relent(project)
    assert len(waiting(project)) == 2


FORGED: dict[str, dict[str, Any]] = {
    "another variable": {"environ": {"PATH": "."}},
    "a variable that is no text": {"environ": {"CLAUDE_PID": 7}},
    "an environment": {"environment": {"hostname": 7, "platform": None, "cwd": None, "git_commit": None}},
    "progress": {"progress": {"phase": "build", "step": None, "phases_completed": [{}]}},
    "a status": {"status": 7},
    "a writer": {"writer": "me"},
    "a digest": {"digest": "0" * 63},
    "no digest, from a version that always had one": {"spool": 1, "digest": ""},
    "no session": {"session_id": ""},
    "one member more": {"more": 1},
    "a load of no client": {"loads": [{"event": {"type": "artifact_loaded"}, "client": None}]},
    "a load that is another fact": {
        "loads": [
            {"event": {"type": "note_recorded", "kind": "note", "text": "x", "phase": None, "step": None}, "client": ""}
        ]
    },
}


@pytest.mark.parametrize("what", FORGED)
def test_a_repository_that_brings_a_spool_brings_no_facts(project: Project, what: str) -> None:
    shutil.rmtree(project.root / ".git")
    (path,) = spooled(project, START)
    path.write_text(json.dumps({**json.loads(path.read_text()), **FORGED[what]}))
    answer = project.deliver(END)
    assert answer.code == 0
    assert "could not be recorded, and was moved to" in answer.errors
    assert project.types == ["run_adopted"]
    assert project.deliver(START).errors == ""
    project.assert_projected()


def test_a_repositorys_spool_redacts_nothing_and_does_no_more_than_a_hook(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    assert project.faber("note", "add", "keep this").returncode == 0
    (path,) = spooled_with_ledger(project, START)
    values = json.loads(path.read_text())
    redacted: dict[str, Any] = {
        "type": "event_redacted",
        "event_id": project.events[1]["id"],
        "fields": [],
        "remains": {},
    }
    redacted |= {"supersedes": [], "reason": None}
    for load in ({"event": redacted, "client": None}, {"id": values["id"], **values["loads"][0]}):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**values, "loads": [load]}))
        assert "was moved to" in project.deliver(END).errors
    assert project.of_type("note_recorded")[0]["text"] == "keep this"
    assert project.of_type("event_redacted") == []
    project.assert_projected()


def test_a_spool_that_is_a_link_moves_no_files(project: Project, tmp_path: Path) -> None:
    shutil.rmtree(project.root / ".git")
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "theirs.json").write_text("{}")
    (settings / "old.tmp").write_text("")
    os.utime(settings / "old.tmp", (0, 0))
    (project.run / "spool").symlink_to(settings)
    assert project.deliver(START).packet
    assert sorted(path.name for path in settings.iterdir()) == ["old.tmp", "theirs.json"]
    project.assert_projected()


def test_a_spool_of_very_many_files_is_recorded_in_several_transactions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(project.root / ".git")
    run = Run(str(project.root), project.run_id, str(project.run))
    folder = Path(spool_path(run))
    make_kept_folder(run, str(folder))
    for number in range(5):
        (folder / f"{number}.json").touch()
    monkeypatch.setattr(spool, "MAX_FILES", 3)
    for left in (2, 0):
        deliver(project, monkeypatch, "SessionStart", at=1_800_000_000.0 + left)
        assert len(waiting(project)) == left
    project.assert_projected()


def test_a_waiting_delivery_is_readable_by_its_owner_only_and_outside_the_work_tree(project: Project) -> None:
    (path,) = spooled(project, START)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.is_relative_to(project.root / ".git" / "faber-ledger" / "spool")
    assert json.loads(json.loads(path.read_text())["delivery"])["source"] == "startup"


def test_without_git_a_delivery_waits_in_the_users_folder_for_state(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.rmtree(project.root / ".git")
    (path,) = spooled(project, START)
    key = hashlib.sha256(bytes(project.root.resolve())).hexdigest()
    state = tmp_path / "state" / "faber-ledger"
    assert path.parent == state / key / "spool" / project.run_id
    assert {one.stat().st_mode & 0o777 for one in (state, *path.parents[:3])} == {0o700}
    assert not (project.run / "spool").exists()
    project.deliver(END)
    assert not path.parent.exists()
    assert project.types == ["run_adopted", "session_started", "session_ended"]


def test_a_long_delivery_is_spooled_with_the_fields_we_use(project: Project) -> None:
    project.deliver(START, client=payload_of(POST)["stdin"]["session_id"])
    text = "x " * 5_000_000
    fields = {"compact_summary": f"<summary>what it came to</summary>{text}", "more": text}
    (path,) = spooled_with_ledger(project, POST, fields=fields)
    assert path.stat().st_size < 10_000
    project.deliver(END)
    assert project.of_type("compaction_completed")[0]["summary"] == "what it came to"


def spooled_with_ledger(project: Project, recorded: str, **changes: Any) -> list[Path]:
    """Like `spooled`, for a run that has a ledger."""
    aside = project.ledger_path.rename(project.run / "aside")
    refuse(project)
    assert project.deliver(recorded, **changes).code == 0
    relent(project)
    aside.rename(project.ledger_path)
    return waiting(project)


def test_a_full_spool_refuses_deliveries_and_the_hook_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = spooled(project, START)
    for number in range(spool.MAX_FILES):
        (path.parent / f"{number}.json").touch()
    refuse(project)
    answer = project.deliver(END)
    assert answer.code == 0
    assert "it cannot be spooled" in answer.errors
    assert len(list(path.parent.iterdir())) == spool.MAX_FILES + 1


def test_if_even_the_spool_refuses_the_hook_says_so(project: Project) -> None:
    (project.root / ".git" / "faber-ledger").mkdir()
    (project.root / ".git" / "faber-ledger" / "spool").write_text("a file in the folder's place")
    refuse(project)
    answer = project.deliver(START)
    assert answer.packet
    assert "it cannot be spooled" in answer.errors


def test_a_clock_that_goes_back_does_not_change_the_order(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(project)
    deliver(project, monkeypatch, "SessionStart", at=1_800_000_000.0)
    deliver(project, monkeypatch, "SessionEnd", at=1_799_913_600.0)
    relent(project)
    assert project.faber("note", "add", "one").returncode == 0
    assert project.types == ["run_adopted", "session_started", "session_ended", "note_recorded"]
    project.assert_projected()


def deliver(project: Project, monkeypatch: pytest.MonkeyPatch, hook: str, *, at: float) -> str | None:
    """Answer a hook call in this process."""
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "GIT_"))]:
        monkeypatch.delenv(name)
    content = json.dumps({"session_id": "one", "hook_event_name": hook, "source": "startup"}).encode()
    run = find_run(str(project.root), project.run_id)
    answer = Hook(
        Call(hook, content, {}), run, active_run(run.root), at, lambda output: None, TrackedFolder(run.root), Watch()
    ).answer()
    return answer.context if answer is not None else None


@pytest.mark.parametrize("hook", ["SessionStart", "SessionEnd"])
@pytest.mark.parametrize("taken_by_another", [False, True])
def test_on_a_network_the_delivery_is_spooled_before_the_lock_is_asked_for(
    project: Project, monkeypatch: pytest.MonkeyPatch, taken_by_another: bool, hook: str
) -> None:
    project.deliver(START, client="one")
    before = len(project.events)
    seen: list[int] = []

    class Watched(recording.Recording):
        def __enter__(self) -> recording.Recording:
            seen.append(len(waiting(project)))
            if taken_by_another:
                assert project.faber("note", "add", "in between").returncode == 0
            return super().__enter__()

    monkeypatch.setattr(hooks, "Recording", Watched)
    monkeypatch.setattr(Hook, "_is_on_network", lambda hook: True)
    assert bool(deliver(project, monkeypatch, hook, at=1_800_000_000.0)) == (hook == "SessionStart")
    assert seen == [1]
    assert waiting(project) == []
    added = [one["event"]["type"] for one in project.events[before:] if one["event"]["type"] != "note_recorded"]
    start = ["session_started", "checkout_recorded", "artifact_loaded", "artifact_loaded", "context_reloaded"]
    assert added == ["session_ended", *(start if hook == "SessionStart" else ["checkout_recorded"])]
    project.assert_projected()


MOUNTINFO = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:52 / /home rw,relatime shared:9 master:2 - nfs4 server:/home rw,vers=4.2
41 22 0:53 / /mnt rw - fuse.sshfs user@host:/ rw
42 22 0:54 / /tmp rw - tmpfs tmpfs rw
"""


def test_the_file_system_is_found_by_its_device(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    mounts = str(tmp_path / "mountinfo")
    found = [folders.network_file_system(os.makedev(0, minor), mounts) for minor in (52, 53, 54, 55)]
    assert found == ["nfs4", "fuse.sshfs", None, None]
    assert folders.network_file_system(os.makedev(0, 52), str(tmp_path / "none")) is None


def test_status_reports_waiting_deliveries(project: Project) -> None:
    spooled(project, START, END)
    project.faber("run", "resume", project.run_id)
    assert "2 deliveries wait" in project.faber("status").stdout
    assert json.loads(project.faber("status", "--json").stdout)["data"]["waiting"] == 2


def test_project_records_waiting_deliveries(project: Project) -> None:
    project.deliver(START)
    spooled_with_ledger(project, END)
    done = project.faber("project")
    assert done.returncode == 0, done.stderr
    assert waiting(project) == []
    assert project.history[0]["end_reason"] == "normal"
    project.assert_projected()


def test_seal_records_waiting_deliveries_before_it_stages(project: Project) -> None:
    project.deliver(START)
    project.git("init", "--quiet")
    spooled_with_ledger(project, END)
    done = project.faber("seal")
    assert done.returncode == 0, done.stderr
    assert waiting(project) == []
    assert project.types[-1] == "session_ended"
    assert project.git("diff", "--name-only") == ""  # what was staged is what is there
    project.assert_projected()


def test_import_records_waiting_deliveries(project: Project, tmp_path: Path) -> None:
    project.deliver(START)
    shutil.copytree(project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy", hostname="copy")
    assert copy.faber("note", "add", "one").returncode == 0
    (project.root / "events.jsonl").write_text(copy.faber("export").stdout)
    spooled_with_ledger(project, END)
    assert project.faber("import", "events.jsonl").returncode == 0
    assert waiting(project) == []
    assert project.types[-2:] == ["note_recorded", "session_ended"]
    project.assert_projected()


def test_a_missing_run_gets_no_spool(project: Project) -> None:
    shutil.rmtree(project.run)
    assert project.deliver(END).code == 0
    assert waiting(project) == []
    assert not (project.root / ".git" / "faber-ledger" / "spool").exists()


def test_the_spool_returns_what_was_put_into_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"session_id":"\\ud800","x":"\xff\xfe"}'
    run = find_run(str(project.root), project.run_id)
    path = spool.put(run, incoming.IncomingCall(Call("SessionEnd", content, {}), run, 1.5, print).to_spooled([]))
    assert spool.read(path)["delivery"].encode("utf-8", "surrogateescape") == content


@given(
    content=st.binary(max_size=100)
    | st.builds(lambda piece, count: piece * count, st.binary(min_size=1, max_size=3), st.integers(0, 70_000))
    | st.dictionaries(
        st.sampled_from(["session_id", "cwd", "source", "reason", "compact_summary", "agent_id"]),
        st.builds(lambda piece, count: piece * count, st.text(min_size=1, max_size=2), st.integers(0, 70_000)),
    ).map(lambda fields: json.dumps(fields).encode()),
    variables=st.dictionaries(
        st.sampled_from(VARIABLES),
        st.builds(
            lambda piece, count: piece * count,
            st.sampled_from(["x", '"', "\x01", "\\", "ä", "\U0001f600", "\udcff"]),
            st.sampled_from([1, 4097, 120_000]),
        ),
    ),
    phases=st.sampled_from([0, 1, 70_000]),
    hook=st.sampled_from(["SessionStart", "PreCompact", "PostCompact", "SessionEnd"]),
)
@example(b"", dict.fromkeys(VARIABLES[:2], "\x01" * 120_000), 0, "SessionEnd")
@example(b"", {}, 70_000, "SessionEnd")
@settings(max_examples=60, deadline=None)
def test_every_spooled_call_can_be_read_again(
    content: bytes, variables: dict[str, str], phases: int, hook: str
) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.dict(os.environ, {**variables, "XDG_STATE_HOME": os.path.join(root, "state")}),
    ):
        os.makedirs(os.path.join(root, ".fractary/runs/one"))
        run = find_run(root, "one")
        one = incoming.IncomingCall(Call(hook, content, os.environ), run, 1.5, lambda output: None)
        one.progress = {"phase": "build", "step": None, "phases_completed": ["x"] * phases}
        waits = one.to_spooled([])
        read = spool.read(spool.put(run, waits))
        assert {**read, "progress": None} == {**waits, "progress": None}
        assert read["progress"] in (waits["progress"], None)


def test_a_spool_that_another_hook_removed_is_made_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def removed(folder: str) -> list[str]:
        monkeypatch.setattr(os, "listdir", listed)
        os.rmdir(folder)
        return []

    monkeypatch.setattr(os, "listdir", removed)
    run = find_run(str(project.root), project.run_id)
    path = spool.put(run, incoming.IncomingCall(Call("SessionEnd", b"", {}), run, 1.5, print).to_spooled([]))
    assert spool.waiting(run) == [path]


def test_a_waiting_file_that_cannot_be_read_holds_up_nothing(project: Project) -> None:
    (path,) = spooled(project, START, client="one")
    path.chmod(0)  # as root's, of a hook that was run with sudo
    answer = project.changed("SessionStart.resume.print", without_overrides, client="two")
    assert answer.packet
    assert "stays in the spool" in answer.errors
    assert waiting(project) == [path]
    path.chmod(0o600)
    project.deliver(END, client="two")
    assert waiting(project) == []
    assert [event["client"] for event in project.events if event["event"]["type"] == "session_started"] == [
        "two",
        "one",
    ]
    project.assert_projected()


DEFECT = """
import importlib, sys
from faber_ledger.cli.entry import main

def fail(*arguments, **named):
    raise RuntimeError("a defect")

module, name = sys.argv.pop(1).split(":")
setattr(importlib.import_module("faber_ledger." + module), name, fail)
main()
"""


def with_defect(
    project: Project, recorded: str, defect: str = "recording.sessions:open_session", **changes: Any
) -> str:
    """Deliver to a program with a bug, by default in what a session's start needs; return its messages."""
    content, environment, argument = project.prepared(recorded, **changes)
    done = subprocess.run(
        [sys.executable, "-c", DEFECT, defect, "hook", argument],
        cwd=project.root,
        env=environment,
        input=content,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout or not recorded.startswith(("SessionStart", "PreCompact"))
    return done.stderr.decode()


@pytest.mark.parametrize(
    "defect", ["recording.secrets.mask:clean_summary", "runs.settings:Settings", "runs.progress:snapshot"]
)
def test_a_bug_in_preparing_a_delivery_does_not_keep_it_from_the_spool(project: Project, defect: str) -> None:
    project.deliver(START, client="one")
    project.ledger_path.rename(project.run / "aside")
    refuse(project)
    assert "it waits in" in with_defect(project, POST, defect, client="one")
    relent(project)
    (project.run / "aside").rename(project.ledger_path)
    assert project.deliver(END, client="one").errors == ""
    assert project.types[-2:] == ["compaction_completed", "session_ended"]
    assert project.of_type("compaction_completed")[0]["summary"]
    project.assert_projected()


def test_a_bug_in_loading_artifacts_leaves_the_position(project: Project) -> None:
    output = with_defect(project, START, "context.reload:gather_for_hook", client="one")
    assert "a bug in faber-ledger kept it from loading artifacts, please report it: RuntimeError('a defect')" in output
    assert "it waits in" not in output
    assert project.types == ["run_adopted", "session_started"]
    project.assert_projected()


def test_a_bug_of_ours_loses_no_delivery(project: Project) -> None:
    output = with_defect(project, START, client="one")
    assert "a bug in faber-ledger, please report it: RuntimeError('a defect'); it waits in" in output
    assert len(waiting(project)) == 1
    assert project.deliver(END, client="one").errors == ""
    assert project.types == ["run_adopted", "session_started", "session_ended"]
    project.assert_projected()


def test_a_delivery_that_triggers_a_bug_each_time_holds_up_no_other(project: Project) -> None:
    project.deliver("SessionStart.resume.print", client="none")
    spooled_with_ledger(project, START, client="one")
    spooled_with_ledger(project, END, client="none")
    output = with_defect(project, PRE, client="none")
    assert "a waiting delivery could not be recorded, and was moved to" in output
    assert "RuntimeError('a defect')" in output
    assert waiting(project) == []
    assert project.types[-1] == "session_ended"
    (path,) = [Path(path) for path in spool.moved_aside(find_run(str(project.root), project.run_id))]
    assert "has deliveries that could not be recorded" in project.faber("doctor").stdout
    path.rename(path.with_suffix(".json"))  # as doctor says
    assert project.deliver(END, client="one").errors == ""
    assert project.types[-2:] == ["session_started", "session_ended"]
    project.assert_projected()


DEFECT_IN_THE_FOLD = """
from faber_ledger.cli.entry import main
from faber_ledger.projections.fold import Projector

start = Projector._start

def fail(projector, event, at):
    start(projector, event, at)
    if event["source"] == "startup":
        raise RuntimeError("a defect")

Projector._start = fail
main()
"""


def test_a_bug_in_the_fold_leaves_no_rolled_back_facts_in_the_state(project: Project) -> None:
    project.deliver("SessionStart.resume.print", client="none")
    spooled_with_ledger(project, START, client="one")
    done = subprocess.run(
        [sys.executable, "-c", DEFECT_IN_THE_FOLD, "note", "add", "one"],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"could not be recorded, and was moved to" in done.stderr
    assert project.types.count("session_started") == 1
    project.assert_projected()


def test_a_forgotten_run_loses_its_spool(project: Project) -> None:
    project.deliver(START)
    (path,) = spooled_with_ledger(project, END)
    shutil.rmtree(project.run)
    refused = project.faber("run", "forget", project.run_id)
    assert refused.returncode == 1
    assert "would be removed, and 1 delivery never recorded" in refused.stderr
    assert f"faber-ledger run resume {project.run_id}` restores the run" in refused.stderr
    assert path.exists()
    doctor = project.faber("doctor").stdout
    assert f"run `faber-ledger project {project.run_id}` where the run is" in " ".join(doctor.split())
    done = project.faber("run", "forget", project.run_id, "--yes")
    assert done.returncode == 0, done.stderr
    assert "and 1 delivery never recorded, are removed" in done.stdout
    assert not path.parent.exists()


TOLD_TO_END = """
import fcntl, os, signal, sys
from faber_ledger.cli import entry
held = fcntl.flock
def flock(descriptor, operation):
    if not operation & fcntl.LOCK_NB:
        os.kill(os.getpid(), getattr(signal, os.environ["ENDS"]))  # while it waits for the lock
    return held(descriptor, operation)
fcntl.flock = flock
entry.main()
"""


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_hook_that_is_terminated_while_it_waits_for_the_lock_spools_its_delivery(project: Project, end: str) -> None:
    project.deliver(START)
    content, environment, _ = project.prepared(END)
    with open(project.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", TOLD_TO_END, "hook", "session-end"],
            cwd=project.root,
            env={**environment, "ENDS": end},
            input=content,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len(waiting(project)) == 1
    assert project.faber("project").returncode == 0
    assert project.types[-1] == "session_ended"


def test_a_command_that_is_interrupted_while_it_waits_for_the_lock_ends_at_once(project: Project) -> None:
    with open(project.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", TOLD_TO_END, "note", "add", "never"],
            cwd=project.root,
            env={**project.environment(), "ENDS": "SIGINT"},
            capture_output=True,
            check=False,
            preexec_fn=heed_interrupts,
        )
    assert done.returncode == 130, done.stderr
    assert waiting(project) == []


def test_a_delivery_that_is_recorded_again_after_the_same_events_becomes_the_same_facts(project: Project) -> None:
    project.deliver(START, client="one")
    spooled_with_ledger(project, START, client="two")
    kept = project.root.with_name("kept")
    shutil.copytree(project.root, kept)
    found = []
    for _ in range(2):
        shutil.rmtree(project.root)
        shutil.copytree(kept, project.root)
        assert project.faber("project").returncode == 0
        found.append(project.faber("export", project.run_id).stdout)
    assert project.of_type("session_started")[1:]
    assert found[0] == found[1]


def test_a_start_that_is_refused_at_its_commit_is_spooled_with_what_it_loaded(project: Project) -> None:
    project.deliver(START, client="one")
    content, environment, name = project.prepared(START, client="two")
    command = [str(COMMAND), "hook", name]
    break_call("pwrite64", 1, "ENOSPC", command, project.root, environment, content, project.clones_log)
    assert len(waiting(project)) == 1
    assert project.faber("project").returncode == 0
    assert waiting(project) == []
    assert [started["source"] for started in project.of_type("session_started")] == ["startup", "startup"]
    assert len(project.of_type("artifact_loaded")) == 2 * len(project.in_context)
