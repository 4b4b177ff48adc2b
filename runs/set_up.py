"""Whether `init` was run in this clone: git's config needs the merge driver that the committed attributes name."""

from __future__ import annotations

import os

from faber_ledger.ledger.disk import FileRefused, read_regular
from faber_ledger.runs.clone import note_set_up_checked
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.run import ATTRIBUTES_FILE, CONSENT, common_directory, path_in_clone

NAMES_DRIVER = b"merge=faber-ledger"
DRIVER = "merge.faber-ledger.driver"
SET_UP = "faber-ledger init --git-only"
AGREE = "`faber-ledger init --carry refs --fetch`"
MOST_BYTES = 1_000_000


def lacks_driver(root: str) -> bool:
    """Return whether git cannot merge the project's ledgers in this clone, although its attributes name our driver."""
    common = common_directory(root)
    if common is None or not has_attributes(root):
        return False
    if b'[merge "faber-ledger"]' in _read(os.path.join(common, "config"), follow=True):
        return False
    # It may be in the user's own config.
    return GitQuery(["config", "--default", "", "--get", DRIVER], root).answer() == ""


def line_to_set_up(root: str) -> str | None:
    """Return what a start tells the user of a clone that was never set up, and note that a hook has looked.

    None if the clone can merge, or a hook has looked before: a clone that loses its settings later is named by `status`
    and `doctor`. Nor is anything noted of a project whose attributes do not name our driver.
    """
    if not has_attributes(root):
        return None
    is_missing = lacks_driver(root)
    if not note_set_up_checked(root) or not is_missing:
        return None
    return f"this clone was never set up, and git will not merge its files: run `{SET_UP}`"


def line_to_agree(root: str) -> str | None:
    """Return the hint to agree to sending, once per clone; None if it has agreed."""
    if not note_set_up_checked(root) or os.path.lexists(path_in_clone(root, CONSENT) or ""):
        return None
    return f"this clone sends and fetches no ledgers: run {AGREE} to let it"


def has_attributes(root: str) -> bool:
    """Return whether the project's attributes name our merge driver; git, too, follows no link to them."""
    return NAMES_DRIVER in _read(os.path.join(root, ATTRIBUTES_FILE))


def _read(path: str, *, follow: bool = False) -> bytes:
    try:
        return read_regular(path, MOST_BYTES, follow=follow)
    except (FileRefused, OSError):
        return b""
