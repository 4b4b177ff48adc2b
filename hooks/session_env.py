"""The variables that the client's shell commands get, from the file `CLAUDE_ENV_FILE` that the shell sources."""

from __future__ import annotations

import os
import stat

from faber_ledger.context.artifact import is_value
from faber_ledger.runs.run import is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


LIMIT = 1_048_576


def export_run(path: str, run_id: str, work_id: Any, warn: Callable[[str], None]) -> None:
    """Export `FABER_RUN_ID` and `FABER_WORK_ID` in the client's file unless it does so already, or warn.

    A work id comes from a cloned repository: it is left out unless it has only letters, digits and `._#-`.
    """
    wanted = {"FABER_RUN_ID": run_id if is_run_id(run_id) else ""}
    work = str(work_id) if isinstance(work_id, (str, int)) and not isinstance(work_id, bool) else ""
    wanted["FABER_WORK_ID"] = work if is_value(work) else ""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        _add(path, os.open(path, flags, 0o600), wanted)
    except (OSError, ValueError) as error:
        warn(f"CLAUDE_ENV_FILE: {error}")


def _add(path: str, descriptor: int, wanted: dict[str, str]) -> None:
    with open(descriptor, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        known = (file.read(LIMIT) or b"").decode("utf-8", "replace")
        lines = [f"export {name}='{value}'" for name, value in wanted.items() if value != _exported(known, name)]
        if lines:
            gap = "\n" if known and not known.endswith("\n") else ""
            file.write((gap + "\n".join(lines) + "\n").encode())


def _exported(text: str, name: str) -> str:
    """Return what our own last line exports under a name; empty if there is none."""
    start = f"export {name}='"
    lines = [line for line in text.splitlines() if line.startswith(start) and line.endswith("'")]
    return lines[-1][len(start) : -1] if lines else ""
