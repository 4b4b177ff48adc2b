"""A hook call as the client makes it: JSON on standard input and a few environment variables; and its run.

Also what is recorded of the place where it is made: the environment with the host name, and what is checked out.

A client goes on with the run that it is on: a checkout of main in the middle of a conversation changes nothing for it.
What begins something new is about the run in whose folder the client was launched, or about the active run (DECISIONS
37).
"""

from __future__ import annotations

import os
import stat
import sys

from faber_ledger.ledger.encoding import loads, sha256, without_surrogates
from faber_ledger.runs.active import active_run, is_finished, named_since
from faber_ledger.runs.git import branch_of, commit_of, may_name_filters, read_config, work_tree_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import RUNS, common_directory, is_run_id, is_value
from faber_ledger.runs.seen import hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NotRequired, TypedDict

    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.seen import SeenClient

    class Checkout(TypedDict):
        """What a `checkout_recorded` says besides its session."""

        has_run: bool
        branch: str | None
        uncommitted: bool | None
        uncommitted_count: NotRequired[int]
        uncommitted_names: NotRequired[list[str]]
        commit: NotRequired[str]


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
LARGEST_VARIABLES = 1_048_576  # bytes of the file of variables
LONGEST_NAME, MAX_NAMES = 200, 10  # of files that are not committed


def event_of(name: str | None) -> str | None:
    """Return the client's event for the name of an event or of our hook; None for any other name."""
    for event, (hook, _) in HOOKS.items():
        if name in (event, hook):
            return event
    return None


def agent_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the name and the version of the agent that runs this process, as `AI_AGENT` has both; each if known.

    Claude Code sets `claude-code_2-1-330_harness`; for another agent `hooks.agents` sets the variable in this form.
    """
    name, _, rest = environ.get("AI_AGENT", "").partition("_")
    if not name and "CLAUDE_CODE_SESSION_ID" not in environ:
        return {}
    name, version = "claude" if name in ("", "claude-code") else name, rest.partition("_")[0].replace("-", ".")
    found = {"agent": name, "agent_version": version}
    return {key: text for key, text in found.items() if text[:1].isalnum() and len(text) < 40 and text.isprintable()}


class Answer:
    """What a hook call answers: `context` is for the agent, `message` one line that a start shows the user."""

    def __init__(self, context: str | None, message: str | None = None) -> None:
        self.context = context
        self.message = message


class Call:
    """What a hook call says. Unknown fields and values are accepted; missing ones are None."""

    agent: str | None = None  # another agent than the client
    limit: int | None = None  # how many bytes of a context it takes whole
    is_answered = True
    before: Sequence[Call] = ()  # calls that no hook has made, and that this one shows
    keeps_packets = False  # whether the agent has the earlier ones in a conversation that it resumes

    def __init__(self, hook: str, content: bytes, environ: Mapping[str, str]) -> None:
        """Read a delivery; `problem` says what was wrong with it, and the variables replace fields that it lacks.

        Standard input is empty if the client is gone already, so an unreadable delivery does not stop the call.
        """
        self.hook = hook
        self.problem: str | None = None
        self._values = self._read(content)
        self._environ = environ
        self.pid = self._variable("CLAUDE_PID")  # the client's process, which older clients do not name
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
            values = loads(content.decode("utf-8", "surrogatepass").removeprefix("\ufeff"))
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
        value = self._environ.get(name, "")[:LONGEST_VALUE]
        return (value if value.isascii() else without_surrogates(value)) or None

    @property
    def compact_summary(self) -> str:
        """The summary of the client's compaction, of any length; empty if there is none."""
        value = self._values.get("compact_summary")
        return value if isinstance(value, str) else ""

    def transcript(self) -> str | None:
        """Return the path of the conversation, which shows whether the client works; None if it is not known.

        The client names the file after its session, so the path holds nothing else.
        """
        path = self.text("transcript_path")
        return path if path is not None and path.endswith(f"/{self.client}.jsonl") else None

    def transcript_to_count(self) -> str | None:
        """Return the path of the conversation from whose responses tokens are counted."""
        return self.transcript()

    def heard_at(self) -> float | None:
        """Return when the client went on last, if this is an end that may come long after; else None."""
        return None

    @property
    def client(self) -> str | None:
        """The client's own session id: data, never a key."""
        found = self.text("session_id") or self._variable("CLAUDE_CODE_SESSION_ID")
        if found is None or (found.isascii() and found.isprintable()):
            return found
        from faber_ledger.ledger.gate import HIDDEN  # no client's own id has other characters

        return HIDDEN.sub("\ufffd", found)

    @property
    def directory(self) -> str | None:
        """Where to look for the run: where the client was started, since `cwd` follows every `cd`."""
        return self._environ.get("CLAUDE_PROJECT_DIR") or self.text("cwd")


def export_run(path: str, run_id: str, work_id: object) -> None:
    """Export `FABER_RUN_ID` and `FABER_WORK_ID` at the end of the file that the client's shells source; raises OSError.

    A work id comes from a cloned repository: it is empty unless it has only letters, digits and `._#-`.
    """
    work = str(work_id) if isinstance(work_id, (str, int)) and not isinstance(work_id, bool) else ""
    values = {"FABER_RUN_ID": run_id if is_run_id(run_id) else "", "FABER_WORK_ID": work if is_value(work) else ""}
    wanted = "".join([f"export {name}='{value}'\n" for name, value in values.items()]).encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        known = file.read(LARGEST_VARIABLES) or b""
        if not known.endswith(wanted):
            file.write((b"\n" if known and not known.endswith(b"\n") else b"") + wanted)


