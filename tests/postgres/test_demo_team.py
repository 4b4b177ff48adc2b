"""`make demo-team`: what it shows, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = Path(__file__).parents[2] / "tools" / "demo_team.py"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files with a short path, as sockets need one, which another user may pass through."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def play(place: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TMPDIR": str(place)} | ({} if path is None else {"PATH": path})
    return subprocess.run(
        [sys.executable, DEMO], env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300
    )


def servers_in(place: Path) -> str:
    """Return the processes that name a folder."""
    return subprocess.run(["pgrep", "-f", str(place)], capture_output=True, text=True, check=False).stdout


@pytest.mark.long(alone=True)
def test_the_team_demo_shows_fleet_search_and_resume_and_leaves_nothing(place: Path) -> None:
    done = play(place)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    for shown in (
        "desktop $ faber-ledger fleet",
        "Prices are kept in cents, never in floating point",
        "✓ Workflow resumed: shop-258-",
        "byte for byte",
    ):
        assert shown in said
    assert re.search(
        r"build - - (now|\d+ s) at work .* release - - (now|\d+ s) done", said
    )  # before and after the kill
    assert list(place.iterdir()) == []
    assert servers_in(place) == ""
