"""Which modules a process, or a hook, loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support.command import COMMAND

HOOKS: dict[str, dict[str, str | None]] = {
    "session-start": {"hook_event_name": "SessionStart", "source": "startup"},
    "pre-compact": {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": None},
    "post-compact": {"hook_event_name": "PostCompact", "trigger": "auto", "compact_summary": "what was said"},
    "session-end": {"hook_event_name": "SessionEnd", "reason": "other"},
}


def loaded_by(
    command: list[str | Path], project: Path, delivery: bytes = b"", environ: Mapping[str, str] = os.environ
) -> set[str]:
    """Run a process in a user's environment; return the modules it imported, as the interpreter reports them."""
    environment = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPROFILEIMPORTTIME"] = "1"
    done = subprocess.run(command, cwd=project, env=environment, input=delivery, capture_output=True, check=True)
    lines = done.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def loaded_by_hook(name: str, project: Path) -> set[str]:
    """Run one hook; return what it imported beyond what any process of this environment imports."""
    delivery = {"session_id": "3f1c", "cwd": str(project), "transcript_path": str(project / "t.jsonl")} | HOOKS[name]
    loaded = loaded_by([COMMAND, "hook", name], project, json.dumps(delivery).encode())
    return loaded - loaded_by([sys.executable, "-c", "pass"], project)
