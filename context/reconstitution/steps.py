"""Put a run's context together again from what is on disk, in any session (RECON, Steps 0.1 to 0.8)."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, TypedDict

from faber_ledger.context.artifact import ArtifactError, build_surroundings, find_place
from faber_ledger.context.artifact_command import ProgramFailed, fill_program, run_program
from faber_ledger.context.markdown import bold_lines, front_matter, title_of, wanted_sections
from faber_ledger.context.reconstitution import faber_files
from faber_ledger.context.reconstitution.journal import Journal, context_lost, list_in_line, text_or_na
from faber_ledger.context.reconstitution.work import find_work
from faber_ledger.context.workflow import parse_artifact
from faber_ledger.ledger.command_errors import ContextLost
from faber_ledger.ledger.disk import FileRefused, read_text
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateRefused
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.git import default_ref
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.run import Run, is_name

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.runs.progress import ResumePoint
    from faber_ledger.runs.settings import UserConfig


class Branch(TypedDict):
    """A branch: its newest ten commits that main lacks, one line each, and `git diff --stat` against main."""

    name: str
    commits: list[str]
    files_changed: str | None


FEEDBACK_OPTIONS = ["Continue with the feedback request as it is", "Abort workflow"]


def reconstitute_context(
    run: Run, state: dict[str, Any], config: UserConfig, journal: Journal, known: faber_files.LedgerFacts
) -> dict[str, Any]:
    """Take RECON's steps in order, report them to the journal, and return the `workflow_context`.

    LedgerFacts are of FABER's files and of what is `known` from the ledger together (DECISIONS 39).

    Raises ContextLost before anything is reported, and ChoiceNeeded or Aborted if an ERROR needs the user.
    """
    _report_metadata(run, state, load_metadata(run), journal)
    if config["problem"]:
        what = "User configuration cannot be used - continuing without mapped commands and plugin roots"
        journal.warn("user_config_invalid", what, {"Error": config["problem"]}, "Correct the file, or remove it")
    work_id, named = _work_id(state), state.get("artifacts")
    branch_named = progress.branch_name(state) or known["branch"]
    artifacts: dict[str, Any] = dict(named) if isinstance(named, dict) else {}
    if branch_named is not None:
        artifacts["branch_name"] = branch_named  # where RECON looks for it; real states name it elsewhere
    surroundings = build_surroundings(run, state, config["plugin_roots"], config["commands"])
    spec = load_specification(surroundings, artifacts.get("spec_path"), journal)
    issue = load_work_item(work_id, surroundings, journal)
    branch = inspect_branch(run.root, branch_named, journal, is_finished=state["status"] in progress.FINISHED)
    is_over = state["status"] in progress.FINISHED  # its branch may be here, and be squashed all the same
    history = faber_files.load_session_history(run, journal, known)
    events, older_decisions = faber_files.load_events(run, journal, known)
    feedback, point = _pending_feedback(run, state, journal), progress.resume_point(state)
    _report_resume_point(state, point, journal)
    return {
        "run_id": run.run_id,
        "work_id": work_id,
        "status": state["status"],
        "current_phase": progress.current_phase(state),
        "current_step": progress.current_step(state),
        "artifacts": artifacts,
        "spec": spec,
        "issue": issue,
        "branch": branch,
        "events": events,
        "session_history": history,
        "session_summary": faber_files.session_summary(history),
        "resuming_from_feedback": state["status"] == "awaiting_feedback",
        "feedback_request": feedback,
        "resume_point": point,
        "older_decisions": older_decisions,
        "work": find_work(run, state, known["starts"]) if is_over else None,
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
            f"Inspect and repair state.json manually, or {error.hint.removeprefix('correct the file, or ')}",
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
        return faber_files.json_object(run, run.metadata_path)
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
    for label in ("Request ID", "Type", "Prompt", "Requested at"):
        journal.log(f"  {label}: {text_or_na(request.get(label.lower().replace(' ', '_')))}")
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
    error = progress.error_message(progress.phase_state(state, point["phase"]).get("error"))
    if error and point["mode"] == "retry":
        journal.log(f"  Error: {text_or_na(error)}")


# What git allows in a branch name, and never takes for an option, a range or another kind of revision.
REFUSED = r"\x00-\x20\x7f~^:?*\[\\\ud800-\udfff"
NAME = re.compile(rf"(?!.*(?:\.\.|@\{{|//))[^{REFUSED}/.-][^{REFUSED}]*")
LOG = ["log", "--oneline", "-10", "--no-decorate", "--no-color", "--no-show-signature"]
DIFF = ["diff", "--stat", "--no-color", "--no-ext-diff", "--no-textconv"]


def inspect_branch(root: str, name: object, journal: Journal, *, is_finished: bool) -> Branch | None:
    """Return what git knows about a branch; None if the state names none, or git does not have it or cannot be run.

    That a finished run's branch is gone is no warning.
    """
    if name is None:
        journal.info("no_branch", "ℹ No branch created yet")
        return None
    if _ask_git(root, ["rev-parse", "--git-dir"]) is None:
        _warn_git_failed(name, "not a git repository, or git cannot be run", journal)
        return None
    is_name = isinstance(name, str) and len(name) <= 255 and NAME.fullmatch(name) is not None
    if not is_name or _ask_git(root, ["show-ref", "--verify", "--quiet", f"refs/heads/{name}"]) is None:
        if is_finished:  # it was merged and deleted
            return None
        journal.log(f"ℹ Branch {text_or_na(name)} not found locally (may need to fetch)")
        journal.warn(
            "branch_not_found",
            "Branch not found - continuing without branch details",
            {"Branch": text_or_na(name), "Error": "not found locally" if is_name else "not a valid branch name"},
            "Branch may not exist yet (pre-build phase)",
        )
        return None
    main = default_ref(root)
    others = [f"^{main}"] if main and not main.endswith(f"/{name}") else []
    log = _ask_git(root, [*LOG, f"refs/heads/{name}", *others, "--"])
    diff = (
        _ask_git(root, [*DIFF, f"{main}...refs/heads/{name}", "--", ":(top)", ":(exclude).fractary"]) if main else None
    )
    commits = log.split("\n") if log else []
    journal.log(f"✓ Branch exists: {name}")
    if commits:
        journal.log("  Recent commits:")
    for commit in commits:
        journal.log(f"    {text_or_na(commit)}")
    if log is None or diff is None:
        failed = "git log" if log is None else "git diff" if main else "there is no main branch to compare with"
        _warn_git_failed(name, failed, journal)
    return {"name": str(name), "commits": commits, "files_changed": diff}


def _warn_git_failed(name: object, reason: str, journal: Journal) -> None:
    journal.warn(
        "git_failed",
        "Git operations failed - continuing without branch details",
        {"Branch": text_or_na(name), "Error": reason},
        "May be outside git repo",
    )


def _ask_git(root: str, arguments: list[str]) -> str | None:
    return GitQuery(["--no-pager", *arguments], root).answer()


MAX_SPECIFICATION = 1024 * 1024
NOTHING = "ℹ No specification found (may not be created yet)"
SPECIFICATION_OPTIONS = ["Skip spec loading and continue", "Regenerate specification", "Abort workflow"]


def load_specification(surroundings: Surroundings, spec_path: object, journal: Journal) -> dict[str, Any] | None:
    """Return the specification that the state names: title, type, status, sections and text; None without one.

    Raises ChoiceNeeded or Aborted if the file is there but cannot be read.
    """
    if spec_path in (None, ""):
        journal.info("spec_missing", NOTHING)
        return None
    try:
        text = read_named(surroundings, "spec_path")
    except ArtifactError as error:
        if not isinstance(error.__cause__, FileRefused):
            journal.log(NOTHING)
            journal.warn(
                "spec_path_invalid",
                "Specification not found - continuing without specification",
                {"Path": text_or_na(spec_path), "Error": error.message},
                "Spec may not have been created yet (early phase)",
            )
            return None
        return _ask_unreadable(spec_path, str(error.__cause__), journal)
    except FileRefused as error:
        return _ask_unreadable(spec_path, str(error), journal)
    matter = {**bold_lines(text), **front_matter(text)}  # most of FABER's own specifications have the former
    facts = {
        "path": spec_path,
        "title": matter.get("title") or title_of(text),
        "type": matter.get("type") or None,
        "status": matter.get("status") or None,
    }
    journal.log(f"✓ Loaded specification: {text_or_na(spec_path)}")
    for name in ("title", "type", "status"):
        journal.log(f"  {name.capitalize()}: {text_or_na(facts[name])}")
    return {**facts, **wanted_sections(text), "content": text}


def read_named(surroundings: Surroundings, name: str) -> str:
    """Return the text of the file that a state's `artifacts` name so; raises ArtifactError and FileRefused."""
    named = {"id": name, "type": "markdown", "path_from_state": f"artifacts.{name}"}
    text = read_text(find_place(parse_artifact(named, ""), surroundings)["resolved"], MAX_SPECIFICATION)
    if text is None:
        raise FileRefused("No such file or directory")
    return text


