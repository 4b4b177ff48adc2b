"""The tools of the server: each runs a command in this process, and answers what the command prints.

One call at a time: a tool holds up the event loop, as a command holds up a shell.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Annotated, Any, Literal, TypeAlias

import anyio
import click
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from faber_ledger import __version__
from faber_ledger.cli.mcp.session import AgentSession
from faber_ledger.cli.ui.errors import run_command
from faber_ledger.cli.ui.output import tell_lines
from faber_ledger.files.text import cut_middle
from faber_ledger.runs.git import forget
from faber_ledger.runs.publish import forget_carry

LONGEST = 30_000  # units of an answer: what Claude Code takes of a command in its shell
INSTRUCTIONS = (
    "faber-ledger records the sessions of FABER workflows. Call `context` first, and again after a compaction; call"
    " `note` for what the next session must know."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RECORDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

Client: TypeAlias = Context[Any, Any]
Run: TypeAlias = Annotated[str | None, Field(description="The run's id; without one, the active run.")]
OneRun: TypeAlias = Annotated[str | None, Field(description="A run's id; without one, all runs that are here.")]
Yes: TypeAlias = Annotated[bool, Field(description="Take over from another active run; ask the user before.")]


class Tools:
    """What the agent can call; the docstrings are the descriptions that it reads."""

    def __init__(self, app: click.Command) -> None:
        self._app = app
        self.session = AgentSession()

    async def context(self, client: Client) -> str:
        """Call this first, and after each compaction: where the active run stands, what to do, and what to know."""
        return self._answer(client, lambda: tell_lines(self.session.give_packet()), StringIO())

    async def status(self, client: Client, run: Run = None) -> str:
        """Call this when you need to know a run's phase, its open session, or whether it waits for somebody."""
        return self._run(client, ["status", *last_word(run)])

    async def reconstitute(
        self,
        client: Client,
        run: Run = None,
        only: Annotated[list[str], Field(description="Parts, such as position, decisions, notes, events.")] = [],  # noqa: B006  # the schema needs the default itself, and nothing changes it
    ) -> str:
        """Call this when the packet is not enough to go on: everything that is known of a run."""
        return self._run(client, ["reconstitute", *[f"--only={part}" for part in only], *last_word(run)])

    async def search(self, client: Client, text: str, run: OneRun = None) -> str:
        """Call this when you are asked what was decided, noted or tried before, in this run or any other."""
        return self._run(client, ["search", *([f"--run-id={run}"] if run else []), "--", text])

    async def note(self, client: Client, text: str, kind: Literal["note", "summary", "decision"] = "note") -> str:
        """Call this when something is decided, or found out, that the next session has to know."""
        return self._run(client, ["note", f"--kind={kind}", "--", "add", text], self.session.ensure_open)

    async def run_start(
        self, client: Client, work_id: str = "", target: str = "", workflow: str = "", yes: Yes = False
    ) -> str:
        """Call this when the user begins a new piece of work: a work item, or a target in words."""
        given = {"work-id": work_id, "target": target, "workflow": workflow}
        words = [f"--{name}={value}" for name, value in given.items() if value]
        return self._begin(client, ["start", *words], yes=yes)

    async def run_resume(self, client: Client, run: str = "", work_id: str = "", yes: Yes = False) -> str:
        """Call this when the user goes on with earlier work: a run, or the newest run of a work item."""
        return self._begin(client, ["resume", *([f"--work-id={work_id}"] if work_id else [])], *last_word(run), yes=yes)

    def end(self, reason: str) -> None:
        """End the client's session; what fails is printed on standard error."""
        run_command(click.Command("end", callback=lambda: self.session.end(reason)), [])

    def _begin(self, client: Client, words: list[str], *run: str, yes: bool) -> str:
        """Run a command that makes a run active, and return what it prints."""
        answer = self._run(client, ["run", *words, *(["--yes"] if yes else []), *run])
        self.session.note_opened()
        return answer.replace("run `faber-ledger session-load`", "call `context`")

    def _run(self, client: Client, words: list[str], prepare: Callable[[], None] = lambda: None) -> str:
        """Run a command after `prepare`, and return what it prints, cut to `LONGEST`; raises ToolError if it fails."""

        def run() -> int:
            prepare()
            return run_command(self._app, words)

        return cut_middle(self._answer(client, run), LONGEST)

    def _answer(self, client: Client, act: Callable[[], object], errors: StringIO | None = None) -> str:
        """Return what `act` prints in the name of the client, without its warnings if those go to `errors`.

        Raises ToolError with what it prints if it fails.
        """
        forget()
        forget_carry()
        printed = StringIO()

        def call() -> object:
            params = client.session.client_params
            info = params.client_info if params is not None else None
            self.session.become_client(info.name if info else "", info.version if info else "")
            return act()

        errors = printed if errors is None else errors
        with redirect_stdout(printed), redirect_stderr(errors):
            code = run_command(click.Command("tool", callback=call), [])
        if code:
            raise ToolError(cut_middle(use_tool_words(errors.getvalue()), LONGEST))
        return printed.getvalue()


def use_tool_words(text: str) -> str:
    """Return an error of a command with what answers its question by a tool, in place of the option."""
    return re.sub(r"(?<![\w-])--yes(?![\w-])", "`yes: true`", text)


def last_word(run: str | None) -> list[str]:
    """Return a run as the last argument of a command, whatever its first letter is."""
    return ["--", run] if run else []


def serve(app: click.Command) -> None:
    """Serve the client on standard input and output, and end its session when the input or this process ends."""
    tools = Tools(app)
    server: MCPServer[Any] = MCPServer(
        "faber-ledger", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    reading = (tools.status, tools.search)
    for tool in (tools.context, *reading, tools.reconstitute, tools.note, tools.run_start, tools.run_resume):
        server.add_tool(tool, annotations=READS if tool in reading else RECORDS, structured_output=False)
    anyio.run(_serve, server, tools)


async def _serve(server: MCPServer[Any], tools: Tools) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_at_signal, tools)
        try:
            await server.run_stdio_async()
        except* BrokenPipeError:  # the client has ended before it read all answers
            pass
        tools.end("input_closed")
        os._exit(0)  # a client that has gone cannot be sent what is buffered


async def _end_at_signal(tools: Tools) -> None:
    """End the session at an interrupt, between two calls; the thread that waits for input cannot be interrupted."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for received in signals:
            tools.end(received.name.lower())
            os._exit(0)
