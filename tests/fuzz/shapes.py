"""Strategies for hostile input: values of any shape, mutated objects, mutated bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

LONGEST = 50_000


def some(count: int) -> settings:
    """Return settings for this many examples, scaled by the profile: `--hypothesis-profile=long` has more."""
    profile = settings()  # those of the profile
    return settings(max_examples=count * profile.max_examples // 100)


ODD_TEXTS = ["", "\0", "a\0b", "\ud800", "\udfff\ud800", "\x1b[31m", "\u202e", "🦀" * 9, "x" * LONGEST, "/", "../../x"]
ODD_TEXTS += ["\n# heading\n", "```", "{}", "null", "-1", "1e999", "'; DROP TABLE event; --", "%s{0}$HOME`id`"]
texts = st.text(max_size=12) | st.sampled_from(ODD_TEXTS)
numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 2**63, 2**64, 10**400, 1e308, -0.0])
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=10
)


def nested(depth: int, kind: str) -> Any:
    """Return an empty list inside `depth` lists or objects."""
    value: Any = []
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


hard_values = st.one_of(
    values,
    st.builds(nested, st.sampled_from([50, 300, 900]), st.sampled_from(["list", "object"])),
    st.builds(lambda: list(range(5_000))),  # a new one each time: it may be mutated
    st.builds(lambda: {str(number): number for number in range(2_000)}),
)


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """Draw a copy of a JSON value with members dropped, retyped, added or swapped at any depth."""
    root = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 4))):
        inside = root
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            below = inside[key]
            if isinstance(below, dict | list) and below and draw(st.booleans()):
                inside = below
                continue
            _mutate(draw, root, inside, key)
            break
    return root


def _mutate(draw: st.DrawFn, root: Any, inside: Any, key: Any) -> None:
    change = draw(st.sampled_from(["drop", "retype", "retype", "wrap", "add", "swap"]))
    if change == "drop":
        del inside[key]
    elif change == "retype":
        inside[key] = draw(hard_values)
    elif change == "wrap":
        inside[key] = draw(st.sampled_from([[inside[key]], {"a": inside[key]}, [[], inside[key]]]))
    elif change == "add" and isinstance(inside, dict):
        inside[draw(texts)] = draw(hard_values)
    elif isinstance(inside, dict):
        other = draw(st.sampled_from(list(inside)))
        inside[key], inside[other] = inside[other], inside[key]


def rendered(value: Any, ascii_only: bool, indent: int | None = None) -> bytes:
    """Return a value's JSON; unless it is ASCII, a lone surrogate is encoded raw, which is not UTF-8."""
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")


@st.composite
def spoiled(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a copy of `content` that is cut, flipped, filled, doubled or in another encoding."""
    how = draw(st.sampled_from(["cut", "cut in front", "flip", "insert", "double", "utf-16", "bom", "nul"]))
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    if how == "cut":
        return content[:at]
    if how == "cut in front":
        return content[at:]
    if how == "flip":
        spoilt = bytearray(content)
        for place in [at, *draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=8))]:
            if spoilt:
                spoilt[place] ^= 1 << draw(st.integers(0, 7))
        return bytes(spoilt)
    if how == "insert":
        return content[:at] + draw(st.binary(max_size=40)) + content[at:]
    if how == "utf-16":
        return content.decode("utf-8", "replace").encode("utf-16")
    return {"double": content + content, "bom": b"\xef\xbb\xbf" + content, "nul": content[:at] + b"\0" * 64}[how]
