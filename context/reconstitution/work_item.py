"""Fetch a run's work item with the program that the user mapped to its command (RECON, 0.3)."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.context.artifact import ArtifactError
from faber_ledger.context.artifact_command import fill_program
from faber_ledger.context.program import UNATTENDED, ProgramFailed, decode_output, run_program
from faber_ledger.context.reconstitution.journal import list_in_line, text_or_na

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.context.reconstitution.journal import Journal


FETCH = "/fractary-work:issue-fetch"
OPTIONS = ["Skip issue details and continue", "Check work plugin credentials, then fetch again", "Abort workflow"]
HINT = "let the mapped program print JSON (gh: `--json title,body,labels,comments,state,url`)"
SECONDS = 20.0
MAX_BYTES = 4_000_000
NEEDS_LOGIN = 4  # the exit code of GitHub's program
SIGNS = (  # the first match counts; "Could not resolve to an Issue" is GitHub's message for an unknown issue
    ("network", r"(?:no such|resolve) host|error connecting|connection re|timed? ?out|unreachable|network is"),
    ("auth", r"authenticat|authoriz|credentials|\blog ?in\b|forbidden|permission denied|\b40[13]\b"),
    ("not_found", r"not found|no such issue|could not resolve to|does not exist|\b404\b"),
)
NOTES = {
    "network": "Workflow will continue but may lack recent issue comments",
    "not_found": "Issue may have been deleted; the workflow will continue without it",
}


def load_work_item(work_id: str, surroundings: Surroundings, journal: Journal) -> dict[str, Any] | None:
    """Return a work item, or None if it is not available; raises ChoiceNeeded or Aborted if the user must log in."""
    program = surroundings["commands"].get(FETCH)
    if program is None:
        named = text_or_na(work_id)
        journal.info("issue_not_mapped", f"ℹ Issue #{named} not fetched: no program is mapped; run {FETCH} {named}")
        return None
    try:
        arguments = fill_program(program, surroundings)
    except ArtifactError as error:
        _warn(work_id, "network", error.message, journal)
        return None
    while True:
        try:
            printed = run_program(
                arguments, surroundings["root"], os.environ | UNATTENDED, seconds=SECONDS, limit=MAX_BYTES
            )
            if not printed.strip():
                raise ProgramFailed("no answer")
            return _parse_answer(work_id, decode_output(printed), journal)
        except ProgramFailed as error:
            kind, reason = _kind(error), text_or_na(str(error))
        if kind != "auth":
            _warn(work_id, kind, reason, journal)
            return None
        facts = {"Issue": f"#{work_id}", "Error": reason}
        if journal.ask("issue_fetch_auth", "Issue fetch failed", facts, OPTIONS) == 1:
            return None


def _kind(error: ProgramFailed) -> str:
    """Return why a fetch failed: auth, not_found, or network for everything else."""
    if error.code == NEEDS_LOGIN:
        return "auth"
    kinds = [kind for kind, sign in SIGNS if re.search(sign, error.complaint, re.IGNORECASE)]
    return (kinds or ["network"])[0]


def _parse_answer(work_id: str, output: str, journal: Journal) -> dict[str, Any] | None:
    """Return the work item in an answer; plain text, as `gh issue view` prints without `--json`, is its description."""
    text = output.strip()
    try:
        issue = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text[0] in "{[":
            _warn(work_id, "network", f"the answer is not JSON: {error}", journal)
            return None
        return _parse_plain_text(work_id, text, journal)
    if not isinstance(issue, dict):
        _warn(work_id, "network", "the answer is not a JSON object", journal)
        return None
    labels = [_name(label) for label in _list(issue.get("labels"))]
    comments = _list(issue.get("comments"))
    journal.log(f"✓ Loaded issue #{text_or_na(work_id)}: {text_or_na(issue.get('title'))}")
    journal.log(f"  State: {text_or_na(issue.get('state'))}")
    journal.log(f"  Labels: {list_in_line(labels)}".rstrip())
    journal.log(f"  Comments: {len(comments)}")
    return {
        "title": issue.get("title"),
        "description": issue.get("body", issue.get("description")),
        "labels": labels,
        "comments": comments,
        "url": issue.get("url"),
        "state": issue.get("state"),
    }


def _parse_plain_text(work_id: str, text: str, journal: Journal) -> dict[str, Any]:
    """Return title, state and labels from the first lines of `gh issue view`, with all of the text as description."""
    head = text.split("\n--\n", maxsplit=1)[0]
    said = {name: value.strip() for name, value in re.findall(r"^(title|state|labels):\t(.*)$", head, re.MULTILINE)}
    labels = [label.strip() for label in said.get("labels", "").split(",") if label.strip()]
    title, state = said.get("title") or None, said.get("state") or None
    if title:
        journal.log(f"✓ Loaded issue #{text_or_na(work_id)}: {text_or_na(title)}")
        journal.log(f"  State: {text_or_na(state)}")
        journal.log(f"  Labels: {list_in_line(labels)}".rstrip())
        journal.log(f"  Comments are not separated: {HINT}")
    else:
        journal.log(f"✓ Loaded issue #{text_or_na(work_id)} (plain text: {text_or_na(text.split(chr(10), 1)[0])})")
        journal.log(f"  State, labels and comments are not separated: {HINT}")
    return {"title": title, "description": text, "labels": labels, "comments": [], "url": None, "state": state}


def _warn(work_id: str, kind: str, reason: str, journal: Journal) -> None:
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
