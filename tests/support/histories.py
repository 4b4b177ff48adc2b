"""Strategies for histories: events in any order that clones and clients can produce, and broken events."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.event_types import EVENT_TYPES

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

SESSIONS = [f"claude-session-20260105-14302{number}-abc12{number}" for number in range(5)]
ARTIFACTS = ["workflow-state", "orchestration-protocol", "specification", "Bauplan-ü"]
PHASES = ["frame", "architect", "build", "evaluate", "release"]
TRIGGERS = ["session_start", "manual", "phase_start", "phase_transition", "compaction_detected"]
START = 1_767_623_422

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
sessions = st.sampled_from(SESSIONS)
artifacts = st.sampled_from(ARTIFACTS)
phases = st.one_of(st.none(), st.sampled_from(PHASES))
completed = st.lists(st.sampled_from(PHASES), unique=True, max_size=5)
times = st.integers(0, 2_000_000).map(lambda seconds: utc_text(START + seconds))
environments = st.fixed_dictionaries(
    {name: st.one_of(st.none(), texts) for name in ("hostname", "platform", "cwd", "git_commit")}
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)

entries = st.fixed_dictionaries(
    {"session_id": sessions, "started_at": times},
    optional={
        "ended_at": st.one_of(st.none(), times),
        "phases_completed": completed,
        "environment": st.one_of(st.none(), environments, environments.map(lambda known: {"hostname": known["cwd"]})),
        "artifacts_loaded": st.lists(artifacts, max_size=3),
        "end_reason": st.sampled_from(["normal", "compaction"]),
        "note": texts,
    },
)
loads = st.fixed_dictionaries(
    {"artifact_id": artifacts, "loaded_at": times, "load_trigger": st.sampled_from(TRIGGERS), "source": texts}
)
adopted_blocks = st.fixed_dictionaries(
    {},
    optional={
        "sessions": st.fixed_dictionaries(
            {},
            optional={
                "current_session_id": st.one_of(st.none(), sessions),
                "total_sessions": st.integers(0, 9),
                "session_history": st.lists(entries, max_size=4),
                "tool": texts,
            },
        ),
        "context_metadata": st.fixed_dictionaries(
            {},
            optional={
                "last_artifact_reload": times,
                "reload_count": st.integers(0, 9),
                "artifacts_in_context": st.lists(loads, max_size=3),
                "compaction_events": st.just([]),
            },
        ),
    },
)


def block_text(blocks: Any) -> str:
    return json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))


def _event(kind: str, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional)


events = st.one_of(
    _event("run_started", {"run_id": st.just("r"), "workflow_id": texts, "work_id": st.none()}),
    _event("run_adopted", {"run_id": st.just("r"), "blocks": adopted_blocks.map(block_text)}),
    _event(
        "session_started",
        {
            "session_id": sessions,
            "source": st.sampled_from(["startup", "resume", "clear", "compact", "fork", "session_load", "run_start"]),
            "environment": environments,
            "phase": phases,
            "step": phases,
            "phases_completed": completed,
            "empties_context": st.booleans(),
            "pid": st.none(),
        },
    ),
    _event(
        "session_ended",
        {
            "session_id": sessions,
            "reason": st.sampled_from(["compaction", "normal", "manual"]),
            "client_reason": st.none(),
            "inferred": st.booleans(),
            "phase": phases,
            "step": phases,
            "phases_completed": completed,
        },
        environment=environments,
        also_loaded=st.lists(artifacts, max_size=3),
    ),
    _event(
        "artifact_loaded",
        {
            "session_id": sessions,
            "artifact_id": artifacts,
            "trigger": st.sampled_from(TRIGGERS),
            "source": texts,
            "size_bytes": st.integers(0, 2**40),
            "sha256": st.just("0" * 64),
            "given": st.just("inline"),
        },
    ),
    _event(
        "context_reloaded",
        {
            "session_id": sessions,
            "trigger": st.sampled_from(TRIGGERS),
            "loaded": st.integers(0, 3),
            "failed": st.just(0),
            "skipped": st.just(0),
        },
    ),
    _event("compaction_completed", {"session_id": sessions, "trigger": st.just("auto"), "agent_id": st.none()}),
    _event("artifact_pinned", {"session_id": sessions}),
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 25) -> list[Recorded]:
    """Draw a run's events: sessions overlap, end twice or never, are adopted, and have loads after their end."""
    drawn = draw(st.lists(st.tuples(events, times), max_size=max_size))
    return [recorded(number, event, at) for number, (event, at) in enumerate(drawn, 1)]


def recorded(seq: int, event: Any, at: Any) -> Recorded:
    return {
        "seq": seq,
        "id": f"01KE791W1G{seq:016d}",
        "version": EVENT_TYPES[event["type"]].version if event["type"] in EVENT_TYPES else 1,
        "at": at,
        "writer": "0123456789abcdef",
        "client": None,
        "event": event,
    }


@st.composite
def broken_histories(draw: st.DrawFn) -> list[Recorded]:
    """Draw a history with missing fields, fields of any type, false envelopes, and any JSON as adopted blocks."""
    history = copy.deepcopy(draw(histories(12)))
    for one in history:
        event: dict[str, Any] = one["event"]  # type: ignore[assignment]  # so that it can be broken
        if event["type"] == "run_adopted" and draw(st.booleans()):
            event["blocks"] = draw(st.one_of(texts, st.one_of(json_values, st.deferred(_shuffled)).map(block_text)))
        field = draw(st.sampled_from([None, "at", "version", *event]))
        if field == "type":
            event["type"] = draw(texts)
        elif field in event:
            if draw(st.booleans()):
                event[field] = draw(json_values)
            else:
                del event[field]
        elif field is not None:
            one[field] = draw(json_values)  # type: ignore[literal-required]  # one of the two named above
    return history


def _shuffled() -> st.SearchStrategy[Any]:
    """Draw blocks in which any part is any JSON."""
    anything = json_values
    session = st.one_of(anything, entries, st.fixed_dictionaries({"session_id": st.one_of(anything, sessions)}))
    return st.fixed_dictionaries(
        {},
        optional={
            "sessions": st.one_of(
                anything,
                st.fixed_dictionaries(
                    {},
                    optional={
                        "current_session_id": st.one_of(anything, sessions),
                        "total_sessions": anything,
                        "session_history": st.one_of(anything, st.lists(session, max_size=3)),
                    },
                ),
            ),
            "context_metadata": st.one_of(
                anything,
                st.fixed_dictionaries(
                    {},
                    optional={
                        "reload_count": anything,
                        "artifacts_in_context": st.one_of(anything, st.lists(st.one_of(anything, loads), max_size=3)),
                        "compaction_events": anything,
                    },
                ),
            ),
        },
    )
