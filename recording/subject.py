"""Which run a delivery is about (DECISIONS 37): the run of the client's newest session, or the active one.

A client stays with its run: a checkout of main in the middle of a conversation, or a merge that brings a colleague's
run, changes nothing for it. Only a tool or a command in its work tree, or the client itself, moves it to another.
"""

from __future__ import annotations

import os

from faber_ledger.runs.active import active_run
from faber_ledger.runs.clients import client_of_process
from faber_ledger.runs.git import other_roots, work_tree_of
from faber_ledger.runs.kept import kept_run
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.recording.call import Call
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.clients import SeenClient


class Subject:
    """The run that a delivery is about, in the project `root` of one of the clone's work trees.

    `run_id` is None if there is none; `reason_none` then says why, or is empty if there is no active file. On a run
    that `is_shown` nothing is recorded. `active` is the active run of that work tree.
    """

    def __init__(self, root: str, run_id: str, active: ActiveRun) -> None:
        self.root = root
        self.run_id: str | None = run_id
        self.active = active
        self.is_shown = active.is_shown and active.run_id == run_id
        self.reason_none = ""

    @classmethod
    def of_active(cls, root: str, active: ActiveRun) -> Subject:
        """Return the active run as the subject; none if no run is active, or it is not here."""
        subject = cls(root, active.run_id or "", active)
        problem = active.reason_none if active.run_id is None else active.find_problem(root)
        if active.run_id is None or problem:
            subject.run_id, subject.reason_none = None, problem or ""
        return subject


def subject_of(call: Call, root: str, seen: SeenClient | None) -> Subject:
    """Return the run that a delivery is about; `seen` is what this clone knew of its client before.

    `root` is the project that the client was launched in. The client's `cwd` decides only if the client has a session
    there, since it follows every `cd`.
    """
    elsewhere = _other_root(call.text("cwd"), root)
    if elsewhere is not None and seen is not None and seen.run_id is not None:
        there = active_run(elsewhere)
        if there.run_id == seen.run_id and not there.is_shown:
            return Subject(elsewhere, seen.run_id, there)
    active = active_run(root)
    own = _client_before(call, root, seen)
    if own is not None and own.run_id is not None and own.session_at is not None:
        at = _root_of_session(root, own.root or root, own.run_id)
        if at is not None and not active.named_since(own.session_at, own.run_id):
            return Subject(at, own.run_id, active if at == root else active_run(at))
    return Subject.of_active(root, active)


def _client_before(call: Call, root: str, seen: SeenClient | None) -> SeenClient | None:
    """Return the client whose run this delivery stays with; None if it begins something new.

    With `/clear`, and with a fork, the client has a new id, and its process the one that it had before.
    """
    source = call.text("source") if call.hook == "SessionStart" else None
    if source in ("clear", "fork"):
        return client_of_process(root, call.pid)
    return seen if call.hook != "SessionStart" or source in ("compact", "resume") else None


def _other_root(cwd: str | None, root: str) -> str | None:
    """Return the project in another work tree of the clone, if `cwd` lies in that work tree; else None."""
    here = work_tree_of(root)
    there = work_tree_of(cwd) if cwd is not None and cwd != root and os.path.isabs(cwd) else None
    if here is None or there is None or there.own == here.own or not _is_same(there.common, here.common):
        return None
    return os.path.normpath(os.path.join(there.top, os.path.relpath(root, here.top)))


def _root_of_session(root: str, of_session: str, run_id: str) -> str | None:
    """Return where a client's session goes on: in the work tree that it began in, else in this one.

    None if the run is neither there nor in this clone's mirror.
    """
    if of_session != root and of_session in other_roots(root) and find_run(of_session, run_id).is_recorded():
        return of_session
    return root if find_run(root, run_id).is_recorded() or kept_run(root, run_id) is not None else None


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)
