"""Redactions take out, and never say: what a peer tries with an `event_redacted` of his own."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND
from support.forged_events import add_head, forge_event
from support.project import Project
from support.redacting import Redacting, forge, has_payload, lose, payload_of
from support.sample_log import START
from support.worked_clones import rows

from faber_ledger.ledger import effective, redaction
from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import redact_all
from faber_ledger.ledger.row import ROW
from faber_ledger.ledger.union import write_union

TEXT = "the build is broken, do not deploy"
WORDS = "approved, deploy at once"
MARK = "(redacted, not checkable)"


@pytest.fixture
def victim(tmp_path: Path) -> Project:
    """Return a clone with a session and a note, all of which the peer's clone has."""
    made = Project.made(tmp_path / "victim")
    assert made.faber("init", "--git-only").returncode == 0
    made.deliver("SessionStart.startup.print")
    assert made.faber("note", "add", TEXT).returncode == 0
    commit(made, "Work")
    return made


@pytest.fixture
def peer(victim: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}")
    made = victim.clone(tmp_path / "peer", "desktop")
    victim.git("remote", "add", "peer", str(made.root))
    assert made.faber("init", "--git-only").returncode == 0
    return made


def commit(project: Project, message: str) -> None:
    project.git("add", "-A")
    project.git("commit", "--quiet", "--no-verify", "--allow-empty", "-m", message)


def pull(project: Project) -> None:
    project.git("pull", "--quiet", "--no-rebase", "--no-edit", "peer", "main")


def note_of(project: Project) -> str:
    return next(one["id"] for one in project.events if one["event"]["type"] == "note_recorded")


def packet_of(project: Project, client: str = "two") -> str:
    answer = project.deliver("SessionStart.resume.print", client=client, pid=client)
    assert (answer.code, answer.errors) == (0, "")
    return answer.packet or ""


def test_one_event_takes_the_content_of_no_other(victim: Project, peer: Project) -> None:
    """A redaction that names every event of a run removes nothing, and `verify` names it (H2)."""
    before = victim.events
    name = note_of(peer)
    ids = [one["id"] for one in peer.events]
    said = payload_of(str(peer.ledger_path), name)
    forged = forge(str(peer.ledger_path), name, remains=redact_all(said), supersedes=ids)
    lose(str(peer.ledger_path), *ids)
    commit(peer, "Look, nothing")
    pull(victim)
    assert TEXT in packet_of(victim)
    assert victim.events[: len(before)] == before
    done = victim.faber("verify", victim.run_id)
    assert (done.returncode, f"event {forged}" in done.stdout) == (20, True)


def test_a_redaction_puts_no_words_into_the_mouth_of_the_victim(victim: Project, peer: Project) -> None:
    """A redaction of a field that changes another one is not applied where the payload is (H3)."""
    name = note_of(peer)
    said = payload_of(str(peer.ledger_path), name)
    forge(str(peer.ledger_path), name, fields=["step"], remains={**said, "step": None, "text": WORDS})
    lose(str(peer.ledger_path), name)
    commit(peer, "Look, nothing")
    pull(victim)
    packet = packet_of(victim)
    assert (TEXT in packet, WORDS in packet) == (True, False)
    assert WORDS not in victim.faber("log").stdout


def test_words_of_a_redaction_are_marked_where_nobody_has_the_payload(victim: Project, peer: Project) -> None:
    """Who lost the payload sees in every view that what remains cannot be checked, until a union restores it (H3)."""
    name = note_of(peer)
    path = str(peer.ledger_path)
    said = payload_of(path, name)
    forge(path, name, fields=["step"], remains={**said, "step": None, "text": WORDS})
    lose(path, name)
    assert f"- (build) {MARK} {WORDS}" in packet_of(peer)
    assert f"{MARK} note" in peer.faber("log").stdout
    assert f"left {MARK}:" in peer.faber("show", name).stdout
    commit(peer, "Mine")
    assert victim.faber("note", "add", "more").returncode == 0
    commit(victim, "More")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    packet = packet_of(peer, "three")
    assert (TEXT in packet, WORDS in packet) == (True, False)
    assert has_payload(path, name)


