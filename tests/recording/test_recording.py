"""One recording: what the log says holds, whoever edited, killed or interrupted what."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.project import RUN, Project, spec_state, usual_state
from support.sizes import pick
from support.worked_clones import EVENTS, Work, do_work, rows, worked

from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.fold import PROJECTOR, blocks_of, fold, text_of
from faber_ledger.runs import state_write
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log


def shown(project: Project) -> bool:
    """Return whether the log knows the blocks in state.json as its own, so that the next facts fold onto them."""
    with read_log(find_run(str(project.root), project.run_id)) as log:
        return state_write.read_known(find_run(str(project.root), project.run_id)).shows(log)


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


RELOADED = [event["type"] for event in EVENTS].index("context_reloaded")


@pytest.mark.long
@example(([60, 0, 0, 0], [0, 1, 2, 0], [("append", 0, RELOADED, 0), ("append", 1, RELOADED, 0)]))
@given(worked)
@settings(max_examples=pick(20, 200), deadline=None, print_blob=True, database=None)
def test_what_is_new_in_a_log_folds_onto_older_blocks_or_all_is_folded(work: Work) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = do_work(Path(folder), work)
        write_union(made.paths, f"{folder}/united.db")
        whole = rows(f"{folder}/united.db")
        with Log.read(f"{folder}/united.db") as united:
            for path in made.paths:
                with Log.read(path) as log:
                    known, heads = fold(log.stream()), [digest for _, digest in log.heads()]
                    checkpoint = log.heads_text()
                newest, is_whole = united.events_since(heads)
                assert is_whole
                assert {place for place, _, is_new in newest if is_new} == {row[:2] for row in {*whole} - {*rows(path)}}
                united.checkpoint = (PROJECTOR, checkpoint, state_write.digest_of(state_write.texts_of(known)).hex())
                found = state_write.KnownState(JsonText(json.dumps(known))).fold_news(united)
                is_end = whole[: len(rows(path))] == rows(path)
                assert found is not None or not is_end
                assert found is None or found[0] == fold(united.stream())
            assert united.events_since([b"x" * 32])[1] is False


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
                assert project.state_path.read_bytes() in (before.encode(), written_whole(project, before))
        project.faber("session-load")
        assert shown(project)
        project.assert_projected()
