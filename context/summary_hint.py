"""What a compaction's summary should keep: the client appends it to the summarizer's instructions."""

from __future__ import annotations

from faber_ledger.files.text import quoted
from faber_ledger.runs.progress import current_phase, current_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.runs.run import Run


def what_to_keep(run: Run, state: dict[str, Any]) -> str:
    """Name in three lines the ids, paths and decisions without which the work cannot go on."""
    artifacts = state.get("artifacts")
    known = artifacts if isinstance(artifacts, dict) else {}
    place = ":".join([part for part in (current_phase(state), current_step(state)) if part])
    ids = [("FABER run", run.run_id), ("work item", state.get("work_id")), ("phase and step", place)]
    paths = [
        ("state", run.shown("state.json")),
        ("specification", str(known.get("spec_path") or "").replace("{project_root}/", "")),
        ("branch", known.get("branch_name") or known.get("branch") or state.get("branch")),
    ]
    return (
        f"Keep in the summary, word for word: {_listed(ids)}.\n"
        f"Keep these names: {_listed(paths)}; and the paths of the files that were changed or are about to be.\n"
        "Keep each decision with its reason, what the user asked for, what failed, and the next step."
    )


def _listed(named: list[tuple[str, Any]]) -> str:
    return ", ".join([f"{name} {quoted(value)}" for name, value in named if value not in (None, "")])
