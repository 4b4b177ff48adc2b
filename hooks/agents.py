"""The table of agents other than the client: what each calls its events and fields, how it answers, and its files.

A new agent is one class in `AGENTS`, and its deliveries in `tests/fixtures/agents`. All rows were measured with real
clients; `docs/guides/AGENTS.md` says what is recorded of each.
"""

from __future__ import annotations

from faber_ledger.recording.call import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROMPT = "UserPrompt"  # no hook of the client: the next start of an agent that sends none after a compaction
NAMES = {name: event for event, (hook, _) in HOOKS.items() for name in (hook, event)} | {"user-prompt": PROMPT}
CLIENT = "claude"
REPLACED_PROMPT = "modifiedTransformedPrompt"  # a form of answer: the packet, and after it the prompt


class SetUp:
    """Where `init --agent` puts our hooks, and what it says.

    `in_project` is the file in a project, and `in_folder` the one in the user's folder of the agent: `folder` in the
    home, or what the variable `moved_by` names. `hooks` are the agent's events, each with our name of the hook and its
    time-out in seconds; the agent counts `in_second` to a second. `empty` is a file without hooks, and an entry of one
    that `is_flat` is the handler itself; one that `is_named` is shown by our name, not by its command. `then` is what
    the user does next, and `again` what makes the agent find a program that was not on PATH.
    """

    in_project: str
    folder: str
    in_folder: str
    hooks: Mapping[str, tuple[str, int]]
    then: str
    again: str
    moved_by = ""
    in_second = 1
    empty = "{}\n"
    is_flat = False
    is_named = False


class Agent:
    """How a client calls hooks: one row of the table.

    `events` maps its names to ours, beside ours, which every client may use. `fields` names where it has what Claude
    Code calls by another name. `roots` are the variables with the folder that it was started in; without one, the
    payload's `cwd` counts. `session_variable` names the session in the shell that the agent uses, and
    `version_variable` the version there and for hooks; `version_mark` is what precedes it at the beginning of the
    transcript.

    `answer` is the form that its start takes, and `prompt_answer` the one of its prompt if it gets the packet there;
    None if it takes no context there. `limit` is how many bytes of a context it takes whole, None if it is not known
    to cut one. A client that `starts_again` sends a start after a compaction. It takes no context with a start of the
    sources `deaf_starts`: its next prompt is that start. A PreCompact with the trigger `ignored_trigger` announces no
    compaction. A client that `keeps_packets` has the earlier ones in a conversation that it resumes. If it `ends_late`,
    it may send an end long after the session's: then the transcript's last change is the end. `summary` says how its
    transcript has a compaction's summary, and `transcript` where its folder has a session's file, if an end does not
    name it. `nothing` is printed where there is no answer.
    """

    answer: str
    events: Mapping[str, str]
    set_up: type[SetUp]
    fields: Mapping[str, str] = {}
    roots: tuple[str, ...] = ()
    session_variable = ""
    version_variable = ""
    version_mark = ""
    prompt_answer: str | None = None
    limit: int | None = None
    starts_again = False
    deaf_starts: tuple[str, ...] = ()
    ignored_trigger = ""
    keeps_packets = False
    ends_late = False
    summary = ""
    transcript = ""
    nothing: str | None = None


class CodexSetUp(SetUp):
    """The hooks of Codex."""

    in_project = ".codex/hooks.json"
    folder = ".codex"
    in_folder = "hooks.json"
    hooks: Mapping[str, tuple[str, int]] = {
        "SessionStart": ("session-start", 20),
        "PreCompact": ("pre-compact", 60),
        "PostCompact": ("post-compact", 20),
        "SessionEnd": ("session-end", 3),  # it allows no more
    }
    moved_by = "CODEX_HOME"
    then = (
        "Codex runs no new hook before you have reviewed it, and `codex exec` does not ask: start it here and"
        " trust them; a daemon that is already at work finds the program after `codex app-server daemon restart`"
    )
    again = "run: codex app-server daemon restart"


class Codex(Agent):
    """OpenAI's agent."""

    answer = "client"
    events: Mapping[str, str] = {"UserPromptSubmit": PROMPT}
    session_variable = "CODEX_SESSION_ID"
    version_variable = "CODEX_VERSION"
    version_mark = '"cli_version":"'
    limit = 9_500  # of more than 10,000 it keeps head and tail, and writes all of it where others can read it
    starts_again = True
    keeps_packets = True
    ends_late = True  # its daemon sends the ends of all sessions when it stops, which may be days later
    summary = "rollout"
    set_up = CodexSetUp


class CopilotSetUp(SetUp):
    """The hooks of Copilot."""

    in_project = ".github/hooks/faber-ledger.json"
    folder = ".copilot"
    in_folder = "hooks/faber-ledger.json"
    hooks: Mapping[str, tuple[str, int]] = {
        "sessionStart": ("session-start", 20),
        "preCompact": ("pre-compact", 60),
        "userPromptTransformed": ("user-prompt", 20),
        "sessionEnd": ("session-end", 15),
    }
    moved_by = "COPILOT_HOME"
    empty = '{\n  "version": 1\n}\n'
    is_flat = True
    then = "Copilot reads its hooks when it starts: start a new session of it"
    again = "start copilot again"


class Copilot(Agent):
    """GitHub's agent."""

    answer = "additionalContext"
    events: Mapping[str, str] = {
        "sessionStart": "SessionStart",
        "sessionEnd": "SessionEnd",
        "preCompact": "PreCompact",
        "userPromptSubmitted": PROMPT,
        "UserPromptSubmit": PROMPT,
        "userPromptTransformed": PROMPT,
    }
    fields: Mapping[str, str] = {"session_id": "sessionId", "agent_id": "agentId", "transcript_path": "transcriptPath"}
    session_variable = "COPILOT_AGENT_SESSION_ID"
    version_variable = "COPILOT_CLI_BINARY_VERSION"
    prompt_answer = REPLACED_PROMPT
    summary = "checkpoint"
    transcript = "session-state/{}/events.jsonl"
    set_up = CopilotSetUp


class GeminiSetUp(SetUp):
    """The hooks of Gemini."""

    in_project = ".gemini/settings.json"
    folder = ".gemini"
    in_folder = "settings.json"
    hooks: Mapping[str, tuple[str, int]] = {
        "SessionStart": ("session-start", 20),
        "PreCompress": ("pre-compact", 60),
        "BeforeAgent": ("user-prompt", 20),
        "SessionEnd": ("session-end", 15),
    }
    in_second = 1_000
    is_named = True
    then = "Gemini reads its hooks when it starts, and names them in a warning once: start a new session of it"
    again = "start gemini again"


class Gemini(Agent):
    """Google's agent."""

    answer = "client"
    events: Mapping[str, str] = {"PreCompress": "PreCompact", "BeforeAgent": PROMPT}
    roots = ("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
    session_variable = "GEMINI_SESSION_ID"
    prompt_answer = "client"
    deaf_starts = ("clear", "resume")  # of `clear` it shows the message alone, and at a resume it loses the context
    ignored_trigger = "auto"  # it comes at every prompt, before Gemini has looked whether there is too much
    summary = "snapshot"
    nothing = "{}"  # without any standard output its user is shown the standard error
    set_up = GeminiSetUp


AGENTS: dict[str, type[Agent]] = {"codex": Codex, "copilot": Copilot, "gemini": Gemini}
SET_UPS = {name: agent.set_up for name, agent in AGENTS.items()}
