"""The position, the packet's first part: where the run stands, what forbids to go on, and what to do next."""

from __future__ import annotations

import os

from faber_ledger.context.workflow import SHIPPED, steps_in_order
from faber_ledger.files.text import clip, defuse, one_line, share_room, units
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.runs import progress
from faber_ledger.runs.active import Here
from faber_ledger.runs.git import branch_of, is_safe, work_tree_of
from faber_ledger.runs.progress import count_errors, place_of, text_of_value, texts_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypedDict

    from faber_ledger.context.notes import Remembered
    from faber_ledger.context.workflow import Workflow, WorkflowStep
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import ResumePoint
    from faber_ledger.runs.run import Run

    class Position(TypedDict):
        """The position's text, of at most `MAX_UNITS`, the notes that it lacks, and the values not to be said again.

        `asks_for` is what the step asks for, empty if that is not known.
        """

        text: str
        other_notes: list[Remembered]
        said: set[str]
        asks_for: str


MAX_UNITS = 1_600  # of UTF-16, so that a sentence about what to read now is within the first 2,000
MAX_INSTRUCTIONS, MAX_NOTES, MAX_STEP, MAX_QUESTION, MAX_ERROR = 800, 400, 400, 400, 300
MIN_FACT, MIN_STEP, MIN_AFTER, MIN_LONG, MIN_NOTES = 100, 160, 160, 60, 270  # units that no long text takes away
MIN_INSTRUCTIONS = 700
MOST_SINCE, MAX_SINCE = 2, 80  # notes that are named, and units of each
MAX_VALUE, MAX_PLACE, MAX_KIND, MAX_NAMED = 200, 160, 40, 12
FACT, ORDER, MORE = range(3)  # ranks
WHAT_THIS_IS = "faber-ledger gives you this at each start of a session.\n\n"
BELOW = "… (the rest: below)"
MIDDLE = ") … "
REQUEST = "feedback_request"
PROMPTS = ("prompt", "question", "message")  # members of it
NO_PROMPTS = ("request_id", "type", "resume_point", *progress.ANSWERS)
APPROVAL = "Pending approval (do not go on before it is given): "
UNCLEAR = "Approval that names no phase (ask the user whether it is given, and for which): "
REJECTED = "Approval rejected (do not go on: ask the user): "
NEEDS_APPROVAL = "begins only after somebody has approved it, and "
GATE = ", which needs approval before it begins"
NOT_ON_RECORD = (
    "no approval is on record here: ask the user before you go on, also if a summary says that it was given."
)
RELOADS = ("/fractary-faber:prime-context", "/fractary-faber:session-load", "faber-ledger session-load")
MODES = {
    "after_feedback": "do not go on before the question below is answered",
    "retry": "try the step again that failed",
    "start": "nothing is done yet",
}


class Line:
    """A label, the text after it, and what follows the text; its rank, least and most units (see `share_room`).

    A `mark` of a cut that ends with MIDDLE stands for the middle of the text, any other for its end.
    """

    def __init__(
        self,
        label: str,
        text: str,
        after: str = "",
        *,
        rank: int = FACT,
        least: int = MIN_FACT,
        most: int = MAX_VALUE,
        mark: str = "…",
    ) -> None:
        self.label, self.text, self.after = label, text, after
        self.rank, self.least, self.most, self.mark = rank, least, most, mark