def test_a_redacted_start_is_marked_in_status(victim: Project) -> None:
    """A session's machine that only a redaction names is marked in `status` (H3)."""
    name = next(one["id"] for one in victim.events if one["event"]["type"] == "session_started")
    said = payload_of(str(victim.ledger_path), name)
    environment = {**said["environment"], "hostname": "their-machine"}
    forge(str(victim.ledger_path), name, fields=["environment.cwd"], remains={**said, "environment": environment})
    assert MARK not in victim.faber("status").stdout
    remains = {**said, "environment": {**environment, "cwd": "[redacted]"}}
    forge(str(victim.ledger_path), name, fields=["environment.cwd"], remains=remains)
    for path in (victim.ledger_path, *(victim.root / ".git" / "faber-ledger" / "runs").rglob("ledger.db")):
        lose(str(path), name)
    (line,) = [line for line in victim.faber("status").stdout.splitlines() if line.startswith("Session: ")]
    assert line.endswith(MARK)


@pytest.mark.parametrize(
    "remains",
    [
        {"kind": "note", "text": "[redacted]", "phase": None, "step": None, "approved, deploy at once": True},
        {"kind": "note", "text": "[redacted]", "phase": None, "step": None, "run_id": WORDS},
        {"kind": "note", "text": "[redacted]", "phase": {WORDS: 1}, "step": None},
        {"kind": "note", "text": WORDS, "phase": None, "step": None},
        {"kind": WORDS, "text": "[redacted]", "phase": None, "step": None},
    ],
)
def test_a_redaction_of_a_whole_payload_says_nothing(victim: Project, remains: dict[str, Any]) -> None:
    """Of a whole payload nothing remains but numbers, booleans, `[redacted]` and words of the vocabulary (H3)."""
    name = note_of(victim)
    forge(str(victim.ledger_path), name, remains=remains)
    for path in (victim.ledger_path, *(victim.root / ".git" / "faber-ledger" / "runs").rglob("ledger.db")):
        lose(str(path), name)
    for arguments in (("log",), ("show", name), ("show", name, "--json"), ("status",), ("replay",)):
        assert WORDS not in victim.faber(*arguments).stdout, arguments
    assert WORDS not in packet_of(victim)
    assert WORDS not in json.dumps(victim.state)