def _ask_unreadable(spec_path: object, reason: str, journal: Journal) -> dict[str, Any] | None:
    facts = {"Path": text_or_na(spec_path), "Error": reason}
    if journal.ask("spec_not_readable", "Specification file not readable", facts, SPECIFICATION_OPTIONS) == 1:
        return None
    journal.log("ℹ The specification must be regenerated before the workflow continues")
    return {"path": spec_path, "regenerate": True}


FETCH = "/fractary-work:issue-fetch"
ISSUE_OPTIONS = ["Skip issue details and continue", "Check work plugin credentials, then fetch again", "Abort workflow"]
HINT = "let the mapped program print JSON (gh: `--json title,body,labels,comments,state,url`)"
SECONDS = 20.0
MAX_ANSWER = 4_000_000
NEEDS_LOGIN = 4  # the exit code of GitHub's program
SIGNS = (  # the first match counts; "Could not resolve to an Issue" is GitHub's message for an unknown issue
    ("network", r"(?:no such|resolve) host|error connecting|connection re|timed? ?out|unreachable|network is"),
    ("auth", r"authenticat|authoriz|credentials|\blog ?in\b|forbidden|permission denied|\b40[13]\b"),
    ("not_found", r"not found|no such issue|could not resolve to|does not exist|\b404\b"),
)
NOTES = {
    "network": "Workflow will continue but may lack recent issue comments",
    "not_found": "Issue may have been deleted; the workflow will continue without it",
}


