"""The packet, the text that a session start gives the agent: sections, each with as much room as the work needs.

The same state, artifacts and log give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be added to the conversation again each time, and stay there.

A section has a rank, the units without which it says nothing, and those that it would like: `share_room` gives them out
once. The lines around an artifact, and those of its cuts, begin with a run of `=` that is longer than any at the
beginning of a line of its text, so none can be forged.
"""

from __future__ import annotations

from faber_ledger.context.body import (
    COMMAND_BUDGET,
    MARK,
    MAX_WHOLE,
    MIN_OUTLINE,
    MIN_PROTOCOL,
    ROOM_FOR_MORE,
    Body,
    Focus,
    compact_state,
    kilobytes,
    name_of,
    reading_of,
)
from faber_ledger.files.text import clip, defuse, one_line, plain, share_room, shares, units
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git import branch_of, is_safe
from faber_ledger.runs.seen import client_here, is_alive, machine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.body import Given, Part
    from faber_ledger.context.notes import Remembered
    from faber_ledger.context.outline import Span
    from faber_ledger.context.position import Position
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

    # Rank, least and most units (see `share_room`), and the text in at most as many units as it is given.
    Section = tuple[int, int, int, Callable[[int], str]]


BY_NEED = 10_000  # units: a larger packet, which is asked for, has what it can
END = f"\n{MARK} end of the FABER context; the whole run: `faber-ledger reconstitute`, `faber-ledger log`\n"
PROBLEMS_SHARE, STATE_SHARE, LIST_SHARE = 0.15, 0.35, 0.3
ERROR = "❌"  # with it, a problem stops the work; a warning does not
MAX_PROBLEM, SHORT_PROBLEM = 700, 160
SEEN = 2_000  # units at the packet's beginning, in which errors, position and what to read stand
MAX_READING = 400  # units of the sentence that names what to read
MAX_STATE, MAX_NOTES, MAX_SUMMARY = 1_500, 1_500, 4_000  # units, by need, of the state, of notes, and of a summary
MAX_OTHERS, MAX_OPTIONAL = 2_000, 500  # units, by need, of all artifacts that are not needed now, and of their list
MAX_OUTLINED = 250_000  # characters that all outlines of a packet together read, since reading takes time
LONG_STATE = 100_000  # characters of a state that is not tried as a whole
MAX_PATH = 160
LIST_HEAD = "\nNot in this text:\n"
WRITES = ". Read the file before you write it"
MORE = ". Also in it:"
READING_HEAD = "\nRead these now: "
WHOLE_BUDGET = 100_000
WHOLE = f"\n`faber-ledger session-load --force --budget {WHOLE_BUDGET}` prints the artifacts whole.\n"
ALL_LISTED = "`faber-ledger session-load --dry-run` lists them"


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
    is_copy: bool = False,
    knows_state: bool = False,
) -> tuple[str, dict[str, Given]]:
    """Return a packet of at most `budget` UTF-16 units, and how it gives each artifact; none that it does not name.

    Errors among the `problems` come first, then the position and what to read now, warnings, the run's `state`, a list
    of the artifacts that are not here (with the lines about those that were `not_loaded`), `notes` (newest first),
    another conversation's `summary`, each artifact in the order of `parts`, and a line that ends the packet. The text
    has no control character, whatever the repository contains. The state may be the clone's own copy, which nobody
    writes; a reader that `knows_state` is not given what the position does not say of it.
    """
    room = budget - units(END)
    for_problems = int(budget * PROBLEMS_SHARE)
    for_errors = max(min(for_problems, SEEN - MAX_READING - units(position["text"])), 0)
    errors = _problems_text([one for one in problems if one.startswith(ERROR)], for_errors)
    warnings = _problems_text([one for one in problems if not one.startswith(ERROR)], for_problems)
    warnings = f"\n{warnings.rstrip()}\n" if warnings else ""
    summarized = _summary_text(summary, COMMAND_BUDGET)
    texts = [errors, position["text"], warnings, _notes_text(notes, COMMAND_BUDGET), summarized]
    how: Any = {"is_by_need": budget <= BY_NEED, "is_copy": is_copy, "knows_state": knows_state}
    artifacts = Artifacts(parts, not_loaded or [], state or {}, position, **how)
    after = artifacts.limit(texts[3], MAX_NOTES) + artifacts.limit(summarized, MAX_SUMMARY)
    artifacts.choose(room - sum(map(units, texts[:3])), room, after)
    for_position = min(units(position["text"]), room - units(errors))
    sections: dict[str, Section] = {
        "errors": (0, units(errors), units(errors), lambda limit: clip(errors, limit)),
        "position": (0, for_position, for_position, lambda limit: clip(position["text"], limit, "… (more was cut)\n")),
        "reading": artifacts.reading,
        "warnings": (1, 0, min(units(warnings), for_problems), lambda limit: clip(warnings, limit, "…\n")),
        "state": artifacts.state,
        "list": artifacts.list_section(room),
        "notes": (2, 0, artifacts.limit(texts[3], MAX_NOTES), lambda limit: _notes_text(notes, limit)),
        "summary": (2, 0, artifacts.limit(summarized, MAX_SUMMARY), lambda limit: _summary_text(summary, limit)),
        **artifacts.body_sections(),
        "whole": (3, 0, units(WHOLE) if budget < WHOLE_BUDGET else 0, artifacts.name_command),
    }
    text = _fill(sections, artifacts, room)
    return plain(clip(text, room) + END if room > 0 else clip(END, budget)), artifacts.given


