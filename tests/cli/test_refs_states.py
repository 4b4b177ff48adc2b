"""Whose `state.json` a clone has where ledgers travel in git refs, and git ignores it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.carried import SENT, CarriedClone, agree, path_with_script, wait_until
from support.clones import RUN
from support.project import usual_state

from faber_ledger.ledger.clock import now, utc_text

LATER, LATEST = "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"


@pytest.fixture
def unsent(tmp_path: Path) -> CarriedClone:
    """A clone with a run whose state git ignores."""
    return CarriedClone.started(tmp_path / "one", ignores_state=True)


@pytest.fixture
def one(unsent: CarriedClone) -> CarriedClone:
    """A clone whose run was sent, with a state that git ignores."""
    unsent.sync()
    return unsent


def bring(one: CarriedClone, name: str = "two") -> CarriedClone:
    """Clone, and bring the run."""
    two = one.second(name)
    assert not two.state_path.exists()
    two.faber("run", "resume", RUN, "--yes")
    return two


def advance(clone: CarriedClone, phase: str = "evaluate", at: str = LATER) -> None:
    clone.change(updated_at=at, current_phase=phase)


def put_without(clone: CarriedClone, name: str, **members: Any) -> None:
    """Change members of the state, remove one, and send it."""
    state = {**clone.state, **members, "updated_at": LATER}
    del state[name]
    clone.put(state)
    clone.sync()


def in_work_tree(clone: CarriedClone) -> CarriedClone:
    """Go on with the run in a work tree of its own, and take its folder along."""
    clone.git("worktree", "add", "-q", "--detach", "../tree")
    tree = CarriedClone(clone.root.parent / "tree")
    tree.name_run()
    shutil.move(clone.state_path.parent, tree.state_path.parent)
    return tree


def forget_exchange(clone: CarriedClone) -> None:
    """Lose the note of what this work tree has in common with the ref."""
    (clone.private(RUN) / "sent-main.json").unlink()


@pytest.mark.parametrize("way", ["sync", "resume", "init"])
def test_a_newer_state_replaces_one_that_nobody_changed(one: CarriedClone, way: str) -> None:
    two = bring(one)
    two.sync()
    state = one.state
    del state["work_id"]
    one.put(state)
    advance(one)
    one.work("on the laptop")
    one.sync()
    if way == "sync":
        assert "state.json taken from origin (in_progress, evaluate)" in two.sync().stdout
    elif way == "resume":
        two.faber("run", "resume", RUN, "--yes")
    else:
        one.change(branch="feat/258", updated_at=LATEST)
        one.sync()
        two.git("switch", "-q", "-c", "feat/258")
        two.faber("init", "--git-only", "--carry", "refs", "--no-auto-send", "--fetch")
    assert two.state["current_phase"] == "evaluate"
    assert "work_id" not in two.state
    assert len(two.state["sessions"]["session_history"]) == len(two.clients())
    assert two.faber("verify").stdout == f"{RUN}: sound\n"
    two.sync()
    assert one.sync().stdout.count("state.json") == 0


def test_a_push_alone_merges_before_it_sends(one: CarriedClone) -> None:
    two = bring(one)
    two.sync()
    advance(one)
    one.sync()
    two.change(work_id="ours", updated_at=LATEST)
    two.sync("--push")
    sent = json.loads(one.origin.content("state.json"))
    assert (sent["work_id"], sent["current_phase"]) == ("ours", "evaluate")


def test_states_that_both_clones_have_changed_are_merged(one: CarriedClone) -> None:
    """An older clone's state, although it was changed last, takes no completed phase away (DECISIONS 54)."""
    phases = [{"phase_name": name, "status": "pending"} for name in ("frame", "architect", "build")]
    one.change(phases=phases, updated_at="2026-12-01T00:00:00Z")
    one.sync()
    two = bring(one)
    done = [{**phase, "status": "completed"} for phase in phases]
    two.change(phases=done, updated_at=LATER, note="theirs")
    two.work("on the desktop")
    two.sync()
    one.change(phases=[done[0], *phases[1:]], updated_at=LATEST)
    one.work("on the laptop")
    one.sync()
    two.sync()
    for clone in (one, two):
        assert [phase["status"] for phase in clone.state["phases"]] == ["completed"] * 3
        assert clone.state["note"] == "theirs"
        assert "nothing to send" in clone.sync().stdout


