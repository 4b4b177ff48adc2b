"""Find the secrets that their place gives away: below a column's heading, in a list of codes, on a later line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from faber_ledger.recording.secret_names import KEYS_OF
from faber_ledger.recording.secret_values import UUID, WORDS, is_other, is_prose, strength, words_of
from faber_ledger.recording.tokens import DIGIT_SET, HEX

if TYPE_CHECKING:
    from collections.abc import Iterator

# A line that has something; the newlines between may be escaped ones.
LINE = re.compile(r"(?:[^\n\\]|\\(?!n))+")
RULE = re.compile(r"[\s|:+=-]*-{2}[\s|:+=-]*", re.ASCII)  # between a table's heading and its rows
GAPS = re.compile(r"[ \t]{2,}|\t")
AROUND = " \t\r`*_\"'\\"
HEADING = 40  # the most characters of a column's heading
BULLET = re.compile(r"[\s#>|]*(?:[-*•+]\s+|\d{1,2}[.):]\s+|\[.?\]\s+)?", re.ASCII)
CODE = re.compile(r"[A-Za-z0-9]{4,16}(?:-[A-Za-z0-9]{3,10}){0,9}", re.ASCII)
SAME_GROUPS = re.compile(r"[a-f0-9]{4,8}(?:-[a-f0-9]{4,8})+", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d|20\d\d", re.ASCII)
CODES_IN_LINE = 10
LINES = 24  # of a list of codes
LATER = re.compile(
    r"(?=(?P<said>[^\n\\]{0,160}))(?P=said)(?:[\s#>|]|\\n){1,12}(?P<label>[^\W\d_][^\n:=\\]{0,24}[:=]\s{0,20})?"
    r"[`\"']?(?P<value>[^\s\"'`\\]{8,128})[`\"']?[ \t]*(?=\n|\r|\\[nr]|[\"'|]|\Z)"
)
MADE = re.compile(
    r"following|folgend"
    r"|generat|reset|chang|creat|new|temporar|autogen|set to|zurück|erzeug|neu|generier|änder|réinit|génér|nouve"
    r"|restabl|gener|nuev|cambi|temporal|provis",
    re.IGNORECASE,
)
LABELS = re.compile(r"(?:.*\s)?(?:value|wert|valeur|valor|it|neu|neuer|new|nouveau|nouvelle|nueva?)\s*[:=]\s*", re.I)


def find_columns(text: str, names: list[tuple[int, int, str]]) -> Iterator[tuple[int, int]]:
    """Return where the cells are below the headings that are a secret's name, in tables of any kind."""
    names = [name for name in names if name[2] in ("password", "key") or (name[2] == "code" and name[1] - name[0] > 4)]
    if not names:
        return
    place, mark, count = 0, "", 0
    columns: dict[int, str] = {}
    heading: re.Match[str] | None = None
    for line in LINE.finditer(text):
        if mark:
            if mark in "|+" and RULE.fullmatch(line[0]):
                continue
            cells = _cells(line, mark)
            if len(cells) == count:
                yield from [
                    cells[at] for at, group in columns.items() if _is_cell(text[slice(*cells[at])], group, mark)
                ]
                continue
            mark = ""
        if heading:
            mark, columns, count = _read_heading(text, heading, line, names, place)
            if mark and mark != "|":
                cells = _cells(line, mark)
                yield from [
                    cells[at] for at, group in columns.items() if _is_cell(text[slice(*cells[at])], group, mark)
                ]
        while place < len(names) and names[place][0] < line.start():
            place += 1
        is_named = place < len(names) and names[place][0] < line.end() and line.end() - line.start() < 1_000
        heading = line if is_named else None


def _read_heading(
    text: str, heading: re.Match[str], line: re.Match[str], names: list[tuple[int, int, str]], place: int
) -> tuple[str, dict[int, str], int]:
    """Return what divides a table's cells, its columns of secrets, and how many there are; "" if it is no table."""
    marks = "|" if "|" in heading[0] and RULE.fullmatch(line[0]) else ",;\t "
    for mark in marks:
        if mark not in heading[0] or (mark == " " and "  " not in heading[0]):
            continue
        cells = _cells(heading, mark)
        is_table = len([start for start, end in cells if text[start:end].strip()]) > 1 and (
            mark == "|" or len(_cells(line, mark)) == len(cells)
        )
        if mark in ",;" and (is_table and any(text[start - 1 : start + 1] == f"{mark} " for start, _ in cells[1:])):
            is_table = False
        columns = _named_columns(text, cells, names, place) if is_table else {}
        if columns:
            return mark, columns, len(cells)
    return "", {}, 0


