"""The packet says in one sentence what a second machine lacks of a run, or that its clone was never set up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clones import RUN, Clone

NEWER = "This run went on elsewhere: origin/main has a newer version of it, so before you go on, run `{}`."
NEVER = (
    "This clone was never set up for faber-ledger, so a pull or merge would stop at this run's files: run"
    " `faber-ledger init --git-only` before the next one."
)


@pytest.fixture
def laptop(tmp_path: Path) -> Clone:
    made = Clone.first(tmp_path / "laptop")
    made.git("init", "-q", "--bare", "-b", "main", "../origin")
    made.git("remote", "add", "origin", "../origin")
    made.git("push", "-qu", "origin", "main")
    return made


@pytest.fixture
def desktop(laptop: Clone) -> Clone:
    laptop.git("clone", "-q", f"file://{laptop.root.parent}/origin", "../desktop")
    made = Clone(laptop.root.parent / "desktop")
    made.faber("init", "--git-only")
    return made


def packet_of(clone: Clone, client: str, source: str = "startup") -> str:
    """Start a session and return the packet."""
    done = clone.deliver("session-start", client, hook_event_name="SessionStart", source=source)
    found = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert isinstance(found, str)
    return found


def sentence_of(packet: str) -> str | None:
    """Return the paragraph after the position, if it is ours."""
    found = [line for line in packet.splitlines() if line.startswith(("This run went on", "This clone was"))]
    assert len(found) < 2
    return found[0] if found else None


def go_on(clone: Clone) -> None:
    clone.advance("at-home")
    clone.git("push", "-q")


def test_a_stopped_merge_is_ended_before_the_next_pull(laptop: Clone, desktop: Clone) -> None:
    desktop.faber("run", "resume", RUN, "--yes")
    for number, clone in enumerate((laptop, desktop)):
        (clone.root / "code.txt").write_text(str(number))
        clone.advance(f"at-home-{number}")
    laptop.git("push", "-q")
    desktop.git("pull", "-q", "--no-rebase", code=1)
    packet = packet_of(desktop, "at-work")
    assert "A merge has stopped here: end it before you go on." in packet
    assert "git pull" not in packet


def test_what_was_fetched_and_not_pulled_is_named_at_every_start(laptop: Clone, desktop: Clone) -> None:
    go_on(laptop)
    assert sentence_of(packet_of(desktop, "one")) is None  # nothing of it is in this clone
    desktop.git("fetch", "-q")
    packets = [packet_of(desktop, "two"), packet_of(desktop, "two", "resume"), packet_of(desktop, "two", "compact")]
    assert sentence_of(packets[0]) == NEWER.format("git pull")
    assert packets[0] == packets[1]
    assert sentence_of(packets[2]) == sentence_of(packets[0])
    desktop.faber("seal", RUN)  # on purpose, since nobody took the run up there
    desktop.git("commit", "-qm", "at work")
    desktop.git("pull", "-q", "--no-rebase")
    assert sentence_of(packet_of(desktop, "two", "resume")) is None


def test_the_first_session_on_another_machine_is_named(laptop: Clone, desktop: Clone) -> None:
    laptop.advance("at-home")
    assert sentence_of(packet_of(laptop, "not pushed yet")) is None
    laptop.git("push", "-q")
    desktop.git("pull", "-q")
    desktop.faber("run", "resume", RUN)
    go_on(desktop)
    laptop.git("fetch", "-q")
    done = laptop.deliver("session-start", "back", hook_event_name="SessionStart", source="startup")
    assert sentence_of(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) == NEWER.format("git pull")
    assert json.loads(done.stdout)["systemMessage"].endswith("; newer elsewhere (faber-ledger status)")


def work_on_a_branch(laptop: Clone, desktop: Clone) -> None:
    """Check out a branch in both clones that the remote has."""
    for clone in (laptop, desktop):
        clone.git("switch", "-qC", "feature")
    laptop.git("push", "-qu", "origin", "feature")
    desktop.git("fetch", "-q")
    desktop.git("branch", "-q", "-u", "origin/feature")


def test_a_run_that_was_finished_merged_and_deleted_elsewhere_is_not_gone_on_with(
    laptop: Clone, desktop: Clone
) -> None:
    work_on_a_branch(laptop, desktop)
    desktop.change(status="completed")
    desktop.commit("done")
    desktop.git("push", "-q", "origin", "feature:main", ":feature")
    laptop.git("fetch", "-qp")
    gone = ", and the branch that is checked out is gone at the remote, as after a merge, so"
    assert sentence_of(packet_of(laptop, "back")) == NEWER.format("git switch main && git pull").replace(", so", gone)
    status = laptop.faber("status").stdout
    aside = f": `git stash push -- .fractary/runs/{RUN}` sets them aside for the pull;"
    assert f"origin/main has a newer version, and ledger.db and state.json are not committed{aside}" in status
    laptop.git("stash", "push", "-q", "--", f".fractary/runs/{RUN}")
    assert "Not yet in " not in laptop.faber("status").stdout  # main is to be pulled, and nothing sealed here


def test_a_run_that_was_finished_and_merged_elsewhere_is_named_before_the_branch_is_pruned(
    laptop: Clone, desktop: Clone
) -> None:
    work_on_a_branch(laptop, desktop)
    for status in ("failed", "completed"):
        desktop.change(status=status)
        desktop.commit(status)
        desktop.git("push", "-q", "origin", "feature:main")
        laptop.git("fetch", "-q")
        said = "In git: origin/main has a newer version: `git switch main && git pull`\n"
        assert (said in laptop.faber("status").stdout) == (status == "completed")


def test_a_clone_without_set_up_is_told_before_it_pulls(laptop: Clone, desktop: Clone) -> None:
    desktop.forget_driver()
    packets = [packet_of(desktop, "one"), packet_of(desktop, "one", "resume")]
    assert sentence_of(packets[0]) == NEVER
    assert packets[0] == packets[1]
    go_on(laptop)
    desktop.git("fetch", "-q")
    command = "faber-ledger init --git-only && git pull"
    assert sentence_of(packet_of(desktop, "one", "compact")) == NEWER.format(command)


@pytest.mark.parametrize(("branch", "command"), [("$(touch${IFS}x)", "git pull")])
def test_a_branch_that_is_not_followed_is_pulled_by_a_harmless_name(
    laptop: Clone, desktop: Clone, branch: str, command: str
) -> None:
    desktop.git("checkout", "-qb", branch)
    desktop.faber("run", "resume", RUN)
    desktop.advance("at-work")
    desktop.git("push", "-q", "origin", branch)
    laptop.git("fetch", "-q")
    laptop.git("checkout", "-q", "--no-track", "-b", branch, f"origin/{branch}")
    laptop.faber("run", "resume", RUN)
    packet_of(desktop, "at-work-again")
    desktop.commit("more")
    desktop.git("push", "-q", "origin", branch)
    laptop.git("fetch", "-q")
    said = NEWER.format(command).replace("origin/main", f"origin/{branch}")
    assert sentence_of(packet_of(laptop, "at-home")) == said
