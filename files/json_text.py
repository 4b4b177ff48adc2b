"""Replace single members of a JSON object as text, and keep every other byte."""

from __future__ import annotations

from faber_ledger.ledger import encoding
from faber_ledger.ledger.encoding import SPACE, after_space, encode_ascii, encode_text, encoder, raw_decoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Child = tuple[str | int, int, int, int]  # key or index; where it starts, where its value starts, where it ends


INDENT = "  "  # of most files, and of an object that is empty
BOM = "\ufeff"
MARK = '"\\u0000"'  # stands for a member that was read already; what has it as a value is read in one piece
TOO_DEEP = "it is nested too deeply"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if abs(value) == float("inf"):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


_encode = encoder()
_raw_decode = raw_decoder(_finite, _no_constant)


class JsonText:
    """The text of one JSON object, and where each member's value is in it."""

    def __init__(self, text: str, apart: tuple[str, ...] = ()) -> None:
        """Read the text; raises ValueError if it is not a JSON object, with the line where there is one.

        Long members are named in `apart`: where they stand is remembered, so that they need not be read again.
        """
        self.text = text
        self._spans: dict[str, tuple[int, int]] | None = None
        self._places: dict[str, tuple[int, int]] = {}
        start = after_space(text, 1 if text.startswith(BOM) else 0)
        try:
            found = self._read_apart(start, apart)
        except (ValueError, RecursionError):
            found = None  # the whole text's error names the right line
        try:
            value, end = found or _raw_decode(text, start)
        except RecursionError:
            raise ValueError(TOO_DEEP) from None
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        after = after_space(text, end)
        if after != len(text):
            raise encoding.decode_error("Extra data", text, after)
        self.value: dict[str, Any] = value
        self.first, self.end = start + 1, end - 1
        self.last = len(text[: self.end].rstrip(SPACE)) if value else self.first

    def _read_apart(self, start: int, names: tuple[str, ...]) -> tuple[Any, int] | None:
        """Read these members first, then the object with a mark in the place of each; return its value and its end.

        None if there is no such member, or a name that was met is not the object's last member of this name.
        """
        text = self.text
        pieces: list[str] = []
        values: dict[str, Any] = {}
        places: dict[str, tuple[int, int]] = {}
        done = 0
        for first, name in sorted([(text.find(f'"{name}"', start), name) for name in names]):
            at = first if first >= done else text.find(f'"{name}"', done)  # it was met within the one before
            if first < 0 or at < 0:
                continue
            colon = after_space(text, at + len(name) + 2)
            if text[colon : colon + 1] != ":":
                return None
            begin = after_space(text, colon + 1)
            values[name], end = _raw_decode(text, begin)
            places[name] = (begin, end)
            pieces += [text[done:begin], MARK]
            done = end
        rest = "".join([*pieces, text[done:]])
        if values and rest.count(MARK) == len(values):
            value, end = _raw_decode(rest, start)
            if isinstance(value, dict) and all([value.get(name) == "\0" for name in values]):
                self._places = places
                return value | values, end + len(text) - len(rest)
        return None

    def text_of(self, name: str) -> str | None:
        """Return a member's value as it stands in the text, if it was read apart."""
        place = self._places.get(name)
        return self.text[place[0] : place[1]] if place else None

    def has_place(self, name: str) -> bool:
        """Return whether it is known, from reading the whole text, where a member's value stands."""
        return name in self._places or (self._spans is not None and name in self._spans)

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Where each member's value begins and ends; to read it takes long for very many."""
        if self._spans is None:
            self._spans = {str(name): (start, end) for name, _, start, end in list_children(self.text, self.first - 1)}
        return self._spans

    def _span_of(self, name: str) -> tuple[int, int]:
        return self._places.get(name) or self.spans[name]

    def with_members(self, members: dict[str, Any], texts: dict[str, str] | None = None) -> str:
        """Return the text with these members' values: replaced where they stand, else added at the end.

        Values whose `lines_of` are known are not written again: they are in `texts`.
        """
        known = texts if texts and self._indent() == INDENT and self._newline() == "\n" else {}
        rendered = {name: known.get(name) or self._render(value) for name, value in members.items()}
        pieces, done = [], 0
        for start, end, name in sorted((*self._span_of(name), name) for name in members if name in self.value):
            pieces += [self.text[done:start], rendered[name]]
            done = end
        added = [name for name in members if name not in self.value]
        if added:
            pieces.append(self.text[done : self.last])
            done = self.last
            for count, name in enumerate(added):
                comma = "," if self.value or count else ""
                pieces.append(f"{comma}{self._line_start(bool(comma))}{encode_ascii(name)}: {rendered[name]}")
            if not self.value:
                pieces.append(self._newline() if self._indent() else "")
                done = self.end
        pieces.append(self.text[done:])
        return "".join(pieces)

    def _render(self, value: Any) -> str:
        indent = self._indent()
        text = _on_lines(value, self._newline() + indent, indent) if indent else _encode(value)
        return _without_surrogates(text)

    def _indent(self) -> str:
        """Return the white space before the first member: two spaces if there is none, empty if it is on one line."""
        start = after_space(self.text, self.first)
        before = self.text[self.first : start]
        if "\n" in before and self.value:
            return before.rpartition("\n")[2]
        return "" if self.value else "  "

    def _newline(self) -> str:
        at = self.text.find("\n")
        return "\r\n" if at > 0 and self.text[at - 1] == "\r" else "\n"

    def _line_start(self, after_comma: bool) -> str:
        indent = self._indent()
        return self._newline() + indent if indent else (" " if after_comma else "")


