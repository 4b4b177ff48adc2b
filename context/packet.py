"""The packet, the text that a session start gives the agent: the position, then what else it must know, bounded.

The same state, artifacts and log give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be added to the conversation again each time, and stay there.
"""

from __future__ import annotations

from faber_ledger.context.messages import kilobytes
from faber_ledger.files.text import clip, cut_middle, one_line, plain, shares, units
from faber_ledger.runs.progress import current_phase, current_step, phases_completed, resume_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NotRequired, TypedDict

    class Part(TypedDict):
        """An artifact to give. `deferred` asks the agent to run something for a content that is not there yet."""

        artifact_id: str
        description: str
        source: str
        size_bytes: int
        content: str
        required: bool
        deferred: NotRequired[str | None]

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

    Given = Literal["inline", "outline", "pointer", "deferred"]

COMMAND_BUDGET = 25_000
PROBLEMS_SHARE, INDEX_SHARE, NOTES_SHARE, SUMMARY_SHARE = 0.15, 0.4, 0.15, 0.35
MAX_PROBLEM, SHORT_PROBLEM, MAX_NAME = 700, 160, 80
MIN_OUTLINE, MIN_BODY, MIN_NOTE = 900, 100, 80  # a shorter outline, content or note says nothing
MAX_OUTLINED = 250_000  # characters that all outlines of a packet together read, since reading takes time
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
    notes: list[Remembered] | None = None,
    summary: Remembered | None = None,
    not_loaded: list[str] | None = None,
    elsewhere: str | None = None,
) -> tuple[str, dict[str, Given]]:
    """Return a packet of at most `budget` UTF-16 units, and how it gives each artifact.

    Problems come first, then the position with a sentence about the run `elsewhere`, a list of the artifacts with their
    paths (and the lines about those that were `not_loaded`), `notes` (newest first), another conversation's `summary`,
    and then each artifact in the order of `parts`: whole, or its outline if it is longer than a fair share of the room.
    Room that the artifacts leave free goes to notes and summary. The text has no control character, whatever the
    repository contains.
    """
    head = _problems_text(problems, int(budget * PROBLEMS_SHARE)) + "\n".join(position(run_id, state)) + "\n"
    head += f"\n{elsewhere}\n" if elsewhere else ""
    head = clip(head, budget, "… (more was cut)\n")
    left = budget - units(head)
    others = not_loaded or []
    listed = _count_listed(parts, others, int(left * INDEX_SHARE))
    room = left - units(clip(_index(parts, others, listed, {}), left))
    notes_text = _notes_text(notes or [], min(room, int(budget * NOTES_SHARE)))
    summary_text = _summary_text(summary, min(room - units(notes_text), int(budget * SUMMARY_SHARE)))
    bodies, given = _bodies(parts, room - units(notes_text) - units(summary_text))
    free = room - units(notes_text) - units(summary_text) - units(bodies)
    wanted = [
        units(_notes_text(notes or [], room)) - units(notes_text),
        units(_summary_text(summary, room)) - units(summary_text),
    ]
    for_notes, for_summary = shares([max(more, 0) for more in wanted], free)
    notes_text = _notes_text(notes or [], units(notes_text) + for_notes)
    summary_text = _summary_text(summary, units(summary_text) + for_summary)
    return plain(head + clip(_index(parts, others, listed, given), left) + notes_text + summary_text + bodies), given


def position(run_id: str, state: dict[str, Any]) -> list[str]:
    """Return lines that say where the run stands, as plain facts."""
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
    """Return the problems: the first ones whole, further ones in a line each, and the number of the rest."""
    texts: list[str] = []
    for problem in problems:
        lines = [one_line(line) for line in problem.split("\n")]
        whole = clip("\n".join(lines), MAX_PROBLEM) + "\n\n"
        left = room - SHORT_PROBLEM * (len(problems) - len(texts) - 1)
        text = whole if not texts or units(whole) <= left else one_line(problem, SHORT_PROBLEM) + "\n\n"
        if texts and units(text) > room:
            texts.append(
                f"… and {len(problems) - len(texts)} more: `faber-ledger session-load --dry-run` shows them\n\n"
            )
            break
        texts.append(text)
        room -= units(text)
    return "".join(texts)


def _count_listed(parts: list[Part], others: list[str], room: int) -> int:
    """Return how many lines the list has room for; the artifacts that were not loaded are at its end."""
    room -= units(INDEX_HEAD) + ROOM_FOR_MORE
    lines = _index_lines(parts, others, {})  # with the longest words possible
    for count, line in enumerate(lines):
        room -= units(line)
        if room < 0:
            return count
    return len(lines)


def _index(parts: list[Part], others: list[str], listed: int, given: dict[str, Given]) -> str:
    """Return the list of artifacts, with how each is given and where it is; those without room are counted."""
    lines = _index_lines(parts, others, given)
    if listed < len(lines):
        required = sum([part["required"] for part in parts[listed:]])
        lines[listed:] = [f"… and {len(lines) - listed} more, {required} of them required\n"]
    return "".join([INDEX_HEAD, *lines]) if lines else ""


