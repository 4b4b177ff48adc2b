from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from support.contract import is_contract
from support.folders import make_folder, move_to_memory, remove_folders
from support.sizes import IS_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.clones import Clone
    from support.postgres import Cluster, Database
    from support.project import Project
    from support.team_server import Team

move_to_memory()
os.environ["XDG_STATE_HOME"] = str(make_folder())  # of the projects without git; never the developer's own

# Without cached bytecode each command that is started would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell's background job has interrupts ignored, and so would each command that a test starts, and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("printed", print_blob=True, deadline=None)  # a failure prints how to reproduce it
settings.register_profile("long", settings.get_profile("printed"), max_examples=2_000)
settings.load_profile("printed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; review the difference")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and is_contract(item):
            item.add_marker("contract")
    alone = [item for item in items if not IS_LONG and any(mark.kwargs for mark in item.iter_markers("long"))]
    items[:] = [item for item in items if item not in alone]
    config.hook.pytest_deselected(items=alone)


def pytest_collection_finish() -> None:
    gc.freeze()  # the tests stay to the end: no collection of garbage has to go through them


def pytest_unconfigure() -> None:
    remove_folders()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, started once for the tests of this process."""
    from support.postgres import started_cluster  # only the tests that ask for it pay for it

    with started_cluster() as started:
        yield started


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    """A fresh database on it, with the newest schema."""
    from support.postgres import fresh_database

    with fresh_database(cluster) as fresh:
        yield fresh


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    """Three clones of a project whose members share a login of that server."""
    from support.team_server import made_team

    return made_team(database, tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an active run."""
    from support.project import Project

    return Project.made(tmp_path / "project")


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    """A clone that is set up, with an active run that is committed."""
    from support.clones import Clone

    return Clone.first(tmp_path / "one")


@pytest.fixture
def other(one: Clone) -> Clone:
    """Another clone of it, on another machine."""
    return one.clone("other")
