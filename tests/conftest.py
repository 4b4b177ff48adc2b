from __future__ import annotations

import atexit
import os
import tempfile

import pytest
from hypothesis import settings

_state = tempfile.TemporaryDirectory(prefix="faber-ledger-")  # of the projects without git; never the developer's own
atexit.register(_state.cleanup)
os.environ["XDG_STATE_HOME"] = _state.name

settings.register_profile("printed", print_blob=True, deadline=None)  # a failure prints how to reproduce it
settings.register_profile("long", settings.get_profile("printed"), max_examples=2_000)
settings.load_profile("printed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; review the difference")
