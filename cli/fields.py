"""A change of a field in words and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from faber_ledger.projections.difference import MISSING, field_text, identity

if TYPE_CHECKING:
    from faber_ledger.projections.difference import Change

LONGEST = 100


def change_data(change: Change) -> dict[str, Any]:
    """Give a change as `--json` has it: what was or is missing has no `before` or no `after`."""
    path, before, after = change
    values = {name: value for name, value in (("before", before), ("after", after)) if value is not MISSING}
    return {"field": field_text(path), "path": list(path), **values}


def change_line(change: Change) -> str:
    """Write a change in one line."""
    path, before, after = change
    return f"{field_text(path)}: {value_words(before)} -> {value_words(after)}"


def value_words(value: Any) -> str:
    """Write a value in at most 100 letters, as JSON; a longer list of sessions or loads is told by their ids."""
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > LONGEST:
        names = [identity(item) for item in value]
        text = f"[{', '.join([name or '?' for name in names])}]" if any(names) else text
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
