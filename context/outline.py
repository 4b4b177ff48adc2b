"""An outline of a long text: the parts that a phase and a step need, in the order of their lines, each cut named.

What is needed follows from the kind of text. Of a specification it is what RECON wants (0.2); where headings have other
words, lists of requirements, criteria and files are found by their form, and short sections by their length. Of a
protocol it is what it says of the step, of the phase, of failures and of the state, and what stands before the first
phase. A section's own text counts; its subsections are shown if it says nothing itself, and else are to be read.
"""

from __future__ import annotations

from faber_ledger.context.markdown import BELOW_HEADINGS, body_start, sections_naming, sections_of, wanted_in, words_in
from faber_ledger.files.text import clip, one_line, share_room, units
from faber_ledger.runs.progress import PHASES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.markdown import Section

    Span = tuple[int, int]  # lines, counted from 0; the second is not in it
    Piece = tuple[int, int, str]  # a span of whole lines, and their text
    Group = tuple[list[Span], int]  # lines that belong together, and the units that they may have


MARK = "====="
USUAL = 6_500  # units of an outline: with more room each part may have more
MAX_HEADINGS = 120  # units of the headings that the marks of the cuts name
MAX_TITLE = 60
MORE = "; …"
MIN_TEXT = 160  # units: fewer of a part say nothing
LITTLE = 80  # units: a section's own text that only leads to what is below it
SHORT = 500  # units of a section that is short
FIRST, OTHER, FEW = 5_500, 1_300, 500  # units of the most important part, of others, and of what is only to be known
MOST_RULES, UNKNOWN = 2_000, 1_500  # units of a protocol's rules, and of a text of which nothing is known
WANTED = ("requirements", "summary", "phases", "acceptance_criteria", "files")  # of a specification
WANTED_OF = {
    "evaluate": ("acceptance_criteria", "summary", "requirements", "files", "phases"),
    "release": ("acceptance_criteria", "summary", "requirements", "files", "phases"),
}
LIMITS = ("out of scope", "non-goals")  # words of headings
# Words of headings under which a protocol says what holds in every phase.
FAILURES = frozenset(["error", "errors", "fail", "fails", "failed", "failure", "failures", "retry", "retries"])
STATES = frozenset(["state", "states", "status"])
QUESTIONS = frozenset(["feedback", "question", "questions"])  # words of headings about what the user is asked
BOXES = ("- [ ]", "- [x]", "* [ ]", "* [x]")
MOST_BY_TEXT = 3  # sections whose texts have words of failures
LEAST_LIST = 3  # items of a list that says something
LEAST_ITEMS = 2  # of a list or a table that has a form


def outline(
    text: str,
    room: int,
    look: int,
    *,
    mark: str = MARK,
    kind: str = "",
    phase: str = "",
    step: str = "",
    is_waiting: bool = False,
    fills: bool = False,
) -> tuple[str, list[Span]]:
    """Return a text's outline in at most `room` UTF-16 units, and the lines to read besides; it may be empty.

    `kind` is "specification", "protocol" or another. Each cut is a line that begins with `mark`. Only the first `look`
    characters are read, up to the end of a line. One that `fills` the room goes on with what is not needed. The lines
    to read are those that are needed and left out; all if it is not known which are needed. Of a protocol they are
    those about feedback while the run `is_waiting` for an answer, if a heading names it.
    """
    text = text.rstrip()
    total = text.count("\n") + 1
    look = max(look, room + 1)  # so that a line does not fit if only a part of it is read
    if len(text) > look:
        end = text.rfind("\n", 0, look)
        text = text[: end if end > 0 else look]
    lines = text.split("\n")
    sections = sections_of(lines)
    groups, is_known = _list_needed(lines, sections, kind, phase, step)
    outlined = _Outline(lines, sections, total, mark)
    needed = [span for spans, _ in groups for span in spans]
    limits = {one["start"] for word in LIMITS for one in sections_naming(sections, word)}
    to_read = sorted([span for spans, most in groups for span in spans if most != FEW or span[0] not in limits])
    begins = body_start(lines)
    rest = [(begins, sections[0]["start"] if sections else len(lines))]
    rest += [(section["start"], section["own_end"]) for section in sections]
    taken = {span[0] for span in needed}
    more = room if fills else 0 if groups else UNKNOWN
    groups = [(spans, most or more) for spans, most in groups]
    groups.append(([span for span in rest if span[0] not in taken and span[1] > span[0]], more))
    pieces = outlined.choose(groups, room)
    if not pieces:
        return "", [(0, total)]
    shown = outlined.render(pieces, room)
    asked = _with_words(sections, QUESTIONS) if is_waiting and kind == "protocol" else []
    if asked:
        return shown, outlined.missing(pieces, sorted([(one["start"], one["end"]) for one in asked]))
    if not is_known:
        return shown, outlined.missing(pieces, [(0, total)])
    return shown, outlined.missing(pieces, [*to_read, (len(lines), total)])


