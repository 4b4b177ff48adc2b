"""`init --carry`: a clone agrees to git refs and switches to them and back; nobody's project file makes it send."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from support.project import RUN, Project, usual_state
from support.ref_clones import carry_refs

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
LEDGER = f".fractary/runs/{RUN}/ledger.db"
REF = f"refs/faber-ledger/{RUN}"


@pytest.fixture
def laptop(tmp_path: Path) -> Project:
    """A clone of a bare remote, with a run and one session, all of it committed and pushed."""
    project = Project.made(tmp_path / "laptop", {**usual_state(RUN), "branch": "feat/258"})
    project.git("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    project.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    project.git("checkout", "--quiet", "-b", "feat/258")
    project.faber("init", "--git-only")
    project.deliver(START)
    project.deliver(END)
    project.commit("work")
    project.git("push", "--quiet", "origin", "feat/258")
    return project


def forget_settings(project: Project) -> None:
    """Take the project's settings out of git, as where nobody has committed them yet."""
    project.git("rm", "--quiet", "--cached", ".fractary/faber/ledger.json")
    project.git("commit", "--quiet", "-m", "undecided")


def ignore_states(project: Project) -> None:
    """Let git ignore the states and metadata of runs; commit nothing."""
    project.git("rm", "--cached", "--quiet", "-r", ".fractary/runs")
    project.write(".gitignore", "state.json\nmetadata.json\n")


def work(project: Project, name: str) -> None:
    project.deliver(START, session_id=name)
    project.deliver(END, session_id=name)


def remote_refs(project: Project) -> list[str]:
    listed = project.git("ls-remote", "origin", "refs/faber-ledger/*")
    return [line.split("\t")[1] for line in listed.splitlines()]


def settings(project: Project) -> dict[str, object]:
    found: dict[str, object] = json.loads((project.root / ".fractary/faber/ledger.json").read_text())
    return found


def test_the_projects_file_alone_makes_nobody_send_or_fetch(laptop: Project) -> None:
    laptop.write(".fractary/faber/ledger.json", json.dumps({**settings(laptop), "carry": "refs"}))
    start = laptop.deliver(START)
    laptop.deliver(END)
    assert "; not sent (faber-ledger status)" in (start.message or "")
    said = "nothing of this run leaves this clone: `faber-ledger init --carry refs` sends it"
    assert said in laptop.faber("status").stdout
    done = laptop.faber("sync")
    assert (done.returncode, "init --carry refs" in done.stderr) == (1, True)
    assert remote_refs(laptop) == []
    assert "init --carry refs` lets this clone send" in laptop.faber("init", "--git-only").stderr


def test_status_says_how_a_ledger_comes_that_is_not_here(laptop: Project) -> None:
    carry_refs(laptop)
    laptop.commit("refs")
    laptop.git("push", "--quiet", "origin", "feat/258")
    desk = laptop.clone(laptop.root.parent / "desk", "desk")
    said = desk.said("status")
    assert (
        "\nLedger: not here; `faber-ledger init --carry refs --fetch` on this branch fetches it, if it was sent\n"
        in said
    )
    assert "Git ref:" not in said
    desk.git("remote", "set-url", "origin", str(laptop.root.parent / "remote.git"))
    carry_refs(desk)
    assert "\nLedger: not here; `faber-ledger sync` on this branch fetches it, if it was sent\n" in desk.said("status")


def test_what_is_run_after_a_remote_was_renamed_works(laptop: Project) -> None:
    carry_refs(laptop)
    laptop.git("remote", "rename", "origin", "up")
    assert "run `faber-ledger init --carry refs --remote NAME` to agree to it" in laptop.faber("sync").stderr
    assert laptop.faber("init", "--git-only", "--carry", "refs", "--remote", "up").returncode == 0
    assert laptop.faber("sync").returncode == 0


