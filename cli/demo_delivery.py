"""What the client sends to a hook, as a real one (2.1.330) was recorded to: the JSON, and the variables beside it."""

from __future__ import annotations

import os
from typing import Any

CONVERSATION = "324802ff-0231-4ac6-8eb6-c6c99574fbae"  # the client's own session id, which a resume keeps
PROMPT = {"prompt_id": "2a48cae6-b8df-406a-9187-00eb867af8b5"}
EVENTS: dict[str, dict[str, Any]] = {
    "startup": {"hook_event_name": "SessionStart", "source": "startup", "model": "claude-opus-5-5"},
    "compacting": PROMPT | {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": None},
    "compact": PROMPT | {"hook_event_name": "SessionStart", "source": "compact", "model": "claude-opus-5-5"},
    "compacted": PROMPT | {"hook_event_name": "PostCompact", "trigger": "auto", "compact_summary": "Build goes on."},
    "resume": {
        "hook_event_name": "SessionStart",
        "source": "resume",
        "seconds_since_last_response": 5,
        "context_tokens": 1212,
        "prompt_cache_likely_expired": False,
        "estimated_cache_write_usd": 0.0061,
    },
    "exit": PROMPT | {"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"},
}


def delivery(kind: str, home: str, directory: str) -> dict[str, Any]:
    """Give what the client writes to a hook's standard input, for one of the kinds in `EVENTS`."""
    folder = os.path.join(home, ".claude", "projects", directory.replace(os.sep, "-"))
    always = {
        "session_id": CONVERSATION,
        "transcript_path": os.path.join(folder, f"{CONVERSATION}.jsonl"),
        "cwd": directory,
    }
    return always | EVENTS[kind]


def variables(pid: int, directory: str) -> dict[str, str]:
    """Give the variables that a client with this process id sets for its hooks."""
    return {
        "AI_AGENT": "claude-code_2-1-330_harness",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": CONVERSATION,
        "CLAUDE_PID": str(pid),
        "CLAUDE_PROJECT_DIR": directory,
    }
