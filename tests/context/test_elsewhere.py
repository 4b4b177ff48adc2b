"""The packet says in one sentence what a second machine lacks of a run, or that its clone was never set up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.clones import RUN, STATE, Clone
from support.command import COMMAND, run_command

NEWER = "This run went on elsewhere: origin/main has events of it that are not here yet, so before you go on, run `{}`."
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


def test_nothing_is_said_where_all_is_here(laptop: Clone, desktop: Clone) -> None:
    assert sentence_of(packet_of(desktop, "at-work")) is None
    assert sentence_of(packet_of(laptop, "at-home")) is None


def test_what_was_fetched_and_not_pulled_is_named_at_every_start_in_the_same_words(
    laptop: Clone, desktop: Clone
) -> None:
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


def test_a_clone_that_was_never_set_up_is_told_to_be_before_it_pulls(laptop: Clone, desktop: Clone) -> None:
    desktop.forget_driver()
    packets = [packet_of(desktop, "one"), packet_of(desktop, "one", "resume")]
    assert sentence_of(packets[0]) == NEVER
    assert packets[0] == packets[1]
    go_on(laptop)
    desktop.git("fetch", "-q")
    command = "faber-ledger init --git-only && git pull"
    assert sentence_of(packet_of(desktop, "one", "compact")) == NEWER.format(command)


@pytest.mark.parametrize(
    ("branch", "command"),
    [("$(touch${IFS}x)", "git pull")],
)
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


def git_calls(clone: Clone, tmp_path: Path, client: str) -> list[str]:
    """Return the commands of the git processes of a start."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script = tmp_path / "bin" / "git"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {real} "$@"\n')
    script.chmod(0o755)
    (tmp_path / "calls").write_text("")
    delivery = {"session_id": client, "hook_event_name": "SessionStart", "source": "startup", "cwd": str(clone.root)}
    environment = {**clone.environment, "CLAUDE_PROJECT_DIR": str(clone.root)}
    environment["FABER_LEDGER_HOSTNAME"] = "laptop"  # also in a work tree of its own
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    done = run_command(
        [COMMAND, "hook", "session-start"],
        cwd=clone.root,
        env=environment,
        input=json.dumps(delivery).encode(),
        capture_output=True,
        check=True,
    )
    assert RUN in done.stdout.decode()
    return (tmp_path / "calls").read_text().splitlines()


def test_an_ordinary_start_asks_git_nothing(tmp_path: Path) -> None:
    laptop = Clone.begin(tmp_path / "laptop", driver=True)  # `first` copies a clone that worked elsewhere
    git_calls(laptop, tmp_path, "one")
    ordinary = git_calls(laptop, tmp_path, "two")
    state = json.loads((laptop.root / STATE).read_text())
    state["sessions"]["session_history"][-1]["environment"]["hostname"] = "desktop"
    (laptop.root / STATE).write_text(json.dumps(state))
    assert ordinary == []
    assert "for-each-ref" in " ".join(git_calls(laptop, tmp_path, "three"))


def test_another_work_tree_of_the_clone_is_not_elsewhere(tmp_path: Path) -> None:
    laptop = Clone.begin(tmp_path / "laptop", driver=True)
    laptop.git("worktree", "add", "-q", "-b", "feature", "../tree")
    tree = Clone(tmp_path / "tree")
    assert tree.call(str(COMMAND), "run", "resume", RUN, FABER_LEDGER_HOSTNAME="laptop").returncode == 0
    assert "for-each-ref" not in " ".join(git_calls(tree, tmp_path, "one"))
