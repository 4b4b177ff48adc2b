"""The names beside a chart's lanes fit and can be distinguished."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faber_ledger.cli.timeline.chart import shorten_names, width

ROOM = 13.0
ALIKE = [f"build-runner-eu-central-1-{number:03}-production-cluster-blue" for number in range(12)]


def test_a_short_name_is_not_changed() -> None:
    assert shorten_names(["laptop", "desktop"], ROOM) == {"laptop": "laptop", "desktop": "desktop"}


def test_a_long_name_loses_its_middle() -> None:
    (shown,) = shorten_names(["the-laptop-of-somebody.example.internal"], ROOM).values()
    assert (shown[:6], shown[-6:], "…" in shown) == ("the-la", "ternal", True)


def test_names_that_would_look_alike_are_numbered() -> None:
    first, second, *_ = shorten_names(ALIKE, ROOM).values()
    assert "#" not in first
    assert second.endswith(" #2")


@given(st.sets(st.text("ab-M中\x1b", max_size=60) | st.sampled_from(ALIKE), max_size=12))
def test_names_fit_and_can_be_distinguished(names: set[str]) -> None:
    shown = shorten_names(sorted(names), ROOM)
    assert len(set(shown.values())) == len(names)
    assert all([width(text) <= ROOM for text in shown.values()])
