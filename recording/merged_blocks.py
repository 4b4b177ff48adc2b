"""Our blocks of a state that git is merging, folded from both sides' ledgers.

A merge driver gets the three versions of one file. The commit that has the other side is named by a variable in `merge`
and `pull`, by a file in a rebase, by a reference in `stash pop`, and by nothing in `cherry-pick`: then it is searched
for, for a second at most. It is the other side if its state is the one that git is merging.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import TYPE_CHECKING

from faber_ledger.ledger.disk import FileRefused, read_regular
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.fold import blocks_of, fold
from faber_ledger.recording.adoption import list_unknown
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.git_query import GitQuery, time_limit
from faber_ledger.runs.run import LEDGER, kind_of, with_suffix
from faber_ledger.runs.state_merge import is_state, overwrite, read_members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faber_ledger.projections.fold import Blocks


SECONDS = 2.0  # for each answer of git; what the merge gains is a state that is right before the next hook
SEARCH_SECONDS = 1.0
LARGEST = 32 * 1024 * 1024  # bytes of what git prints at once
LONGEST_FILE = 1024 * 1024  # bytes of a file of a rebase
GITHEAD = "GITHEAD_"  # begins the variable that names a commit that `git merge` merges
REVISIONS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD", "REVERT_HEAD^", "refs/stash")
# Files in the work tree's git directory that name a commit: in which line, and as which word of it.
FILES = (
    ("rebase-merge/done", -1, 1),
    ("rebase-merge/autostash", 0, 0),
    ("rebase-apply/original-commit", 0, 0),
    ("sequencer/todo", 0, 1),
    ("MERGE_AUTOSTASH", 0, 0),
)


def fold_merged(top: str, path: str, ours: bytes, theirs: bytes) -> Blocks | None:
    """Return the blocks of the union of both sides' ledgers, for the state at `path`; None if that cannot be known.

    None, too, if a side's state has a session that no ledger knows: another tool wrote it. Raises nothing.
    """
    folder, _, name = path.rpartition("/")
    kind = kind_of(name)
    if kind is None:
        return None
    ledger = f"{folder}/{with_suffix(LEDGER, kind[1])}"
    try:
        other = _find_other(top, path, ours, theirs)
        blobs = _read_blobs(top, [f"HEAD:{ledger}", f"{other}:{ledger}"]) if other is not None else []
    except (OSError, ValueError):
        return None
    return fold_union([blob for blob in blobs if blob is not None], (ours, theirs))


def fold_union(ledgers: Iterable[bytes], states: Iterable[bytes]) -> Blocks | None:
    """Return the blocks of the union of ledgers, for the merge of these states; None as for `fold_merged`."""
    contents = [*dict.fromkeys(ledgers)]
    try:
        blocks = _fold(contents) if contents else None
        folded = [blocks_of(read_members(state)) for state in states if is_state(state)]
        if blocks is None or any([list_unknown(blocks, one) for one in folded]):
            return None
    except (LedgerError, OSError, ValueError, RecursionError, sqlite3.Error):
        return None
    return blocks


def _fold(ledgers: list[bytes]) -> Blocks:
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        paths = [os.path.join(folder, f"{number}.db") for number in range(len(ledgers))]
        for path, content in zip(paths, ledgers, strict=True):
            overwrite(path, content)
        united = os.path.join(folder, "united.db")
        write_union(paths, united)
        with Log.read(united) as log:
            return fold(log.stream())


def _find_other(top: str, path: str, ours: bytes, theirs: bytes) -> str | None:
    """Return a commit with their state at this path, if HEAD has ours; else None."""
    named = [name.removeprefix(GITHEAD) for name in os.environ if name.startswith(GITHEAD)]
    revisions = list(dict.fromkeys([*named, *_revisions_in_files(top), *REVISIONS]))
    here, *found = _read_blobs(top, [f"{one}:{path}" for one in ("HEAD", *revisions)])
    if here != ours:
        return None  # git merges several bases first, or the index has another state
    return next((one for one, blob in zip(revisions, found, strict=True) if blob == theirs), None) or _search(
        top, path, theirs
    )


def _revisions_in_files(top: str) -> list[str]:
    tree = work_tree_of(top)
    found = []
    for name, line, word in FILES if tree is not None else ():
        try:
            lines = read_regular(os.path.join(tree.own if tree else "", name), LONGEST_FILE).split(b"\n")
            found.append([one for one in lines if one.strip()][line].split()[word].decode("ascii"))
        except (FileRefused, IndexError, OSError, ValueError):
            continue
    return [one for one in found if one.isalnum()]


def _search(top: str, path: str, theirs: bytes) -> str | None:
    """Return a commit that has brought their state, or the one before a commit that has replaced it."""
    deadline = time_limit(SEARCH_SECONDS)
    blob = GitQuery(["hash-object", "--no-filters", "--stdin"], top, deadline=deadline, content=theirs).answer()
    asked = ["log", "--all", "--max-count=1", "--format=%H", f"--find-object={blob}", "--", path]
    commit = GitQuery(asked, top, deadline=deadline).answer() if blob else None
    if not commit:
        return None
    revisions = [commit, f"{commit}^"]
    found = _read_blobs(top, [f"{one}:{path}" for one in revisions])
    return next((one for one, content in zip(revisions, found, strict=True) if content == theirs), None)


def _read_blobs(top: str, names: list[str]) -> list[bytes | None]:
    """Return the contents of git's blobs with these names, each None if there is none; raises ValueError."""
    asked = os.fsencode("\n".join(names) + "\n")
    printed = GitQuery(
        ["cat-file", "--batch"], top, limit=LARGEST, deadline=time_limit(SECONDS), content=asked
    ).answer_bytes()
    if printed is None:
        raise ValueError("git did not answer")
    found: list[bytes | None] = []
    at = 0
    for _ in names:
        end = printed.index(b"\n", at)
        words = printed[at:end].rsplit(b" ", 2)
        at = end + 1
        if words[-1].isdigit():
            size = int(words[-1])
            found.append(printed[at : at + size] if words[1] == b"blob" else None)
            at += size + 1
        else:
            found.append(None)
    return found
