"""How large a test is: as large as it must be to show what it shows, or larger for `make test-long`."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("FABER_TEST_LONG") == "1"


def pick(short: int, long: int) -> int:
    """Return the size of a test that is marked `long`: the long one in `make test-long`."""
    return long if IS_LONG else short
