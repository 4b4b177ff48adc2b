"""The plugin's files have the shapes that the client's own validator accepts: known fields, names, events, types."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from support.skills import INLINE, PLUGIN, SKILLS, TIME, read_skill

import faber_ledger
from faber_ledger.recording.call import HOOKS

PROJECT = Path(__file__).parents[2]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Owner(Strict):
    name: Text


class Offered(Strict):
    name: Name
    source: Annotated[str, StringConstraints(pattern=r"^\./[a-z-]+$")]
    description: Text


class Marketplace(Strict):
    name: Name
    owner: Owner
    description: Text
    plugins: list[Offered]


class Manifest(Strict):
    link: Literal["https://anthropic.com/claude-code/plugin.schema.json"] = Field(alias="$schema")
    name: Name
    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+([-.a-z0-9]+)?$")]
    description: Text
    author: Owner
    license: Literal["MIT"]


class Handler(Strict):
    type: Literal["command"]
    command: Text
    args: list[str] | None = None
    timeout: int


class Group(Strict):
    hooks: list[Handler]


class Hooks(Strict):
    description: Text
    hooks: dict[Literal["SessionStart", "PreCompact", "PostCompact", "SessionEnd"], list[Group]]


class Frontmatter(Strict):
    """What a skill's frontmatter may have; a `name` would take the plugin's name from its command."""

    description: Text
    argument_hint: Text = Field(alias="argument-hint")
    allowed_tools: Annotated[
        str, StringConstraints(pattern=rf"^Bash\(faber-ledger [a-z -]+:\*\)(, Bash\({re.escape(TIME)}\))?$")
    ] = Field(alias="allowed-tools")
    disable_model_invocation: Literal["true"] | None = Field(default=None, alias="disable-model-invocation")


def read(path: Path) -> bytes:
    return path.read_bytes()


def skill(name: str) -> tuple[Frontmatter, str]:
    fields, body = read_skill(name)
    for value in fields.values():  # else YAML reads something else, or nothing
        assert value.startswith('"') or not re.search(r": |#|^[\[{&*!|>'%@`]", value), value
    return Frontmatter.model_validate(fields), body


def test_the_repository_is_a_marketplace_of_this_plugin() -> None:
    marketplace = Marketplace.model_validate_json(read(PROJECT / ".claude-plugin/marketplace.json"))
    manifest = Manifest.model_validate_json(read(PLUGIN / ".claude-plugin/plugin.json"))
    (offered,) = marketplace.plugins
    assert (marketplace.name, offered.name, manifest.name) == ("faber-ledger", "faber-ledger", "faber-ledger")
    assert (PROJECT / offered.source).resolve() == PLUGIN
    assert offered.description == manifest.description


def test_the_plugin_has_the_version_of_the_package() -> None:
    assert json.loads(read(PLUGIN / ".claude-plugin/plugin.json"))["version"] == faber_ledger.__version__


def test_the_hooks_call_the_program_and_nothing_else() -> None:
    hooks = Hooks.model_validate_json(read(PLUGIN / "hooks/hooks.json")).hooks
    called = {event: [handler for group in groups for handler in group.hooks] for event, groups in hooks.items()}
    (start,) = called.pop("SessionStart")  # in a shell, which tells the user where the program is missing
    assert (start.command.rpartition("; exec ")[2], start.timeout) == ("faber-ledger-hook session-start", 20)
    assert {one.command for handlers in called.values() for one in handlers} == {"faber-ledger-hook"}
    assert {event: [(one.args, one.timeout) for one in handlers] for event, handlers in called.items()} == {
        event: [([name], seconds)] for event, (name, seconds) in HOOKS.items() if event != "SessionStart"
    }


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_runs_one_command_and_may_run_no_other(name: str) -> None:
    fields, body = skill(name)
    allowed = fields.allowed_tools.removeprefix("Bash(").removesuffix(f", Bash({TIME})").removesuffix(":*)")
    if name == "note":  # a text is never part of a command
        assert INLINE.findall(body) == []
        assert f"{allowed} --from-stdin <<'END_OF_NOTE'\n" in body
    else:
        at, command = INLINE.findall(body)
        assert at == TIME
        assert command.startswith(f"{allowed} ")
        assert command.endswith(" $ARGUMENTS 2>&1 || true")
    assert len(body.splitlines()) <= 20


def test_the_model_is_told_what_a_workflow_calls_alone() -> None:
    described = [name for name in SKILLS if skill(name)[0].disable_model_invocation is None]
    assert described == ["note", "reconstitute", "session-load", "session-save"]
    assert all("Use " in skill(name)[0].description for name in described)


def test_a_skill_has_no_variable_but_its_arguments() -> None:
    for name in SKILLS:
        assert set(re.findall(r"\$\{?\w+", skill(name)[1])) == {"$ARGUMENTS"}
