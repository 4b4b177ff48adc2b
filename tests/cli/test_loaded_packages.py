"""A command loads a large package only where its answer needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import COMMAND
from support.loaded_modules import loaded_by
from support.patients import Patient, make_healthy

PACKAGES = {"alembic", "anyio", "click", "mcp", "opentelemetry", "psycopg", "pydantic", "sqlalchemy", "ulid"} | {
    "typing_extensions"
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return make_healthy(tmp_path_factory.mktemp("small") / "project")


def packages_of(project: Patient, *words: str) -> set[str]:
    command: list[str | Path] = [COMMAND, *words]
    return PACKAGES & loaded_by(command, project.root, environ=project.environment())


@pytest.mark.parametrize(
    "words",
    [
        *("log", "log --phase frame --since 2026-01-05T14:30:22Z", "replay", "show 2", "search startup", "status"),
        *("verify --git", "doctor", "seal", "export"),
    ],
)
def test_a_command_on_a_small_run_loads_click_alone(project: Patient, words: str) -> None:
    assert packages_of(project, *words.split()) == {"click"}
