"""The session of the agent that calls: its client's hooks have opened it, or it is recorded here as hooks would do.

The protocol names the client, but not its session. So one server process is one client, with an id of its own.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.output import say
from faber_ledger.cli.ui.which_run import choose_run
from faber_ledger.hooks.agent_call import OF_CLIENT
from faber_ledger.hooks.agents import AGENTS, CLIENT
from faber_ledger.hooks.hook import Hook, Start
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.encoding import dumps
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.fold import fold, open_sessions
from faber_ledger.recording.call import Call, subject_of
from faber_ledger.recording.incoming import Decided
from faber_ledger.recording.sessions import client_of, session_of
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import text_of
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.seen import client_of_process, is_alive, note_delivery

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.recording.inbox import Arrival
    from faber_ledger.recording.recording import Recording

OWN = "mcp-"  # with which the ids of these clients begin
LONGEST_NAME = 39  # of an agent, and of its version


class AgentSession:
    """The session of one client of this process, on whichever run is active."""

    def __init__(self) -> None:
        self._own = f"{OWN}{os.urandom(8).hex()}"
        self._agent = ""
        self._opened: set[tuple[str | None, str | None]] = set()  # client and run of each session that was here

    def become_client(self, name: str, version: str) -> None:
        """Set this process's variables as the client `name` sets them for a command in its shell."""
        for inherited in OF_CLIENT:
            os.environ.pop(inherited, None)
        self._agent = agent_name(name)
        os.environ["AI_AGENT"] = f"{self._agent}_{re.sub(r'[._]', '-', version)[:LONGEST_NAME]}"
        root = find_root(os.getcwd())
        client = self._own
        pid: str | None = str(os.getpid())
        if (start := self._find_open(root)) is not None:
            client, pid = start["client"] or "", text_of(dict(start["event"]), "pid")
        elif self._agent == CLIENT and (hooked := client_of_process(root, str(os.getppid()), self._own)) is not None:
            client, pid = hooked.client, hooked.pid
        os.environ["CLAUDE_CODE_SESSION_ID"] = client
        if pid is not None:
            os.environ["CLAUDE_PID"] = pid

    def ensure_open(self) -> None:
        """Open a session on the active run unless one is open; what is recorded next belongs to it.

        One that another client's start has ended as abandoned is not opened again: the two would end each other's.
        """
        root = find_root(os.getcwd())
        if self._find_open(root) is not None:
            return
        run = _choose_active(root)
        if (client_of(os.environ), run.run_id) not in self._opened:
            self._deliver(Hook, root, run, "SessionStart", source="mcp")
            self.note_opened()

    def note_opened(self) -> None:
        """Note that the client has a session on the active run."""
        self._opened.add((client_of(os.environ), active_run(find_root(os.getcwd())).run_id))

    def give_packet(self) -> str:
        """Return the packet of the active run, and open a session with it; one that is open gets it again.

        Raises LedgerError, also for a finished run.
        """
        root = find_root(os.getcwd())
        run, start = _choose_active(root), self._find_open(root)
        if start is None:
            packet = self._deliver(Start, root, run, "SessionStart", source="mcp")
        else:
            packet = self._deliver(_Again, root, run, "SessionStart", session=session_of(start) or "")
        if packet is None:
            raise LedgerError(f"{run.run_id} is finished and has no context", hint="start or resume a run")
        self.note_opened()
        return packet

    def end(self, reason: str) -> None:
        """End the session that this process has opened, if it has opened one."""
        if self._own not in [client for client, _ in self._opened]:
            return
        os.environ |= {"CLAUDE_CODE_SESSION_ID": self._own, "CLAUDE_PID": str(os.getpid())}
        root = find_root(os.getcwd())
        self._deliver(Hook, root, None, "SessionEnd", reason=reason)

    def _find_open(self, root: str) -> Recorded | None:
        """Return the start of this client's open session on the active run: its own, or the one of its hooks."""
        run_id = active_run(root).run_id
        run = run_here(root, run_id) if run_id is not None else None
        if run is None or lacks_ledger(run):
            return None
        with read_log(run, say) as log:
            starts = [log.start_of(name) for name in reversed(open_sessions(fold(log.stream())))]
        return next((start for start in starts if start is not None and self._is_mine(start, root)), None)

    def _is_mine(self, start: Recorded, root: str) -> bool:
        if start["writer"] != known_writer(root):
            return False
        if start["client"] is None or start["client"].startswith(OWN):
            return start["client"] == self._own
        event = dict(start["event"])
        return event.get("agent") == self._agent and is_alive(text_of(event, "pid")) is not False

    def _deliver(self, kind: type[Hook], root: str, run: Run | None, hook: str, **fields: str) -> str | None:
        """Record a delivery that no hook has sent, and return the text that it is answered with."""
        at = now()
        client = client_of(os.environ)
        said = {"session_id": client, "cwd": root, "hook_event_name": hook, "timestamp": at, **fields}
        call = Call(hook, dumps(said).encode(), os.environ)
        seen = note_delivery(root, client, call.pid, at, is_end=hook == "SessionEnd")
        if run is None:
            subject = subject_of(call, root, seen)
            if subject.run_id is None:
                return None
            run = run_here(subject.root, subject.run_id)
        made = kind(call, run, None, at, say, seen)
        answer = made.answer()
        made.finish()
        return answer.context if answer is not None else None


def _choose_active(root: str) -> Run:
    """Return the active run, or make the only unfinished one active; raises LedgerError."""
    return choose_run(root, None, records=True, takes_up=False)


class _Again(Start):
    """The packet once more, for a session that is open: what it loads is recorded in that one."""

    def _receive(self, state: dict[str, Any]) -> Arrival:
        return {**super()._receive(state), "session_id": self.call.text("session") or ""}

    def _put(self, arrival: Arrival) -> None:
        self._arrival = arrival  # nothing waits in the inbox: no delivery has come

    def _record(self, recording: Recording, arrival: Arrival, loads: list[Draft]) -> Decided:
        recording.append(loads)
        self._is_recorded = True
        return Decided()


def agent_name(name: str) -> str:
    """Return the name under which the sessions of a client are recorded, from the one that it gives itself."""
    lower = name.lower()
    known = next((one for one in (CLIENT, *AGENTS, "cursor") if one in lower), None)
    return known or re.sub(r"[^a-z0-9-]+", "-", lower).strip("-")[:LONGEST_NAME] or "mcp"
