"""`redact` where ledgers travel in git refs: no ref reaches the payload, and other clones follow without losing any."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from support.command import COMMAND, Command, is_waiting_for_lock
from support.folders import copy_prepared
from support.forging import forge
from support.program import make_program, path_with_program
from support.project import Project
from support.ref_clones import FETCHED, REF, REMOTE, another_clone, at_remote, carry_refs, first_clone, sync

from faber_ledger.ledger.disk import RunLock

START = "SessionStart.startup.print"
SECRET, OTHER = "hunter2-§-hunter2", "swordfish-§-swordfish"


class Team:
    """Ann, who wrote two secrets into notes and sent them; Bob and Cleo, whose clones have them, too."""

    def __init__(self, folder: Path) -> None:
        copy_prepared(prepare, folder)
        self.remote = folder / REMOTE
        self.ann = Project(folder / "ann")
        self.bob = Project(folder / "bob", hostname="bob")
        self.cleo = Project(folder / "cleo", hostname="cleo")


def prepare(folder: Path) -> None:
    ann = first_clone(folder / "ann")
    ann.deliver(START)
    for text in (SECRET, OTHER):
        add(ann, f"the customer is {text}")
    sync(ann)
    for name in ("bob", "cleo"):
        another_clone(ann, name)
    add(ann, "later")
    sync(ann)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setenv("PATH", path_with_program())  # git's hooks call the program by its name
    return Team(tmp_path)


def add(project: Project, text: str) -> None:
    assert project.faber("note", "add", text).returncode == 0


def texts(project: Project) -> str:
    """Return what a clone's log says."""
    return json.dumps([dict(one["event"]) for one in project.recorded], ensure_ascii=False)


def note_id(project: Project, text: str = SECRET) -> str:
    return next(one["id"] for one in project.recorded if text in json.dumps(one["event"], ensure_ascii=False))


def payloads_reached(project: Project, *where: str) -> set[str]:
    """Return which of the secrets the refs of a repository reach, in any object."""
    objects = project.git(*where, "rev-list", "--all", "--objects", "--no-object-names").splitlines()
    content = output_of(project, *where, "cat-file", "--batch", given="\n".join(objects))
    return {text for text in (SECRET, OTHER) if text.encode() in content}


