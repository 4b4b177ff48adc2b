"""Clients, git and FABER's tools walk at random; each delivery goes where the plain model says."""

from __future__ import annotations

import pytest
from support.sizes import pick

from clients.walk import walk


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, pick(3, 21)))
def test_each_delivery_goes_to_the_run_and_the_session_that_the_rows_name(seed: int) -> None:
    number, difference, history = walk(seed, range(80))
    if number >= 0:
        pytest.fail("\n".join([f"seed {seed}, step {number}", *history, difference]), pytrace=False)
