"""An outline of a long text: the parts that matter most, in the order of their lines, and a mark for each cut.

The mark names the lines that are left out and the headings in them, so the reader can look up any of them. What matters
most is decided by the caller: the part about the current step, or in a specification its summary, criteria,
requirements, files and phases (RECON, 0.2).
"""

from __future__ import annotations

from faber_ledger.files.text import clip, one_line, shares, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Section(TypedDict):
        """A heading and its lines, counted from 0: `own_end` is at the next heading, `end` at the next of its level."""

        level: int
        title: str
        start: int
        own_end: int
        end: int

    Span = tuple[int, int]  # lines, counted from 0; the second is not in it
    Heading = tuple[Section, str]  # and how it is named
    Piece = tuple[int, int, str]  # a span of whole lines, and their text with the beginning of the next one


MARK = "====="
IMPORTANT = ("summary", "acceptance_criteria", "requirements", "files", "phases")  # of WANTED, or words of headings
HEADINGS_SHARE = 0.3  # of the room, for the headings of what is left out
MAX_TITLE = 90
MIN_TEXT = 160  # units: fewer of a part say nothing
ITS_REST = " (its rest); "
KEPT = 0.75  # of the room that is left, for all that comes after a part
KEPT_OF_SPECIFICATION = 0.1  # for all that comes after its most important part


def outline(
    text: str,
    room: int,
    look: int,
    *,
    mark: str = MARK,
    named: tuple[str, ...] = (),
    important: tuple[str, ...] = IMPORTANT,
    always: tuple[str, ...] = (),
) -> tuple[str, list[Span]]:
    """Return a text's outline in at most `room` UTF-16 units, and the lines to read besides; it may be empty.

    Sections whose headings have one of the `named` words come first, without any those that are `important`; then those
    with one of the words that count `always`, what is below all these, and the rest from the top. Each cut is a line
    that begins with `mark`. Only the first `look` characters are read, up to the end of a line. The lines to read are
    those that are left out of all sections but the rest; of the whole text if no section has a word that it should.
    """
    text = text.rstrip()
    total = text.count("\n") + 1
    look = max(look, room + 1)  # so that a line does not fit if only a part of it is read
    if len(text) > look:
        end = text.rfind("\n", 0, look)
        text = text[: end if end > 0 else look]
    lines = text.split("\n")
    sections = sections_of(lines)
    heads = [found for word in named if (found := sections_naming(sections, word))]
    is_known = bool(heads) or not named
    kept = KEPT if heads else KEPT_OF_SPECIFICATION
    if not heads:
        wanted = wanted_in(sections)
        heads = [wanted[name] if name in wanted else sections_naming(sections, name) for name in important]
    groups = _groups(lines, sections, [*heads, *[sections_naming(sections, word) for word in always]])
    outlined = _Outline(lines, sections, total, mark)
    for_headings = min(outlined.size_of_headings, int(room * HEADINGS_SHARE))
    pieces = outlined.choose(groups, room - for_headings, kept)
    if not pieces:
        return "", [(0, total)]
    shown = outlined.render(pieces, room)
    matter = sorted(span for group in groups[:-1] for span in group) if is_known else []
    return shown, outlined.missing(pieces, [*matter, (len(lines), total)] if matter else [(0, total)])


