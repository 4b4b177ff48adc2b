"""Each event type has a sample, words, and a redacted form, and is folded only with its required fields."""

from __future__ import annotations

from typing import Any

import pytest
from support.sample_log import FIRST, every_type
from support.strict_events import check_event

from faber_ledger.cli.ui.event_words import words_of
from faber_ledger.ledger.event_types import EVENT_TYPES, is_foldable, redacted_form


def sample(kind: str) -> dict[str, Any]:
    return next(dict(event) for event in every_type() if event["type"] == kind)


def recorded(event: dict[str, Any]) -> Any:
    version = EVENT_TYPES[event["type"]].version
    return {"seq": 1, "id": "", "version": version, "at": "2026-01-05T14:30:22Z", "client": None, "event": event}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_fold_reads_an_event_only_with_its_required_fields(kind: str) -> None:
    required = EVENT_TYPES[kind].required
    assert is_foldable(recorded(sample(kind))) == bool(required)
    for name in required:
        event = sample(kind)
        assert not is_foldable(recorded({**event, name: object()}))
        event.pop(name)
        assert not is_foldable(recorded(event))


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
