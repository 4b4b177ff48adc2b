"""Where a run stands: status, phases and steps in its `state.json`, and the point at which work resumes."""

from __future__ import annotations

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

    First the error of the step at which work resumes, or of its phase; then the newest of `errors`, if it is another.
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
    if other and other != own:
        found.append((place_of_error(newest), other))
    return found


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
        point = _member(_member(state, "feedback_request"), "resume_point") or _member(state, "resume_point")
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


def snapshot(state: dict[str, Any]) -> Snapshot:
    """Return the part of a state that an event keeps of the run's progress."""
    return {"phase": current_phase(state), "step": current_step(state), "phases_completed": phases_completed(state)}


DONE = ("completed", "done", "success", "skipped")
FAILED = ("failed", "failure", "error")
MESSAGES = ("message", "error", "errors", "reason", "code")
MOST_NESTED = 4  # objects and lists around an error's message
ACTIVE = ("in_progress", "paused", "awaiting_feedback")
STATUSES = ("pending", *ACTIVE, "completed", "failed", "cancelled")
FINISHED = ("completed", "cancelled")


def what_to_keep(run_id: str, state: dict[str, Any], path: str) -> str:
    """Return three lines that name what the work cannot go on without; `path` is the state's."""
    artifacts = state.get("artifacts")
    known = artifacts if isinstance(artifacts, dict) else {}
    position = ":".join([part for part in (current_phase(state), current_step(state)) if part])
    ids = [("FABER run", run_id), ("work item", state.get("work_id")), ("phase and step", position)]
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
