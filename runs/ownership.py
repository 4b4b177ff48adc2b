"""Explain why a project or repository of another user is not used; `stranger_at` of `git.py` decides it.

No hook loads this in a folder of the user's own.
"""

from __future__ import annotations

import os

from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.command_errors import ForeignProject
from faber_ledger.runs.git import unused_tops


def foreign_project(root: str, stranger: str) -> ForeignProject:
    """Return the error that a project is not used, because `stranger` in it belongs to another user."""
    has_runs = any([os.path.lexists(os.path.join(root, *name)) for name in ((".fractary",), (".git", "faber-ledger"))])
    message = f"{_describe_stranger(stranger)}: the project is not used"
    return ForeignProject(message, hint=_how_to_trust(root), data={"root": root, "has_runs": has_runs})


def describe_unused() -> tuple[str, str]:
    """Return which work tree was not used, and what to do about it."""
    top, stranger = next(iter(unused_tops.items()))
    if os.lstat(stranger).st_uid == os.geteuid():
        what = f"{escape(top)}/.git names the git directory of another work tree, {escape(stranger)}, and is not used"
        return what, "remove that file unless you made it; if you did, set `core.worktree` in the git directory"
    return f"{_describe_stranger(stranger)}: git does not use the work tree {escape(top)}, nor do we", _how_to_trust(
        top
    )


def _describe_stranger(path: str) -> str:
    return f"{escape(path)} belongs to another user (uid {os.lstat(path).st_uid})"


def _how_to_trust(folder: str) -> str:
    """Return how the user makes git, and so us, use a folder of another user."""
    command = f"git config --global --add safe.directory {quote_word(os.path.realpath(folder))}"
    return f"if you trust whoever can write there, run `{command}`"