def load_work_item(work_id: str | None, surroundings: Surroundings, journal: Journal) -> dict[str, Any] | None:
    """Return a work item, or None if it is not available; raises ChoiceNeeded or Aborted if the user must log in."""
    if work_id is None:
        journal.info("no_work_id", "ℹ No work_id - standalone workflow run")
        return None
    program = surroundings["commands"].get(FETCH)
    if program is None:
        named = text_or_na(work_id)
        way = f"in the client, {FETCH} {named} does" if is_name(work_id) else "no command can have its number"
        journal.info("issue_not_mapped", f"ℹ Issue #{named} not fetched: {way}")
        return None
    try:
        arguments = fill_program(program, surroundings)
    except ArtifactError as error:
        _warn(work_id, "network", error.message, journal)
        return None
    while True:
        try:
            printed = run_program(arguments, surroundings["root"], seconds=SECONDS, limit=MAX_ANSWER)
            return _parse_answer(work_id, printed, journal)
        except ProgramFailed as error:
            kind, reason = _kind(error), text_or_na(str(error))
        if kind != "auth":
            _warn(work_id, kind, reason, journal)
            return None
        facts = {"Issue": f"#{work_id}", "Error": reason}
        if journal.ask("issue_fetch_auth", "Issue fetch failed", facts, ISSUE_OPTIONS) == 1:
            return None


def _kind(error: ProgramFailed) -> str:
    """Return why a fetch failed: auth, not_found, or network for everything else."""
    if error.code == NEEDS_LOGIN:
        return "auth"
    kinds = [kind for kind, sign in SIGNS if re.search(sign, error.complaint, re.IGNORECASE)]
    return (kinds or ["network"])[0]


def _parse_answer(work_id: str, output: str, journal: Journal) -> dict[str, Any] | None:
    """Return the work item in an answer; plain text is its description."""
    text = output.strip()
    try:
        issue = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text[0] in "{[":
            _warn(work_id, "network", f"the answer is not JSON: {error}", journal)
            return None
        journal.log(f"✓ Loaded issue #{text_or_na(work_id)} (plain text: {text_or_na(text.split(chr(10), 1)[0])})")
        journal.log(f"  State, labels and comments are not separated: {HINT}")
        return {"title": None, "description": text, "labels": [], "comments": [], "url": None, "state": None}
    if not isinstance(issue, dict):
        _warn(work_id, "network", "the answer is not a JSON object", journal)
        return None
    labels = [label.get("name") if isinstance(label, dict) else label for label in _list(issue.get("labels"))]
    comments = _list(issue.get("comments"))
    journal.log(f"✓ Loaded issue #{text_or_na(work_id)}: {text_or_na(issue.get('title'))}")
    journal.log(f"  State: {text_or_na(issue.get('state'))}")
    journal.log(f"  Labels: {list_in_line(labels)}".rstrip())
    journal.log(f"  Comments: {len(comments)}")
    return {
        "title": issue.get("title"),
        "description": issue.get("body", issue.get("description")),
        "labels": labels,
        "comments": comments,
        "url": issue.get("url"),
        "state": issue.get("state"),
    }


def _warn(work_id: str, kind: str, reason: str, journal: Journal) -> None:
    journal.warn(
        f"issue_fetch_{kind}",
        "Issue fetch failed - continuing without issue details",
        {"Issue": f"#{work_id}", "Error": reason},
        NOTES[kind],
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
