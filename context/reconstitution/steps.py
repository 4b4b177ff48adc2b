"""Put a run's context together again from what is on disk, in any session (RECON, Steps 0.1 to 0.8)."""

from __future__ import annotations

import os

from faber_ledger.context.artifact_source import build_surroundings
from faber_ledger.context.reconstitution.branch import inspect_branch
from faber_ledger.context.reconstitution.faber_files import (
    json_object,
    load_events,
    load_session_history,
    older_decisions,
    session_summary,
)
from faber_ledger.context.reconstitution.journal import context_lost, text_or_na
from faber_ledger.context.reconstitution.specification import load_specification
from faber_ledger.context.reconstitution.work_item import load_work_item
from faber_ledger.files.untrusted import FileRefused
from faber_ledger.ledger.command_errors import ContextLost
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateRefused
from faber_ledger.runs import state_file
from faber_ledger.runs.progress import (
    branch_name,
    current_phase,
    current_step,
    error_message,
    phase_state,
    resume_point,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.reconstitution.journal import Journal
    from faber_ledger.runs.progress import ResumePoint
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.settings import UserConfig


FEEDBACK_OPTIONS = ["Continue with the feedback request as it is", "Abort workflow"]


def reconstitute_context(
    run: Run, state: dict[str, Any], config: UserConfig, journal: Journal, known: list[str]
) -> dict[str, Any]:
    """Take RECON's steps in order, report them to the journal, and return the `workflow_context`.

    `known` are the lines that say what the ledger has where RECON's say that a run is new (DECISIONS 39).

    Raises ContextLost before anything is reported, and ChoiceNeeded or Aborted if an ERROR needs the user.
    """
    metadata = load_metadata(run)
    _report_metadata(run, state, metadata, journal)
    if config["problem"]:
        journal.warn(
            "user_config_invalid",
            "User configuration cannot be used - continuing without mapped commands and plugin roots",
            {"Error": config["problem"]},
            "Correct the file, or remove it",
        )
    work_id = _work_id(state)
    named = state.get("artifacts")
    artifacts: dict[str, Any] = dict(named) if isinstance(named, dict) else {}
    if (branch_named := branch_name(state)) is not None:
        artifacts["branch_name"] = branch_named  # where RECON looks for it; real states name it elsewhere
    surroundings = build_surroundings(run, state, config["plugin_roots"], config["commands"])
    spec = load_specification(surroundings, artifacts.get("spec_path"), journal)
    issue = None
    if work_id is None:
        journal.info("no_work_id", "ℹ No work_id - standalone workflow run")
    else:
        issue = load_work_item(work_id, surroundings, journal)
    branch = inspect_branch(run.root, branch_named, journal)
    history = load_session_history(run, journal, known)
    events = load_events(run, journal, known)
    feedback = _pending_feedback(run, state, journal)
    journal.finish()
    point = resume_point(state)
    _report_resume_point(state, point, journal)
    return {
        "run_id": run.run_id,
        "work_id": work_id,
        "status": state["status"],
        "current_phase": current_phase(state),
        "current_step": current_step(state),
        "artifacts": artifacts,
        "spec": spec,
        "issue": issue,
        "branch": branch,
        "events": events,
        "session_history": history,
        "session_summary": session_summary(history),
        "resuming_from_feedback": state["status"] == "awaiting_feedback",
        "feedback_request": feedback,
        "resume_point": point,
        "older_decisions": older_decisions(run, events),
    }


def load_state(run: Run) -> dict[str, Any]:
    """Return the run's state (RECON, 0.1); raises ContextLost, or LedgerError for an unknown status."""
    try:
        state = state_file.read_state(run).value
    except StateMissing as error:
        raise context_lost(
            f"State file missing: {run.shown(run.state_path)}",
            "Run may have been cleaned up; start new run [faber-ledger run start --work-id <work_id>],"
            f" or {error.hint}",
            first=f"❌ ERROR: Run not found: {run.run_id}",
        ) from error
    except StateInvalid as error:
        is_refused = isinstance(error, StateRefused) and not isinstance(error, ForeignState)
        raise context_lost(
            f"State file {'not readable' if is_refused else 'corrupted'}: {run.shown(run.state_path)}: {error.reason}",
            f"Inspect and repair state.json manually, or {state_file.way_back_from_broken(run)}",
        ) from error
    except LedgerError as error:
        raise context_lost(f"State file not readable: {error}", "Check the file's permissions") from error
    try:
        state_file.check_required(run, state)
    except LedgerError as error:
        raise context_lost(f"{error}: {run.shown(run.state_path)}", "Inspect and repair state.json manually") from error
    state_file.check_status(run, state)
    return state


def load_metadata(run: Run) -> dict[str, Any] | None:
    """Return `metadata.json`; None if there is none, as in runs of FABER's own tools. Raises ContextLost."""
    try:
        return json_object(run, run.metadata_path)
    except (FileRefused, ValueError) as error:
        raise context_lost(
            f"Metadata file corrupted: {run.shown(run.metadata_path)}: {error}",
            "Inspect and repair metadata.json manually",
        ) from error


def run_not_found(run: Run) -> ContextLost:
    """Return the error for a run that does not exist (RECON, Error Response Patterns)."""
    return context_lost(
        f"Run directory not found: {run.shown(run.directory)}",
        "Verify run_id is correct or start a new run with /faber run <work_id>"
        " [faber-ledger run list; faber-ledger run start --work-id <work_id>]",
        first=f"❌ ERROR: Run not found: {run.run_id}",
    )


def _report_metadata(run: Run, state: dict[str, Any], metadata: dict[str, Any] | None, journal: Journal) -> None:
    if metadata is None:
        details = {"Path": run.shown(run.metadata_path), "Error": "No such file or directory"}
        if not os.path.isdir(run.own_directory):  # FABER puts several runs into a plan's folder, without metadata
            details = {"Path": run.shown(run.directory), "Error": "No metadata.json of this run"}
        journal.warn(
            "metadata_missing",
            "Run metadata not found - continuing without it",
            details,
            "Runs of older tools have none",
        )
    if _work_id(state) is None and ((metadata or {}).get("work_id") or state.get("issue_number")):
        journal.warn(
            "work_id_missing",
            "State missing work_id - may be a standalone run",
            {"Path": run.shown(run.state_path)},
            "Workflow will continue without issue details",
        )


def _work_id(state: dict[str, Any]) -> str | None:
    work_id = state.get("work_id")
    return None if work_id in (None, "") else str(work_id)


def _pending_feedback(run: Run, state: dict[str, Any], journal: Journal) -> dict[str, Any] | None:
    """Report and return the feedback request that the run waits for, or None (RECON, 0.6)."""
    if state["status"] != "awaiting_feedback":
        return None
    found = state.get("feedback_request")
    request: dict[str, Any] = found if isinstance(found, dict) else {}
    request_id = request.get("request_id")
    if not isinstance(request_id, str) or not request_id:
        reason = "State claims awaiting_feedback but request_id is " + ("invalid" if request_id else "missing")
        facts = {"Path": run.shown(run.state_path), "Error": reason}
        journal.ask("feedback_mismatch", "Pending feedback mismatch", facts, FEEDBACK_OPTIONS)
    journal.log("⏳ Workflow is awaiting feedback")
    for label, name in (
        ("Request ID", "request_id"),
        ("Type", "type"),
        ("Prompt", "prompt"),
        ("Requested at", "requested_at"),
    ):
        journal.log(f"  {label}: {text_or_na(request.get(name))}")
    sent = request.get("notification_sent")
    if isinstance(sent, dict) and sent.get("issue_comment"):
        journal.log(f"  Comment posted: {text_or_na(sent.get('comment_url'))}")
    return request or None


def point_text(point: ResumePoint) -> str:
    """Return a resume point as `phase:step`, or only the phase if no step is known."""
    phase = text_or_na(point["phase"])
    return f"{phase}:{text_or_na(point['step'])}" if point["step"] else phase


def _report_resume_point(state: dict[str, Any], point: ResumePoint | None, journal: Journal) -> None:
    """Report where the run continues (RECON, 0.7), and why its phase failed."""
    if point is None:
        is_completed = state["status"] == "completed"
        ended = "already completed - nothing to resume" if is_completed else "was cancelled - cannot resume"
        journal.log(f"ℹ Workflow {ended}")
        return
    words = {
        "after_feedback": "After feedback at {}",
        "continue": "Continue from {}",
        "retry": "Retry failed step {}",
        "start": "Start from beginning",
    }
    journal.log(f"Resume point: {words[point['mode']].format(point_text(point))}")
    error = error_message(phase_state(state, point["phase"]).get("error")) if point["mode"] == "retry" else ""
    if error:
        journal.log(f"  Error: {text_or_na(error)}")
