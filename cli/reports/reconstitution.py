"""The summaries at the end of a reconstitution, boxed and brief (RECON, 0.8 and Context Summary)."""

from collections.abc import Iterator
from typing import Any

from faber_ledger.context.reconstitution.faber_files import LedgerFacts, count_sessions, event_line
from faber_ledger.context.reconstitution.journal import text_or_na
from faber_ledger.context.reconstitution.steps import point_text

RULE = "═" * 59
RESUMED = {
    "after_feedback": "Resuming after feedback",
    "continue": "Continuing from {}",
    "retry": "Retrying {}",
    "start": "Starting from beginning",
}


def boxed_lines(context: dict[str, Any], known: LedgerFacts) -> Iterator[str]:
    """Yield the boxed summary."""
    point, summary = context["resume_point"], context["session_summary"]
    yield ""
    yield RULE
    yield "  CONTEXT RECONSTITUTION COMPLETE"
    yield RULE
    yield f"  Run ID:        {context['run_id']}"
    yield f"  Work ID:       {text_or_na(context['work_id'])}"
    yield f"  Status:        {context['status']}"
    yield f"  Resume Mode:   {point['mode'] if point else 'N/A'}"
    yield f"  Spec:          {_spec(context)}"
    yield f"  Branch:        {_branch(context)}"
    yield f"  Events:        {len(context['events']) + known['events']} loaded"
    yield f"  Sessions:      {_sessions(context, known)} previous"
    if summary:
        yield f"  Last Phase:    {text_or_na(summary['phase_completed'])}"
        yield f"  Next Phase:    {_next_phase(summary)}"
    yield RULE
    yield ""


def brief_lines(context: dict[str, Any], known: LedgerFacts) -> Iterator[str]:
    """Yield the brief summary."""
    summary = context["session_summary"]
    yield f"✓ Context reconstituted for run: {context['run_id']}"
    yield f"  Work Item: {_work_item(context)}"
    yield f"  Spec: {_spec(context)}"
    yield f"  Branch: {_branch(context)}"
    yield f"  Status: {context['status']} → {_describe_resume(context)}"
    completed = summary["phase_completed"] if summary else None
    last = f" (last: {text_or_na(completed)} complete)" if completed else ""
    yield f"  Sessions: {_sessions(context, known)} previous{last}"
    if summary:
        yield f"  Next Phase: {_next_phase(summary)}"
    if context["events"]:
        yield f"  Last Event: {event_line(context['events'][-1])}"


def _spec(context: dict[str, Any]) -> str:
    return text_or_na(context["artifacts"].get("spec_path") or "Not created")


def _branch(context: dict[str, Any]) -> str:
    return text_or_na(context["artifacts"].get("branch_name") or "Not created")


def _sessions(context: dict[str, Any], known: LedgerFacts) -> int:
    history = context["session_history"]
    return count_sessions(history["all_summaries"] if history else [], known)


def _next_phase(summary: dict[str, Any]) -> str:
    return text_or_na(summary["remaining_phases"][0]) if summary["remaining_phases"] else "None"


def _work_item(context: dict[str, Any]) -> str:
    if context["work_id"] is None:
        return "N/A"
    issue = context["issue"]
    return f"#{text_or_na(context['work_id'])}" + (f" - {text_or_na(issue['title'])}" if issue else "")


def _describe_resume(context: dict[str, Any]) -> str:
    point = context["resume_point"]
    if point is None:
        return "Nothing to resume" if context["status"] == "completed" else "Cannot resume"
    return RESUMED[point["mode"]].format(point_text(point))
