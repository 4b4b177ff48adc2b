"""What a hook answers where nothing is recorded: no run is active, or the one that is named is not used."""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.recording.call import Answer
from faber_ledger.runs import progress
from faber_ledger.runs.git import clone_folder, common_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.recording.call import Call
    from faber_ledger.recording.subject import Subject

SKIPPED = {"SessionStart": "prime-context", "PreCompact": "session-end", "SessionEnd": "session-end"}
MOST_CONFIG = 1_000_000  # bytes
TOLD = "told-to-set-up"  # below `.git/faber-ledger/`


def answer_unused(call: Call, subject: Subject, warn: Callable[[str], None]) -> Answer | None:
    """Warn why nothing is recorded, and return what a start shows to user and agent."""
    reason = subject.active.shown_line if subject.is_shown else subject.reason_none
    warn(
        f"No active workflow found, skipping {SKIPPED.get(call.hook, 'the compaction')}{': ' if reason else ''}{reason}"
    )
    if call.hook != "SessionStart" or call.text("agent_id") is not None:
        return None
    is_over = subject.is_shown and subject.active.status in progress.FINISHED
    lines = [reason] if reason and not is_over else []
    if _is_to_be_set_up(subject.root):
        command = "faber-ledger init --git-only"
        lines.append(f"this clone was never set up for faber-ledger, and git will not merge its files: run `{command}`")
    message = "; ".join(lines)
    context = reason if subject.is_shown and not is_over else None
    return Answer(context, f"faber-ledger: {message}" if message else None)


def _is_to_be_set_up(root: str) -> bool:
    """Return whether `init` was never run in this clone, and note that it was said: it is said once."""
    common, folder = common_directory(root), clone_folder(root)
    if common is None or folder is None or not os.path.isdir(os.path.join(root, ".fractary")):
        return False
    told = os.path.join(folder, TOLD)
    if os.path.lexists(told):
        return False
    try:
        if b"faber-ledger" in read_regular(os.path.join(common, "config"), MOST_CONFIG, follow=True):
            return False
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except (FileRefused, OSError):
        return False  # it would be said at every start
    return True