def _fill(sections: dict[str, Section], artifacts: Artifacts, room: int) -> str:
    """Return the text of the sections in so much room; what is to be read takes room only if something is lacking."""
    limits = _share(sections if artifacts.is_reserving else {**sections, "reading": NOTHING}, room)
    if not artifacts.is_reserving and artifacts.are_lacking(limits):
        limits = _share(sections, room)
    late = ("list", "reading", "whole")  # they name what has no room
    drawn = {name: section[3](limits[name]) for name, section in sections.items() if name not in late}
    drawn |= {name: sections[name][3](limits[name]) for name in late}
    return "".join([drawn[name] for name in sections])


def _share(sections: dict[str, Section], room: int) -> dict[str, int]:
    return dict(zip(sections, share_room([section[:3] for section in sections.values()], room), strict=True))


BROKE_OFF = "The session before this conversation broke off"
MAX_MACHINE = 80
ASK = "first ask the user whether it is over, unless the user has said so"
MAY_BE_AT_WORK = f", or is still at work: {ASK}"
NO_END_HERE = (
    "The session before this conversation, {} in another clone, may still be at work: its end is not known here. So"
    f" {ASK}."
)
LEFT_HERE = " `git status` and `git log` show the changes that it left."
LEFT_ON = (
    " `git log {}` shows the commits of its branch. If `git status` shows changes here, they may be other work: ask"
    " before you commit them."
)


def read_remembered(
    root: str, log: Log, client: str | None, source: str, keeper: Run | None
) -> tuple[list[Remembered], Remembered | None]:
    """Return a run's newest notes, and the summary of another conversation (see `notes.summary_for`)."""
    if next(log.newest_notes(), None) is None and next(log.compactions(not_by=client or "", before=None), None) is None:
        return [], None
    from faber_ledger.context.notes import newest_notes, summary_for  # most runs have none yet

    writer = writer_of(root)
    return newest_notes(log, writer), summary_for(log, client, source, keeper, writer)


def start_before(root: str, log: Log, client: str | None) -> Recorded | None:
    """Return the newest start before a conversation's first one, so that each of its starts gets the same text.

    If it was in another clone, beside a session of this one that was heard of later, it is that one's.
    """
    first = log.first_start_of(client) if client is not None else None
    start = log.last_start(before=first)
    if start is None or start["writer"] == (writer := writer_of(root)):
        return start
    own = log.last_start(before=first, writer=writer)
    seen = client_here(root, own)
    heard_at = seen.heard_at() if seen is not None else 0.0
    until = next(log.ends_of(start), start)["at"]
    return own if int(heard_at) > (seconds_of(until) or 0.0) else start  # which is a whole second


def describe_break(
    root: str, log: Log, client: str | None, start: Recorded | None, *, branch: str | None
) -> str | None:
    """Return what to do if the session before a conversation, as `start_before` has it, has no end.

    If it ran in this clone and on this machine, it is over once its client's process is gone. `branch` is the run's.
    """
    if client is None or start is None or start["client"] == client:
        return None
    if has_end(log, start):
        return None
    if start["writer"] != writer_of(root):
        return NO_END_HERE.format(place_of_session(start))
    seen = client_here(root, start)
    is_over = seen is not None and is_alive(seen.pid) is False
    left = LEFT_HERE
    if branch and branch != branch_of(root) and is_safe(branch):
        from faber_ledger.context.branch import has_branch  # most starts are on the run's branch

        left = LEFT_ON.format(branch) if has_branch(root, branch) else left
    return f"{BROKE_OFF}{'' if is_over else MAY_BE_AT_WORK}.{left}"


