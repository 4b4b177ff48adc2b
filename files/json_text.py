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

    def __init__(self, text: str) -> None:
        """Read the text; raises ValueError if it is not a JSON object, with the line where there is one."""
        self.text = text
        self._spans: dict[str, tuple[int, int]] | None = None
        start = after_space(text, 1 if text.startswith(BOM) else 0)
        try:
            value, end = _raw_decode(text, start)
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

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Where each member's value begins and ends."""
        if self._spans is None:
            self._spans = {str(name): (start, end) for name, _, start, end in list_children(self.text, self.first - 1)}
        return self._spans

    def text_of(self, name: str) -> str:
        """Return a member's value as the text has it."""
        start, end = self.spans[name]
        return self.text[start:end]

    def with_members(self, members: dict[str, Any], texts: dict[str, str] | None = None) -> str:
        """Return the text with these members' values: replaced where they stand, else added at the end.

        Values whose `lines_of` are known are not written again: they are in `texts`.
        """
        known = texts if texts and self._indent() == INDENT and self._newline() == "\n" else {}
        rendered = {name: known.get(name) or self._render(value) for name, value in members.items()}
        pieces, done = [], 0
        for start, end, name in sorted((*self.spans[name], name) for name in members if name in self.value):
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
