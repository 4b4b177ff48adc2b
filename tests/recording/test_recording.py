"""One recording: what the log says holds, whoever edited, killed or interrupted what."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.project import RUN, Project, spec_state, usual_state
from support.sizes import pick

from faber_ledger.files.json_text import JsonText
from faber_ledger.projections.fold import blocks_of, text_of
from faber_ledger.runs import state_write
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log


def shown(project: Project) -> bool:
    """Return whether the log knows the blocks in state.json as its own, so that the next facts fold onto them."""
    with read_log(find_run(str(project.root), project.run_id)) as log:
        return state_write.read_known(find_run(str(project.root), project.run_id)).shows(log)


@pytest.mark.parametrize(
    "edit",
    [
        {"sessions": {"current_session_id": None, "total_sessions": 99, "session_history": []}},
        {"sessions": "gone", "context_metadata": "gone"},
    ],
    ids=str,
)
def test_blocks_that_were_edited_by_hand_are_folded_again(tmp_path: Path, edit: dict[str, object]) -> None:
    project = Project.made(tmp_path / "project")
    assert project.faber("session-load", "--trigger", "session_start").returncode == 0
    assert shown(project)
    project.change_state(**edit)
    assert not shown(project)
    assert project.faber("session-save").returncode == 0
    assert shown(project)
    assert len(project.history) == 1
    assert project.metadata["reload_count"] == 1
    project.assert_projected()


DELIVERIES = [
    "SessionStart.startup.print",
    "SessionStart.resume.print",
    "SessionStart.compact.print",
    "SessionStart.clear.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
    "SessionEnd.clear.print",
    "subagent.PreCompact.auto.print",
]
COMMANDS = [
    ("session-load",),
    ("session-load", "--trigger", "session_start", "--force"),
    ("session-load", "--artifacts", "workflow-state", "--force"),
    ("session-load", "--dry-run"),
    ("session-save",),
    ("session-save", "--reason", "compaction"),
    ("run", "resume", RUN),
    ("status",),
]
clients = st.sampled_from(["one", "two"])
Step = tuple[str, Any]
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("deliver"), st.tuples(st.sampled_from(DELIVERIES), clients, st.sampled_from(["11", "12"]))),
    st.tuples(st.just("run"), st.sampled_from(COMMANDS)),
    st.tuples(st.just("lay out"), st.sampled_from([None, 2, 4, "\t"])),
    st.tuples(
        st.just("change"),
        st.sampled_from(
            [{"current_phase": "evaluate"}, {"status": "completed"}, {"status": "paused"}, {"sessions": {}}]
        ),
    ),
)
beginnings = st.sampled_from(
    [usual_state(), {**spec_state(), "run_id": RUN}, {**spec_state(current_session_id=None), "run_id": RUN}]
)


def written_whole(project: Project, before: str) -> bytes:
    """Return the state that folding the whole log and replacing the blocks that differ makes of `before`."""
    document = JsonText(before)
    found = blocks_of(document.value)
    folded = project.folded()
    differing = [name for name in folded if text_of({name: found.get(name)}) != text_of({name: folded[name]})]
    return document.with_members({name: folded[name] for name in differing}).encode()


@pytest.mark.long
@given(beginnings, st.lists(steps, min_size=4, max_size=9))
@settings(max_examples=pick(5, 50), deadline=None, print_blob=True, database=None)
def test_fact_by_fact_or_all_at_once_the_blocks_are_the_same(beginning: dict[str, Any], done: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project.made(Path(folder) / "project", beginning)
        for kind, what in done:
            before = project.state_path.read_bytes().decode()
            if kind == "change":
                project.change_state(**what)
            elif kind == "lay out":
                project.state_path.write_text(json.dumps(json.loads(before), indent=what))
            elif kind == "deliver":
                assert project.deliver(what[0], client=what[1], pid=what[2]).code == 0
            else:
                finished = project.faber(*what)
                assert finished.returncode == 0, finished.stderr
            if kind in ("deliver", "run") and project.ledger_path.exists():
                assert project.state_path.read_bytes() == written_whole(project, before)
        project.faber("session-load")
        assert shown(project)
        project.assert_projected()


KILLED = """
import os, signal, sys
from faber_ledger.cli.entry import main
from faber_ledger.runs import state_write
from faber_ledger.runs.log import read_log
from faber_ledger.ledger.log import Log

def die(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after_the_state(source, target):
    replace(source, target)
    if os.path.basename(target) == "state.json" and ".git" not in target:
        die()

def die_before_the_state(source, target):
    if os.path.basename(target) == "state.json" and ".git" not in target:
        die()
    replace(source, target)

replace = os.replace
where = sys.argv.pop(1)
if where == "before the commit":
    Log.commit = die
elif where == "after the commit":
    state_write.write_blocks = die
elif where == "before the rename":
    os.replace = die_before_the_state
elif where == "after the rename":
    os.replace = die_after_the_state
main()
"""


@pytest.mark.parametrize(
    ("where", "facts"),
    [("before the commit", 0), ("after the commit", 1), ("before the rename", 1), ("after the rename", 1)],
)
def test_a_killed_process_leaves_a_ledger_that_the_next_one_continues(tmp_path: Path, where: str, facts: int) -> None:
    project = Project.made(tmp_path / "project", {**spec_state(), "run_id": RUN})
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, where, "session-save"],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    json.loads(project.state_path.read_bytes())
    after = project.faber("session-save")
    assert after.returncode == 0, after.stderr
    ends = project.of_type("session_ended")
    assert len(ends) == 1
    assert ("No current session to end" in after.stdout) == (facts == 1)
    project.faber("project")
    assert project.history[-1]["end_reason"] == "manual"
    project.assert_projected()
    assert not list(project.run.glob("*-journal"))
