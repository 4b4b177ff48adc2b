"""What the sessions before left for the next one in `session-summaries/` (RECON, 0.4.5)."""

from __future__ import annotations

from faber_ledger.context.findings import one_line
from faber_ledger.context.run_files import check_texts, json_files, json_object
from faber_ledger.files.untrusted import FileRefused
from faber_ledger.ledger.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.findings import Journal
    from faber_ledger.runs.run import Run

FOLDER = "session-summaries"
MOST_READ = 200
FOR_BUILD = ("accomplished", "decisions", "files_changed", "remaining_phases")
NOTE = "Continuity may be degraded"


def load_session_history(run: Run, journal: Journal) -> dict[str, Any] | None:
    """Read a run's session summaries; None if there are none. A file that cannot be read is skipped with a warning."""
    try:
        files = json_files(run, FOLDER)
    except FileRefused as error:
        _warned("summary_read_error", "Session summary read error", FOLDER, str(error), journal)
        return None
    if files is None:
        journal.info("summaries_missing", "ℹ No session summaries found (first session for this run)")
        return None
    if not files:
        journal.info("summaries_missing", "ℹ Session summaries directory exists but is empty (first session)")
        return None
    summaries = _in_order([summary for path in files[-MOST_READ:] if (summary := _read(run, path, journal))])
    if not summaries:
        return None
    latest = summaries[-1]
    said = latest["summary"]
    journal.log("✓ Loaded session context from previous sessions")
    journal.log(f"  Total sessions: {len(summaries)}")
    journal.log("  Last session:")
    journal.log(f"    - Phase completed: {one_line(latest.get('phase_completed'))}")
    journal.log(f"    - Timestamp: {one_line(latest.get('timestamp'))}")
    journal.log(f"    - Accomplished: {len(said['accomplished'])} items")
    journal.log(f"    - Files changed: {len(said['files_changed'])}")
    remaining = ", ".join([one_line(phase) for phase in said["remaining_phases"]])
    journal.log(f"    - Remaining phases: {remaining}".rstrip())
    return {
        "total_sessions": len(summaries),
        "latest": latest,
        "all_summaries": [
            {
                "session_id": summary.get("session_id"),
                "phase_completed": summary.get("phase_completed"),
                "timestamp": summary.get("timestamp"),
                "accomplished": summary["summary"]["accomplished"],
                "decisions": summary["summary"]["decisions"],
            }
            for summary in summaries
        ],
    }


def session_summary(session_history: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give what the build skill needs of the latest summary; None if there is none."""
    if session_history is None:
        return None
    latest = session_history["latest"]
    said = latest["summary"]
    return {
        "phase_completed": latest.get("phase_completed"),
        **{name: said[name] for name in FOR_BUILD},
        "context_notes": said.get("context_notes"),
    }


def build_input(summary: dict[str, Any] | None, current_phase: str | None) -> dict[str, Any]:
    """Give the build skill's input: its next phase and the latest summary (RECON, Passing Session Context).

    Where no summary names a phase, it is the one that the state is in.
    """
    remaining = summary["remaining_phases"] if summary else []
    return {"current_phase": remaining[0] if remaining else current_phase, "session_summary": summary}


def _read(run: Run, path: str, journal: Journal) -> dict[str, Any] | None:
    """Read a summary and make its lists whole; None, with a warning, if it cannot be read as one."""
    try:
        found = json_object(run, path)
        if found is None:
            raise FileRefused("No such file or directory")
        said = _said(found)
    except FileRefused as error:
        _warned("summary_read_error", "Session summary read error", path, str(error), journal)
        return None
    except ValueError as error:
        _warned("summary_parse_error", "Session summary parse error - file skipped", path, str(error), journal)
        return None
    return {**found, "summary": {**said, **{name: said.get(name) or [] for name in FOR_BUILD}}}


def _said(found: dict[str, Any]) -> dict[str, Any]:
    """Give the summary in a file, its parts checked; raises ValueError."""
    check_texts(found, ("session_id", "phase_completed", "timestamp"))
    said = found.get("summary")
    if not isinstance(said, dict):
        raise ValueError("it has no summary object")
    check_texts(said, ("context_notes",))
    for name in FOR_BUILD:
        parts = said.get(name)
        if not isinstance(parts, (list, type(None))):
            raise ValueError(f"its {name} is no list")
        if not all([isinstance(part, str) for part in parts or []]):
            raise ValueError(f"its {name} is no list of texts")
    return said


def _in_order(summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort by timestamp if every summary has a readable one; else they stay in the order of their names."""
    moments = [seconds_of(summary.get("timestamp")) for summary in summaries]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(summaries):
        return summaries
    return [summaries[place] for _, place in sorted(zip(known, range(len(known)), strict=True))]


def _warned(code: str, what: str, path: str, reason: str, journal: Journal) -> None:
    journal.warn(code, what, {"Path": path, "Error": reason}, NOTE)