def lines_about_failures(text: str, phase: str) -> list[Span]:
    """Return the lines in which a protocol says what to do when a step fails, and those about a phase."""
    lines = text.rstrip().split("\n")
    sections = sections_of(lines)
    named = [*_about_failures(lines, sections, phase), *sections_naming(sections, phase)]
    return _join(sorted({(section["start"], section["end"]) for section in named}))


def _list_needed(
    lines: list[str], sections: list[Section], kind: str, phase: str, step: str
) -> tuple[list[Group], bool]:
    """Return what is needed of a text, the most important first, no line twice, and whether it is all that is.

    A protocol of which no heading names the phase or the step may say anywhere what holds for them.
    """
    if kind == "specification":
        found, is_known = _needed_of_specification(lines, sections, phase)
        is_known &= phase != "architect"  # the phase that writes it
    else:
        named = [sections_naming(sections, word) for word in (step, phase) if word]
        found = [(_outermost(chosen), OTHER) for chosen in named if chosen]
        is_known = bool(found)
        if kind == "protocol":
            about, before = _about_failures(lines, sections, phase), _before_phases(sections, phase)
            about = about if len(about) <= MOST_BY_TEXT or _with_words(about, FAILURES) else []
            rules = [*about, *_with_words(sections, STATES)]
            # The rules hold in every phase.
            found = [(rules, MOST_RULES if found or before else FIRST), *found, (before, MOST_RULES)]
        else:
            rules = _with_words(sections, FAILURES)
            if not found:
                found, is_known = _needed_of_specification(lines, sections, phase)
                is_known |= bool(rules)
            found.append((rules, MOST_RULES if found else FIRST))
    groups: list[Group] = []
    seen: set[int] = set()
    every = {one["start"] for chosen, _ in found for one in chosen}
    for chosen, most in found:
        own = list({one["start"]: one for one in chosen if one["start"] not in seen}.values())
        seen.update([one["start"] for one in own])
        below = [one for one in _below(sections, own) if one["start"] not in seen | every]
        seen.update([one["start"] for one in below])
        says_nothing = not any([_says_something(lines, one) for one in own])
        spans = [(one["start"], one["own_end"]) for one in own]
        spans_below = [(one["start"], one["own_end"]) for one in below]
        groups.append((sorted([*spans, *spans_below]) if says_nothing else spans, most))
        if below and not says_nothing:
            groups.append((spans_below, 0))
    return [group for group in groups if group[0]], is_known


def _with_words(sections: list[Section], wanted: frozenset[str]) -> list[Section]:
    """Return the sections whose headings have one of the words."""
    titled = [section for section in sections if 1 < section["level"] < BELOW_HEADINGS]
    return [section for section in titled if not wanted.isdisjoint(words_in(section["title"], ""))]


def _about_failures(lines: list[str], sections: list[Section], phase: str) -> list[Section]:
    """Return the sections about failures: by headings that are not below another phase's, else by texts of no phase."""
    others = [one for name in PHASES if name != phase for one in sections_naming(sections, name)]
    below = {one["start"] for one in _below(sections, others)}
    if named := _with_words([one for one in sections if one["start"] not in below], FAILURES):
        return named
    of_phases = [*others, *sections_naming(sections, phase)]
    taken = {one["start"] for one in [*of_phases, *_below(sections, of_phases)]}
    rest = [one for one in sections if 1 < one["level"] < BELOW_HEADINGS and one["start"] not in taken]
    texts = ["\n".join(lines[one["start"] + 1 : one["own_end"]]) for one in rest]
    return [one for one, text in zip(rest, texts, strict=True) if not FAILURES.isdisjoint(words_in(text, ""))]


