"""The packet, the text that a session start gives the agent: the position, then what else it must know, bounded.

The same state, artifacts and log give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be added to the conversation again each time, and stay there.

Room goes where the work is: first to what the current phase works from, and to the parts about the current step. The
lines around an artifact, and those of its cuts, begin with a run of `=` that is longer than any at the beginning of a
line of its text, so none can be forged.

The run's state is compact JSON without bookkeeping and the position's facts. The current phase is whole; the others
are their status, the number of their steps and their error. Without room for all of it, each member has a line: the
current phase first, lists from their newest end.
"""

from __future__ import annotations

import os

from faber_ledger.context.position import indent, mark_of_cut, origin_of
from faber_ledger.files.text import clip, cut_middle, one_line, plain, quote_lines, shares, units
from faber_ledger.ledger.encoding import encoder
from faber_ledger.runs.progress import current_phase, current_step, phase_state, phase_states, phase_statuses, value_at
from faber_ledger.runs.run import CONSOLIDATED, EVENTS, SUMMARIES, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NotRequired, TypedDict

    from faber_ledger.context.outline import Span
    from faber_ledger.context.position import Position, Remembered
    from faber_ledger.runs.run import Run

    Given = Literal["inline", "outline", "pointer", "deferred"]

    class Part(TypedDict):
        """An artifact to give.

        `deferred` asks the agent to run something for a content that is not there yet. One that `is_outlined` is given
        as an outline, however much room there is; the run's state has its own form. `is_file` means that the lines of
        the content are those of the file `source`. The user's hint names one that `is_hinted`; the
        workflow lists one that `is_of_phase` for the current phase alone.
        """

        artifact_id: str
        description: str
        source: str
        size_bytes: int
        content: str
        required: bool
        deferred: NotRequired[str | None]
        is_state: NotRequired[bool]
        is_outlined: NotRequired[bool]
        is_file: NotRequired[bool]
        is_hinted: NotRequired[bool]
        is_of_phase: NotRequired[bool]


COMMAND_BUDGET = 25_000
MARK = "====="
END = f"\n{MARK} end of the FABER context\n"
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
    artifacts = Artifacts(parts, not_loaded or [], state or {})
    artifacts.fill(left)
    free = left - artifacts.units
    if notes or summary is not None:
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
    if not notes:
        return ""
    texts = [f"- {origin_of(note)}{indent(note['text'])}" for note in notes]
    left = room - units(NOTES_HEAD) - len(texts)
    limits = shares([units(text) for text in texts], left)
    if min(limits) < min(MIN_NOTE, *map(units, texts)):
        return NOTES_LEFT_OUT if units(NOTES_LEFT_OUT) <= room else ""
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


STATE_SHARE = 0.35  # of the room
REQUIRED_SHARE, OPTIONAL_SHARE = 0.3, 0.08  # of the room, for the list: of required artifacts, and of others
MAX_SHORT = 1_200  # units: a shorter artifact is given whole or not at all
MAX_READING = 400  # units of the sentence that names what to read
MAX_OUTLINED = 250_000  # characters that all outlines of a packet together read, since reading takes time
MAX_STATE = 100_000  # characters of a state that is tried as a whole
ROOM_FOR_MORE = 110
LIST_HEAD = "\nNot in this text:\n"
READING_HEAD = "\nRead these now: "
ALL_LISTED = "`faber-ledger session-load --dry-run` lists them"


