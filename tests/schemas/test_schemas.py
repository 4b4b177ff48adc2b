"""What the strict models accept and refuse, and that the JSON Schemas come from them."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from generate_schemas import FOLDER, main, schemas, stale_files
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError
from support.sample_log import every_type
from support.strict_events import check_event

from faber_ledger.context.artifact import COMMAND_TYPES
from faber_ledger.ledger import event_types
from faber_ledger.schemas.documents import CommandType, HookDelivery, State, Workflow

FIXTURES = Path(__file__).parents[1] / "fixtures"
DELIVERIES = sorted((FIXTURES / "hook-payloads").glob("*.json"))
WORKFLOWS = sorted((FIXTURES / "workflows").glob("*.json"))
SPEC_STATE: dict[str, Any] = json.loads((FIXTURES / "states" / "spec-00027.json").read_text())


def is_valid(name: str, value: object) -> bool:
    """Return whether a value fits the JSON Schema in the file of this name."""
    return bool(Draft202012Validator(json.loads((FOLDER / name).read_text())).is_valid(value))


def refuses(model: type[BaseModel], value: object) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return True
    return False


def test_the_schemas_are_what_the_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert stale_files() == []
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_stale_schema_is_named(tmp_path: Path) -> None:
    assert stale_files(tmp_path) == list(schemas())


@pytest.mark.parametrize("name", list(schemas()))
def test_every_schema_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((FOLDER / name).read_text()))


def test_the_models_and_the_loader_agree_on_which_artifacts_have_a_command() -> None:
    assert {*get_args(CommandType)} == COMMAND_TYPES


@pytest.mark.parametrize("event", every_type(), ids=lambda event: event["type"])
def test_every_type_of_event_is_accepted(event: dict[str, Any]) -> None:
    assert check_event(event) == []
    assert is_valid("event.schema.json", event)


def test_the_sample_has_every_type_of_event() -> None:
    assert {event["type"] for event in every_type()} == set(event_types.EVENT_TYPES)


@pytest.mark.parametrize("event", every_type(), ids=lambda event: event["type"])
def test_an_event_with_an_unknown_or_a_missing_field_is_refused(event: dict[str, Any]) -> None:
    assert check_event({**event, "mood": "good"})
    assert not is_valid("event.schema.json", {**event, "mood": "good"})
    last = [name for name in event if name not in ("type", "delivery", "environment")][-1]
    assert check_event({name: value for name, value in event.items() if name != last})


def test_an_events_values_are_not_coerced() -> None:
    loaded: dict[str, Any] = next(dict(event) for event in every_type() if event["type"] == "artifact_loaded")
    (problem,) = check_event({**loaded, "size_bytes": "4096"})
    assert problem.startswith("artifact_loaded.size_bytes: ")


def test_an_event_of_an_unknown_type_is_a_problem_not_an_exception() -> None:
    strangers: list[Any] = [{"type": "coffee_made"}, {}, [], None, 7]
    for event in strangers:
        assert len(check_event(event)) == 1


@pytest.mark.parametrize("path", DELIVERIES, ids=lambda path: path.stem)
def test_every_recorded_delivery_is_accepted(path: Path) -> None:
    stdin = json.loads(path.read_text())["stdin"]
    delivery = HookDelivery.model_validate(stdin)
    assert delivery.model_dump(exclude_unset=True) == stdin
    assert is_valid("hook-delivery.schema.json", stdin)


def test_a_delivery_may_lack_or_add_fields_of_known_types() -> None:
    assert not refuses(HookDelivery, {})
    assert not refuses(HookDelivery, {"hook_event_name": "BrandNew", "tokens": 12})
    assert refuses(HookDelivery, {"session_id": 12})
    assert refuses(HookDelivery, [])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_fabers_own_workflows_are_accepted(path: Path) -> None:
    value = json.loads(path.read_text())
    assert Workflow.model_validate(value).id == path.stem
    assert is_valid("workflow.schema.json", value)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Upper"},
        {"type": "binary"},
        {"required": "yes"},
        {"reload_triggers": ["sometimes"]},
        {"path_from_state": "artifacts.spec_path"},
        {"type": "skill"},
        {"colour": "red"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_contradictory_critical_artifact_is_refused(change: dict[str, Any]) -> None:
    value = json.loads(WORKFLOWS[0].read_text())
    value["critical_artifacts"]["always_load"][0].update(change)
    assert refuses(Workflow, value)
    assert not is_valid("workflow.schema.json", value)


def test_a_misspelt_key_of_a_workflow_is_refused() -> None:
    value = json.loads(WORKFLOWS[0].read_text())
    value["critical_artefacts"] = value.pop("critical_artifacts")
    assert refuses(Workflow, value)


def test_the_state_in_the_specification_is_accepted() -> None:
    document = Path(__file__).parents[1] / "fixtures" / "states" / "spec-00027.json"
    assert re.search('"total_sessions": 2', document.read_text())
    assert State.model_validate(SPEC_STATE).model_dump(exclude_unset=True) == SPEC_STATE
    assert is_valid("state.schema.json", SPEC_STATE)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("status",), "asleep"),
        (("run_id",), None),
        (("sessions", "total_sessions"), "2"),
        (("sessions", "session_history"), None),
        (("sessions", "session_history", 0, "started_at"), "yesterday"),
        (("sessions", "session_history", 0, "artifacts_loaded"), "workflow-state"),
        (("context_metadata", "reload_count"), -1),
        (("context_metadata", "artifacts_in_context", 0, "load_trigger"), "phase_start:build"),
    ],
    ids=lambda where: ".".join(map(str, where)) if isinstance(where, tuple) else "",
)
def test_a_state_whose_blocks_have_another_shape_is_refused(where: tuple[Any, ...], value: object) -> None:
    state = copy.deepcopy(SPEC_STATE)
    holder: Any = state
    for step in where[:-1]:
        holder = holder[step]
    holder[where[-1]] = value
    assert refuses(State, state)


def test_a_state_may_have_any_other_member() -> None:
    assert not refuses(State, {**SPEC_STATE, "phases": [{"phase_name": "frame", "status": "completed"}], "mood": 7})
    assert not refuses(State, {"run_id": "a", "workflow_id": "b", "status": "paused", "phases": {"frame": {}}})
