"""A hook call as the client makes it: JSON on standard input, and a few environment variables."""

from __future__ import annotations

from faber_ledger.ledger.plain_json import loads, sha256, without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# The client's events, each with the name of our hook and its time-out in seconds: without one, SessionEnd is killed
# after 1.5 seconds.
HOOKS = {
    "SessionStart": ("session-start", 20),
    "PreCompact": ("pre-compact", 60),
    "PostCompact": ("post-compact", 20),
    "SessionEnd": ("session-end", 15),
}
LIMIT = 32 * 1024 * 1024
LONGEST_VALUE = 4096
MAX_BESIDES_TEXTS = 64 * 1024  # what makes a delivery large is its summary; parsing a million values takes a second


def event_of(name: str | None) -> str | None:
    """Return the client's event for the name of an event or of our hook; None for any other name."""
    for event, (hook, _) in HOOKS.items():
        if name in (event, hook):
            return event
    return None


class Answer:
    """What a hook call answers: `context` is for the agent, `message` one line that a start shows the user."""

    def __init__(self, context: str | None, message: str | None = None) -> None:
        self.context = context
        self.message = message


class Call:
    """What a hook call says. Unknown fields and values are accepted; missing ones are None."""

    agent: str | None = None  # another agent than the client

    def __init__(self, hook: str, content: bytes, environ: Mapping[str, str]) -> None:
        """Read a delivery; `problem` says what was wrong with it, and the variables replace fields that it lacks.

        Standard input is empty if the client is gone already, so an unreadable delivery does not stop the call.
        """
        self.hook = hook
        self.problem: str | None = None
        self._values = self._read(content)
        self._environ = environ
        self.sha256 = sha256(content).hexdigest()
        named = self.text("hook_event_name")
        event = event_of(named)
        if event is not None and event != hook:
            self.hook = event
            self.problem = f"the delivery says {named}, and is handled as {event}"
        elif event is None and named is not None and hook in HOOKS:
            self.problem = f"the delivery says {named}, which is not a hook of faber-ledger; it is handled as {hook}"

    def _read(self, content: bytes) -> dict[str, Any]:
        if not content.strip():
            return {}
        try:
            if len(content) > LIMIT:
                raise ValueError(f"it is longer than {LIMIT} bytes")
            text = _decoded(content)
            if len(text) > MAX_BESIDES_TEXTS and besides_texts(text) > MAX_BESIDES_TEXTS:
                raise ValueError(f"it has more than {MAX_BESIDES_TEXTS:,} characters outside its texts")
            values = loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is not a JSON object")
        except (ValueError, RecursionError) as error:
            self.problem = f"the delivery cannot be read: {error}"
            return {}
        return values

    def text(self, name: str) -> str | None:
        """Return a field that is a string and not empty, cut to 4,096 characters; otherwise None."""
        value = self._values.get(name)
        if not isinstance(value, str) or not value:
            return None
        return value[:LONGEST_VALUE] if value.isascii() else without_surrogates(value[:LONGEST_VALUE])

    def _variable(self, name: str) -> str | None:
        return without_surrogates(self._environ.get(name, "")[:LONGEST_VALUE]) or None

    @property
    def compact_summary(self) -> str:
        """The summary of the client's compaction, of any length; empty if there is none."""
        value = self._values.get("compact_summary")
        return value if isinstance(value, str) else ""

    @property
    def client(self) -> str | None:
        """The client's own session id: data, never a key."""
        found = self.text("session_id") or self._variable("CLAUDE_CODE_SESSION_ID")
        if found is None or (found.isascii() and found.isprintable()):
            return found
        from faber_ledger.ledger.gate import HIDDEN  # no client's own id has other characters

        return HIDDEN.sub("\ufffd", found)

    @property
    def pid(self) -> str | None:
        """The client's process id, which older clients do not name."""
        return self._variable("CLAUDE_PID")

    @property
    def directory(self) -> str | None:
        """Where to look for the run: where the client was started, since `cwd` follows every `cd`."""
        return self._environ.get("CLAUDE_PROJECT_DIR") or self.text("cwd")


def _decoded(content: bytes) -> str:
    """Return a JSON text in the encoding that it is in; raises UnicodeDecodeError."""
    if content[:1] == b"{" and content[1:2] != b"\0":
        return content.decode("utf-8", "surrogatepass")
    from json import detect_encoding  # of another encoding, and of what is not JSON

    return content.decode(detect_encoding(content), "surrogatepass")


def besides_texts(text: str) -> int:
    """Return how many characters of a JSON text are outside its strings, quotes excluded; as fast as a search."""
    bare = text.replace("\\\\", "").replace('\\"', "")  # every quote that is left begins or ends a string
    if bare.count('"') > 2 * MAX_BESIDES_TEXTS:  # each string except one has a comma or a colon beside it
        return len(bare)
    return sum([len(outside) for outside in bare.split('"')[::2]])