def test_a_state_that_nobody_edited_is_not_said_to_differ(one: CarriedClone) -> None:
    two = bring(one)
    two.work("on the desktop")
    one.work("on the laptop")
    said = [clone.sync() for clone in (one, two, one)]
    assert "state.json differed" not in "".join([done.stdout + done.stderr for done in said])


def test_the_next_start_says_what_the_background_has_merged(one: CarriedClone) -> None:
    two = bring(one)
    agree(two.root, auto=True)
    two.change(current_phase="release", updated_at=utc_text(now()))
    advance(one, at=utc_text(now() - 60))
    one.sync()
    two.record("second")
    two.end("second")
    two.wait_for_sender()
    assert "Noted for the next start: " in two.faber("status").stdout
    assert "1 warning" in two.start_line("third")
    assert "both sides changed current_phase: the one here is used, the one at origin had" in two.faber("status").stdout
    assert two.state["current_phase"] == "release"
    two.add_run("shop-1")
    assert "both sides changed" not in two.call(*two.command("status", "shop-1")).stdout
    two.name_run()
    two.change(current_step="publish", updated_at=LATEST)
    assert "both sides changed" not in two.faber("status").stdout


def forget_when_asked(one: CarriedClone) -> None:
    note = one.private(RUN) / "sent.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "asked_at": 0.0}))


def test_commits_that_a_pull_brought_ask_for_a_sync(one: CarriedClone) -> None:
    two = bring(one)
    two.git("push", "-q", "origin", "HEAD")
    one.git("fetch", "-q")
    one.git("branch", "-q", "-u", "origin/main")
    one.sync()
    two.git("commit", "-q", "--allow-empty", "-m", "code")
    two.git("push", "-q", "origin", "HEAD")
    by_status = "\nGit ref: origin may have more, since the run's branch went on there: `faber-ledger sync`\n"
    by_packet = "Git has fetched newer commits of this run's branch, but no ledger, so run `faber-ledger sync`"
    for number in range(8):  # the newest sessions are all here
        one.record(f"here-{number}")
    one.sync()
    for client, expected in (("first", False), ("second", True), ("third", False)):
        done = one.deliver("session-start", client, hook_event_name="SessionStart", source="startup")
        assert (by_packet in done.stdout.decode()) == expected
        assert (by_status in one.faber("status").stdout) == expected
        if expected:
            one.sync()
        else:
            forget_when_asked(one)  # git notes whole seconds
            one.git("pull", "-q")
    assert by_status in one.faber("status").stdout
    one.sync()
    forget_when_asked(one)
    assert "nothing to send" in one.sync().stdout
    assert by_status not in one.faber("status").stdout


def test_a_pull_that_brings_another_clones_sessions_asks_for_a_sync(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")  # git tracks its state
    one.sync()
    two = one.second("two")
    two.faber("run", "resume", RUN)
    two.work("on the desktop")
    two.sync()
    two.commit("worked on")
    two.git("push", "-q", "origin", "main")
    one.git("pull", "-q", "origin", "main")
    status = one.faber("status").stdout
    lacks = "The ledger here lacks sessions that state.json has: `faber-ledger sync` fetches what was sent\n"
    assert lacks in status
    assert one.faber("replay").stdout.endswith(f"\n\n{lacks}")
    assert "changed since" not in status
    assert "hint: run `faber-ledger sync`, which fetches what was sent; the next" in one.faber("verify").stdout
    one.sync()
    assert "lacks" not in one.faber("status").stdout + one.faber("replay").stdout
    one.faber("verify")


def test_a_replay_without_a_session_names_those_that_the_state_alone_has(one: CarriedClone) -> None:
    one.faber("run", "start", "--run-id", "shop-9", "--work-id", "9", "--yes")
    path = one.root / ".fractary/runs/shop-9/state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sessions": one.state["sessions"]}))
    no_session, _, lacks = one.faber("replay", "shop-9").stdout.splitlines()
    assert no_session == "no session yet: --events shows what happened"
    assert lacks.startswith("The ledger here lacks sessions that state.json has")


