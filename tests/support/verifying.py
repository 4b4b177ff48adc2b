"""Run `verify` in a project."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.command import COMMAND, run_command
from support.sample_log import RUN


def verify(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([COMMAND, "verify", *arguments], cwd=project, capture_output=True, text=True, check=False)


def folder(project: Path) -> Path:
    return project / ".fractary" / "runs" / RUN
