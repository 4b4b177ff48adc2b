"""Every error that a command can end with is defined in one of two modules, which the command reference lists."""

from __future__ import annotations

import importlib
import pkgutil

import faber_ledger
from faber_ledger.ledger import command_errors, errors


def kinds(kind: type[errors.LedgerError]) -> list[type[errors.LedgerError]]:
    return [kind, *[inner for one in kind.__subclasses__() for inner in kinds(one)]]


def test_every_error_is_defined_in_the_errors_modules() -> None:
    for module in pkgutil.walk_packages(faber_ledger.__path__, "faber_ledger."):
        if module.name.startswith("faber_ledger.cli"):
            importlib.import_module(module.name)
    product = [kind for kind in kinds(errors.LedgerError) if kind.__module__.startswith("faber_ledger")]
    assert {kind.__module__ for kind in product} == {errors.__name__, command_errors.__name__}
    assert len({kind.__name__ for kind in product}) == len(product)
