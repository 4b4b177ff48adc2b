"""The log: what can happen, how it is written, read and verified."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Return whether git tracks a file beside a ledger, None without git. A journal or a recovery that git tracks came with
# a commit, so it is not trusted. This package does not ask git: `faber_ledger.runs` sets this. Until then every file
# counts as tracked, so that nothing is used that may have come with a commit.
is_tracked: Callable[[str], bool | None] = lambda path: True  # noqa: E731 -- a function could not be replaced
