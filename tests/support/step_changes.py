"""Apply the changes that a step reports."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from faber_ledger.projections.difference import MISSING

if TYPE_CHECKING:
    from faber_ledger.projections.difference import Change


def apply_changes(blocks: Any, changes: list[Change]) -> Any:
    """Return blocks with each change made at its path."""
    root = {"": copy.deepcopy(blocks)}
    for path, before, after in changes:
        holder: Any = root
        *steps, last = ("", *path)
        for step in steps:
            holder = holder[step]
        if before is MISSING and isinstance(holder, list):
            assert last == len(holder)
            holder.append(after)
        elif after is MISSING:
            assert holder.pop(last) == before
        else:
            assert before is MISSING or holder[last] == before
            holder[last] = after
    return root[""]
