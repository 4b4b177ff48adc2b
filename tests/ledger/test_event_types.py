"""Adding an event type is a decision about its version, required fields, words, redacted form, timeline and fold."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
from support.sample_log import FIRST, every_type
from support.strict_events import check_event

from faber_ledger.cli.ui.event_words import words_of
from faber_ledger.ledger.event_types import EVENT_TYPES, is_foldable, is_known, redacted_form
from faber_ledger.projections.fold import fold
from faber_ledger.projections.timeline import MILESTONES


class Decision(NamedTuple):
    """What was decided about a type; each is written by hand when a type is added."""

    required: set[str]
    is_folded: bool = False
    is_milestone: bool = False  # a long timeline lists it
    version: int = 1


DECISIONS = {
    "run_started": Decision(set(), is_milestone=True),
    "run_adopted": Decision({"blocks"}, is_folded=True, is_milestone=True),
    "session_started": Decision(
        {"session_id", "source", "environment", "empties_context"}, is_folded=True, is_milestone=True
    ),
    "session_ended": Decision(
        {"session_id", "reason", "inferred", "phases_completed"}, is_folded=True, is_milestone=True
    ),
    "checkout_recorded": Decision(set()),
    "artifact_loaded": Decision({"session_id", "artifact_id", "trigger", "source", "size_bytes"}, is_folded=True),
    "artifact_failed": Decision(set(), is_milestone=True),
    "artifact_skipped": Decision(set()),
    "context_reloaded": Decision({"session_id"}, is_folded=True),
    "compaction_completed": Decision(set(), is_milestone=True),
    "delivery_ignored": Decision(set()),
    "answer_lost": Decision({"session_id"}, is_folded=True),
    "note_recorded": Decision({"kind", "text"}, is_milestone=True),
    "context_reconstituted": Decision(set(), is_milestone=True),
    "event_redacted": Decision(set(), is_milestone=True),
    "redaction_undone": Decision(set(), is_milestone=True),
}


def sample(kind: str) -> dict[str, Any]:
    return next(dict(event) for event in every_type() if event["type"] == kind)


def recorded(event: dict[str, Any]) -> Any:
    version = EVENT_TYPES[event["type"]].version
    return {"seq": 1, "id": "", "version": version, "at": "2026-01-05T14:30:22Z", "client": None, "event": event}


def test_every_event_type_has_a_decision() -> None:
    assert DECISIONS.keys() == EVENT_TYPES.keys()
    assert EVENT_TYPES.keys() >= MILESTONES


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_type_has_one_current_version(kind: str) -> None:
    version = DECISIONS[kind].version
    assert is_known(kind, version)
    assert not is_known(kind, version + 1)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_fold_reads_an_event_only_with_its_required_fields(kind: str) -> None:
    assert EVENT_TYPES[kind].required.keys() == DECISIONS[kind].required
    assert is_foldable(recorded(sample(kind))) == bool(DECISIONS[kind].required)
    for name in DECISIONS[kind].required:
        event = sample(kind)
        assert not is_foldable(recorded({**event, name: object()}))
        event.pop(name)
        assert not is_foldable(recorded(event))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_only_the_folded_types_change_the_blocks(kind: str) -> None:
    before = fold([recorded(sample("session_started"))])
    if kind == "answer_lost":
        fold([recorded(sample("artifact_loaded"))], before)
    event = sample(kind)
    if "session_id" in event:
        event["session_id"] = FIRST
    if kind == "session_started":
        event["session_id"] = "another"
    assert (fold([recorded(event)], copy.deepcopy(before)) != before) == DECISIONS[kind].is_folded


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_long_timeline_lists_the_milestones(kind: str) -> None:
    assert (kind in MILESTONES) == DECISIONS[kind].is_milestone


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_is_shown_in_words_and_not_as_json(kind: str) -> None:
    assert not words_of(recorded(sample(kind))).startswith("{")


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_what_a_redaction_leaves_fits_the_shape_and_has_words(kind: str) -> None:
    event = {**redacted_form(kind), "type": kind}
    if "session_id" in sample(kind):
        event["session_id"] = FIRST
    assert check_event(event) == []
    assert not words_of(recorded(event)).startswith("{")
