"""Write a long log through the ledger's own append. Arguments: its path, the number of events, reloads per session."""

from __future__ import annotations

import itertools
import sys

from faber_ledger.ledger.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.events import Draft

BEGIN = 1767623422.0
AT_ONCE = 10_000  # `append` returns its events, so they are in memory
ENVIRONMENT = {"hostname": "dev-laptop", "platform": "linux", "cwd": "/home/dev/project", "git_commit": "abc1234"}


def drafts(reloads: int = 1) -> Iterator[Draft]:
    """Yield session after session: a start, then per reload eight loads, the reload and a compaction, then an end."""
    for number in itertools.count():
        session_id = f"claude-session-20260105-143022-{number:06d}"
        delivery = {"hook": "SessionStart", "digest": f"{number:064d}", "pid": "28355"}
        for fields in _session(number, delivery, reloads):
            yield {"event": {"session_id": session_id, **fields}, "client": f"client-{number // 3}"}  # type: ignore[typeddict-item]  # an event with other fields


def _session(number: int, delivery: dict[str, str], reloads: int) -> Iterator[dict[str, object]]:
    yield {
        "type": "session_started",
        "source": "compact" if number % 3 else "startup",
        "environment": ENVIRONMENT,
        "empties_context": True,
        "phase": "build",
        "step": "implement",
        "phases_completed": ["frame", "architect"],
        "pid": "28355",
        "delivery": delivery,
    }
    for _ in range(reloads):
        for artifact in range(8):
            yield {
                "type": "artifact_loaded",
                "artifact_id": f"artifact-{artifact}",
                "trigger": "session_start",
                "source": f"docs/artifact-{artifact}.md",
                "size_bytes": 2048 + artifact,
                "sha256": f"{artifact:064x}",
                "given": "inline",
            }
        yield {"type": "context_reloaded", "trigger": "session_start", "loaded": 8, "failed": 0, "skipped": 0}
        yield {
            "type": "compaction_completed",
            "trigger": "auto",
            "agent_id": None,
            "phase": "build",
            "step": "implement",
            "delivery": delivery,
        }
    yield {
        "type": "session_ended",
        "reason": "normal",
        "client_reason": "other",
        "inferred": False,
        "phase": "build",
        "step": "implement",
        "phases_completed": ["frame", "architect"],
        "delivery": delivery,
    }


def main() -> None:
    """Append all events in one transaction."""
    path, count, reloads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    facts = itertools.islice(drafts(reloads), count)
    with Log.open(path) as log:
        while log.append(itertools.islice(facts, AT_ONCE), at=BEGIN, writer="5f" * 16):
            pass
        log.commit()


if __name__ == "__main__":
    main()
