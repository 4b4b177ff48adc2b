"""Many processes at once: hooks of all kinds, a constant reader, and another tool that rewrites state.json."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from support.project import Project

from faber_ledger.ledger.clock import now
from faber_ledger.recording.sessions import delivery_of
from faber_ledger.runs.clients import note_delivery

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = (
    "SessionStart.startup.print",
    "SessionStart.clear.print",
    "PreCompact.auto.print",
    "subagent.PostCompact.auto.print",
    "SessionEnd.other.print",
    "subagent.PreCompact.auto.print",
)
AT_ONCE = 40


class Crowd(NamedTuple):
    """The outcome of many hooks at once: `lost` deliveries are not in the log, `torn` reads were not JSON."""

    delivered: int
    lost: int
    doubled: int
    waited: int
    reads: int
    torn: int


def run_crowd(project: Project, rounds: int, at_once: int = AT_ONCE) -> Crowd:
    """Start `at_once` hooks at a time, `rounds` times, and read state.json constantly."""
    stop, reads = threading.Event(), [0, 0]
    reader = threading.Thread(target=_read, args=(project, stop, reads))
    reader.start()
    delivered, waited = [], 0
    try:
        for one in range(rounds):
            clients = [f"client-{one}-{number}" for number in range(at_once)]
            for client in clients:  # the end of an unknown client is not recorded
                note_delivery(str(project.root), client, None, now())
            kinds = [KINDS[number % len(KINDS)] for number in range(at_once)]
            with ThreadPoolExecutor(at_once) as pool:
                pairs = zip(kinds, clients, strict=True)
                work = [pool.submit(project.deliver, kind, client=client) for kind, client in pairs]
                answers = [done.result() for done in work]
            assert {answer.code for answer in answers} == {0}
            waited += sum("it waits in" in answer.errors for answer in answers)
            delivered += clients
    finally:
        stop.set()
        reader.join()
    assert project.deliver("SessionStart.startup.print", client="the last").packet  # it records what waits
    found = [event["client"] for event in project.events if delivery_of(event["event"])]
    lost = set(delivered) - set(found)
    return Crowd(len(delivered), len(lost), len(found) - len(set(found)), waited, reads[0], reads[1])


def _read(project: Project, stop: threading.Event, reads: list[int]) -> None:
    while not stop.is_set():
        reads[0] += 1
        try:
            json.loads(project.state_path.read_bytes())
        except (OSError, ValueError):
            reads[1] += 1


class Rewrites(NamedTuple):
    """The outcome of another tool's writes while hooks project: `lost` are its writes that were overwritten."""

    writes: int
    lost: int
    hooks: int
    events: int


def run_rewrites(project: Project, writes: int, pause: float = 0.01) -> Rewrites:
    """Let another tool count in state.json, by renames, while hooks project constantly."""
    stop, clients = threading.Event(), _clients(project)

    def deliver() -> int:
        count = 0
        while not stop.is_set():
            answer = project.deliver("SessionStart.startup.print", client=next(clients))
            assert answer.code == 0
            count += 1
        return count

    lost, written = 0, 0
    with ThreadPoolExecutor(1) as pool:
        hooks = pool.submit(deliver)
        for number in range(1, writes + 1):
            state = project.state
            lost += state.get("counter", 0) != written
            temporary = project.state_path.with_name("state.other")
            temporary.write_text(json.dumps({**state, "counter": number}, indent=2))
            os.replace(temporary, project.state_path)
            written = number
            time.sleep(pause)
        stop.set()
        delivered = hooks.result()
    project.deliver("SessionEnd.other.print", client="the last")
    events = sum(event["event"]["type"] == "session_started" for event in project.events)
    return Rewrites(writes, lost, delivered, events)


def _clients(project: Project) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{project.hostname}-{number}"
