"""`faber-ledger seal`, `run forget`, and what `verify` says of a log that git has rolled back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.clones import ACTIVE, FOLDER, LEDGER, RUN, STATE, Clone
from support.command import COMMAND
from support.project import usual_state

from faber_ledger.ledger.log import Log


def types_in(path: Path) -> list[str]:
    with Log.read(str(path)) as log:
        return [one["event"]["type"] for one in log.stream()]


def staged(clone: Clone) -> list[str]:
    return clone.git("diff", "--cached", "--name-only").split()


# --- seal


WITHOUT_EVENTS = [
    ["seal"],
    ["seal", RUN],
    ["seal", "--all"],
    ["project"],
    ["verify"],
    ["doctor"],
    ["run", "resume", RUN],
]


def test_a_command_without_an_event_leaves_the_ledger_alone(one: Clone) -> None:
    one.record("next")
    one.faber("seal")
    one.commit("next")
    two = one.clone("two")
    before = two.ledger.read_bytes()
    for command in WITHOUT_EVENTS:
        two.call(str(COMMAND), *command)
        assert two.ledger.read_bytes() == before, command
        assert two.git("status", "--porcelain", "--", ".fractary/runs") == "", command


def test_a_seal_stages_the_runs_files_and_nothing_else(one: Clone) -> None:
    one.record("next")
    (one.root / "code.py").write_text("x\n")
    (one.root / FOLDER / "metadata.json").write_text("{}\n")
    (one.root / FOLDER / "notes.txt").write_text("x\n")
    output = one.faber("seal").stdout
    files = "ledger.db, state.json and metadata.json"
    assert output == f"{RUN}: {len(one.ids())} events; staged {files} in {FOLDER}\n"
    assert staged(one) == sorted([LEDGER, STATE, f"{FOLDER}/metadata.json"])


def test_a_seal_names_the_files_that_it_changed_in_the_index(one: Clone) -> None:
    one.change(notes="ours")
    assert one.faber("seal").stdout.endswith(f"; staged state.json in {FOLDER}\n")
    assert one.faber("seal").stdout == f"{RUN}: {len(one.ids())} events; nothing new to stage\n"
    assert staged(one) == [STATE]


def test_a_seal_brings_back_what_git_took_away(one: Clone) -> None:
    one.record("taken")
    known = one.ids()
    one.git("reset", "-q", "--hard")
    assert "taken" not in one.clients()
    output = one.faber("seal").stdout
    assert f"{RUN}: {len(known)} events; staged" in output
    assert one.ids() == known
    one.assert_sound()
    assert staged(one) == [LEDGER, STATE]


def test_a_seal_counts_no_event_of_another_runs_file(one: Clone) -> None:
    one.faber("run", "start", "--work-id", "9", "--run-id", "other", "--yes")
    for number in range(9):
        one.faber("note", "--run-id", "other", f"note {number}")
    before = len(one.ids())
    shutil.copy(one.root / ".fractary/runs/other/ledger.db", one.ledger)
    assert one.faber("seal", RUN).stdout == (
        f"{RUN}: {before} events of the log are not in the file: the file there is another run's;"
        " the log has all events\n"
    )


def test_a_stale_projection_is_written_before_it_is_staged(one: Clone) -> None:
    one.change(sessions={"current_session_id": None, "total_sessions": 0, "session_history": []})
    one.faber("seal")
    one.assert_sound()
    assert one.git("diff", "--name-only") == ""


def test_a_conflict_is_not_settled_unseen(one: Clone) -> None:
    other = one.clone("other")
    for clone, status in ((one, "paused"), (other, "failed")):
        clone.change(status=status)
        clone.commit(status)
    one.forget_driver()
    one.git("pull", "-q", "--no-rebase", "../other", "main", code=1)
    output = one.faber("seal", code=1).stderr
    assert f"in conflict: {STATE}" in output
    assert "hint: run `faber-ledger resolve`" in output
    assert one.git("diff", "--name-only", "--diff-filter=U") == f"{STATE}\n"


def test_a_seal_of_all_runs_has_a_line_for_each(one: Clone) -> None:
    one.faber("run", "start", "--work-id", "9", "--run-id", "second", "--yes")
    lines = one.faber("seal", "--all").stdout.splitlines()
    assert len(lines) == 2
    assert any(line.startswith("second: 2 events; staged ledger.db, ") for line in lines)
    one.git("reset", "-q")
    data = json.loads(one.faber("seal", "--all", "--json").stdout)["data"]
    assert [run["staged"] for run in data["runs"] if run["run_id"] == "second"] == [
        [f".fractary/runs/second/{name}" for name in ("ledger.db", "state.json", "metadata.json")]
    ]


def test_without_a_run_a_ledger_or_git_there_is_nothing_to_seal(one: Clone, tmp_path: Path) -> None:
    one.put({**one.state, "status": "completed"})
    (one.root / ACTIVE).unlink()
    said = "nothing to seal: no run is active here; run `faber-ledger run list` to see the runs of this clone\n"
    assert one.faber("seal").stdout == said
    shutil.copytree(one.root / ".fractary", tmp_path / "plain" / ".fractary")
    plain = Clone(tmp_path / "plain")
    (one.root / ACTIVE).write_text("no-such-run\n")
    assert one.faber("seal").stdout.startswith("nothing to seal: ")
    assert plain.faber("seal", RUN).stdout == (
        "nothing to seal: there is no git repository here, so there is nothing to stage\n"
    )


def test_a_seal_begins_a_ledger_for_this_clones_run(one: Clone) -> None:
    folder = one.root / ".fractary/runs/by-a-tool"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps(usual_state("by-a-tool")))
    (one.root / ACTIVE).write_text("by-a-tool\n")
    assert one.faber("seal").stdout.startswith("by-a-tool: 1 event; staged ledger.db")
    assert types_in(folder / "ledger.db") == ["run_adopted"]


def test_a_seal_begins_no_ledger_for_another_clones_run(one: Clone) -> None:
    folder = one.root / ".fractary/runs/by-a-tool"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps(usual_state("by-a-tool")))
    one.commit("a tool's run", "--no-verify")
    two = one.clone("two")
    two.name_run("by-a-tool")
    done = two.call(str(COMMAND), "seal", "by-a-tool")
    assert "no ledger" in done.stdout + done.stderr
    assert not (two.root / ".fractary/runs/by-a-tool/ledger.db").exists()


def test_the_index_that_git_names_is_the_one_that_is_written(one: Clone) -> None:
    one.record("next")
    shutil.copy2(one.root / ".git/index", one.root / ".git/other-index")  # by its time git knows what may be new
    done = one.call(str(COMMAND), "seal", GIT_INDEX_FILE=".git/other-index")
    assert done.returncode == 0, done.stderr
    assert staged(one) == []
    done = one.call("git", "diff", "--cached", "--name-only", GIT_INDEX_FILE=".git/other-index")
    assert done.stdout.split() == [LEDGER, STATE]


def test_the_index_of_another_repository_is_left_alone(one: Clone, tmp_path: Path) -> None:
    blog = tmp_path / "blog"
    one.git("init", "-q", str(blog))
    (blog / "post").write_text("x")
    one.git("-C", str(blog), "add", "post")
    before = (blog / ".git/index").read_bytes()
    one.record("next")
    done = one.call(str(COMMAND), "seal", GIT_DIR=str(blog / ".git"), GIT_INDEX_FILE=str(blog / ".git/index"))
    assert done.returncode == 0, done.stderr
    assert staged(one) == [LEDGER, STATE]
    assert (blog / ".git/index").read_bytes() == before


def test_what_git_ignores_is_an_error_with_gits_message(one: Clone) -> None:
    one.git("rm", "-rq", "--cached", ".fractary/runs")
    (one.root / ".git/info/exclude").write_text("*.db\n")
    assert "`git add` failed: The following paths are ignored" in one.faber("seal", code=1).stderr


# --- where state.json is missing


COPY = Path(f".git/faber-ledger/runs/{RUN}/state.json")


def without(clone: Clone, *more: Path) -> None:
    """Remove state.json, and other copies of it."""
    for path in (clone.state_path, *more):
        path.unlink(missing_ok=True)


def test_a_seal_without_a_state_names_what_writes_one(one: Clone) -> None:
    without(one)
    done = one.faber("seal", code=1)
    assert done.stderr == (
        f"error: the run {RUN} has no state.json\n\nhint: run `faber-ledger project {RUN}`, which writes one\n"
    )
    assert staged(one) == []
    one.faber("project", RUN)
    assert one.faber("seal").stdout.startswith(f"{RUN}: ")
    one.assert_sound()


def test_project_restores_a_state_from_copy_backup_or_git(one: Clone) -> None:
    copy, backup = one.root / COPY, one.state_path.with_name("state.json.backup")
    one.change(mine="in git")
    one.commit("the state")
    text = one.state_path.read_text()
    backup.write_text(text.replace("in git", "in the backup"))
    copy.write_text(text.replace("in git", "in the copy"))
    for source, value, gone in (
        ("this clone's copy", "in the copy", []),
        ("state.json.backup", "in the backup", [copy]),
        ("git's last commit", "in git", [copy, backup]),
    ):
        without(one, *gone)
        said = f"{RUN}: state.json restored from {source}, and the log projected onto it\n"
        assert one.faber("project", RUN).stdout == said
        assert one.state["mine"] == value
        one.assert_sound()


# --- run forget


def test_a_run_that_is_committed_on_another_branch_is_not_gone(one: Clone) -> None:
    one.git("checkout", "-q", "-b", "topic")
    one.faber("run", "start", "--work-id", "9", "--run-id", "on-topic", "--yes")
    one.commit("a run on a branch")
    one.git("checkout", "-q", "main")
    assert not (one.root / ".fractary/runs/on-topic/ledger.db").exists()
    kept = one.faber("run", "forget", "on-topic", "--yes", code=1).stderr
    assert "the run on-topic still exists: refs/heads/topic" in kept
    one.git("branch", "-q", "-D", "topic")
    assert "this would remove the log of on-topic" in one.faber("run", "forget", "on-topic", code=1).stderr


def test_a_run_that_is_gone_is_forgotten_with_yes_alone(one: Clone) -> None:
    one.faber("run", "start", "--work-id", "9", "--run-id", "org/second", "--yes")
    folder = one.root / ".git/faber-ledger/runs/org+second"
    output = one.faber("run", "forget", "org/second", "--yes", code=1).stderr
    assert "the run org/second still exists: " in output
    shutil.rmtree(one.root / ".fractary/runs/org")
    asked = one.faber("run", "forget", "org/second", code=1).stderr
    assert "this would remove the log of org/second, with 2 events; no commit has the run" in asked
    assert "`faber-ledger run resume org/second` restores the run" in asked
    assert folder.exists()
    done = one.faber("run", "forget", "org/second", "--yes")
    assert done.stdout == "removed the log of org/second, with 2 events\n"
    assert not folder.exists()
    assert (one.root / f".git/faber-ledger/runs/{RUN}/log.db").exists()
    assert "there is no run org/second" in one.faber("run", "forget", "org/second", code=10).stderr
    assert f"the run {RUN} still exists" in one.faber("run", "forget", RUN[:-3], code=1).stderr
