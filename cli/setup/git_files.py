"""The files below `.fractary` that git reads: what it ignores, and how it merges and shows a run's files."""

from __future__ import annotations

import os

from faber_ledger.files.change import FileChange, block_lines, read_file, with_block, without_block
from faber_ledger.files.untrusted import folder_around
from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.run import (
    ACTIVE_FILES,
    ATTRIBUTES_FILE,
    LEDGER,
    METADATA,
    RUNS,
    STATE,
    STATE_BACKUP,
    UNFINISHED_ENDINGS,
    with_suffix,
)

IGNORE_FILE = ".fractary/.gitignore"
IGNORED = block_lines(
    "what stays on this machine",
    STATE_BACKUP,
    with_suffix(STATE_BACKUP, "*"),
    f"*{BACKUP_ENDING}",
    "*.lock",
    f"*{JOURNAL_ENDING}",
    *[f"*{ending}" for ending in UNFINISHED_ENDINGS],
    "/faber/logs/",
    "/faber/writer",
    "/faber/worktrees.json*",
    *[name.removeprefix(".fractary") for name in ACTIVE_FILES],
)


def _patterns(name: str) -> list[str]:
    """Return git's patterns for a file of every run; in a plan's folder of FABER's its name has a suffix."""
    folders = [runs.removeprefix(".fractary") for runs in RUNS]
    return [*[f"{folder}/**/{name}" for folder in folders], f"{folders[1]}/**/{with_suffix(name, '*')}"]


# A filter, such as that of `git lfs track "*.db"`, would have git store something else, which no merge can read.
# Hosting sites fold generated files in a pull request.
OURS = "merge=faber-ledger -filter linguist-generated"
ATTRIBUTES = block_lines(
    "how git merges and shows a run's files",
    *[f"{path} binary diff=faber-ledger {OURS}" for path in _patterns(LEDGER)],
    *[f"{path} {OURS}" for path in _patterns(STATE)],
    *[f"{path} linguist-generated" for path in _patterns(METADATA)[:2]],  # it has no suffix
)
FILES = {IGNORE_FILE: IGNORED, ATTRIBUTES_FILE: ATTRIBUTES}


def git_file_change(root: str, name: str, *, remove: bool = False) -> FileChange:
    """Return the change that puts our block into one of `FILES`, or removes it; raises LedgerError for a link."""
    path = os.path.join(root, *name.split("/"))
    if os.path.islink(path):
        message = f"{name} is a link, and git reads no rules through a link"
        raise LedgerError(message, hint="replace the link with a file")
    if folder_around(path, [root]) is None:
        message = f"{name} is behind a link that leads out of the project, to {os.path.realpath(path)}"
        raise LedgerError(message, hint="replace the link with the folder itself")
    before = read_file(path)
    if remove:
        return FileChange(path, before, without_block(before or b"", FILES[name]) or None if before else before)
    return FileChange(path, before, with_block(before or b"", FILES[name]))