def test_a_switch_to_refs_and_back_is_one_command_each_way(laptop: Project) -> None:
    before = (laptop.root / LEDGER).read_bytes()
    tried = laptop.faber("init", "--git-only", "--carry", "refs", "--dry-run")
    assert "this clone would send its ledgers to origin" in tried.stderr
    assert (laptop.root / LEDGER).read_bytes() == before
    said = carry_refs(laptop)
    assert "this clone sends its ledgers to origin, where everybody who reads it can read them" in said
    assert settings(laptop)["carry"] == "refs"
    assert not (laptop.root / LEDGER).exists()
    assert f"D  {LEDGER}" in laptop.git("status", "--short")
    assert laptop.faber("sync").returncode == 0
    assert remote_refs(laptop) == [REF]
    laptop.deliver(START)
    assert not (laptop.root / LEDGER).exists()
    assert laptop.faber("verify").returncode == 0

    assert laptop.faber("init", "--git-only", "--carry", "tree").returncode == 0
    assert settings(laptop)["carry"] == "tree"
    assert len((laptop.root / LEDGER).read_bytes()) >= len(before)
    assert not (laptop.root / ".git/faber-ledger/carry.json").exists()
    assert laptop.faber("verify").returncode == 0
    assert "sync" not in (laptop.root / ".git/hooks/pre-commit").read_text()
    assert not (laptop.root / ".git/hooks/pre-push").exists()


def test_where_git_ignores_states_nothing_of_ours_is_left_in_git(laptop: Project) -> None:
    ignore_states(laptop)
    laptop.git("add", ".gitignore")
    laptop.git("commit", "--quiet", "-m", "ignored")
    carry_refs(laptop)
    assert not (laptop.root / ".fractary/.gitattributes").exists()
    assert not (laptop.root / ".git/hooks/pre-commit").exists()
    assert "faber-ledger" not in laptop.git("config", "--local", "--list")
    assert "autostash" not in laptop.git("config", "--local", "--list")
    laptop.commit("refs")
    laptop.deliver(START)
    laptop.deliver(END)
    assert laptop.git("status", "--short") == ""


@pytest.mark.parametrize(("answer", "carry"), [("y", "refs"), ("n", "tree")])
def test_it_asks_once_on_a_terminal_and_says_who_can_read(laptop: Project, answer: str, carry: str) -> None:
    forget_settings(laptop)
    laptop.write(".gitignore", "ledger.json\n")
    laptop.git("remote", "set-url", "--push", "origin", "../fork.git")
    shown, code = laptop.on_terminal("init", "--git-only", answers=[answer])
    assert code == 0
    before, _, after = shown.partition("Send the ledgers of this clone to origin")
    assert "note: git ignores .fractary/faber/ledger.json: " in before  # which bears on the answer
    assert "note: git ignores " not in after
    assert "to origin, that is to its push URL ../fork.git: at each session's end" in " ".join(shown.split())
    assert "Everybody who can read that repository can then read what is recorded" in " ".join(shown.split())
    assert "Send the ledgers of this clone to origin" in shown
    assert settings(laptop)["carry"] == carry
    again, _ = laptop.on_terminal("init", "--git-only")
    assert "Send the ledgers" not in again


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--carry", "refs", "--remote", "nowhere"], 1, "'nowhere' is not a remote that can be used"),
        (["--remote", "origin"], 2, "go with --carry refs"),
        (["--fetch"], 1, "this clone exchanges no ledgers with a remote"),
    ],
)
def test_wrong_options_change_nothing(laptop: Project, options: list[str], code: int, said: str) -> None:
    before = settings(laptop)
    done = laptop.faber("init", "--git-only", *options)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert settings(laptop) == before


def test_a_laptops_run_is_resumed_within_two_commands(laptop: Project, tmp_path: Path) -> None:
    carry_refs(laptop)
    laptop.faber("sync")
    ignore_states(laptop)
    laptop.commit("refs")
    laptop.git("push", "--quiet", "origin", "feat/258")
    desktop = laptop.clone(tmp_path / "desktop", "desktop")
    desktop.git("checkout", "--quiet", "feat/258")
    done = desktop.faber("init", "--git-only", "--carry", "refs", "--fetch", "--no-auto-send")
    assert f"fetched from origin: {RUN}" in done.stderr, done.stderr
    assert desktop.state["branch"] == "feat/258"
    start = desktop.deliver(START, session_id="another")
    assert RUN in (start.packet or "")
    assert desktop.recorded[: len(laptop.recorded)] == laptop.recorded
    assert len(desktop.history) == len(laptop.history) + 1


