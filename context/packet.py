"""What the agent is given at a session's start: the position, then what else it must know, in a bounded text.

The same state, artifacts and log give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be put into the conversation anew each time, and stay there.
"""

from __future__ import annotations

from faber_ledger.context.messages import kilobytes
from faber_ledger.files.text import clip, cut_middle, one_line, plain, shares, units
from faber_ledger.runs.progress import current_phase, current_step, phases_completed, resume_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NotRequired, TypedDict

    class Part(TypedDict):
        """An artifact to give. `deferred` is what the agent is asked to do for a content that is not there yet."""

        artifact_id: str
        description: str
        source: str
        size_bytes: int
        content: str
        required: bool
        deferred: NotRequired[str | None]

    class Told(TypedDict):
        """What was written down for later, in which phase and step, and whether it is a note or a summary.

        `event_id` is its event's, by which the whole is shown: a merge may give several events one seq. One that is
        kept in a file has its `path`.
        """

        text: str
        phase: str | None
        step: str | None
        kind: NotRequired[str]
        event_id: NotRequired[str]
        path: NotRequired[str]

    Given = Literal["inline", "outline", "pointer", "deferred"]

COMMAND_BUDGET = 25_000
PROBLEMS_SHARE, INDEX_SHARE, NOTES_SHARE, SUMMARY_SHARE = 0.15, 0.4, 0.15, 0.35
LONGEST_PROBLEM, SHORT_PROBLEM, LONGEST_NAME = 700, 160, 80
LEAST_OUTLINE, LEAST_BODY, LEAST_NOTE = 900, 100, 80  # with less an outline, a content or a note says nothing
MOST_OUTLINED = 250_000  # characters that all outlines of a packet look at: to read them takes time
ROOM_FOR_MORE = 60
INDEX_HEAD = "\nArtifacts (what is not whole below is read where it stands):\n"
NOTES_HEAD = "\n## Notes for whoever goes on, newest first\n\n"
NOTES_LEFT_OUT = "\nNotes have no room here: `faber-ledger log --type note_recorded` lists them.\n"
IN_WORDS = {"inline": "whole", "outline": "outline", "pointer": "not shown", "deferred": "deferred"}


def pack(
    run_id: str,
    state: dict[str, Any],
    parts: list[Part],
    problems: list[str],
    *,
    budget: int,
    notes: list[Told] | None = None,
    summary: Told | None = None,
    not_loaded: list[str] | None = None,
) -> tuple[str, dict[str, Given]]:
    """Pack position and artifacts into at most `budget` UTF-16 units, and tell how each artifact was given.

    What is missing comes first, then the position, a list of the artifacts with their paths (and the lines of those
    that were `not_loaded`), `notes` (newest first), another conversation's `summary`, and then each artifact in the
    order given: whole, or its outline where a fair share of the room does not hold it. What the artifacts leave free
    goes to notes and summary. Whatever a repository brought, the text holds no control character.
    """
    head = _problems_text(problems, int(budget * PROBLEMS_SHARE)) + "\n".join(position(run_id, state)) + "\n"
    head = clip(head, budget, "… (more was cut)\n")
    left = budget - units(head)
    others = not_loaded or []
    listed = _listed(parts, others, int(left * INDEX_SHARE))
    room = left - units(clip(_index(parts, others, listed, {}), left))
    noted = _notes_text(notes or [], min(room, int(budget * NOTES_SHARE)))
    told = _summary_text(summary, min(room - units(noted), int(budget * SUMMARY_SHARE)))
    bodies, given = _bodies(parts, room - units(noted) - units(told))
    free = room - units(noted) - units(told) - units(bodies)
    wanted = [units(_notes_text(notes or [], room)) - units(noted), units(_summary_text(summary, room)) - units(told)]
    for_notes, for_summary = shares([max(more, 0) for more in wanted], free)
    noted = _notes_text(notes or [], units(noted) + for_notes)
    told = _summary_text(summary, units(told) + for_summary)
    return plain(head + clip(_index(parts, others, listed, given), left) + noted + told + bodies), given


def position(run_id: str, state: dict[str, Any]) -> list[str]:
    """Say where the run stands, as plain facts."""
    point = resume_point(state)
    completed = phases_completed(state)
    facts = [
        ("Work item", state.get("work_id")),
        ("Target", state.get("target")),
        ("Workflow", state.get("workflow_id")),
        ("Status", state.get("status")),
        ("Phase", current_phase(state)),
        ("Step", current_step(state)),
        ("Phases completed", ", ".join(completed)),
        ("Resume point", _point(point) if point else None),
    ]
    return [
        f"# FABER run {one_line(run_id)}",
        "",
        *[one_line(f"{name}: {value}", 200) for name, value in facts if value not in (None, "")],
    ]


def _point(point: Any) -> str:
    place = ":".join([part for part in (point["phase"], point["step"]) if part])
    return f"{place or 'unknown'} ({point['mode']})"


def _problems_text(problems: list[str], room: int) -> str:
    """Give the problems, the first ones whole, then in a line each, and count the others."""
    told: list[str] = []
    for problem in problems:
        lines = [one_line(line) for line in problem.split("\n")]
        whole = clip("\n".join(lines), LONGEST_PROBLEM) + "\n\n"
        left = room - SHORT_PROBLEM * (len(problems) - len(told) - 1)
        text = whole if not told or units(whole) <= left else one_line(problem, SHORT_PROBLEM) + "\n\n"
        if told and units(text) > room:
            told.append(f"… and {len(problems) - len(told)} more: `faber-ledger session-load --dry-run` tells them\n\n")
            break
        told.append(text)
        room -= units(text)
    return "".join(told)


