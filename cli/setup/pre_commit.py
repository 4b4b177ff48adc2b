"""The pre-commit hook: our block in it, beside everything else that the hook does."""

from __future__ import annotations

import os
import re
import shlex

from faber_ledger.files.change import FileChange, block_lines, has_block, read_file, with_block, without_block
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git_command import git, run_git

ALONE = b"#!/bin/sh\n"
SHELL = re.compile(rb"#! ?(/usr)?(/local)?/bin/(env (-S )?)?(ba|da|k|z)?sh\b")
LINE = "faber-ledger seal --pre-commit </dev/null || true"
OURS = re.compile(rf"  ({re.escape(LINE)}|\[ ! -d .+ \|\| \(cd .+ && {re.escape(LINE)}\))")
MANAGERS = (b"pre-commit.com", b"lefthook", b"husky", b"overcommit")  # what their hooks name


def _block(lines: list[str]) -> tuple[str, ...]:
    start = "if command -v faber-ledger >/dev/null 2>&1; then"
    return block_lines("prepares the active run for the commit", start, *lines, "fi")


def _line_for(root: str, top: str) -> str:
    """Return the line that seals a project's run; git runs the hook at the top of the repository."""
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    if inside == os.curdir:
        return f"  {LINE}"
    folder = shlex.quote(inside)
    return f"  [ ! -d {folder}/.fractary ] || (cd ./{folder} && {LINE})"


def why_not_ours(root: str) -> str | None:
    """Return who owns the pre-commit hook instead of us: `core.hooksPath`, or another hook manager; None if nobody."""
    if run_git("config", "core.hooksPath", at=root).returncode == 0:
        return "`core.hooksPath` is set"
    content = read_file(_hook_path(root)) or b""
    is_managed = not has_block(content) and any([name in content for name in MANAGERS])
    return "another program manages this repository's hooks" if is_managed else None


def pre_commit_change(root: str, top: str, *, remove: bool = False) -> FileChange:
    """Return the change that puts our block at the beginning of the hook, or removes it, and the hook if it was ours.

    Each project of the repository has a line in the block.

    Raises LedgerError for a hook that is not a shell script or not executable, and for a folder outside the repository.
    """
    path = _hook_path(root)
    before = read_file(path)
    line = _line_for(root, top)
    others = [one for one in os.fsdecode(before or b"").splitlines() if OURS.fullmatch(one) and one != line]
    if remove and others and before is not None:
        return FileChange(path, before, with_block(before, _block(others), after_first_line=True), executable=True)
    if remove:
        after = without_block(before, _block([line])) if before is not None else None
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
    return FileChange(
        path,
        before,
        with_block(before or ALONE, _block(sorted({*others, line})), after_first_line=True),
        executable=True,
    )


def _hook_path(root: str) -> str:
    """Return the hook's path from git, which follows `core.hooksPath` and knows what linked worktrees share."""
    named = os.fsdecode(git("rev-parse", "--git-path", "hooks/pre-commit", at=root)).removesuffix("\n")
    return os.path.normpath(os.path.join(root, named))


def _check_own_folder(path: str, root: str, top: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):
        raise LedgerError(
            f"the hook {path} is a link to {os.readlink(path)}, which does not exist",
            hint=f"remove the link with `rm {quote_word(path)}`, or restore its target, then run the command again",
        )
    common = os.fsdecode(git("rev-parse", "--git-common-dir", at=root)).removesuffix("\n")
    own = [os.path.realpath(folder) + os.sep for folder in (os.path.join(root, common), top)]
    if not os.path.realpath(path).startswith(tuple(own)):
        raise LedgerError(
            f"`core.hooksPath` keeps the hooks in {os.path.dirname(path)}, outside this repository",
            hint=f"add `{LINE}` to the pre-commit hook there yourself, if all its repositories should have it",
        )
