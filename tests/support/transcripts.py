"""What clients write of a conversation, in the form of Claude Code; every text that was said is `SECRET`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now, utc_text

if TYPE_CHECKING:
    from support.project import Project

SECRET = "the customer is Katzenberger"
MODEL = "claude-opus-4-1-20250805"
PLACE = ".claude/projects/-home-dev-myproject"


def place_of(project: Project, client: str) -> Path:
    """Return the path of a client's transcript, whose folder is made."""
    path = Path(project.environment()["HOME"]) / PLACE / f"{client}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def response(name: str, tokens: tuple[int, int, int], model: str = MODEL, after: float = 1) -> str:
    """Return the lines of a response, some seconds from now: one for each part, of which the last has all its output.

    `tokens` are those that no cache had, the cached ones, and the output.
    """
    fresh, cached, output = tokens
    parts = [({"type": "thinking", "thinking": SECRET}, 1), ({"type": "text", "text": SECRET}, output)]
    return "".join([_line(name, model, part, (fresh, cached, so_far), after) for part, so_far in parts])


def prompt(text: str = SECRET) -> str:
    """Return a prompt's line; it has a number of tokens that is none of a response's."""
    said = {"role": "user", "content": text + ' "usage":{"input_tokens":999}'}
    result = {"status": "completed", "usage": {"input_tokens": 999, "output_tokens": 999}}
    return _dumps({"type": "user", "message": said, "toolUseResult": result, "timestamp": utc_text(now())})


def _line(name: str, model: str, part: dict[str, str], tokens: tuple[int, int, int], after: float) -> str:
    usage = {
        "input_tokens": tokens[0] // 2,
        "cache_creation_input_tokens": tokens[0] - tokens[0] // 2,
        "cache_read_input_tokens": tokens[1],
        "cache_creation": {"ephemeral_5m_input_tokens": tokens[0], "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens[2],
        "service_tier": "standard",
    }
    message: dict[str, Any] = {"model": model, "id": name, "type": "message", "role": "assistant", "content": [part]}
    when = utc_text(now() + after).replace("Z", ".250Z")
    return _dumps(
        {
            "parentUuid": None,
            "isSidechain": False,
            "cwd": "/home/dev/myproject",
            "message": message | {"stop_reason": None, "usage": usage},
            "requestId": f"req_{name}",
            "type": "assistant",
            "uuid": f"{name}-{tokens[2]}",
            "timestamp": when,
        }
    )


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
