"""Change single values in a JSON text, each named by its path, and keep every other byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from faber_ledger.files.json_text import BOM, JsonText, list_children
from faber_ledger.ledger.encoding import SPACE, after_space

if TYPE_CHECKING:
    from faber_ledger.files.json_text import Child

Path = tuple[str | int, ...]


def with_child(text: str, path: Path, value: Any, key: str | None = None) -> str:
    """Return the text with one more child at the end of the object (under `key`) or array at `path`."""
    at = _place(text, path)
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    children = list_children(text, at)
    if children:
        _, start, _, end = children[-1]
        gap = text[len(text[:start].rstrip(SPACE)) : start]
        if "\n" not in gap:
            return text[:end] + "," + (gap or " ") + name + _render(text, value, None) + text[end:]
        inner = gap.rpartition("\n")[2]
        return text[:end] + "," + _newline(text) + inner + name + _render(text, value, inner) + text[end:]
    close = after_space(text, at + 1)
    if not _unit(text):
        return text[: at + 1] + name + _render(text, value, None) + text[close:]
    outer, newline = _indent_at(text, at), _newline(text)
    inner = outer + _unit(text)
    return text[: at + 1] + newline + inner + name + _render(text, value, inner) + newline + outer + text[close:]


def with_hook(text: str, event: str, entry: Any) -> str:
    """Return a settings text with one more entry under an event of its `hooks`."""
    value = JsonText(text).value
    if "hooks" not in value:
        return with_child(text, (), {event: [entry]}, "hooks")
    if event not in value["hooks"]:
        return with_child(text, ("hooks",), [entry], event)
    return with_child(text, ("hooks", event), entry)


def without(text: str, path: Path) -> str:
    """Return the text without the child at `path` and its comma."""
    at = _place(text, path[:-1])
    children = list_children(text, at)
    index = _index(children, path[-1])
    _, start, _, end = children[index]
    if len(children) == 1:
        return text[: at + 1] + text[after_space(text, end) :]
    if index == 0:
        return text[:start] + text[children[1][1] :]
    return text[: children[index - 1][3]] + text[end:]


def line_of(text: str, path: Path) -> int:
    """Return the line, counted from 1, on which the value at `path` starts."""
    return text.count("\n", 0, _place(text, path)) + 1


def _place(text: str, path: Path) -> int:
    at = after_space(text, 1 if text.startswith(BOM) else 0)
    for key in path:
        children = list_children(text, at)
        at = children[_index(children, key)][2]
    return at


def _index(children: list[Child], key: str | int) -> int:
    """Find a child; of several members with one name, the last, as every reader of JSON does."""
    return max([index for index, child in enumerate(children) if child[0] == key])


def _render(text: str, value: Any, base: str | None) -> str:
    """Render a value for a place whose line is indented by `base`; None puts it on one line."""
    if base is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text) or "  ").split("\n")
    return (_newline(text) + base).join(lines)


def _unit(text: str) -> str:
    """Return the indentation of the first member: two spaces if there is none, empty if the text is on one line."""
    root = _place(text, ())
    children = list_children(text, root)
    gap = text[root + 1 : children[0][1]] if children else "\n  "
    return gap.rpartition("\n")[2] if "\n" in gap else ""


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
