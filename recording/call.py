"""A hook call as the client makes it: JSON on standard input, a few environment variables, and where it is made."""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger.plain_json import loads, sha256, without_surrogates
from faber_ledger.runs.git import branch_of, commit_of, may_name_filters, read_config, work_tree_of
from faber_ledger.runs.run import common_directory, other_roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypedDict

    from faber_ledger.ledger.events import CheckoutRecorded, Draft, Environment
    from faber_ledger.runs.run import Run

    class Checkout(TypedDict):
        """The branch (None: detached or unknown), and whether there are uncommitted changes (None: unknown).

        `has_run` says whether the work tree has the files of the run that it is about.
        """

        has_run: bool
        branch: str | None
        uncommitted: bool | None


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


FEWEST = 7  # digits of a commit that git shows
NEWEST_SESSIONS = 8  # of a run, that are asked where they ran


def read_environment(root: str, cwd: str | None = None) -> Environment:
    """Return hostname, platform, cwd and git_commit (AGENT, Environment collection); None for what is unknown.

    The commit is read from git's files; git is asked only where it keeps its references in tables. It has as many
    digits as `git rev-parse --short` shows where so many name one object (DECISIONS 18).
    """
    commit = commit_of(root)
    if commit is None and os.path.isdir(os.path.join(common_directory(root) or os.devnull, "reftable")):
        from faber_ledger.runs.git_query import GitQuery  # only where git keeps its references in tables

        commit = GitQuery(["rev-parse", "HEAD"], root).answer()
    return {
        "hostname": hostname(),
        "platform": os.uname().sysname.lower() if hasattr(os, "uname") else sys.platform,
        "cwd": cwd or _working_directory() or root,
        "git_commit": commit[: _digits(common_directory(root) or "")] if commit else None,
    }


def _digits(common: str) -> int:
    """Return how many digits `git rev-parse --short` shows of a commit: by `core.abbrev`, or the objects in packs."""
    said = read_config(common, "core", "abbrev") or ""
    if said.isdecimal():
        return max(4, int(said))
    folder, count = os.path.join(common, "objects", "pack"), 0
    try:
        for name in [name for name in os.listdir(folder) if name.endswith(".idx")]:
            with open(os.path.join(folder, name), "rb") as index:
                index.seek(8 + 255 * 4)  # the last of 256 sums
                count += int.from_bytes(index.read(4), "big")
    except OSError:
        pass  # there are no packs, or git is just replacing them
    return max(FEWEST, (count.bit_length() + 1) // 2)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed after this process started
        return None


def hostname() -> str:
    """Return this machine's name, or `FABER_LEDGER_HOSTNAME` where the real one must not be recorded."""
    given = os.environ.get("FABER_LEDGER_HOSTNAME")
    if given:
        return given
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def sessions_elsewhere(state: dict[str, Any], root: str) -> list[bool]:
    """Return for each of a run's newest sessions, newest first, whether it ran on another machine or in another clone.

    It looks at the state alone, since every start asks.
    """
    sessions = state.get("sessions")
    history = sessions.get("session_history") if isinstance(sessions, dict) else None
    newest = history[-NEWEST_SESSIONS:] if isinstance(history, list) else []
    return [_is_elsewhere(entry, root) for entry in reversed(newest)]


def _is_elsewhere(entry: object, root: str) -> bool:
    environment = entry.get("environment") if isinstance(entry, dict) else None
    if not isinstance(environment, dict):
        return False
    machine, cwd = environment.get("hostname"), environment.get("cwd")
    if isinstance(machine, str) and machine != hostname():
        return True
    if not isinstance(cwd, str) or _is_in(cwd, root):
        return False
    return not any([_is_in(cwd, one) for one in other_roots(root)])


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def checkout_at_start(run: Run) -> Checkout | None:
    """Return the branch that is checked out where a run is used, without running git; None outside git."""
    if work_tree_of(run.root) is None:
        return None
    return {"has_run": not run.is_kept, "branch": branch_of(run.root), "uncommitted": None}


def checkout_at_end(run: Run) -> Checkout | None:
    """Return the branch that is checked out, and whether anything outside `.fractary` is not committed.

    None outside git.
    """
    found, tree = checkout_at_start(run), work_tree_of(run.root)
    if found is None or tree is None:
        return None
    from faber_ledger.runs.git_query import WorkTreeQuery  # not at a start

    return {
        **found,
        "uncommitted": WorkTreeQuery(run.root, tree.top, may_filter=may_name_filters(tree)).is_uncommitted(),
    }


def checkout_after(fact: Draft, checkout: Checkout | None) -> list[Draft]:
    """Return the fact of what was checked out when a run or session started, or a session ended; none if unknown.

    It comes right after `fact`, which is that start or end.
    """
    of = fact["event"]
    if checkout is None:
        return []
    event: CheckoutRecorded = {
        "type": "checkout_recorded",
        "is_end": of["type"] == "session_ended",
        "has_run": checkout["has_run"],
        "branch": checkout["branch"],
        "uncommitted": checkout["uncommitted"],
    }
    if of["type"] == "session_started" or of["type"] == "session_ended":
        event["session_id"] = of["session_id"]
    return [{"event": event, "client": fact.get("client")}]
