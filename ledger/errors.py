"""What can go wrong, each with a stable code, an exit code and a way out."""

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
        """Take what happened, what to run, and the requirement documents' own wording, printed instead if given.

        `data` is what `--json` adds to the error.
        """
        super().__init__(message)
        self.data = dict(data or {})
        self.message = message
        self.hint = hint
        self.block = block


class RunNotFound(LedgerError):
    """No such run, or it has no ledger."""

    code, exit_code = "run_not_found", 10


class NotFound(LedgerError):
    """What was asked for is not in the log, or it may be several things there."""

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
    """The file is no SQLite database, or another program's."""

    code = "not_a_ledger"


class EventConflict(IntegrityError):
    """One event id stands for two contents."""

    code = "event_conflict"


class UnionConflict(LedgerError):
    """One event id has two hashes, so that two logs cannot be united."""

    code, exit_code = "union_conflict", 22


class ProjectionDiffers(LedgerError):
    """state.json does not show what the log says."""

    code, exit_code = "projection_differs", 21


class StateMissing(LedgerError):
    """The run has no state.json."""

    code = "state_missing"


class StateInvalid(LedgerError):
    """state.json cannot be read as a state: not JSON, no object, another run's; `reason` says which."""

    code = "state_invalid"

    def __init__(self, reason: str, *, path: str = "state.json", hint: str = "") -> None:
        """Take the reason alone and the file it is about."""
        super().__init__(f"{path} cannot be read: {reason}", hint=hint)
        self.reason = reason


class NotWritable(LedgerError):
    """The run's folder, or a file in it, cannot be written."""

    code = "not_writable"


class Replaced(NotWritable):
    """Another file was put in the ledger's place while it was open, as git does."""

    code = "replaced"


class StateNotWritten(NotWritable):
    """state.json could not be written; the old file stands."""

    code = "state_not_written"


class NotWell(LedgerError):
    """`doctor` found something to mend."""

    code, exit_code = "not_well", 23


class InvalidRunId(LedgerError):
    """The text is no run id, or would leave the runs directory."""

    code, exit_code = "invalid_run_id", 1


class NoActiveRun(LedgerError):
    """No run is active here."""

    code, exit_code = "no_active_run", 10


class SeveralActiveRuns(LedgerError):
    """Several runs are at work, and nobody is there to be asked which is meant."""

    code, exit_code = "several_active_runs", 10


class UsageFailed(LedgerError):
    """Wrong usage."""

    code, exit_code = "usage", 2


class WorkflowNotFound(LedgerError):
    """The workflow's configuration is missing or malformed."""

    code = "workflow_not_found"


class SettingsInvalid(LedgerError):
    """A settings file of the client cannot be read; it is left as it is."""

    code = "settings_invalid"


class ChoiceNeeded(LedgerError):
    """Somebody has to choose how to go on, and nobody is there to be asked."""

    code, exit_code = "choice_needed", 3


class ContextLost(LedgerError):
    """What every reconstitution needs is not there, or cannot be read."""

    code = "context_lost"


class Aborted(LedgerError):
    """The user was asked how to go on, and wanted to stop."""

    code = "aborted"


class NoteTooLong(LedgerError):
    """The note is longer than one may be."""

    code = "note_too_long"