def _named_columns(
    text: str, cells: list[tuple[int, int]], names: list[tuple[int, int, str]], place: int
) -> dict[int, str]:
    """Return the columns whose heading is a secret's name, and of what."""
    columns = {}
    for at, (start, end) in enumerate(cells):
        name = text[start:end].strip(AROUND)
        while place < len(names) and names[place][0] < start:
            place += 1
        if place == len(names) or names[place][1] > end or len(name) > HEADING or len(name.split()) > 4:
            continue
        group = names[place][2]
        words = words_of(name.lower())
        is_vague = group == "key" and KEYS_OF.isdisjoint(words) and "token" not in words and "apikey" not in words
        if not is_vague and not is_other(name, group):
            is_key = group == "key" or "secret" in name.lower() or "credential" in name.lower()
            columns[at] = "key" if is_key else group
    return columns


def _cells(line: re.Match[str], mark: str) -> list[tuple[int, int]]:
    """Return where a line's cells begin and end."""
    start, end = line.span()
    if mark == " ":
        begin = start + len(line[0]) - len(line[0].lstrip())
        edges = [gap.span() for gap in GAPS.finditer(line.string, begin, end)]
    else:
        edges = [(at, at + 1) for at in range(start, end) if line.string[at] == mark]
        begin = start
        if mark == "|" and edges and not line.string[start : edges[0][0]].strip(" \t#>/*"):
            begin = edges.pop(0)[1]
        if mark == "|" and edges and not line.string[edges[-1][1] : end].strip():
            end = edges.pop()[0]
    return list(zip([begin, *[edge[1] for edge in edges]], [*[edge[0] for edge in edges], end], strict=True))


def _is_cell(cell: str, group: str, mark: str) -> bool:
    """Return whether a cell of a column of secrets has one."""
    word = cell.strip(AROUND)
    sure = strength(word, is_quoted=True)
    if group == "code":
        return _is_code(word)
    if group == "key" or mark == " ":
        is_key = UUID.fullmatch(word) or (len(word) >= 16 and not word.strip(HEX))
        return bool(is_key) or (sure > 1 and " " not in word and len(word) > 6 and not WORDS.fullmatch(word))
    if " " in word:
        return strength(word.replace(" ", "-")) > 1 and not is_prose(word)
    return sure > 0


def find_codes(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Return where the codes are that stand alone on the lines below a name."""
    lines = LINE.finditer(text, at, min(len(text), at + 2_000))
    next(lines, None)
    for line, _ in zip(lines, range(LINES), strict=False):
        start = line.start() + len(BULLET.match(line[0])[0])  # type: ignore[index]  # it matches an empty text, too
        said = text[start : line.end()].strip(" \t\r\"'`|,;")
        codes = said.replace(",", " ").replace('"', " ").replace("|", " ").split()
        is_list = 0 < len(codes) <= CODES_IN_LINE and all([_is_code(code.strip("`'\"")) for code in codes])
        if not is_list:
            return
        begin = text.find(said, start)
        yield begin, begin + len(said)


def _is_code(word: str) -> bool:
    if CODE.fullmatch(word) is None or DATE.fullmatch(word):
        return False
    return not DIGIT_SET.isdisjoint(word) or SAME_GROUPS.fullmatch(word) is not None


def find_later(text: str, at: int) -> tuple[int, int] | None:
    """Return where a password is on the line after the one that says it was made: `New value: …`."""
    has_line = text.find("\n", at, at + 162) >= 0 or text.find("\\n", at, at + 162) >= 0
    found = LATER.match(text, at) if has_line else None
    if found is None:
        return None
    sure, label = strength(found["value"]), found["label"] or ""
    before = text[max(0, at - 60) : at].rpartition("\n")[2]
    is_led = MADE.search(before + found["said"]) or LABELS.fullmatch(label)
    is_secret = is_led and sure > (1 if label or found["said"].endswith(":") else 2) and DIGIT_SET & set(found["value"])
    return found.span("value") if is_secret and not WORDS.fullmatch(found["value"]) else None
