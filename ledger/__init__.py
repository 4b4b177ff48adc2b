"""The log: what can happen, how it is written, read and verified."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Whether git tracks a file that stands beside a ledger: None without git. This package asks no git; `context` sets it.
git_tracks: Callable[[str], bool | None] = lambda path: None  # noqa: E731 -- a function could not be replaced
