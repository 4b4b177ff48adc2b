"""Where the name in an active file comes from: git brought it, or a tool wrote it in this work tree.

The reflog of a work tree's HEAD says what moved it from commit to commit: a commit that was made here, or a pull, a
merge, a checkout. It costs one call of git: `active.py` asks only where nothing cheaper decides.
"""

from __future__ import annotations

import os
from math import inf

from faber_ledger.files.untrusted import FileRefused, open_regular
from faber_ledger.runs.active_file import ACTIVE_FILE_BYTES, first_line
from faber_ledger.runs.git import GitQuery, work_tree_of

WRITTEN = "written"  # by a tool in this work tree, whether it was committed here or not
CHECKED_OUT = "checked out"  # by a checkout or a switch
BROUGHT = "brought"  # by anything else that git does, or it is not known by what

MOST_MOVES = 100  # of HEAD that are looked at, the newest
LONGEST_LOG = 64 * 1024
# Files in a work tree's git directory that stand there while git has staged what it brings.
AT_WORK = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "rebase-merge", "rebase-apply")


class Move:
    """A step of HEAD in the reflog: from one commit to another, git's word for it, and when (seconds since 1970)."""

    def __init__(self, old: str, new: str, message: str, at: int = 0) -> None:
        self.old = old
        self.new = new
        self.message = message
        self.at = at

    @property
    def is_first(self) -> bool:
        """Whether there was no commit before."""
        return not self.old.strip("0")

    @property
    def is_checkout(self) -> bool:
        """Whether it is a checkout or a switch."""
        return self.message.startswith("checkout: moving")

    def is_rebase(self, step: str = "") -> bool:
        """Return whether it is a part of a rebase, also of one that a pull made; with `step`, that part."""
        return self.message.startswith(("rebase ", "pull ")) and f"{step}): " in self.message


def find_origin(root: str, file: str, name: str) -> tuple[str, float]:
    """Return how an active file came to name a run, and the latest time at which it did if git moved HEAD then.

    The first is `WRITTEN`, `CHECKED_OUT` or `BROUGHT`. A later `git reset --hard` writes the file again, and it names
    the run no later for that. Without a move of HEAD the time is infinite.
    """
    tree = work_tree_of(root)
    if tree is None:
        return WRITTEN, inf
    moves = read_moves(os.path.join(tree.own, "logs", "HEAD"))
    commits = list(dict.fromkeys([commit for move in moves for commit in (move.old, move.new)]))
    names = _names_in(root, file, ["", "HEAD", *[commit for commit in commits if commit.strip("0")]])
    if names is None:
        return BROUGHT, inf
    if names[""] != name:
        return WRITTEN, inf
    if names["HEAD"] != name:
        # Only the index has it: no move in the reflog got it (DECISIONS 2), so it counts as written here, also where
        # `git checkout BRANCH -- FILE` staged it; unless git is at work and has staged what it brings.
        is_merging = any([os.path.lexists(os.path.join(tree.own, one)) for one in AT_WORK])
        return BROUGHT if is_merging else WRITTEN, inf
    for move in _join_rebases(moves):
        if move.is_first or names.get(move.old) != name:
            return _origin_of(move.message), move.at + 1
    return BROUGHT, inf  # by something that the reflog does not reach


def _origin_of(message: str) -> str:
    """Return what a line of the reflog says about the names that it brought."""
    action, _, rest = message.partition(":")
    if action in ("commit", "commit (initial)", "commit (amend)"):
        return WRITTEN
    return CHECKED_OUT if action == "checkout" and rest.startswith(" moving") else BROUGHT


def read_moves(path: str) -> list[Move]:
    """Read the newest moves of HEAD, newest first; none if there is no reflog."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST_LOG))
            lines = file.read(LONGEST_LOG).decode("utf-8", "replace").splitlines()
    except (FileRefused, OSError):
        return []
    moves = []
    for line in reversed(lines[-MOST_MOVES:]):
        commits, _, message = line.partition("\t")
        old, new = [*commits.split(" ")[:2], "", ""][:2]
        if len(old) != len(new) or len(old) < 40 or not (old + new).isalnum():
            break  # the log was cut here
        seconds = [*commits.split(" ")[-2:], ""][0]
        moves.append(Move(old, new, message, int(seconds) if seconds.isdecimal() else 0))
    return moves


def _join_rebases(moves: list[Move]) -> list[Move]:
    """Return the moves, newest first, with each rebase as one: what was there before it and after it, it left alone."""
    joined: list[Move] = []
    since: Move | None = None  # the newest step of the rebase that is being read
    for move in moves:
        if since is None and not move.is_rebase():
            joined.append(move)
            continue
        since = since or move
        if move.is_rebase("start"):
            joined.append(Move(move.old, since.new, since.message, since.at))
            since = None
    return joined if since is None else [*joined, since]


def _names_in(root: str, file: str, revisions: list[str]) -> dict[str, str | None] | None:
    """Return what an active file names in the index ("") and in commits; None if git does not answer."""
    asked = "".join([f"{revision}:./{file}\n" for revision in revisions])
    printed = GitQuery(["cat-file", "--batch"], root, content=asked.encode()).answer_bytes()
    if printed is None:
        return None
    names: dict[str, str | None] = {}
    at = 0
    for revision in revisions:
        line, _, rest = printed[at:].partition(b"\n")
        at += len(line) + 1
        kind, size = [*line.split(b" ")[-2:], b""][:2]
        if kind != b"blob" or not size.isdigit():
            names[revision] = None
            continue
        content = rest[: int(size)]
        at += int(size) + 1
        try:
            names[revision] = first_line(content[:ACTIVE_FILE_BYTES])
        except UnicodeDecodeError:
            names[revision] = None
    return names
