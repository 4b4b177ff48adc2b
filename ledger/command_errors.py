"""What only a command can end with. Hooks do not load it: each class here would cost them 100,000 instructions."""

from __future__ import annotations

from faber_ledger.ledger.errors import LedgerError

# Choosing a run


class NoActiveRun(LedgerError):
    """No run is active here."""

    code, exit_code = "no_active_run", 10


class AmbiguousRun(LedgerError):
    """The ids of several runs begin with the text."""

    code, exit_code = "ambiguous_run", 10


class SeveralActiveRuns(LedgerError):
    """Several runs are active, and there is no terminal to ask which one is meant."""

    code, exit_code = "several_active_runs", 1


class Declined(LedgerError):
    """The user did not agree to take over from the active workflow."""

    code = "declined"


class NotReleased(LedgerError):
    """The run has not reached the end of its Release phase."""

    code = "not_released"


# The log and the state


class NotFound(LedgerError):
    """Nothing in the log matches, or several things may be meant."""

    code, exit_code = "not_found", 10


class ProjectionDiffers(LedgerError):
    """state.json does not show what the log says."""

    code, exit_code = "projection_differs", 21


# Context


class ContextLost(LedgerError):
    """What every reconstitution needs is missing or cannot be read."""

    code = "context_lost"


class ChoiceNeeded(LedgerError):
    """The user has to choose with an option: no terminal is attached, or an answer would lose work."""

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


class ForeignProject(LedgerError):
    """The project, or a part of it, belongs to another user, and git would not use it either."""

    code = "foreign_project"


class NoWorkTree(LedgerError):
    """There is no git repository here, or it has no work tree."""

    code = "no_work_tree"


class SettingsInvalid(LedgerError):
    """A settings file of the client cannot be read; it is left as it is."""

    code = "settings_invalid"


# The team's server


class ServerUnavailable(LedgerError):
    """The team's server cannot be reached, does not answer, or takes nothing now."""

    code, exit_code = "server_unavailable", 13


class ServerRefused(LedgerError):
    """The team's server refuses: the password, the role, what it may do, or a row."""

    code, exit_code = "server_refused", 14


class LastAdmin(LedgerError):
    """The project would be left without an admin on the server."""

    code = "last_admin"


class StillSeen(LedgerError):
    """A role that was expelled still sees the project: by a group, or as a superuser."""

    code = "still_seen"


# Single commands


class UsageFailed(LedgerError):
    """Wrong usage."""

    code, exit_code = "usage", 2


class NotWell(LedgerError):
    """`doctor` found something to fix."""

    code, exit_code = "not_well", 23


class StepFailed(LedgerError):
    """A step of the demo did not do what the story says."""

    code, exit_code = "demo_failed", 1
