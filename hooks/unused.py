"""What a hook answers where nothing is recorded: no run is active, or the one that is named is not used."""

from __future__ import annotations

from faber_ledger.recording.call import Answer
from faber_ledger.runs import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.recording.call import Call
    from faber_ledger.recording.subject import Subject

SKIPPED = {"SessionStart": "prime-context", "PreCompact": "session-end", "SessionEnd": "session-end"}


def answer_unused(call: Call, subject: Subject, warn: Callable[[str], None]) -> Answer | None:
    """Warn why nothing is recorded, and return what a start shows to user and agent."""
    reason = subject.active.shown_line if subject.is_shown else subject.reason_none
    warn(
        f"No active workflow found, skipping {SKIPPED.get(call.hook, 'the compaction')}{': ' if reason else ''}{reason}"
    )
    if call.hook != "SessionStart" or call.text("agent_id") is not None:
        return None
    is_over = subject.is_shown and subject.active.status in progress.FINISHED
    context = reason if subject.is_shown and not is_over else None
    return Answer(context, f"faber-ledger: {reason}" if reason and not is_over else None)
