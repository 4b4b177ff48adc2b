"""Runs with something to find, and what `search` finds in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.log import Log
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path

MONDAY = 1767600000.0  # 2026-01-05T08:00:00Z
NOTE: dict[str, Any] = {"type": "note_recorded", "kind": "note", "phase": "build", "step": None}
COMPACTION: dict[str, Any] = {"type": "compaction_completed", "trigger": "auto", "agent_id": None}
OF_SESSION = {"session_id": "s-1", "trigger": "session_start"}
EVENTS: dict[str, dict[str, Any]] = {
    "note": {**NOTE, "text": "Use the müller index; drop nothing.\nThen deploy."},
    "own summary": {**NOTE, "kind": "summary", "text": "Agreed: the user table moves on Friday"},
    "summary": {**COMPACTION, "phase": "build", "step": None, "summary": "The plan: the table of users stays"},
    "loaded": {
        **OF_SESSION,
        "type": "artifact_loaded",
        "artifact_id": "team-rules",
        "source": "docs/rules_2026.md",
        "size_bytes": 7,
        "sha256": "",
        "given": "inline",
    },
    "failed": {
        **OF_SESSION,
        "type": "artifact_failed",
        "artifact_id": "issue",
        "source": "gh issue view 258",
        "required": True,
        "error": "HTTP 502: gateway is down",
    },
    "skipped": {**OF_SESSION, "type": "artifact_skipped", "artifact_id": "skipped-one", "loaded_at": "-"},
    "finding": {
        "type": "context_reconstituted",
        "status": "failed",
        "phase": None,
        "step": None,
        "mode": None,
        "findings": [{"severity": "ERROR", "code": "BRANCH_MISSING", "told": "the branch feat/258 is gone"}],
    },
    "not searched": {"type": "run_started", "run_id": "gateway", "workflow_id": "gateway", "work_id": "gateway"},
}
STATE = {
    "work_id": "258",
    "status": "in_progress",
    "updated_at": "2026-01-05T09:30:00Z",
    "decisions": [{"what": "keep", "reason": "Redis would need a second gateway"}, {"what": "Später mehr"}],
    "sessions": {"note": "gateway"},
}


def add_run(
    project: Project, run_id: str, state: dict[str, Any] | None, *drafts: dict[str, Any], hour: float = 0
) -> None:
    """Make a run with a state, if there is one, and these events, a second apart, from an hour of Monday on."""
    run = Project(project.root, run_id, project.hostname)
    run.run.mkdir(parents=True, exist_ok=True)
    if state is not None:
        run.put_state({"run_id": run_id, **state})
    if drafts:
        with Log.open(str(run.ledger_path)) as log:
            for second, event in enumerate(drafts):
                draft: Any = {"event": event}
                log.append([draft], at=MONDAY + 3600 * hour + second, writer="5f" * 16)
            log.commit()


def project_to_search(root: Path) -> Project:
    """Make a project with two runs: the older has an event of each kind, the newer a note and a state."""
    project = Project.made(root, {"run_id": "older", "workflow_id": "default", "status": "completed"}, "older")
    add_run(project, "older", None, *EVENTS.values())
    add_run(project, "newer", STATE, {**NOTE, "text": "the gateway is up again"}, hour=1)
    return project


def search(project: Project, *arguments: str) -> dict[str, Any]:
    """Return the data of a search."""
    done = project.faber("search", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def kinds(project: Project, *arguments: str) -> list[str]:
    """Return what a search finds, in its order: each hit's run, and its kind or path."""
    return [
        f"{group['run_id']} {hit['path'] or hit['kind']}"
        for group in search(project, *arguments)["runs"]
        for hit in group["hits"]
    ]
