"""A model's API on loopback, in the three forms that the agents' clients speak; it keeps what it was asked.

`POST …/responses` is Codex's, `…/chat/completions` Copilot's, `…:generateContent` and `…:streamGenerateContent`
Gemini's. The answer to the third request is "answered 3", and so on; a request for a summary gets `SUMMARY`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUMMARY = "<state_snapshot>summary of the mock: the retry limit is half done</state_snapshot>"
ASKS_FOR_SUMMARY = ("distilling chat history", "CONTEXT CHECKPOINT COMPACTION", "summary of the conversation")
USAGE = 100  # tokens


class MockModel:
    """The server, on a free port until it is closed.

    `asked` are the bodies of the requests, oldest first, without those for a summary.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.paths: list[str] = []
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

    def answer(self, body: str) -> str:
        """Keep a request, and return the words of its answer."""
        if any(words in body for words in ASKS_FOR_SUMMARY):
            return SUMMARY
        with self._lock:
            self.asked.append(body)
            return f"answered {len(self.asked)}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _stream(events: list[tuple[str | None, dict[str, Any] | str]]) -> tuple[str, str]:
    lines = []
    for name, data in events:
        lines.append(f"event: {name}\n" if name is not None else "")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    return "text/event-stream", "".join(lines)


def _responses(body: str, said: str, tokens: int) -> tuple[str, str]:
    item = {
        "type": "message",
        "id": "msg-1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": said, "annotations": []}],
    }
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


def _chat(body: str, said: str, tokens: int) -> tuple[str, str]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    about: dict[str, Any] = {"id": "chat-1", "created": 1, "model": "mock-model"}
    if not json.loads(body).get("stream"):
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return "application/json", json.dumps(
            {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    piece: dict[str, Any] = {**about, "object": "chat.completion.chunk"}
    first = {"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return _stream(
        [(None, {**piece, "choices": [first]}), (None, {**piece, "choices": [last], "usage": usage}), (None, "[DONE]")]
    )


def _gemini(body: str, said: str, tokens: int) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": said}]}
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 1, "totalTokenCount": tokens + 1}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


FORMS: dict[str, Callable[[str, str, int], tuple[str, str]]] = {
    "/responses": _responses,
    "/chat/completions": _chat,
    ":streamGenerateContent": lambda *said: _stream([(None, _gemini(*said))]),
    ":generateContent": lambda *said: ("application/json", json.dumps(_gemini(*said))),
    ":countTokens": lambda body, said, tokens: ("application/json", json.dumps({"totalTokens": tokens})),
}
