"""Find the words of a regular expression: every match contains at least one of them."""

from __future__ import annotations

import re
from re import _constants as code
from re import _parser as parser
from typing import Any

MOST = 24  # words of one rule: looking for more costs as much as it saves


def required_words(pattern: str, flags: int) -> tuple[str, ...]:
    """Return words of which every match contains at least one, lower case if case is ignored; empty if there are none.

    Among such sets, the one with the longest words is chosen, then the smallest.
    """
    tree = parser.parse(pattern, flags)
    found = sorted({word.lower() if tree.state.flags & re.IGNORECASE else word for word in _best(_sets(tree))})
    return tuple([word for word in found if not any([other != word and other in word for other in found])])


def _best(sets: list[set[str]]) -> set[str]:
    usable = [words for words in sets if words and len(words) <= MOST and all(words)]
    return max(usable, key=lambda words: (min(map(len, words)), -len(words)), default=set())


def _sets(tree: Any) -> list[set[str]]:
    """Return sets of words; every match of the sequence contains a word of each set. Adjacent literals are joined."""
    found: list[set[str]] = []
    run = {""}
    for operation, argument in tree:
        ends = _all_texts(operation, argument)
        if ends is not None and len(run) * len(ends) <= MOST:
            run = {one + other for one in run for other in ends}
            continue
        found.append(run)
        run = ends if ends is not None and len(ends) <= MOST else {""}
        if ends is None:
            found += _inside(operation, argument)
    return [*found, run]


def _all_texts(operation: Any, argument: Any) -> set[str] | None:
    """Return all texts that a part can match; None if they are too many or unknown."""
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
        ends = _all_texts(operation, argument)
        if ends is None:
            return None
        texts = {one + other for one in texts for other in ends}
        if len(texts) > MOST:
            return None
    return texts


def _inside(operation: Any, argument: Any) -> list[set[str]]:
    """Return the sets of words inside a part whose texts are too many to list."""
    if operation is code.SUBPATTERN and not argument[1] and not argument[2]:
        return _sets(argument[3])
    if operation in (code.MAX_REPEAT, code.MIN_REPEAT) and argument[0] > 0:
        return _sets(argument[2])
    if operation is code.BRANCH:
        best = [_best(_sets(branch)) for branch in argument[1]]
        return [set().union(*best)] if all(best) else []
    return []
