"""One event of every type, and runs made of them, for tests that need a log with events."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Delivery, Draft, Environment, Event, Recorded
    from faber_ledger.projections.fold import Blocks

RUN = "fractary-faber-258-20260105-143022-a1b2c3"
FIRST = "claude-session-20260105-143022-abc123"
SECOND = "claude-session-20260106-090000-def456"
CLIENT = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
WRITER = "0123456789abcdef"
START = seconds_of("2026-01-05T14:30:22Z") or 0.0


def environment(hostname: str) -> Environment:
    return {"hostname": hostname, "platform": "linux", "cwd": "/home/dev/myproject", "git_commit": "a1b2c3d"}


def delivery(hook: str) -> Delivery:
    return {"hook": hook, "digest": hashlib.sha256(hook.encode()).hexdigest(), "pid": "4711"}


def every_type() -> list[Event]:
    """Return an event of each type."""
    return [*history(), *later_types(), redaction(), undo()]


def redaction() -> Event:
    """Return the redaction of an event that no log here has."""
    return {"type": "event_redacted", "event_id": "01KE791W1GBZPEPSQZS1QKHPAJ", "reason": "a password"}


def undo() -> Event:
    """Return the undo of a redaction of an event that no log here has."""
    return {"type": "redaction_undone", "event_id": "01KE791W1GBZPEPSQZS1QKHPAJ", "reason": None}


def later_types() -> list[Event]:
    """Return an event of each type that is not in the short history."""
    return [
        {"type": "answer_lost", "session_id": "claude-session-20260105-143000-000000"},
        {
            "type": "note_recorded",
            "session_id": FIRST,
            "kind": "note",
            "text": "the token cache lives in auth/cache.py;\nkeep its lock",
            "phase": "build",
            "step": "implement",
        },
        {
            "type": "checkout_recorded",
            "session_id": FIRST,
            "is_end": True,
            "has_run": True,
            "branch": "feat/258\u202e-\u001b[31mred",
            "uncommitted_count": 12,
            "uncommitted_names": ["auth/cache.py", "new/"],
            "commit": "7aebb16700000000000000000000000000000000",
            "uncommitted": True,
        },
        {
            "type": "usage_recorded",
            "session_id": FIRST,
            "model": "claude-opus-4-1",
            "in_phase": "build",
            "input_tokens": 1200,
            "cached_tokens": 90_000,
            "output_tokens": 340,
            "turns": 3,
            "active_seconds": 95,
            "read_files": {"0f3a9c5d7e1b2a48": "0 52430 1f0e5ab2"},
        },
        {
            "type": "context_reconstituted",
            "status": "in_progress",
            "phase": "build",
            "step": "implement",
            "mode": "continue",
            "findings": [
                {"severity": "WARNING", "code": "branch_not_found", "told": "feat/258 was not found locally"},
                {"severity": "INFO", "code": "events_empty", "told": "the events folder is empty"},
            ],
        },
    ]


def history() -> list[Event]:
    """Return a short history of a run."""
    return [
        {"type": "run_started", "run_id": RUN, "workflow_id": "fractary-faber:default", "work_id": "258"},
        {"type": "run_adopted", "run_id": RUN, "blocks": adopted()},
        {
            "type": "session_started",
            "session_id": FIRST,
            "source": "startup",
            "environment": environment("dev-machine-1"),
            "phase": "frame",
            "step": None,
            "phases_completed": [],
            "empties_context": True,
            "pid": "4711",
            "delivery": delivery("SessionStart"),
        },
        {
            "type": "artifact_loaded",
            "session_id": FIRST,
            "artifact_id": "workflow-state",
            "trigger": "session_start",
            "source": f".fractary/runs/{RUN}/state.json",
            "size_bytes": 4096,
            "sha256": hashlib.sha256(b"a state").hexdigest(),
            "given": "inline",
        },
        {
            "type": "artifact_failed",
            "session_id": FIRST,
            "artifact_id": "spécification",
            "trigger": "session_start",
            "source": "specs/WORK-00258.md",
            "required": False,
            "error": "no such file\n\u001b[31mred\u001b[0m",
        },
        {
            "type": "artifact_skipped",
            "session_id": FIRST,
            "artifact_id": "orchestration-protocol",
            "trigger": "manual",
            "loaded_at": "2026-01-05T14:29:00Z",
        },
        {
            "type": "context_reloaded",
            "session_id": FIRST,
            "trigger": "session_start",
            "loaded": 1,
            "failed": 1,
            "skipped": 1,
        },
        {
            "type": "compaction_completed",
            "session_id": FIRST,
            "trigger": "auto",
            "agent_id": None,
            "phase": "build",
            "step": "implement",
            "delivery": delivery("PostCompact"),
        },
        {"type": "delivery_ignored", "reason": "repeated", "delivery": delivery("PostCompact")},
        {
            "type": "session_ended",
            "session_id": FIRST,
            "reason": "normal",
            "client_reason": "logout",
            "inferred": False,
            "environment": environment("dev-machine-1"),
            "phase": "build",
            "step": None,
            "phases_completed": ["frame", "architect"],
            "delivery": delivery("SessionEnd"),
        },
        {
            "type": "session_started",
            "session_id": SECOND,
            "source": "resume",
            "environment": environment("desktop"),
            "phase": "build",
            "step": None,
            "phases_completed": ["frame", "architect"],
            "empties_context": True,
            "pid": None,
        },
    ]


def adopted() -> str:
    entry = {"session_id": "claude-session-20260104-xyz789", "started_at": "2026-01-04T10:00:00Z"}
    sessions = {"current_session_id": None, "total_sessions": 1, "session_history": [entry]}
    return json.dumps({"sessions": sessions}, separators=(",", ":"))


def drafts() -> list[Draft]:
    return [{"event": event, "client": CLIENT} for event in history()]


def append_sample(path: Path, run_id: str = RUN) -> list[Recorded]:
    """Append the short history of a run, ten seconds apart."""
    recorded = []
    with Log.open(str(path)) as log:
        for count, draft in enumerate(drafts()):
            if draft["event"]["type"] == "run_started":
                draft["event"]["run_id"] = run_id
            recorded += log.append([draft], at=START + 10 * count, writer=WRITER)
        log.commit()
    return recorded


def write_run(project: Path, run_id: str = RUN) -> Path:
    """Make an active run with a log and the state.json that it projects to; return its folder."""
    folder = project / ".fractary" / "runs" / run_id
    folder.mkdir(parents=True)
    active = project / ".fractary" / "faber" / ".active-run-id"
    active.parent.mkdir(parents=True, exist_ok=True)
    active.write_text(f"{run_id}\n")
    write_state(folder, fold(append_sample(folder / "ledger.db", run_id)), run_id)
    return folder


def write_state(folder: Path, blocks: Blocks, run_id: str = RUN) -> None:
    state = {"run_id": run_id, "workflow_id": "fractary-faber:default", "status": "in_progress", **blocks}
    (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")
