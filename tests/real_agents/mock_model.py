"""A model's API on loopback, in the three forms that the agents' clients speak; it keeps what it was asked.

`POST …/responses` is Codex's, `…/chat/completions` Copilot's, `…:generateContent` and `…:streamGenerateContent`
Gemini's. The answer to the third request is "answered 3", and so on; a request for a summary gets `SUMMARY`. While
there are `calls`, an answer calls a tool of our server instead.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

SUMMARY = "<state_snapshot>summary of the mock: the retry limit is half done</state_snapshot>"
ASKS_FOR_SUMMARY = ("distilling chat history", "CONTEXT CHECKPOINT COMPACTION", "summary of the conversation")
USAGE = 100  # tokens


class ToolCall(NamedTuple):
    """A call of a tool: as the client has named it, in a namespace of Codex's, and its arguments."""

    name: str
    namespace: dict[str, str]
    arguments: dict[str, Any]


Said: TypeAlias = str | ToolCall


class MockModel:
    """The server, on a free port until it is closed.

    `asked` are the bodies of the requests, oldest first, without those for a summary.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.paths: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []  # each a tool's name with arguments
        self.tokens = USAGE  # what each answer says that the conversation has
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send("application/json", json.dumps({"data": [], "models": []}))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                path = self.path.partition("?")[0]
                kind = next((kind for kind in FORMS if path.endswith(kind)), None)
                if kind is None:
                    self._send("application/json", "{}")
                    return
                outer.paths.append(path)
                said = outer.answer(body) if not path.endswith(":countTokens") else ""
                self._send(*FORMS[kind](body, said, outer.tokens))

            def _send(self, kind: str, content: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content.encode())))
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, body: str) -> Said:
        """Keep a request, and return the words of its answer, or the call."""
        if any(words in body for words in ASKS_FOR_SUMMARY):
            return SUMMARY
        with self._lock:
            self.asked.append(body)
            if self.calls:
                return _find_tool(json.loads(body)["tools"], *self.calls.pop(0))
            return f"answered {len(self.asked)}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _find_tool(tools: list[dict[str, Any]], name: str, arguments: dict[str, Any]) -> ToolCall:
    """Return a call of our server's tool, under the name that a client gives it: with the server's, or in its space."""
    for tool in tools:
        for one in tool.get("tools") or tool.get("functionDeclarations") or [tool.get("function") or tool]:
            given = f"{tool['name']}_{one['name']}" if "tools" in tool else one.get("name", "")
            if re.search(rf"faber.ledger[_-]+{name}$", given):
                return ToolCall(one["name"], {"namespace": tool["name"]} if "tools" in tool else {}, arguments)
    raise AssertionError(f"no tool {name} is offered: {tools}")


def _stream(events: list[tuple[str | None, dict[str, Any] | str]]) -> tuple[str, str]:
    lines = []
    for name, data in events:
        lines.append(f"event: {name}\n" if name is not None else "")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    return "text/event-stream", "".join(lines)


def _responses(body: str, said: Said, tokens: int) -> tuple[str, str]:
    item: dict[str, Any] = {
        "type": "message",
        "id": "msg-1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": said, "annotations": []}],
    }
    if isinstance(said, ToolCall):
        call = {"call_id": f"call-{len(body)}", "name": said.name, "arguments": json.dumps(said.arguments)}
        item = {"type": "function_call", "id": "call-1", **call, **said.namespace}
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 1,
    }
    done = {"id": "resp-1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return _stream(
        [
            ("response.created", {"type": "response.created", "response": {"id": "resp-1"}}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": done}),
        ]
    )


def _chat(body: str, said: Said, tokens: int) -> tuple[str, str]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    about: dict[str, Any] = {"id": "chat-1", "created": 1, "model": "mock-model"}
    spoken: dict[str, Any] = {"content": said}
    reason = "tool_calls" if isinstance(said, ToolCall) else "stop"
    if isinstance(said, ToolCall):
        function = {"name": said.name, "arguments": json.dumps(said.arguments)}
        call = {"index": 0, "id": f"call-{len(body)}", "type": "function", "function": function}
        spoken = {"content": None, "tool_calls": [call]}
    if not json.loads(body).get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **spoken}, "finish_reason": reason}
        return "application/json", json.dumps(
            {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    piece: dict[str, Any] = {**about, "object": "chat.completion.chunk"}
    first = {"index": 0, "delta": {"role": "assistant", **spoken}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": reason}
    return _stream(
        [(None, {**piece, "choices": [first]}), (None, {**piece, "choices": [last], "usage": usage}), (None, "[DONE]")]
    )


def _gemini(body: str, said: Said, tokens: int) -> dict[str, Any]:
    part: dict[str, Any] = {"text": said}
    if isinstance(said, ToolCall):
        part = {"functionCall": {"name": said.name, "args": said.arguments}}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 1, "totalTokenCount": tokens + 1}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


FORMS: dict[str, Callable[[str, Said, int], tuple[str, str]]] = {
    "/responses": _responses,
    "/chat/completions": _chat,
    ":streamGenerateContent": lambda *said: _stream([(None, _gemini(*said))]),
    ":generateContent": lambda *said: ("application/json", json.dumps(_gemini(*said))),
    ":countTokens": lambda body, said, tokens: ("application/json", json.dumps({"totalTokens": tokens})),
}
