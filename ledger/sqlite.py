"""SQLite without dates: the package around `_sqlite3` loads `datetime`, a twelfth of what starting Python costs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import _sqlite3 as sqlite3
    except ImportError:  # another Python than CPython
        import sqlite3

__all__ = ["sqlite3"]