def test_uninstall_withdraws_the_consent(laptop: Project) -> None:
    laptop.faber("init", "--git-only", "--carry", "refs")
    assert (laptop.root / ".git/hooks/pre-push").exists()
    assert laptop.faber("uninstall").returncode == 0
    assert not (laptop.root / ".git/faber-ledger/carry.json").exists()
    assert not (laptop.root / ".git/hooks/pre-push").exists()


def test_a_branch_older_than_the_switch_gets_no_ledger(laptop: Project) -> None:
    laptop.git("branch", "older")
    carry_refs(laptop)
    laptop.commit("refs")
    laptop.git("checkout", "--quiet", "older")
    committed = (laptop.root / LEDGER).read_bytes()
    assert "carry" not in settings(laptop)
    work(laptop, "on the older branch")
    assert (laptop.root / LEDGER).read_bytes() == committed
    assert "Git ref: " in laptop.faber("status").stdout
    assert laptop.faber("verify").returncode == 0
    laptop.write(".fractary/faber/ledger.json", json.dumps({**settings(laptop), "carry": "tree"}))
    assert "Git ref: " not in laptop.faber("status").stdout
    assert "this project's ledgers travel with the code" in laptop.faber("sync").stderr


def test_a_ledger_older_than_the_log_leaves_the_tree(laptop: Project) -> None:
    work(laptop, "later")
    laptop.git("checkout", "--quiet", "--", LEDGER)
    said = carry_refs(laptop)
    assert " stays: " not in said
    assert not (laptop.root / LEDGER).exists()
    assert laptop.faber("verify").returncode == 0
    assert "ledger.db" not in laptop.faber("doctor").stdout


def test_a_ledger_that_the_log_refuses_stays(laptop: Project) -> None:
    with sqlite3.connect(laptop.root / LEDGER) as ledger:
        ledger.execute(
            "INSERT INTO event SELECT seq + 1, replace(id, '0', '1'), type, version, at, writer, session_id, client,"
            " hash, salt, payload, payload_hash, randomblob(32) FROM event ORDER BY seq DESC LIMIT 1"
        )
    said = carry_refs(laptop)
    assert f"{LEDGER} stays: the log lacks something of it, as `faber-ledger verify` says" in said
    assert "did not enter the log" in laptop.faber("verify").stdout


def test_a_ledger_that_is_staged_leaves_the_index(laptop: Project) -> None:
    work(laptop, "staged")
    laptop.git("add", LEDGER)
    work(laptop, "not staged")
    carry_refs(laptop)
    assert LEDGER not in laptop.git("ls-files")


def test_a_switch_back_leaves_a_ledger_of_a_newer_program(laptop: Project) -> None:
    content = (laptop.root / LEDGER).read_bytes()
    carry_refs(laptop)
    (laptop.root / LEDGER).write_bytes(content)
    with sqlite3.connect(laptop.root / LEDGER) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    newer = (laptop.root / LEDGER).read_bytes()
    done = laptop.faber("init", "--git-only", "--carry", "tree")
    assert f"{LEDGER} stays: the file there is of a newer format" in done.stderr
    assert "written" not in done.stderr
    assert (laptop.root / LEDGER).read_bytes() == newer


def test_init_reports_before_it_says_that_nobody_answers(laptop: Project) -> None:
    laptop.git("remote", "set-url", "origin", "../gone.git")
    done = laptop.faber("init", "--git-only", "--carry", "refs", "--no-auto-send", "--fetch")
    assert (done.returncode, "next: commit" in done.stdout) == (13, True), done.stderr
    assert "this clone sends its ledgers to origin" in done.stderr
    assert laptop.faber("init", "--git-only", "--carry", "tree", "--fetch").returncode == 2


def test_a_project_that_ignores_states_switches_back(laptop: Project) -> None:
    ignore_states(laptop)
    carry_refs(laptop)
    done = laptop.faber("init", "--git-only", "--carry", "tree")
    assert done.returncode == 0, done.stderr
    assert laptop.faber("init", "--git-only").returncode == 0  # a colleague's
    laptop.git("add", "--all")
    assert LEDGER in laptop.git("ls-files")
    assert "must be committed" not in laptop.faber("doctor").stdout
    assert laptop.faber("seal").returncode == 0


