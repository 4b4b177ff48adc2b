"""The pre-commit hook: our block in it, beside everything else that the hook does."""

from __future__ import annotations

import os
import re

from faber_ledger.files.change import FileChange, block_lines, has_block, read_file, with_block, without_block
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git_command import git

ALONE = b"#!/bin/sh\n"
SHELL = re.compile(rb"#! ?(/usr)?(/local)?/bin/(env (-S )?)?(ba|da|k|z)?sh\b")
LINE = "faber-ledger seal </dev/null || exit $?"
BLOCK = block_lines(
    "prepares the active run for the commit",
    "if command -v faber-ledger >/dev/null 2>&1; then",
    f"  {LINE}",
    "fi",
)


def pre_commit_change(root: str, top: str, *, remove: bool = False) -> FileChange:
    """Return the change that puts our block at the beginning of the hook, or removes it, and the hook if it was ours.

    Raises LedgerError for a hook that is not a shell script or not executable, and for a folder outside the repository.
    """
    path = _hook_path(root)
    before = read_file(path)
    if remove:
        after = without_block(before, BLOCK) if before is not None else None
        return FileChange(path, before, None if after == ALONE and before != ALONE else after)
    _check_own_folder(path, root, top)
    if before is not None and not has_block(before):
        if not SHELL.match(before):
            raise LedgerError(
                f"the hook {path} is not a shell script",
                hint=f"call it from a shell script that also runs `{LINE}`, or add that call to it",
            )
        if not os.access(path, os.X_OK):
            raise LedgerError(
                f"the hook {path} is switched off: it is not executable", hint="move it aside, or make it executable"
            )
    return FileChange(path, before, with_block(before or ALONE, BLOCK, after_first_line=True), executable=True)


def _hook_path(root: str) -> str:
    """Return the hook's path from git, which follows `core.hooksPath` and knows what linked worktrees share."""
    named = os.fsdecode(git("rev-parse", "--git-path", "hooks/pre-commit", at=root)).removesuffix("\n")
    return os.path.normpath(os.path.join(root, named))


def _check_own_folder(path: str, root: str, top: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):
        raise LedgerError(
            f"the hook {path} is a link to {os.readlink(path)}, which does not exist",
            hint=f"remove the link with `rm {path}`, or restore its target, then run the command again",
        )
    common = os.fsdecode(git("rev-parse", "--git-common-dir", at=root)).removesuffix("\n")
    own = [os.path.realpath(folder) + os.sep for folder in (os.path.join(root, common), top)]
    if not os.path.realpath(path).startswith(tuple(own)):
        raise LedgerError(
            f"`core.hooksPath` keeps the hooks in {os.path.dirname(path)}, outside this repository",
            hint=f"add `{LINE}` to the pre-commit hook there yourself, if all its repositories should have it",
        )