class Artifacts:
    """What a packet says of artifacts.

    `state`, `listed`, `reading` (what to read before going on) and `bodies` are texts; `given` says how each artifact
    is given, and has none that is not named.
    """

    def __init__(self, parts: list[Part], not_loaded: list[str], state: dict[str, Any]) -> None:
        """Take the artifacts, lines about those that were not loaded, and the run's state."""
        self._parts = parts
        self._run_state = state
        self._focus = Focus(state)
        self._lines = [_Line(part) for part in parts] + [_Line(None, f"- {line}\n") for line in not_loaded]
        self._lines.sort(key=lambda line: (not line.is_required, not line.is_of_phase, line.name is not None))
        self._wholes: dict[str, str] = {}  # the artifacts that may have room as a whole
        self._to_read: dict[str, list[Span]] = {}  # of each outline, the lines that matter and are missing
        self._for_optional = 0  # units of the list for artifacts that are not required
        self.given: dict[str, Given] = {}
        self.state = self.listed = self.reading = self.bodies = ""

    @property
    def units(self) -> int:
        """The units of all texts."""
        return units(self.state) + units(self.listed) + units(self.reading) + units(self.bodies)

    def fill(self, room: int) -> None:
        """Make the texts, in at most `room` units together."""
        shown = [part for part in self._parts if not (part.get("deferred") or part.get("is_state"))]
        wanted = {part["artifact_id"]: self._count_wanted(part, room) for part in shown}
        self._fill_state(max(int(room * STATE_SHARE), room - sum(wanted.values()) - MAX_READING), room)
        room -= units(self.state)
        self._for_optional = int(max(room, 0) * OPTIONAL_SHARE) + ROOM_FOR_MORE
        shown = self._choose(shown, wanted, room)
        reserved = self._count_listed(shown, room) + self._count_reading(shown, wanted, room)
        self._fill_bodies(shown, wanted, room - reserved)
        room -= units(self.bodies)
        self.reading = self._name_reading(min(room, MAX_READING), " of the list below")
        self.listed = self._list(room - units(self.reading))
        if not self.listed:
            self.reading = self._name_reading(min(room, MAX_READING), f": {ALL_LISTED}")

    def _fill_state(self, most: int, room: int) -> None:
        """Make the text of the run's state, of at most `most` units, if it is among the artifacts."""
        part = next((part for part in self._parts if part.get("is_state")), None)
        if part is None:
            return
        place = one_line(part["source"])
        title, kept = title_of(part), f"{place}, without what stands above, times and versions"
        head = f"\n{title}: whole, {kept}\n"
        cut = f"\n{title}: outline, {kept}; shortened, all of it is in the file\n"
        is_long = len(part["content"]) > MAX_STATE
        left = min(most, room) - units(cut)
        text, is_whole = compact_state(self._run_state, left, is_long=is_long)
        if text:
            self.state = f"{head if is_whole else cut}{text}"
            self.given[part["artifact_id"]] = "inline" if is_whole else "outline"

    def _choose(self, parts: list[Part], wanted: dict[str, int], room: int) -> list[Part]:
        """Return the artifacts that have room, at least for an outline; the least important ones are left out."""
        shown = list(parts)
        least = sum([_least(wanted[part["artifact_id"]]) for part in shown])
        order = sorted(range(len(shown)), key=lambda at: (self._focus.rank(parts[at]), at))
        while shown and least + self._count_listed(shown, room) + self._count_reading(shown, wanted, room) > room:
            part = parts[order.pop()]
            least -= _least(wanted[part["artifact_id"]])
            shown.remove(part)
        return shown

    def _count_listed(self, shown: list[Part], room: int) -> int:
        """Return the units of the list, if these artifacts are shown: all required ones, and a share for others."""
        names = {part["artifact_id"] for part in shown}
        of_kind = {True: 0, False: 0}
        for line in self._lines:
            if line.name not in names and line.name not in self.given:
                of_kind[line.is_required] += line.units
        listed = min(of_kind[True], int(max(room, 0) * REQUIRED_SHARE) + ROOM_FOR_MORE)
        listed += min(of_kind[False], self._for_optional)
        return listed + units(LIST_HEAD) if listed else 0

    def _count_reading(self, shown: list[Part], wanted: dict[str, int], room: int) -> int:
        """Return the units to keep for what is to be read: none if everything has room, or nothing must be read."""
        is_all = len(shown) == len(wanted) and sum(wanted.values()) + self._count_listed(shown, room) <= room
        has_all = is_all and len(self._wholes) == len(shown)
        return 0 if has_all or not any(map(self._must_be_read, self._parts)) else min(MAX_READING, max(room, 0) // 3)

    def _count_wanted(self, part: Part, room: int) -> int:
        """Return the units of a whole artifact, or its characters, which are never more, if these alone do not fit.

        An artifact that is only outlined wants half as many, and not more than a packet has for it.
        """
        if is_only_outlined(part):
            return min(max(len(part["content"]) // 2, MIN_OUTLINE), MAX_SUMMARY)
        if len(part["content"]) > room:
            return len(part["content"])
        self._wholes[part["artifact_id"]] = whole = show_whole(part)
        return units(whole)

    def _must_be_read(self, part: Part) -> bool:
        """Return whether an artifact must be read before going on: a required one, or what the phase works from."""
        if part.get("is_state"):
            return part["required"] and part["artifact_id"] not in self.given
        return part["required"] or self._focus.rank(part) <= 0

    def _fill_bodies(self, shown: list[Part], wanted: dict[str, int], room: int) -> None:
        """Make the artifacts' texts: each whole if it has the room, else as an outline."""
        sizes = [wanted[part["artifact_id"]] for part in shown]
        limits = share_by_rank(
            sizes, [self._focus.rank(part) for part in shown], room, [_least(size) for size in sizes]
        )
        looks = shares([len(part["content"]) for part in shown], MAX_OUTLINED)
        bodies = []
        left = 0
        for part, size, limit, look in zip(shown, sizes, limits, looks, strict=True):
            name = part["artifact_id"]
            room = limit + left
            body = self._wholes.get(name, "") if size <= room else ""
            if body:
                self.given[name] = "inline"
            else:
                most = min(room, size) if is_only_outlined(part) else room
                body, to_read = show_parts(part, most, look, *self._focus.sections(part))
                if body:
                    self.given[name] = "outline"
                    self._to_read[name] = to_read
            left = room - units(body)
            bodies.append(body)
        self.bodies = "".join(bodies)

    def _name_reading(self, room: int, others: str) -> str:
        """Return a sentence with what to read: of required artifacts, and of what the work is about.

        `others` says where those are named that have no room. Of an outline these are the lines that matter now, if any
        are left out.
        """
        missing = [
            part
            for part in self._parts
            if self.given.get(part["artifact_id"]) != "inline" and not part.get("deferred") and self._must_be_read(part)
        ]
        missing.sort(key=lambda part: not part["required"])
        wanted = [(part, self._to_read.get(part["artifact_id"])) for part in missing]
        readings = [reading_of(part, lines) for part, lines in wanted if lines != []]
        for count in range(len(readings), 0, -1):
            more = f"; and {len(readings) - count} more{others}" if count < len(readings) else ""
            text = f"{READING_HEAD}{'; '.join(readings[:count])}{more}.\n"
            if units(text) <= room:
                return text
        return ""

    def _list(self, room: int) -> str:
        """Return the list of the artifacts that are not shown, required ones first, and note how these are given."""
        lines = [line for line in self._lines if line.name not in self.given]
        left = room - units(LIST_HEAD)
        optional = self._for_optional
        texts = []
        for count, line in enumerate(lines):
            left -= line.units
            optional -= 0 if line.is_required else line.units
            kept = ROOM_FOR_MORE if count + 1 < len(lines) else 0
            if left < kept or optional < kept:
                left += line.units
                required = sum([one.is_required for one in lines[count:]])
                more = f"- … and {len(lines) - count} more, {required} of them required: {ALL_LISTED}\n"
                texts.append(more if units(more) <= left else "")
                break
            texts.append(line.text)
            if line.name is not None:
                self.given[line.name] = line.given
        text = "".join(texts)
        return f"{LIST_HEAD}{text}" if text else ""


def _least(size: int) -> int:
    """Return the units without which an artifact of a size is not shown."""
    return size if size <= MAX_SHORT else MIN_OUTLINE


class _Line:
    """A line of the list, made when it is asked for: most packets show all artifacts."""

    def __init__(self, part: Part | None, text: str = "") -> None:
        self._part = part
        self._text = text
        self.name = part["artifact_id"] if part else None
        self.is_required = bool(part and part["required"])
        self.is_of_phase = bool(part and part.get("is_of_phase"))
        self.given: Given = "deferred" if part and part.get("deferred") else "pointer"

    @property
    def text(self) -> str:
        if self._part is not None and not self._text:
            self._text = _line(self._part)
        return self._text

    @property
    def units(self) -> int:
        return units(self.text)


def _line(part: Part) -> str:
    if part.get("deferred"):
        return f"- {title_of(part)}: deferred; {one_line(part['deferred'])}\n"
    return f"- {title_of(part)}: not shown, {one_line(part['source'])} ({kilobytes(part['size_bytes'])})\n"


MAX_RUN = 200  # of `=` in a mark: a text with a longer one at the beginning of a line is not shown
MIN_OUTLINE = 900  # units: a shorter outline says nothing
MAX_SUMMARY = 4_000  # units of an artifact that its workflow wants summarized
MAX_NAME = 80
KNOWN = ("orchestration-protocol", "specification")  # what FABER's own workflows say of these, everybody knows
MAX_RANGES = 3  # of lines to read in one file


def mark_for(text: str) -> str:
    """Return the run of `=` that no line of a text begins with."""
    if MARK not in text:
        return MARK
    runs = [len(line) - len(line.lstrip("=")) for line in map(str.lstrip, text.split("\n")) if line.startswith(MARK)]
    return "=" * (max([len(MARK) - 1, *runs]) + 1)


def is_only_outlined(part: Part) -> bool:
    """Return whether an artifact is given as an outline by its strategy; a short one is given whole all the same."""
    return part.get("is_outlined", False) and len(part["content"]) > MIN_OUTLINE


def show_whole(part: Part) -> str:
    """Return an artifact with its whole text; empty if the marks would be too long."""
    mark = mark_for(part["content"])
    if len(mark) > MAX_RUN:
        return ""
    place = f"{one_line(part['source'])} ({kilobytes(part['size_bytes'])})"
    text = part["content"].rstrip()
    head = f"\n{mark} {title_of(part)}: whole, {place}{_described(part)}\n"
    return f"{head}{text}\n{mark} end of {name_of(part)}\n"


def show_parts(
    part: Part, room: int, look: int, named: tuple[str, ...], important: tuple[str, ...], always: tuple[str, ...]
) -> tuple[str, list[Span]]:
    """Return an artifact's outline in at most `room` units, and the lines to read besides; empty without room.

    `look`, `named`, `important` and `always` as in `outline`.
    """
    from faber_ledger.context.outline import outline  # most packets need none

    mark = mark_for(part["content"])
    rest = one_line(part["source"]) if part.get("is_file", True) else f"`{load_command(part)}`"
    head = f"\n{mark} {title_of(part)}: outline, parts of {kilobytes(part['size_bytes'])}; whole: {rest}"
    head += f"{_described(part)}\n"
    end = f"{mark} end of {name_of(part)}\n"
    left = room - units(head) - units(end)
    if len(mark) > MAX_RUN:
        left = 0
    text, to_read = outline(part["content"], left, look, mark=mark, named=named, important=important, always=always)
    return (f"{head}{text}{end}" if text else "", to_read)


def name_of(part: Part) -> str:
    """Return an artifact's id on one line."""
    return one_line(part["artifact_id"], MAX_NAME)


def title_of(part: Part) -> str:
    """Return an artifact's id, with a word if it is required."""
    return f"{one_line(part['artifact_id'], MAX_NAME)}{' (required)' if part['required'] else ''}"


def _described(part: Part) -> str:
    """Return an artifact's description as it follows its place; nothing if its id says the same."""
    return "" if part["artifact_id"] in KNOWN else described(one_line(part["description"]))


def load_command(part: Part) -> str:
    """Return the command that prints an artifact whole."""
    name = part["artifact_id"]
    size = part["size_bytes"] + 5_000
    more = f" --budget {size}" if size > 25_000 else ""
    return f"faber-ledger session-load --artifacts {name if is_name(name) else 'ID'}{more}"


def reading_of(part: Part, lines: list[Span] | None) -> str:
    """Return what to read of an artifact: these lines of its file, or all of it, or the command that prints it."""
    if not part.get("is_file", True):
        return f"`{load_command(part)}`"
    source = one_line(part["source"], 200)
    place = f'"{source}"' if "`" in source else f"`{source}`"
    if lines is None:
        return place
    ranges = lines if len(lines) <= MAX_RANGES else [(lines[0][0], lines[-1][1])]
    return f"{place} lines {', '.join([f'{start + 1}-{end}' for start, end in ranges])}"


KINDS = {  # words that an artifact's id begins with, or has after a dash
    "specification": ("spec", "design"),
    "issue": ("issue", "ticket", "work-item"),
    "changes": ("commit", "branch", "diff", "changes", "git"),
    "protocol": ("protocol", "orchestration"),
}
FIRST = {
    "frame": ("issue", "protocol"),
    "architect": ("issue", "specification", "protocol"),
    "build": ("specification", "issue", "protocol"),
    "evaluate": ("specification", "changes", "protocol"),
    "release": ("changes", "specification", "protocol"),
}
SECTIONS = ("summary", "acceptance_criteria", "requirements", "out of scope", "non-goals", "files", "phases")
SECTIONS_OF = {
    "build": ("summary", "requirements", "phases", "acceptance_criteria", "out of scope", "non-goals", "files"),
    "evaluate": ("acceptance_criteria", "summary", "requirements", "out of scope", "non-goals", "files", "phases"),
    "release": ("acceptance_criteria", "summary", "requirements", "out of scope", "non-goals", "files", "phases"),
}
FAIR_SHARE = 0.4  # of the room that is shared alike, however important some are


class Focus:
    """The current phase and step of a state, and what they make important."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.phase = current_phase(state) or ""
        self.step = current_step(state) or ""
        self.specification = value_at(state, "artifacts.spec_path")

    def rank(self, part: Part) -> int:
        """Return how important an artifact is, 0 most in the phase; the user's hint counts more, required ones next."""
        if part.get("is_hinted"):
            return -1
        first = FIRST.get(self.phase, ())
        kind = self._kind(part)
        if kind in first:
            return first.index(kind)
        return len(first) + (0 if part["required"] else 1 if part.get("is_of_phase") else 2)

    def sections(self, part: Part) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return what comes first in an artifact: words of headings, else kinds of sections, and words that always do.

        A specification has no part about a step of the workflow; what to do about errors holds in each of them.
        """
        if self._kind(part) == "specification":
            return (), SECTIONS_OF.get(self.phase, SECTIONS), ()
        return tuple([word for word in (self.step, self.phase) if word]), SECTIONS, ("error",)

    def _kind(self, part: Part) -> str | None:
        if part["source"] == self.specification:
            return "specification"
        name = f"-{part['artifact_id'].lower().replace('_', '-')}"
        return next((kind for kind, words in KINDS.items() if any([f"-{word}" in name for word in words])), None)


def share_by_rank(wanted: list[int], ranks: list[int], room: int, least: list[int]) -> list[int]:
    """Split room: everything keeps its `least` and a part of a fair share; the rest goes to the lowest rank first.

    Those of one rank share alike.
    """
    given = list(least)
    room -= sum(given)
    rounds = [(list(range(len(wanted))), int(room * FAIR_SHARE))]
    rounds += [([at for at, one in enumerate(ranks) if one == rank], room) for rank in sorted(set(ranks))]
    for chosen, most in rounds:
        for at, more in zip(chosen, shares([wanted[at] - given[at] for at in chosen], min(most, room)), strict=True):
            given[at] += more
            room -= more
    return given


CURRENT_SHARE = 0.6  # of the room, for the current phase, which also has what the others leave free
MAX_LINE = 100_000  # characters that are looked at: more has no room in any packet
MAX_ERROR = 200
MIN_PIECE = 12  # units: less of a list's newest item says nothing
DEPTH = 4  # of the objects and lists that times are left out of
# The ledger's blocks, the tool's own versions and the times: none of them says what to do next. The order stays.
BLOCKS = ("sessions", "context_metadata")
VERSIONS = ("run_id", "workflow_version", "config_hash", "schema_version", "version", "$schema")
TIMES = (
    *("started_at", "completed_at", "updated_at", "created_at", "ended_at", "requested_at", "posted_at"),
    *("timestamp", "at", "duration_ms"),
)
BOOKKEEPING = frozenset([*BLOCKS, *VERSIONS, *TIMES])
OF_POSITION = frozenset(["work_id", "target", "workflow_id", "status", "current_phase", "current_step"])
MAX_FACT = 100  # characters of a fact that the position always has whole
_dumps = encoder(separators=(",", ":"))


def compact_state(state: dict[str, Any], room: int, *, is_long: bool = False) -> tuple[str, bool]:
    """Return a state in at most `room` UTF-16 units, and whether only bookkeeping and facts above are left out.

    A state that `is_long` is not tried as a whole. The text may be empty.
    """
    phase, statuses = current_phase(state), phase_statuses(state)
    states = phase_states(state)
    others = {name: _describe_phase(states[name], status) for name, status in statuses.items() if name != phase}
    depth = 0 if is_long else DEPTH
    current = _pruned(phase_state(state, phase), depth)
    facts = {name: state[name] for name in OF_POSITION if isinstance(state.get(name), (str, int))}
    short = {name for name, value in facts.items() if len(str(value)) <= MAX_FACT}
    members = {
        name: _pruned(value, depth)
        for name, value in state.items()
        if value not in (None, "", [], {}) and name not in BOOKKEEPING and name not in short
    }
    is_whole = all([words == statuses[name] for name, words in others.items()])
    if "phases" in members and (current or others):
        phases = {name: others.get(str(name), current) for name in [*others, *([phase] if current else [])]}
        members["phases"] = {name: phases[name] for name in [*statuses, *phases] if name in phases}
        entries = state["phases"].values() if isinstance(state["phases"], dict) else state["phases"]
        is_whole = is_whole and sum([entry not in ({}, None) for entry in entries]) == len(phases)
    text = "" if is_long and members else _json(members)
    if text and units(text) < room:
        return f"{text}\n", is_whole
    members.pop("phases", None)
    return _outline(phase, current, others, members, room), False


def _pruned(value: Any, depth: int) -> Any:
    """Return a value without times in its objects and lists, as deep as that."""
    if depth == 0:
        return value
    if isinstance(value, dict):
        return {
            name: _pruned(member, depth - 1) if isinstance(member, (dict, list)) else member
            for name, member in value.items()
            if name not in TIMES
        }
    if isinstance(value, list):
        return [_pruned(item, depth - 1) for item in value]
    return value


def _describe_phase(of_phase: dict[str, Any], status: str) -> str:
    """Return a phase as its status, the number of its steps, and its error."""
    words = [status]
    for key in ("steps", "completed_steps"):
        steps = of_phase.get(key)
        if isinstance(steps, (list, dict)) and steps:
            words.append(f"{len(steps)} {key.replace('_', ' ')}")
    if of_phase.get("error"):
        words.append(f"error: {one_line(of_phase['error'], MAX_ERROR)}")
    is_all = of_phase.keys() - TIMES <= {"status", "name", "phase_name", "id"}
    return ", ".join(words) + ("" if is_all or len(words) > 1 else ", …")


def _outline(
    phase: str | None, current: dict[str, Any], others: dict[str, str], rest: dict[str, Any], room: int
) -> str:
    others_text = one_line(f'"phases": {_json(others)}', 2_000) + "\n" if others else ""
    free = room - units(others_text) - sum([units(_member_line(name, value, room)) for name, value in rest.items()])
    for_current = max(int(room * CURRENT_SHARE), free)
    head = (_phase_lines(f"phases.{phase}", current, for_current) if current else "") + others_text
    return clip(head + _member_lines(rest, room - units(head)), max(room, 0))


def _phase_lines(name: str, value: dict[str, Any], room: int) -> str:
    """Return a phase on one line if it has room, else each of its members, the long ones cut."""
    whole = one_line(f"{_json(name)}: {_json(value)}", MAX_LINE) + "\n"
    if units(whole) <= room:
        return whole
    return _member_lines({f"{name}.{key}": member for key, member in value.items()}, room)


def _member_lines(members: dict[str, Any], room: int) -> str:
    """Return members, each on one line, the long ones cut to a fair share of the room."""
    wanted = [units(_member_line(name, value, room)) for name, value in members.items()]
    limits = shares(wanted, room)
    lines = [_member_line(name, members[name], limit) for name, limit in zip(members, limits, strict=True)]
    return "".join(lines)


def _member_line(name: str, value: Any, room: int) -> str:
    """Return a member on one line of at most `room` units: of a list that is too long its newest items."""
    if isinstance(value, list):
        return _list_line(name, value, room)
    text = one_line(f"{_json(name)}: {_json(value)}", MAX_LINE)
    return f"{clip(text, room - 1)}\n" if room > len(name) else ""


def _list_line(name: str, value: list[Any], room: int) -> str:
    """Return a list's newest items, or the beginning of the newest one."""
    total = len(value)
    left = room - units(f"{_json(name)} (the last {total} of {total}): []\n")
    kept: list[str] = []
    for item in reversed(value):
        piece = one_line(_json(_pruned(item, DEPTH)), MAX_LINE)
        left -= units(piece) + 2
        if left < 0:
            break
        kept.insert(0, piece)
    if not kept and value:  # an empty list would say nothing
        head = f"{_json(name)} (the newest of {total}, cut): "
        left = min(room - units(head) - 1, MAX_ERROR)
        return f"{head}{clip(piece, left)}\n" if left >= MIN_PIECE else ""
    count = "" if len(kept) == total else f" (the last {len(kept)} of {total})"
    text = f"{one_line(_json(name))}{count}: [{', '.join(kept)}]\n"
    return text if units(text) <= room else ""


def _json(value: Any) -> str:
    """Return a value as JSON on one line; characters that hide are replaced in the whole packet."""
    try:
        return _dumps(value)
    except RecursionError:
        return '"…"'


def described(description: str) -> str:
    """Return a description as it follows an artifact's id; nothing if it has none."""
    return f" - {description}" if description else ""


def kilobytes(size: int) -> str:
    """Return a size in bytes as the documents write it, in KB of 1,024 bytes; what is not empty has at least 0.1 KB."""
    return f"{max(size / 1024, 0.1) if size else 0:.1f} KB"


def size_words(size: int) -> str:
    """Return a size in bytes in words: in KB, from 1 MB on in MB."""
    return kilobytes(size) if size < 1048576 else f"{size / 1048576:,.1f} MB"