def _needed_of_specification(
    lines: list[str], sections: list[Section], phase: str
) -> tuple[list[tuple[list[Section], int]], bool]:
    """Return what is needed of a specification: by the words of headings, else by the form of what is below them.

    Also return whether requirements or criteria are among it: else they may be under any other heading.
    """
    by_word, by_form = wanted_in(sections), _find_forms(lines, sections)
    found, lacking = [], 0
    for place, name in enumerate(WANTED_OF.get(phase, WANTED)):
        chosen = by_word[name] or by_form.get(name, [])
        lacking += not by_word[name]
        found.append((chosen, FIRST if not place else OTHER))
    is_known = any([by_word[name] or name in by_form for name in ("requirements", "acceptance_criteria")])
    if not by_word["requirements"] and "requirements" not in by_form:
        found.append((by_form.get("lists", []), OTHER))
        is_known |= "lists" in by_form
    if not any([chosen for chosen, _ in found]):
        return [], False  # it begins at its beginning
    limits = [section for word in LIMITS for section in sections_naming(sections, word)]
    titles = [section for section in sections if section["level"] == 1][:1]
    found += [(_without_below(limits), FEW), (_without_below(titles), FEW)]
    if lacking > 1:
        short = [one for one in sections if one["level"] < BELOW_HEADINGS and 0 < _length(lines, one) <= SHORT]
        found.append((short, OTHER))
    return found, is_known


def _without_below(sections: list[Section]) -> list[Section]:
    """Return sections as if they had no subsections, which then are not needed."""
    return [{**section, "end": section["own_end"]} for section in sections]


def _find_forms(lines: list[str], sections: list[Section]) -> dict[str, list[Section]]:
    """Return the sections that have the form of criteria (boxes), requirements (items with ids) or files (paths)."""
    found: dict[str, list[Section]] = {}
    for section in sections:
        said = [line.strip() for line in lines[section["start"] + 1 : section["own_end"]] if line.strip()]
        items = [item for item in said if item[0] in "-*|+" or item[0].isdecimal()]
        if len(items) >= LEAST_LIST and 2 * len(items) >= len(said):
            found.setdefault("lists", []).append(section)
        forms = {
            "acceptance_criteria": sum([item.lower().startswith(BOXES) for item in items]),
            "requirements": sum([_has_id(item) for item in items]),
            "files": sum([_has_path(item) for item in items]),
        }
        for name, count in forms.items():
            if count >= LEAST_ITEMS and 2 * count >= len(items) - 2:
                found.setdefault(name, []).append(section)
                break
    return found


def _has_id(item: str) -> bool:
    """Return whether a list's item begins with an id, such as `FR-1` or `**R12**`."""
    word = item.lstrip("-*+| ").partition(" ")[0].strip("*:`|.()")
    letters = word.rstrip("0123456789").rstrip("-_.")
    return word[-1:].isdecimal() and 0 < len(letters) <= len("NFR-X") and letters.replace("-", "").isupper()


def _has_path(item: str) -> bool:
    """Return whether a list's item or a table's row names a file."""
    words = item.replace("`", " ").replace("|", " ").split()
    return any(["/" in word or word.rpartition(".")[2] in ("py", "ts", "js", "md", "go", "rs") for word in words])


def _before_phases(sections: list[Section], phase: str) -> list[Section]:
    """Return the sections before the first heading that names a phase; none if no heading does."""
    starts = [found["start"] for name in {*PHASES, phase} for found in sections_naming(sections, name)]
    first = min(starts, default=0)
    return [
        {**section, "end": min(section["end"], first)}
        for section in sections
        if section["start"] < first and section["level"] < BELOW_HEADINGS
    ]


def _outermost(chosen: list[Section]) -> list[Section]:
    """Return those of some sections that are not below another one of them."""
    return [one for one in chosen if not any([other["start"] < one["start"] < other["end"] for other in chosen])]


def _below(sections: list[Section], chosen: list[Section]) -> list[Section]:
    """Return the subsections of sections."""
    return [
        section
        for section in sections
        if any([one["start"] < section["start"] < one["end"] and section["level"] > one["level"] for one in chosen])
    ]


def _says_something(lines: list[str], section: Section) -> bool:
    """Return whether a section has more than a heading and a lead to what is below it: a list, or some text."""
    own = [line.strip() for line in lines[section["start"] + 1 : section["own_end"]]]
    return _length(lines, section) >= LITTLE or sum([line[:2] in ("- ", "* ", "1.", "2.") for line in own]) > 1


def _length(lines: list[str], section: Section) -> int:
    """Return the units of a section's own text, without its heading."""
    return sum([units(line.strip()) for line in lines[section["start"] + 1 : section["own_end"]]])


