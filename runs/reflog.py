"""Where a name in a file comes from, a run's or a session's: git brought it, or a tool wrote it in this work tree.

The reflog of a work tree's HEAD says what moved it from commit to commit: a commit that was made here, or a pull, a
merge, a checkout. It costs one call of git: `active.py` asks only where nothing cheaper decides, `adoption.py` only
for sessions that no log knows.
"""

from __future__ import annotations

import os
from math import inf

from faber_ledger.files.untrusted import FileRefused, open_regular
from faber_ledger.runs.active_file import ACTIVE_FILE_BYTES, first_line, read_put_back
from faber_ledger.runs.git import LIMIT, GitQuery, WorkTree, work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Reader = Callable[[bytes], Collection[str]]

WRITTEN = "written"  # by a tool in this work tree, whether it was committed here or not
RETURNED = "returned"  # by a checkout or a switch, to what an ordinary commit in this work tree brought first
CHECKED_OUT = "checked out"  # by another checkout or switch
BROUGHT = "brought"  # by anything else that git does, or it is not known by what

MOST_MOVES = 100  # of HEAD that are looked at, the newest
MOST_BRANCHES = 100  # local and remote-tracking ones that are looked at, the newest
MOST_OTHERS = 5  # commits with a name, from which git looks for the one that brought it
STAGES = (":2", ":3")  # of a file in the index that a merge has left in conflict: both sides
LONGEST_LOG = 64 * 1024
# Files in a work tree's git directory that stand there while git has staged what it brings.
AT_WORK = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "rebase-merge", "rebase-apply")
COMING = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")  # those of them that are a commit


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

    def is_rebase(self, step: str = "") -> bool:
        """Return whether it is a part of a rebase, also of one that a pull made; with `step`, that part."""
        return self.message.startswith(("rebase ", "pull ")) and f"{step}): " in self.message


def find_origin(root: str, file: str, name: str) -> tuple[str, float]:
    """Return how an active file came to name a run, and the latest time at which it did if git moved HEAD then.

    The first is `WRITTEN`, `RETURNED`, `CHECKED_OUT` or `BROUGHT`. A name that our put-back wrote is `BROUGHT`,
    although an ordinary commit carries it, and so is one that was on another branch before (`Branches.had`). A later
    `git reset --hard` or rebase writes the file again, and it names the run no later for that. Where git has not
    written it, the time is infinite.
    """
    tree = work_tree_of(root)
    if tree is None:
        return WRITTEN, inf
    steps = read_moves(os.path.join(tree.own, "logs", "HEAD"))
    moves = _join_rebases(steps)
    names = _names_in(root, file, ["", *STAGES, "HEAD", *_commits_of(steps)], _read_active_file)
    if names is None:
        return BROUGHT, inf
    if name not in names[""] and not any([name in names[stage] for stage in STAGES]):
        # A stash, too, leaves what was staged in the work tree alone.
        return BROUGHT if _is_put_back(root, file, name, None, steps, names) else WRITTEN, inf
    branches = Branches(root, file, steps, _read_active_file)
    if name not in names["HEAD"]:
        # No move in the reflog got it: a tool wrote it, unless git is at work and has staged what it brings, or
        # something like `git checkout BRANCH -- FILE` staged it.
        is_gits = _is_at_work(tree) or _is_put_back(root, file, name, None, steps, names) or branches.had(name)
        return BROUGHT if is_gits else WRITTEN, inf
    for move in moves:
        if move.is_first or name not in names[move.old]:
            origin = _origin_of(move.message)
            if origin == WRITTEN and (_is_put_back(root, file, name, move, steps, names) or branches.had(name, move)):
                origin = BROUGHT
            if origin == WRITTEN:
                return WRITTEN, move.at if _is_written_again(root, file, steps, move) else inf
            if origin == CHECKED_OUT:
                first = _first_commit(name, moves, names)
                origin = RETURNED if first is not None and not branches.had(name, first) else CHECKED_OUT
            return origin, move.at + 1
    return BROUGHT, inf  # by something that the reflog does not reach


def _is_written_again(root: str, file: str, steps: list[Move], since: Move) -> bool:
    """Return whether a file was written as git moved HEAD, after a commit of it: by a rebase, and not by a tool."""
    try:
        at = os.stat(os.path.join(root, file)).st_mtime
    except OSError:
        return False
    later = steps[: steps.index(since)]
    return any([_origin_of(step.message) != WRITTEN and abs(step.at - at) < 1 for step in later])


def was_taken_away(root: str, file: str, name: str) -> bool:
    """Return whether git took away an active file that named a run, as by a pull of another clone's put-back.

    An ordinary commit made here, or a tool that removed the file, did not.
    """
    tree = work_tree_of(root)
    moves = _join_rebases(read_moves(os.path.join(tree.own, "logs", "HEAD"))) if tree is not None else []
    names = _names_in(root, file, ["", "HEAD", *_commits_of(moves)], _read_active_file)
    if names is None or names[""] or names["HEAD"]:
        return False
    for move in moves:
        if not move.is_first and name in names[move.old] and name not in names[move.new]:
            return _origin_of(move.message) != WRITTEN
    return False


def _is_put_back(
    root: str, file: str, name: str, move: Move | None, moves: list[Move], names: dict[str, Collection[str]]
) -> bool:
    """Return whether our put-back wrote a name; `move` is the commit that got it, None if no commit has it yet.

    It did until an ordinary commit changes the file: then only if that is the one which carries the put-back.
    """
    note = read_put_back(root)
    for head, where, written in note.names if note is not None else []:
        if (where, written) != (file, name):
            continue
        first: Move | None = None
        for one in moves:
            if one.new == head:
                break
            if _origin_of(one.message) == WRITTEN and names[one.new] != names.get(one.old, ()):
                first = one
        if first is None or first is move:
            return True
    return False


