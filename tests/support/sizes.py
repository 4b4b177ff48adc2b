"""How large a test is: as large as it must be to show what it shows, or larger for `make test-long`."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

First = TypeVar("First")
Second = TypeVar("Second")

IS_LONG = os.environ.get("FABER_TEST_LONG") == "1"


def pick(short: int, long: int) -> int:
    """Return the size of a test that is marked `long`: the long one in `make test-long`."""
    return long if IS_LONG else short


def few(cases: Collection[First], count: int) -> list[First]:
    """Return the first cases, which tell the most; in `make test-long` all."""
    return list(cases)[: None if IS_LONG else count]


def pair(first: Collection[First], second: Collection[Second]) -> list[tuple[First, Second]]:
    """Return each of `first` with one of `second`, which is not longer, in turn; in `make test-long` all pairs."""
    assert len(first) >= len(second)
    every = enumerate(product(first, second))
    return [both for at, both in every if IS_LONG or (at // len(second) + at) % len(second) == 0]
