"""A delivery of another agent than the client: read, recorded and answered as its row of `hooks.agents` says."""

from __future__ import annotations

import os

from faber_ledger.files.text import escape
from faber_ledger.hooks.agents import AGENTS, CLIENT, NAMES, PROMPT, REPLACED_PROMPT
from faber_ledger.ledger.encoding import encoder, sha256
from faber_ledger.recording.call import HOOKS, LONGEST_VALUE, Call
from faber_ledger.runs.seen import changed_at, is_of_session, note_due, seen_client, take_due

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from faber_ledger.recording.call import Answer

OF_CLIENT = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "AI_AGENT")


class AgentCall(Call):
    """A hook call of another agent, read as if the client had made it.

    `form` is the form of answer that the agent takes, None if it takes no context, and `event_name` the event as the
    agent names it in an answer.
    """

    def __init__(self, agent: str, hook: str, content: bytes, environ: Mapping[str, str]) -> None:
        self._agent = AGENTS[agent]
        self.event_name: str | None = None
        super().__init__(self._our_name(hook), content, environ)
        self.agent: str = agent
        self.form: str | None = self._agent.answer
        self.limit = self._agent.limit
        self.keeps_packets = self._agent.keeps_packets
        self._heard_at: float | None = None
        self.digest_facts()
        if self._values.get("hook_event_name") == PROMPT:
            self.hook, self.problem = PROMPT, None
        if self.hook == PROMPT:
            self.form = self._agent.prompt_answer
        elif self.event_name is None:
            self.event_name = self.hook

    def _read(self, content: bytes) -> dict[str, Any]:
        values = super()._read(content)
        if not values:
            return values
        for ours, theirs in self._agent.fields.items():
            if not isinstance(values.get(ours), str):
                values[ours] = values.get(theirs)
        named = values.get("hook_event_name")
        if isinstance(named, str):
            self.event_name = named[:LONGEST_VALUE]
            values["hook_event_name"] = self._our_name(named)
        return values

    def _our_name(self, event: str) -> str:
        """Return the client's event for one of the agent, or for one of our names, which every agent may use."""
        return self._agent.events.get(event) or NAMES.get(event, event)

    @property
    def prompt(self) -> str | None:
        """The prompt as the model would get it, which an answer may replace; None if it is not there."""
        prompt = self._values.get("transformedPrompt")
        return prompt if isinstance(prompt, str) else None

    def digest_facts(self) -> None:
        """Hash only the fields that identify a delivery: others are times, and one event comes in two forms."""
        said = [self.text(name) for name in ("session_id", "source", "trigger", "reason", "agent_id")]
        self.sha256 = sha256(repr([self.hook, *said]).encode()).hexdigest()

    def find_version(self) -> str | None:
        """Return the agent's version by its transcript's first line; None if it is unknown."""
        mark, path = self._agent.version_mark, self.text("transcript_path")
        if self.hook != "SessionStart" or not mark or path is None:
            return None
        from faber_ledger.hooks.agent_transcripts import read_part  # only at a start

        _, found, rest = read_part(path, LONGEST_VALUE, from_end=False).partition(mark)
        return rest.partition('"')[0] if found else None

    def transcript(self) -> str | None:
        """Return the path of the conversation, if it can be kept: if it has no secret."""
        from faber_ledger.recording.secrets.mask import mask_text  # the client's own calls need none

        path = self.text("transcript_path")
        return path if path is not None and mask_text(path) == path else None

    def transcript_to_count(self) -> str | None:
        """Return the path of the conversation, by the session's id if the call lacks it."""
        place, client = self._agent.transcript, self.client or ""
        if not place or not client.replace("-", "").isalnum():
            return self.transcript()
        set_up = self._agent.set_up
        folder = self._environ.get(set_up.moved_by) or os.path.join(os.path.expanduser("~"), set_up.folder)
        return self.transcript() or os.path.join(folder, *place.format(client).split("/"))

    def heard_at(self) -> float | None:
        """Return when the client went on last by its transcript, if this end may come long after the session's."""
        if self._heard_at is not None:
            return self._heard_at
        is_late = self.hook == "SessionEnd" and self._agent.ends_late
        return changed_at(self.text("transcript_path")) if is_late else None

    def summary_of_compaction(self, transcript: str | None, since: float) -> str:
        """Return the summary of this session's newest compaction since a moment; empty if the agent has left none."""
        from faber_ledger.hooks import agent_transcripts  # only after a compaction

        read = agent_transcripts.READERS.get(self._agent.summary)
        if read is None or not transcript or not is_of_session(transcript, self.client or ""):
            return ""
        try:
            return read(transcript, since) or ""
        except (ValueError, RecursionError):  # the file has another form, or does not end yet
            return ""

    def add_summary(self, since: float) -> None:
        """Add the summary that was written since a moment to the end of a compaction that comes without one."""
        self._values["compact_summary"] = self.summary_of_compaction(self.text("transcript_path"), since)

    def add_before(self, hook: str, heard_at: float | None = None, **fields: str) -> None:
        """Let another delivery come before this one, which no hook has sent; an end has the time `heard_at`."""
        said = {name: self.text(name) for name in ("session_id", "cwd", "transcript_path")} | fields
        earlier = AgentCall(self.agent, hook, encoder()(said).encode(), self._environ)
        earlier.is_answered, earlier._heard_at = False, heard_at
        self.before = [*self.before, earlier]

    def can_take_packet(self) -> bool:
        """Return whether an answer to this call can give the agent a context."""
        return self.form is not None and (self.form != REPLACED_PROMPT or self.prompt is not None)

    def become_start(self, source: str) -> None:
        """Make a prompt the start that this agent did not send, or with which it took no packet."""
        self.hook = "SessionStart"
        self._values |= {"hook_event_name": "SessionStart", "source": source}


