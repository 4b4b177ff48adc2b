"""A JSON object as text, in which single members can be replaced and every other byte stays as it is."""

from __future__ import annotations

import json
from json import JSONDecodeError
from json.encoder import encode_basestring as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPACE = " \t\n\r"
BOM = "\ufeff"
TOO_DEEP = "it is nested too deeply"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _no_constant(text)


_written = json.JSONEncoder(ensure_ascii=False).encode
_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


class JsonText:
    """The text of one JSON object and where each of its members' values stands in it."""

    def __init__(self, text: str) -> None:
        """Read the text; raises ValueError if it is no JSON object, with the line where there is one."""
        self.text = text
        self.value: dict[str, Any] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self._read()

    def _read(self) -> None:
        text = self.text
        at = self._after_space(1 if text.startswith(BOM) else 0)
        if text[at : at + 1] != "{":
            if at < len(text):
                _value_at(text, at)
                raise ValueError("it is no JSON object")
            raise JSONDecodeError("Expecting value", text, at)
        self.first = at + 1
        at = self._after_space(self.first)
        self.last = self.first
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            name, at = _value_at(text, at)
            at = self._after_space(at)
            if text[at : at + 1] != ":":
                raise JSONDecodeError("Expecting ':' delimiter", text, at)
            start = self._after_space(at + 1)
            self.value[name], self.last = _value_at(text, start)
            self.spans[name] = (start, self.last)
            at = self._after_space(self.last)
            if text[at : at + 1] == ",":
                at = self._after_space(at + 1)
                if text[at : at + 1] != '"':
                    raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            elif text[at : at + 1] != "}":
                raise JSONDecodeError("Expecting ',' delimiter", text, at)
        self.end = at
        after = self._after_space(at + 1)
        if after != len(text):
            raise JSONDecodeError("Extra data", text, after)

    def _after_space(self, at: int) -> int:
        text, size = self.text, len(self.text)
        while at < size and text[at] in SPACE:
            at += 1
        return at

    def with_members(self, members: dict[str, Any]) -> str:
        """Give the text with these members' values: replaced where they stand, else added at the end."""
        pieces, done = [], 0
        for start, end, name in sorted((*self.spans[name], name) for name in members if name in self.spans):
            pieces += [self.text[done:start], self._rendered(members[name])]
            done = end
        added = [name for name in members if name not in self.spans]
        if added:
            pieces.append(self.text[done : self.last])
            done = self.last
            for count, name in enumerate(added):
                comma = "," if self.spans or count else ""
                pieces.append(
                    f"{comma}{self._line_start(bool(comma))}{json.dumps(name)}: {self._rendered(members[name])}"
                )
            if not self.spans:
                pieces.append(self._newline() if self._indent() else "")
                done = self.end
        pieces.append(self.text[done:])
        return "".join(pieces)

    def _rendered(self, value: Any) -> str:
        indent = self._indent()
        text = _on_lines(value, self._newline() + indent, indent) if indent else _written(value)
        return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no other form in a file

    def _indent(self) -> str:
        """Give the white space before the first member; two spaces where the object is empty, none on one line."""
        start = self._after_space(self.first)
        before = self.text[self.first : start]
        if "\n" in before and self.spans:
            return before.rpartition("\n")[2]
        return "" if self.spans else "  "

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _line_start(self, after_comma: bool) -> str:
        indent = self._indent()
        return self._newline() + indent if indent else (" " if after_comma else "")


def _value_at(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, at)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _on_lines(value: Any, line: str, indent: str) -> str:
    """Write a value as `json.dumps` does with an indent, in half the time; `line` begins the line that it stands on."""
    if isinstance(value, str):
        return quoted(value)
    if not value or not isinstance(value, (dict, list)):
        return _written(value)
    inner = line + indent
    if isinstance(value, dict):
        members = [f"{quoted(name)}: {_on_lines(member, inner, indent)}" for name, member in value.items()]
        return "{" + inner + f",{inner}".join(members) + line + "}"
    return "[" + inner + f",{inner}".join([_on_lines(item, inner, indent) for item in value]) + line + "]"
