"""What a session runs on: the machine, directory and commit; and its branch, with what is not committed."""

from __future__ import annotations

import os
import sys

from faber_ledger.runs.git import common_directory, other_roots, read_config, work_tree_of
from faber_ledger.runs.git_refs import branch_of, commit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    from faber_ledger.runs.uncommitted import WorkTreeQuery  # not at a start

    return {**found, "uncommitted": WorkTreeQuery(run.root, tree).is_uncommitted()}


def checkout_after(fact: Draft, checkout: Checkout | None) -> list[Draft]:
    """Return the fact of what was checked out when a run or session started, or a session ended.

    It follows `fact`, that start or end, at once. None if nothing is known of it.
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
