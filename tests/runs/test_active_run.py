"""Which run is active: the rule of DECISIONS 2, as a table of situations from a person's days.

Each line has the situation; what the active file names ("ghost" does not exist, "A tracked" is committed); the branch
that is checked out; the runs A, B and C, each with its status and what else is known of it; the run that commands mean,
and the run of a start ("-": none); and a part of the line that the user sees.

Of a run: `on NAME` is the branch in its state, `named on NAME` the one on which `run resume` named it here, `first on
NAME` the one that was recorded first. `mine` and `theirs` say who committed it last. `unused`: this clone has not
recorded on it. `taken up`: a command has recorded on it here. `ledger alone`: git ignores its state.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.project import Project, usual_state

from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import note_use

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.ledger.events import Draft

TABLE = """
situation                                              | file      | branch  | A                              | B                          | C                  | command | start | message
-------------------------------------------------------|-----------|---------|--------------------------------|----------------------------|--------------------|---------|-------|-----
one run, started on main                               | A         | main    | at work                        |                            |                    | A       | A     |
the run's own branch                                   | A         | fa      | at work, on fa                 |                            |                    | A       | A     |
another branch, which is nobody's                      | A         | fix     | at work, on fa                 |                            |                    | A       | A     |
back on main for a moment                              | A         | main    | at work, on fa                 | at work, on fb             |                    | A       | A     |
no branch is checked out                               | A         | (none)  | at work, on fa                 | at work, on fb             |                    | A       | A     |
the branch of another run                              | A         | fb      | at work, on fa                 | at work, on fb             |                    | B       | B     |
the branch of another run that is completed            | A         | fb      | at work, on fa                 | completed, on fb           |                    | B       | A     |
the branch of another run that is cancelled            | A         | fb      | at work, on fa                 | cancelled, on fb           |                    | B       | A     |
two runs of one branch: the file says which            | A         | fa      | at work, on fa                 | at work, on fa             |                    | A       | A     |
resumed on the branch of another run                   | A         | fb      | at work, on fa, named on fb    | at work, on fb             |                    | A       | A     |
a run without a branch, on the branch of another       | A         | fb      | at work                        | at work, on fb             |                    | B       | B     |
a run that was first recorded there                    | A         | fb      | at work, first on fb           | at work, on fb             |                    | A       | A     |
first recorded elsewhere, and the state says nothing   | A         | fb      | at work, first on fa           | at work, on fb             |                    | B       | B     |
what the state says counts more than the first record  | A         | fb      | at work, on fa, first on fb    | at work, on fb             |                    | B       | B     |
paused                                                 | A         | main    | paused                         |                            |                    | A       | A     |
waiting for an answer                                  | A         | main    | awaiting_feedback              |                            |                    | A       | A     |
failed, so that it is tried again                      | A         | main    | failed                         |                            |                    | A       | A     |
finished: it can be ended and sealed, not recorded on  | A         | main    | completed                      |                            |                    | A       | -     |
finished, and the next one's branch is checked out     | A         | fb      | completed, on fa               | at work, on fb             |                    | B       | B     |
finished, on main, and the next one is my own          | A         | main    | completed                      | at work, mine              |                    | B       | B     |
no file, and the branch of a run                       |           | fa      | at work, on fa                 | at work, on fb             |                    | A       | A     |
no file, the newest of a branch                        |           | fa      | at work, on fa, since 1        | at work, on fa, since 2    |                    | B       | B     |
a branch of which only a finished run is               |           | fa      | completed, on fa               |                            |                    | A       | -     |
two finished runs of a branch: the file says which     | A         | fa      | completed, on fa, since 1      | completed, on fa, since 2  |                    | A       | -     |
a second machine, git ignores states                   |           | fa      | ledger alone, first on fa, unused |                         |                    | A       | A     |
a second machine, the branch is only in the record     |           | fa      | at work, first on fa, unused   | at work, on fb, unused     |                    | A       | A     |
started on main, recorded on a branch since            |           | fa      | at work, first on main, first on fa |                       |                    | A       | A     |
a new clone of mine, on main                           |           | main    | at work, mine, unused          | at work, theirs, unused    |                    | A       | A     |
a new clone of mine, my finished run beside it         |           | main    | at work, mine, unused          | completed, mine, unused    |                    | A       | A     |
a new clone of a colleague's, on main                  |           | main    | at work, theirs, unused        |                            |                    | -       | -     |
two runs of mine on main                               |           | main    | at work, mine                  | at work, mine              |                    | -       | -     | 2 runs are at work
the file is lost, nothing is committed                 |           | main    | at work                        |                            |                    | -       | -     | 1 run is at work
nothing was ever started                               |           | main    |                                |                            |                    | -       | -     |
the file names nothing that is here                    | ghost     | main    |                                |                            |                    | -       | -     | names ghost, which is not here
the file names nothing, and a run's branch             | ghost     | fa      | at work, on fa                 |                            |                    | A       | A     | names ghost, which is not here
the file names a path that leads out                   | ../x      | main    | at work                        |                            |                    | -       | -     | is not a run id
an empty file is none                                  | (empty)   | fa      | at work, on fa                 |                            |                    | A       | A     |
a file with a mark, CRLF and spaces                    | (windows) | main    | at work                        |                            |                    | A       | A     |
FABER's own file was written later                     | B, then A | main    | at work                        | at work                    |                    | A       | A     |
git brought a colleague's file                         | A tracked | main    | at work, theirs, unused        |                            |                    | -       | -     | git rm --cached
git brought a colleague's file, and my run is here     | A tracked | main    | at work, theirs, unused        | at work, mine              |                    | B       | B     | git rm --cached
git tracks the file of the run that I work on          | A tracked | main    | at work, theirs                |                            |                    | A       | A     |
git tracks the file, and the run's branch is here      | A tracked | fa      | at work, on fa, theirs, unused |                            |                    | A       | A     |
three runs, and the file decides on main               | C         | main    | at work, on fa                 | at work, on fb             | at work, on fc     | C       | C     |
three runs, and the branch decides                     | C         | fa      | at work, on fa                 | at work, on fb             | at work, on fc     | A       | A     |
"""
COLUMNS, _, *ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().split("\n")]
ACTIVE, FABERS = ".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id"
START = "SessionStart.startup.interactive"
NAMES = {"A": "run-a", "B": "run-b", "C": "run-c", "-": None}


CASES = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


@pytest.mark.parametrize("case", CASES, ids=[row[0].replace(" ", "-") for row in ROWS])
def test_the_rule(case: dict[str, str], tmp_path: Path) -> None:
    project = prepare(tmp_path / "project", case)
    rows = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    assert [row["run_id"] for row in rows if row["active"]] == [*filter(None, [NAMES[case["command"]]])]
    answer = project.deliver(START)
    wanted = NAMES[case["start"]]
    assert answer.code == 0
    assert (f"# FABER run {wanted}" in (answer.packet or "")) == (wanted is not None), answer.packet
    assert (answer.packet is None) == (wanted is None)
    if case["message"] and wanted is None:
        said = answer.message or ""
        assert len(said) <= 120
        if "active file cannot be used: faber-ledger doctor" in said:
            said = project.faber("doctor").stdout
        assert case["message"] in said
    elif case["message"]:
        assert "; bad active file (faber-ledger status)" in (answer.message or "")
        status = project.faber("status")
        assert case["message"] in status.stdout + status.stderr
    else:
        assert "active file" not in (answer.message or "")
        assert "at work" not in (answer.message or "")


def test_a_published_file_is_read_whatever_lock_it_has(tmp_path: Path) -> None:
    case = next(case for case in CASES if "only in the record" in case["situation"])
    project = prepare(tmp_path / "project", case)
    with closing(sqlite3.connect(project.root / ".fractary/runs/run-a/ledger.db")) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert "# FABER run run-a" in (project.deliver(START).packet or "")


def prepare(root: Path, case: dict[str, str]) -> Project:
    """Make the project as a line of the table has it."""
    project = Project.fresh(root)
    project.write(".gitignore", "ledger.db\n" if "ledger alone" not in str(case) else "state.json\n")
    project.commit("Begin")
    for name in "ABC":
        if case[name]:
            make_run(project, NAMES[name] or "", case[name].split(", "))
    if case["branch"] == "(none)":
        project.git("checkout", "--quiet", "--detach")
    elif case["branch"] != "main":
        project.git("checkout", "--quiet", "-b", case["branch"])
    write_file(project, case["file"])
    return project


def make_run(project: Project, run_id: str, words: list[str]) -> None:
    folder = f".fractary/runs/{run_id}"
    status = "in_progress" if words[0] in ("at work", "ledger alone") else words[0]
    state = usual_state(run_id) | {"status": status}
    first, named = [], None
    for word in words[1:]:
        what, _, value = word.rpartition(" ")
        if what == "on":
            state["artifacts"] = {"branch_name": value}
        elif what == "first on":
            first.append(value)
        elif what == "named on":
            named = value
        elif what == "since":
            state["started_at"] = f"2026-01-0{value}T10:00:00Z"
    if "ledger alone" not in words:
        project.write(f"{folder}/state.json", json.dumps(state))
    if first:
        record(project.root / folder / "ledger.db", run_id, first)
    author = "mine" if "mine" in words else "theirs" if "theirs" in words else None
    if author:
        project.git("add", folder)
        email = {"mine": "dev@AUTHOR", "theirs": "colleague@example.org"}[author]
        project.git("commit", "--quiet", "-m", "Work", f"--author=Somebody <{email}>")
    if "unused" not in words:
        note_use(str(project.root), run_id, branch=named)


def record(path: Path, run_id: str, branches: list[str]) -> None:
    """Write a log in which a run's branches are recorded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    started: Draft = {"event": {"type": "run_started", "run_id": run_id, "workflow_id": "w", "work_id": "1"}}
    facts = [started, *[fact for number, branch in enumerate(branches) for fact in session_on(branch, f"s{number}")]]
    with Log.open(str(path)) as log, log.writing():
        log.append(facts, at=1_767_000_000.0, writer="0" * 32)
        log.commit()


