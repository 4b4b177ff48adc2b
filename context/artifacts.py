"""The artifacts of a packet: the run's state, the others between their marks, a list of those that are not there.

Room goes where the work is: first to what the current phase works from, and to the parts about the current step.
"""

from __future__ import annotations

from faber_ledger.context.body import (
    MIN_OUTLINE,
    is_only_outlined,
    reading_of,
    show_parts,
    show_whole,
    title_of,
    wanted_units,
)
from faber_ledger.context.focus import Focus, share_by_rank
from faber_ledger.context.messages import kilobytes
from faber_ledger.context.state_outline import compact_state
from faber_ledger.files.text import one_line, shares, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Literal

    from faber_ledger.context.body import Part
    from faber_ledger.context.outline import Span

    Given = Literal["inline", "outline", "pointer", "deferred"]

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