def find_written(folder: str, file: str, wanted: Collection[str], read: Reader, limit: int) -> list[str]:
    """Return those `wanted` names in a file that a tool wrote in this work tree, committed here or not.

    `read` returns the names in a version of the file. In a commit a name is this work tree's word if the first move of
    HEAD that got it was an ordinary commit, whatever git brought and took away since. None is if git does not answer
    within `limit` bytes.
    """
    tree = work_tree_of(folder)
    if tree is None:
        return list(wanted)
    steps = read_moves(os.path.join(tree.own, "logs", "HEAD"))
    moves = _join_rebases(steps)
    names = _names_in(folder, file, ["", "HEAD", *COMING, *_commits_of(moves)], read, limit)
    if names is None:
        return []
    coming = {name for revision in COMING for name in names[revision]} | {*(names[""] if _is_at_work(tree) else [])}
    branches = Branches(folder, file, steps, read, limit)
    found = []
    for name in wanted:
        if name in names["HEAD"]:
            first = _first_commit(name, moves, names)
            if first is not None and not branches.had(name, first):
                found.append(name)
        elif name not in coming and not (name in names[""] and branches.had(name)):
            found.append(name)
    return found


def _first_commit(name: str, moves: list[Move], names: dict[str, Collection[str]]) -> Move | None:
    """Return the first move of HEAD that got a name if it was an ordinary commit; None if not, or it is not known."""
    for move in reversed(moves):
        if not move.is_first and name in names[move.old]:
            return None
        if name in names[move.new]:
            return move if _origin_of(move.message) == WRITTEN else None
    return None


class Branches:
    """The local and remote-tracking branches, from which a name may have come without a move of HEAD that says so.

    `git merge --squash`, `git cherry-pick -n` and `git checkout BRANCH -- FILE` stage what a branch has, and an
    ordinary commit carries it.
    """

    def __init__(self, folder: str, file: str, steps: list[Move], read: Reader, limit: int = LIMIT) -> None:
        """Take the steps of HEAD, and how the names in a version of the file are read."""
        self._folder = folder
        self._file = file
        self._made_here = {one.new for one in steps if _origin_of(one.message) == WRITTEN or one.is_rebase()}
        self._read = read
        self._limit = limit
        self._names: dict[str, Collection[str]] | None = None

    def had(self, name: str, move: Move | None = None) -> bool:
        """Return whether a branch had a name before `move` committed it, or has it now, and HEAD's history had not.

        What a commit or a rebase here brought to a branch does not count. False if git does not answer: most commits
        carry what was written here.
        """
        if self._names is None:
            listed = ("--sort=-committerdate", f"--count={MOST_BRANCHES}", "--format=%(objectname)")
            tips = GitQuery(["for-each-ref", *listed, "refs/heads", "refs/remotes"], self._folder).answer() or ""
            commits = [*dict.fromkeys(tips.split())]
            found = _names_in(self._folder, self._file, commits, self._read, self._limit) if commits else None
            self._names = found or {}
        others = [tip for tip, names in self._names.items() if name in names and tip not in self._made_here]
        past = [] if move is not None and move.is_first else ["^HEAD" if move is None else f"^{move.old}"]
        for tip in others[:MOST_OTHERS]:
            asked = ["rev-list", "--timestamp", "--max-count=1", tip, *past, "--", self._file]
            newest = GitQuery(["--literal-pathspecs", *asked], self._folder).answer() or ""
            seconds, _, commit = newest.partition(" ")
            is_earlier = seconds.isdecimal() and (move is None or int(seconds) <= move.at)
            if is_earlier and commit not in self._made_here:
                return True
        return False


def _is_at_work(tree: WorkTree) -> bool:
    return any([os.path.lexists(os.path.join(tree.own, one)) for one in AT_WORK])


def _origin_of(message: str) -> str:
    """Return what a line of the reflog says about the names that it brought."""
    action, _, rest = message.partition(":")
    if action in ("commit", "commit (initial)", "commit (amend)"):
        return WRITTEN
    return CHECKED_OUT if action == "checkout" and rest.startswith(" moving") else BROUGHT


def _commits_of(moves: list[Move]) -> list[str]:
    return [one for one in dict.fromkeys([name for move in moves for name in (move.old, move.new)]) if one.strip("0")]


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


def _names_in(
    folder: str, file: str, revisions: list[str], read: Reader, limit: int = LIMIT
) -> dict[str, Collection[str]] | None:
    """Return the names in a file's versions in the index ("") and in commits; None if git does not answer."""
    asked = "".join([f"{revision}:./{file}\n" for revision in revisions])
    printed = GitQuery(["cat-file", "--batch"], folder, limit=limit, content=asked.encode()).answer_bytes()
    if printed is None:
        return None
    names: dict[str, Collection[str]] = {}
    known: dict[bytes, Collection[str]] = {}  # by the version's line, which has its hash
    at = 0
    for revision in revisions:
        end = printed.find(b"\n", at)
        line = printed[at:end]
        at = end + 1
        kind, size = [*line.split(b" ")[-2:], b""][:2]
        if kind != b"blob" or not size.isdigit():
            names[revision] = ()
            continue
        if line not in known:
            known[line] = read(printed[at : at + int(size)])
        names[revision] = known[line]
        at += int(size) + 1
    return names


def _read_active_file(content: bytes) -> Collection[str]:
    try:
        name = first_line(content[:ACTIVE_FILE_BYTES])
    except UnicodeDecodeError:
        return ()
    return () if name is None else (name,)
