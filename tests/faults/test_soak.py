"""Break everything at once for some seconds; `make soak` does it for minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.sizes import pick

from faults.soak import WITH_DRIVER, soak_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long(alone=True)
def test_nothing_acknowledged_is_lost_whatever_happens_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", WITH_DRIVER)
    found = soak_run(tmp_path, seconds=pick(3, 6), seed=1)
    assert (found.lost, found.doubled, found.wrong) == (0, 0, ())
    assert found.acknowledged
