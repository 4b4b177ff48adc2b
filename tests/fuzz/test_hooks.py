"""Whatever is in a delivery, a state.json, a workflow or a ledger, a hook exits with 0 and breaks nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.project import FIXTURES, RUN, Project, payload_of

from faber_ledger.recording import inbox
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log
from fuzz.box import KINDS, Box, check_leftovers, run_forked
from fuzz.shapes import hard_values, mutated, rendered, some, spoiled

RECORDED = sorted(path.stem for path in (FIXTURES / "hook-payloads").glob("*.json"))
WORKFLOWS = [json.loads((FIXTURES / "workflows" / name).read_text()) for name in ("default.json", "core.json")]
recorded_names, kinds = st.sampled_from(RECORDED), st.sampled_from(KINDS)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Box:
    return Box(tmp_path_factory.mktemp("box"))


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw the name of a recorded delivery, and bytes to send in its place."""
    recorded = draw(recorded_names)
    value = draw(mutated(payload_of(recorded)["stdin"]))
    content = rendered(value, draw(st.booleans())) + b"\n"
    return recorded, draw(spoiled(content)) if draw(st.integers(0, 3)) == 0 else content


@pytest.mark.parametrize("recorded", RECORDED)
def test_every_recorded_delivery_is_accepted(box: Box, recorded: str) -> None:
    project = box.restore()
    box.deliver(recorded)
    project.assert_projected()


@given(deliveries())
@some(30)
def test_a_mutated_delivery_harms_nothing(box: Box, delivery: tuple[str, bytes]) -> None:
    project = box.restore()
    known = project.events
    box.deliver(*delivery)
    assert project.events[: len(known)] == known
    project.assert_projected()


@given(kinds, st.binary(max_size=200) | st.builds(rendered, hard_values, st.booleans()))
@some(15)
def test_any_bytes_and_any_json_are_accepted(box: Box, kind: str, content: bytes) -> None:
    project = box.restore()
    box.deliver(kind, content)
    project.assert_projected()


@st.composite
def states(draw: st.DrawFn, state: dict[str, Any]) -> bytes:
    """Draw a state.json that another tool, a person or a disk has changed."""
    content = rendered(draw(mutated(state)), draw(st.booleans()), draw(st.sampled_from([None, 0, 2])))
    return draw(spoiled(content)) if draw(st.integers(0, 3)) == 0 else content


DECIDING: dict[str, Any] = {
    "status": "awaiting_feedback",
    "artifacts": {"spec_path": "specs/a.md", "branch": "feature/1"},
    "worktree": {"path": "../x", "branch": "b"},
    "additional_instructions": "Ask first.",
    "feedback_request": {
        "request_id": "fb-1",
        "prompt": "Which?",
        "options": ["this", "that"],
        "notification_sent": {"comment_url": "https://example.org/1"},
        "resume_point": {"phase": "build", "step": "implement"},
    },
    "pending_approvals": [{"phase": "release", "reason": "it is Friday"}],
    "phases": {"build": {"steps": [{"name": "implement", "error": {"message": "no"}}], "completed_steps": ["lint"]}},
    "errors": [{"phase": "build", "step": "implement", "error": "3 failed"}],
}


@given(st.data(), kinds, st.booleans())
@some(30)
def test_any_state_keeps_everything_but_our_blocks(box: Box, data: st.DataObject, kind: str, has_ledger: bool) -> None:
    project = box.restore()
    state = {**project.state, **DECIDING}
    project.state_path.write_bytes(data.draw(states(state)))
    if not has_ledger:
        project.ledger_path.unlink()
    box.deliver(kind)
    box.deliver(KINDS[0])


@given(st.data(), st.sampled_from(WORKFLOWS))
@some(20)
def test_any_workflow_gives_a_packet(box: Box, data: st.DataObject, workflow: dict[str, Any]) -> None:
    project = box.restore()
    project.change_state(workflow_id="special")
    content = rendered(data.draw(mutated(workflow)), data.draw(st.booleans()))
    if data.draw(st.integers(0, 3)) == 0:
        content = data.draw(spoiled(content))
    project.write(".fractary/faber/workflows/special.json", content)
    assert box.deliver("SessionStart.clear.print").packet
    project.assert_projected()


def shown_in_log(project: Project) -> str:
    """Return a run's events as readers show them, also where the mirror has them alone."""
    with read_log(find_run(str(project.root), RUN)) as log:
        return str(list(log.stream()))


@given(st.data(), st.lists(kinds, min_size=1, max_size=2))
@some(15)
def test_a_ledger_that_was_changed_on_disk_stops_no_hook(box: Box, data: st.DataObject, delivered: list[str]) -> None:
    project = box.restore()
    project.ledger_path.write_bytes(data.draw(spoiled(project.ledger_path.read_bytes())))
    for kind in delivered:
        answer = box.deliver(kind)
        assert answer.packet or kind != KINDS[0] or "repeated" in shown_in_log(project)
    assert f'"run_id": "{RUN}"' in project.state_path.read_text()


@pytest.fixture(scope="module")
def waiting(box: Box) -> tuple[str, dict[str, Any]]:
    """Return the path and the content of a delivery that waits in the inbox."""
    project = box.restore()
    project.ledger_path.unlink()
    project.refuse()
    box.deliver("SessionStart.clear.print")
    (path,) = inbox.list_waiting(find_run(str(project.root), RUN))
    content = Path(path).read_text()
    project.relent()
    return path, json.loads(content)


@given(st.data(), kinds)
@some(20)
def test_a_mutated_waiting_delivery_stops_no_hook(
    box: Box, waiting: tuple[str, dict[str, Any]], data: st.DataObject, kind: str
) -> None:
    project = box.restore()
    known = project.events
    path, delivery = waiting
    content = rendered(data.draw(mutated(delivery)), data.draw(st.booleans()))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data.draw(spoiled(content)) if data.draw(st.integers(0, 3)) == 0 else content)
    box.deliver(kind)
    assert project.events[: len(known)] == known
    assert inbox.list_waiting(find_run(str(project.root), RUN)) == []
    assert len(project.events) > len(known)
    project.assert_projected()


REFUSED = (1, 10, 12, 20, 22)


@given(st.data(), st.booleans())
@some(25)
def test_mutated_lines_are_imported_completely_or_not_at_all(box: Box, data: st.DataObject, is_new: bool) -> None:
    project = box.restore()
    environment = project.environment()
    code, exported, _ = run_forked(["export"], project.root, environment)
    assert code == 0
    lines = [json.loads(line) for line in exported.splitlines()]
    changed = data.draw(mutated(lines))
    content = b"".join(rendered(line, data.draw(st.booleans())) + b"\n" for line in changed)
    if data.draw(st.booleans()):
        content = data.draw(spoiled(content))
    if is_new:
        shutil.rmtree(project.root / ".git" / "faber-ledger")
        project.ledger_path.unlink()
    before = project.ledger_path.read_bytes() if not is_new else None
    state = project.state_path.read_bytes()
    code, _, errors = run_forked(["import", "-"], project.root, environment, content)
    assert b"Traceback" not in errors, errors.decode()
    check_leftovers(project)
    if code == 0 and project.ledger_path.exists():
        project.assert_projected()
    else:  # of a new log, all lines may be left out
        assert code in REFUSED if code else is_new, errors.decode()
        assert (project.ledger_path.read_bytes() if project.ledger_path.exists() else None) == before
        assert project.state_path.read_bytes() == state
