from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("printed", print_blob=True, deadline=None)  # a failure prints how to reproduce it
settings.register_profile("long", settings.get_profile("printed"), max_examples=2_000)
settings.load_profile("printed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; review the difference")
