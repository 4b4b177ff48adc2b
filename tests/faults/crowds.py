"""Many processes at once: hooks of all kinds, a constant reader, and another tool that rewrites state.json."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from faber_ledger.ledger.clock import now
from faber_ledger.recording.sessions import delivery_of
from faber_ledger.runs.seen import note_delivery

if TYPE_CHECKING:
    from support.project import Project

KINDS = (
    "SessionStart.startup.print",
    "SessionStart.clear.print",
    "PreCompact.auto.print",
    "subagent.PostCompact.auto.print",
    "SessionEnd.other.print",
    "subagent.PreCompact.auto.print",
)
AT_ONCE = 40


def run_crowd(project: Project) -> None:
    """Start 40 hooks at a time and read state.json constantly; check that no delivery is lost and no read is torn."""
    stop, reads = threading.Event(), [0]
    clients = [f"client-{number}" for number in range(AT_ONCE)]
    for client in clients:  # the end of an unknown client is not recorded
        note_delivery(str(project.root), client, None, now())
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        reader = pool.submit(_read, project, stop, reads)
        try:
            kinds = [KINDS[number % len(KINDS)] for number in range(AT_ONCE)]
            work = [pool.submit(project.deliver, kind, client=one) for kind, one in zip(kinds, clients, strict=True)]
            assert {done.result().code for done in work} == {0}
        finally:
            stop.set()
        reader.result()
    assert reads[0]
    assert project.deliver("SessionStart.startup.print", client="the last").packet  # it records what waits
    found = [event["client"] for event in project.events if delivery_of(event["event"])]
    assert set(clients) <= set(found)
    assert len(found) == len(set(found))


def _read(project: Project, stop: threading.Event, reads: list[int]) -> None:
    while not stop.is_set():
        reads[0] += 1
        json.loads(project.state_path.read_bytes())


def run_rewrites(project: Project, writes: int) -> None:
    """Let another tool count in state.json, by renames, while hooks project; check that no hook's event is lost."""
    stop = threading.Event()

    def deliver() -> int:
        for count in itertools.count():
            if stop.is_set():
                return count
            assert project.deliver("SessionStart.startup.print", client=f"client-{count}").code == 0
        return 0

    with ThreadPoolExecutor(1) as pool:
        hooks = pool.submit(deliver)
        try:
            for number in range(writes):
                temporary = project.state_path.with_name("state.other")
                temporary.write_text(json.dumps({**project.state, "counter": number}, indent=2))
                os.replace(temporary, project.state_path)
                time.sleep(0.01)
        finally:
            stop.set()
    project.deliver("SessionEnd.other.print", client="the last")
    assert project.types.count("session_started") == hooks.result() + 1
