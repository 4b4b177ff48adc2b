"""What a hook answers where nothing is recorded: no run is active, or the one that is named is not used."""

from __future__ import annotations

from faber_ledger.recording.call import Answer
from faber_ledger.recording.subject import is_first_answer
from faber_ledger.runs import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.subject import Subject

SKIPPED = {"SessionStart": "prime-context", "PreCompact": "session-end", "SessionEnd": "session-end"}


def answer_unused(call: Call, subject: Subject, at: float, warn: Callable[[str], None]) -> Answer | None:
    """Warn why nothing is recorded, and return what a start shows to user and agent, once for each delivery."""
    reason = subject.active.shown_line if subject.is_shown else subject.reason_none
    warn(
        f"No active workflow found, skipping {SKIPPED.get(call.hook, 'the compaction')}{': ' if reason else ''}{reason}"
    )
    if call.hook != "SessionStart" or call.text("agent_id") is not None:
        return None
    is_over = subject.is_shown and subject.active.status in progress.FINISHED
    context = reason if subject.is_shown and not is_over else None
    if not reason or is_over or not is_first_answer(call, subject.root, at):
        return None
    return Answer(context, f"faber-ledger: {reason}")


def answer_foreign(call: Call, error: LedgerError, say: Callable[[str], None]) -> Answer | None:
    """Say that the project is another user's, if there is anything to use in it, and return what a start shows.

    Nothing is written there, not even the hook log.
    """
    if not error.data["has_runs"]:
        return None
    line = f"{error.message} - {error.hint}"
    say(line)
    is_shown = call.hook == "SessionStart" and call.text("agent_id") is None
    return Answer(None, f"faber-ledger: {line}") if is_shown else None
