"""The texts of artifacts in a packet: whole or outlined between marks, and the run's state as compact JSON.

What a phase and a step need of an artifact decides how much of it is given. The state is without bookkeeping and what
the position says; the current phase is whole, another is its status and its error. Without room for all of it lists
keep their last items, and those that are at work; long texts are cut.
"""

from __future__ import annotations

from faber_ledger.files.text import clip, defuse, defuse_tags, one_line, units
from faber_ledger.ledger.encoding import encoder
from faber_ledger.runs.progress import (
    current_phase,
    current_step,
    is_answer_built,
    is_settled,
    pending_approvals,
    phase_state,
    phase_states,
    phase_statuses,
    value_at,
    words_of_approval,
)
from faber_ledger.runs.run import is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from typing import Any, Literal, NotRequired, TypedDict

    from faber_ledger.context.artifact import Loaded
    from faber_ledger.context.outline import Span

    Given = Literal["inline", "outline", "pointer", "deferred"]

    class Needs(TypedDict):
        """What decides about the parts of an artifact, as `outline` has it."""

        kind: str
        phase: str
        step: str
        is_waiting: bool

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
MAX_WHOLE = 4_200  # units, by need, of an artifact that is given whole
MAX_SHORT = 1_200  # units, by need, of one that is not needed now
MIN_OUTLINE, MAX_OUTLINE = 900, 6_500  # units: a shorter outline says nothing
MIN_PROTOCOL = 2_000  # units
MAX_SUMMARY = 4_000  # units of an artifact that its workflow wants summarized
MAX_RUN = 200  # of `=` in a mark: a text with a longer one at the beginning of a line is not shown
MAX_NAME, MAX_RANGES = 80, 3
ROOM_FOR_MORE = 110
UNTICKED = "; an open box may be done already: see `git log`"
KNOWN = ("orchestration-protocol", "specification")  # what FABER's own workflows say of these, everybody knows


