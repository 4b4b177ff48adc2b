"""Where a run stands: status, phases and steps in its `state.json`, and the point at which work resumes."""

from __future__ import annotations

from faber_ledger.ledger.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class ResumePoint(TypedDict):
        """A place in the workflow and how it is entered: after_feedback, continue, retry or start."""

        phase: str | None
        step: str | None
        mode: str

    class Snapshot(TypedDict):
        """The progress that a run's state records."""

        phase: str | None
        step: str | None
        phases_completed: list[str]


PHASES = ("frame", "architect", "build", "evaluate", "release")


def current_phase(state: dict[str, Any]) -> str | None:
    """Return the current phase that a state names; None if it names none."""
    phase = state.get("current_phase")
    return phase if isinstance(phase, str) else None


def current_step(state: dict[str, Any]) -> str | None:
    """Return the current step that a state names; None if it names none."""
    return _step_in(state, current_phase(state))


def _step_in(holder: dict[str, Any], phase: str | None) -> str | None:
    """Return the step that a state, or its object for a phase, names; None if it names none in that phase.

    Newer tools write it as `<phase>:<step>`, which may be left from the phase before.
    """
    step = text_of(holder, "current_step")
    if step:
        return step.removeprefix(f"{phase}:")
    named = text_of(holder, "current_step_id") or ""
    of, colon, step = named.partition(":")
    if not colon:
        return named or None
    return step or None if of == phase else None


DEFAULT_TARGET = "Work item {}"  # of a run whose user names none
DEFAULT_WORKFLOW = "fractary-faber:default"


def target_of(state: dict[str, Any]) -> str:
    """Return what a run is about, by its state; an empty text if that says no more than its work item."""
    target = text_of_value(state.get("target"))
    return "" if target == DEFAULT_TARGET.format(text_of_value(state.get("work_id"))) else target


def branch_name(state: dict[str, Any]) -> object:
    """Return what a state names as its branch: `artifacts.branch_name`, `artifacts.branch`, then `branch`; or None."""
    artifacts = state.get("artifacts")
    named = artifacts if isinstance(artifacts, dict) else {}
    return named.get("branch_name") or named.get("branch") or state.get("branch") or None


def phase_statuses(state: dict[str, Any]) -> dict[str, str]:
    """Return each phase's status, in the order frame, architect, build, evaluate, release, then the others."""
    found = {name: phase.get("status") for name, phase in phase_states(state).items()}
    ordered = {name: found[name] for name in PHASES if name in found} | found
    return {name: status for name, status in ordered.items() if isinstance(status, str)}


def phase_state(state: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return the object that a state has for a phase; an empty one if it has none."""
    return phase_states(state).get(name or "", {})


def phase_states(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the phases by name: real states have them as a list of objects or as an object keyed by phase."""
    phases = state.get("phases")
    if isinstance(phases, dict):
        return {name: phase for name, phase in phases.items() if isinstance(phase, dict)}
    if not isinstance(phases, list):
        return {}
    named = [
        (phase.get("phase_name") or phase.get("name") or phase.get("id"), phase)
        for phase in phases
        if isinstance(phase, dict)
    ]
    return {name: phase for name, phase in named if isinstance(name, str)}


def phases_completed(state: dict[str, Any]) -> list[str]:
    """Return the phases whose status is completed (END, Step 4)."""
    return [name for name, status in phase_statuses(state).items() if status == "completed"]


def done_steps(state: dict[str, Any], phase: str | None) -> set[str]:
    """Return the names of a phase's steps that its object says are done, without the phase before a colon."""
    of_phase = phase_state(state, phase)
    lists = [of_phase.get("completed_steps"), of_phase.get("completed_step_ids")]
    named = [name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)]
    named += [name for name, step in _steps(of_phase) if step.get("status") in DONE]
    return {name.removeprefix(f"{phase}:") for name in named}