class _Outline:
    """What an outline of some lines shows; `total` counts those that are not looked at, too."""

    def __init__(self, lines: list[str], sections: list[Section], total: int, mark: str) -> None:
        self.lines = lines
        self.total = total
        self.mark = mark
        self.cost_of_cut = units(mark) + len(" lines - are left out, with \n") + 2 * len(str(total))
        titled = [section for section in sections if section["level"] < BELOW_HEADINGS]
        titled = titled[len(titled) > 0 and titled[0]["end"] >= titled[-1]["end"] :]  # the title of all names no part
        top = min([section["level"] for section in titled], default=1)
        self.headings = [(section["start"], _heading(section)) for section in titled if section["level"] <= top]
        self._for_headings = min(sum([units(text) for _, text in self.headings]), MAX_HEADINGS)

    def choose(self, groups: list[Group], room: int) -> list[Piece]:
        """Return the pieces to show, in the order of their lines: of each group as much as it may have."""
        room -= self.cost_of_cut + min(self._for_headings, room // 5)
        scale = max(room / USUAL, 1)
        sizes = [sum([units(self._text(*span)) + self.cost_of_cut for span in spans]) for spans, _ in groups]
        wanted = [
            (min(at, 1) + (at == len(groups) - 1), min(MIN_TEXT, size, most), min(size, int(most * scale)))
            for at, (size, (_, most)) in enumerate(zip(sizes, groups, strict=True))
        ]
        limits = share_room(wanted, room)
        return sorted(
            [piece for (spans, _), limit in zip(groups, limits, strict=True) for piece in self._pieces(spans, limit)]
        )

    def _pieces(self, spans: list[Span], room: int) -> list[Piece]:
        """Return the lines of spans in order, as many as fit; a heading alone is nothing."""
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
        """Return the first lines that fit, or the beginning of the first of them that says something."""
        left, at = room, start
        while at < end and units(self.lines[at]) + 1 <= left:
            left -= units(self.lines[at]) + 1
            at += 1
        kept = self.lines[start:at]
        says = [line for line in kept if line.strip() and not line.lstrip().startswith("#")]
        if not says and left > MIN_TEXT and at < end:
            kept = [*kept, clip(self.lines[at], left - 1)]
            return start, at, "\n".join(kept) + "\n"
        while at > start and (not self.lines[at - 1].strip() or self.lines[at - 1].lstrip().startswith("#")):
            at -= 1
        text = "\n".join(self.lines[start:at]).rstrip()
        return start, at, f"{text}\n" if text else ""

    def render(self, pieces: list[Piece], room: int) -> str:
        """Return the pieces with a mark for each cut, which names headings as there is room."""
        bare = units(self._join_pieces(pieces, set()))
        left, listed = min(room - bare - len(f", with {MORE}") * len(self.gaps(pieces)), MAX_HEADINGS), set()
        shown = {at for start, end, _ in pieces for at in range(start, end)}
        for start, text in self.headings:
            if start not in shown:
                left -= units(text) + len("; ")
                if left < 0:
                    break
                listed.add(start)
        return self._join_pieces(pieces, listed)

    def _join_pieces(self, pieces: list[Piece], listed: set[int]) -> str:
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
        """Return the lines that no piece shows, with the empty ones around them; none where all are empty."""
        shown = [at for start, end, _ in pieces for at in range(start, end) if self.lines[at].strip()]
        begins = [0, *[at + 1 for at in shown]]
        return [span for span in zip(begins, [*shown, self.total], strict=True) if self._says(*span)]

    def missing(self, pieces: list[Piece], spans: list[Span]) -> list[Span]:
        """Return the lines of spans that no piece shows, but for empty ones; the spans are in order."""
        gaps = self.gaps(pieces)
        both = [(max(one, first), min(end, last)) for one, end in _join(spans) for first, last in gaps]
        return [span for span in both if span[0] < span[1] and self._says(*span)]

    def _says(self, start: int, end: int) -> bool:
        """Return whether one of some lines is not empty, or was not read."""
        return end > max(start, len(self.lines)) or any([line.strip() for line in self.lines[start:end]])

    def _cut(self, start: int, end: int, listed: set[int]) -> str:
        """Return the mark of a cut: its lines, and the headings in it."""
        where = f"line {end} is" if end == start + 1 else f"lines {start + 1}-{end} are"
        headings = [(at, text) for at, text in self.headings if start <= at < end]
        named = [text for at, text in headings if at in listed]
        more = MORE if named and len(named) < len(headings) else ""
        return f"{self.mark} {where} left out{', with ' if named else ''}{'; '.join(named)}{more}\n"


def _heading(section: Section) -> str:
    return f"{section['start'] + 1}-{section['end']}: {one_line(section['title'], MAX_TITLE)}"


def _join(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][0] <= start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
