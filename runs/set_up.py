"""Whether `init` was run in this clone: git's config needs the merge driver that the committed attributes name."""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.runs.git import GitQuery, common_directory

ATTRIBUTES = ".fractary/.gitattributes"
NAMES_DRIVER = b"merge=faber-ledger"
DRIVER = "merge.faber-ledger.driver"
SET_UP = "faber-ledger init --git-only"
MOST_BYTES = 1_000_000


def lacks_driver(root: str) -> bool:
    """Return whether git cannot merge the project's ledgers in this clone, although its attributes name our driver."""
    common = common_directory(root)
    if common is None or NAMES_DRIVER not in _read(os.path.join(root, *ATTRIBUTES.split("/"))):
        return False
    if b'[merge "faber-ledger"]' in _read(os.path.join(common, "config")):
        return False
    # It may be in the user's own config.
    return GitQuery(["config", "--default", "", "--get", DRIVER], root).answer() == ""


def _read(path: str) -> bytes:
    try:
        return read_regular(path, MOST_BYTES, follow=True)
    except (FileRefused, OSError):
        return b""
