"""A markdown text: its headings, the sections that RECON wants of a specification, and its front matter."""

from __future__ import annotations

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
    wanted = f" {' '.join(words_in(phrase, ''))}"
    if not wanted.strip():
        return []
    last = wanted.rsplit(maxsplit=1)[-1]
    headings = [section for section in sections if 1 < section["level"] < BELOW_HEADINGS]
    named = [section for section in headings if last in section["title"].lower()]
    titles = [f" {' '.join(words_in(section['title'], ''))} " for section in named]
    exact = [one for one, title in zip(named, titles, strict=True) if f"{wanted} " in title or f"{wanted}s " in title]
    return exact or [section for section, title in zip(named, titles, strict=True) if wanted in title]


def words_in(text: str, joining: str) -> list[str]:
    """Return the words of a text in lower case, where the `joining` characters are letters."""
    return "".join([letter if letter.isalnum() or letter in joining else " " for letter in text.lower()]).split()


def _wanted_by(section: Section) -> list[str]:
    """Return which wanted things a section's heading names; a heading of the first level is the text's title.

    A word with a dash is another word: non-goals are not goals.
    """
    if section["level"] == 1:
        return []
    words = words_in(section["title"], "-_")
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