def session_on(branch: str, name: str) -> list[Draft]:
    begin: Draft = {
        "event": {
            "type": "session_started",
            "session_id": name,
            "source": "startup",
            "environment": {"hostname": "one", "platform": "linux", "cwd": "/", "git_commit": None},
            "phase": None,
            "step": None,
            "phases_completed": [],
            "empties_context": True,
            "pid": None,
        }
    }
    there: Draft = {
        "event": {
            "type": "checkout_recorded",
            "session_id": name,
            "is_end": False,
            "has_run": True,
            "branch": branch,
            "uncommitted": None,
        }
    }
    return [begin, there]


def write_file(project: Project, named: str) -> None:
    if not named:
        return
    first, is_tracked, _ = named.partition(" tracked")
    if named == "(empty)":
        project.write(ACTIVE, "\n")
    elif named == "(windows)":
        project.write(ACTIVE, b"\xef\xbb\xbf  run-a \r\n")
    elif named == "B, then A":
        project.write(ACTIVE, "run-b\n")
        project.write(FABERS, "run-a\n")
        os.utime(project.root / ACTIVE, (1, 1))
    else:
        project.write(ACTIVE, f"{NAMES.get(first, first)}\n")
    if is_tracked:
        project.git("add", "--force", ACTIVE)
        project.git("commit", "--quiet", "-m", "Their file", "--author=C <colleague@example.org>")


def test_a_linked_work_tree_does_not_take_over_the_main_ones_run(tmp_path: Path) -> None:
    """(SPEC, One Workflow Per Worktree Limitation)"""
    project = Project.made(tmp_path / "project")
    project.deliver("SessionStart.startup.print", client="one")
    project.git("add", ".fractary/runs")
    project.git("commit", "--quiet", "-m", "Run")
    project.git("worktree", "add", "--quiet", "-b", "x", "../linked")
    assert Project(tmp_path / "linked").deliver("SessionStart.startup.print", client="two").packet is None
    assert (project.types.count("session_started"), "session_ended" in project.types) == (1, False)


def test_a_command_in_a_conversation_means_its_run_also_on_a_finished_ones_branch(tmp_path: Path) -> None:
    case = {**dict.fromkeys(COLUMNS, ""), "file": "A", "branch": "fb", "A": "at work, on fa", "B": "completed, on fb"}
    project = prepare(tmp_path / "project", case)
    project.deliver(START, client="one")
    for client, run in (("one", "run-a"), ("two", "run-b"), (None, "run-b")):
        assert f"Run: {run}\n" in project.said("status", env={"CLAUDE_CODE_SESSION_ID": client})