def on_lines(value: Any) -> str:
    """Return what `json.dumps` returns with `indent=2` and every character as it is; raises RecursionError."""
    try:
        return _on_lines(value, "\n", INDENT)
    except RecursionError:
        import json  # which writes twice as deep

        return json.dumps(value, indent=2, ensure_ascii=False)


def lines_of(value: Any) -> str:
    """Return a member's value as it stands in an object that is written with two spaces."""
    return _without_surrogates(_on_lines(value, "\n" + INDENT, INDENT))


def lines_grown(before: str, value: dict[str, Any], name: str, kept: int, dropped: int) -> str:
    """Return the `lines_of` an object that has a long list, in time that grows with what is new in it.

    `before` are its lines when the list began with the same `kept` items and had `dropped` others behind them.
    """
    items, opening = value[name], f'\n    "{name}": ['  # this far out, no other list of the object has it
    if not kept or not all([isinstance(item, dict) for item in items[kept : kept + dropped]]):
        return lines_of(value)
    first = before.index(opening) + len(opening)
    last = before.index("\n    ]", first)
    for _ in range(dropped):
        last = before.rindex(",\n      {", first, last)
    line, names = "\n    ", list(value)
    others = {key: f"{encode_text(key)}: {_on_lines(value[key], line, INDENT)}" for key in names if key != name}
    place = names.index(name)
    start = "".join([f"{others[key]},{line}" for key in names[:place]])
    new = "".join([f",\n      {_on_lines(item, line + INDENT, INDENT)}" for item in items[kept:]])
    end = "".join([f",{line}{others[key]}" for key in names[place + 1 :]])
    start, end = f'{{{line}{start}"{name}": [', f"{new}{line}]{end}\n  }}"
    return _without_surrogates(start) + before[first:last] + _without_surrogates(end)


def _without_surrogates(text: str) -> str:
    """Return a text with each lone surrogate as a JSON escape, since it has no other form in a file."""
    return text.encode("utf-8", "backslashreplace").decode()


def list_children(text: str, at: int) -> list[Child]:
    """List the children of the object or array that starts at `at`; the text is known to be JSON."""
    found: list[Child] = []
    is_object = text[at] == "{"
    at = after_space(text, at + 1)
    while text[at] not in "}]":
        start = at
        key: str | int = len(found)
        if is_object:
            key, at = _raw_decode(text, at)
            at = after_space(text, after_space(text, at) + 1)
        end = _raw_decode(text, at)[1]
        found.append((key, start, at, end))
        at = after_space(text, end)
        if text[at] == ",":
            at = after_space(text, at + 1)
    return found


def _on_lines(value: Any, line: str, indent: str) -> str:
    """Write a value as `json.dumps` does with an indent, in half the time; `line` begins the value's line."""
    if isinstance(value, str):
        return encode_text(value)
    if value is None or type(value) is int:  # nearly every other one
        return "null" if value is None else str(value)
    if not value or not isinstance(value, (dict, list)):
        return _encode(value)
    inner = line + indent
    if isinstance(value, dict):
        members = [
            f"{encode_text(name)}: {encode_text(one) if type(one) is str else _on_lines(one, inner, indent)}"
            for name, one in value.items()
        ]
        return "{" + inner + f",{inner}".join(members) + line + "}"
    return "[" + inner + f",{inner}".join([_on_lines(item, inner, indent) for item in value]) + line + "]"
