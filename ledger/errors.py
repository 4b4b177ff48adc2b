"""What can go wrong, each with a stable code, an exit code and a way out.

Every error that a command can end with is here, so that the command reference can list them all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class LedgerError(Exception):
    """A condition that the user can do something about; a bug is never one."""

    code = "failed"
    exit_code = 1

    def __init__(
        self, message: str, *, hint: str = "", block: str = "", data: Mapping[str, object] | None = None
    ) -> None:
        """Keep what happened, what to run, and the requirement documents' own wording, which is printed instead.

        `data` is what `--json` adds to the error.
        """
        super().__init__(message)
        self.data = dict(data or {})
        self.message = message
        self.hint = hint
        self.block = block


# A run and its ledger


class RunNotFound(LedgerError):
    """No such run, or it has no ledger."""

    code, exit_code = "run_not_found", 10


class NotFound(LedgerError):
    """Nothing in the log matches, or several things may be meant."""

    code, exit_code = "not_found", 10


class Locked(LedgerError):
    """Another process held the run's lock for too long."""

    code, exit_code = "locked", 11


class NewerFormat(LedgerError):
    """The ledger's format is newer than this program."""

    code, exit_code = "newer_format", 12


class IntegrityError(LedgerError):
    """The ledger is not what this program wrote."""

    code, exit_code = "integrity", 20


class NotALedger(IntegrityError):
    """The file is not a SQLite database, or belongs to another program."""

    code = "not_a_ledger"


class EventConflict(IntegrityError):
    """One event id has two different contents."""

    code = "event_conflict"


class JournalRefused(IntegrityError):
    """SQLite must not play the journal beside a ledger."""

    code = "journal_refused"


class UnionConflict(LedgerError):
    """One event id has two hashes, so that two logs cannot be united."""

    code, exit_code = "union_conflict", 22


class LedgerLost(LedgerError):
    """A run would be adopted again although git has its log."""

    code = "ledger_lost"


class NotWritable(LedgerError):
    """The run's folder, or a file in it, cannot be written."""

    code = "not_writable"


class Replaced(NotWritable):
    """Another file took the ledger's place while it was open, as git does."""

    code = "replaced"


# The run's state


class ProjectionDiffers(LedgerError):
    """state.json does not show what the log says."""

    code, exit_code = "projection_differs", 21


class StateMissing(LedgerError):
    """The run has no state.json."""

    code = "state_missing"


class StateInvalid(LedgerError):
    """state.json cannot be read as a state: not JSON, not an object, another run's; `reason` says which."""

    code = "state_invalid"

    def __init__(self, reason: str, *, path: str = "state.json", hint: str = "") -> None:
        """Keep the reason alone, and the file it is about."""
        super().__init__(f"{path} cannot be read: {reason}", hint=hint)
        self.reason = reason


class StateRefused(StateInvalid):
    """The file in state.json's place is not read: a link, not a regular file, or too large."""


class ForeignState(StateRefused):
    """The state in a run's folder belongs to another run."""


class StateNotWritten(NotWritable):
    """state.json could not be written; the old file stays."""

    code = "state_not_written"


# Choosing a run


class InvalidRunId(LedgerError):
    """The text is not a run id, or would leave the runs directory."""

    code, exit_code = "invalid_run_id", 1


class NoActiveRun(LedgerError):
    """No run is active here."""

    code, exit_code = "no_active_run", 10


class SeveralActiveRuns(LedgerError):
    """Several runs are active, and there is no terminal to ask which one is meant."""

    code, exit_code = "several_active_runs", 10


class Declined(LedgerError):
    """The user did not agree to take over from the active workflow."""

    code = "declined"


class NotReleased(LedgerError):
    """The run has not reached the end of its Release phase."""

    code = "not_released"


# Context


class WorkflowNotFound(LedgerError):
    """The workflow's configuration is missing or malformed."""

    code = "workflow_not_found"


class ContextLost(LedgerError):
    """What every reconstitution needs is missing or cannot be read."""

    code = "context_lost"


class ChoiceNeeded(LedgerError):
    """Someone has to choose how to go on, and there is no terminal to ask."""

    code, exit_code = "choice_needed", 3


class Aborted(LedgerError):
    """The user was asked how to go on, and chose to stop."""

    code = "aborted"


class NoteTooLong(LedgerError):
    """The note is longer than one may be."""

    code = "note_too_long"


# Git, and other programs' files


class GitFailed(LedgerError):
    """Git is not installed, or refused what it was asked."""

    code = "git_failed"


class GitIgnores(LedgerError):
    """Git ignores a file that must travel with the project."""

    code = "git_ignores"


class NoWorkTree(LedgerError):
    """There is no git repository here, or it has no work tree."""

    code = "no_work_tree"


class SettingsInvalid(LedgerError):
    """A settings file of the client cannot be read; it is left as it is."""

    code = "settings_invalid"


# Single commands


class UsageFailed(LedgerError):
    """Wrong usage."""

    code, exit_code = "usage", 2


class NotWell(LedgerError):
    """`doctor` found something to fix."""

    code, exit_code = "not_well", 23


class NoPage(LedgerError):
    """The page's file holds something else."""

    code = "not_a_page"


class StepFailed(LedgerError):
    """A step of the demo did not do what the story says."""

    code, exit_code = "demo_failed", 1
