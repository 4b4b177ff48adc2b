"""The position, the packet's first part: where the run stands, what forbids to go on, and what to do next."""

from __future__ import annotations

import os

from faber_ledger.context.workflow import SHIPPED, steps_in_order
from faber_ledger.files.text import clip, defuse, one_line, quoted, share_room, units
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.runs import progress
from faber_ledger.runs.git import branch_of, default_ref, is_safe, work_tree_of

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
        """The position's text, of at most `MAX_UNITS`, the notes that it lacks, and the values that it has whole.

        `asks_for` is what the step asks for, empty if that is not known.
        """

        text: str
        other_notes: list[Remembered]
        said: set[str]
        asks_for: str

    # A label, the text after it, its rank, least and most units (see `share_room`), what follows it, and the mark of a
    # cut: one that ends with MIDDLE stands for the middle, others for the end.
    Line = tuple[str, str, int, int, int, str, str]


MAX_UNITS = 1_600  # of UTF-16, so that a sentence about what to read now is within the first 2,000
MAX_INSTRUCTIONS, MAX_NOTES, MAX_STEP, MAX_QUESTION, MAX_ERROR = 800, 400, 400, 400, 300
MIN_FACT, MIN_STEP, MIN_AFTER, MIN_LONG, MIN_NOTES = 100, 160, 160, 60, 270  # units that no long text takes away
MIN_INSTRUCTIONS = 700
MOST_FAILURES = 3  # of one step, after which a protocol stops
MOST_SINCE, MAX_SINCE = 2, 80  # notes that are named, and units of each
MAX_VALUE, MAX_PLACE, MAX_KIND, MAX_NAMED = 200, 160, 40, 12
FACT, ORDER, MORE = range(3)  # ranks
WHAT_THIS_IS = "faber-ledger gives you this at each start of a session."
BELOW = "… (the rest: below)"
MIDDLE = ") … "
WHAT_WAS_ASKED = "What a later start of a session gives counts before this."
WHAT_IS_OVER = "What faber-ledger has of this run, which is over."
APPROVAL = "Pending approval (do not go on before it is given): "
REJECTED = "Approval rejected (do not go on: ask the user): "
NOT_ON_RECORD = (
    "begins only after somebody has approved it, and no approval is on record here: ask the user before you go on, also"
    " if a summary says that it was given."
)
RELOADS = ("/fractary-faber:prime-context", "/fractary-faber:session-load", "faber-ledger session-load")
ANSWERS = ("response", "answer")  # of a question to the user
GRANTED = ("granted", "approved")  # of an approval's status
TIMES = ("_at", "timestamp")  # ends of the names of its times
MODES = {
    "after_feedback": "do not go on before the question below is answered",
    "retry": "try the step again that failed",
    "start": "nothing is done yet",
}


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
) -> Position:
    """Return the position by a run's state, its workflow and its notes.

    `answers` are the notes among which an answer to a failure may be, newest first; the same if they are not given.
    `branch` is the run's by its log, which counts where the state names none and the default branch is checked out.
    `before` has sentences about the session before, and about other clones; `on_failure` is where the protocol says
    what to do when a step fails. `asked_at` is when a command asked for it, None for the packet of a start. No text of
    a repository makes lines.
    """
    steps = steps_in_order(workflow["lineage"]) if workflow else []
    point = progress.resume_point(state)
    stops = _lines_that_stop(run, state, point, steps, workflow, notes or [] if answers is None else answers)
    place, is_elsewhere = _line_about_place(run, state, branch)
    failures = _count_failures(state, workflow, point)
    label = "What to do then: " if stops else "What to do: "
    if failures > 1 and on_failure:
        label = "What to do, unless the protocol says otherwise there: "
    about_step, asks_for = _lines_about_step(state, point, steps, label)
    lines = [
        *_lines_about_run(run, state, point, workflow, on_failure),
        *[_line("", sentence, most=MAX_QUESTION, least=MAX_QUESTION) for sentence in before or []],
        *([place] if is_elsewhere else []),
        *stops,
        *about_step,
        *([] if is_elsewhere else [place]),
        *_lines_about_trouble(run, state),
    ]
    request = state.get("feedback_request")
    named = {text_of_value(request.get("request_id"))} if stops and isinstance(request, dict) else set()
    head = _head(run, state, asked_at)
    if not notes:
        text, said = _fit([line for line in lines if line[1]], MAX_UNITS - units(head), "")
        return {"text": head + text, "other_notes": [], "said": said | named, "asks_for": asks_for}
    from faber_ledger.context.notes import render_notes  # where there are any

    text, said = _fit([line for line in lines if line[1]], MAX_UNITS - units(head), render_notes(notes, MAX_NOTES)[0])
    noted, others = render_notes(notes, min(MAX_NOTES, MAX_UNITS - units(head + text)))
    return {"text": head + text + noted, "other_notes": others, "said": said | named, "asks_for": asks_for}