def test_where_a_finished_run_is_active_another_branch_may_have_one_at_the_remote(one: CarriedClone) -> None:
    one.git("switch", "-qc", "feature/258")
    one.change(status="completed", branch="feature/258", updated_at=LATER)
    said = "o run of this branch is here: `faber-ledger run list --remote` shows those at the remote"
    assert said not in one.faber("status").stdout
    one.git("switch", "-qc", "feature/7")
    assert said in one.faber("status").stdout
    one.git("switch", "-q", "main")
    assert said not in one.faber("status").stdout


def test_a_run_that_went_on_on_a_second_branch_is_still_of_its_first(one: CarriedClone) -> None:
    for branch in ("feature/7", "hotfix/8"):
        one.git("switch", "-qc", branch)
        one.work(f"on {branch}")
    one.change(status="completed", updated_at=LATER)
    one.git("switch", "-q", "feature/7")
    assert "o run of this branch is here" not in one.faber("status").stdout


def test_the_backup_of_a_run_that_was_finished_elsewhere_goes(one: CarriedClone) -> None:
    two = bring(one)
    two.work("on the desktop")
    backup = two.state_path.with_name("state.json.backup")
    assert backup.exists()
    two.sync()
    one.sync()
    one.change(status="completed", updated_at=LATEST)
    one.sync()
    assert "(completed, build)" in two.sync().stdout
    assert not backup.exists()


def test_the_machine_in_the_list_is_that_of_the_session_at_work_here(one: CarriedClone) -> None:
    two = bring(one)
    one.record("here")
    two.work("there")
    two.sync()
    one.sync()
    (row,) = json.loads(one.faber("run", "list", "--json").stdout)["data"]
    (own,) = json.loads(two.faber("run", "list", "--json").stdout)["data"]
    assert row["machine"] != own["machine"]


