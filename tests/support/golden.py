"""The golden histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


GOLDEN = Path(__file__).parents[1] / "golden"


def events_of(story: str) -> list[Recorded]:
    return [json.loads(line) for line in (GOLDEN / story / "events.jsonl").read_text("utf-8").splitlines()]
