"""What is wrong with an event by the strict model, from which its JSON Schema is generated."""

from __future__ import annotations

from typing import Any

from generate_schemas import EVENT
from pydantic import ValidationError


def check_event(event: Any) -> list[str]:
    """Return what is wrong with an event, each as `field: problem`; an empty list if it fits its shape."""
    try:
        EVENT.validate_python(event)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return [": ".join(filter(None, [".".join(map(str, one["loc"])), one["msg"]])) for one in found]
    return []
