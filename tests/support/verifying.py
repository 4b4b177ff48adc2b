"""Run `verify` in a project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.sample_log import RUN

COMMAND = Path(sys.executable).with_name("faber-ledger")


def verify(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "verify", *arguments], cwd=project, capture_output=True, text=True, check=False)


def folder(project: Path) -> Path:
    return project / ".fractary" / "runs" / RUN
