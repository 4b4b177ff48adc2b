"""The position, the packet's first part: where the run stands, and what else decides the next action."""

from __future__ import annotations

import os
from itertools import islice

from faber_ledger.context.workflow import SHIPPED
from faber_ledger.files.text import clip, one_line, quoted, shares, units
from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.event_types import NOT_CHECKABLE, REDACTED, is_foldable
from faber_ledger.runs.git import LIMIT, branch_of, has_remotes, is_safe, packed_refs, work_tree_of
from faber_ledger.runs.progress import (
    FINISHED,
    PHASES,
    branch_name,
    current_phase,
    current_step,
    done_steps,
    newest_errors,
    phase_statuses,
    place_of_error,
    resume_point,
)
from faber_ledger.runs.publish import stopped_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from faber_ledger.context.workflow import Workflow
    from faber_ledger.runs.git import WorkTree
    from faber_ledger.runs.progress import ResumePoint
    from faber_ledger.runs.run import Run

    class Position(TypedDict):
        """The position's text, of at most `MAX_UNITS`, and the notes that it does not show."""

        text: str
        other_notes: list[Remembered]

    # A label, the text after it, the units of the text that no long text takes away, the most units of it, what follows
    # it, and the mark of a cut.
    Line = tuple[str, str, int, int, str, str]

    class WorkflowStep(TypedDict):
        """A step, or a phase without steps (`name` is None); `does` says what it is, and `path` is where that stands.

        `is_gated` says whether its phase begins only after somebody has approved it.
        """

        phase: str
        name: str | None
        does: str
        path: str
        is_gated: bool

    from collections.abc import Iterator
    from typing import Literal, NotRequired, TypedDict

    from faber_ledger.ledger.events import NoteRecorded, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import Snapshot

    class Note(TypedDict):
        """A note as it was recorded; `at` is ISO 8601 in UTC, `event_id` can be given to `show`.

        `redacted` is there, and true, if its payload is gone, and a redaction alone says what it said.
        """

        seq: int
        event_id: str
        at: str
        kind: str
        text: str
        phase: str | None
        step: str | None
        redacted: NotRequired[bool]

    class Remembered(TypedDict):
        """A note or a summary of an earlier session, with its phase and step.

        `event_id` names the event that holds the whole text: a seq would not, since a merge may give several events the
        same. A text that is kept in a file has its `path`.
        """

        text: str
        phase: str | None
        step: str | None
        kind: NotRequired[str]
        event_id: NotRequired[str]
        path: NotRequired[str]


MAX_UNITS = 1_600  # of UTF-16, so that a sentence about what to read now is within the first 2,000
MAX_INSTRUCTIONS, MAX_NOTES, MAX_STEP, MAX_QUESTION, MAX_ERROR = 600, 400, 400, 400, 300
MIN_FACT, MIN_STEP, MIN_AFTER = 100, 160, 250  # units that no long text takes away
MIN_LONG, MIN_NOTES = 60, 270  # units of a long text before the instructions have more, and of notes before others have
MAX_VALUE, MAX_PLACE, MAX_KIND, MAX_NAMED = 200, 160, 40, 12
WHAT_THIS_IS = (
    "faber-ledger gives you this at each start of a session, also after a compaction: where the active workflow run"
    " stands, so that you can go on."
)
INSTRUCTIONS = "Instructions from the user: "
BELOW = "… (the rest: below)"
APPROVAL = "Pending approval (do not go on before it is given): "
RELOADS = ("/fractary-faber:prime-context", "/fractary-faber:session-load", "faber-ledger session-load")
GRANTED = ("granted", "approved")  # of an approval's status
BEGUN = ("in_progress", "completed")
NEVER = ("..", "//", "/.", "./", ".lock/")  # in a branch's name with a slash after it
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
) -> Position:
    """Return the position by a run's state, its workflow and its notes.

    `before` has sentences about the session before, and about other clones. No text of a repository makes lines.
    """
    lines = [*_lines_about_run(state, run), *_lines_about_step(state, workflow), *_lines_about_place(run, state)]
    lines += [("", sentence, MAX_QUESTION, MAX_QUESTION, "", "…") for sentence in before or []]
    lines += _lines_about_trouble(run, state)
    head = f"# FABER run {one_line(run.run_id, MAX_VALUE)}\n\n{WHAT_THIS_IS}\n\n"
    room = MAX_UNITS - units(head)
    if not notes:
        return {"text": head + _fit(lines, room, 0), "other_notes": []}
    text = head + _fit(lines, room, units(render_notes(notes, MAX_NOTES)[0]))
    noted, others = render_notes(notes, min(MAX_NOTES, MAX_UNITS - units(text)))
    return {"text": text + noted, "other_notes": others}