class Body:
    """An artifact's text: whole, or as an outline; `to_read` are the lines that are needed and not in it."""

    def __init__(self, part: Part, focus: Focus, look: int, *, is_needed: bool, room: int, is_by_need: bool) -> None:
        self.part, self._focus, self._look, self._fills = part, focus, look, not is_by_need
        self.rank = focus.rank(part)
        self.given: Given | Literal[""] = ""
        self.to_read: list[Span] = []
        self._drawn: tuple[str, list[Span]] = "", []
        size = len(part["content"])
        most = (MAX_WHOLE if is_needed else MAX_SHORT) if is_by_need else room
        self._whole = show_whole(part, focus.phase) if size <= most and not _is_only_outlined(part) else ""
        if self._whole:
            self.most = units(self._whole)
        else:
            wish = (MAX_OUTLINE if is_needed else MIN_OUTLINE) if is_by_need else size + ROOM_FOR_MORE
            if _is_only_outlined(part):
                wish = min(max(size // 2, MIN_OUTLINE), MAX_SUMMARY)
            self._drawn = show_parts(part, min(wish, max(room, 0)), look, focus.sections(part), fills=self._fills)
            self.most = units(self._drawn[0])
        is_kept = self.most <= MAX_SHORT or (bool(self._whole) and is_by_need and part["required"])
        is_protocol = focus.kind(part) == "protocol"  # whose rules are needed always
        least = max(min(MIN_PROTOCOL, room // 4) if is_protocol else 0, MIN_OUTLINE)
        self.least = self.most if is_kept else min(self.most, least)

    @property
    def lacks(self) -> bool:
        """Return whether something that is needed is not in the text, though it has all the units that it needs."""
        return not self._whole and bool(self._drawn[1])

    def draw(self, limit: int) -> str:
        """Return the text in at most `limit` units, perhaps an empty one."""
        if self._whole and limit >= self.most:
            self.given = "inline"
            return self._whole
        if self._whole or limit < self.most:
            sections = self._focus.sections(self.part)
            self._drawn = show_parts(self.part, limit, self._look, sections, fills=self._fills)
        text, self.to_read = self._drawn
        self.given = "outline" if text else ""
        return text


def mark_for(text: str) -> str:
    """Return the run of `=` that no line of a text begins with."""
    if MARK not in text:
        return MARK
    runs = [len(line) - len(line.lstrip("=")) for line in map(str.lstrip, text.split("\n")) if line.startswith(MARK)]
    return "=" * (max([len(MARK) - 1, *runs]) + 1)


def _is_only_outlined(part: Part) -> bool:
    """Return whether an artifact is given as an outline by its strategy; a short one is given whole all the same."""
    return part.get("is_outlined", False) and len(part["content"]) > MIN_OUTLINE


def show_whole(part: Part, phase: str) -> str:
    """Return an artifact with its whole text, as a phase needs it; empty if the marks would be too long."""
    mark = mark_for(part["content"])
    if len(mark) > MAX_RUN:
        return ""
    place = f"{defuse(one_line(part['source']))} ({kilobytes(part['size_bytes'])})"
    head = f"\n{mark} {name_of(part)}: whole, {place}{_described(part, phase)}\n"
    return f"{head}{defuse_tags(part['content'].rstrip())}\n{mark} end of {name_of(part)}\n"


def show_parts(part: Part, room: int, look: int, needs: Needs, *, fills: bool = False) -> tuple[str, list[Span]]:
    """Return an artifact's outline in at most `room` units, and the lines to read besides; empty without room.

    `look` and `fills` as in `outline`, and `needs` has its other arguments.
    """
    from faber_ledger.context.outline import outline  # most packets need none

    mark = mark_for(part["content"])
    rest = defuse(one_line(part["source"])) if part.get("is_file", True) else f"`{load_command(part)}`"
    head = f"\n{mark} {name_of(part)}: parts of its {kilobytes(part['size_bytes'])}; whole: {rest}"
    head += f"{_described(part, needs['phase'])}\n"
    end = f"{mark} end of {name_of(part)}\n"
    left = room - units(head) - units(end)
    if len(mark) > MAX_RUN:
        left = 0
    content = defuse_tags(part["content"])
    text, to_read = outline(content, left, look, mark=mark, fills=fills, **needs)
    return (f"{head}{text}{end}" if text else "", to_read)


def name_of(part: Part) -> str:
    """Return an artifact's id on one line."""
    return defuse(one_line(part["artifact_id"], MAX_NAME))


def _described(part: Part, phase: str) -> str:
    """Return an artifact's description as it follows its place; nothing if its id says the same."""
    said = "" if part["artifact_id"] in KNOWN else described(defuse(one_line(part["description"])))
    may_be_built = "- [ ]" in part["content"] and phase not in ("frame", "architect")
    return f"{said}{UNTICKED}" if may_be_built and _kind_of(part) == "specification" else said


def load_command(part: Part) -> str:
    """Return the command that prints an artifact whole."""
    name = part["artifact_id"]
    size = part["size_bytes"] + 5_000
    more = f" --budget {size}" if size > COMMAND_BUDGET else ""
    return f"faber-ledger session-load --artifacts {name if is_name(name) else 'ID'}{more}"


def reading_of(part: Part, lines: list[Span] | None) -> str:
    """Return what to read of an artifact: these lines of its file, or all of it, or the command that prints it."""
    if not part.get("is_file", True):
        return f"`{load_command(part)}`"
    source = defuse(one_line(part["source"], 200))
    place = f'"{source}"' if "`" in source else f"`{source}`"
    if lines is None:
        return place
    return f"{place} {_ranges(lines)}"


def _ranges(lines: list[Span]) -> str:
    ranges = lines if len(lines) <= MAX_RANGES else [(lines[0][0], lines[-1][1])]
    return f"lines {', '.join([f'{start + 1}-{end}' for start, end in ranges])}"


KINDS = {  # words that an artifact's id begins with, or has after a dash
    "specification": ("spec", "design"),
    "issue": ("issue", "ticket", "work-item"),
    "changes": ("commit", "branch", "diff", "changes", "git"),
    "protocol": ("protocol", "orchestration"),
}
FIRST = {
    "frame": ("issue", "protocol"),
    "architect": ("specification", "issue", "protocol"),
    "build": ("specification", "issue", "protocol"),
    "evaluate": ("specification", "changes", "protocol"),
    "release": ("changes", "specification", "protocol"),
}


class Focus:
    """The current phase and step of a state, and what they make important."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.phase = current_phase(state) or ""
        self.step = current_step(state) or ""
        self.specification = value_at(state, "artifacts.spec_path")
        self.is_waiting = state.get("status") == "awaiting_feedback"

    def rank(self, part: Part) -> int:
        """Return how important an artifact is, 0 most in the phase; the user's hint counts more, required ones next."""
        if part.get("is_hinted"):
            return -1
        first = FIRST.get(self.phase, ())
        kind = self.kind(part)
        if kind in first:
            return first.index(kind)
        return len(first) + (0 if part["required"] else 1 if part.get("is_of_phase") else 2)

    def is_needed(self, part: Part) -> bool:
        """Return whether the phase needs an artifact, or the workflow says so."""
        return part["required"] or self.rank(part) < len(FIRST.get(self.phase, ())) or bool(part.get("is_of_phase"))

    def must_be_read(self, part: Part) -> bool:
        """Return whether an artifact must be read before going on: a required one, or what the phase works from."""
        kind = self.kind(part)
        is_worked_from = kind == "protocol" or (kind == "specification" and self.phase != "frame")
        return part["required"] or self.rank(part) <= 0 or is_worked_from

    def sections(self, part: Part) -> Needs:
        """Return what decides about the parts of an artifact: its kind, the phase and the step, and what waits."""
        kind = self.kind(part) or ""
        return {"kind": kind, "phase": self.phase, "step": self.step, "is_waiting": self.is_waiting}

    def kind(self, part: Part) -> str | None:
        """Return what an artifact is, by its place or its id."""
        if part["source"] == self.specification:
            return "specification"
        return _kind_of(part)


def _kind_of(part: Part) -> str | None:
    name = f"-{part['artifact_id'].lower().replace('_', '-')}"
    return [*[kind for kind, words in KINDS.items() if any([f"-{word}" in name for word in words])], None][0]


def find_rules_of_failure(state: dict[str, Any], parts: list[Part]) -> str:
    """Return where the protocol says what to do after a step has failed; empty if none has, or it does not."""
    if state.get("status") != "failed":
        return ""
    focus = Focus(state)
    protocol = next((part for part in parts if focus.kind(part) == "protocol" and not part.get("deferred")), None)
    if protocol is None:
        return ""
    from faber_ledger.context.outline import lines_about_failures

    lines = lines_about_failures(protocol["content"], focus.phase)
    if not lines or not protocol.get("is_file", True):
        return reading_of(protocol, lines) if lines else ""
    return _ranges(lines)


def named_in_hint(loaded: list[Loaded], hint: str) -> list[Loaded]:
    """Return what was loaded that a hint names by its id, if there is any.

    Else what has a word in its id that begins with one of the hint's, as with "spec"; words of less than four letters
    are not looked at.
    """
    ids = "".join([letter if letter.isalnum() or letter in "_-" else " " for letter in hint]).split()
    named = [one for one in loaded if one["artifact"]["id"] in ids]
    if named:
        return named
    letters = "".join([letter if letter.isalnum() else " " for letter in hint.lower()])
    words = tuple([word for word in letters.split() if len(word) > 3])
    of_ids = [one["artifact"]["id"].lower().replace("_", "-").split("-") for one in loaded]
    return [one for one, of_id in zip(loaded, of_ids, strict=True) if any([name.startswith(words) for name in of_id])]


def described(description: str) -> str:
    """Return a description as it follows an artifact's id; nothing if it has none."""
    return f" - {description}" if description else ""


def kilobytes(size: int) -> str:
    """Return a size in bytes as the documents write it, in KB of 1,024 bytes; what is not empty has at least 0.1 KB."""
    return f"{max(size / 1024, 0.1) if size else 0:.1f} KB"


def size_words(size: int) -> str:
    """Return a size in bytes in words: in KB, from 1 MB on in MB."""
    return kilobytes(size) if size < 1048576 else f"{size / 1048576:,.1f} MB"


# The ledger's blocks, the tool's own versions and the times: none of them says what to do next.
BOOKKEEPING = {"sessions", "context_metadata", "run_id", "workflow_version", "config_hash"}
BOOKKEEPING |= {"schema_version", "version", "$schema"}
TIMES = {"started_at", "completed_at", "updated_at", "created_at", "ended_at", "requested_at", "posted_at"}
TIMES |= {"timestamp", "at", "duration_ms"}
OF_POSITION = {"work_id", "target", "workflow_id", "status", "current_phase", "current_step", "current_step_id"}
OF_POSITION |= {"branch", "additional_instructions", "continuation_note"}
PLACES = {"phase", "step", "step_id", "id"}
PLACES_SAID = ("branch", "branch_name", "spec_path")
LONG = 16  # characters of a text that is left out if the position has it
LEVELS = ((20, 1_000), (5, 300), (3, 200), (1, 60))  # items of a list and characters of a text, ever fewer
DEPTH = 9  # of objects and lists
MAX_ERROR, MAX_MEMBERS = 200, 12
AT_WORK = ("in_progress", "failed", "awaiting_feedback", "paused")
WHOLE, WITHOUT_PHASES, SHORTENED = range(3)
_dumps = encoder(separators=(",", ":"))


def compact_state(
    state: dict[str, Any], room: int, said: AbstractSet[str] = frozenset(), *, is_long: bool = False
) -> tuple[str, int]:
    """Return a state in at most `room` UTF-16 units, and what is left out besides bookkeeping and what is `said`.

    A state that `is_long` is not tried as a whole. The text may be empty.
    """
    phase, statuses, states = current_phase(state), phase_statuses(state), phase_states(state)
    others = {name: _describe_phase(states[name], status) for name, status in statuses.items() if name != phase}
    members = {
        name: value
        for name, value in state.items()
        if value not in (None, "", [], {})
        and name not in BOOKKEEPING
        and name not in TIMES
        and not (name in OF_POSITION and _is_said(name, value, said))
    }
    if [words_of_approval(one) in said for one in pending_approvals(state)] == [True]:
        members.pop("pending_approvals", None)
    if isinstance(retries := members.get("retries"), dict):
        members["retries"] = {name: one for name, one in retries.items() if statuses.get(name) != "completed"}
        members = {name: value for name, value in members.items() if value != {}}
    is_built = is_answer_built(state)
    if is_built:
        members.pop("feedback_request", None)
    errors = members.pop("errors", None)
    left = [one for one in errors if not is_settled(state, one)] if isinstance(errors, list) else errors
    members |= {"errors": left} if left else {}
    current = phase_state(state, phase)
    how = WHOLE if left == errors and not is_built else WITHOUT_PHASES
    if "phases" in members and (current or others):
        shown = {name: others.get(name, current) for name in [*statuses, *([phase] if current and phase else [])]}
        entries = state["phases"].values() if isinstance(state["phases"], dict) else state["phases"]
        is_all = all(["error" not in others[name] and _has_only_status(states[name]) for name in others])
        is_all &= sum([entry not in ({}, None) for entry in entries]) == len(shown)
        how = how if is_all else WITHOUT_PHASES
        members["phases"] = shown
        if _are_as_usual(shown, phase):
            del members["phases"]
    limits = [(1 << 60, 1 << 60), *LEVELS] if not is_long else LEVELS
    text = ""
    for at, (items, characters) in enumerate(limits):
        text = defuse_tags(_json(_prune(members, said, items, characters, DEPTH)))
        if units(text) < room:  # and the end of the line
            return f"{text}\n", SHORTENED if at or is_long else how
    return (f"{clip(text, room - 1)}\n" if room > len("{}…") else ""), SHORTENED


def _is_said(name: str, value: object, said: AbstractSet[str]) -> bool:
    """Return whether the position has a member whole; one of a text's several lines is not looked for.

    It has a step's id without the phase before it.
    """
    text = str(value) if isinstance(value, int) else value.strip() if isinstance(value, str) else ""
    return (text.partition(":")[2] or text if name == "current_step_id" else text) in said


def _are_as_usual(phases: dict[str, Any], current: str | None) -> bool:
    """Return whether phases are completed before the current one and pending after it, and it has only its steps."""
    names = [*phases]
    at = names.index(current) if current in names else -1
    usual = [
        ("completed" if place < at else "pending", phases[name]) for place, name in enumerate(names) if place != at
    ]
    own = phases[names[at]] if at >= 0 else {}
    is_usual = own.get("status", "pending") in ("pending", "in_progress", "completed")
    return (
        is_usual
        and own.keys() - TIMES <= {"status", "completed_steps", "current_step"}
        and all([one == {"status": status} for status, one in usual])
    )


def _has_only_status(of_phase: dict[str, Any]) -> bool:
    return of_phase.keys() - TIMES <= {"status", "name", "phase_name", "id"}


def _describe_phase(of_phase: dict[str, Any], status: str) -> dict[str, str]:
    """Return a phase as its status, and its error."""
    error = of_phase.get("error")
    return {"status": status, **({"error": one_line(error, MAX_ERROR)} if error else {})}


def _prune(value: Any, said: AbstractSet[str], items: int, characters: int, depth: int) -> Any:
    """Return a value without times and what is said; of its lists and texts only so much."""
    if isinstance(value, str):
        return clip(value, characters) if len(value) > characters else value
    if not isinstance(value, (dict, list)):
        return value
    if depth == 0:
        return value if items >= 1 << 60 else "…"
    if isinstance(value, list):
        chosen = [(item, _prune(item, said, items, characters, depth - 1)) for item in _choose(value, items)]
        return [pruned for item, pruned in chosen if not (isinstance(item, dict) and _says_no_more(item, pruned, said))]
    kept = list(value.items()) if len(value) <= items * MAX_MEMBERS else list(value.items())[-items * MAX_MEMBERS :]
    pruned = {}
    for name, member in kept:
        if (
            name in TIMES
            or _is_in_position(member, said)
            or (name in PLACES_SAID and isinstance(member, str) and member in said)
        ):
            continue
        count = len(member) if isinstance(member, list) else 0
        shown = _prune(member, said, items, characters, depth - 1)
        if isinstance(member, (list, dict)) and member and not shown:
            continue
        title = name if count <= items or not isinstance(shown, list) else f"{name} ({len(shown)} of {count})"
        title = title if len(title) <= characters + LONG else clip(title, characters + LONG)
        pruned[title] = shown
    return pruned


def _says_no_more(item: dict[str, Any], pruned: dict[str, Any], said: AbstractSet[str]) -> bool:
    """Return whether a list's item is only a place, since what it has besides is said."""
    return pruned.keys() <= PLACES and any([_is_in_position(member, said) for member in item.values()])


def _is_in_position(member: object, said: AbstractSet[str]) -> bool:
    """Return whether the position has a long text, or a list of texts."""
    if isinstance(member, list):
        texts = [text for text in member if isinstance(text, str)] if len(member) <= MAX_MEMBERS else []
        member = "; ".join(texts) if len(texts) == len(member) else ""
    return isinstance(member, str) and len(member) >= LONG and member.strip() in said


def _choose(values: list[Any], most: int) -> list[Any]:
    """Return the items of a list that say most: those at work, then the last ones, in their order."""
    if len(values) <= most:
        return values
    at_work = [at for at, item in enumerate(values) if isinstance(item, dict) and item.get("status") in AT_WORK][:most]
    last = [at for at in range(len(values) - most, len(values)) if at not in at_work]
    return [values[at] for at in sorted([*at_work, *last[len(last) - (most - len(at_work)) :]])]


def _json(value: Any) -> str:
    """Return a value as JSON on one line; characters that hide are replaced in the whole packet."""
    try:
        return _dumps(value)
    except RecursionError:
        return '"…"'