class _Outline:
    """What an outline of some lines shows; `total` counts those that are not looked at, too."""

    def __init__(self, lines: list[str], sections: list[Section], total: int, mark: str) -> None:
        self.lines = lines
        self.total = total
        self.mark = mark
        self.cost_of_cut = units(mark) + len(" lines - are left out: \n") + 2 * len(str(total))
        titles = [one for one in sections if one["level"] < BELOW_HEADINGS]
        is_title = len(titles) > 1 and titles[0]["end"] >= titles[-1]["end"]  # of all of it: it names no part
        self.headings = [(one, _heading(one)) for one in titles[is_title:]]
        self.size_of_headings = sum([units(text) + len(ITS_REST) for _, text in self.headings])

    def choose(self, groups: list[list[Span]], room: int, kept: float) -> list[Piece]:
        """Return the pieces to show, in the order of their lines.

        Each group is as long as the later ones keep their part, `kept` beside the first; the last takes what is left.
        """
        room -= self.cost_of_cut
        wanted = [sum([units(self._text(*span)) + self.cost_of_cut for span in group]) for group in groups[:-1]]
        pieces = []
        for at, group in enumerate(groups):
            of_others = shares(wanted[at + 1 :], int(room * (KEPT if at else kept)))
            for piece in self._pieces(group, room - sum(of_others)):
                pieces.append(piece)
                room -= units(piece[2]) + self.cost_of_cut
        return sorted(pieces)

    def _pieces(self, spans: list[Span], room: int) -> list[Piece]:
        """Return the lines of spans in order, as many as fit."""
        pieces = []
        for start, end in _join(spans):
            text = self._text(start, end)
            left = room - self.cost_of_cut
            if units(text) > left:
                if left < MIN_TEXT:
                    break
                piece = self._beginning(start, end, left)
            else:
                piece = (start, end, text)
            if piece[2]:
                pieces.append(piece)
            room = left - units(piece[2])
        return pieces

    def _text(self, start: int, end: int) -> str:
        body = "\n".join(self.lines[start:end]).rstrip()
        return f"{body}\n" if body else ""

    def _beginning(self, start: int, end: int, room: int) -> Piece:
        """Return the first lines that fit, or the beginning of the first."""
        left, at = room, start
        while at < end and units(self.lines[at]) + 1 <= left:
            left -= units(self.lines[at]) + 1
            at += 1
        kept = self.lines[start:at]
        if left > MIN_TEXT and at < end:
            kept = [*kept, clip(self.lines[at], left - 1)]
        while at > start and len(kept) == at - start and not kept[-1].strip():
            kept.pop()
            at -= 1
        text = "\n".join(kept).rstrip()
        return start, at, f"{text}\n" if text else ""

    def render(self, pieces: list[Piece], room: int) -> str:
        """Return the pieces with a mark for each cut, which names headings as there is room."""
        bare = units(self._join_pieces(pieces, []))
        return self._join_pieces(pieces, self._list_headings(pieces, room - bare))

    def _list_headings(self, pieces: list[Piece], room: int) -> list[Heading]:
        """Return the headings of sections that are not shown whole; without room only the first levels."""
        cut = []
        at = 0
        for section, text in self.headings:
            while at < len(pieces) and pieces[at][1] < section["own_end"]:
                at += 1
            if at == len(pieces) or section["start"] < pieces[at][0]:
                cut.append((section["level"], section, text))
        deepest = BELOW_HEADINGS
        top = min([level for level, _, _ in cut if level > 1], default=1)
        while deepest > top and sum([units(text) + len(ITS_REST) for level, _, text in cut if level <= deepest]) > room:
            deepest -= 1
        listed = []
        for level, section, text in cut:
            if level <= deepest:
                room -= units(text) + len(ITS_REST)
                if room < 0:
                    break
                listed.append((section, text))
        return listed

    def _join_pieces(self, pieces: list[Piece], listed: list[Heading]) -> str:
        gaps = {end: start for start, end in self.gaps(pieces)}
        texts = []
        for start, _, text in pieces:
            if start in gaps:
                texts.append(self._cut(gaps[start], start, listed))
            elif texts and not self.lines[start - 1].strip():
                texts.append("\n")
            texts.append(text)
        if self.total in gaps:
            texts.append(self._cut(gaps[self.total], self.total, listed))
        return "".join(texts)

    def gaps(self, pieces: list[Piece]) -> list[Span]:
        """Return the lines that no piece shows, with the empty ones before them; none where all are empty."""
        gaps = []
        at = 0
        for start, end in [*[(start, end) for start, end, _ in pieces], (self.total, self.total)]:
            if start > at and (start > len(self.lines) or any([line.strip() for line in self.lines[at:start]])):
                while at and not self.lines[at - 1].strip():
                    at -= 1
                gaps.append((at, start))
            at = end
        return gaps

    def missing(self, pieces: list[Piece], spans: list[Span]) -> list[Span]:
        """Return the lines of spans that no piece shows, but for empty ones; the spans are in order."""
        gaps = self.gaps(pieces)
        missing = []
        for start, end in _join(spans):
            while gaps and gaps[0][1] <= start:
                del gaps[0]
            for first, last in gaps:
                if first >= end:
                    break
                span = max(first, start), min(last, end)
                if span[1] > len(self.lines) or any([line.strip() for line in self.lines[slice(*span)]]):
                    missing.append(span)
        return missing

    def _cut(self, start: int, end: int, listed: list[Heading]) -> str:
        """Return the mark of a cut: its lines, the section that it begins in, and the headings in it."""
        where = f"line {end} is" if end == start + 1 else f"lines {start + 1}-{end} are"
        named = [f"{text}{ITS_REST[:-2]}" for one, text in listed if one["start"] < start < one["own_end"]]
        named += [text for one, text in listed if start <= one["start"] < end]
        return f"{self.mark} {where} left out{': ' if named else ''}{'; '.join(named)}\n"


def _heading(section: Section) -> str:
    title = f"{'#' * section['level']} {one_line(section['title'], MAX_TITLE)}"
    return f"{section['start'] + 1}-{section['end']} {title}"


