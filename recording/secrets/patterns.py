"""Patterns that are compiled at their first use, and without what the `re` package loads besides its compiler."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DOTALL, IGNORECASE, MULTILINE, VERBOSE, ASCII = 16, 2, 8, 64, 256  # as in `re`
_METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub")
_compilers: list[Callable[[str, int], Any]] = []


class Pattern:
    """A pattern that is compiled at its first use: a text needs few of them, and compiling all takes half of a hook."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if not _compilers:
            _compilers.append(_find_compiler())
        compiled = _compilers[0](self._pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def _find_compiler() -> Callable[[str, int], Any]:
    """Return the function that compiles a pattern: the package's own, or in a process that lacks it, what it calls.

    The package also loads `enum` and `functools`, a quarter of a hook's time.
    """
    if "re" not in sys.modules:
        package: Any = type(sys)("re")
        package.__path__ = [os.path.join(os.path.dirname(os.__file__), "re")]
        sys.modules["re"] = package
        try:
            from re import _compiler  # type: ignore[attr-defined]  # it is private

            found: Callable[[str, int], Any] = _compiler.compile
            return found
        finally:  # whoever imports `re` later gets all of it
            for name in [name for name in sys.modules if name == "re" or name.startswith("re.")]:
                del sys.modules[name]
    import re

    return re.compile