@pytest.mark.parametrize("owner", ["core.hooksPath", "lefthook"])
def test_who_owns_the_push_hook_is_told_the_line(laptop: Project, owner: str) -> None:
    if owner == "lefthook":
        laptop.write(".git/hooks/pre-push", "#!/bin/sh\nexec lefthook run pre-push\n")
    else:
        laptop.git("config", owner, "hooks")
    done = laptop.faber("init", "--git-only", "--carry", "refs")
    assert "git's pre-push hook is left as it is, since " in done.stderr
    assert 'add the line `faber-ledger sync --pushed-to "$1"' in done.stderr
    assert "pre-push" not in laptop.faber("init", "--git-only", "--carry", "refs", "--no-auto-send").stderr


def test_a_repeated_init_keeps_the_agreed_remote(laptop: Project, tmp_path: Path) -> None:
    laptop.git("remote", "add", "team", str(tmp_path / "remote.git"))
    laptop.faber("init", "--git-only", "--carry", "refs", "--remote", "team", "--no-auto-send")
    agreed = (laptop.root / ".git/faber-ledger/carry.json").read_bytes()
    again = laptop.faber("init", "--git-only", "--carry", "refs")
    assert "this clone sends its ledgers to team" in again.stderr
    laptop.git("remote", "rename", "origin", "other")
    assert laptop.faber("init", "--git-only", "--carry", "refs").returncode == 0
    assert (laptop.root / ".git/faber-ledger/carry.json").read_bytes() == agreed
    laptop.git("remote", "remove", "team")
    assert "'team' is not a remote that can be used" in laptop.faber("init", "--git-only", "--carry", "refs").stderr


def test_without_a_terminal_a_note_names_the_option_once(laptop: Project) -> None:
    offered = "`faber-ledger init --carry refs` sends them to origin in git refs instead"
    assert "--carry" not in laptop.faber("init", "--git-only").stderr  # whoever has committed the settings has decided
    forget_settings(laptop)
    assert offered in laptop.faber("init", "--git-only").stderr
    laptop.faber("init", "--git-only", "--carry", "tree")
    assert "--carry" not in laptop.faber("init", "--git-only").stderr
    laptop.write(".fractary/faber/ledger.json", "{}")
    laptop.git("remote", "remove", "origin")
    assert "--carry" not in laptop.faber("init", "--git-only").stderr


@pytest.mark.parametrize("is_committed", [True, False], ids=["unpushed", "dirty"])
def test_a_pull_of_the_switch_is_resolved_without_the_ledger(
    laptop: Project, tmp_path: Path, is_committed: bool
) -> None:
    desktop = laptop.clone(tmp_path / "desktop", "desktop")
    desktop.git("checkout", "--quiet", "feat/258")
    desktop.faber("init", "--git-only")
    desktop.faber("run", "resume", RUN)
    work(desktop, "at the desktop")
    if is_committed:
        desktop.git("commit", "--quiet", "--all", "-m", "at the desktop")
    laptop.deliver(START, session_id="at the laptop")
    carry_refs(laptop)
    laptop.commit("refs")
    laptop.git("push", "--quiet", "origin", "feat/258")
    pulled = desktop.git("pull", "--quiet", "--no-rebase", "origin", "feat/258", code=1 if is_committed else 0)
    assert LEDGER in desktop.git("ls-files", "--unmerged", "-t"), pulled
    assert "run `faber-ledger resolve`" in desktop.faber("status").stderr
    assert "run `faber-ledger resolve`" in desktop.faber("doctor").stdout
    recorded = {one["id"] for one in desktop.recorded}
    desktop.clones_log.unlink()  # what git has of both sides is taken into it
    (desktop.root / LEDGER).unlink()
    done = desktop.faber("resolve")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"resolved  {LEDGER}: its events are in the log, and it is removed" in done.stdout
    assert desktop.git("ls-files", "--", LEDGER) == ""
    assert not (desktop.root / LEDGER).exists()
    assert {one["id"] for one in desktop.recorded} >= recorded
    if is_committed:
        desktop.git("commit", "--quiet", "--no-edit")
    assert LEDGER not in desktop.git("status", "--short")
    assert desktop.faber("verify").returncode == 0


