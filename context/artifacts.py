"""The artifacts of a packet: the run's state, the others between their marks, a list of those that are not there.

Room goes where the work is: first to what the current phase works from, and to the parts about the current step. The
lines around an artifact, and those of its cuts, begin with a run of `=` that is longer than any at the beginning of a
line of its text: none can be forged, and the same artifact gives the same bytes.
"""

from __future__ import annotations

from faber_ledger.context.messages import described, kilobytes
from faber_ledger.context.state_outline import compact_state
from faber_ledger.files.text import one_line, shares, units
from faber_ledger.runs.progress import current_phase, current_step, value_at
from faber_ledger.runs.run import is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Literal, NotRequired, TypedDict

    from faber_ledger.context.outline import Span

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

    def __init__(
        self, parts: list[Part], not_loaded: list[str], state: dict[str, Any], keys_shown: Collection[str], above: str
    ) -> None:
        """Take the artifacts, and lines about those that were not loaded.

        `keys_shown` and the text that stands `above` as in `compact_state`.
        """
        self._parts = parts
        self._above = above
        self._run_state = state
        self._keys_shown = keys_shown
        self._focus = Focus(state)
        self._lines = [_Line(part, _line(part)) for part in parts] + [_Line(None, f"- {line}\n") for line in not_loaded]
        self._lines.sort(key=lambda line: (not line.is_required, not line.is_of_phase, line.name is not None))
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
        wanted = {part["artifact_id"]: wanted_units(part, room) for part in shown}
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
        text, is_whole = compact_state(self._run_state, self._keys_shown, left, above=self._above, is_long=is_long)
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
        has_all = is_all and not any(map(is_only_outlined, shown))
        return 0 if has_all or not any(map(self._must_be_read, self._parts)) else min(MAX_READING, max(room, 0) // 3)

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
            body = show_whole(part) if size <= room and not is_only_outlined(part) else ""
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
    """A line of the list."""

    def __init__(self, part: Part | None, text: str) -> None:
        self.name = part["artifact_id"] if part else None
        self.is_required = bool(part and part["required"])
        self.is_of_phase = bool(part and part.get("is_of_phase"))
        self.given: Given = "deferred" if part and part.get("deferred") else "pointer"
        self.text = text
        self.units = units(text)


def _line(part: Part) -> str:
    if part.get("deferred"):
        return f"- {title_of(part)}: deferred; {one_line(part['deferred'])}\n"
    return f"- {title_of(part)}: not shown, {one_line(part['source'])} ({kilobytes(part['size_bytes'])})\n"


MARK = "====="
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


def wanted_units(part: Part, room: int) -> int:
    """Return the units of a whole artifact, or its characters, which are never more, if these alone do not fit.

    An artifact that is only outlined wants half as many, and not more than a packet has for it.
    """
    if is_only_outlined(part):
        return min(max(len(part["content"]) // 2, MIN_OUTLINE), MAX_SUMMARY)
    if len(part["content"]) > room:
        return len(part["content"])
    return units(show_whole(part))


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
    return f"{name_of(part)}{' (required)' if part['required'] else ''}"


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
    widest = sorted(range(1, len(lines)), key=lambda at: lines[at - 1][1] - lines[at][0])[: MAX_RANGES - 1]
    cuts = sorted(widest)
    ranges = [(lines[at][0], lines[end - 1][1]) for at, end in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
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