def _steps(of_phase: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps that a state has in a phase's object: a list of objects, or an object keyed by step."""
    steps = of_phase.get("steps")
    if isinstance(steps, dict):
        return [(name, step) for name, step in steps.items() if isinstance(step, dict)]
    listed = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    named = [(text_of(step, "id") or text_of(step, "step_id") or text_of(step, "name"), step) for step in listed]
    return [(name, step) for name, step in named if name]


def newest_errors(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what went wrong last, each as `phase:step` and a message, both perhaps empty: at most two.

    First the error of the step at which work resumes, or of its phase; then the newest of `errors`, if it is another,
    and of a step and phase that are not done since.
    """
    point = resume_point(state)
    phase, step = (point["phase"], point["step"]) if point else (current_phase(state), current_step(state))
    of_phase = phase_state(state, phase)
    of_step = dict(_steps(of_phase)).get(step or "", {})
    errors = state.get("errors")
    newest = errors[-1] if isinstance(errors, list) and errors else None
    result = of_step.get("result") if of_step.get("status") in FAILED else None
    own = error_message(of_step.get("error") or of_phase.get("error") or result)
    other = error_message(newest) or error_message(state.get("last_error") or state.get("error"))
    found = [(":".join([part for part in (phase, step) if part]), own)] if own else []
    if other and other != own and not is_settled(state, newest):
        found.append((place_of_error(newest), other))
    return found


def is_settled(state: dict[str, Any], error: object) -> bool:
    """Return whether the step of one of a state's `errors`, or its phase, is done, and nothing is to be tried again."""
    phase, step = text_of(error, "phase"), text_of(error, "step") or text_of(error, "step_id")
    point = resume_point(state)
    if state.get("status") == "failed" or (point and point["mode"] == "retry"):
        return False
    return phase_statuses(state).get(phase or "") == "completed" or step in done_steps(state, phase)


def place_of_error(error: object) -> str:
    """Return the `phase:step` that one of a state's `errors` names, or what it names of it."""
    named = [text_of(error, "phase"), text_of(error, "step") or text_of(error, "step_id")]
    return ":".join([part for part in named if part])


def error_message(value: object) -> str:
    """Return the message of an error: a text, or what an object calls it; an empty text if there is none."""
    for _ in range(MOST_NESTED):
        if isinstance(value, list):
            value = value[-1] if value else None
        elif isinstance(value, dict):
            value = next((value[name] for name in MESSAGES if value.get(name)), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a code
    return value.strip() if isinstance(value, str) else ""


def place_of(point: ResumePoint | None) -> str:
    """Return a resume point as `phase:step`, or what is known of it."""
    return ":".join([part for part in (point["phase"], point["step"]) if part]) if point else ""


def count_errors(state: dict[str, Any], place: str) -> int:
    """Return how many of a state's `errors` are of a step (`phase:step`)."""
    errors = state.get("errors")
    return [place_of_error(one) for one in errors].count(place) if isinstance(errors, list) and place else 0


def count_retries(state: dict[str, Any], phase: str | None) -> int:
    """Return how often a phase was tried again."""
    of_phase = phase_state(state, phase)
    counts = [_member(state.get("retries"), phase), of_phase.get("retry_count"), of_phase.get("retries")]
    return next((count for count in counts if type(count) is int), 0)


def value_at(state: dict[str, Any], path: str) -> Any:
    """Return the value at a path, written as `artifacts.spec_path`, `state.work_id` or `$.phases[0].name`.

    None if a step of the path is missing (SPEC, section 1: path_from_state).
    """
    steps = path.strip().replace("[", ".").replace("]", "").split(".")
    if steps[0] in {"state", "$"}:
        del steps[0]
    value: Any = state
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value


def resume_point(state: dict[str, Any]) -> ResumePoint | None:
    """Return where work on a run resumes; None if there is nothing to resume.

    A state that names no current phase may have one that failed or is in progress, and the step in its phase alone.
    """
    status = state.get("status")
    phase = current_phase(state) or _phase_at_work(state, "failed" if status == "failed" else "in_progress")
    of_phase = phase_state(state, phase)
    step = _step_in(state, phase) or _step_in(of_phase, phase)
    if status == "awaiting_feedback":
        point = feedback_point(state)
        if isinstance(point, str) and point:
            phase, _, step = point.partition(":")
        elif isinstance(point, dict) and point:
            phase, step = text_of(point, "phase"), text_of(point, "step")
        return {"phase": phase, "step": step or None, "mode": "after_feedback"}
    if status in ("in_progress", "paused"):
        return {"phase": phase, "step": step, "mode": "continue"}
    if status == "failed":
        failed = (text_of(of_phase, "failed_step") or "").removeprefix(f"{phase}:") or _step_in(of_phase, phase)
        return {"phase": phase, "step": failed or step, "mode": "retry"}
    if status == "pending":
        return {"phase": "frame", "step": None, "mode": "start"}
    return None


def feedback_point(state: dict[str, Any]) -> Any:
    """Return what a state that waits for an answer says of where work resumes then, in any form; None for nothing."""
    return _member(_member(state, "feedback_request"), "resume_point") or _member(state, "resume_point")


def _phase_at_work(state: dict[str, Any], status: str) -> str | None:
    """Return the only phase with a status; None if there is none, or there are several."""
    found = [name for name, one in phase_statuses(state).items() if one == status]
    return found[0] if len(found) == 1 else None


def _member(value: Any, name: str | None) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def finished_at(state: dict[str, Any]) -> str | None:
    """Return when a finished run was finished, as far as its state says."""
    return text_of(state, "completed_at") or text_of(state, "updated_at")


def text_of(value: Any, name: str) -> str | None:
    """Return a member of an object that is a text; None for any other."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def text_of_value(value: object) -> str:
    """Return a member of a state as text; an empty one if it is neither a text nor a usual number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def texts_in(value: object) -> str:
    """Return what somebody said to whoever goes on: a text, or the members of a list or an object that are texts."""
    if isinstance(value, dict):
        return "; ".join([f"{name}: {text}" for name, one in value.items() if (text := text_of_value(one))])
    if isinstance(value, list):
        return "; ".join([text for one in value if (text := text_of_value(one))])
    return text_of_value(value)


def snapshot(state: dict[str, Any]) -> Snapshot:
    """Return the part of a state that an event keeps of the run's progress."""
    return {"phase": current_phase(state), "step": current_step(state), "phases_completed": phases_completed(state)}


DONE = ("completed", "done", "success", "skipped")
FAILED = ("failed", "failure", "error")
MESSAGES = ("message", "error", "errors", "reason", "code")
MOST_FAILURES = 3  # of one step, after which a protocol stops
MOST_NESTED = 4  # objects and lists around an error's message
ACTIVE = ("in_progress", "paused", "awaiting_feedback")
STATUSES = ("pending", *ACTIVE, "completed", "failed", "cancelled")
FINISHED = ("completed", "cancelled")


ANSWERS = ("response", "answer")  # of a question to the user
GRANTED, REJECTED = ("granted", "approved", "approve"), ("rejected", "reject")  # of an approval's status
TIMES = ("_at", "timestamp")  # ends of the names of its times; `at` alone is one, too


def pending_approvals(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest approval of each phase that was asked for or rejected, and not given."""
    return [one for one in _newest_approvals(state) if not is_granted(one)]


def _newest_approvals(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the state has of approvals, asked for, given or rejected: of each phase the newest.

    Without a time the later one counts, and `approvals` after those that wait; a grant without a phase approves none.
    """
    lists = [state.get("pending_approvals"), state.get("approvals")]
    newest: dict[str, dict[str, Any]] = {}
    for one in [one for entries in lists if isinstance(entries, list) for one in entries if isinstance(one, dict)]:
        phase = text_of_value(one.get("phase"))
        is_older = phase in newest and 0 < _time_of(one) < _time_of(newest[phase])
        if not is_older and (phase or not is_granted(one)):
            newest.pop(phase, None)
            newest[phase] = one
    return list(newest.values())


def _time_of(approval: dict[str, Any]) -> float:
    """Return the newest of an approval's times, 0 if it has none."""
    return max([seconds_of(approval[name]) or 0 for name in approval if is_time(name)], default=0)


def is_time(name: str) -> bool:
    """Return whether a member of an approval, or of an answer, is one of its times."""
    return f"_{name}".endswith(TIMES)


def is_rejected(approval: dict[str, Any]) -> bool:
    """Return whether somebody said no to an approval."""
    return any([approval.get(name) in REJECTED for name in ("status", "decision")])


def is_granted(approval: dict[str, Any]) -> bool:
    """Return whether an approval was given: one that was granted may stay in the list of those that wait."""
    said = approval.get("status") or approval.get("decision")
    is_signed = said is None and bool(approval.get("approved_by") and approval.get("approved_at"))
    return approval.get("granted") is True or approval.get("approved") is True or said in GRANTED or is_signed


def is_approved(state: dict[str, Any], phase: str | None) -> bool:
    """Return whether a state says that a phase was approved, or that it is over."""
    given = [one for one in _newest_approvals(state) if is_granted(one) and one.get("phase") == phase]
    of_phase = phase_state(state, phase)
    own = of_phase.get("approval")
    is_own = of_phase.get("approved") is True or (isinstance(own, dict) and is_granted(own))
    return bool(given) or is_own or phase_statuses(state).get(phase or "") == "completed"


def words_of_approval(approval: dict[str, Any]) -> str:
    """Return for what an approval is asked, why, and who is to give it."""
    words = ": ".join([text for name in ("phase", "reason") if (text := text_of_value(approval.get(name)))])
    others = [name for name in approval if name not in ("phase", "reason", "status") and not is_time(name)]
    more = [f"{name.removeprefix('approved_')} {text}" for name in others if (text := text_of_value(approval[name]))]
    return f"{words} ({', '.join(more)})" if more else words


def answer_since(state: dict[str, Any]) -> str:
    """Return what the user has answered to a question, if the newest error is not known to be later; else empty."""
    answer = answer_of(state)
    return answer if answer and _newest_time(state["feedback_request"]) >= time_of_failure(state) else ""


def answer_of(state: dict[str, Any]) -> str:
    """Return what the user has answered to the state's question; empty while it is open."""
    request = state.get("feedback_request")
    return next((text for name in ANSWERS if (text := text_of_value(_member(request, name)))), "")


def is_answer_built(state: dict[str, Any]) -> bool:
    """Return whether the state's question was answered before its build was completed."""
    if not state.get("feedback_request") or state.get("status") == "awaiting_feedback" or not answer_of(state):
        return False
    built = seconds_of(phase_state(state, "build").get("completed_at")) or 0.0
    return 0 < _newest_time(state["feedback_request"]) < built


def awaits_feedback(state: dict[str, Any]) -> bool:
    """Return whether a run waits for an answer that its state does not have yet."""
    return state.get("status") == "awaiting_feedback" and not answer_of(state)


def time_of_failure(state: dict[str, Any]) -> float:
    """Return when the newest error was noted; 0 if that is not known."""
    errors = state.get("errors")
    newest = errors[-1] if isinstance(errors, list) and errors else None
    return _newest_time(newest) if isinstance(newest, dict) else 0


def _newest_time(one: dict[str, Any]) -> float:
    return max([seconds_of(value) or 0 for value in one.values()], default=0)


def what_to_keep(run_id: str, state: dict[str, Any], path: str) -> str:
    """Return three lines that name what the work cannot go on without; `path` is the state's."""
    artifacts = state.get("artifacts")
    known = artifacts if isinstance(artifacts, dict) else {}
    position = ":".join([part for part in (current_phase(state), current_step(state)) if part])
    where = "phase and step" if current_step(state) else "phase"
    where = f"completed {where}" if phase_statuses(state).get(current_phase(state) or "") == "completed" else where
    ids = [("FABER run", run_id), ("work item", state.get("work_id")), (where, position)]
    paths = [
        ("state", path),
        ("specification", str(known.get("spec_path") or "").replace("{project_root}/", "")),
        ("branch", known.get("branch_name") or known.get("branch") or state.get("branch")),
    ]
    return (
        f"Keep in the summary, word for word: {_listed(ids)}.\n"
        f"Keep these names: {_listed(paths)}; and the paths of the files that were changed or are about to be.\n"
        "Keep each decision with its reason, what the user asked for, what failed, and the next step."
    )


def _listed(named: list[tuple[str, Any]]) -> str:
    from faber_ledger.files.text import quoted  # only PreCompact needs it

    return ", ".join([f"{name} {quoted(value)}" for name, value in named if value not in (None, "")])
