"""Every golden history folds to its blocks, byte for byte."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_in_order_and_fits_the_events_shapes(story: str) -> None:
    recorded = events_of(story)
    assert [(one["seq"], one["id"]) for one in recorded] == sorted({(one["seq"], one["id"]) for one in recorded})
    shapes: TypeAdapter[Event] = TypeAdapter(Event)
    for one in recorded:
        if one["event"]["type"] not in FROM_A_NEWER_PROGRAM and one["version"] == 1:
            shapes.validate_python(one["event"], strict=True)
