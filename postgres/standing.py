"""How the state that a clone has stands to the documents of its run: which it includes, and which are apart from it.

The log alone does not tell. A clone that has fetched events goes on recording after them, though its state is still the
older one; so what its state includes is noted at each exchange, and only events that came with a state count beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from faber_ledger.ledger.log import Log
from faber_ledger.postgres.documents import Document, choose_newest, find_included


class Basis(NamedTuple):
    """What a clone's state includes: documents by their ids, and heads of the log.

    `before` are the log's heads before the last fetch, `seen` those after the one before it: what lies between was
    recorded here, or came together with a state, as by git.
    """

    ids: frozenset[str]
    heads: frozenset[bytes]
    before: frozenset[bytes]
    seen: frozenset[bytes]


class Standing(NamedTuple):
    """The documents that have a content: `included` in the state here, `apart` from it, or `unknown`.

    Of those that are apart only the newest are named. The history of an unknown one is not in the log. `successor` is
    the document that includes the state as it was exchanged last.
    """

    included: list[Document]
    apart: list[Document]
    unknown: list[Document]
    successor: Document | None


def compare(documents: Sequence[Document], basis: Basis, log: Log) -> Standing:
    """Return how a state stands to its run's documents, in the order in which these arrived."""
    full = [one for one in documents if one.digest is not None]
    if all([one.id in basis.ids for one in full]):
        return Standing(full, [], [], None)
    after = find_included(log, [basis.heads, basis.before, basis.seen, *[one.heads for one in full]])
    standing = Standing([], [], [], None)
    for number, one in enumerate(full, 3):
        is_older = number in after[0] and 0 not in after[number]
        has_come = number in after[1] and 1 not in after[number] and number not in after[2]
        if one.id in basis.ids or is_older or has_come:
            standing.included.append(one)
        else:
            (standing.apart if number in after[number] else standing.unknown).append(one)
    known = [one for one in full if one not in standing.unknown]
    newest = choose_newest(known, log)
    apart = [one for one in newest if one in standing.apart]
    is_superseded = not any([one.id in basis.ids for one in documents])
    includes = len(apart) == 1 == len(newest) and 0 in after[3 + full.index(apart[0])]
    return standing._replace(apart=apart, successor=apart[0] if includes and is_superseded else None)


def find_latest(newest: Sequence[Document], basis: Basis, log: Log) -> list[Document]:
    """Return which of the newest documents are, or include, the state that was exchanged last."""
    after = find_included(log, [basis.heads, *[one.heads for one in newest]])
    return [
        one
        for number, one in enumerate(newest, 1)
        if number in after[number] and (one.id in basis.ids or 0 in after[number])
    ]


def choose_heads(heads: frozenset[bytes], apart: Sequence[Document], log: Log) -> frozenset[bytes]:
    """Return the heads to push a state with, so that it neither includes a document that is apart nor is included."""
    after = find_included(log, [heads, *[one.heads for one in apart]])
    for number in range(1, len(after)):
        if (number in after[0]) != (0 in after[number]):
            return apart[-1].heads  # as new as the other one
    return heads
