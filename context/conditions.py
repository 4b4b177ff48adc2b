"""The conditions of a workflow's artifacts: a small grammar that is parsed, never executed (RELOAD, Step 3).

either = both {"||" both};  both = equality {"&&" equality};  equality = order {("===" | "!==" | "==" | "!=") order}
order = single {("<" | "<=" | ">" | ">=") single}
single = {"!"} (null | true | false | number | "string" | 'string' | path | "(" either ")")
"""

from __future__ import annotations

from faber_ledger.files.text import one_line
from faber_ledger.runs.progress import value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_QUOTED = 200  # characters of a condition in a message
MAX_CHARACTERS = 2000  # of a condition: a hook must not be noticed
MAX_DEPTH = 50  # of parentheses: each level takes a few frames of the interpreter's stack
WORDS = {"null": None, "true": True, "false": False}
SIGNS = ("===", "!==", "==", "!=", "<=", ">=", "<", ">", "||", "&&", "!", "(", ")")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$"
DIGITS = "0123456789"
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"  # compiled at its first use: most conditions have no number


class ConditionError(ValueError):
    """The text is not a condition of this grammar; the message is worded by the documents.

    `part` is what was not understood: the rest of the text from there on, or empty if it is the whole text.
    """

    def __init__(self, expression: object, reason: str = "", part: str = "") -> None:
        self.part = one_line(part, MAX_QUOTED)
        super().__init__(f"Cannot evaluate condition: {one_line(expression, MAX_QUOTED)}{reason}")


def evaluate(expression: str, state: dict[str, Any]) -> bool:
    """Return whether a condition holds for a state, in time linear in its length; raises only ConditionError."""
    if len(expression) > MAX_CHARACTERS:
        raise ConditionError(expression, f" ({len(expression):,} characters; the limit is {MAX_CHARACTERS:,})")
    return _is_true(_Reader(expression, state).value())


class _Reader:
    """Evaluates an expression from left to right without a tree: each rule returns the value of what it read."""

    def __init__(self, expression: str, state: dict[str, Any]) -> None:
        self.expression = expression
        self.state = state
        self.at = 0
        self.depth = 0
        self._next()

    def value(self) -> Any:
        value = self._either()
        if self.kind != "end":
            raise self._error()
        return value

    def _error(self) -> ConditionError:
        return ConditionError(self.expression, part=self.expression[self.start :].strip() or "its end")

    def _next(self) -> None:
        text = self.expression
        self.start = start = at = _past_spaces(text, self.at)
        letter = text[at : at + 1]
        if not letter:
            self.kind = "end"
        elif letter in LETTERS:
            self.kind, at = "path", _past_path(text, at)
        elif letter in "\"'":
            self.kind, at = "string", text.find(letter, at + 1) + 1
            if not at or "\\" in text[start:at]:
                raise self._error()
        elif sign := next((sign for sign in SIGNS if text.startswith(sign, at)), ""):
            self.kind, at = "sign", at + len(sign)
        else:
            self.kind = "number"
            import re  # a third of a start, for conditions with numbers alone

            found = re.compile(NUMBER).match(text, at)
            if found is None:
                raise self._error()
            at = found.end()
        self.token, self.at = text[start:at], at

    def _takes(self, sign: str) -> bool:
        if self.kind != "sign" or self.token != sign:
            return False
        self._next()
        return True

    def _either(self) -> Any:
        value = self._both()
        while self._takes("||"):
            other = self._both()
            value = value if _is_true(value) else other
        return value

    def _both(self) -> Any:
        value = self._equality()
        while self._takes("&&"):
            other = self._equality()
            value = other if _is_true(value) else value
        return value

    def _equality(self) -> Any:
        value = self._order()
        while self.kind == "sign" and self.token in {"==", "===", "!=", "!=="}:
            sign = self.token
            self._next()
            other = self._order()
            value = _is_same(value, other) is sign.startswith("=")
        return value

    def _order(self) -> Any:
        value = self._single()
        while self.kind == "sign" and self.token in {"<", "<=", ">", ">="}:
            sign = self.token
            self._next()
            value = _is_ordered(value, sign, self._single())
        return value

    def _single(self) -> Any:
        negations = 0
        while self._takes("!"):
            negations += 1
        value = self._operand()
        return value if negations == 0 else _is_true(value) is (negations % 2 == 0)

    def _operand(self) -> Any:
        kind, token = self.kind, self.token
        if self._takes("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self._error()
            value = self._either()
            if not self._takes(")"):
                raise self._error()
            self.depth -= 1
            return value
        if kind not in {"number", "string", "path"}:
            raise self._error()
        self._next()
        if kind == "number":
            return float(token)
        if kind == "string":
            return token[1:-1]
        return WORDS[token] if token in WORDS else value_at(self.state, token)


# Letter by letter: compiling a pattern for this would take a hook longer than reading the condition.


def _past_spaces(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _past_all(text: str, at: int, letters: str) -> int:
    while text[at : at + 1] and text[at] in letters:
        at += 1
    return at


def _past_path(text: str, at: int) -> int:
    """Return where a path ends: a name, then any number of `.name` and `[0]`."""
    at = _past_all(text, at, LETTERS + DIGITS)
    while True:
        after = _past_all(text, at + 1, DIGITS if text[at : at + 1] == "[" else LETTERS + DIGITS)
        if text[at : at + 1] == "." and after > at + 1:
            at = after
        elif text[at : at + 1] == "[" and after > at + 1 and text[after : after + 1] == "]":
            at = after + 1
        else:
            return at


# Truth is as in JavaScript, since the workflow format calls a condition a JavaScript expression. Comparisons are
# stricter: a number and its text are neither equal nor in an order.


def _is_true(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return True
    return bool(value) and value == value  # NaN is false


def _is_same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return _double(one) == _double(other)
    if type(one) is not type(other):
        return False
    return one is other if isinstance(one, (dict, list)) else bool(one == other)


def _is_ordered(one: Any, sign: str, other: Any) -> bool:
    """Compare two numbers or two strings by their order; anything else is in none."""
    if _is_number(one) and _is_number(other):
        one, other = _double(one), _double(other)
    elif not (isinstance(one, str) and isinstance(other, str)):
        return False
    is_less = one < other if sign[0] == "<" else one > other
    return bool(is_less or (sign[1:] and one == other))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
