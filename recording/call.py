"""A hook call as the client makes it: one line of JSON on standard input, and a few variables."""

from __future__ import annotations

import json

from faber_ledger.ledger.canonical import sha256, without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from faber_ledger.ledger.events import Delivery


HOOKS = {
    "session-start": "SessionStart",
    "pre-compact": "PreCompact",
    "post-compact": "PostCompact",
    "session-end": "SessionEnd",
}
FIELDS = ("session_id", "cwd", "hook_event_name", "source", "trigger", "reason", "agent_id")
LIMIT = 32 * 1024 * 1024
LONGEST_VALUE = 4096
MOST_BESIDES_TEXTS = 64 * 1024  # a client's delivery is large for its summary; a million values take a second to read


class Call:
    """What a hook call says. Unknown fields and values are accepted, missing ones are None."""

    def __init__(self, hook: str, content: bytes, environ: Mapping[str, str]) -> None:
        """Read a delivery; `problem` tells what was wrong with it, and the variables stand in for what it lacks.

        Standard input is empty when the client has already gone, so an unreadable one does not stop the call.
        """
        self.hook = hook
        self.problem: str | None = None
        self._content = content
        self._values = self._read(content)
        self._environ = environ
        self.digest = sha256(content).hexdigest()
        named = self.text("hook_event_name")
        said = HOOKS.get(named or "", named)
        if said in HOOKS.values() and said is not None and said != hook:
            self.hook = said
            self.problem = f"the delivery says {named}, and is taken as that"
        elif said is not None and said != hook and hook in HOOKS.values():
            self.problem = f"the delivery says {named}, which is no hook of faber-ledger; it is taken as {hook}"

    def _read(self, content: bytes) -> dict[str, Any]:
        if not content.strip():
            return {}
        try:
            if len(content) > LIMIT:
                raise ValueError(f"it is longer than {LIMIT} bytes")
            text = content.decode(json.detect_encoding(content), "surrogatepass")
            if len(text) > MOST_BESIDES_TEXTS and besides_texts(text) > MOST_BESIDES_TEXTS:
                raise ValueError(f"it has more than {MOST_BESIDES_TEXTS:,} characters besides its texts")
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
        except (ValueError, RecursionError) as error:
            self.problem = f"the delivery cannot be read: {error}"
            return {}
        return values

    def text(self, name: str) -> str | None:
        """Give a field that is a string and not empty, cut to 4,096 characters."""
        value = self._values.get(name)
        return without_surrogates(value[:LONGEST_VALUE]) if isinstance(value, str) and value else None

    def _variable(self, name: str) -> str | None:
        return without_surrogates(self._environ.get(name, "")[:LONGEST_VALUE]) or None

    @property
    def compact_summary(self) -> str:
        """What the client's compaction came to, of any length; empty if it does not say."""
        value = self._values.get("compact_summary")
        return value if isinstance(value, str) else ""

    @property
    def client(self) -> str | None:
        """The client's own session id: data, never a key."""
        return self.text("session_id") or self._variable("CLAUDE_CODE_SESSION_ID")

    @property
    def pid(self) -> str | None:
        """The client's process, which older clients do not name."""
        return self._variable("CLAUDE_PID")

    @property
    def directory(self) -> str | None:
        """Where to look for the run: where the client was launched, since `cwd` follows every `cd`."""
        return self._environ.get("CLAUDE_PROJECT_DIR") or self.text("cwd")

    def delivery(self) -> Delivery:
        """Give what is recorded of the call itself."""
        return {"hook": self.hook, "digest": self.digest, "pid": self.pid}

    def kept(self, longest: int, summary: str) -> str:
        """Give the delivery as it came; of one that is longer than `longest` bytes what is read, `summary` for its."""
        if len(self._content) <= longest:
            return self._content.decode("utf-8", "surrogateescape")
        found = {name: text for name in FIELDS if (text := self.text(name)) is not None}
        return json.dumps({**found, "compact_summary": summary}, ensure_ascii=False)


def besides_texts(text: str) -> int:
    """Count the characters of a JSON text that stand in none of its strings, quotes apart; as fast as a search."""
    bare = text.replace("\\\\", "").replace('\\"', "")  # every quote that is left begins or ends a string
    if bare.count('"') > 2 * MOST_BESIDES_TEXTS:  # each string but one has a comma or a colon beside it
        return len(bare)
    return sum([len(outside) for outside in bare.split('"')[::2]])
