"""What a text must contain for a regular expression to match in it: words, of which each match has at least one."""

from __future__ import annotations

import re
from re import _constants as code
from re import _parser as parser
from typing import Any

MOST = 24  # words of one rule: to look for more of them costs what it saves


def required_words(pattern: str, flags: int) -> tuple[str, ...]:
    """Give words of which every match has at least one, in small letters if case is ignored; none if it can have none.

    Of all such sets the one with the longest words is taken, and of those the smallest.
    """
    tree = parser.parse(pattern, flags)
    found = sorted({word.lower() if tree.state.flags & re.IGNORECASE else word for word in _best(_sets(tree))})
    return tuple([word for word in found if not any([other != word and other in word for other in found])])


def _best(sets: list[set[str]]) -> set[str]:
    usable = [words for words in sets if words and len(words) <= MOST and all(words)]
    return max(usable, key=lambda words: (min(map(len, words)), -len(words)), default=set())


def _sets(tree: Any) -> list[set[str]]:
    """Give sets of words, of each of which every match of a sequence has one: what stands side by side is joined."""
    found: list[set[str]] = []
    run = {""}
    for operation, argument in tree:
        ends = _whole(operation, argument)
        if ends is not None and len(run) * len(ends) <= MOST:
            run = {one + other for one in run for other in ends}
            continue
        found.append(run)
        run = ends if ends is not None and len(ends) <= MOST else {""}
        if ends is None:
            found += _inside(operation, argument)
    return [*found, run]


def _whole(operation: Any, argument: Any) -> set[str] | None:
    """Give all texts that a part can match, where they are few; None where they are not, or it is none to be told."""
    if operation is code.LITERAL:
        return {chr(argument)}
    if operation is code.IN:
        return _of_class(argument)
    if operation is code.SUBPATTERN and not argument[1] and not argument[2]:
        return _of_sequence(argument[3])
    if operation is code.BRANCH:
        parts = [_of_sequence(branch) for branch in argument[1]]
        return {text for part in parts if part is not None for text in part} if None not in parts else None
    return None


def _of_class(members: Any) -> set[str] | None:
    found: set[str] = set()
    for operation, argument in members:
        if operation is code.LITERAL:
            found.add(chr(argument))
        elif operation is code.RANGE and argument[1] - argument[0] < MOST:
            found |= {chr(number) for number in range(argument[0], argument[1] + 1)}
        else:
            return None
    return found if len(found) <= MOST else None


def _of_sequence(tree: Any) -> set[str] | None:
    texts = {""}
    for operation, argument in tree:
        ends = _whole(operation, argument)
        if ends is None:
            return None
        texts = {one + other for one in texts for other in ends}
        if len(texts) > MOST:
            return None
    return texts


def _inside(operation: Any, argument: Any) -> list[set[str]]:
    """Give the sets of a part that matches too much to be told whole."""
    if operation is code.SUBPATTERN and not argument[1] and not argument[2]:
        return _sets(argument[3])
    if operation in (code.MAX_REPEAT, code.MIN_REPEAT) and argument[0] > 0:
        return _sets(argument[2])
    if operation is code.BRANCH:
        best = [_best(_sets(branch)) for branch in argument[1]]
        return [set().union(*best)] if all(best) else []
    return []
