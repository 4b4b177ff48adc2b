"""What `init` registers with git, and what git then does: merge drivers, text in a diff, a pre-commit hook."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.clones import LEDGER, STATE, Clone, forge
from support.command import COMMAND

from faber_ledger.runs.git_command import TEXT_CACHE


def config(clone: Clone) -> str:
    return (clone.root / ".git/config").read_text()


# --- merging


def test_a_forged_event_of_theirs_is_left_out_of_the_merge(one: Clone, other: Clone) -> None:
    one.advance("here")
    ours = one.ids()
    other.record("there")
    forge(other.ledger, "CAST(x'ff' AS TEXT)")
    other.commit("forged")
    done = one.git("pull", "--no-rebase", "../other", "main")
    assert f"faber-ledger: {LEDGER}: event " in done
    assert "is left out: " in done
    assert one.ids() >= ours
    one.assert_sound()


def test_a_ledger_of_a_newer_format_is_a_conflict(one: Clone, other: Clone) -> None:
    one.advance("here")
    other.advance("there")
    with sqlite3.connect(other.ledger) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    other.git("commit", "-qam", "newer")
    before = one.ledger.read_bytes()
    output = one.git("pull", "--no-rebase", "../other", "main", code=1)
    assert "; our version and the conflict stay\n" in output
    assert one.ledger.read_bytes() == before
    assert f"UU {LEDGER}" in one.git("status", "--porcelain")
    assert f"left      {LEDGER}: " in one.faber("resolve", code=1).stdout


def test_two_machines_that_start_the_same_run_apart_are_united(tmp_path: Path) -> None:
    """The base of such a merge has neither file."""
    one = Clone.first(tmp_path / "one")
    state = one.state_path.read_bytes()
    one.git("rm", "-rq", "--cached", ".fractary/runs")
    one.git("commit", "-q", "--amend", "-m", "no run yet")
    other = one.clone("other")
    other.state_path.parent.mkdir(parents=True)
    other.state_path.write_bytes(state)
    one.advance("here")
    other.advance("there")
    both = one.ids() | other.ids()
    assert len(both) > len(other.ids())
    one.git("pull", "-q", "--no-rebase", "../other", "main")
    assert one.ids() == both


def test_a_file_that_is_not_ours_is_left_in_conflict(one: Clone) -> None:
    done = one.call(str(COMMAND), "merge-driver", "a", "b", "c", "src/main.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "faber-ledger: src/main.py: faber-ledger does not merge this file; our version and the conflict stay\n"
    )


def test_the_driver_works_inside_a_git_hooks_environment(one: Clone, other: Clone) -> None:
    one.change(status="paused")
    one.commit("here")
    other.change(work_id="9")
    other.commit("there")
    one.git("fetch", "-q", "../other", "main")
    for name, revision in (("O", "HEAD~1"), ("A", "HEAD"), ("B", "FETCH_HEAD")):
        (one.root / name).write_text(one.git("show", f"{revision}:{STATE}"))
    done = one.call(str(COMMAND), "merge-driver", "O", "A", "B", STATE, GIT_DIR=".git", GIT_INDEX_FILE=".git/index")
    assert (done.returncode, done.stderr) == (0, "")
    merged = json.loads((one.root / "A").read_text())
    assert (merged["status"], merged["work_id"]) == ("paused", "9")


# --- words


def test_git_diff_and_git_log_show_events_in_words(one: Clone) -> None:
    one.advance("next")
    one.record("newest")
    shown = one.git("diff", "--", LEDGER)
    assert "+" in shown
    assert "session started (startup) on one, in build" in shown
    logged = one.git("log", "-p", "-1", "--", LEDGER)
    assert any(line.startswith("+") and "session started (startup)" in line for line in logged.splitlines())
    assert "Binary files" not in shown + logged


def test_a_file_that_is_no_ledger_becomes_a_line(one: Clone) -> None:
    one.ledger.write_bytes(b"\x1b[31mnothing")
    assert "+(not shown: the file is not a SQLite database)" in one.git("diff", "--", LEDGER)
    assert one.faber("textconv", "nowhere.db").stdout == "(not shown: there is no ledger at the file)\n"
    assert one.faber("textconv", ".").stdout == "(not shown: the file is not a regular file)\n"
    (one.root / "a").write_text("x\n")
    assert one.faber("textconv", "a").stdout == "(not shown: the file is not a SQLite database)\n"


# --- what init tells git, and uninstall takes back


def test_git_only_leaves_the_clients_settings_alone(one: Clone) -> None:
    assert not (one.root / ".claude").exists()
    assert (one.root / ".fractary/.gitattributes").exists()
    assert one.git("config", "--local", "merge.faber-ledger.driver") == "faber-ledger merge-driver %O %A %B -- %P\n"
    assert one.git("config", "--local", "diff.faber-ledger.textconv") == "faber-ledger textconv\n"
    assert one.git("config", "--local", "merge.autoStash") == "true\n"
    assert one.git("config", "--local", "rebase.autoStash") == "true\n"


def test_attributes_reach_runs_in_both_layouts_and_nothing_else(one: Clone) -> None:
    for path, driver in (
        (LEDGER, "faber-ledger"),
        (STATE, "faber-ledger"),
        (".fractary/faber/runs/org/project/x/ledger.db", "faber-ledger"),
        (".fractary/faber/runs/org/project/x/state.json", "faber-ledger"),
        (".fractary/plugins/state.json", "unspecified"),
        ("state.json", "unspecified"),
    ):
        assert one.git("check-attr", "merge", "--", path) == f"{path}: merge: {driver}\n"
    assert one.git("check-attr", "text", "--", LEDGER) == f"{LEDGER}: text: unset\n"


def test_uninstall_removes_exactly_what_init_set(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "new")
    clone.root.mkdir()
    clone.git("init", "-q")
    before = config(clone)
    clone.faber("init", "--pre-commit")
    assert "git config --local --unset-all merge.autoStash" in clone.faber("uninstall", "--dry-run").stdout
    clone.faber("uninstall")
    assert config(clone) == before
    assert not (clone.root / ".fractary").exists()
    assert not (clone.root / ".git/hooks/pre-commit").exists()
    assert clone.faber("uninstall").stdout == "nothing to remove from .claude/settings.json\n"


@pytest.mark.parametrize("choice", ["true", "false"])
def test_a_setting_that_the_user_has_chosen_stays(tmp_path: Path, choice: str) -> None:
    clone = Clone(tmp_path / "new")
    clone.root.mkdir()
    clone.git("init", "-q")
    clone.git("config", "--local", "merge.autoStash", choice)
    clone.faber("init", "--git-only")
    assert clone.git("config", "--local", "merge.autoStash") == f"{choice}\n"
    clone.git("config", "--local", "merge.faber-ledger.driver", "somebody's own")
    clone.faber("uninstall")
    assert clone.git("config", "--local", "merge.autoStash") == f"{choice}\n"
    assert clone.git("config", "--local", "merge.faber-ledger.driver") == "somebody's own\n"
    assert clone.git("config", "--local", "--get", "rebase.autoStash", code=1) == ""


def test_without_a_repository_the_files_are_written_and_git_is_not_asked(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "plain")
    (clone.root / ".fractary").mkdir(parents=True)
    done = clone.faber("init", "--git-only")
    assert "note: this is not a git repository" in done.stderr
    assert "git config" not in done.stdout
    assert "this is not a git repository" in clone.faber("init", "--pre-commit", code=1).stderr


# --- the hook before a commit


def hook_of(clone: Clone) -> Path:
    return clone.root / ".git/hooks/pre-commit"


def test_a_commit_includes_the_ledger_and_nothing_else(one: Clone) -> None:
    one.faber("init", "--pre-commit")
    one.commit("set up")
    one.record("next")
    (one.root / "code.py").write_text("x = 1\n")
    (one.root / "unsaid.py").write_text("x = 2\n")
    one.git("add", "code.py")
    one.git("commit", "-qm", "Code")
    assert one.git("show", "--name-only", "--format=", "HEAD").split() == [LEDGER, STATE, "code.py"]
    assert one.git("status", "--porcelain") == "?? unsaid.py\n"


@pytest.mark.parametrize("option", ["-a", "--amend"])
def test_every_way_to_commit_a_change_includes_the_newest_events(one: Clone, option: str) -> None:
    one.record("next")
    (one.root / "code.py").write_text("x = 1\n")
    one.git("add", "code.py")
    one.git("commit", "-qm", "Code", option)
    assert {LEDGER, STATE, "code.py"} <= {*one.git("show", "--name-only", "--format=", "HEAD").split()}
    assert one.git("status", "--porcelain") == ""


def test_the_hook_joins_an_existing_one_and_leaves_no_trace(one: Clone) -> None:
    theirs = "#!/usr/bin/env bash\nset -e\ntouch they-ran\nexit 0\n"
    hook_of(one).parent.mkdir(exist_ok=True)
    hook_of(one).write_text(theirs)
    hook_of(one).chmod(0o755)
    one.faber("init", "--pre-commit")
    before = hook_of(one).read_text()
    one.faber("init", "--pre-commit")
    assert hook_of(one).read_text() == before
    one.record("next")
    one.git("add", ".claude")
    one.git("commit", "-qm", "Code")
    assert (one.root / "they-ran").exists()
    assert LEDGER in one.git("show", "--name-only", "--format=", "HEAD")
    one.faber("uninstall")
    assert hook_of(one).read_text() == theirs
    assert os.access(hook_of(one), os.X_OK)


def test_a_hook_in_another_language_is_refused_with_what_to_add(one: Clone) -> None:
    hook_of(one).parent.mkdir(exist_ok=True)
    hook_of(one).write_text("#!/usr/bin/env python3\n")
    hook_of(one).chmod(0o755)
    output = one.faber("init", "--pre-commit", code=1).stderr
    assert "is not a shell script" in output
    assert "faber-ledger seal" in output
    assert hook_of(one).read_text() == "#!/usr/bin/env python3\n"
    assert not (one.root / ".claude").exists()


def test_hooks_kept_in_the_repository_are_found(one: Clone) -> None:
    hook_of(one).unlink()
    one.git("config", "core.hooksPath", ".githooks")
    one.faber("init", "--pre-commit")
    one.commit("set up")
    one.record("next")
    (one.root / "code.py").write_text("x = 1\n")
    one.git("add", "code.py")
    one.git("commit", "-qm", "Code")
    assert LEDGER in one.git("show", "--name-only", "--format=", "HEAD")
    assert not hook_of(one).exists()


def test_a_machine_without_the_program_can_commit(one: Clone, tmp_path: Path) -> None:
    one.faber("init", "--pre-commit")
    for program in ("git", "sh"):
        found = shutil.which(program)
        assert found
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / program).symlink_to(found)
    done = one.call("git", "commit", "-qm", "Code", "--allow-empty", PATH=str(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (0, "")


# --- git's cache of ledgers as text


def test_git_keeps_the_text_of_ledgers_and_uninstall_removes_it(one: Clone) -> None:
    assert one.git("config", "--local", "diff.faber-ledger.cachetextconv") == "true\n"
    one.git("log", "-p", "--", LEDGER)
    assert one.git("for-each-ref", "--format=%(refname)", "refs/notes") == f"{TEXT_CACHE}\n"
    assert f"git update-ref -d {TEXT_CACHE}" in one.faber("uninstall", "--dry-run").stdout
    assert f"removed    {TEXT_CACHE}: git's cache of ledgers as text\n" in one.faber("uninstall").stdout
    assert one.git("for-each-ref", "refs/notes") == ""
    assert one.call("git", "config", "--local", "diff.faber-ledger.cachetextconv").returncode == 1
    assert one.faber("uninstall").stdout.startswith("nothing to remove from .claude/settings.json\n")


def test_where_git_cannot_commit_it_keeps_no_text_and_still_shows_ledgers(one: Clone) -> None:
    """Git makes a commit for its cache, and `git log -p` ends with 128 where it knows no name and email."""
    nobody: Any = {f"GIT_{role}_{what}": "" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    one.git("config", "user.useConfigOnly", "true")
    assert one.call("git", "log", "-p", "--", LEDGER, **nobody).returncode == 128
    planned = one.call(str(COMMAND), "init", "--git-only", "--dry-run", **nobody).stdout
    assert planned == "git config --local --unset-all diff.faber-ledger.cachetextconv\n"
    one.call(str(COMMAND), "init", "--git-only", **nobody)
    logged = one.call("git", "log", "-p", "--", LEDGER, **nobody)
    assert (logged.returncode, "session started" in logged.stdout) == (0, True)
    assert one.call(str(COMMAND), "init", "--git-only", "--dry-run", **nobody).stdout == "nothing to change\n"
    assert (
        one.faber("init", "--git-only", "--dry-run").stdout
        == "git config --local diff.faber-ledger.cachetextconv 'true'\n"
    )


def test_a_hooks_folder_of_several_repositories_is_left_alone(one: Clone, tmp_path: Path) -> None:
    one.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    output = one.faber("init", "--pre-commit", code=1).stderr
    assert f"git's pre-commit hook is {tmp_path}/hooks/pre-commit, outside this repository" in output
    assert not (tmp_path / "hooks").exists()


def test_a_hook_that_links_outside_the_repository_is_left(one: Clone, tmp_path: Path) -> None:
    hook = one.root / ".git/hooks/pre-commit"
    hook.unlink()
    hook.symlink_to(tmp_path / "gone")
    output = one.faber("init", "--pre-commit", code=1).stderr
    assert f"git's pre-commit hook is {tmp_path}/gone, outside this repository" in output
    assert not (tmp_path / "gone").exists()