def _head(run: Run, state: dict[str, Any], asked_at: float | None) -> str:
    """Return the heading, and what this text is."""
    name, what = one_line(run.run_id, MAX_VALUE), WHAT_THIS_IS if asked_at is None else WHAT_WAS_ASKED
    what = WHAT_IS_OVER if state.get("status") in progress.FINISHED else what
    return f"# {f'FABER run {name}' if asked_at is None else f'Run {name}, as of {utc_text(asked_at)}'}\n\n{what}\n\n"


def _line(
    label: str,
    text: str,
    after: str = "",
    *,
    rank: int = FACT,
    least: int = MIN_FACT,
    most: int = MAX_VALUE,
    mark: str = "…",
) -> Line:
    return label, text, rank, least, most, after, mark


def _fit(lines: list[Line], room: int, notes: str) -> tuple[str, set[str]]:
    """Return lines that leave room for notes, and the texts that they have whole: facts come before long texts."""
    texts = [
        one_line(line[1] if len(line[1]) <= 2 * line[4] else _cut(line[1], 4 * line[4], line[6]), 4 * line[4])
        for line in lines
    ]
    around = units("".join([f"{line[0]}{line[5]}\n" for line in lines]))
    wanted = [(line[2], line[3], min(units(text), line[4])) for line, text in zip(lines, texts, strict=True)]
    limits = share_room([*wanted, (MORE, MIN_NOTES, units(notes))], room - around)
    whole, said = "", set()
    for (label, full, _, _, _, after, mark), text, limit in zip(lines, texts, limits, strict=False):
        if units(text) <= limit:
            said.add(full)
            whole += f"{label}{text}{after}\n"
            continue
        marks = [one for one in (mark, BELOW if mark != "…" else mark) if 3 * units(one) <= limit]
        whole += f"{label}{_cut(text, limit, marks[0] if marks else '…')}{after}\n"
    return defuse(clip(whole, room, "…\n")), said