class Subject:
    """The run that a delivery is about, in the project `root` of one of the clone's work trees.

    `run_id` is None if there is none. `active` is the active run of that work tree, None where it was not looked for.
    """

    def __init__(self, root: str, run_id: str | None, active: ActiveRun | None = None) -> None:
        self.root = root
        self.run_id = run_id
        self.active = active


def subject_of(call: Call, root: str, seen: SeenClient | None) -> Subject:
    """Return the run that a delivery is about; `seen` is what this clone knew of its client before.

    `root` is the project that the client was launched in.
    """
    is_start = call.hook == "SessionStart"
    if seen is not None and (not is_start or call.text("source") in ("compact", "resume")):
        own = _subject_of_client(call, root, seen)
        if own is not None:
            return own
    launched = _runs_of_folder(root, call.directory)
    if launched is not None:
        return Subject(root, launched[0] if len(launched) == 1 else None)
    elsewhere = _other_root(call.text("cwd"), root)
    if elsewhere is not None:
        active = active_run(elsewhere, by_author=is_start, is_start=is_start)
        if active.run_id is not None:
            return Subject(elsewhere, active.run_id, active)
    active = active_run(root, by_author=is_start, is_start=is_start)
    return Subject(root, active.run_id, active)


def _subject_of_client(call: Call, root: str, seen: SeenClient) -> Subject | None:
    """Return the run of a client's newest session, if the client goes on with it; an end is always about that run."""
    if seen.run_id is None or seen.session_at is None:
        return None
    began_in = seen.root or root
    run = _run_of_session(root, began_in, seen.run_id)
    if run is None:
        return None
    is_end = call.hook == "SessionEnd"
    is_left = not is_end and (is_finished(run) or named_since(began_in, seen.session_at, seen.run_id))
    return None if is_left else Subject(run.root, seen.run_id)


def _runs_of_folder(root: str, folder: str | None) -> list[str] | None:
    """Return the runs of the run's or plan's folder that a client was launched in; None if it was in no such folder.

    FABER starts a client for each step in the plan's folder, also where no run has a state.
    """
    if folder is None or ".fractary" not in folder:
        return None
    real = os.path.realpath(folder)
    above = [os.path.join(os.path.realpath(root), *runs.split("/"), "") for runs in RUNS]
    if not real.startswith(tuple(above)):
        return None
    from faber_ledger.runs.layouts import run_ids  # only there

    return [run_id for run_id in run_ids(root) if _is_in_folder(find_run(root, run_id), real)]


def _is_in_folder(run: Run, folder: str) -> bool:
    own = os.path.realpath(run.directory)
    is_inside = not run.suffix and folder.startswith(os.path.join(own, ""))
    return own == folder or own.startswith(os.path.join(folder, "")) or is_inside


def _other_root(cwd: str | None, root: str) -> str | None:
    """Return the project in another work tree of the clone, if `cwd` lies in that work tree; else None."""
    here = work_tree_of(root)
    there = work_tree_of(cwd) if cwd is not None and cwd != root and os.path.isabs(cwd) else None
    if here is None or there is None or there.own == here.own or not _is_same(there.common, here.common):
        return None
    return os.path.normpath(os.path.join(there.top, os.path.relpath(root, here.top)))


def _run_of_session(root: str, began_in: str, run_id: str) -> Run | None:
    """Return the run where a client's session goes on: in the work tree that it began in, else in this one.

    None if the run is neither there nor kept by this clone.
    """
    for at in dict.fromkeys((began_in, root)):
        run = find_run(at, run_id)
        if run.is_recorded():
            return run
    from faber_ledger.runs.kept import kept_run  # only where the work tree lacks the run

    return kept_run(root, run_id)


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


FEWEST = 7  # digits of a commit that git shows


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
    said = read_config(common, "abbrev") or ""
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


def checkout_at_start(run: Run) -> Checkout | None:
    """Return the branch that is checked out where a run is used, without running git; None outside git."""
    if work_tree_of(run.root) is None:
        return None
    return {"has_run": not run.is_kept, "branch": branch_of(run.root), "uncommitted": None}


def checkout_at_end(run: Run) -> Checkout | None:
    """Return the branch that is checked out, and what outside `.fractary` is not committed; None outside git."""
    found, tree = checkout_at_start(run), work_tree_of(run.root)
    if found is None or tree is None:
        return None
    from faber_ledger.runs.git_query import WorkTreeQuery  # not at a start

    paths = WorkTreeQuery(run.root, tree.top, may_filter=may_name_filters(tree)).find_uncommitted()
    if not paths:
        return found
    from faber_ledger.files.text import one_line
    from faber_ledger.recording.secrets.mask import mask_text

    names = [one_line(mask_text(without_surrogates(path)), LONGEST_NAME) for path in paths[:MAX_NAMES]]
    commit = commit_of(run.root)
    known: Checkout = {**found, "uncommitted": True, "uncommitted_count": len(paths), "uncommitted_names": names}
    return {**known, "commit": commit} if commit else known


def checkout_after(fact: Draft, checkout: Checkout | None) -> list[Draft]:
    """Return the fact of what was checked out when a run or session started, or a session ended; none if unknown.

    It comes right after `fact`, which is that start or end.
    """
    of = fact["event"]
    if checkout is None:
        return []
    event: Any = {"type": "checkout_recorded", "is_end": of["type"] == "session_ended", **checkout}
    if of["type"] == "session_started" or of["type"] == "session_ended":
        event["session_id"] = of["session_id"]
    return [{"event": event, "client": fact.get("client")}]
