"""Every golden history folds to its blocks, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.golden import GOLDEN, events_of

from faber_ledger.ledger.events import Event
from faber_ledger.projections.fold import fold

STORIES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())
FROM_A_NEWER_PROGRAM = {"artifact_pinned"}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_folds_to_its_blocks(story: str, request: pytest.FixtureRequest) -> None:
    folded = json.dumps(fold(events_of(story)), indent=2, ensure_ascii=False) + "\n"
    golden = GOLDEN / story / "state.json"
    if request.config.getoption("--update-golden"):
        golden.write_text(folded, "utf-8")
    assert folded == golden.read_text("utf-8")


def test_an_environment_is_never_mixed_from_two_machines() -> None:
    (entry,) = fold(events_of("environment-of-two-machines"))["sessions"]["session_history"]
    here = {"hostname": "laptop", "platform": "linux", "cwd": "/home/dev/myproject", "git_commit": "a1b2c3d"}
    assert entry["environment"] == {**here, "shell": "zsh"}  # the last is another tool's


def test_with_two_open_sessions_the_context_is_the_current_ones() -> None:
    """There is one list of what is in context, and two contexts: the list is not a union of them.

    The newest start empties it, an end never does, and only the current session's loads change it. So once the laptop's
    session has ended, what it had loaded stays until the desktop's loads the same; the desktop's specification, loaded
    before the laptop's start emptied the list, is in its `artifacts_loaded` alone, and may be loaded once more.
    """
    blocks = fold(events_of("two-machines-at-once"))
    desktop = blocks["sessions"]["session_history"][0]
    assert blocks["sessions"]["current_session_id"] == desktop["session_id"]
    assert "specification" in desktop["artifacts_loaded"]
    loaded = {load["artifact_id"]: load["loaded_at"] for load in blocks["context_metadata"]["artifacts_in_context"]}
    assert loaded == {"workflow-state": "2026-01-05T14:30:30Z", "orchestration-protocol": "2026-01-05T13:20:00Z"}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_in_order_and_fits_the_events_shapes(story: str) -> None:
    recorded = events_of(story)
    assert [(one["seq"], one["id"]) for one in recorded] == sorted({(one["seq"], one["id"]) for one in recorded})
    shapes: TypeAdapter[Event] = TypeAdapter(Event)
    for one in recorded:
        if one["event"]["type"] not in FROM_A_NEWER_PROGRAM and one["version"] == 1:
            shapes.validate_python(one["event"], strict=True)


def test_an_adopted_state_alone_is_reproduced_byte_for_byte() -> None:
    adoption = events_of("adopted-from-an-older-tool")[0]
    assert adoption["event"]["type"] == "run_adopted"
    spec = json.loads((Path(__file__).parents[1] / "fixtures" / "states" / "spec-00027.json").read_text("utf-8"))
    blocks = {name: spec[name] for name in ("sessions", "context_metadata")}
    assert json.dumps(fold([adoption])) == json.dumps(blocks)
