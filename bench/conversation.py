"""What Claude Code writes of a conversation in which an agent reads and edits files, as large as it is wanted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

SOURCE = 'def read(path):\n    return open(path, encoding="utf-8").read()\n\n\n' * 40  # a file that the agent reads
DAY = 24 * 3600  # the responses come after the session's start, whenever that is measured


def write_conversation(path: Path, size: int) -> None:
    """Write the first `size` bytes of a conversation, in whole lines."""
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        turn = 0
        while file.tell() < size:
            for line in _turn(turn):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            turn += 1


def _turn(number: int) -> list[dict[str, Any]]:
    """Return the lines of a response, which says something and calls a tool, and of what the tool answered."""
    call = {"type": "tool_use", "id": f"toolu_{number:024}", "name": "Read", "input": {"file_path": "/src/page.py"}}
    said = {"type": "text", "text": "Now I look at how the page reads its settings. " * 8}
    answer = {"type": "tool_result", "tool_use_id": call["id"], "content": SOURCE}
    file = {"filePath": "/src/page.py", "content": SOURCE, "numLines": SOURCE.count("\n")}
    about = {"parentUuid": f"{number:032}", "cwd": "/src", "version": "2.0.1", "gitBranch": "feat/page"}
    when = time.strftime("%Y-%m-%dT%H:%M:%S.250Z", time.gmtime(time.time() + DAY + 30 * number))
    result = {"type": "user", "message": {"role": "user", "content": [answer]}, "uuid": f"{number:032}"}
    responses = [about | _response(number, part) | {"timestamp": when} for part in (said, call)]
    return [*responses, about | result | {"timestamp": when, "toolUseResult": {"type": "text", "file": file}}]


def _response(number: int, part: dict[str, Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 6,
        "cache_creation_input_tokens": 1_200,
        "cache_read_input_tokens": 40_000 + 1_200 * number,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_200, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 250,
        "service_tier": "standard",
    }
    message = {"model": "claude-opus-4-1-20250805", "id": f"msg_{number:024}", "type": "message", "role": "assistant"}
    message |= {"content": [part], "stop_reason": None, "usage": usage}
    return {"message": message, "requestId": f"req_{number:024}", "type": "assistant", "uuid": f"{number:032}"}
