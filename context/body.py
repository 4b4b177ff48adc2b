"""An artifact in the packet: between two lines that its text cannot forge, whole, or its parts with each cut named.

These lines, and those of the cuts, begin with a run of `=` that is longer than any at the beginning of a line of the
text. It depends on the text alone, so the same artifact gives the same bytes.
"""

from __future__ import annotations

from faber_ledger.context.messages import described, kilobytes
from faber_ledger.files.text import one_line, units
from faber_ledger.runs.run import is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from faber_ledger.context.outline import Span

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
