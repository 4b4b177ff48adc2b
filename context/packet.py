"""The packet, the text that a session start gives the agent: the position, then what else it must know, bounded.

The same state, artifacts and log give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be added to the conversation again each time, and stay there.
"""

from __future__ import annotations

import os

from faber_ledger.context.artifacts import MARK, MAX_READING, Artifacts
from faber_ledger.context.notes import indent, mark_of_cut, origin_of
from faber_ledger.files.text import clip, cut_middle, one_line, plain, quote_lines, shares, units
from faber_ledger.runs.run import CONSOLIDATED, EVENTS, SUMMARIES, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.artifacts import Given, Part
    from faber_ledger.context.notes import Remembered
    from faber_ledger.context.position import Position
    from faber_ledger.runs.run import Run

COMMAND_BUDGET = 25_000
PROBLEMS_SHARE, NOTES_SHARE, SUMMARY_SHARE = 0.15, 0.15, 0.35
ERROR = "❌"  # with it, a problem stops the work; a warning does not
MAX_PROBLEM, SHORT_PROBLEM = 700, 160
SEEN = 2_000  # units at the packet's beginning, in which errors, position and what to read stand
MIN_NOTE = 80  # a shorter note says nothing
MIN_BUDGET = 600  # units: with less, only the position and the end stand there
NOTES_HEAD = "\n## Other notes, newest first\n\n"
NOTES_LEFT_OUT = "\nNotes have no room here: `faber-ledger log --type note_recorded` lists them.\n"
FETCH = "/fractary-work:issue-fetch"
MAX_PATH = 160
END = f"\n{MARK} end of the FABER context\n"


def pack(
    position: Position,
    parts: list[Part],
    problems: list[str],
    *,
    budget: int,
    state: dict[str, Any] | None = None,
    notes: list[Remembered] | None = None,
    summary: Remembered | None = None,
    not_loaded: list[str] | None = None,
    also: list[str] | None = None,
    last_line: str = "",
) -> tuple[str, dict[str, Given]]:
    """Return a packet of at most `budget` UTF-16 units, and how it gives each artifact; none that it does not name.

    Errors among the `problems` come first, then the position and what to read now, warnings, the run's `state`, a list
    of the artifacts that are not here (with the lines about those that were `not_loaded`), `notes` (newest first),
    another conversation's `summary`, each artifact in the order of `parts`, what is `also` there, `last_line`, and a
    line that ends the packet. Room that the artifacts leave free goes to notes and summary. The text has no control
    character, whatever the repository contains.
    """
    end = _also_text(also or [], budget // 8) + last_line + END if budget > MIN_BUDGET else END
    most = budget - units(end)
    for_errors = min(int(budget * PROBLEMS_SHARE), SEEN - MAX_READING - units(position["text"]))
    errors = _problems_text([one for one in problems if one.startswith(ERROR)], for_errors)
    head = errors + position["text"]
    kept = clip(head, most - (min(MAX_READING, most // 4) if parts else 0), "… (more was cut)\n")
    for_warnings = max(min(int(budget * PROBLEMS_SHARE) - units(errors), most - units(kept) - MAX_READING), 0)
    found = _problems_text([one for one in problems if not one.startswith(ERROR)], for_warnings)
    warnings = clip(f"\n{found.rstrip()}\n", for_warnings, "…\n") if found else ""
    room = most - units(kept) - units(warnings)
    notes_text = _notes_text(notes or [], min(room, int(budget * NOTES_SHARE)))
    summary_text = _summary_text(summary, min(room - units(notes_text), int(budget * SUMMARY_SHARE)))
    left = room - units(notes_text) - units(summary_text)
    keys_shown = position["keys_shown"] if kept == head else frozenset()
    artifacts = Artifacts(parts, not_loaded or [], state or {}, keys_shown, kept)
    artifacts.fill(left)
    free = left - artifacts.units
    wanted = [
        units(_notes_text(notes or [], room)) - units(notes_text),
        units(_summary_text(summary, room)) - units(summary_text),
    ]
    for_notes, for_summary = shares([max(more, 0) for more in wanted], free)
    notes_text = _notes_text(notes or [], units(notes_text) + for_notes)
    summary_text = _summary_text(summary, units(summary_text) + for_summary)
    body = f"{artifacts.state}{artifacts.listed}{notes_text}{summary_text}{artifacts.bodies}"
    text = f"{kept}{artifacts.reading}{warnings}{body}{end}"
    return plain(clip(text, budget)), artifacts.given


def list_more(run: Run, state: dict[str, Any], parts: list[Part], budget: int) -> list[str]:
    """Return what else there is of a run, the most useful first, each with the command or folder that has it.

    `parts` are what the packet has, in at most `budget` units.
    """
    more = ["`faber-ledger reconstitute` (all that is known)", "`faber-ledger log` (events)"]
    more.append("`faber-ledger replay` (earlier sessions, other conversations)")
    if sum([len(part["content"]) for part in parts]) > budget:
        more.append("`faber-ledger session-load --force --budget 100000` (artifacts whole)")
    for what, name in (("FABER's events", EVENTS), ("FABER's events", CONSOLIDATED), ("session summaries", SUMMARIES)):
        path = os.path.join(run.own_directory, name)
        if os.path.exists(path):
            more.append(f"{one_line(run.shown(path), MAX_PATH)} ({what})")
    work_id = state.get("work_id")
    is_asked = any([FETCH in (part.get("deferred") or "") for part in parts])
    if isinstance(work_id, str) and is_name(work_id) and not is_asked:
        more.append(f"`{FETCH} {work_id}` (issue and comments)")
    return more


def _also_text(also: list[str], room: int) -> str:
    """Return a line with as much as fits of what else there is."""
    for count in range(len(also), 0, -1):
        text = f"\nAlso there: {'; '.join(also[:count])}.\n"
        if units(text) <= room:
            return text
    return ""


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


def _notes_text(notes: list[Remembered], room: int) -> str:
    """Return the notes, newest first, each with a fair share of the room."""
    texts = [f"- {origin_of(note)}{indent(note['text'])}" for note in notes]
    left = room - units(NOTES_HEAD) - len(texts)
    limits = shares([units(text) for text in texts], left)
    if not texts or min(limits) < min(MIN_NOTE, *map(units, texts)):
        return NOTES_LEFT_OUT if texts and units(NOTES_LEFT_OUT) <= room else ""
    cut = [clip(text, limit, mark_of_cut(note)) for note, text, limit in zip(notes, texts, limits, strict=True)]
    return NOTES_HEAD + "".join([f"{text}\n" for text in cut])


def _summary_text(summary: Remembered | None, room: int) -> str:
    if summary is None:
        return ""
    head = "\n## What another conversation on this run came to\n\n"
    head += f"{origin_of(summary).strip()}\n\n" if origin_of(summary) else ""
    quoted = quote_lines(summary["text"].strip().replace("\t", " "))
    text = cut_middle(quoted, room - units(head) - 1, f"\n{mark_of_cut(summary).strip()}\n> ")
    return f"{head}{text}\n" if text else ""