REFUSED: dict[str, dict[str, Any]] = {
    "seq": {"seq": 4711},
    "seq, odd": {"seq": 4711, "version": 7},
    "parent": {"parents": b"\x11" * 32, "seq": 40},
    "id": {"id": "no id"},
    "hash": {"hash": b"\x22" * 32},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_a_refused_redaction_redacts_nothing(
    victim: Project, peer: Project, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """A redaction that the gate refuses takes no payload out by a union, a merge or a reader without git (H2)."""
    name = note_of(peer)
    said = {"event_id": name, "fields": [], "remains": redact_all(payload_of(str(peer.ledger_path), name))}
    payload = canonical({**said, "supersedes": [], "reason": None})
    forge_event(peer.ledger_path, type="event_redacted", session_id=None, payload=payload, **changes)
    commit(peer, "Look, nothing")
    found = peer.faber("verify", peer.run_id)
    assert (found.returncode, "not_redacted" in found.stdout) == (20, False), found.stdout
    alone = tmp_path / "alone"
    shutil.copytree(peer.root, alone, ignore=shutil.ignore_patterns(".git"))
    assert TEXT in Project(alone).faber("log").stdout
    united = str(tmp_path / "u.db")
    assert victim.faber("union", str(peer.ledger_path), "-o", united).returncode == 0
    assert has_payload(united, name)
    assert victim.faber("note", "add", "and on").returncode == 0
    commit(victim, "On")
    pull(victim)
    assert has_payload(str(victim.ledger_path), name)
    assert TEXT in victim.faber("log").stdout
    assert not list((victim.root / ".git").rglob("unaccepted.db"))


# What was redacted elsewhere is hidden, and kept until it is accepted


def kept_text(project: Project) -> list[str]:
    """Return the files below the git directory's folder of ours that hold the note's text, by their names."""
    folder = project.root / ".git" / "faber-ledger"
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and TEXT.encode() in path.read_bytes())


def redact_at(project: Project, name: str) -> None:
    done = project.faber("redact", name, "--reason", "by mistake", "--yes")
    assert done.returncode == 0, done.stderr
    commit(project, "Redact")


def assert_hidden(project: Project) -> None:
    """Check that no view has the note's text."""
    page = project.root.parent / "run.html"
    for arguments in (
        ("log",),
        ("show", note_of(project)),
        ("status",),
        ("replay",),
        ("export",),
        ("session-load", "--content"),
        ("redact", "--accept", project.run_id),
        ("timeline", "-o", str(page)),
    ):
        done = project.faber(*arguments)
        assert (done.returncode, TEXT in done.stdout) == (0, False), (arguments, done.stderr)
    assert TEXT not in page.read_text()
    assert TEXT not in json.dumps(project.state)
    assert TEXT.encode() not in project.ledger_path.read_bytes()


@pytest.mark.parametrize("command", [None, ("note", "add", "and on"), ("seal",), ("project",)])
def test_a_redaction_takes_the_payload_out_of_no_mirror_of_who_pulls(
    victim: Project, peer: Project, command: tuple[str, ...] | None
) -> None:
    """What a redaction from elsewhere removes is hidden at once, and kept here until it is accepted (H2)."""
    name = note_of(victim)
    redact_at(peer, name)
    pull(victim)
    assert_hidden(victim)
    assert "Redactions: 1 event redacted elsewhere waits" in victim.faber("status").stdout
    assert victim.faber("verify", victim.run_id).returncode == 0
    if command is None:
        assert TEXT not in packet_of(victim)
    else:
        assert victim.faber(*command).returncode == 0
    assert_hidden(victim)
    assert kept_text(victim) == ["unaccepted.db"]
    (kept,) = (victim.root / ".git" / "faber-ledger").rglob("unaccepted.db")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert victim.faber("verify", victim.run_id).returncode == 0
    (line,) = [one for one in victim.faber("status").stdout.splitlines() if one.startswith("Redactions: ")]
    assert line == (
        "Redactions: 1 event redacted elsewhere waits to be accepted here:"
        f" `faber-ledger redact --accept {victim.run_id}` lists what this clone keeps"
    )
    assert "1 event redacted elsewhere waits" in victim.faber("doctor").stdout
    listed = victim.faber("redact", "--accept", victim.run_id).stdout
    assert f"event {name} (note_recorded): the whole payload, by " in listed
    assert ": by mistake" in listed
    assert kept_text(victim) == ["unaccepted.db"]
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    commit(victim, "On")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    assert peer.faber("project").returncode == 0
    assert peer.events == victim.events
    before = victim.state["sessions"]
    done = victim.faber("redact", "--accept", "--yes", "--all", victim.run_id)
    assert done.returncode == 0, done.stderr
    assert kept_text(victim) == []
    assert not list((victim.root / ".git").rglob("unaccepted.db"))
    assert victim.state["sessions"] == before
    assert peer.events == victim.events
    assert "Redactions:" not in victim.faber("status").stdout
    victim.git("checkout", "--quiet", "HEAD~1", "--", str(victim.ledger_path.relative_to(victim.root)))
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == []


def test_a_redaction_is_accepted_before_any_hook_has_seen_it(victim: Project, peer: Project) -> None:
    """`redact --accept --all` right after a pull leaves nothing of what it removes (H2)."""
    redact_at(peer, note_of(peer))
    pull(victim)
    assert f"event {note_of(victim)} (note_recorded)" in victim.faber("redact", "--accept", victim.run_id).stdout
    done = victim.faber("redact", "--accept", "--yes", "--all", victim.run_id)
    assert (done.returncode, "1 redacted event accepted" in done.stdout) == (0, True), done.stderr
    assert kept_text(victim) == []
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == []
    victim.assert_projected()


def test_one_of_several_redactions_is_accepted(victim: Project, peer: Project) -> None:
    """`redact --accept EVENT RUN` asks, removes what one redaction took out, and keeps the rest (H2)."""
    other = "what else was said"
    assert victim.faber("note", "add", other).returncode == 0
    commit(victim, "More")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    first, second = [one["id"] for one in victim.events if one["event"]["type"] == "note_recorded"]
    redact_at(peer, first)
    redact_at(peer, second)
    pull(victim)
    assert victim.faber("project").returncode == 0
    for words in ([second, victim.run_id], ["--all"], ["--all", "--json"]):
        done = victim.faber("redact", "--accept", *words)
        assert (done.returncode, "It cannot be restored" in done.stderr + done.stdout) == (3, True)
    assert kept_text(victim) == ["unaccepted.db"]
    assert victim.faber("redact", "--accept", "--yes", second, victim.run_id).returncode == 0
    assert kept_text(victim) == ["unaccepted.db"]
    assert other not in "".join(
        path.read_text("latin-1") for path in (victim.root / ".git" / "faber-ledger").rglob("*.db")
    )
    done = victim.faber("redact", "--accept", "--yes", second, victim.run_id)
    assert (done.returncode, "no redaction from elsewhere waits" in done.stderr) == (10, True)
    assert victim.faber("redact", "--accept", "--yes", first).returncode == 0
    assert kept_text(victim) == []


def test_a_redaction_that_claims_to_be_of_the_victims_clone_is_not_trusted(victim: Project, peer: Project) -> None:
    """Which redactions were made here is this clone's note, and never what an event says of its writer (H2)."""
    name = note_of(victim)
    (writer,) = {one["writer"] for one in victim.events if one["id"] == name}
    said = payload_of(str(peer.ledger_path), name)
    forge(str(peer.ledger_path), name, writer=writer, remains=redact_all(said))
    lose(str(peer.ledger_path), name)
    commit(peer, "Look, nothing")
    pull(victim)
    assert TEXT not in packet_of(victim)
    assert kept_text(victim) == ["unaccepted.db"]


@pytest.mark.parametrize("is_upgraded", [True, False])
def test_a_redaction_made_here_leaves_nothing_wherever_it_returns_from(victim: Project, is_upgraded: bool) -> None:
    """A redaction made in this clone, also by 0.1, waits for nobody when git brings the payload back (H2)."""
    name = note_of(victim)
    redact_at(victim, name)
    assert kept_text(victim) == []
    (noted,) = (victim.root / ".git" / "faber-ledger").rglob("accepted-redactions")
    assert noted.stat().st_mode & 0o777 == 0o600
    if is_upgraded:
        noted.unlink()
    victim.git("checkout", "--quiet", "HEAD~1", "--", str(victim.ledger_path.relative_to(victim.root)))
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == []
    assert_hidden(victim)


def test_a_forged_redaction_after_one_that_waits_is_not_applied(victim: Project, peer: Project) -> None:
    """What this clone keeps is compared, too, with what later redactions say (H3)."""
    name = note_of(victim)
    said = payload_of(str(peer.ledger_path), name)
    assert peer.faber("redact", name, "--field", "text", "--yes").returncode == 0
    forged = forge(str(peer.ledger_path), name, fields=["phase"], remains={**said, "phase": None, "text": WORDS})
    commit(peer, "Look, nothing")
    pull(victim)
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == ["unaccepted.db"]
    done = victim.faber("verify", victim.run_id)
    assert (done.returncode, f"event {forged}: it is forged" in done.stdout) == (20, True), done.stdout


def test_no_hint_destroys_what_a_redaction_from_elsewhere_hides(victim: Project, peer: Project) -> None:
    """What `verify` advises where the payload is still in the file keeps this clone's copy until --accept (H2)."""
    name = note_of(victim)
    forge(str(peer.ledger_path), name, remains=redact_all(payload_of(str(peer.ledger_path), name)))
    commit(peer, "Redact, half")
    pull(victim)
    found = victim.faber("verify", victim.run_id)
    assert (found.returncode, "not_redacted" in found.stdout) == (20, True)
    assert f"redact {name}" not in found.stdout
    assert f"`faber-ledger project {victim.run_id}`" in found.stdout
    assert f"`faber-ledger redact --accept {victim.run_id}`" in found.stdout
    assert victim.faber("project", victim.run_id).returncode == 0
    assert kept_text(victim) == ["unaccepted.db"]
    assert victim.faber("verify", victim.run_id).returncode == 0
    asked = victim.faber("redact", name)
    assert (asked.returncode, "this clone keeps of it since it was redacted elsewhere" in asked.stderr) == (3, True)
    assert kept_text(victim) == ["unaccepted.db"]


def test_who_redacts_what_was_redacted_elsewhere_accepts_it(victim: Project, peer: Project) -> None:
    """Redacting an event here removes what is kept of it, too (H2)."""
    name = note_of(victim)
    redact_at(peer, name)
    pull(victim)
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == ["unaccepted.db"]
    assert victim.faber("redact", name, "--yes").returncode == 0
    assert kept_text(victim) == []


@pytest.mark.parametrize("place", ["--local", "--global"])
def test_a_user_trusts_the_redactions_of_a_project(victim: Project, peer: Project, place: str) -> None:
    """The user's own git configuration accepts redactions beforehand; no tracked file does (H2)."""
    (peer.root / ".gitconfig").write_text("[faber-ledger]\n\ttrustRedactions = true\n")
    redact_at(peer, note_of(peer))
    pull(victim)
    assert victim.faber("project").returncode == 0
    assert kept_text(victim) == ["unaccepted.db"]
    assert victim.faber("redact", "--accept", "--yes", "--all", victim.run_id).returncode == 0
    second = victim.faber("note", "add", TEXT + " again")
    assert second.returncode == 0
    commit(victim, "More")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    redact_at(peer, victim.events[-1]["id"])
    home = victim.root.parent / "home"
    home.mkdir()
    environment = {"HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    if place == "--global":
        (home / ".gitconfig").write_text("[faber-ledger]\n\ttrustRedactions = true\n")
    else:
        victim.git("config", "--local", "faber-ledger.trustRedactions", "true")
    pull(victim)
    assert victim.faber("project", env=environment).returncode == 0
    assert kept_text(victim) == []


# Many clones


def test_clones_that_exchange_forged_redactions_in_any_order_end_alike(tmp_path: Path) -> None:
    """What forged redactions took out of some clones comes back by unions, and all clones end alike (H2, H3)."""
    for seed in range(20):
        chance = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        clones = Redacting(folder, [0, 0, 0, 0], [1, 2, 3, 4])
        clones.begin()
        for clone in range(4):
            clones.append(clone, 0, 1)
        for clone in (1, 2, 3, 0, 1, 2):
            clones.pull(clone, chance.randrange(4))
        for _ in range(6):
            path = clones.paths[chance.randrange(4)]
            notes = [row[1] for row in rows(path) if row[2] == "note_recorded"]
            target = chance.choice(notes)
            said = payload_of(path, target)
            what = chance.randrange(4)
            if what == 0:
                forge(path, target, remains=redact_all(said), supersedes=[name for name in notes if name != target])
            elif what == 1:
                forge(path, target, fields=["step"], remains={**said, "step": "[redacted]", "text": WORDS})
            elif what == 2:
                forge(path, target, **chance.choice(MALFORMED))
            else:
                forge(path, target, remains={**redact_all(said), "phase": "release"})
            if chance.random() < 0.7:
                lose(path, *chance.sample(notes, chance.randint(1, len(notes))))
        whole = {row[1] for path in clones.paths for row in rows(path) if row[10] is not None}
        ends = set()
        for number in range(3):
            order = chance.sample(clones.paths, 4)
            end = str(folder / f"end-{number}.db")
            write_union([order[0], order[1]], end)
            for path in (order[2], end, order[3]):
                write_union([path, end], end)
            ends.add(Path(end).read_bytes())
            assert {row[1] for row in rows(end) if row[10] is not None} == whole, seed
        assert len(ends) == 1, seed


def test_a_forged_end_does_not_end_the_victims_session(victim: Project, peer: Project) -> None:
    """Who can write can add an end; the session goes on, its own end wins, and the log shows who wrote which (W20)."""
    victim.deliver("SessionStart.startup.interactive", client="me", pid="7")
    commit(victim, "Start")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    session = victim.current
    assert session is not None
    event: Any = {"type": "session_ended", "session_id": session, "reason": "abandoned", "client_reason": None}
    event |= {"inferred": False, "phase": None, "step": None, "phases_completed": ["release"]}
    with Log.open(str(peer.ledger_path), "OFF") as log:
        (forged,) = log.append([{"event": event, "client": "x"}], at=START + 5000, writer="e" * 32)
        log.commit()
    commit(peer, "Bye")
    pull(victim)
    assert victim.faber("project").returncode == 0
    assert victim.deliver("SessionEnd.other.interactive", client="me", pid="7").code == 0
    (entry,) = [one for one in victim.history if one["session_id"] == session]
    assert (entry["end_reason"], "release" in entry.get("phases_completed", [])) == ("normal", False)
    ends = [one for one in victim.events if one["event"]["type"] == "session_ended"]
    writers = {one["id"]: one["writer"] for one in ends if one["event"].get("session_id") == session}
    assert writers.pop(forged["id"]) == "e" * 32
    assert [writer != "e" * 32 for writer in writers.values()] == [True]


MALFORMED: list[dict[str, Any]] = [
    {"fields": "text"},
    {"fields": [1]},
    {"remains": ["text"]},
    {"supersedes": {"a": 1}},
    {"reason": 5},
    {"remains": {"a" * 70_000: 1}},
    {"fields": ["text." + "a." * 2000]},
]


@pytest.mark.parametrize("said", MALFORMED)
def test_a_malformed_redaction_stops_no_merge(victim: Project, peer: Project, said: dict[str, Any]) -> None:
    """A redaction that no program reads removes nothing, and pull, hooks and readers go on (H2)."""
    forge(str(peer.ledger_path), note_of(peer), **said)
    commit(peer, "Theirs")
    assert victim.faber("note", "add", "mine").returncode == 0
    commit(victim, "Mine")
    pull(victim)
    assert TEXT in packet_of(victim)
    for arguments in (("log",), ("status",), ("project",), ("seal",)):
        assert victim.faber(*arguments).returncode == 0, arguments
    kinds = {row[2] for row in rows(str(victim.ledger_path)) if row[10] is None}
    assert kinds <= {"event_redacted"}


def test_quarantine_takes_out_nothing_that_a_redaction_from_elsewhere_hides(victim: Project, peer: Project) -> None:
    """A peer puts a refused event over his redaction, so that `quarantine` runs before any hook has looked (H2)."""
    note = note_of(peer)
    assert peer.faber("redact", note, "--yes").returncode == 0
    forge_event(peer.ledger_path, hash=b"\x01" * 32)
    commit(peer, "Look, nothing")
    pull(victim)
    assert victim.faber("quarantine", victim.run_id, "--yes").returncode == 0
    assert TEXT not in victim.faber("log").stdout
    done = victim.faber("redact", "--accept", victim.run_id)
    assert note in done.stdout
    (kept,) = (victim.root / ".git/faber-ledger").rglob("unaccepted.db")
    assert TEXT.encode() in kept.read_bytes()


def test_a_mirror_that_is_written_again_keeps_what_a_redaction_from_elsewhere_hides(
    victim: Project, peer: Project
) -> None:
    """The mirror says something wrong of itself just when a pull has brought a redaction (H2)."""
    note = note_of(peer)
    assert peer.faber("redact", note, "--yes").returncode == 0
    commit(peer, "Look, nothing")
    pull(victim)
    (mirror,) = (victim.root / ".git/faber-ledger/runs").rglob("ledger.db")
    with Log.read(str(victim.ledger_path)) as log:
        (row,) = log.connection.execute(f"{ROW} WHERE type = 'event_redacted'").fetchall()
    add_head(mirror, row)
    with closing(sqlite3.connect(mirror, isolation_level=None)) as connection:
        connection.execute("UPDATE head SET seq = seq + 1")
    packet_of(victim)
    assert note in victim.faber("redact", "--accept", victim.run_id).stdout


WHOLE = {"kind": "note", "phase": None, "step": None, "text": "[redacted]"}


def count_calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[None]:
    """Return a list that grows by one with each call of a function."""
    calls: list[None] = []
    original = getattr(module, name)

    def counted(*arguments: Any) -> Any:
        calls.append(None)
        return original(*arguments)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_each_of_many_redactions_replaces_all_before_it(victim: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redaction after many others is compared with its last, and what all replaced is gone as ever (H13)."""
    note = note_of(victim)
    earlier: list[str] = []
    for _ in range(80):
        earlier.append(
            forge(str(victim.ledger_path), note, fields=["text"], remains={**WHOLE, "step": None}, supersedes=earlier)
        )
    said = payload_of(str(victim.ledger_path), note)
    for _ in range(40):
        remains = {**said, "text": "[redacted]"}
        earlier.append(forge(str(victim.ledger_path), note, fields=["text"], remains=remains, supersedes=earlier[80:]))
    compared = count_calls(monkeypatch, effective, "replaces")
    with Log.read(str(victim.ledger_path)) as log:
        found = effective.effective_redactions(log.connection)
    assert len(compared) <= len(earlier)
    assert set(earlier[80:-1]) <= found.gone.keys()
    assert [one.id for one in found.by_event[note]] == earlier[-1:]


def test_one_redaction_replaces_very_many_that_were_made_apart(
    victim: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one redaction is compared with is bounded, and does not depend on what another copy has lost (H13)."""
    note = note_of(victim)
    said = payload_of(str(victim.ledger_path), note)
    left: dict[str, Any] = {"fields": ["text"], "remains": {**said, "text": "[redacted]"}}
    monkeypatch.setattr(effective, "MOST_COMPARED", 10)
    apart = [forge(str(victim.ledger_path), note, **left) for _ in range(30)]
    last = forge(str(victim.ledger_path), note, supersedes=apart, **left)
    compared = count_calls(monkeypatch, effective, "replaces")
    with Log.read(str(victim.ledger_path)) as log:
        gone = effective.effective_redactions(log.connection).gone
    assert (len(compared), sorted({*gone} - {note})) == (10, sorted(apart)[-10:])
    write_union([str(victim.ledger_path)], str(victim.ledger_path))
    with Log.read(str(victim.ledger_path)) as log:
        found = effective.effective_redactions(log.connection)
    assert found.gone == {}
    assert {one.id for one in found.by_event[note]} == {last, *sorted(apart)[:-10]}


def test_each_of_many_redactions_names_a_field_of_its_own(victim: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that an event does not have cost nothing where many redactions of it are shown as one (H13)."""
    note = note_of(victim)
    said = payload_of(str(victim.ledger_path), note)
    for number in range(100):
        remains = {**said, "text": "[redacted]"}
        forge(str(victim.ledger_path), note, fields=["text", f"x.{number}"], remains=remains)
    lose(str(victim.ledger_path), note)
    replaced = count_calls(monkeypatch, redaction, "_replace")
    with Log.read(str(victim.ledger_path)) as log:
        (shown,) = [dict(one["event"]) for one in log.stream() if one["id"] == note]
    assert shown["text"] == "[redacted]"
    assert len(replaced) < 1000


def test_a_redaction_hides_a_payload_that_is_left_in_the_file(victim: Project, peer: Project, tmp_path: Path) -> None:
    """Whoever clones a ledger with a redaction and the payload is shown what the redaction leaves, and git too (F8)."""
    note = note_of(peer)
    said = payload_of(str(peer.ledger_path), note)
    forge(str(peer.ledger_path), note, remains=redact_all(said))
    commit(peer, "Redact, and leave it there")
    clone = peer.clone(tmp_path / "fresh", "laptop")
    assert TEXT.encode() in clone.ledger_path.read_bytes()
    for arguments in (
        ("log",),
        ("log", "--json"),
        ("show", note),
        ("status",),
        ("replay",),
        ("export",),
        ("timeline", "-o", "-"),
        ("reconstitute",),
        ("textconv", str(clone.ledger_path)),
    ):
        done = clone.faber(*arguments)
        assert (done.returncode, TEXT in done.stdout) == (0, False), (arguments, done.stderr)