def render(call: Call, answer: Answer | None) -> str | None:
    """Return what is printed for an agent, in its form; None for nothing: only a start takes any text."""
    if not isinstance(call, AgentCall):
        return None
    found: dict[str, object] = {}
    if answer is not None and call.hook == "SessionStart" and call.form == "client":
        if answer.message is not None:
            found["systemMessage"] = escape(answer.message)
        if answer.context is not None:
            found["hookSpecificOutput"] = {"hookEventName": call.event_name, "additionalContext": answer.context}
    elif answer is not None and answer.context is not None and call.hook == "SessionStart" and call.form is not None:
        found[call.form] = answer.context + (f"\n{call.prompt}" if call.form == REPLACED_PROMPT else "")
    return encoder(separators=(",", ":"))(found) if found else AGENTS[call.agent].nothing


def agent_in(words: list[str]) -> tuple[str | None, str]:
    """Return the agent and the event that the words after `hook` name; no agent for the client itself."""
    agent, names = None, []
    left = iter(words)
    for word in left:
        if word == "--agent":
            agent = next(left, "")
        elif word.startswith("--agent="):
            agent = word.partition("=")[2]
        else:
            names.append(word)
    return None if agent == CLIENT else agent, next(iter(names), "")


def list_events(agent: str) -> list[str]:
    """Return the names of the events that `hook --agent` takes for a known agent: our names, then its own."""
    own = [name for name in AGENTS[agent].events if name not in HOOKS]
    return [*[name for name, _ in HOOKS.values()], *HOOKS, "user-prompt", *own]


def read_call(agent: str, hook: str, content: bytes) -> Call:
    """Read a delivery of another agent, and set this process's variables as the client would have set them.

    An agent that runs in a shell of the client inherits the client's variables, which are about another session.
    """
    if agent not in AGENTS:
        return Call(hook, content, os.environ)
    root = next((found for name in AGENTS[agent].roots if (found := os.environ.get(name))), None)
    for name in OF_CLIENT:
        os.environ.pop(name, None)
    if root is not None:
        os.environ["CLAUDE_PROJECT_DIR"] = root
    call = AgentCall(agent, hook, content, os.environ)
    _name_agent(agent, os.environ.get(AGENTS[agent].version_variable) or call.find_version() or "")
    return call


def _name_agent(agent: str, version: str) -> None:
    """Set the variable from which `recording.call.agent_of` reads the agent and its version."""
    os.environ["AI_AGENT"] = f"{agent}_{version.replace('.', '-')}"


def join_session() -> None:
    """Let a command in the shell of another agent find its session as it finds the client's, whose shell goes first."""
    for name, agent in AGENTS.items() if "CLAUDE_CODE_SESSION_ID" not in os.environ else ():
        session = os.environ.get(agent.session_variable)
        if session:
            os.environ["CLAUDE_CODE_SESSION_ID"] = session
            _name_agent(name, os.environ.get(agent.version_variable, ""))
            return


def prepare_call(call: Call, agent: str, root: str, warn: Callable[[str], None]) -> bool:
    """Note or forget that the client of another agent's call waits for a packet; return whether to record the call.

    A prompt is recorded only as the start that is due, once: the call becomes that start. An end before it is none: the
    session had not begun.
    """
    if not isinstance(call, AgentCall):
        warn(f"{agent or 'no name'} is not an agent that faber-ledger knows: {', '.join([CLIENT, *AGENTS])}")
        return False
    if call.client is None:
        warn(f"a delivery of {agent} names no session, and is not recorded: it may not count for one of the client's")
        return False
    if call.hook == "PreCompact" and call.text("trigger") == AGENTS[agent].ignored_trigger:
        return False
    if call.hook == "PostCompact" and call.text("agent_id") is None:
        announced = seen_client(root, call.client)
        call.add_summary(announced.last_at if announced is not None else 0)
    if AGENTS[agent].starts_again or call.text("agent_id") is not None:
        return call.hook != PROMPT
    if call.hook == PROMPT:
        due = _find_due(call, root) if call.can_take_packet() else None
        if due is not None:
            call.become_start(due)
        return due is not None
    if call.hook == "SessionStart" and call.text("source") in AGENTS[agent].deaf_starts:
        note_due(root, call.client, call.text("source") or "")
        return False
    if call.hook == "PreCompact":
        note_due(root, call.client, f"compact {call.text('trigger') or ''}")
    elif call.hook in ("SessionStart", "SessionEnd"):
        return take_due(root, call.client) not in AGENTS[agent].deaf_starts
    return True


def _find_due(call: AgentCall, root: str) -> str | None:
    """Return the source of the start that a prompt is, None for none; what it shows of a compaction comes before it.

    Of a compaction that no hook announces, the transcript's end says when it was.
    """
    client, seen = call.client or "", seen_client(root, call.client)
    noted = take_due(root, client)
    due, _, trigger = noted.partition(" ") if noted is not None else (None, "", "")
    transcript = call.text("transcript_path") or (seen.transcript if seen is not None else None)
    if due is None and AGENTS[call.agent].ignored_trigger and seen is not None and transcript:
        from faber_ledger.hooks.agent_transcripts import compressed_at

        at = compressed_at(transcript) if is_of_session(transcript, client) else None
        if at is not None and at > seen.last_at:
            due, trigger = "compact", AGENTS[call.agent].ignored_trigger
            call.add_before("PreCompact", at, trigger=trigger)
    since = seen.last_at if seen is not None else 0
    if due == "compact" and (summary := call.summary_of_compaction(transcript, since)):
        call.add_before("PostCompact", trigger=trigger, compact_summary=summary)
    return due