def _index_lines(parts: list[Part], others: list[str], given: dict[str, Given]) -> list[str]:
    lines = [_index_line(part, given.get(part["artifact_id"], "pointer")) for part in parts]
    return [*lines, *[f"- {line}\n" for line in others]]


def _index_line(part: Part, given: Given) -> str:
    name = one_line(part["artifact_id"], MAX_NAME) + (" (required)" if part["required"] else "")
    if part.get("deferred"):
        return f"- {name}: deferred; {one_line(part['deferred'])}\n"
    place = f"{one_line(part['source'])} ({kilobytes(part['size_bytes'])})"
    return f"- {name}: {IN_WORDS[given]}, {place}\n"


def _notes_text(notes: list[Remembered], room: int) -> str:
    """Return the notes, newest first, each with a fair share of the room."""
    texts = [f"- {_origin(note)}{_indent(note['text'])}" for note in notes]
    left = room - units(NOTES_HEAD) - len(texts)
    limits = shares([units(text) for text in texts], left)
    if not texts or min(limits) < min(MIN_NOTE, *map(units, texts)):
        return NOTES_LEFT_OUT if texts and units(NOTES_LEFT_OUT) <= room else ""
    cut = [clip(text, limit, _more(note)) for note, text, limit in zip(notes, texts, limits, strict=True)]
    return NOTES_HEAD + "".join([f"{text}\n" for text in cut])


def _summary_text(summary: Remembered | None, room: int) -> str:
    if summary is None:
        return ""
    head = "\n## What another conversation on this run came to\n\n"
    head += f"{_origin(summary).strip()}\n\n" if _origin(summary) else ""
    quoted = "\n> ".join(summary["text"].strip().splitlines())  # so that its headings are not the packet's
    text = cut_middle(f"> {quoted}", room - units(head) - 1, f"\n{_more(summary).strip()}\n> ")
    return f"{head}{text}\n" if text else ""


def _more(text: Remembered) -> str:
    """Return the mark of a cut text, with the file or the command that has the whole."""
    if "path" in text:
        return f"… (whole: {one_line(text['path'])})"
    return f"… (whole: `faber-ledger show {text['event_id']}`)" if "event_id" in text else "…"


def _origin(text: Remembered) -> str:
    place = ":".join([part for part in (text["phase"], text["step"]) if part])
    if text.get("kind") == "summary":
        place = f"summary at {place}" if place else "summary"
    return f"({one_line(place, MAX_NAME)}) " if place else ""


def _indent(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _bodies(parts: list[Part], room: int) -> tuple[str, dict[str, Given]]:
    """Return the artifacts' contents and how each is given: whole if it fits its fair share of the room, else outlined.

    If the shares would be too small to say anything, the least important artifacts are not shown.
    """
    given: dict[str, Given] = {part["artifact_id"]: "deferred" if part.get("deferred") else "pointer" for part in parts}
    shown = [part for part in parts if not part.get("deferred")][: max(room, 0) // MIN_BODY]
    wanted = [_wanted(part, room) for part in shown]
    limits = shares(wanted, room)
    while any([limit < min(MIN_OUTLINE, whole) for whole, limit in zip(wanted, limits, strict=True)]):
        cut = [at for at, whole in enumerate(wanted) if limits[at] < whole][-1]
        del shown[cut], wanted[cut]
        limits = shares(wanted, room)
    looks = shares([len(part["content"]) for part in shown], MAX_OUTLINED)
    bodies = []
    left = 0
    for part, whole, limit, look in zip(shown, wanted, limits, looks, strict=True):
        fits = whole <= limit + left
        body = _whole(part) if fits else _outline_of(part, limit + left, look)
        given[part["artifact_id"]] = "inline" if fits else "outline"
        left += limit - units(body)
        bodies.append(body)
    return "".join(bodies), given


def _wanted(part: Part, room: int) -> int:
    """Return the units of a whole artifact, or its characters, which are never more, if these alone do not fit."""
    whole = _whole(part)
    return len(whole) if len(whole) > room else units(whole)


def _whole(part: Part) -> str:
    return f"{_title(part)}\n{part['content'].rstrip()}\n"


def _outline_of(part: Part, room: int, look: int) -> str:
    from faber_ledger.context.outline import outline  # most packets need none

    head = f"{_title(part)}Outline with parts of the text; the whole stands in {one_line(part['source'])}\n\n"
    text = outline(part["content"], room - units(head) - 1, look).rstrip()
    return f"{head}{text}\n"


def _title(part: Part) -> str:
    return f"\n## {one_line(part['artifact_id'], MAX_NAME)} - {one_line(part['description'])}\n"
