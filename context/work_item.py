"""The work item of a run, fetched by the program that the user mapped its command to (RECON, 0.3)."""

from __future__ import annotations

import json
import re

from faber_ledger.context.artifact_source import VALUE
from faber_ledger.context.findings import one_line
from faber_ledger.context.mapped_command import filled, outcome_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.findings import Journal
    from faber_ledger.context.mapped_command import Outcome

FETCH = "/fractary-work:issue-fetch"
OPTIONS = ["Skip issue details and continue", "Check work plugin credentials, then fetch again", "Abort workflow"]
NEEDS_LOGIN = 4  # GitHub's program says so by its exit code
SIGNS = (  # the first that is found counts; "Could not resolve to an Issue" is how GitHub says that there is none
    ("network", r"(?:no such|resolve) host|error connecting|connection re|timed? ?out|unreachable|network is"),
    ("auth", r"authenticat|authoriz|credentials|\blog ?in\b|forbidden|permission denied|\b40[13]\b"),
    ("not_found", r"not found|no such issue|could not resolve to|does not exist|\b404\b"),
)
NOTES = {
    "network": "Workflow will continue but may lack recent issue comments",
    "not_found": "Issue may have been deleted; the workflow will continue without it",
}


def load_work_item(work_id: str, commands: dict[str, list[str]], journal: Journal) -> dict[str, Any] | None:
    """Fetch a work item; None where it cannot be had. Raises ChoiceNeeded and Aborted where the user must log in."""
    command = commands.get(FETCH)
    if command is None:
        named = one_line(work_id)
        journal.info("issue_not_mapped", f"ℹ Issue #{named} not fetched: no program is mapped; run {FETCH} {named}")
        return None
    if re.fullmatch(VALUE, work_id) is None:
        _warned(work_id, "network", "this work_id cannot stand in a command", journal)
        return None
    while True:
        outcome = outcome_of(filled(command, {"work_id": work_id}))
        failure = _failure(outcome)
        if failure is None:
            return _told(work_id, outcome["output"], journal)
        kind, reason = failure
        if kind != "auth":
            _warned(work_id, kind, reason, journal)
            return None
        facts = {"Issue": f"#{work_id}", "Error": reason}
        if journal.ask("issue_fetch_auth", "Issue fetch failed", facts, OPTIONS) == 1:
            return None


def _failure(outcome: Outcome) -> tuple[str, str] | None:
    """Tell why a fetch failed: auth, not_found, or network for everything else; None if it did not."""
    if outcome["problem"] is not None:
        return "network", outcome["problem"]
    if outcome["code"] == 0:
        return None
    said = outcome["errors"].strip() or outcome["output"].strip()
    reason = one_line(said.split("\n", 1)[0]) if said else f"exit code {outcome['code']}"
    kinds = [kind for kind, sign in SIGNS if re.search(sign, said, re.IGNORECASE)]
    return ("auth" if outcome["code"] == NEEDS_LOGIN else (kinds or ["network"])[0]), reason


def _told(work_id: str, output: str, journal: Journal) -> dict[str, Any] | None:
    try:
        issue = json.loads(output)
    except (ValueError, RecursionError) as error:
        _warned(work_id, "network", f"the answer is no JSON: {error}", journal)
        return None
    if not isinstance(issue, dict):
        _warned(work_id, "network", "the answer is no JSON object", journal)
        return None
    labels = [_name(label) for label in _list(issue.get("labels"))]
    comments = _list(issue.get("comments"))
    journal.log(f"✓ Loaded issue #{one_line(work_id)}: {one_line(issue.get('title'))}")
    journal.log(f"  State: {one_line(issue.get('state'))}")
    journal.log(f"  Labels: {', '.join([one_line(label) for label in labels])}".rstrip())
    journal.log(f"  Comments: {len(comments)}")
    return {
        "title": issue.get("title"),
        "description": issue.get("body", issue.get("description")),
        "labels": labels,
        "comments": comments,
        "url": issue.get("url"),
        "state": issue.get("state"),
    }


def _warned(work_id: str, kind: str, reason: str, journal: Journal) -> None:
    journal.warn(
        f"issue_fetch_{kind}",
        "Issue fetch failed - continuing without issue details",
        {"Issue": f"#{work_id}", "Error": reason},
        NOTES[kind],
    )


def _name(label: Any) -> Any:
    return label.get("name") if isinstance(label, dict) else label


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