def _listed(parts: list[Part], others: list[str], room: int) -> int:
    """Tell how many artifacts the list has room for, those that were not loaded at its end."""
    room -= units(INDEX_HEAD) + ROOM_FOR_MORE
    lines = _index_lines(parts, others, {})  # in the longest words that they can have
    for count, line in enumerate(lines):
        room -= units(line)
        if room < 0:
            return count
    return len(lines)


def _index(parts: list[Part], others: list[str], listed: int, given: dict[str, Given]) -> str:
    """List the artifacts, how each is given and where it stands; those without room are counted."""
    lines = _index_lines(parts, others, given)
    if listed < len(lines):
        required = sum([part["required"] for part in parts[listed:]])
        lines[listed:] = [f"… and {len(lines) - listed} more, {required} of them required\n"]
    return "".join([INDEX_HEAD, *lines]) if lines else ""


def _index_lines(parts: list[Part], others: list[str], given: dict[str, Given]) -> list[str]:
    lines = [_index_line(part, given.get(part["artifact_id"], "pointer")) for part in parts]
    return [*lines, *[f"- {line}\n" for line in others]]


def _index_line(part: Part, given: Given) -> str:
    name = one_line(part["artifact_id"], LONGEST_NAME) + (" (required)" if part["required"] else "")
    if part.get("deferred"):
        return f"- {name}: deferred; {one_line(part['deferred'])}\n"
    place = f"{one_line(part['source'])} ({kilobytes(part['size_bytes'])})"
    return f"- {name}: {IN_WORDS[given]}, {place}\n"


def _notes_text(notes: list[Told], room: int) -> str:
    """Give notes, newest first, each a fair share of the room."""
    texts = [f"- {_origin(note)}{_indented(note['text'])}" for note in notes]
    left = room - units(NOTES_HEAD) - len(texts)
    limits = shares([units(text) for text in texts], left)
    if not texts or min(limits) < min(LEAST_NOTE, *map(units, texts)):
        return NOTES_LEFT_OUT if texts and units(NOTES_LEFT_OUT) <= room else ""
    cut = [clip(text, limit, _more(note)) for note, text, limit in zip(notes, texts, limits, strict=True)]
    return NOTES_HEAD + "".join([f"{text}\n" for text in cut])


def _summary_text(summary: Told | None, room: int) -> str:
    if summary is None:
        return ""
    head = "\n## What another conversation on this run came to\n\n"
    head += f"{_origin(summary).strip()}\n\n" if _origin(summary) else ""
    quoted = "\n> ".join(summary["text"].strip().splitlines())  # its headings are none of the packet's
    text = cut_middle(f"> {quoted}", room - units(head) - 1, f"\n{_more(summary).strip()}\n> ")
    return f"{head}{text}\n" if text else ""


def _more(told: Told) -> str:
    """Mark what was cut, and name the command that shows the whole, or the file that holds it."""
    if "path" in told:
        return f"… (whole: {one_line(told['path'])})"
    return f"… (whole: `faber-ledger show {told['event_id']}`)" if "event_id" in told else "…"


def _origin(told: Told) -> str:
    place = ":".join([part for part in (told["phase"], told["step"]) if part])
    if told.get("kind") == "summary":
        place = f"summary at {place}" if place else "summary"
    return f"({one_line(place, LONGEST_NAME)}) " if place else ""


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _bodies(parts: list[Part], room: int) -> tuple[str, dict[str, Given]]:
    """Give the artifacts' contents, and how each was given: whole within its fair share, else its outline.

    Where a share would be too small to say anything, the least important go without.
    """
    given: dict[str, Given] = {part["artifact_id"]: "deferred" if part.get("deferred") else "pointer" for part in parts}
    shown = [part for part in parts if not part.get("deferred")][: max(room, 0) // LEAST_BODY]
    wanted = [_wanted(part, room) for part in shown]
    limits = shares(wanted, room)
    while any([limit < min(LEAST_OUTLINE, whole) for whole, limit in zip(wanted, limits, strict=True)]):
        cut = [at for at, whole in enumerate(wanted) if limits[at] < whole][-1]
        del shown[cut], wanted[cut]
        limits = shares(wanted, room)
    looks = shares([len(part["content"]) for part in shown], MOST_OUTLINED)
    bodies = []
    left = 0
    for part, whole, limit, look in zip(shown, wanted, limits, looks, strict=True):
        fits = whole <= limit + left
        body = _whole(part) if fits else _outlined(part, limit + left, look)
        given[part["artifact_id"]] = "inline" if fits else "outline"
        left += limit - units(body)
        bodies.append(body)
    return "".join(bodies), given


def _wanted(part: Part, room: int) -> int:
    """Count the units of a whole artifact; of one that cannot fit its characters are enough, which are no more."""
    whole = _whole(part)
    return len(whole) if len(whole) > room else units(whole)


def _whole(part: Part) -> str:
    return f"{_title(part)}\n{part['content'].rstrip()}\n"


def _outlined(part: Part, room: int, look: int) -> str:
    from faber_ledger.context.outline import outline  # most packets hold all whole

    head = f"{_title(part)}Outline with parts of the text; the whole stands in {one_line(part['source'])}\n\n"
    text = outline(part["content"], room - units(head) - 1, look).rstrip()
    return f"{head}{text}\n"


def _title(part: Part) -> str:
    return f"\n## {one_line(part['artifact_id'], LONGEST_NAME)} - {one_line(part['description'])}\n"