def render_position(
    run: Run,
    state: dict[str, Any],
    *,
    workflow: Workflow | None = None,
    notes: list[Remembered] | None = None,
    before: list[str] | None = None,
    answers: Sequence[Mapping[str, Any]] | None = None,
    branch: str | None = None,
    on_failure: str = "",
    asked_at: float | None = None,
    knows_state: bool = False,
) -> Position:
    """Return the position by a run's state, its workflow and its notes.

    `answers` are the notes among which an answer to a failure may be, newest first; the same if they are not given.
    `branch` is the run's by its log, as `recorded_branch` returns it.
    `before` has sentences about the session before, and about other clones; `on_failure` is where the protocol says
    what to do when a step fails. `asked_at` is when a command asked for it, None for the packet of a start. A
    reader that `knows_state` was the last one at work on it. No text of a repository makes lines.
    """
    steps = steps_in_order(workflow["lineage"]) if workflow else []
    point = progress.resume_point(state)
    stops = _lines_that_stop(run, state, point, steps, workflow, notes or [] if answers is None else answers)
    place, is_elsewhere = _line_about_place(run, state, branch)
    failures = _count_failures(state, point)
    label = "What to do then: " if stops else "What to do: "
    if failures > 1 and on_failure and not stops:
        label = "What to do, unless the protocol's rules on failures say otherwise: "
    about_step, asks_for = _lines_about_step(state, point, steps, label)
    knows = knows_state and state.get("status") != "failed"
    lines = [
        *_lines_about_run(run, state, point, workflow, on_failure),
        *[Line("", sentence, most=MAX_QUESTION, least=MAX_QUESTION) for sentence in before or []],
        *([place] if is_elsewhere else []),
        *stops,
        *about_step,
        *([] if is_elsewhere else [place]),
        *([] if point is None and state.get("status") == "completed" else _lines_about_trouble(run, state, knows)),
    ]
    known = {message for _, message in progress.newest_errors(state)} if knows else set()
    request = state.get("feedback_request")
    named = {text_of_value(request.get("request_id"))} if stops and isinstance(request, dict) else set()
    head, wish = _head(run, state, asked_at), ""
    left = MAX_UNITS - units(head)
    if notes:
        from faber_ledger.context.notes import render_notes  # where there are any

        wish = render_notes(notes, MAX_NOTES)[0]
    text, said = _fit([line for line in lines if line.text], left, wish)
    noted, others = render_notes(notes, min(MAX_NOTES, left - units(text))) if notes else ("", [])
    return {
        "text": head + text + noted,
        "other_notes": others,
        "said": said | known | named | {progress.DEFAULT_WORKFLOW},
        "asks_for": asks_for,
    }


def _head(run: Run, state: dict[str, Any], asked_at: float | None) -> str:
    """Return the heading, and what this text is."""
    name, is_over = one_line(run.run_id, MAX_VALUE), state.get("status") in progress.FINISHED
    if asked_at is not None:
        return f"# Run {name}, as of {utc_text(asked_at)}\n\n"
    return f"# FABER run {name}\n\n{'' if is_over else WHAT_THIS_IS}"


def _fit(lines: list[Line], room: int, notes: str) -> tuple[str, set[str]]:
    """Return lines that leave room for notes, and the texts that they have whole: facts come before long texts."""
    texts = [
        one_line(one.text if len(one.text) <= 2 * one.most else _cut(one.text, 4 * one.most, one.mark), 4 * one.most)
        for one in lines
    ]
    around = units("".join([f"{one.label}{one.after}\n" for one in lines]))
    wanted = [(one.rank, one.least, min(units(text), one.most)) for one, text in zip(lines, texts, strict=True)]
    limits = share_room([*wanted, (MORE, MIN_NOTES, units(notes))], room - around)
    whole, said = "", set()
    for one, text, limit in zip(lines, texts, limits, strict=False):
        shown = text
        if units(text) <= limit:
            said.add(one.text)
        else:
            marks = [mark for mark in (one.mark, BELOW if one.mark != "…" else "…") if 3 * units(mark) <= limit]
            shown = _cut(text, limit, marks[0] if marks else "…")
        whole += f"{one.label}{shown}{one.after}\n"
    return defuse(clip(whole, room, "…\n")), said


