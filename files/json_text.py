"""Replace single members of a JSON object as text, and keep every other byte."""

from __future__ import annotations

import json
from json import JSONDecodeError
from json.decoder import WHITESPACE  # type: ignore[attr-defined]  # a compiled pattern, which the stub leaves out
from json.encoder import encode_basestring as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


SPACE = " \t\n\r"
BOM = "\ufeff"
ESCAPED = ("\\u003", "\\u004", "\\u005", "\\u006", "\\u007")  # letters and digits that need no escape
MAX_CANDIDATES = 8  # places of one name that are tried before all members are read in turn
TOO_DEEP = "it is nested too deeply"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _no_constant(text)


_encode = json.JSONEncoder(ensure_ascii=False).encode
_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


class JsonText:
    """The text of one JSON object, and where each member's value is in it."""

    def __init__(self, text: str) -> None:
        """Read the text; raises ValueError if it is not a JSON object, with the line where there is one."""
        self.text = text
        self._spans: dict[str, tuple[int, int]] | None = None
        start = _after_space(text, 1 if text.startswith(BOM) else 0)
        try:
            value, end = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = None, start
        if not isinstance(value, dict) or _after_space(text, end) != len(text):
            self._walk()  # raises what is wrong, or succeeds, since it needs one level less
            return
        self.value: dict[str, Any] = value
        self.first, self.end = start + 1, end - 1
        self.last = len(text[: self.end].rstrip(SPACE)) if value else self.first

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Where each member's value begins and ends."""
        if self._spans is None:
            self._walk()
        assert self._spans is not None
        return self._spans

    def _walk(self) -> None:
        """Read the text member by member, which takes long for very many."""
        text = self.text
        value: dict[str, Any] = {}
        spans: dict[str, tuple[int, int]] = {}
        at = _after_space(text, 1 if text.startswith(BOM) else 0)
        if text[at : at + 1] != "{":
            if at < len(text):
                _value_at(text, at)
                raise ValueError("it is not a JSON object")
            raise JSONDecodeError("Expecting value", text, at)
        self.first = at + 1
        at = _after_space(text, self.first)
        self.last = self.first
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            name, at = _value_at(text, at)
            at = _after_space(text, at)
            if text[at : at + 1] != ":":
                raise JSONDecodeError("Expecting ':' delimiter", text, at)
            start = _after_space(text, at + 1)
            value[name], self.last = _value_at(text, start)
            spans[name] = (start, self.last)
            at = _after_space(text, self.last)
            if text[at : at + 1] == ",":
                at = _after_space(text, at + 1)
                if text[at : at + 1] != '"':
                    raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            elif text[at : at + 1] != "}":
                raise JSONDecodeError("Expecting ',' delimiter", text, at)
        self.end = at
        after = _after_space(text, at + 1)
        if after != len(text):
            raise JSONDecodeError("Extra data", text, after)
        self.value, self._spans = value, spans

    def _span_of(self, name: str) -> tuple[int, int]:
        """Find one member's value, without reading all others if no name can be written in two ways.

        A name belongs to the object itself if what follows it is the rest of an object that ends where this one does,
        or if what precedes it is the beginning of one.
        """
        text, quoted_name = self.text, f'"{name}"'
        if self._spans is None and name.isidentifier() and name.isascii() and not any(map(text.__contains__, ESCAPED)):
            at = self.end
            for _ in range(MAX_CANDIDATES):
                at = text.rfind(quoted_name, self.first, at)
                if at < 0:
                    break
                colon = _after_space(text, at + len(quoted_name))
                if text[colon] == ":" and text[at - 1] != "\\" and self._is_own(at):
                    start = _after_space(text, colon + 1)
                    return start, _value_at(text, start)[1]
        return self.spans[name]

    def _is_own(self, at: int) -> bool:
        """Return whether the name at a place is a member of the object itself, judged by the shorter side."""
        ends = self.end - at < at - self.first
        side = "{" + self.text[at : self.end + 1] if ends else "{" + self.text[self.first : at] + '"":0}'
        try:
            return _decoder.raw_decode(side)[1] == len(side)
        except (ValueError, RecursionError):
            return False

    def with_members(self, members: dict[str, Any]) -> str:
        """Return the text with these members, replaced in place or added at the end."""
        pieces, done = [], 0
        for start, end, name in sorted((*self._span_of(name), name) for name in members if name in self.value):
            pieces += [self.text[done:start], self._render(members[name])]
            done = end
        added = [name for name in members if name not in self.value]
        if added:
            pieces.append(self.text[done : self.last])
            done = self.last
            for count, name in enumerate(added):
                comma = "," if self.value or count else ""
                pieces.append(
                    f"{comma}{self._line_start(bool(comma))}{json.dumps(name)}: {self._render(members[name])}"
                )
            if not self.value:
                pieces.append(self._newline() if self._indent() else "")
                done = self.end
        pieces.append(self.text[done:])
        return "".join(pieces)

    def _render(self, value: Any) -> str:
        indent = self._indent()
        text = _on_lines(value, self._newline() + indent, indent) if indent else _encode(value)
        return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no other form in a file

    def _indent(self) -> str:
        """Return the white space before the first member: two spaces if there is none, empty if it is on one line."""
        start = _after_space(self.text, self.first)
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


def _after_space(text: str, at: int) -> int:
    after: int = WHITESPACE.match(text, at).end()
    return after


def _value_at(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, at)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _on_lines(value: Any, line: str, indent: str) -> str:
    """Write a value as `json.dumps` does with an indent, in half the time; `line` begins the value's line."""
    if isinstance(value, str):
        return quoted(value)
    if not value or not isinstance(value, (dict, list)):
        return _encode(value)
    inner = line + indent
    if isinstance(value, dict):
        members = [f"{quoted(name)}: {_on_lines(member, inner, indent)}" for name, member in value.items()]
        return "{" + inner + f",{inner}".join(members) + line + "}"
    return "[" + inner + f",{inner}".join([_on_lines(item, inner, indent) for item in value]) + line + "]"