def test_a_look_at_a_run_that_a_pull_has_finished_removes_the_backup(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.sync()
    backup = one.state_path.with_name("state.json.backup")
    backup.write_text("{}")
    one.faber("run", "list")
    assert backup.exists()
    one.change(status="completed", updated_at=LATEST)  # as a pull brings it
    one.faber("run", "list")
    assert not backup.exists()


def test_the_end_of_a_client_leaves_a_finished_run_as_it_was_committed(tmp_path: Path) -> None:
    """Else git would refuse to switch from the branch that is done."""
    one = CarriedClone.started(tmp_path / "one")
    one.record("works")
    one.change(phases={"release": {"status": "completed"}})
    one.faber("run", "finish", RUN)
    one.commit("Done")
    wait_until(lambda: utc_text(now()) > one.state["completed_at"])  # its end is later than the inferred one
    one.end("works")
    assert one.git("status", "--porcelain") == ""
    assert "session_ended" in one.faber("log", RUN).stdout
    one.faber("verify", RUN)


def test_what_a_sync_said_of_a_merge_is_not_said_again(one: CarriedClone) -> None:
    two = bring(one)
    two.change(current_phase="release", updated_at=LATEST)
    advance(one)
    one.sync()
    assert "both sides changed current_phase: " in two.sync().stderr
    assert "both sides changed" not in two.faber("status").stdout
    assert "1 warning" not in two.start_line("third")


def test_a_resumed_run_shows_its_log_at_once(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.sync()
    one.git("clone", "-q", f"file://{one.origin.root}", "../two")
    two = CarriedClone(tmp_path / "two")
    agree(two.root)
    one.work("after the commit of state.json")
    one.sync()
    two.sync()  # which leaves a state.json that this clone has not taken up
    two.faber("run", "resume", RUN)
    assert "differs" not in two.faber("status").stdout
    two.faber("verify")


def test_a_state_that_git_tracks_is_left_until_git_ignores_it(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.sync()
    two = one.second("two")
    two.sync()
    advance(one)
    one.sync()
    newer = "the run has gone on (in_progress, evaluate) after the commit that is here: `git pull`\n"
    assert newer in two.sync().stderr
    assert two.state["current_phase"] != "evaluate"
    two.git("rm", "--cached", "-q", str(two.state_path))
    (two.root / ".gitignore").write_text("state.json\n")
    two.commit("ignored")
    one.change(note="theirs", updated_at=LATEST)
    one.sync()
    two.change(work_id="ours", updated_at=LATEST)
    two.sync()
    assert (two.state["current_phase"], two.state["note"], two.state["work_id"]) == ("evaluate", "theirs", "ours")


def test_a_run_that_was_completed_elsewhere_is_pulled_where_it_is(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.git("switch", "-q", "-c", "work")
    one.git("push", "-q", "-u", "origin", "work")
    one.sync()
    two = one.second("two", "--branch", "work")
    two.sync()
    one.change(status="completed", updated_at=LATEST)
    one.commit("Finish")
    one.sync()

    def status() -> str:
        return two.faber("status").stdout

    here = "neither this branch nor the default one is known to have that"
    unknown = f"run was completed elsewhere, and {here}: `git fetch --prune` asks again"
    assert f"the {unknown}\n" in two.sync().stderr
    assert f"This {unknown}.\n" in status()
    one.git("push", "-q")
    two.git("fetch", "-q")
    assert "after the commit that is here: run `git pull`.\n" in status()
    one.git("push", "-q", "origin", "work:main", ":work")
    two.git("fetch", "-qp")
    assert "after the commit that is here: run `git switch main && git pull`.\n" in status()


def test_a_run_that_was_completed_elsewhere_is_known_after_a_fetch_by_git(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")
    one.sync()
    two = one.second("two")
    two.sync()
    two.git("switch", "-q", "-c", "work")
    one.change(status="cancelled", updated_at=LATEST)
    one.commit("Cancel")
    one.git("push", "-q", "origin", "main")
    two.git("fetch", "-q")
    said = two.faber("status").stdout
    assert "Git ref: origin/main has the run finished: `git switch main && git pull`\n" in said


@pytest.mark.parametrize("members", [{}, {"updated_at": "2020-01-01T00:00:00Z"}], ids=["same time", "clock behind"])
def test_a_change_is_unsent_until_it_is_sent_and_taken(one: CarriedClone, members: dict[str, str]) -> None:
    two = bring(one)
    unsent = "state.json here has changed since: `faber-ledger sync` sends it to origin"
    assert unsent not in one.faber("status").stdout
    one.change(current_phase="evaluate", **members)
    assert unsent in one.faber("status").stdout
    assert one.sync().stdout == f"{RUN}: its state sent to origin\n"
    one.faber("reconstitute", "--only", "notes")
    assert "Git ref:" not in one.faber("status").stdout  # only a look was recorded
    one.sync()
    two.sync()
    two.faber("reconstitute", "--only", "notes")
    two.sync()
    one.faber("note", "a note")
    one.sync("--fetch")  # which brings a look that is newer here
    assert "1 event not sent to origin: " in one.faber("status").stdout
    one.sync()
    one.state_path.touch()
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"
    two.sync()
    assert two.state["current_phase"] == "evaluate"


@pytest.mark.parametrize("way", ["another work tree", "broken", "missing"])
def test_a_state_that_cannot_be_taken_now_is_taken_later(one: CarriedClone, way: str) -> None:
    two = bring(one)
    two.change(current_phase="evaluate", note="theirs", updated_at=LATER)
    two.work("on the desktop")
    two.sync()
    before = one.state_path.read_bytes()
    if way == "another work tree":
        one.git("worktree", "add", "-q", "--detach", "../tree")
        CarriedClone(one.root.parent / "tree").sync()
    else:
        one.state_path.write_text("{ broken") if way == "broken" else one.state_path.unlink()
        assert (
            f"{RUN}: the state at origin (in_progress, evaluate) is taken by a" in one.sync().stderr
        ) or way != "broken"
        one.state_path.write_bytes(before)
    one.work("on the laptop")
    one.sync()
    two.sync()
    for clone in (one, two):
        assert (clone.state["current_phase"], clone.state["note"]) == ("evaluate", "theirs")


def test_a_work_tree_with_an_older_state_takes_the_refs(one: CarriedClone) -> None:
    """Each work tree has a file of its own, and one that it did not change changes nothing."""
    one.git("worktree", "add", "-q", "--detach", "../tree")
    tree = CarriedClone(one.root.parent / "tree")
    tree.name_run()
    tree.faber("run", "resume", RUN, "--yes")
    tree.change(current_phase="evaluate", note="of the tree")
    tree.sync()
    assert one.state.get("note") is None
    one.sync()
    assert (one.state["current_phase"], one.state["note"]) == ("evaluate", "of the tree")
    assert json.loads(one.origin.content("state.json"))["note"] == "of the tree"


@pytest.mark.parametrize("way", ["as sent", "changed since", "as its next session began"])
def test_a_work_tree_whose_run_the_main_one_sent_undoes_nothing(unsent: CarriedClone, way: str) -> None:
    tree = in_work_tree(unsent)
    tree.change(estimate="1 day", obsolete=True)
    start = {"hook_event_name": "SessionStart", "source": "startup"}
    tree.deliver("session-start", "at work", **start)
    if way != "as sent":
        tree.change(reviewer="cy")
    unsent.sync()  # where the run's files are not
    if way == "as its next session began":
        tree.deliver("session-start", "next", **start)
    two = bring(unsent)
    put_without(two, "obsolete", estimate="3 days")
    tree.change(reviewer="dee", updated_at=LATEST)
    assert "both sides" not in tree.sync().stderr
    two.sync()
    for clone in (tree, two):
        assert (clone.state["estimate"], clone.state["reviewer"]) == ("3 days", "dee")
        assert "obsolete" not in clone.state


def test_a_state_that_nothing_is_noted_of_is_found_in_the_ref(one: CarriedClone) -> None:
    two = bring(one)
    two.sync()
    one.change(note="kept", gone=True, updated_at="2026-12-01T00:00:00Z")
    one.sync()
    two.sync()
    put_without(two, "gone", current_phase="evaluate")
    forget_exchange(one)
    assert "state.json taken from origin (in_progress, evaluate)" in one.sync().stdout
    assert "gone" not in one.state


def test_without_a_base_no_line_says_that_both_sides_changed(one: CarriedClone) -> None:
    two = bring(one)
    two.change(current_phase="evaluate", updated_at=LATER)
    two.sync()
    forget_exchange(one)
    one.change(ours=1)
    said = one.sync().stderr
    assert 'state.json: the sides differ in current_phase: the one at origin is used, the one here had "build"' in said
    assert "both sides changed" not in said
    assert (one.state["current_phase"], one.state["ours"]) == ("evaluate", 1)


@pytest.mark.parametrize("when", ["at once", "after a change"])
def test_a_state_that_project_restored_undoes_nothing(one: CarriedClone, when: str) -> None:
    one.change(estimate=1, gone=True, updated_at="2026-12-01T00:00:00Z")
    one.work("on the laptop")
    one.sync()
    two = bring(one)
    put_without(two, "gone", estimate=2)
    one.state_path.unlink()
    one.sync()
    one.faber("project", RUN)
    if when == "after a change":
        one.change(note="ours", updated_at=LATEST)
    assert "both sides" not in one.sync().stderr
    two.sync()
    for clone in (one, two):
        assert clone.state["estimate"] == 2
        assert "gone" not in clone.state


def test_a_restored_copy_is_not_older_than_what_was_sent(one: CarriedClone) -> None:
    one.change(note="before")
    one.work("which keeps a copy")
    one.change(note="newest", updated_at=LATER)
    one.sync()
    one.state_path.unlink()
    one.faber("project", RUN)
    assert one.state["note"] == "newest"


@pytest.mark.parametrize("way", ["file", "folder"])
def test_a_lost_state_sends_no_older_copy(one: CarriedClone, way: str) -> None:
    one.change(note="newest")
    one.sync()
    one.state_path.unlink() if way == "file" else shutil.rmtree(one.state_path.parent)
    one.record("after it was lost")
    one.sync()
    assert json.loads(one.origin.content("state.json"))["note"] == "newest"
    one.faber("run", "resume", RUN, "--yes")
    assert one.state["note"] == "newest"


def test_a_restored_backup_takes_nothing_back(one: CarriedClone) -> None:
    phases = [{"phase_name": "frame", "status": "pending"}]
    one.change(phases=phases)
    one.record("which makes a backup")
    one.sync()
    one.change(phases=[{**phases[0], "status": "completed"}])
    one.sync()
    one.state_path.write_text("{")
    one.faber("project", RUN, "--restore")
    assert "state.json taken from origin (in_progress, build)" in one.sync().stdout
    for state in (one.state, json.loads(one.origin.content("state.json"))):
        assert state["phases"][0]["status"] == "completed"


def test_a_ref_with_another_runs_state_changes_none(one: CarriedClone) -> None:
    before, ledger = one.state, one.origin.content("ledger.db")
    foreign = json.dumps({**before, "run_id": "evil", "updated_at": LATEST}).encode()
    one.origin.put({"ledger.db": ledger, "state.json": foreign})
    assert f"{RUN}: the state.json at origin is not used: " in one.sync().stderr
    assert one.state == before
    one.change(note="ours", updated_at=LATER)
    one.sync()
    sent = json.loads(one.origin.content("state.json"))
    assert (sent["run_id"], sent["note"]) == (before.get("run_id", RUN), "ours")


def test_a_state_that_is_not_here_is_not_said_to_differ(one: CarriedClone) -> None:
    one.state_path.write_text("{")
    one.deliver("session-start", "second", hook_event_name="SessionStart", source="startup")
    shutil.rmtree(one.state_path.parent)
    shown = one.faber("status").stdout
    assert f"does not have the files of {RUN}: `faber-ledger run resume {RUN}` brings them here." in shown
    assert "differs" not in shown


# Files that are gone, or are git's


def at_origin(clone: CarriedClone, name: str = "state.json") -> Any:
    return json.loads(clone.origin.content(name))


@pytest.mark.parametrize("way", ["work tree", "folder"])
def test_an_end_is_sent_although_its_folder_is_removed_at_once(one: CarriedClone, way: str) -> None:
    agree(one.root, auto=True)
    clone = in_work_tree(one) if way == "work tree" else one
    start = {"hook_event_name": "SessionStart", "source": "startup"}
    clone.deliver("session-start", "last", **start)
    clone.change(status="completed", updated_at=LATER)
    (clone.state_path.parent / "metadata.json").write_text('{"plan_id": "of the last session"}')
    clone.end("last")
    if way == "work tree":
        one.git("worktree", "remove", "--force", "../tree")
    else:
        shutil.rmtree(one.state_path.parent)
    wait_until(lambda: not one.is_sending() and not clone.is_sending())
    one.sync()
    assert at_origin(one)["status"] == "completed"
    assert at_origin(one, "metadata.json") == {"plan_id": "of the last session"}
    assert one.origin.has(one)
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"


def test_a_lost_folders_changes_are_merged_with_theirs(one: CarriedClone) -> None:
    one.change(estimate=1, gone=True, updated_at="2026-12-01T00:00:00Z")
    one.sync()
    two = bring(one)
    put_without(two, "gone", estimate=2)
    tree = in_work_tree(one)
    tree.change(note="of the tree", updated_at=LATEST)
    tree.deliver("session-start", "last", hook_event_name="SessionStart", source="startup")
    one.git("worktree", "remove", "--force", "../tree")
    one.sync()
    assert (at_origin(one)["estimate"], at_origin(one)["note"], "gone" in at_origin(one)) == (2, "of the tree", False)
    two.sync()
    assert two.state["note"] == "of the tree"


@pytest.mark.parametrize("way", ["resume", "init", "project"])
def test_a_run_that_is_brought_back_has_what_was_not_sent(one: CarriedClone, way: str) -> None:
    one.change(estimate=1, gone=True, branch="feat/258", updated_at="2026-12-01T00:00:00Z")
    one.git("switch", "-q", "-c", "feat/258")
    one.sync()
    two = bring(one)
    put_without(two, "gone", estimate=2)
    one.change(note="not sent")
    (one.state_path.parent / "metadata.json").write_text('{"plan_id": "not sent"}')
    one.work("last")
    shutil.rmtree(one.state_path.parent)
    start = ("run", "start", "--work-id", "258", "--run-id", RUN)
    assert f"hint: `faber-ledger run resume {RUN}` goes on with it" in one.faber(*start, code=1).stderr
    if way == "init":
        one.faber("init", "--git-only", "--carry", "refs", "--no-auto-send", "--fetch")
    else:
        one.faber(*(["run", "resume", RUN, "--yes"] if way == "resume" else ["project", RUN]))
    assert one.state["note"] == "not sent"
    assert json.loads((one.state_path.parent / "metadata.json").read_text()) == {"plan_id": "not sent"}
    assert "differ" not in one.sync().stderr
    two.sync()
    for clone in (one, two):
        assert (clone.state["estimate"], clone.state["note"], "gone" in clone.state) == (2, "not sent", False)


def test_an_older_commits_state_is_no_change(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one", ignores_state=True)
    advance(one)
    one.sync()
    one.git("switch", "-q", "--detach", "HEAD~")
    assert one.state["current_phase"] != "evaluate"
    one.record("on the older commit")
    one.sync()
    assert at_origin(one)["current_phase"] == "evaluate"
    one.git("checkout", "-q", "--force", "main")
    one.record("back")
    one.sync()
    assert at_origin(one)["current_phase"] == "evaluate"
    one.faber("run", "resume", RUN, "--yes")
    assert one.state["current_phase"] == "evaluate"


@pytest.mark.parametrize("at", ["2020-01-01T00:00:00Z", "", LATEST])
def test_a_change_that_says_no_time_is_sent(one: CarriedClone, at: str) -> None:
    one.change(updated_at=LATEST)
    one.sync()
    one.change(updated_at=at, other="new")
    one.sync()
    assert at_origin(one)["other"] == "new"


UNSENT = {
    "text": ("state.json", "{", "Invalid JSON at line 1"),
    "status": (
        "state.json",
        json.dumps({**usual_state(RUN), "status": "weird"}),
        "it lacks the run's id, or its status",
    ),
    "long": (
        "state.json",
        json.dumps({**usual_state(RUN), "a": "a " * (1 << 21)}),
        "it has more than 4 million characters",
    ),
    "metadata": ("metadata.json", "[]", "it is not a JSON object of at most 1 MB"),
}


@pytest.mark.parametrize("name", UNSENT)
def test_a_file_that_cannot_be_sent_is_said(one: CarriedClone, name: str) -> None:
    file, content, why = UNSENT[name]
    before = one.origin.content(file) if file == "state.json" else None
    was = one.state_path.read_bytes()
    one.faber("note", "sent")
    (one.state_path.parent / file).write_text(content)
    for _ in range(2):  # as long as it is so
        assert f"{RUN}: its {file} is not sent: {why}" in one.sync(code=1).stderr
    if name == "long":
        assert f"; its {file} is not sent: {why}" in one.faber("status").stdout
    assert one.origin.ids(RUN) == one.log_of(RUN)
    assert before is None or one.origin.content(file) == before
    if name == "long":
        one.start_line("told")
        assert "A hook said: " in one.faber("status").stdout
        one.state_path.write_bytes(was)
        one.sync()
        assert "A hook said: " not in one.faber("status").stdout


@pytest.mark.parametrize("changes", [False, True])
def test_a_secret_here_stays_where_the_ref_has_its_mask(one: CarriedClone, changes: bool) -> None:
    tokens = [{"name": name, "api_token": f"ghp_{'a1B2' * 8}{name}"} for name in ("abcd", "efgh")]
    secrets = {"hook": "https://user:Zx81mnopqr@example.com/a", "list": tokens}
    one.change(**secrets, updated_at=LATER)
    one.sync()
    two = bring(one)
    assert "Zx81" not in json.dumps(two.state)
    two.change(other="new", list=[{"name": "between"}, *two.state["list"]], updated_at=LATEST)
    two.sync()
    if changes:
        one.change(mine="new")
    one.sync()
    secrets["list"] = [{"name": "between"}, *tokens]
    assert {name: one.state[name] for name in ("other", *secrets)} == {"other": "new", **secrets}
    one.sync()
    two.sync()
    assert "Zx81" not in json.dumps(two.state)
    assert two.state["other"] == "new"


def test_a_state_that_is_written_meanwhile_is_merged_later(one: CarriedClone) -> None:
    two = bring(one)
    two.change(theirs="kept", updated_at=LATER)
    two.sync()
    one.change(mine=1, updated_at=LATEST)
    edit = f"""sed -i 's/"mine": \\([0-9]*\\)/"mine": \\11/' {one.state_path}"""  # one digit more
    for _ in range(2):
        one.sync(path=path_with_script(one, "cat-file", edit, times=9))
    one.sync()
    two.sync()
    for state in (at_origin(one), one.state, two.state):
        assert (state["theirs"], state["mine"] > 1) == ("kept", True)


def test_a_forgotten_ref_is_made_of_the_newest_files(one: CarriedClone) -> None:
    one.git("worktree", "add", "-q", "--detach", "../tree")
    tree = CarriedClone(one.root.parent / "tree")
    tree.name_run()
    shutil.copytree(one.state_path.parent, tree.state_path.parent)
    tree.change(note="of the tree")
    tree.sync()
    one.git("worktree", "add", "-q", "--detach", "../bare")
    bare = CarriedClone(one.root.parent / "bare")
    bare.faber("run", "forget", "--remote", RUN, "--yes")
    bare.sync(RUN)
    assert at_origin(one)["note"] == "of the tree"


@pytest.mark.parametrize("way", ["lost", "lost, only a copy here", "set back"])
def test_what_a_restored_ref_lacks_was_not_removed(one: CarriedClone, way: str) -> None:
    two = bring(one)
    before = one.origin.heads()[RUN]
    phases = {**two.state["phases"], "build": {"status": "completed"}}
    two.change(k="new", phases=phases, updated_at=LATER)
    (two.state_path.parent / "metadata.json").write_text('{"plan_id": "new"}')
    two.sync()
    if way == "set back":
        one.origin.git("update-ref", SENT + RUN, before)
    else:
        one.origin.git("update-ref", "-d", SENT + RUN)
        if "copy" in way:
            shutil.rmtree(one.state_path.parent)
        assert "origin had lost its ref" in one.sync().stdout
    for clone in (two, one, two):
        clone.sync()
    for state in (at_origin(one), two.state):
        assert (state["k"], state["phases"]["build"]["status"]) == ("new", "completed")
    assert json.loads((two.state_path.parent / "metadata.json").read_text()) == {"plan_id": "new"}


def test_a_change_is_kept_where_another_follows_a_ref_that_was_set_back(one: CarriedClone) -> None:
    one.change(k="old")
    one.sync()
    two = bring(one)
    before = one.origin.heads()[RUN]
    two.change(k="new", updated_at=LATER)
    two.sync()
    one.origin.git("update-ref", SENT + RUN, before)
    one.change(other="kept", updated_at=LATEST)
    for clone in (one, two, one):
        clone.sync()
    for state in (at_origin(one), one.state, two.state):
        assert (state["k"], state["other"]) == ("new", "kept")


def test_a_lock_that_a_killed_git_left_is_named(one: CarriedClone) -> None:
    two = bring(one)
    two.work("second")
    two.sync()
    lock = one.root / f".git/refs/faber-ledger-remotes/origin/{RUN}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    done = one.call(*one.command("sync"))
    assert done.returncode != 0
    assert "remove the `.lock` file of that ref, if no git is at work" in done.stdout + done.stderr
    lock.unlink()
    one.sync()