def _fit(lines: list[Line], room: int, notes: int) -> str:
    """Return lines that leave room for `notes` units: long texts are cut before short ones, and a label never."""
    texts = [one_line(text, 2 * most) for _, text, _, most, _, _ in lines]
    around = units("".join([f"{label}{after}\n" for label, _, _, _, after, _ in lines]))
    sizes = [units(text) for text in texts]
    wanted = [min(size, line[3]) for size, line in zip(sizes, lines, strict=True)]
    limits = _share([*wanted, notes], lines, room - around)
    whole = ""
    for (label, _, _, _, after, mark), text, size, limit in zip(lines, texts, sizes, limits, strict=False):
        shown = text
        if size > limit:
            marks = [one for one in (mark, BELOW if mark != "…" else mark) if 3 * units(one) <= limit]
            shown = clip(text, limit, marks[0] if marks else "…")
        whole += f"{label}{shown}{after}\n"
    return clip(whole, room, "…\n")


def _share(wanted: list[int], lines: list[Line], room: int) -> list[int]:
    """Split room among the texts of lines, and notes.

    First for facts and a little of each long text, then half of what is left for the instructions.
    """
    given = [0] * len(wanted)
    facts = [
        fact if most <= fact or fact > MIN_FACT else MIN_LONG
        for most, (_, _, fact, *_) in zip(wanted, lines, strict=False)
    ]
    wish = [*[MAX_INSTRUCTIONS if line[0] == INSTRUCTIONS else 0 for line in lines], 0]
    for limits, part in (([*facts, 0], 1), (wish, 2), ([0] * len(lines) + [MIN_NOTES], 1), (wanted, 1)):
        more = [max(min(most, limit) - has, 0) for most, limit, has in zip(wanted, limits, given, strict=True)]
        added = shares(more, (room - sum(given)) // part)
        given = [has + more for has, more in zip(given, added, strict=True)]
    return given


def _lines_about_run(state: dict[str, Any], run: Run) -> list[Line]:
    place = f"additional_instructions in {one_line(run.shown(run.state_path), MAX_PLACE)}"
    where = f"… (read the rest before you go on: below, or {place})"
    status = said(state.get("status"))
    point = resume_point(state)
    meant = MODES.get(point["mode"]) if point else "nothing is left to do" if status in FINISHED else None
    lines: list[Line] = [
        ("Work item: ", said(state.get("work_id")), MIN_FACT, MAX_VALUE, "", "…"),
        ("Target: ", said(state.get("target")), MIN_FACT, MAX_VALUE, "", "…"),
        (INSTRUCTIONS, _text_in(state.get("additional_instructions")), 0, MAX_INSTRUCTIONS, "", where),
        ("Workflow: ", said(state.get("workflow_id")), MIN_FACT, MAX_VALUE, "", "…"),
        ("Status: ", status, MIN_FACT, MAX_VALUE, f" ({meant})" if meant else "", "…"),
    ]
    return [line for line in lines if line[1]]


def _lines_about_step(state: dict[str, Any], workflow: Workflow | None) -> list[Line]:
    """Return the phase and the step, what there is to do, and what comes after it."""
    phase, step = current_phase(state), current_step(state)
    point = resume_point(state)
    at = (point["phase"], point["step"]) if point else (phase, step)
    steps = steps_in_order(workflow["lineage"]) if workflow else []
    has_begun = bool(done_steps(state, phase)) or phase_statuses(state).get(phase or "") in BEGUN
    is_gated = not has_begun and any([one["is_gated"] for one in steps if one["phase"] == phase])
    gate = " (needs approval before it begins)" if is_gated else ""
    lines: list[Line] = [
        ("Phase: ", phase or "", MIN_FACT, MAX_VALUE, gate, "…"),
        ("Step: ", step or "", MIN_FACT, MAX_VALUE, "", "…"),
    ]
    if point and at != (phase, step):
        lines.append(("Go on at: ", place_of(point), MIN_FACT, MAX_VALUE, "", "…"))
    lines = [line for line in lines if line[1]]
    if point is None or not [one for one in steps if one["phase"] == at[0]]:
        return lines
    place = _find_place(state, steps, *at, is_retried=point["mode"] == "retry")
    if place is None:
        names = [one["name"] or "" for one in steps if one["phase"] == at[0]]
        label = f"No step of the workflow has this name; those of phase {one_line(at[0], MAX_PLACE)}: "
        return [*lines, *([(label, ", ".join(names[:MAX_NAMED]), MIN_FACT, MAX_VALUE, "", "…")] if any(names) else [])]
    next_step = steps[place] if place < len(steps) else None
    if next_step is None:
        return [*lines, ("", "All steps of the workflow are done.", MIN_FACT, MAX_VALUE, "", "")]
    name = "" if (next_step["phase"], next_step["name"]) == at else f"{_name_step(next_step, at[0])}: "
    done = "; this text has done it" if any([reload in next_step["does"] for reload in RELOADS]) else ""
    where = f" ({_place_of_workflow(next_step['path'])}{done})"
    nothing = "as the protocol says, since the workflow describes no step here"
    lines.append((f"What to do: {name}", _fill(next_step["does"], state) or nothing, MIN_STEP, MAX_STEP, where, "…"))
    return [*lines, ("After it: ", _words_after(state, steps, place), MIN_AFTER, MAX_STEP, "", "…")]


def _place_of_workflow(path: str) -> str:
    """Return where a workflow stands; one that came with this program is nothing to read or to change."""
    folder, name = os.path.split(path)
    return f"faber-ledger's own {name}" if folder == SHIPPED else one_line(path, MAX_PLACE)


def _find_place(
    state: dict[str, Any], steps: list[WorkflowStep], phase: str | None, step: str | None, *, is_retried: bool
) -> int | None:
    """Return the place of the step to do next among a workflow's, perhaps behind the last; None if it is not known."""
    of_phase = [at for at, one in enumerate(steps) if one["phase"] == phase]
    done = done_steps(state, phase)
    if step is None:
        is_over = phase_statuses(state).get(phase or "") == "completed"
        left = [at for at in of_phase if not is_over and steps[at]["name"] not in done]
        return left[0] if left else of_phase[-1] + 1
    found = [at for at in of_phase if steps[at]["name"] == step]
    return found[0] + (step in done and not is_retried) if found else None


def _fill(text: str, state: dict[str, Any]) -> str:
    """Fill a step's placeholders, such as `{pr_number}`, with what the state has for them."""
    artifacts = state.get("artifacts")
    for name, value in [("work_id", state.get("work_id")), *(artifacts.items() if isinstance(artifacts, dict) else ())]:
        if f"{{{name}}}" in text and is_safe(said(value)):
            text = text.replace(f"{{{name}}}", said(value))
    return text


def _name_step(step: WorkflowStep, phase: str | None) -> str:
    """Return a step's name, with its phase if that is another, and whether it begins only after an approval."""
    of_phase = f"phase {one_line(step['phase'], MAX_PLACE)}" if step["phase"] != phase else ""
    gate = ", which needs approval before it begins" if of_phase and step["is_gated"] else ""
    name = f"step {one_line(step['name'], MAX_PLACE)}" if step["name"] else ""
    return f"{', '.join([part for part in (of_phase + gate, name) if part])}"


def _words_after(state: dict[str, Any], steps: list[WorkflowStep], place: int) -> str:
    """Return what comes after a step: the next one and what it is, and the others of its phase, then the next phase."""
    here, later = steps[place]["phase"], steps[place + 1 :]
    does = f" ({one_line(_fill(later[0]['does'], state), MAX_PLACE)})" if later and later[0]["does"] else ""
    words = [_name_step(later[0], here) + does] if later else []
    if later and later[0]["phase"] == here:
        others = [one_line(one["name"], MAX_PLACE) for one in later[1:] if one["phase"] == here]
        words += [", ".join([*others[:MAX_NAMED], *(["…"] if len(others) > MAX_NAMED else [])])] if others else []
        following = [one for one in later if one["phase"] != here]
        words.append(_name_step({**following[0], "name": None}, here) if following else "the run is complete")
    return ", then ".join(words) or "nothing, the run is complete"


def _lines_about_place(run: Run, state: dict[str, Any]) -> list[Line]:
    """Return the run's branch, and whether it is checked out here."""
    named, here = said(branch_name(state)), branch_of(run.root)
    if not named:
        why = "the state names none" if "status" in state else "which one the run has is not known"
        return [("Branch: ", here, MIN_FACT, MAX_VALUE, f" (checked out here; {why})", "…")] if here else []
    tree = work_tree_of(run.root)
    if tree is None:
        return [("Branch: ", named, MIN_FACT, MAX_VALUE, "", "…")]
    if named == here:
        return [("Branch: ", named, MIN_FACT, MAX_VALUE, " (checked out here)", "…")]
    there = f"{quoted(here)} is checked out here" if here else "it is not checked out here"
    return [("Branch: ", named, MIN_FACT, MAX_VALUE, f", but {there}{_describe_way_to(run, tree, named)}", "…")]


def _describe_way_to(run: Run, tree: WorkTree, branch: str) -> str:
    """Return how to get to a branch that is not checked out here: nothing for a name that git does not accept."""
    stopped = stopped_command(tree)
    if stopped is not None:
        end = "" if stopped == "bisect" else f"finish it with `git {stopped} --continue`, or "
        back = "reset" if stopped == "bisect" else "--abort"
        return f"; a {stopped} has stopped in the middle: first {end}take it back with `git {stopped} {back}`"
    if not is_safe(branch) or branch == "HEAD" or any([part in f"{branch}/" for part in NEVER]):
        return ""
    if not has_branch(run.root, branch):
        fetch = "run `git fetch`, or ask" if has_remotes(tree.common) else "ask"
        return f"; this clone does not have that branch: {fetch} where it is"
    top = tree.top_with(branch)
    switch = f"run `git switch {branch}` before you change anything"
    if top is None:
        return f": {switch}"
    place = quoted(os.path.relpath(top, run.root))
    return f"; it is checked out in {place}: work there"


def _lines_about_trouble(run: Run, state: dict[str, Any]) -> list[Line]:
    """Return the question that the run waits with, a pending approval, and what went wrong last."""
    where = one_line(run.shown(run.state_path), MAX_PLACE)
    lines: list[Line] = []
    if state.get("status") == "awaiting_feedback":
        lines += _lines_about_feedback(state.get("feedback_request"), where)
    approvals = state.get("pending_approvals")
    pending = [one for one in approvals if _is_pending(one)] if isinstance(approvals, list) else []
    if pending:
        lines.append((APPROVAL, _words_of_approval(pending[-1]), MIN_FACT, MAX_ERROR, "", "…"))
    left = _text_in(state.get("continuation_note"))
    lines.append(("Left by the last session: ", left, 0, MAX_ERROR, "", f"… (the rest: continuation_note in {where})"))
    for label, (place, message) in zip(("Last error", "Newest of `errors`"), newest_errors(state), strict=False):
        known = [one_line(place, MAX_PLACE), _count_failures(state, place)]
        of = f" ({', '.join(filter(None, known))})" if any(known) else ""
        lines.append((f"{label}{of}: ", message, 0, MAX_ERROR, "", f"… (the rest: {where})"))
    return [line for line in lines if line[1]]


def _count_failures(state: dict[str, Any], place: str) -> str:
    """Return how often a step (`phase:step`) failed, and its phase was tried again, by the state; empty if once."""
    errors, retries = state.get("errors"), state.get("retries")
    places = [place_of_error(one) for one in errors] if isinstance(errors, list) else []
    again = retries.get(place.partition(":")[0]) if isinstance(retries, dict) else None
    count = places.count(place) if place else 0
    said_so = [f"{count} errors of it" if count > 1 else "", f"retries of the phase: {said(again)}" if again else ""]
    return ", ".join(filter(None, said_so))


def _is_pending(approval: object) -> bool:
    """Return whether an entry of `pending_approvals` still waits: one that was granted may stay there."""
    if not isinstance(approval, dict):
        return False
    return approval.get("granted") is not True and approval.get("status", "pending") not in GRANTED


def _words_of_approval(approval: dict[str, Any]) -> str:
    return ": ".join([text for name in ("phase", "reason") if (text := said(approval.get(name)))])


def _lines_about_feedback(request: object, where: str) -> list[Line]:
    asked = request if isinstance(request, dict) else {}
    kind = ", ".join([one_line(text, MAX_KIND) for name in ("request_id", "type") if (text := said(asked.get(name)))])
    label = f"Question to the user ({kind}): " if kind else "Question to the user: "
    prompt = said(asked.get("prompt")) or f"feedback_request in {where} names none"
    lines: list[Line] = [(label, prompt, 0, MAX_QUESTION, "", f"… (the rest: feedback_request in {where})")]
    options = asked.get("options")
    named = [text for one in options if (text := said(one))] if isinstance(options, list) else []
    lines.append(("Possible answers: ", "; ".join(named[:MAX_NAMED]), MIN_FACT, MAX_VALUE, "", "…"))
    return lines


def _text_in(value: object) -> str:
    """Return what somebody said to whoever goes on: a text, or the members of a list or an object that are texts."""
    if isinstance(value, dict):
        return "; ".join([f"{name}: {text}" for name, one in value.items() if (text := said(one))])
    if isinstance(value, list):
        return "; ".join([text for one in value if (text := said(one))])
    return said(value)


def said(value: object) -> str:
    """Return a member of a state as text; an empty one if it is neither a text nor a usual number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def place_of(point: ResumePoint) -> str:
    """Return a resume point as `phase:step`, or what is known of it."""
    return ":".join([part for part in (point["phase"], point["step"]) if part])


def steps_in_order(lineage: list[tuple[str, dict[str, Any]]]) -> list[WorkflowStep]:
    """Return the steps of all enabled phases; of a phase without steps, the phase alone.

    `lineage` has the path and the object of the workflow, then of each one that it extends. As FABER merges them, what
    comes before a phase's steps is inherited, the oldest ancestor's first; the steps are the workflow's own alone; what
    comes after them is inherited, too, the oldest ancestor's last. A step that the workflow skips is not there.
    """
    path, own = lineage[0]
    phases = [(where, _phases_of(config)) for where, config in lineage]
    ordered = dict.fromkeys([*PHASES, *[name for _, of_config in phases for name in of_config]])
    gated = _gated_phases([config for _, config in lineage])
    listed = own.get("skip_steps")
    skipped = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    in_order: list[WorkflowStep] = []
    for phase in ordered:
        defined = [(where, of_config[phase]) for where, of_config in phases if phase in of_config]
        nearest: dict[str, Any] = {}
        for _, held in reversed(defined):
            nearest |= held
        if not defined or nearest.get("enabled") is False:
            continue
        lists = [(where, held.get("pre_steps")) for where, held in reversed(defined)]
        lists.append((path, phases[0][1].get(phase, {}).get("steps")))
        lists += [(where, held.get("post_steps")) for where, held in defined]
        steps: dict[str | None, WorkflowStep] = {}
        for step in _read_steps(lists, phase):
            if step["name"] not in skipped:
                steps.setdefault(step["name"], step)
        does = nearest.get("description")
        alone: WorkflowStep = {
            "phase": phase,
            "name": None,
            "does": does if isinstance(does, str) else "",
            "path": path,
            "is_gated": False,
        }
        is_gated = phase in gated or nearest.get("require_approval") is True
        in_order += [{**step, "is_gated": is_gated} for step in steps.values() or [alone]]
    return in_order


def _read_steps(lists: list[tuple[str, Any]], phase: str) -> list[WorkflowStep]:
    """Return the steps in lists of one phase, each with the path where it stands."""
    steps: list[WorkflowStep] = []
    for path, listed in lists:
        for raw in listed if isinstance(listed, list) else []:
            name, does = raw, ""
            if isinstance(raw, dict):
                texts = {key: value.strip() for key, value in raw.items() if isinstance(value, str)}
                name, does = texts.get("id") or texts.get("name") or None, _describe_step(texts)
            if isinstance(name, str):
                steps.append({"phase": phase, "name": name, "does": does, "path": path, "is_gated": False})
    return steps


def _describe_step(texts: dict[str, str]) -> str:
    """Return a step's prompt, which counts before its command and its skill, with its context; else its description.

    A command alone says little: the description stands before it.
    """
    described = texts.get("description") or texts.get("name") or ""
    command = texts.get("prompt") or texts.get("command") or texts.get("skill")
    if not command:
        return described
    more = texts.get("context")
    is_worded = " " in command and not command.startswith("/")
    said = command if is_worded or not described else f"{described}: {command}"
    return f"{said} ({more})" if more else said


def _gated_phases(configs: list[dict[str, Any]]) -> set[str]:
    """Return the phases that the nearest `autonomy` with such a list wants approved."""
    for config in configs:
        autonomy = config.get("autonomy")
        named = autonomy.get("require_approval_for") if isinstance(autonomy, dict) else None
        if isinstance(named, list):
            return {name for name in named if isinstance(name, str)}
    return set()


def _phases_of(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    held = config.get("phases")
    return {key: value for key, value in held.items() if isinstance(value, dict)} if isinstance(held, dict) else {}


def has_branch(root: str, name: str) -> bool:
    """Return whether a clone has a branch, its own or a remote's, by git's own files.

    Where git keeps its references in tables, or has very many, that is unknown, and it counts as there.
    """
    tree = work_tree_of(root)
    if tree is None or os.path.isdir(os.path.join(tree.common, "reftable")):
        return True
    remotes = os.path.join(tree.common, "refs", "remotes")
    packed = packed_refs(tree.common)
    named = [line.partition(b" ")[2] for line in packed.splitlines()]
    of_remote = [ref.split(b"/", 3)[3] for ref in named if ref.startswith(b"refs/remotes/") and ref.count(b"/") > 2]
    if len(packed) == LIMIT or os.fsencode(f"refs/heads/{name}") in named or os.fsencode(name) in of_remote:
        return True
    try:
        loose = os.listdir(remotes)
    except OSError:
        loose = []
    places = [os.path.join(tree.common, "refs", "heads"), *[os.path.join(remotes, remote) for remote in loose]]
    return any([os.path.isfile(os.path.join(place, name)) for place in places])


MAX_LETTERS = 8_000  # of a note
NEWEST_NOTES = 5
NOTES_HEAD = "\nNotes for whoever goes on, newest first:\n"
MAX_WHERE, MIN_NOTE = 80, 80
COMPACTIONS_READ = 64  # a session's start must not read more the longer a run gets


def note_recorded(
    text: str, kind: Literal["note", "summary"], session_id: str | None, progress: Snapshot
) -> NoteRecorded:
    """Return the event that records a note; raises NoteTooLong."""
    if len(text) > MAX_LETTERS:
        from faber_ledger.ledger.command_errors import NoteTooLong  # hooks record no notes

        raise NoteTooLong(
            f"the note has {len(text):,} letters; the limit is {MAX_LETTERS:,}",
            hint="shorten it, or put the long text into a file and name the file in the note",
        )
    note: NoteRecorded = {
        "type": "note_recorded",
        "kind": kind,
        "text": text,
        "phase": progress["phase"],
        "step": progress["step"],
    }
    if session_id is not None:
        note["session_id"] = session_id
    return note


def notes_of(log: Log) -> tuple[list[Note], int]:
    """Return a run's newest notes, newest first, and how many others were read.

    The newest hundred are read, or fewer if very long ones are among them. Notes whose whole text was redacted come
    last: they must not take the places of notes that say something. The newest summary is always included.
    """
    notes: list[Note] = []
    for recorded in log.newest_notes():
        event = recorded["event"]
        if event["type"] == "note_recorded" and is_foldable(recorded):
            notes.append(
                {
                    "seq": recorded["seq"],
                    "event_id": recorded["id"],
                    "at": recorded["at"],
                    "kind": event["kind"],
                    "text": event["text"],
                    "phase": event.get("phase"),
                    "step": event.get("step"),
                }
            )
            if "redacted" in recorded:
                notes[-1]["redacted"] = True
    notes.sort(key=_is_empty)
    kept = notes[:NEWEST_NOTES]
    summaries = [note for note in notes if note["kind"] == "summary"]
    if summaries and summaries[0] not in kept:
        kept[-1] = summaries[0]
    return kept, len(notes) - len(kept)


def _is_empty(note: Note) -> bool:
    return "redacted" in note and note["text"] == REDACTED


def words_of_note(note: Note) -> str:
    """Return a note's text, with a mark if only a redaction says what it was."""
    return f"{NOT_CHECKABLE} {note['text']}" if "redacted" in note else note["text"]


def newest_notes(log: Log) -> list[Remembered]:
    """Return the newest notes of a run, newest first, and a last entry that counts the others."""
    notes, others = notes_of(log)
    remembered: list[Remembered] = [
        {
            "text": words_of_note(note),
            "phase": note["phase"],
            "step": note["step"],
            "kind": note["kind"],
            "event_id": note["event_id"],
        }
        for note in notes
    ]
    if others:
        more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
        remembered.append({"text": f"… and {others} more: {more}", "phase": None, "step": None})
    return remembered


def render_notes(notes: list[Remembered], room: int) -> tuple[str, list[Remembered]]:
    """Return the newest notes in at most `room` units, and those that have no room there.

    The newest is cut if it has no room as a whole: then the others begin with the rest of it.
    """
    text = ""
    for at, note in enumerate(notes):
        head = f"{text or NOTES_HEAD}- {origin_of(note)}"
        body = indent(note["text"])
        if units(f"{head}{body}\n") <= room:
            text = f"{head}{body}\n"
            continue
        mark = mark_of_cut(note)
        cut = clip(body, room - units(head) - 1, mark) if not at else ""
        if len(cut) - len(mark) < MIN_NOTE:
            return text, notes[at:]
        rest: Remembered = {**note, "text": f"…{body[len(cut) - len(mark) :]}"}
        return f"{head}{cut}\n", [rest, *notes[1:]]
    return text, []


def mark_of_cut(text: Remembered) -> str:
    """Return the mark of a cut text, with the file or the command that has the whole."""
    if "path" in text:
        return f"… (whole: {one_line(text['path'])})"
    return f"… (whole: `faber-ledger show {text['event_id']}`)" if is_event_id(text.get("event_id", "")) else "…"


def origin_of(text: Remembered) -> str:
    """Return where a run stood when a text was recorded, in parentheses; empty if that is not known."""
    place = ":".join([part for part in (text["phase"], text["step"]) if part])
    if text.get("kind") == "summary":
        place = f"summary at {place}" if place else "summary"
    return f"({one_line(place, MAX_WHERE)}) " if place else ""


def indent(text: str) -> str:
    """Return a text of several lines as one item of a list."""
    return text.strip().replace("\t", " ").replace("\n", "\n  ")


def summary_for(log: Log, client: str | None, source: str, keeper: Run | None) -> Remembered | None:
    """Return the newest summary that another client recorded before this client's first session on the run, or None.

    So a conversation gets what it has never seen, and always the same. Only the newest 64 compactions of others before
    that session are read. `source` is that of the session about to start: None is returned for a fork, which has seen
    what it was forked from, and for a client without an id. `keeper` is the run if its summaries stay in this clone:
    they are then read from beside its log.
    """
    if client is None:
        return None
    first = log.first_start_of(client)
    if first is not None and first["event"]["type"] == "session_started":
        source = first["event"]["source"]
    if source == "fork":
        return None
    found = summaries_of(log, keeper, not_by=client, before=first)
    return next((summary for _, summary in found), None)


def summaries_of(
    log: Log, keeper: Run | None, *, not_by: str = "", before: Recorded | None = None
) -> Iterator[tuple[Recorded, Remembered]]:
    """Yield the summaries of a run's newest 64 compactions with their events, newest first, without subagents' own.

    Those of one client, and those after the event `before`, are left out. `keeper` as in `summary_for`.
    """
    kept: dict[str, str] | None = None
    for recorded in islice(log.compactions(not_by=not_by, before=before), COMPACTIONS_READ):
        values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
        if "redacted" in recorded or values.get("agent_id", "") is not None:  # or a subagent's
            continue
        summary = _remembered(recorded, values.get("summary"))
        if summary is None and keeper is not None:
            if kept is None:
                from faber_ledger.runs.kept_summaries import read_summary, summary_paths

                kept = summary_paths(keeper)
            path = kept.get(recorded["id"])
            summary = _remembered(recorded, read_summary(path)) if path else None
            if summary is not None and path:
                summary["path"] = os.path.relpath(path, keeper.root).replace(os.sep, "/")
        if summary is not None:
            yield recorded, summary


def describe_break(log: Log, client: str | None) -> str | None:
    """Return a sentence if the last session before this client's first one had no end by then; None otherwise.

    So each start of a conversation gets the same text.
    """
    first = log.first_start_of(client) if client is not None else None
    start = log.last_start(before=first) if client is not None else None
    if start is None or start["client"] == client:
        return None
    ended = log.end_after(start, before=first)
    if ended is not None and dict(ended["event"]).get("reason") != "abandoned":
        return None
    return (
        "The session before this conversation broke off, or is still open: "
        "look first (`git status`, `git log`) whether its step is half done."
    )


def _remembered(recorded: Recorded, text: object) -> Remembered | None:
    """Return a text with the phase and step that its event names; None if it is not a text."""
    values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
    phase, step = values.get("phase"), values.get("step")
    if not (isinstance(text, str) and text.strip()):
        return None
    return {
        "text": text,
        "phase": phase if isinstance(phase, str) else None,
        "step": step if isinstance(step, str) else None,
        "event_id": recorded["id"],
    }