def has_end(log: Log, start: Recorded) -> bool:
    """Return whether the session of a start has ended, and was not only given up for lost."""
    return any([dict(ended["event"]).get("reason") != "abandoned" for ended in log.ends_of(start)])


def place_of_session(start: Recorded) -> str:
    """Return on which machine a session began."""
    machine = machine_of(start)
    return f"on {one_line(machine, MAX_MACHINE)}" if machine else "on another machine"


def _problems_text(problems: list[str], room: int) -> str:
    """Return the problems: the first ones whole, further ones in a line each, and the number of the rest."""
    texts: list[str] = []
    for problem in problems:
        lines = [defuse(one_line(line)) for line in problem.split("\n")]
        whole = clip("\n".join(lines), MAX_PROBLEM) + "\n\n"
        left = room - SHORT_PROBLEM * (len(problems) - len(texts) - 1)
        text = whole if not texts or units(whole) <= left else defuse(one_line(problem, SHORT_PROBLEM)) + "\n\n"
        if texts and units(text) > room:
            left = len(problems) - len(texts)
            texts.append(f"… and {left} more: `faber-ledger session-load --dry-run` shows them\n\n")
            break
        texts.append(text)
        room -= units(text)
    return "".join(texts)


def _notes_text(notes: list[Remembered] | None, room: int) -> str:
    if not notes:
        return ""
    from faber_ledger.context.notes import list_notes  # where there are any

    return list_notes(notes, room)


def _summary_text(summary: Remembered | None, room: int) -> str:
    if summary is None:
        return ""
    from faber_ledger.context.notes import quote_summary

    return quote_summary(summary, room)


NOTHING: Section = (0, 0, 0, lambda _: "")


