"""Write the JSON Schemas from the models: `python tools/generate_schemas.py [--check]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

from faber_ledger.ledger.events import Event
from faber_ledger.schemas.documents import HookDelivery, State, Workflow, Worktrees

EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="type")], config=ConfigDict(strict=True, extra="forbid")
)
FOLDER = Path(__file__).resolve().parent.parent / "schemas" / "json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each file in `json/`, by its name."""
    return {
        "event.schema.json": {"title": "Event", **EVENT.json_schema()},
        "state.schema.json": State.model_json_schema(),
        "workflow.schema.json": Workflow.model_json_schema(),
        "worktrees.schema.json": Worktrees.model_json_schema(),
        "hook-delivery.schema.json": HookDelivery.model_json_schema(),
    }


def text_of(schema: dict[str, Any]) -> str:
    """Write a schema as the text of its file."""
    return json.dumps({"$schema": DIALECT, **schema}, indent=2, ensure_ascii=False) + "\n"


def stale_files(folder: Path = FOLDER) -> list[str]:
    """Return the names of the files in `folder` that differ from the models."""
    return [
        name
        for name, schema in schemas().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text_of(schema)
    ]


def main(arguments: list[str]) -> int:
    """Write the schemas, or with `--check` name the stale ones (exit code 1)."""
    stale = stale_files()
    if arguments == ["--check"]:
        for name in stale:
            sys.stderr.write(f"schemas/json/{name} is stale: run `python tools/generate_schemas.py`\n")
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(text_of(schemas()[name]), encoding="utf-8")
        sys.stdout.write(f"wrote schemas/json/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
