"""What can go wrong, each with a stable code, an exit code and a way out.

Every error that a command can end with is here or in `command_errors`, so that the command reference can list them all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Warn = Callable[[str], None]  # takes a warning of one line


class LedgerError(Exception):
    """A condition that the user can act on; a bug is never one."""

    code = "failed"
    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        block: str = "",
        data: Mapping[str, object] | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        """Keep what happened, what to run, and the requirement documents' own wording, which is printed instead.

        `data` is what `--json` adds to the error. What is in `message` is one line, which `lines` follow.
        """
        self.lines = (message, *lines)
        self.message = "\n".join(self.lines)
        super().__init__(self.message)
        self.data = dict(data or {})
        self.hint = hint
        self.block = block


# A run and its ledger


class RunNotFound(LedgerError):
    """No such run, or it has no ledger."""

    code, exit_code = "run_not_found", 10


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


class UnionConflict(LedgerError):
    """One event id has two hashes, so that two logs cannot be united."""

    code, exit_code = "union_conflict", 22


class NotWritable(LedgerError):
    """The run's folder, or a file in it, cannot be written."""

    code = "not_writable"


# The run's state


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


# Context


class WorkflowNotFound(LedgerError):
    """The workflow's configuration is missing or malformed."""

    code = "workflow_not_found"