def _cut(text: str, room: int, mark: str) -> str:
    """Cut a text as its mark wants it: at the end, or in the middle, with a third of the room for the end."""
    left = room - units(mark)
    if not mark.endswith(MIDDLE) or units(text) <= room or left < 3 * MIN_LONG:
        return clip(text, room, mark)
    tail = text[-(left // 3) :]
    while units(tail) > left // 3:
        tail = tail[1:]
    tail = tail.partition(" ")[2]  # from a whole word on
    return f"{clip(text, left - units(tail), '')}{mark}{tail}"


def _lines_about_run(
    run: Run, state: dict[str, Any], point: ResumePoint | None, workflow: Workflow | None, on_failure: str
) -> list[Line]:
    place = f"additional_instructions in {one_line(run.shown(run.state_path), MAX_PLACE)}"
    where = f" … (the rest, which you read before you go on: {place}{MIDDLE}"
    status = text_of_value(state.get("status"))
    meant = MODES.get(point["mode"]) if point else "nothing is left to do" if status in progress.FINISHED else None
    tried, limit = _count_retries(state, workflow, point["phase"] if point else None)
    failures = _count_failures(state, workflow, point)
    if failures > 1:
        left = f" of {limit}, {max(limit - tried, 0)} left" if limit else ""
        of_phase = f", retries of the phase: {tried}{left}" if tried else ""
        rule = f"first read what the protocol says of failures: {on_failure}" if on_failure else "ask the user first"
        meant = f"for the {_ordinal(failures)} time{of_phase}; {rule}"
    instructions = _texts_in(state.get("additional_instructions"))
    return [
        _line("Work item: ", text_of_value(state.get("work_id"))),
        _line("Target: ", text_of_value(state.get("target"))),
        _line(
            "Instructions from the user: ",
            instructions,
            rank=ORDER,
            least=MIN_INSTRUCTIONS,
            most=MAX_INSTRUCTIONS,
            mark=where,
        ),
        _line("Workflow: ", text_of_value(state.get("workflow_id"))),
        _line("Status: ", status, f" ({meant})" if meant else ""),
    ]


def _ordinal(count: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(count % 10 if count // 10 % 10 != 1 else 0, "th")
    return f"{count}{ending}"


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
        lines += _lines_about_feedback(state.get("feedback_request"), one_line(run.shown(run.state_path), MAX_PLACE))
    phase = point["phase"] if point else progress.current_phase(state)
    pending = pending_approvals(state)
    if pending:
        label = REJECTED if "rejected" in (pending[-1].get("status"), pending[-1].get("decision")) else APPROVAL
        lines.append(_line(label, words_of_approval(pending[-1]), rank=ORDER, most=MAX_ERROR))
    elif point and any([one["is_gated"] for one in steps if one["phase"] == phase]) and not _is_approved(state, phase):
        lines.append(_line(f"Approval: phase {one_line(phase, MAX_VALUE)} ", NOT_ON_RECORD, most=MAX_QUESTION))
    tried, limit = _count_retries(state, workflow, phase)
    if point and tried and limit and tried >= limit and progress.phase_statuses(state).get(phase or "") != "completed":
        lines.append(
            _line(
                "", f"The retries of phase {phase} are used up ({tried} of {limit}): ask the user before you try again."
            )
        )
    count = count_errors(state, point)
    if count >= MOST_FAILURES:
        answered = _answer_since(state)
        stop = (
            f"the user has answered since: {answered}"
            if answered
            else f"stop, and ask the user before you try it again{_notes_since(state, notes)}"
        )
        lines.append(_line("", f"This step has failed {count} times: {stop}.", most=MAX_ERROR))
    return lines


def _answer_since(state: dict[str, Any]) -> str:
    """Return what the user has answered to a question, if the newest error is not known to be later; else empty."""
    request = state.get("feedback_request")
    asked = request if isinstance(request, dict) else {}
    answer = next((text for name in ANSWERS if (text := text_of_value(asked.get(name)))), "")
    return answer if _newest_time(asked) >= _time_of_failure(state) else ""


def _time_of_failure(state: dict[str, Any]) -> float:
    """Return when the newest error was noted; 0 if that is not known."""
    errors = state.get("errors")
    newest = errors[-1] if isinstance(errors, list) and errors else None
    return _newest_time(newest) if isinstance(newest, dict) else 0


def _newest_time(one: dict[str, Any]) -> float:
    return max([seconds_of(value) or 0 for value in one.values()], default=0)


def _notes_since(state: dict[str, Any], notes: Sequence[Mapping[str, Any]]) -> str:
    """Return the notes that were recorded since the newest error, if its time is known: one may be an answer."""
    failed_at, noted = _time_of_failure(state), [one for one in notes if one.get("kind") in ("note", "decision")]
    since = [one for one in noted if (seconds_of(one["at"]) or 0) >= failed_at]
    named = "; ".join([one_line(one["text"], MAX_SINCE) for one in since[:MOST_SINCE]]) if failed_at else ""
    return f", unless a note since then has the answer ({named})" if named else ""


def say_what_stops(run: Run, state: dict[str, Any], notes: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return what must be settled before work goes on, by state and notes, and the last error of a step that failed."""
    point = progress.resume_point(state)
    lines = _lines_that_stop(run, state, point, [], None, notes)
    if point and point["mode"] == "retry":
        lines += _lines_about_trouble(run, state)[1:2]
    return [f"{line[0]}{one_line(line[1], line[4])}{line[5]}" for line in lines if line[1]]


def pending_approvals(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest approval of each phase that was asked for or rejected, and not given."""
    return [one for one in _newest_approvals(state) if not is_granted(one)]


def _newest_approvals(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the state has of approvals, asked for, given or rejected: of each phase the newest.

    Where not every one of a phase has a time, the later one counts, and `approvals` after those that wait. A grant
    without a phase approves nothing.
    """
    lists = [state.get("pending_approvals"), state.get("approvals")]
    found = [one for entries in lists if isinstance(entries, list) for one in entries if isinstance(one, dict)]
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        by_phase.setdefault(text_of_value(one.get("phase")), []).append(one)
    newest = [one for one in by_phase.pop("", []) if not is_granted(one)]
    for of_phase in by_phase.values():
        times = [
            max([seconds_of(one[name]) or 0 for name in one if name.endswith(TIMES)], default=0) for one in of_phase
        ]
        newest.append(of_phase[max(range(len(times)), key=lambda at: (times[at] if all(times) else 0, at))])
    return sorted(newest, key=lambda one: next(at for at, other in enumerate(found) if other is one))


def is_granted(approval: dict[str, Any]) -> bool:
    """Return whether an approval was given: one that was granted may stay in the list of those that wait."""
    said = approval.get("status") or approval.get("decision")
    is_signed = said is None and bool(approval.get("approved_by") and approval.get("approved_at"))
    return approval.get("granted") is True or approval.get("approved") is True or said in GRANTED or is_signed


def _is_approved(state: dict[str, Any], phase: str | None) -> bool:
    """Return whether a state says that a phase was approved, or that it is over."""
    given = [one for one in _newest_approvals(state) if is_granted(one) and one.get("phase") == phase]
    of_phase = progress.phase_state(state, phase)
    own = of_phase.get("approval")
    is_own = of_phase.get("approved") is True or (isinstance(own, dict) and is_granted(own))
    return bool(given) or is_own or progress.phase_statuses(state).get(phase or "") == "completed"


def words_of_approval(approval: dict[str, Any]) -> str:
    """Return for what an approval is asked, why, and who is to give it."""
    words = ": ".join([text for name in ("phase", "reason") if (text := text_of_value(approval.get(name)))])
    others = [name for name in approval if name not in ("phase", "reason", "status") and not name.endswith(TIMES)]
    more = [f"{name.removeprefix('approved_')} {text}" for name in others if (text := text_of_value(approval[name]))]
    return f"{words} ({', '.join(more)})" if more else words


def _lines_about_feedback(request: object, where: str) -> list[Line]:
    asked = request if isinstance(request, dict) else {}
    named = [one_line(text, MAX_KIND) for name in ("request_id", "type") if (text := text_of_value(asked.get(name)))]
    label = f"Question to the user ({', '.join(named)}): " if named else "Question to the user: "
    prompt = text_of_value(asked.get("prompt")) or f"feedback_request in {where} names none"
    mark = f"… (the rest: feedback_request in {where})"
    options = asked.get("options")
    answers = [text for one in options if (text := text_of_value(one))] if isinstance(options, list) else []
    return [
        _line(label, prompt, rank=ORDER, least=MIN_LONG, most=MAX_QUESTION, mark=mark),
        _line("Possible answers: ", "; ".join(answers[:MAX_NAMED])),
    ]


def count_errors(state: dict[str, Any], point: ResumePoint | None) -> int:
    """Return how many of a state's `errors` are of the step at which work resumes."""
    return _count_errors(state, place_of(point)) if point else 0


def _count_errors(state: dict[str, Any], place: str) -> int:
    """Return how many of a state's `errors` are of a step (`phase:step`)."""
    errors = state.get("errors")
    return [progress.place_of_error(one) for one in errors].count(place) if isinstance(errors, list) and place else 0


def _count_failures(state: dict[str, Any], workflow: Workflow | None, point: ResumePoint | None) -> int:
    """Return how often the step has failed that is to be tried again; 0 if none is."""
    if point is None or point["mode"] != "retry":
        return 0
    return count_errors(state, point) or _count_retries(state, workflow, point["phase"])[0] + 1


def _count_retries(state: dict[str, Any], workflow: Workflow | None, phase: str | None) -> tuple[int, int]:
    """Return how often a phase was tried again, and how often it may be, 0 if that is not known."""
    of_phase, retries = progress.phase_state(state, phase), state.get("retries")
    tried = retries.get(phase) if isinstance(retries, dict) else None
    counts = [tried, of_phase.get("retry_count"), of_phase.get("retries")]
    named = [config.get("phases") for _, config in (workflow["lineage"] if workflow else [])]
    of_workflow = [phases.get(phase) for phases in named if isinstance(phases, dict)]
    limits = [of_phase.get("max_retries"), *[one.get("max_retries") for one in of_workflow if isinstance(one, dict)]]
    return tuple([next((one for one in found if type(one) is int), 0) for found in (counts, limits)])  # type: ignore[return-value]  # two


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
    lines = [_line("Phase: ", phase or ""), _line("Step: ", step or "")]
    if point and at != (phase, step):
        lines.append(_line("Go on at: ", place_of(point)))
    if point is None or not [one for one in steps if one["phase"] == at[0]]:
        return lines, ""
    place = _find_place(state, steps, *at, is_retried=point["mode"] == "retry")
    if place is None:
        names = [one["name"] or "" for one in steps if one["phase"] == at[0]]
        label = f"No step of the workflow has this name; those of phase {one_line(at[0], MAX_PLACE)}: "
        return [*lines, _line(label, ", ".join(names[:MAX_NAMED]) if any(names) else "")], ""
    if place == len(steps):
        return [*lines, _line("", "All steps of the workflow are done.")], ""
    following = steps[place]
    name = "" if (following["phase"], following["name"]) == at else f"{_name_step(following, at[0])}: "
    nothing = f"what phase {following['phase']} is for; the workflow describes no step of it"
    does = _fill(following["does"], state) or nothing
    where = f" ({_place_of_workflow(following['path'])})"
    lines.append(_line(f"{label}{name}", does, where, rank=ORDER, least=MIN_STEP, most=MAX_STEP))
    after = _words_after(state, steps, place)
    return [*lines, _line("After it: ", after, rank=MORE, least=MIN_AFTER, most=MAX_STEP)], does


def _place_of_workflow(path: str) -> str:
    """Return where a workflow stands; one that came with this program is nothing to read or to change."""
    folder, name = os.path.split(path)
    return f"faber-ledger's own {name}" if folder == SHIPPED else one_line(path, MAX_PLACE)


def _find_place(
    state: dict[str, Any], steps: list[WorkflowStep], phase: str | None, step: str | None, *, is_retried: bool
) -> int | None:
    """Return the place of the step to do next among a workflow's, perhaps behind the last; None if it is not known.

    A step that loads what this text gives is done.
    """
    of_phase = [at for at, one in enumerate(steps) if one["phase"] == phase]
    found = [at for at in of_phase if step is not None and steps[at]["name"] == step]
    if step is not None and not found:
        return None
    is_over = step is None and progress.phase_statuses(state).get(phase or "") == "completed"
    place = of_phase[-1] + 1 if is_over else (found or of_phase)[0]
    done = progress.done_steps(state, phase) if not is_retried else set()
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
    gate = ", which needs approval before it begins" if of_phase and step["is_gated"] else ""
    name = f"step {one_line(step['name'], MAX_PLACE)}" if step["name"] else ""
    return f"{', '.join([part for part in (of_phase + gate, name) if part])}"


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
    return ", then ".join(words) or "nothing, the run is complete"


# The rest


def _line_about_place(run: Run, state: dict[str, Any], by_log: str | None) -> tuple[Line, bool]:
    """Return the run's branch, and whether another one is checked out here."""
    named, here = text_of_value(progress.branch_name(state)) or by_log or "", branch_of(run.root)
    if not named:
        is_named = isinstance(tree := state.get("worktree"), dict) and here == tree.get("branch")
        why = "the state names none" if "status" in state else "which one the run has is not known"
        if is_named:
            return _line("Branch: ", here or "", " (checked out here)"), False
        return _line("Branch: ", here or "", f" (checked out here; {why})"), False
    if state.get("status") in progress.FINISHED:
        return _line("Branch: ", named), False
    tree = work_tree_of(run.root)
    if tree is None or named == here:
        return _line("Branch: ", named, " (checked out here)" if tree is not None else ""), False
    from faber_ledger.context.branch import describe_way_to  # most starts are on the run's branch

    there = f"{quoted(here)} is checked out here" if here else "it is not checked out here"
    return _line("Branch: ", named, f", but {there}{describe_way_to(run.root, tree, named)}"), True


def branch_by_log(run: Run, state: dict[str, Any], log: Log) -> str | None:
    """Return a run's first branch by its log, if the state names none and the default branch is checked out."""
    here = branch_of(run.root)
    if progress.branch_name(state) or here is None or not f"{default_ref(run.root)}".endswith(f"/{here}"):
        return None
    return log.first_branch(besides=here)


def _lines_about_trouble(run: Run, state: dict[str, Any]) -> list[Line]:
    """Return what the last session left, and what went wrong last."""
    where = one_line(run.shown(run.state_path), MAX_PLACE)
    texts = [("Left by the last session: ", _texts_in(state.get("continuation_note")), "continuation_note in ")]
    for label, (place, message) in zip(
        ("Last error", "Newest of `errors`"), progress.newest_errors(state), strict=False
    ):
        count = _count_errors(state, place)
        known = f"{one_line(place, MAX_PLACE)}{f', failed {count} times' if count > 1 else ''}"
        texts.append((f"{label}{f' ({known})' if place else ''}: ", message, ""))
    return [
        _line(label, text, rank=MORE, least=MIN_LONG, most=MAX_ERROR, mark=f"… (the rest: {member}{where})")
        for label, text, member in texts
    ]


def _texts_in(value: object) -> str:
    """Return what somebody said to whoever goes on: a text, or the members of a list or an object that are texts."""
    if isinstance(value, dict):
        return "; ".join([f"{name}: {text}" for name, one in value.items() if (text := text_of_value(one))])
    if isinstance(value, list):
        return "; ".join([text for one in value if (text := text_of_value(one))])
    return text_of_value(value)


def text_of_value(value: object) -> str:
    """Return a member of a state as text; an empty one if it is neither a text nor a usual number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def place_of(point: ResumePoint) -> str:
    """Return a resume point as `phase:step`, or what is known of it."""
    return ":".join([part for part in (point["phase"], point["step"]) if part])
