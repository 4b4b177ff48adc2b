"""The strict model of an event: the shapes that mypy checks, checked on stored events."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from faber_ledger.ledger.events import Event

EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="type")], config=ConfigDict(strict=True, extra="forbid")
)


def check_event(event: Any) -> list[str]:
    """Return what is wrong with an event, each as `field: problem`; an empty list if it fits its shape."""
    try:
        EVENT.validate_python(event)
    except ValidationError as error:
        return problems_of(error)
    return []


def problems_of(error: ValidationError) -> list[str]:
    """Return a validation error as one `field: problem` per field, without values, which may be long or secret."""
    return [
        ": ".join(filter(None, [".".join(map(str, problem["loc"])), problem["msg"]]))
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
