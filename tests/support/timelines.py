"""Histories for drawing timelines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.timeline import build_timeline
from support.golden import events_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.projections.timeline import Timeline


RUN = "fractary-faber-258-20260105-143022-a1b2c3"
HOSTILE = "</title></svg><script>document.title='x'</script><img src=x onerror=\"alert(1)\">'\"&\u202etxt\x1b[31m"


def draw(events: list[Recorded]) -> Timeline:
    return build_timeline(RUN, events, seconds_of)


def story_timeline(story: str) -> Timeline:
    return draw(events_of(story))


class History:
    """A history to which events are added, each `after` seconds after the one before."""

    def __init__(self, at: float = 1767600000) -> None:
        self.at = at
        self.events: list[Recorded] = []

    def add(self, kind: str, after: float = 0, /, **fields: Any) -> History:
        self.at += after
        seq = len(self.events) + 1
        event: Any = {"type": kind, **fields}
        self.events.append(
            {
                "seq": seq,
                "id": f"{seq:026d}",
                "version": 1,
                "at": utc_text(self.at),
                "writer": "6f1d0c2b9a8e4735",
                "client": None,
                "event": event,
            }
        )
        return self

    def start(
        self,
        name: str,
        after: float = 0,
        *,
        machine: str = "laptop",
        source: str = "startup",
        completed: Sequence[str] = (),
        **more: Any,
    ) -> History:
        where = {"hostname": machine, "platform": "linux", "cwd": "/p", "git_commit": None}
        return self.add(
            "session_started",
            after,
            session_id=name,
            source=source,
            environment=where,
            phases_completed=[*completed],
            empties_context=True,
            pid=None,
            **{"phase": "build", "step": None, **more},
        )

    def end(self, name: str, after: float = 0, *, completed: Sequence[str] = (), **more: Any) -> History:
        return self.add(
            "session_ended",
            after,
            session_id=name,
            client_reason=None,
            phases_completed=[*completed],
            **{"reason": "normal", "inferred": False, "phase": "build", "step": None, **more},
        )

    def load(self, name: str, artifact: str, source: str = "a.md") -> History:
        return self.add(
            "artifact_loaded",
            session_id=name,
            artifact_id=artifact,
            trigger="session_start",
            source=source,
            size_bytes=10,
            sha256="0" * 64,
            given="inline",
        )


def append_history(path: str, history: History, clone: int = 0) -> None:
    """Append a history to a log, as a clone's."""
    with Log.open(path) as log:
        for one in history.events:
            draft: Draft = {"event": one["event"], "client": f"c{clone}"}
            log.append([draft], at=seconds_of(one["at"]) or 0, writer=f"{clone:032x}")
        log.commit()


def write_clones(path: str, *clones: History) -> None:
    """Write the united log of clones that recorded a history each, after the run's start, which all have."""
    paths = [f"{path}-{clone}" for clone in range(len(clones))]
    append_history(paths[0], History().add("run_started", run_id=RUN, workflow_id="default", work_id="258"))
    for copy in paths[1:]:
        shutil.copy(paths[0], copy)
    for clone, history in enumerate(clones):
        append_history(paths[clone], history, clone)
    write_union(paths, path)


def long_history(sessions: int) -> list[Recorded]:
    history = History()
    for number in range(sessions):
        name = f"claude-session-20260105-143030-{number:06d}"
        history.start(name, 300, machine=f"machine-{number % 3}", source="compact" if number % 3 == 1 else "startup")
        for artifact in ("workflow-state", "orchestration-protocol", "specification"):
            history.load(name, artifact, f"docs/{artifact}.md")
        history.end(name, 1800, reason="compaction" if number % 3 == 0 else "normal")
    return history.events


# The page


def hostile() -> list[Recorded]:
    history = History().add("run_started", run_id=HOSTILE, workflow_id=HOSTILE, work_id=HOSTILE)
    history.start(HOSTILE, machine=HOSTILE).load(HOSTILE, HOSTILE, HOSTILE)
    history.add(
        "artifact_failed",
        session_id=HOSTILE,
        artifact_id="specification",
        trigger=HOSTILE,
        source=HOSTILE,
        required=True,
        error=HOSTILE,
    )
    history.add("note_recorded", session_id=HOSTILE, kind="note", text=HOSTILE, phase=HOSTILE, step=HOSTILE)
    history.add(HOSTILE, text=HOSTILE)
    history.end(HOSTILE, 60, reason=HOSTILE)
    history.events[-1]["event"]["phase"] = HOSTILE  # type: ignore[typeddict-unknown-key]  # a hostile field
    return history.events
