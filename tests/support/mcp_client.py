"""An agent without hooks: the protocol's own client, which starts the installed server as an agent does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Implementation, TextContent, Tool

from support.command import COMMAND

Call: TypeAlias = tuple[str, dict[str, Any]] | Callable[[], object]


class Answer(NamedTuple):
    """What a tool answers."""

    text: str
    is_error: bool


class Agent:
    """An agent that works in `root` and calls itself `name`; `words` are more words of the server's command."""

    def __init__(self, root: Path, environment: Mapping[str, str], name: str = "cursor-vscode", *words: str) -> None:
        self._server = StdioServerParameters(
            command=str(COMMAND), args=["mcp", *words], cwd=root, env=dict(environment)
        )
        self._name = name

    def ask(self, *calls: Call, mode: str = "auto") -> list[Answer]:
        """Call tools in one session, each with its arguments, and what else happens meanwhile; return the answers."""
        return anyio.run(self._ask, calls, mode)

    def list_tools(self) -> list[Tool]:
        """Return what the agent can call."""
        return anyio.run(self._list_tools)

    def _connect(self, mode: str) -> Client:
        client_info = Implementation(name=self._name, version="1.2.3")
        return Client(stdio_client(self._server), mode=mode, client_info=client_info)

    async def _ask(self, calls: tuple[Call, ...], mode: str) -> list[Answer]:
        answers: list[Answer] = []
        async with self._connect(mode) as client:
            for call in calls:
                if callable(call):
                    call()
                    continue
                result = await client.call_tool(*call)
                (content,) = result.content
                assert isinstance(content, TextContent)
                answers.append(Answer(content.text, bool(result.is_error)))
        return answers

    async def _list_tools(self) -> list[Tool]:
        async with self._connect("auto") as client:
            return (await client.list_tools()).tools