def _groups(lines: list[str], sections: list[Section], heads: list[list[Section]]) -> list[list[Span]]:
    """Return the line spans in groups, the most important sections first and the rest last, no line twice.

    What is below a section comes after all of them.
    """
    groups: list[list[Span]] = []
    below: list[list[Span]] = []
    taken = {section["start"] for found in heads for section in found}
    seen: set[int] = set()
    for found in heads:
        groups.append([(one["start"], one["own_end"]) for one in found if one["start"] not in seen])
        seen.update([one["start"] for one in found])
        inside = []
        ends = {one["start"]: one["end"] for one in found}
        end = 0
        for section in sections:
            if section["start"] < end and section["start"] not in taken:
                taken.add(section["start"])
                inside.append((section["start"], section["own_end"]))
            end = max(end, ends.get(section["start"], 0))
        below.append(inside)
    rest = [(body_start(lines), sections[0]["start"] if sections else len(lines))]
    rest += [(section["start"], section["own_end"]) for section in sections]
    return [
        *[group for group in [*groups, *below] if group],
        [span for span in rest if span[0] not in taken and span[1] > span[0]],
    ]


def _join(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        adjoins = joined and joined[-1][1] == start
        joined.append((joined.pop()[0] if adjoins else start, end))
    return joined


# What RECON wants from a specification, and the headings that real ones use. Words, not patterns: compiling a dozen
# patterns costs more than the rest of a packet. After "^" the word must begin the heading; a number may precede it.
WANTED = {
    "summary": ("summary", "overview", "goal", "goals", "objective", "objectives", "purpose"),
    "requirements": ("requirement", "requirements"),
    "acceptance_criteria": (
        "acceptance criteria",
        "acceptance tests",
        "^acceptance",
        "success criteria",
        "definition of done",
    ),
    "technical_approach": ("approach", "design", "architecture", "solution"),
    "files": ("files", "file changes"),
    "phases": ("phases", "tasks", "^phase", "^task", "implementation plan", "implementation steps"),
}
BELOW_HEADINGS = 7  # a bold line of its own is a heading inside its section, as in FABER's own template
LONGEST_BOLD = 80  # characters of such a line
MARKS = ("#", "`", "~", "*", "<")  # first characters of headings, code fences, bold lines and comments
FRONT_MATTER_LINES = 200


def sections_of(lines: list[str]) -> list[Section]:
    """Return a text's headings (`#` to `######`, bold lines below them), none of code or comments."""
    found: list[Section] = []
    fence, in_comment = "", False
    begin = body_start(lines)
    for number, line in enumerate(lines[begin:], begin):
        if in_comment:
            in_comment = "-->" not in line
            continue
        stripped = line.strip()
        first = stripped[:1]
        if first not in MARKS or (fence and first != fence[0]):
            continue
        run = len(stripped) - len(stripped.lstrip(first))
        if fence:
            fence = "" if run >= len(fence) and len(stripped) == run else fence
        elif first == "<":
            in_comment = stripped.startswith("<!--") and "-->" not in stripped
        elif first in "`~":
            fence = first * run if run >= 3 else ""
        elif len(line) - len(line.lstrip()) <= 3:
            level, title = _read_heading(stripped, run)
            if title:
                found.append({"level": level, "title": title, "start": number, "own_end": 0, "end": 0})
    open_sections: list[Section] = []
    for section in found:
        while open_sections and open_sections[-1]["level"] >= section["level"]:
            open_sections.pop()["end"] = section["start"]
        open_sections.append(section)
    for section in open_sections:
        section["end"] = len(lines)
    own_ends = [*[section["start"] for section in found], len(lines)][1:]
    for section, own_end in zip(found, own_ends, strict=True):
        section["own_end"] = own_end
    return found


def _read_heading(stripped: str, run: int) -> tuple[int, str]:
    """Return the level and title of a line that begins with `run` marks; an empty title if it is not a heading."""
    if stripped[0] == "#":
        title = stripped[run:].strip()
        plain = title.rstrip("#")
        is_heading = run <= 6 and stripped[run : run + 1] in (" ", "\t")
        return run, (plain.strip() if plain[-1:] in ("", " ", "\t") else title) if is_heading else ""
    title, end, rest = stripped[2:].partition("**")
    is_bold = run == 2 and end and rest in ("", ":") and "*" not in title and len(title) <= LONGEST_BOLD
    return BELOW_HEADINGS, title if is_bold else ""


def body_start(lines: list[str]) -> int:
    """Return the first line after a text's front matter."""
    if lines[0].strip() != "---":
        return 0
    return next((at + 1 for at, line in enumerate(lines[1:FRONT_MATTER_LINES], 1) if line.strip() == "---"), 0)


def wanted_in(sections: list[Section]) -> dict[str, list[Section]]:
    """Return the sections for each thing that RECON wants, in the text's order.

    If a heading of the first three levels names it, deeper ones are parts of other things and are left out; if any
    heading names it, bold lines are.
    """
    found: dict[str, list[Section]] = {name: [] for name in WANTED}
    for section in sections:
        for name in _wanted_by(section):
            found[name].append(section)
    for name, named in found.items():
        of_text = [section for section in named if section["level"] <= 3]
        found[name] = of_text or [section for section in named if section["level"] < BELOW_HEADINGS] or named
    return found


def sections_naming(sections: list[Section], phrase: str) -> list[Section]:
    """Return the sections whose headings name a phase or a step, whose words may be joined by dashes.

    The last word may go on: "generate-spec" is named by "Generate specification", if no heading has the word itself, or
    its plural. Neither the text's title nor a bold line names any.
    """
    wanted = f" {' '.join(_words(phrase, ''))}"
    if not wanted.strip():
        return []
    last = wanted.rsplit(maxsplit=1)[-1]
    headings = [section for section in sections if 1 < section["level"] < BELOW_HEADINGS]
    named = [section for section in headings if last in section["title"].lower()]
    titles = [f" {' '.join(_words(section['title'], ''))} " for section in named]
    exact = [one for one, title in zip(named, titles, strict=True) if f"{wanted} " in title or f"{wanted}s " in title]
    return exact or [section for section, title in zip(named, titles, strict=True) if wanted in title]


def _words(text: str, joining: str) -> list[str]:
    """Return the words of a text in lower case, where the `joining` characters are letters."""
    return "".join([letter if letter.isalnum() or letter in joining else " " for letter in text.lower()]).split()


def _wanted_by(section: Section) -> list[str]:
    """Return which wanted things a section's heading names; a heading of the first level is the text's title.

    A word with a dash is another word: non-goals are not goals.
    """
    if section["level"] == 1:
        return []
    words = _words(section["title"], "-_")
    while words and words[0].isdecimal():
        del words[0]
    title = f"^{' '.join(words)} "
    phrased = f" {title[1:]}"
    return [
        name
        for name, phrases in WANTED.items()
        if any([f"{phrase} " in title if phrase[0] == "^" else f" {phrase} " in phrased for phrase in phrases])
    ]


def front_matter(text: str) -> dict[str, str | None]:
    """Return the plain `key: value` lines of a front matter; a block value is None, anything else is left out."""
    lines = text.split("\n", FRONT_MATTER_LINES)[:FRONT_MATTER_LINES]
    if lines[0].strip() != "---":
        return {}
    found: dict[str, str | None] = {}
    for line in lines[1:]:
        if line.strip() in ("---", "..."):
            return found
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace() and not key.startswith(("#", "-")):
            found.setdefault(key.strip(), _scalar(value))
    return {}  # it never ends: this is a horizontal rule, not front matter


def bold_lines(text: str) -> dict[str, str]:
    """Return the lines `**Key**: value` before a text's second heading; keys in lower case."""
    found: dict[str, str] = {}
    headings = 0
    for line in text.split("\n", FRONT_MATTER_LINES)[:FRONT_MATTER_LINES]:
        headings += line.startswith("#")
        if headings > 1:
            break
        key, bold, value = line.strip().removeprefix("- ").removeprefix("**").partition("**")
        if line.strip().removeprefix("- ").startswith("**") and bold and (key.endswith(":") or value.startswith(":")):
            found.setdefault(key.removesuffix(":").strip().lower(), value.removeprefix(":").strip())
    return found


def title_of(text: str) -> str | None:
    """Return a text's first heading of the first level, or None."""
    return next((section["title"] for section in sections_of(text.split("\n")) if section["level"] == 1), None)


def wanted_sections(text: str) -> dict[str, str | None]:
    """Return the wanted sections with their headings, several of a kind joined, or None."""
    lines = text.split("\n")
    texts: dict[str, str | None] = {}
    for name, sections in wanted_in(sections_of(lines)).items():
        pieces, end = [], 0
        for section in sections:
            if section["start"] >= end:
                end = section["end"]
                pieces.append("\n".join(lines[section["start"] : end]).strip())
        texts[name] = "\n\n".join(pieces) or None
    return texts


def _scalar(value: str) -> str | None:
    """Return a plain or quoted value on one line; None for a block that follows."""
    value = value.strip()
    if value.startswith(("|", ">")):
        return None
    quote = value[:1]
    if quote in ("'", '"'):
        return value.strip(quote).replace(2 * quote, quote)
    return value.split(" #", 1)[0].rstrip()
