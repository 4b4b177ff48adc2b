"""The active file is put back before a merge: no pull request conflicts in it, and this work tree stays on its run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.clones import ACTIVE, Clone
from support.command import COMMAND

SECOND = ".fractary/faber/runs/.active-run-id"
FABERS = ".fractary/faber/runs"


class Site:
    """A bare repository without any configuration, which merges as a hosting site does: without our merge driver."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "site.git"
        self.git("init", "-q", "--bare", "-b", "main", str(self.path), at=folder)

    def git(self, *arguments: str, at: Path | None = None, code: int = 0) -> str:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        who = {f"GIT_{role}_{what}": "site@x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments], cwd=at or self.path, env=environment | who, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.strip()

    def conflicts(self, branch: str) -> list[str]:
        """Return the files in which a pull request conflicts."""
        command = ["git", "merge-tree", "--write-tree", "--name-only", "--no-messages", "main", branch]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[1:-1] if done.returncode else []

    def merge(self, branch: str, how: str) -> None:
        tree = self.git("merge-tree", "--write-tree", "main", branch)
        parents = ["-p", "main", *(["-p", branch] if how == "merge" else [])]
        self.git("update-ref", "refs/heads/main", self.git("commit-tree", tree, *parents, "-m", f"Merge {branch}"))


class Developer(Clone):
    """A clone of the site, set up."""

    @classmethod
    def of(cls, site: Site, name: str, *options: str) -> Developer:
        made = cls(site.path.parent / name)
        subprocess.run(["git", "clone", "-q", site.path, made.root], check=True, capture_output=True)
        made.faber("init", "--git-only", *options)
        return made

    def start(self, run_id: str, *, branch: str | None = None) -> None:
        """Start a run on a branch of its own, with a session, and commit it."""
        self.git("checkout", "-q", "-b", branch or run_id, "origin/main")
        self.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes")
        self.hook("SessionStart", source="startup")
        self.commit(f"work on {run_id}")

    def release(self, run_id: str, **members: Any) -> None:
        path = self.root / f".fractary/runs/{run_id}/state.json"
        state = json.loads(path.read_text())
        state["phases"] = {name: {"status": "completed"} for name in state["phases"]}
        path.write_text(json.dumps({**state, **members}, indent=2) + "\n")

    def hook(self, hook: str, client: str = "me", **members: str) -> tuple[str, str]:
        """Deliver to a hook; return what it printed, on standard output and on standard error."""
        delivery = {"session_id": client, "hook_event_name": hook, "cwd": str(self.root), **members}
        done = subprocess.run(
            [COMMAND, "hook", hook],
            cwd=self.root,
            env={**self.environment, "CLAUDE_PROJECT_DIR": str(self.root)},
            input=json.dumps(delivery),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        return done.stdout, done.stderr

    @property
    def active(self) -> str | None:
        found = json.loads(self.faber("config", "show", "--json").stdout)["data"]["active_run"]
        assert found is None or isinstance(found, str)
        return found

    @property
    def why(self) -> str:
        return str(json.loads(self.faber("config", "show", "--json").stdout)["data"]["active_run_why"])

    def staged(self) -> dict[str, str]:
        """Return the active files in the index with what they say."""
        names = self.git("ls-files", "--", ACTIVE, SECOND).split()
        return {name: self.git("show", f":{name}") for name in names}

    def last(self, client: str, run_id: str) -> str:
        """Return the type of the last event that a client has in this clone's copy of a run's log."""
        shown = [json.loads(line) for line in self.faber("log", run_id, "--json").stdout.splitlines()]
        return [str(event["event"]["type"]) for event in shown if event["client"] == client][-1]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose main branch has code, and our lines for git."""
    site = Site(tmp_path)
    first = Developer.of(site, "first")
    (first.root / "code.py").write_text("x\n")
    first.commit("begin")
    first.git("push", "-q", "origin", "main")
    return site


@pytest.fixture
def main_names(site: Site) -> Developer:
    """A developer whose main branch names the run `bob`, at work, which a colleague has pushed there."""
    bob = Developer.of(site, "bob")
    bob.start("bob")
    bob.git("push", "-q", "origin", "bob:main")
    return Developer.of(site, "ann")


@pytest.fixture
def ann(site: Site) -> Developer:
    return Developer.of(site, "ann")


def finish(one: Developer, run_id: str) -> None:
    one.release(run_id)
    one.faber("run", "finish")
    one.faber("seal")
    one.git("commit", "-qm", f"finish {run_id}")


def finish_by_hook(one: Developer, run_id: str) -> None:
    """Commit a run that FABER's own tool has completed: only the pre-commit hook is ours."""
    one.release(run_id, status="completed")
    one.git("commit", "-qam", f"complete {run_id}")


def make_ready(one: Developer, run_id: str) -> None:
    one.faber("seal", "--ready")
    one.git("commit", "-qm", f"{run_id} is ready")


WAYS = {"finish": (finish, []), "pre-commit": (finish_by_hook, ["--pre-commit"]), "ready": (make_ready, [])}


@pytest.mark.parametrize(
    ("way", "how", "has_main_a_name"),
    [("finish", "merge", False), ("pre-commit", "squash", True), ("ready", "squash", False), ("ready", "merge", True)],
)
def test_pull_requests_with_one_run_each_do_not_conflict(site: Site, way: str, how: str, has_main_a_name: bool) -> None:
    make, options = WAYS[way]
    if has_main_a_name:
        bob = Developer.of(site, "bob")
        bob.start("bob")
        bob.git("push", "-q", "origin", "bob:main")
    team = [Developer.of(site, f"dev{number}", *options) for number in range(2)]
    for number in range(4):  # two rounds, in which two pull requests are open at the same time
        one, run_id = team[number % 2], f"run-{number}"
        one.git("fetch", "-q")
        one.start(run_id)
        make(one, run_id)
        one.git("push", "-q", "origin", run_id)
        if number % 2:
            for branch in (f"run-{number - 1}", run_id):
                assert site.conflicts(branch) == []
                site.merge(branch, how)
    assert site.git("ls-tree", "-r", "--name-only", "main", "--", ACTIVE) == (ACTIVE if has_main_a_name else "")
    if has_main_a_name:
        assert site.git("show", f"main:{ACTIVE}") == "bob"


def test_the_file_gets_what_the_merge_base_has_byte_for_byte(site: Site, ann: Developer) -> None:
    """As git has it: whatever line endings or filters this clone has."""
    for name in (ACTIVE, SECOND):
        (ann.root / name).parent.mkdir(parents=True, exist_ok=True)
        (ann.root / name).write_bytes(b"bob\r\n  \n")
    (ann.root / ".gitattributes").write_text(".active-run-id -text\n")
    ann.commit("as an older tool leaves it")
    ann.git("push", "-q", "origin", "main")
    ann.git("config", "core.autocrlf", "true")
    ann.git("config", "filter.loud.smudge", "tr a-z A-Z")
    ann.git("config", "filter.loud.clean", "cat")
    (ann.root / ".git/info/attributes").write_text(".active-run-id filter=loud\n")
    ann.start("mine")
    assert ann.staged() == {ACTIVE: "mine\n", SECOND: "mine\n"}
    done = ann.faber("seal", "--ready")
    assert done.stdout.endswith(f"; put back {ACTIVE}, {SECOND}\n")
    for name in (ACTIVE, SECOND):
        assert (ann.root / name).read_bytes() == b"bob\r\n  \n"
    ann.git("commit", "-qm", "ready")
    assert ann.git("diff", "origin/main", "--", ACTIVE, SECOND) == ann.git("status", "--porcelain") == ""
    assert ann.active == "mine"


def test_a_file_that_the_merge_base_lacks_is_removed(ann: Developer) -> None:
    (ann.root / FABERS).mkdir(parents=True)
    ann.start("mine")
    ann.faber("seal", "--ready")
    assert ann.staged() == {}
    assert not (ann.root / ACTIVE).exists()
    assert not (ann.root / SECOND).exists()
    assert ann.active == "mine"
    assert ann.why == "claimed in this work tree; the active file is put back for the merge"


def test_it_happens_before_the_first_commit_of_the_run_too(ann: Developer) -> None:
    ann.git("checkout", "-q", "-b", "mine")
    ann.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    assert ann.faber("seal", "--ready").stdout.endswith(f"; put back {ACTIVE}\n")
    ann.git("add", "-A")
    assert ann.staged() == {}
    assert ann.active == "mine"


def test_a_run_at_work_stays_as_it_is_without_ready(ann: Developer) -> None:
    ann.start("mine")
    ann.faber("seal")
    assert ann.staged() == {ACTIVE: "mine\n"}
    assert not (ann.root / ".git/faber-ledger-put-back").exists()


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_a_seal_puts_a_finished_run_back(ann: Developer, status: str) -> None:
    ann.start("mine")
    ann.release("mine", status=status)
    ann.commit("finished, without a hook of ours")
    assert f"put back {ACTIVE}" in ann.faber("seal").stdout
    assert ann.staged() == {}
    assert ann.git("status", "--porcelain", "--", ACTIVE) == f"D  {ACTIVE}\n"
    assert ann.active == "mine"
    assert "put back" not in ann.faber("seal").stdout


# The work tree goes on with the run


def test_every_command_and_hook_goes_on_with_a_run_at_work(ann: Developer) -> None:
    ann.start("mine")
    make_ready(ann, "mine")
    printed, _ = ann.hook("PreCompact", trigger="auto")
    assert "FABER run `mine`" in printed
    printed, _ = ann.hook("SessionStart", source="compact")
    assert "mine" in json.loads(printed)["hookSpecificOutput"]["additionalContext"]
    printed, _ = ann.hook("SessionStart", client="another", source="startup")
    assert "mine" in json.loads(printed)["hookSpecificOutput"]["additionalContext"]
    ann.hook("SessionEnd", client="another", reason="other")
    assert ann.last("another", "mine") in ("session_ended", "checkout_recorded")
    assert "mine" in ann.faber("session-load", "--artifacts", "workflow-state").stdout
    assert "Session ended and saved" in ann.faber("session-save").stdout
    done = ann.faber("status")
    assert done.stdout.startswith("Run: mine\n")
    assert done.stderr == "the active file is put back for the merge; mine stays active here\n"
    assert ann.faber("seal").stdout.startswith("mine: ")
    assert ann.staged() == {}
    ann.git("commit", "-qm", "more")
    assert ann.git("status", "--porcelain") == ""


def test_a_tool_that_names_the_same_run_again_changes_nothing_for_the_next_seal(ann: Developer) -> None:
    """FABER's own tool writes the active file as it goes on."""
    ann.start("mine")
    make_ready(ann, "mine")
    (ann.root / ACTIVE).write_text("mine\n")
    assert ann.active == "mine"
    assert ann.faber("seal").stdout.endswith(f"; put back {ACTIVE}\n")
    assert (ann.staged(), (ann.root / ACTIVE).exists(), ann.active) == ({}, False, "mine")


def test_a_finished_run_stays_the_one_of_this_work_tree(ann: Developer) -> None:
    ann.start("mine")
    finish(ann, "mine")
    assert ann.active == "mine"
    _, errors = ann.hook("SessionStart", client="later", source="startup")
    assert "mine is completed" in errors
    ann.hook("SessionEnd", reason="other")
    assert ann.last("me", "mine") in ("session_ended", "checkout_recorded")
    found = ann.call(str(COMMAND), "doctor").stdout
    assert "mine is active, claimed in this work tree; the active file is put back for the merge" in found
    assert "error" not in [line.split()[0] for line in found.splitlines() if "runs.active" in line]
    assert "no run is active here" not in found
    ann.faber("seal", "mine")
    ann.git("commit", "-qm", "its session's end")


@pytest.mark.parametrize("way", ["finish", "ready"])
@pytest.mark.parametrize("verb", ["merge", "rebase", "pull", "squash"])
def test_main_with_a_colleagues_run_changes_nothing_afterwards(
    site: Site, main_names: Developer, way: str, verb: str
) -> None:
    ann = main_names
    ann.start("mine")
    WAYS[way][0](ann, "mine")
    ann.git("push", "-q", "origin", "mine")
    carl = Developer.of(site, "carl")
    carl.start("carl")
    carl.git("push", "-q", "origin", "carl:main")  # an older version: main names `carl` now
    assert ann.active == "mine"
    if verb == "squash":
        assert site.conflicts("mine") == []
        site.merge("mine", "squash")
        ann.git("checkout", "-q", "main")
        assert ann.active == "mine"
        ann.git("pull", "-q", "--ff-only")
    else:
        ann.git("fetch", "-q")
        ann.git(*{"pull": ["pull", "-q", "--no-rebase", "origin", "main"]}.get(verb, [verb, "-q", "origin/main"]))
    assert ann.active == "mine"
    if verb == "rebase":  # it applies the put-back of before
        ann.faber("seal", "mine")
        ann.git("commit", "-qm", "as main is now")
    assert (ann.root / ACTIVE).read_text() == "carl\n"
    assert ann.active == "mine"
    _, errors = ann.hook("SessionStart", client="later", source="startup")
    assert "carl" not in errors
    assert ann.active == "mine"
    ann.faber("run", "start", "--work-id", "2", "--run-id", "next", "--yes")
    assert ann.active == "next"


def test_in_a_clone_that_pulls_the_merged_run_nothing_is_active(site: Site, ann: Developer) -> None:
    carl = Developer.of(site, "carl")
    ann.start("mine")
    finish(ann, "mine")
    ann.git("push", "-q", "origin", "mine")
    site.merge("mine", "merge")
    carl.git("pull", "-q")
    assert carl.active is None
    carl.git("checkout", "-q", "mine")
    assert carl.active is None
    assert carl.faber("status", "mine").stdout.startswith("Run: mine\n")


# Until a tool or a command names another run


def test_a_tool_that_names_another_run_later_makes_that_one_active(ann: Developer) -> None:
    ann.start("second")
    ann.start("mine")
    finish(ann, "mine")
    ann.git("checkout", "-q", "second", "--", ".fractary/runs/second")
    (ann.root / ACTIVE).write_text("second\n")
    assert ann.active == "second"
    assert ann.faber("seal").stdout.startswith("second: ")
    assert ann.staged() == {ACTIVE: "second\n"}


def test_a_checkout_of_another_runs_own_branch_makes_that_one_active(ann: Developer) -> None:
    ann.start("second")
    ann.start("mine")
    finish(ann, "mine")
    ann.git("checkout", "-q", "second")
    assert ann.active == "second"
    ann.git("checkout", "-q", "mine")
    assert ann.active == "mine"


@pytest.mark.parametrize("verb", ["start", "resume"])
def test_a_command_that_names_a_run_ends_it(main_names: Developer, verb: str) -> None:
    """Also on the branch whose file names a colleague's run by an ordinary commit of ours."""
    ann = main_names
    ann.start("second")
    ann.start("mine")
    make_ready(ann, "mine")
    if verb == "resume":
        ann.faber("run", "resume", "mine")
        assert (ann.root / ACTIVE).read_text() == "mine\n"
        ann.faber("seal")
        assert ann.staged() == {ACTIVE: "mine\n"}
        ann.git("reset", "-q", ACTIVE)
    else:
        ann.faber("run", "start", "--work-id", "2", "--run-id", "next", "--yes")
    expected = "mine" if verb == "resume" else "next"
    assert ann.active == expected
    ann.git("checkout", "--", ACTIVE)
    assert (ann.root / ACTIVE).read_text() == "bob\n"
    assert ann.active == expected


def test_a_name_that_was_put_back_is_gits_word_though_it_was_committed_here(main_names: Developer) -> None:
    ann = main_names
    ann.start("mine")
    make_ready(ann, "mine")
    (ann.root / "code.py").write_text("y\n")
    ann.git("commit", "-qam", "more", "--amend")
    ann.git("checkout", "-q", "main")
    ann.git("checkout", "-q", "mine")
    os.utime(ann.root / ACTIVE)
    assert ann.active == "mine"
    (ann.root / ".git/faber-ledger-run").unlink()
    assert "git brought" in ann.why
    (ann.root / ACTIVE).write_text("mine\n")
    ann.git("commit", "-qam", "a tool names mine")
    (ann.root / ACTIVE).write_text("bob\n")
    ann.git("commit", "-qam", "a tool names bob")
    assert ann.why == f"named in {ACTIVE}, which was written here"


def test_a_stash_does_not_make_it_a_word_of_this_work_tree(main_names: Developer) -> None:
    ann = main_names
    ann.start("mine")
    ann.faber("seal", "--ready")
    ann.git("stash", "-q")
    assert ((ann.root / ACTIVE).read_text(), ann.active) == ("mine\n", "mine")
    ann.git("stash", "pop", "-q")
    assert ((ann.root / ACTIVE).read_text(), ann.active) == ("bob\n", "mine")
    ann.git("commit", "-qam", "ready")
    assert ann.active == "mine"


def test_a_run_that_was_begun_on_main_is_not_named_again_by_a_put_back(ann: Developer) -> None:
    ann.faber("run", "start", "--work-id", "9", "--run-id", "earlier", "--yes")
    ann.commit("a run on main")
    ann.git("push", "-q", "origin", "main")
    ann.start("mine")
    make_ready(ann, "mine")
    assert ((ann.root / ACTIVE).read_text(), ann.active) == ("earlier\n", "mine")
    (ann.root / ACTIVE).write_text("x\n")
    ann.git("checkout", "--", ACTIVE)
    assert ((ann.root / ACTIVE).read_text(), ann.active) == ("earlier\n", "mine")


# What is left as it is


def test_without_a_remote_the_file_stays_and_a_line_says_so(tmp_path: Path) -> None:
    one = Developer(tmp_path / "one")
    one.root.mkdir()
    one.git("init", "-q", "-b", "main")
    one.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    one.release("mine")
    done = one.faber("run", "finish")
    line = f"note: {ACTIVE} still names mine, since this repository has no remote: once it has one, run "
    assert done.stderr == f"{line}`faber-ledger seal mine` before a pull request\n"
    assert "staged" in one.faber("seal").stdout
    assert one.staged() == {ACTIVE: "mine\n"}
    assert one.active == "mine"


def test_without_a_merge_base_the_file_stays_and_a_line_says_so(site: Site, ann: Developer) -> None:
    ann.git("update-ref", "-d", "refs/remotes/origin/main")
    ann.git("symbolic-ref", "-d", "refs/remotes/origin/HEAD")
    ann.git("checkout", "-q", "--orphan", "mine")
    ann.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    ann.commit("alone")
    assert (
        "the remote's default branch is not known here: run `git remote set-branches origin '*' && git fetch`, then"
        in ann.faber("seal", "--ready").stderr
    )
    ann.git("fetch", "-q")
    assert "git knows no common commit of HEAD and refs/remotes/origin/main" in ann.faber("seal", "--ready").stderr
    assert ann.staged() == {ACTIVE: "mine\n"}


def test_a_commit_of_named_paths_has_only_those(site: Site) -> None:
    ann = Developer.of(site, "ann", "--pre-commit")
    ann.start("mine")
    ann.release("mine", status="completed")
    (ann.root / "code.py").write_text("y\n")
    ann.git("commit", "-qm", "code alone", "code.py")
    assert ann.git("diff", "--name-only", "HEAD~", "HEAD").split() == ["code.py"]
    assert ann.staged() == {ACTIVE: "mine\n"}
    assert (ann.root / ACTIVE).read_text() == "mine\n"
    (ann.root / "code.py").write_text("z\n")
    ann.git("commit", "-qam", "all")
    assert ann.git("ls-tree", "--name-only", "HEAD", ACTIVE) == ""
    assert ann.git("status", "--porcelain") == ""


@pytest.mark.parametrize("way", ["add", "all"])
def test_a_commit_through_the_hook_has_it(site: Site, way: str) -> None:
    ann = Developer.of(site, "ann", "--pre-commit")
    ann.start("mine")
    ann.release("mine", status="completed")
    ann.git("add", "-A")
    ann.git("commit", "-qm", "complete", *(["-a"] if way == "all" else []))
    assert ann.git("ls-tree", "--name-only", "HEAD", ACTIVE) == ""
    assert ann.git("status", "--porcelain") == ""
    assert ann.active == "mine"


@pytest.mark.parametrize("kind", ["another run", "link", "directory", "link above"])
def test_what_is_not_ours_is_left_alone(ann: Developer, kind: str) -> None:
    """The other active file names the run, so that it is active, and is put back."""
    for folder in (".fractary/runs", FABERS):
        (ann.root / folder).mkdir(parents=True)
    ann.start("mine")
    path, outside = ann.root / SECOND, ann.root.parent / "outside"
    outside.mkdir()
    (outside / ".active-run-id").write_text("mine\n")
    path.unlink()
    if kind == "another run":
        path.write_text("tools-run\n")
    elif kind == "link":
        path.symlink_to(outside / ".active-run-id")
    elif kind == "directory":
        path.mkdir()
        (path / "file").write_text("x")
    else:
        path.parent.rmdir()
        path.parent.symlink_to(outside)
    assert ann.faber("seal", "mine", "--ready").stdout.endswith(f"; put back {ACTIVE}\n")
    assert (outside / ".active-run-id").read_text() == "mine\n"
    assert os.path.lexists(path)
    assert ann.staged() == {SECOND: "mine\n"}


def test_an_ignored_second_file_is_left_alone(ann: Developer) -> None:
    (ann.root / FABERS).mkdir(parents=True)
    (ann.root / ".gitignore").write_text(f"/{SECOND}\n")
    ann.start("mine")
    ann.faber("seal", "--ready")
    assert (ann.root / SECOND).read_text() == "mine\n"
    assert not (ann.root / ACTIVE).exists()
    assert ann.active == "mine"


def test_a_file_that_is_left_out_of_the_work_tree_stays_so(main_names: Developer) -> None:
    ann = main_names
    (ann.root / FABERS).mkdir(parents=True)
    ann.start("mine")
    ann.git("update-index", "--skip-worktree", ACTIVE)
    (ann.root / ACTIVE).unlink()
    assert f"put back {ACTIVE}, {SECOND}" in ann.faber("seal", "mine", "--ready").stdout
    assert ann.git("ls-files", "-t", ACTIVE) == f"S {ACTIVE}\n"
    assert ann.staged() == {ACTIVE: "bob\n"}
    assert not (ann.root / ACTIVE).exists()
    assert "put back" not in ann.faber("seal").stdout


def test_in_a_merge_that_is_committed_next_the_file_gets_what_the_other_side_has(
    site: Site, main_names: Developer
) -> None:
    ann = main_names
    ann.start("mine")
    (ann.root / "code.py").write_text("ann\n")
    ann.commit("code")
    carl = Developer.of(site, "carl")
    carl.start("carl")
    (carl.root / "code.py").write_text("carl\n")
    carl.commit("code")
    carl.git("push", "-q", "origin", "carl:main")
    ann.git("fetch", "-q")
    ann.git("merge", "-q", "origin/main", code=1)
    (ann.root / "code.py").write_text("both\n")
    ann.git("add", "code.py")
    ann.faber("seal", "--ready")
    ann.git("commit", "-qm", "merge")
    assert ann.git("diff", "--name-only", "origin/main", "HEAD", "--", ACTIVE) == ""
    assert ((ann.root / ACTIVE).read_text(), ann.active) == ("carl\n", "mine")


# Other work trees


def test_other_work_trees_are_not_affected(ann: Developer) -> None:
    ann.faber("run", "start", "--work-id", "9", "--run-id", "of-main", "--yes")
    ann.git("worktree", "add", "-q", "-b", "mine", "../linked", "origin/main")
    linked = Developer(ann.root.parent / "linked")
    linked.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    linked.hook("SessionStart", source="startup")
    linked.commit("mine")
    linked.faber("seal", "--ready")
    linked.git("commit", "-qm", "ready")
    assert (linked.active, ann.active) == ("mine", "of-main")
    ann.git("merge", "-q", "mine")
    assert (linked.active, ann.active) == ("mine", "of-main")
    assert (ann.root / ACTIVE).read_text() == "of-main\n"
    done = ann.call(str(COMMAND), "run", "finish", "mine")
    assert f"is active in {linked.root}" in done.stderr


def test_a_merge_driver_knows_the_run_of_this_work_tree(main_names: Developer) -> None:
    """A branch that has put the file back is merged with one that names a run still."""
    ann = main_names
    ann.start("mine")
    ann.git("branch", "before")
    make_ready(ann, "mine")
    ann.git("checkout", "-q", "before")
    (ann.root / "code.py").write_text("y\n")
    ann.commit("more")
    ann.git("merge", "-q", "mine")
    assert (ann.root / ACTIVE).read_text() == "bob\n"
    assert ann.active == "mine"


@pytest.mark.parametrize("how", ["merge", "squash"])
def test_after_the_merge_a_worktree_is_cleaned_up_without_a_put_back(site: Site, ann: Developer, how: str) -> None:
    ann.git("worktree", "add", "-q", "-b", "mine", "../linked", "origin/main")
    linked = Developer(ann.root.parent / "linked")
    linked.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    linked.release("mine")
    linked.commit("mine")
    linked.git("push", "-q", "origin", "mine")
    site.merge("mine", how)
    ann.git("pull", "-q")
    assert "put back" not in linked.faber("run", "finish").stdout.lower()
    assert f"removed: {linked.root}" in ann.faber("worktree", "cleanup").stdout


def test_a_worktree_is_cleaned_up_after_its_put_back(site: Site, ann: Developer) -> None:
    ann.git("worktree", "add", "-q", "-b", "mine", "../linked", "origin/main")
    linked = Developer(ann.root.parent / "linked")
    linked.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    linked.commit("mine")
    linked.release("mine")
    assert f"Put back before the merge: {ACTIVE}" in linked.faber("run", "finish").stdout
    linked.faber("seal")
    linked.git("commit", "-qm", "finish")
    linked.git("push", "-q", "origin", "mine")
    site.merge("mine", "squash")
    ann.git("pull", "-q")
    assert f"removed: {linked.root}" in ann.faber("worktree", "cleanup").stdout


def test_a_commit_through_the_hook_has_it_in_a_linked_worktree(site: Site) -> None:
    ann = Developer.of(site, "ann", "--pre-commit")
    ann.git("worktree", "add", "-q", "-b", "mine", "../linked", "origin/main")
    one = Developer(ann.root.parent / "linked")
    one.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    one.commit("mine")
    assert one.git("ls-tree", "--name-only", "HEAD", ACTIVE) == f"{ACTIVE}\n"
    one.release("mine", status="completed")
    one.git("commit", "-qam", "complete")
    assert one.git("ls-tree", "--name-only", "HEAD", ACTIVE) == ""
    assert (one.git("status", "--porcelain"), one.active) == ("", "mine")


def test_a_project_in_a_folder_of_the_repository_has_its_own_file(ann: Developer) -> None:
    ann.git("checkout", "-q", "-b", "mine")
    one = Developer(ann.root / "project")
    (one.root / ".fractary").mkdir(parents=True)
    one.faber("init", "--git-only")
    one.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    one.commit("mine")
    assert one.git("ls-tree", "--name-only", "HEAD", ACTIVE) == f"{ACTIVE}\n"
    assert one.faber("seal", "--ready").stdout.endswith(f"; put back {ACTIVE}\n")
    one.git("commit", "-qm", "ready")
    assert one.git("ls-tree", "--name-only", "HEAD", ACTIVE) == ""
    assert (one.git("status", "--porcelain"), one.active) == ("", "mine")


@pytest.mark.parametrize("how", ["pull", "merge", "rebase", "checkout"])
def test_another_clones_put_back_leaves_this_work_tree_on_its_run(site: Site, ann: Developer, how: str) -> None:
    ann.start("mine")
    ann.git("push", "-q", "-u", "origin", "mine")
    bob = Developer.of(site, "bob")
    bob.git("checkout", "-q", "mine")
    bob.faber("run", "resume", "mine")
    assert f"put back {ACTIVE}" in bob.faber("seal", "--ready").stdout
    bob.commit("ready")
    bob.git("push", "-q", "origin", "HEAD:mine")
    if how == "checkout":
        ann.git("fetch", "-q")
        ann.git("checkout", "-q", "-b", "next", "origin/mine")
    else:
        if how != "pull":
            (ann.root / "code").write_text("more")
            ann.commit("code")
        ann.git("pull", "-q", {"pull": "--ff-only", "merge": "--no-rebase", "rebase": "--rebase"}[how])
    assert not (ann.root / ACTIVE).exists()
    assert ann.active == "mine"
    printed, _ = ann.hook("SessionStart", "another", source="startup")
    assert "additionalContext" in printed
    assert "mine" in printed
    # An active file that somebody removes here by an ordinary commit makes no run active.
    ann.faber("run", "resume", "mine")
    ann.commit("named again")
    ann.git("rm", "-q", ACTIVE)
    ann.git("commit", "-qm", "removed")
    assert ann.active is None


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_what_is_no_file_in_the_merge_base_is_left_and_said(site: Site, kind: str) -> None:
    ann = Developer.of(site, "ann")
    path = ann.root / ACTIVE
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to("elsewhere")
    else:
        path.mkdir()
        (path / "file").write_text("")
    ann.git("add", "-A")
    ann.git("commit", "-qm", "odd")
    ann.git("push", "-q", "origin", "HEAD:main")
    ann.git("rm", "-qr", ACTIVE)
    ann.faber("run", "start", "--work-id", "1", "--run-id", "mine", "--yes")
    ann.commit("mine")
    assert f"{ACTIVE} still names mine" in ann.faber("seal", "--ready").stderr
    assert path.read_text() == "mine\n"


def test_the_pre_commit_hook_seals_each_project_of_a_repository(ann: Developer) -> None:
    names = ("a", "b's $(touch x)")
    for name in names:
        (ann.root / name / ".fractary").mkdir(parents=True)
        Developer(ann.root / name).faber("init", "--git-only", "--pre-commit")
    ann.git("add", "-A")
    ann.git("commit", "-qm", "projects")
    ann.git("push", "-q", "origin", "HEAD:main")
    ann.git("fetch", "-q")
    ann.git("checkout", "-q", "-b", "mine")
    projects = [Developer(ann.root / name) for name in names]
    for project in projects:
        project.faber("run", "start", "--work-id", "1", "--run-id", project.root.name[0], "--yes")
    ann.commit("work")
    for project in projects:
        run = project.root.name[0]
        assert project.git("ls-tree", "--name-only", "HEAD", ACTIVE) == f"{ACTIVE}\n"
        state = project.root / f".fractary/runs/{run}/state.json"
        state.write_text(json.dumps(json.loads(state.read_text()) | {"status": "completed"}, indent=2) + "\n")
    ann.git("commit", "-qam", "complete")
    for project in projects:
        assert project.git("ls-tree", "--name-only", "HEAD", ACTIVE) == ""
    assert not (ann.root / "x").exists()
    hook = ann.root / ".git/hooks/pre-commit"
    assert projects[0].faber("uninstall").returncode == 0
    assert hook.read_text().count("faber-ledger seal") == 1
    assert projects[1].faber("uninstall").returncode == 0
    assert not hook.exists()