class Artifacts:
    """The sections about artifacts: the state, what to read, the list of those that are not here, and their texts.

    `given` says how each artifact is given, once its section was made, and has none that is not named.
    """

    def __init__(
        self,
        parts: list[Part],
        not_loaded: list[str],
        state: dict[str, Any],
        position: Position,
        *,
        is_by_need: bool,
        is_copy: bool,
        knows_state: bool,
    ) -> None:
        """Take the artifacts, lines about those that were not loaded, the run's state, and the position."""
        self._parts, self._not_loaded, self._state, self._position = parts, not_loaded, state, position
        self._focus = Focus(state)
        self._is_by_need, self._knows_state = is_by_need, knows_state
        self._writes = "; the file to write is on the run's branch" if is_copy else WRITES
        self._bodies: list[Body] = []
        self.given: dict[str, Given] = {}
        self.state = self.reading = NOTHING
        self.is_reserving = False

    def limit(self, text: str, most: int) -> int:
        """Return the units that a text would like."""
        return min(units(text), most) if self._is_by_need else units(text)

    def choose(self, left: int, room: int, after: int) -> None:
        """Choose the artifacts that have room, the most important first; the others are only named.

        `after` are the units that notes and a summary would like.
        """
        shown = [part for part in self._parts if not (part.get("deferred") or part.get("is_state"))]
        lines = self._lines({part["artifact_id"] for part in self._parts if part.get("is_state")} | set(_ids(shown)))
        self.state, self.reading = self._state_section(room), self._reading_section(room)
        left -= self.state[1] + min(sum([units(line) for _, line, _ in lines]), int(room * LIST_SHARE))
        left -= ROOM_FOR_MORE
        is_long = any([len(part["content"]) > MAX_WHOLE and self._focus.must_be_read(part) for part in shown])
        self.is_reserving = is_long or self._choose(shown, left) < after or self._are_missing(shown, self._bodies)
        if self.is_reserving:
            self._choose(shown, left - self.reading[1])
        places = {name: at for at, name in enumerate(_ids(self._parts))}
        self._bodies.sort(key=lambda body: places[body.part["artifact_id"]])

    def _choose(self, shown: list[Part], left: int) -> int:
        """Choose among artifacts, and return what is left if each has all that it wants."""
        self._bodies = []
        free = left - self.reading[1]  # what is needed, and to name what of it is cut, leaves so much for others
        for_others = MAX_OTHERS if self._is_by_need else left
        looks = shares([len(part["content"]) for part in shown], MAX_OUTLINED)
        protocols = [part for part in shown if part["required"] and self._focus.kind(part) == "protocol"]
        for part, look in sorted(zip(shown, looks, strict=True), key=lambda one: self._focus.rank(one[0])):
            is_needed = self._focus.is_needed(part)
            protocols = [one for one in protocols if one is not part]
            room = left - MIN_PROTOCOL * len(protocols)  # whose rules are needed always
            most = room if is_needed or not self._is_by_need else min(room, free, for_others)
            if most <= 0:
                continue
            body = Body(part, self._focus, look, is_needed=is_needed, room=room, is_by_need=self._is_by_need)
            if body.least > most >= MIN_OUTLINE:
                body.least = MIN_OUTLINE  # a part, if the whole text has no room
            if 0 < body.least <= most:
                self._bodies.append(body)
                left -= body.least
                free -= body.most
                for_others -= 0 if is_needed else body.most
        return free

    def _are_missing(self, shown: list[Part], bodies: list[Body]) -> bool:
        """Return whether one that must be read is not among bodies, or lacks something that is needed."""
        whole = {body.part["artifact_id"] for body in bodies if not body.lacks}
        return any([part["artifact_id"] not in whole and self._focus.must_be_read(part) for part in shown])

    def are_lacking(self, limits: dict[str, int]) -> bool:
        """Return whether something is to be read, if the sections have these units."""
        complete = [body for at, body in enumerate(self._bodies) if limits[f"artifact {at}"] >= body.most]
        shown = [part for part in self._parts if not (part.get("deferred") or part.get("is_state"))]
        return self._are_missing(shown, complete) or limits["state"] < self.state[2]

    def body_sections(self) -> dict[str, Section]:
        """Return the sections of the artifacts that have room."""
        order = sorted(range(len(self._bodies)), key=lambda at: self._bodies[at].rank)
        return {  # the first has all that it wants before the next gets more than its least
            f"artifact {at}": (3 + order.index(at), body.least, body.most, self._draw(body))
            for at, body in enumerate(self._bodies)
        }

    def _draw(self, body: Body) -> Callable[[int], str]:
        def draw(limit: int) -> str:
            text = body.draw(limit)
            if text and body.given:
                self.given[body.part["artifact_id"]] = body.given
            return text

        return draw

    def _state_section(self, room: int) -> Section:
        """Return the section of the run's state, if it is among the artifacts."""
        part = next((part for part in self._parts if part.get("is_state")), None)
        if part is None:
            return NOTHING
        known, name = part, part["artifact_id"]
        most = min(MAX_STATE, room) if self._is_by_need else room
        wished = self._state_text(known, most)
        wish = wished[2]

        def draw(limit: int) -> str:
            text, is_whole, _ = wished if limit >= wish else self._state_text(known, limit)
            if text:
                self.given[name] = "inline" if is_whole else "outline"
            return text

        return (1, min(wish, int(room * STATE_SHARE)), wish, draw)

    def _state_text(self, part: Part, room: int) -> tuple[str, bool, int]:
        """Return the text of the run's state in so much room, whether it is whole, and the room that it needs."""
        head = f"\n{name_of(part)}: {defuse(one_line(part['source']))}"
        longest = units(f"{head}{self._writes}{MORE}\n")
        is_long = len(part["content"]) > LONG_STATE
        said = self._position["said"] | {part["source"] for part in self._parts}
        state = {} if self._knows_state else self._state
        text, how = compact_state(state, room - longest, said, is_long=is_long)
        if text == "{}\n":  # the position has all of it
            return f"{head}{self._writes}\n", how == 0 and not self._knows_state, longest
        if not text:
            return "", False, 0
        return f"{head}{self._writes}{MORE}\n{text}", how == 0, longest + units(text)

    def _reading_section(self, room: int) -> Section:
        """Return the sentence that names what to read before going on."""
        most = min(MAX_READING, room // 4) if any(map(self._focus.must_be_read, self._parts)) else 0
        return (0, most, most, self._name_reading)

    def _name_reading(self, room: int) -> str:
        """Return a sentence with what to read: of required artifacts, and of what the work is about."""
        wanted: dict[str, list[Span] | None] = {
            body.part["artifact_id"]: body.to_read for body in self._bodies if body.given
        }
        missing = [
            part
            for part in self._parts
            if self.given.get(part["artifact_id"]) != "inline"
            and not (part.get("deferred") or (part.get("is_state") and part["artifact_id"] in self.given))
            and self._focus.must_be_read(part)
            and wanted.get(part["artifact_id"]) != []
        ]
        first = "protocol" if self._focus.is_waiting else "specification"  # what it says of feedback
        missing.sort(key=lambda part: (self._focus.kind(part) != first, not part["required"]))
        readings = [reading_of(part, wanted.get(part["artifact_id"])) for part in missing]
        for count in range(len(readings), 0, -1):
            more = f"; and {len(readings) - count} more: {ALL_LISTED}" if count < len(readings) else ""
            text = f"{READING_HEAD}{'; '.join(readings[:count])}{more}.\n"
            if units(text) <= room:
                return text
        return ""

    def name_command(self, room: int) -> str:
        """Return the command that prints artifacts whole, if one is not."""
        never = ("deferred", "is_state", "is_outlined")
        shown = [part for part in self._parts if not any([part.get(name) for name in never])]
        is_whole = all([self.given.get(name) == "inline" for name in _ids(shown)])
        return "" if is_whole or units(WHOLE) > room else WHOLE

    def list_section(self, room: int) -> Section:
        """Return the list of the artifacts that are not shown."""
        shown = {body.part["artifact_id"] for body in self._bodies}
        lines = self._lines(shown | {part["artifact_id"] for part in self._parts if part.get("is_state")})
        required = sum([units(line) for _, line, is_required in lines if is_required])
        optional = sum([units(line) for _, line, is_required in lines if not is_required])
        for_optional = MAX_OPTIONAL if self._is_by_need else int(room * LIST_SHARE)
        most = min(required, int(room * LIST_SHARE)) + min(optional, for_optional)
        most = max(most + units(LIST_HEAD), ROOM_FOR_MORE + units(LIST_HEAD)) if self._parts or lines else 0
        return (1, most, most, self._list)

    def _lines(self, given: set[str]) -> list[tuple[Part | None, str, bool]]:
        """Return a line for each artifact that is not given, required ones first, and whether it is required."""
        lines: list[tuple[Part | None, str, bool]] = [(None, f"- {defuse(line)}\n", False) for line in self._not_loaded]
        parts = [part for part in self._parts if part["artifact_id"] not in given]
        lines += [(part, _line(part, self._position["asks_for"]), part["required"]) for part in parts]
        return sorted(lines, key=lambda one: (not one[2], not (one[0] and one[0].get("is_of_phase")), one[0] is None))

    def _list(self, room: int) -> str:
        """Return the list, required ones first, and note how these are given."""
        lines = self._lines(set(self.given))
        left = room - units(LIST_HEAD)
        has_all = sum([units(line) for _, line, _ in lines]) <= left
        texts = []
        for count, (part, line, _) in enumerate(lines):
            left -= units(line)
            if left < 0 if has_all else left < ROOM_FOR_MORE:
                left += units(line)
                required = sum([one[2] for one in lines[count:]])
                of_all = f"{required} of them" if any([one[2] for one in lines]) else f"none of all {len(lines)}"
                more = f"- … and {len(lines) - count} more, {of_all} required: {ALL_LISTED}\n"
                texts.append(more if units(more) <= left else "")
                break
            texts.append(line)
            if part is not None:
                self.given[part["artifact_id"]] = "deferred" if part.get("deferred") else "pointer"
        text = "".join(texts)
        return f"{LIST_HEAD}{text}" if text else ""


def _ids(parts: list[Part]) -> list[str]:
    return [part["artifact_id"] for part in parts]


def _line(part: Part, asks_for: str) -> str:
    if deferred := part.get("deferred"):
        command = deferred.removeprefix("run `").split()[:1] if deferred.startswith("run `/") else []
        if command and command[0] in asks_for.split():
            return f"- {name_of(part)}: the step fetches it\n"
        words = defuse(one_line(deferred))
        when = "first, for the text of" if part["required"] else "if you need the text of"
        return f"- {when} {name_of(part)} {words}\n" if command else f"- {name_of(part)}: {words}\n"
    needed = "but required, " if part["required"] else ""
    source, size = defuse(one_line(part["source"])), kilobytes(part["size_bytes"])
    return f"- {name_of(part)}: not shown, {needed}{source} ({size})\n"