def _cut(text: str, room: int, mark: str) -> str:
    """Cut a text as its mark wants it: at the end, or in the middle, with a third of the room for the end."""
    left = room - units(mark)
    if not mark.endswith(MIDDLE) or units(text) <= room or left < 3 * MIN_LONG:
        return clip(text, room, mark)
    tail = text[-(left // 3) :].partition(" ")[2]  # from a whole word on
    return f"{clip(text, left - units(tail), '')}{mark}{tail}"


def _lines_about_run(
    run: Run, state: dict[str, Any], point: ResumePoint | None, workflow: Workflow | None, on_failure: str
) -> list[Line]:
    place = f"additional_instructions in {one_line(run.shown(run.state_path), MAX_PLACE)}"
    where = f" … (the rest, which you read before you go on: {place}{MIDDLE}"
    status = text_of_value(state.get("status"))
    meant = MODES.get(point["mode"]) if point else "nothing is left to do" if status in progress.FINISHED else None
    if status == "awaiting_feedback" and not progress.awaits_feedback(state):
        meant = "the question below is answered"
    failures = _count_failures(state, point)
    if point and failures > 1:
        tried, limit = progress.count_retries(state, point["phase"]), _most_retries(state, workflow, point["phase"])
        left = f" of {limit}, {max(limit - tried, 0)} left" if limit else ""
        of_phase = f", retries of the phase: {tried}{left}" if tried else ""
        rule = f"first read what the protocol says of failures: {on_failure}" if on_failure else "ask the user first"
        meant = f"{failures} times{of_phase}; {rule}"
    instructions = texts_in(state.get("additional_instructions"))
    workflow_id = text_of_value(state.get("workflow_id"))
    return [
        Line("Work item: ", text_of_value(state.get("work_id"))),
        Line("Target: ", progress.target_of(state)),
        Line(
            "Instructions from the user, which outrank a step's command: ",
            instructions,
            rank=ORDER,
            least=MIN_INSTRUCTIONS,
            most=MAX_INSTRUCTIONS,
            mark=where,
        ),
        Line("Workflow: ", "" if workflow_id == progress.DEFAULT_WORKFLOW else workflow_id),
        Line("Status: ", status, f" ({meant})" if meant else ""),
    ]


# What forbids the next action


def _lines_that_stop(
    run: Run,
    state: dict[str, Any],
    point: ResumePoint | None,
    steps: list[WorkflowStep],
    workflow: Workflow | None,
    notes: Sequence[Mapping[str, Any]],
) -> list[Line]:
    """Return what must be settled before the next action."""
    lines: list[Line] = []
    if state.get("status") == "awaiting_feedback":
        lines += _lines_about_feedback(state, one_line(run.shown(run.state_path), MAX_PLACE))
    phase = point["phase"] if point else progress.current_phase(state)
    pending = progress.pending_approvals(state)
    is_gated = any([one["is_gated"] for one in steps if one["phase"] == phase])
    if pending:
        label = REJECTED if progress.is_rejected(pending[-1]) else APPROVAL if "phase" in pending[-1] else UNCLEAR
        lines.append(Line(label, progress.words_of_approval(pending[-1]), rank=ORDER, most=MAX_ERROR))
    elif point and is_gated and not progress.is_approved(state, phase):
        from faber_ledger.context.grants import describe_grant  # most starts need no approval

        label = f"Approval: phase {one_line(phase, MAX_VALUE)} {NEEDS_APPROVAL}"
        lines.append(Line(label, describe_grant(run, phase) or NOT_ON_RECORD, most=MAX_QUESTION))
    tried, limit = progress.count_retries(state, phase), _most_retries(state, workflow, phase)
    if point and tried and limit and tried >= limit and progress.phase_statuses(state).get(phase or "") != "completed":
        used_up = f"The retries of phase {phase} are used up ({tried} of {limit})"
        lines.append(Line("", f"{used_up}: ask the user before you try again."))
    count = count_errors(state, place_of(point))
    if count >= progress.MOST_FAILURES:
        answer = progress.answer_since(state)
        ask = f"stop, and ask the user before you try it again{_notes_since(state, notes)}"
        stop = f"the user has answered since: {answer}" if answer else ask
        lines.append(Line("", f"This step has failed {count} times: {stop}.", most=MAX_ERROR))
    return lines


def _notes_since(state: dict[str, Any], notes: Sequence[Mapping[str, Any]]) -> str:
    """Return the notes that were recorded since the newest error, if its time is known: one may be an answer."""
    failed_at = progress.time_of_failure(state)
    noted = [one for one in notes if one.get("kind") in ("note", "decision")]
    since = [one for one in noted if (seconds_of(one["at"]) or 0) >= failed_at]
    named = "; ".join([one_line(one["text"], MAX_SINCE) for one in since[:MOST_SINCE]]) if failed_at else ""
    return f", unless a note since then has the answer ({named})" if named else ""


def say_what_stops(run: Run, state: dict[str, Any], notes: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return what must be settled before work goes on, by state and notes, and the last error of a step that failed."""
    point = progress.resume_point(state)
    lines = _lines_that_stop(run, state, point, [], None, notes)
    if point and (point["mode"] == "retry" or count_errors(state, place_of(point)) >= progress.MOST_FAILURES):
        lines += _lines_about_trouble(run, state)[1:2]
    return [f"{line.label}{one_line(line.text, line.most)}{line.after}" for line in lines if line.text]


def _lines_about_feedback(state: dict[str, Any], where: str) -> list[Line]:
    request = state.get(REQUEST)
    asked = request if isinstance(request, dict) else {}
    named = [one_line(text, MAX_KIND) for name in ("request_id", "type") if (text := text_of_value(asked.get(name)))]
    label = f"Question to the user ({', '.join(named)}): " if named else "Question to the user: "
    others = {name: one for name, one in asked.items() if name not in NO_PROMPTS and not progress.is_time(name)}
    prompts = [text for name in PROMPTS if (text := text_of_value(asked.get(name)))]
    prompt = next(iter(prompts), texts_in(others if asked else request)) or (
        f"see {where}" if request else "none was written down"
    )
    mark = f"… (the rest: {REQUEST} in {where})"
    options = asked.get("options")
    answers = [text for one in options if (text := text_of_value(one))] if isinstance(options, list) else []
    answer = progress.answer_of(state)
    return [
        Line(label, prompt, rank=ORDER, least=MIN_LONG, most=MAX_QUESTION, mark=mark),
        Line("The user's answer: ", answer, rank=ORDER, least=MIN_LONG, most=MAX_QUESTION, mark=mark),
        Line("Possible answers: ", "" if answer else "; ".join(answers[:MAX_NAMED])),
    ]


def _count_failures(state: dict[str, Any], point: ResumePoint | None) -> int:
    """Return how often the step has failed that is to be tried again; 0 if none is."""
    if point is None or point["mode"] != "retry":
        return 0
    return count_errors(state, place_of(point)) or progress.count_retries(state, point["phase"]) + 1


def _most_retries(state: dict[str, Any], workflow: Workflow | None, phase: str | None) -> int:
    """Return how often a phase may be tried again, 0 if that is not known."""
    configs = [progress.phase_state(config, phase) for _, config in (workflow["lineage"] if workflow else [])]
    limits = [one.get("max_retries") for one in (progress.phase_state(state, phase), *configs)]
    return next((limit for limit in limits if type(limit) is int), 0)


# What to do


def _lines_about_step(
    state: dict[str, Any], point: ResumePoint | None, steps: list[WorkflowStep], label: str
) -> tuple[list[Line], str]:
    """Return the phase and the step, what there is to do, and what comes after it; nothing of a run that is over.

    Also return what there is to do alone, empty if that is not known. `label` stands before it.
    """
    if state.get("status") in progress.FINISHED:
        return [], ""
    phase, step = progress.current_phase(state), progress.current_step(state)
    at = (point["phase"], point["step"]) if point else (phase, step)
    done = [name for name in progress.phases_completed(state) if name != phase]
    others = one_line(", ".join(done), MAX_PLACE)
    are = "are" if done[1:] else "is"
    after = f" ({others} {are} completed)" if done else ""
    if progress.phase_statuses(state).get(phase or "") == "completed":
        after = f" is completed, as {are} {others}" if done else " is completed"
    lines = [Line("Phase: ", phase or "", after), Line("Step: ", step or "")]
    if point and at != (phase, step):
        lines.append(Line("Go on at: ", place_of(point)))
    if point is None or not [one for one in steps if one["phase"] == at[0]]:
        return lines, ""
    place = _find_place(state, steps, *at, point["mode"])
    if place is None:
        names = [one["name"] or "" for one in steps if one["phase"] == at[0]]
        label = f"No step of the workflow has this name; those of phase {one_line(at[0], MAX_PLACE)}: "
        return [*lines, Line(label, ", ".join(names[:MAX_NAMED]) if any(names) else "")], ""
    if place == len(steps):
        return [*lines, Line("", "All steps of the workflow are done.")], ""
    following = steps[place]
    name = "" if (following["phase"], following["name"]) == at else f"{_name_step(following, at[0])}: "
    is_over = point["mode"] == "retry" or progress.phase_statuses(state).get(at[0] or "") == "completed"
    if following["phase"] != at[0] and not is_over:
        name = f"complete phase {one_line(at[0], MAX_PLACE)}; then {name}"
    does = _fill(following["does"], state)
    where = _words_about_specification(state, following) + _place_of_workflow(following["path"])
    if not does:  # of a phase without steps
        name, does = "", name.removesuffix(": ")
        does = does.removesuffix(GATE) if progress.pending_approvals(state) else does
    if does:
        lines.append(Line(f"{label}{name}", does, where, rank=ORDER, least=MIN_STEP, most=MAX_STEP))
    after = _words_after(state, steps, place)
    return [
        *lines,
        Line("After it: " if does else "After this phase: ", after, rank=MORE, least=MIN_AFTER, most=MAX_STEP),
    ], does


def _place_of_workflow(path: str) -> str:
    """Return where a workflow stands; one that came with this program is nothing to read or to change."""
    return "" if os.path.dirname(path) == SHIPPED else f" ({one_line(path, MAX_PLACE)})"


def _words_about_specification(state: dict[str, Any], step: WorkflowStep) -> str:
    """Return that the specification may be there, after the step that writes it, once the state names one."""
    spec = text_of_value(progress.value_at(state, "artifacts.spec_path")).replace("{project_root}/", "")
    is_named = bool(spec) and step["name"] == "generate-spec"
    return f" (if {one_line(spec, MAX_PLACE)} is complete, this step is done)" if is_named else ""


def _find_place(
    state: dict[str, Any], steps: list[WorkflowStep], phase: str | None, step: str | None, mode: str
) -> int | None:
    """Return the place of the step to do next among a workflow's, perhaps behind the last; None if it is not known.

    A step that loads what this text gives is done, and so are those of a completed phase in which no work resumes.
    """
    of_phase = [at for at, one in enumerate(steps) if one["phase"] == phase]
    found = [at for at in of_phase if step is not None and steps[at]["name"] == step]
    is_over = mode == "continue" or (mode == "after_feedback" and not progress.feedback_point(state))
    is_over &= progress.phase_statuses(state).get(phase or "") == "completed"
    if step is not None and not found and not is_over:
        return None
    place = of_phase[-1] + 1 if is_over else (found or of_phase)[0]
    done = progress.done_steps(state, phase) if mode != "retry" else set()
    while place < len(steps) and (_is_reload(steps[place]) or (place in of_phase and steps[place]["name"] in done)):
        place += 1
    return place


def _is_reload(step: WorkflowStep) -> bool:
    return any([reload in step["does"] for reload in RELOADS])


def _fill(text: str, state: dict[str, Any]) -> str:
    """Fill a step's placeholders, such as `{pr_number}`, with what the state has for them."""
    artifacts = state.get("artifacts")
    for name, value in [("work_id", state.get("work_id")), *(artifacts.items() if isinstance(artifacts, dict) else ())]:
        if f"{{{name}}}" in text and is_safe(text_of_value(value)):
            text = text.replace(f"{{{name}}}", text_of_value(value))
    return text


def _name_step(step: WorkflowStep, phase: str | None) -> str:
    """Return a step's name, with its phase if that is another, and whether it begins only after an approval."""
    of_phase = f"phase {one_line(step['phase'], MAX_PLACE)}" if step["phase"] != phase else ""
    gate = GATE if of_phase and step["is_gated"] else ""
    name = f"step {one_line(step['name'], MAX_PLACE)}" if step["name"] else ""
    return ", ".join([part for part in (of_phase + gate, name) if part])


def _words_after(state: dict[str, Any], steps: list[WorkflowStep], place: int) -> str:
    """Return what comes after a step: the next one and what it is, and the others of its phase, then the next phase."""
    here, later = steps[place]["phase"], [one for one in steps[place + 1 :] if not _is_reload(one)]
    does = f" ({one_line(_fill(later[0]['does'], state), MAX_PLACE)})" if later and later[0]["does"] else ""
    words = [_name_step(later[0], here) + does] if later else []
    if later and later[0]["phase"] == here:
        others = [one_line(one["name"], MAX_PLACE) for one in later[1:] if one["phase"] == here]
        words += [", ".join([*others[:MAX_NAMED], *(["…"] if len(others) > MAX_NAMED else [])])] if others else []
        following = [one for one in later if one["phase"] != here]
        words.append(_name_step({**following[0], "name": None}, here) if following else "the run is complete")
    return ", then ".join(words) or "the run is complete"


# The rest


def _line_about_place(run: Run, state: dict[str, Any], by_log: str | None) -> tuple[Line, bool]:
    """Return the run's branch, and whether another one is checked out here."""
    named, here = text_of_value(progress.branch_name(state)) or by_log or "", branch_of(run.root)
    tree = work_tree_of(run.root)
    if state.get("status") in progress.FINISHED:
        return Line("Branch: ", named or here or ""), False
    if tree is None or named in ("", here):
        unknown = "" if named or "status" in state else "; which one the run has is not known"
        return Line("Branch: ", named or here or "", f" (checked out here{unknown})" if here else ""), False
    from faber_ledger.context.branch import describe_other_branch  # most starts are on the run's branch

    return Line("Branch: ", named, describe_other_branch(run, state, named, has_way=run.is_kept)), True


def recorded_branch(run: Run, state: dict[str, Any], log: Log) -> str | None:
    """Return a run's branch by this clone's notes, else by its log, if the state names none (DECISIONS 2)."""
    here = Here(run.root)
    if progress.branch_name(state) or (here.branch is None and not run.is_kept):
        return None
    here.know(run, state)
    branches = here.branches_of(run, log)
    return here.branch if here.branch in branches else next(reversed(branches), None)


def _lines_about_trouble(run: Run, state: dict[str, Any], knows: bool = False) -> list[Line]:
    """Return what the last session left, and what went wrong last, unless the reader knows that."""
    where = one_line(run.shown(run.state_path), MAX_PLACE)
    texts = [("Left by the last session: ", texts_in(state.get("continuation_note")), "continuation_note in ")]
    is_failed = state.get("status") == "failed"
    labels = ("Last error" if is_failed else "Last error, perhaps mended since", "Newest of `errors`")
    for label, (place, message) in zip(labels, [] if knows else progress.newest_errors(state), strict=False):
        count = count_errors(state, place)
        known = f"{one_line(place, MAX_PLACE)}{f', failed {count} times' if count > 1 else ''}"
        texts.append((f"{label}{f' ({known})' if place else ''}: ", message, ""))
    return [
        Line(label, text, rank=MORE, least=MIN_LONG, most=MAX_ERROR, mark=f"… (the rest: {member}{where})")
        for label, text, member in texts
    ]