def output_of(project: Project, *arguments: str, given: str = "") -> bytes:
    """Return what git prints, as bytes."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=project.root, input=given.encode(), check=True, capture_output=True).stdout


AT_REMOTE = ("-C", f"../{REMOTE}")


def commits_at_remote(project: Project) -> int:
    return len(at_remote(project, "rev-list", REF).splitlines())


def ids(project: Project) -> set[str]:
    return {one["id"] for one in project.recorded}


def test_the_question_says_that_the_ref_is_replaced(team: Team) -> None:
    done = team.ann.faber("redact", note_id(team.ann))
    assert (done.returncode, "and the run's ref at origin is replaced if it has the event" in done.stderr) == (3, True)


def test_the_ref_becomes_one_commit_and_no_ref_reaches_the_payload(team: Team) -> None:
    add(team.bob, "from Bob")
    sync(team.bob)
    sync(team.ann)  # so that Ann has a ref that she sent and one that she fetched
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {SECRET, OTHER}
    said = team.ann.redact(note_id(team.ann), "--reason", "a customer")
    assert "  replaced: the run's ref at origin, whose host may keep what it had; other clones follow\n" in said
    assert "git still holds" not in said
    assert "warn" not in said
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {OTHER}
    assert commits_at_remote(team.ann) == 1


def test_a_second_redaction_replaces_the_ref_again(team: Team) -> None:
    team.ann.redact(note_id(team.ann))
    add(team.ann, "between")
    sync(team.ann)
    assert commits_at_remote(team.ann) == 2
    data = json.loads(team.ann.redact(note_id(team.ann, OTHER), "--json"))["data"]
    assert data["replaced_at_remote"] is True
    assert commits_at_remote(team.ann) == 1
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == set()
    assert "1 event sent" not in sync(team.ann)


def test_other_clones_follow_and_lose_no_unsent_event(team: Team) -> None:
    add(team.bob, "unsent, from Bob")
    unsent = ids(team.bob) - ids(team.ann)
    team.ann.redact(note_id(team.ann))
    for clone in (team.bob, team.cleo, team.ann):
        sync(clone)
    assert unsent <= ids(team.ann) == ids(team.bob) == ids(team.cleo)
    assert commits_at_remote(team.ann) == 2  # Bob's is a child of the one that replaced the ref
    for clone in (team.ann, team.bob, team.cleo):
        assert SECRET not in texts(clone)
        assert OTHER in texts(clone)
        assert payloads_reached(clone) == {OTHER}
    assert payloads_reached(team.ann, *AT_REMOTE) == {OTHER}
    for clone in (team.bob, team.cleo):
        (aside,) = (clone.root / ".git/faber-ledger/set-aside").glob("*.redacted.rows.jsonl")
        assert SECRET in aside.read_text()


def test_a_remote_that_is_away_gets_it_by_the_next_sync(team: Team) -> None:
    away = team.remote.rename(team.remote.with_name("away.git"))
    said = team.ann.redact(note_id(team.ann))
    assert "origin may still have what was redacted: the exchange with origin failed" in said
    assert f"hint: run `faber-ledger sync {team.ann.run_id}` as soon as it can be reached" in said
    assert "replaced:" not in said
    assert payloads_reached(team.ann) == set()  # the refs here do not wait for the remote
    assert "note: origin does not answer" in team.ann.said("verify", "--git")
    away.rename(team.remote)
    found = team.ann.said("verify", "--git")
    assert f"{REF} at origin still reaches the payload of 1 event redacted by now" in found
    assert f"hint: run `faber-ledger sync {team.ann.run_id}`, which replaces the ref" in found
    add(team.cleo, "meanwhile")
    sync(team.cleo)
    sync(team.ann)
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {OTHER}
    assert commits_at_remote(team.ann) == 1
    assert "meanwhile" in texts(team.ann)


def replace_no_ref(team: Team) -> Path:
    """Let the remote refuse to replace a ref, and return the hook that does."""
    return make_program(team.remote / "hooks/update", 'git merge-base --is-ancestor "$2" "$3"')


def test_a_remote_that_replaces_no_ref_is_said_to_keep_it(team: Team) -> None:
    hook = replace_no_ref(team)
    said = team.ann.redact(note_id(team.ann))
    assert "origin does not replace the ref, so it keeps what was redacted" in said
    assert "redact the event again once the remote allows that its refs are replaced" in said
    assert "  replaced: " not in said
    sync(team.cleo)
    assert SECRET not in texts(team.cleo)  # the redaction has arrived all the same
    for clone in (team.ann, team.cleo):
        found = clone.said("verify", "--git")
        assert f"note: {REF} at origin still reaches the payload of 1 event redacted by now" in found
        assert f"hint: redact event {note_id_redacted(clone)} again" in found
    assert f"note: {REF} here still reaches" in team.ann.said("verify", "--git")
    assert f"note: {FETCHED} here still reaches" in team.cleo.said("verify", "--git")
    hook.unlink()
    team.ann.redact(note_id_redacted(team.ann))
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {OTHER}


def note_id_redacted(project: Project) -> str:
    (event,) = [one["event"] for one in project.recorded if one["event"]["type"] == "event_redacted"]
    return str(dict(event)["event_id"])


def test_an_event_that_was_never_sent_leaves_the_ref_alone(team: Team) -> None:
    add(team.ann, "never sent")
    before = at_remote(team.ann, "rev-parse", REF)
    away = team.remote.rename(team.remote.with_name("away.git"))
    said = team.ann.redact(note_id(team.ann, "never sent"))
    assert "origin" not in said
    away.rename(team.remote)
    assert at_remote(team.ann, "rev-parse", REF) == before
    sync(team.ann)
    assert commits_at_remote(team.ann) > 1


def test_what_is_left_in_the_state_asks_for_another_redaction(team: Team) -> None:
    state = {**team.ann.state, "notes": f"the customer is {SECRET}", "updated_at": "2027-01-01T00:00:00Z"}
    team.ann.state_path.write_text(json.dumps(state))
    name = note_id(team.ann)
    assert "the ref has these files, too: redact the event again after you changed them" in team.ann.redact(name)
    assert SECRET in payloads_reached(team.ann, *AT_REMOTE)
    team.ann.state_path.write_text(json.dumps({**team.ann.state, "notes": ""}))
    assert "replaced: the run's ref at origin" in team.ann.redact(name)
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {OTHER}


def test_an_undo_is_sent_at_once_and_brings_the_payload_back(team: Team) -> None:
    name = note_id(team.ann)
    team.bob.redact(name)
    sync(team.ann)
    sync(team.cleo)
    assert SECRET not in texts(team.ann) + texts(team.cleo)
    done = team.ann.faber("redact", "--undo", name)
    assert done.returncode == 0, done.stderr
    assert payloads_reached(team.ann, *AT_REMOTE) == {SECRET, OTHER}
    for clone in (team.bob, team.cleo):
        sync(clone)
        assert SECRET in texts(clone)
        assert "redacted by now" not in clone.said("verify", "--git")


def test_an_undo_without_the_remote_is_kept_for_the_next_sync(team: Team) -> None:
    name = note_id(team.ann)
    team.bob.redact(name)
    sync(team.ann)
    away = team.remote.rename(team.remote.with_name("away.git"))
    done = team.ann.faber("redact", "--undo", name)
    assert done.returncode == 0
    assert "not sent yet, which the next `faber-ledger sync` does: the exchange with origin failed" in done.stderr
    away.rename(team.remote)
    sync(team.ann)
    assert payloads_reached(team.ann, *AT_REMOTE) == {SECRET, OTHER}


def test_a_redaction_of_ones_own_is_undone_from_an_older_commit(team: Team) -> None:
    name, before = note_id(team.ann), team.ann.git("rev-parse", REF)
    team.ann.redact(name)
    done = team.ann.faber("redact", "--undo", name)
    assert done.returncode == 10
    assert "put .fractary/runs/" in done.stderr
    team.ann.ledger_path.write_bytes(output_of(team.ann, "cat-file", "blob", f"{before}:ledger.db"))
    assert team.ann.faber("redact", "--undo", name).returncode == 0
    assert SECRET in payloads_reached(team.ann, *AT_REMOTE)
    assert team.ann.faber("verify").stdout == f"{team.ann.run_id}: sound\n"


def test_a_redaction_waits_for_what_is_being_sent(team: Team) -> None:
    """Another process has sent the event, and has not noted it yet."""
    add(team.ann, f"again: {SECRET}")
    name = note_id(team.ann, "again")
    note = team.ann.private / "sent.json"
    before = note.read_bytes()
    sync(team.ann)
    after = note.read_bytes()
    note.write_bytes(before)
    lock = team.ann.root / ".git/faber-ledger/sending.lock"
    with RunLock(str(lock)):
        command = [str(COMMAND), "redact", name, "--yes"]
        process = Command(command, cwd=team.ann.root, env=team.ann.environment(), stdout=subprocess.PIPE)
        while not is_waiting_for_lock(process, lock):
            assert process.poll() is None
        note.write_bytes(after)
    assert b"  replaced: " in process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert commits_at_remote(team.ann) == 1


@pytest.mark.parametrize("lock", ["sending", "run"])
def test_an_interrupted_redaction_is_due_at_the_remote(team: Team, lock: str) -> None:
    path = team.ann.root / ".git/faber-ledger/sending.lock" if lock == "sending" else team.ann.private / "lock"
    name = note_id(team.ann)
    with RunLock(str(path)):
        command = [str(COMMAND), "redact", name, "--yes"]
        process = Command(command, cwd=team.ann.root, env=team.ann.environment(), stdout=subprocess.PIPE)
        while not is_waiting_for_lock(process, path):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode != 0
    sync(team.ann)
    assert commits_at_remote(team.ann) == 1
    if lock == "sending":
        assert payloads_reached(team.ann, *AT_REMOTE) == {OTHER}


def test_a_payload_that_an_older_clone_sends_again_is_removed(team: Team) -> None:
    team.ann.redact(note_id(team.ann))
    at_remote(team.ann, "update-ref", "-d", REF)
    sync(team.bob)
    assert payloads_reached(team.ann, *AT_REMOTE) == {SECRET, OTHER}
    sync(team.ann)
    assert payloads_reached(team.ann) == payloads_reached(team.ann, *AT_REMOTE) == {OTHER}
    sync(team.bob)
    assert payloads_reached(team.bob) == {OTHER}


@pytest.mark.parametrize("refuses", [False, True])
def test_a_ref_that_was_rolled_back_is_replaced_again(team: Team, refuses: bool) -> None:
    before = at_remote(team.ann, "rev-parse", REF)
    team.ann.redact(note_id(team.ann))
    at_remote(team.ann, "update-ref", REF, before)
    if refuses:
        replace_no_ref(team)
    said = sync(team.ann)
    assert said.count("origin does not replace the ref, so it keeps what was redacted") == int(refuses)
    assert payloads_reached(team.ann, *AT_REMOTE) == ({SECRET, OTHER} if refuses else {OTHER})
    assert "does not replace" not in sync(team.ann)
    assert SECRET not in texts(team.ann)


@pytest.mark.parametrize("command", [["init", "--git-only", "--carry", "tree"], ["uninstall"]])
def test_refs_that_are_left_in_a_project_without_them_are_deleted(team: Team, command: list[str]) -> None:
    name = note_id(team.ann)
    assert team.ann.faber(*command).returncode == 0
    said = team.ann.redact(name)
    assert "origin may still have what was redacted: this clone no longer sends ledgers to it" in said
    assert team.ann.git("for-each-ref", REF) == ""
    add(team.ann, "never sent")
    assert "origin" not in team.ann.redact(note_id(team.ann, "never sent"))
    carry_refs(team.ann)
    assert "  replaced: the run's ref at origin" in team.ann.redact(name)
    assert payloads_reached(team.ann, *AT_REMOTE) == {OTHER}


def test_after_a_switch_the_commits_with_a_ledger_are_named_too(tmp_path: Path) -> None:
    project = Project.noted(tmp_path / "project")
    project.git("clone", "--quiet", "--bare", ".", f"../{REMOTE}")
    project.git("remote", "add", "origin", f"../{REMOTE}")
    carry_refs(project)
    sync(project)
    said = project.redact(note_id(project, "it went well"))
    assert "  replaced: the run's ref at origin" in said
    assert "  git still holds 1 commit with an earlier ledger.db" in said
    add(project, "recorded after that commit")
    assert "git still holds" not in project.redact(note_id(project, "recorded after that commit"))
    found = project.said("verify", "--git")
    assert "still holds the payload of 1 event redacted by now" in found
    assert f"compared with 1 version in the history of HEAD; 1 version in {REF} here" in found


def test_verify_says_that_no_ref_reaches_what_is_redacted(team: Team) -> None:
    team.ann.redact(note_id(team.ann))
    found = team.ann.said("verify", "--git")
    assert "note: no ref here or at origin reaches the payload of 1 event redacted by now\n" in found
    assert "those who host a ref may keep objects that nothing reaches" in found
    assert f"compared with 1 version in {REF} here: nothing there is missing here\n" in found
    assert f"note: {REF} at origin has commits that are not here" in team.bob.said("verify", "--git")


def test_verify_misses_an_event_that_only_a_ref_has(team: Team) -> None:
    count = len(team.ann.recorded)
    forge(
        team.ann.clones_log,
        f"DELETE FROM event WHERE seq = {count}",
        "DELETE FROM head",
        "INSERT INTO head SELECT hash, seq FROM event ORDER BY seq DESC LIMIT 1",
    )
    found = json.loads(team.ann.faber("verify", "--git", "--json").stdout)["data"]["runs"][0]
    assert "missing_event" in [one["kind"] for one in found["findings"]]
    assert found["anchors"] == [f"2 versions in {REF} here"]
    team.ann.ledger_path.write_bytes(output_of(team.ann, "cat-file", "blob", f"{REF}:ledger.db"))  # as the hint says
    assert team.ann.faber("project", team.ann.run_id).returncode == 0
    assert len(team.ann.recorded) == count
    team.ann.said("verify", "--git")
