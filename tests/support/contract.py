"""Which tests are the contract: they drive the installed command, and of the package call only what reads a log.

They hold whatever becomes of the code, so they decide whether a rewrite keeps the behaviour.
"""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

READERS = {
    "faber_ledger.ledger.encoding",
    "faber_ledger.ledger.clock",
    "faber_ledger.ledger.log",
    "faber_ledger.ledger.verify",
    "faber_ledger.projections.fold",
}


def is_contract(item: pytest.Function) -> bool:
    """Return whether neither a test nor its fixtures call anything else of the package, themselves or in a helper."""
    fixtures = [each.func for found in item._fixtureinfo.name2fixturedefs.values() for each in found]
    test = getattr(item.function, "hypothesis", None)
    return all(_modules_called(each) <= READERS for each in (test.inner_test if test else item.function, *fixtures))


@functools.cache
def _modules_called(called: Any) -> set[str]:
    """Return the modules of the package that a function calls, followed through the helpers in its own file."""
    modules: set[str] = set()
    waiting, seen = [called], set[int]()
    while waiting:
        one = waiting.pop()
        one = getattr(one, "__wrapped__", getattr(one, "__func__", getattr(one, "fget", one)))
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, type):
            waiting += vars(one).values()
        elif isinstance(one, FunctionType):
            for name in _names_in(one.__code__):
                value = one.__globals__.get(name)
                module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                if module == one.__module__:
                    waiting.append(value)
                modules |= {each for each in (name, module) if each and each.partition(".")[0] == "faber_ledger"}
    return modules


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