@pytest.fixture
def desktop(laptop: Project, tmp_path: Path) -> Project:
    """Another clone of a project whose run is in a ref alone; it has not agreed to git refs, and names no run."""
    ignore_states(laptop)
    carry_refs(laptop)
    laptop.faber("sync")
    laptop.commit("refs")
    laptop.git("push", "--quiet", "origin", "feat/258")
    root = tmp_path / "desktop"
    laptop.git("clone", "--quiet", "--branch", "feat/258", str(tmp_path / "remote.git"), str(root))
    return Project(root, RUN, "desktop")


def test_status_of_a_clone_without_a_run_asks_the_remote(desktop: Project) -> None:
    done = desktop.faber("status")
    assert done.returncode == 10
    assert "`faber-ledger init --carry refs --fetch` lets it fetch them" in done.stderr
    assert "git pull" not in done.stderr
    carry_refs(desktop)
    done = desktop.faber("status")
    assert done.returncode == 10
    said = "this clone has no run; origin has 1, 1 of which is at work on this branch: `faber-ledger run resume "
    assert f"{said}{RUN}` or `faber-ledger init --fetch`" in done.stderr
    assert "`faber-ledger run list --remote` shows those at the remote" in desktop.faber("run", "list").stdout
    desktop.git("checkout", "--quiet", "-b", "other")
    said = desktop.faber("status").stderr
    assert "origin has 1, none of which is at work on this branch: `faber-ledger run list --remote` shows them" in said
    assert "init --fetch" not in said
    desktop.git("-C", "../remote.git", "update-ref", "-d", f"refs/faber-ledger/{RUN}")
    assert "this clone has no run, and origin has none: start one with " in desktop.faber("status").stderr
    (desktop.root.parent / "remote.git").rename(desktop.root.parent / "away.git")
    done = desktop.faber("status")
    assert (done.returncode, "this clone has no run, and origin could not be asked: " in done.stderr) == (10, True)


def test_the_first_start_of_a_clone_names_the_option_once(desktop: Project) -> None:
    told = (
        "faber-ledger: this clone sends and fetches no ledgers: run `faber-ledger init --carry refs --fetch` to let it"
    )
    assert desktop.deliver(START).message == told
    assert desktop.deliver(START, session_id="another").message is None


def test_a_clone_that_has_agreed_is_told_nothing(desktop: Project) -> None:
    carry_refs(desktop)
    assert desktop.deliver(START).message is None


def test_resume_finds_a_run_of_a_work_item_at_the_remote(desktop: Project) -> None:
    for words in (["--work-id", "258"], [RUN]):
        done = desktop.faber("run", "resume", *words)
        assert (done.returncode, "`faber-ledger init --carry refs --fetch` lets it fetch" in done.stderr) == (10, True)
    carry_refs(desktop)
    done = desktop.faber("run", "resume", "--work-id", "259")
    assert (done.returncode, done.stderr.count("`faber-ledger run list --remote` shows")) == (10, 1)
    done = desktop.faber("run", "resume", "--work-id", "258")
    assert f"✓ Workflow resumed: {RUN}" in done.stdout, done.stderr


def test_what_init_says_of_refs_is_true_of_refs(laptop: Project) -> None:
    ignore_states(laptop)
    done = laptop.faber("init", "--git-only", "--carry", "refs", env={"CI": None})
    assert "removed    this clone's git config: the merge driver" in done.stdout
    assert "summaries of compactions are recorded and sent, secrets masked" in done.stdout
    assert "committed" not in done.stdout
    assert "; sending begins now, in the background, and each session's end is sent" in done.stderr
    again = laptop.faber("init", "--git-only", "--carry", "refs", "--no-auto-send")
    assert "unchanged  .fractary/.gitattributes" not in again.stdout
    assert "git config" not in again.stdout


def test_a_started_run_leaves_nothing_for_git(laptop: Project) -> None:
    ignore_states(laptop)
    carry_refs(laptop)
    laptop.commit("refs")
    started = laptop.faber("run", "start", "--work-id", "9", "--run-id", "issue-9", "--yes")
    assert "  Ledger: in this clone; `faber-ledger sync` sends it\n" in started.stdout
    assert (laptop.root / ".fractary/runs/issue-9/metadata.json").exists()
    assert laptop.git("status", "--short") == ""
