"""What a hook answers where nothing is recorded: no run is active, or the project is another user's."""

from __future__ import annotations

from faber_ledger.recording.call import Answer
from faber_ledger.runs.active import count_used_at_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.recording.call import Call, Subject

SKIPPED = {"SessionStart": "prime-context", "PreCompact": "session-end", "SessionEnd": "session-end"}


def answer_unused(call: Call, subject: Subject, warn: Callable[[str], None]) -> Answer | None:
    """Warn that no run is active, and return what a start shows to the user."""
    problem = subject.active.problem if subject.active is not None else ""
    skipped = SKIPPED.get(call.hook, "the compaction")
    warn(f"No active workflow found, skipping {skipped}{': ' if problem else ''}{problem}")
    if call.hook != "SessionStart" or call.text("agent_id") is not None:
        return None
    lines = [problem] if problem else []
    count = count_used_at_work(subject.root) if subject.active is not None else 0
    if count:
        runs = "1 run is" if count == 1 else f"{count} runs are"
        lines.append(f"no run is active here; {runs} at work that this clone has recorded on: `faber-ledger run list`")
    if not lines:
        return None
    return Answer(None, f"faber-ledger: {'; '.join(lines)}")


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
