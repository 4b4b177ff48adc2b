"""Private notes about a ledger's file: that a writer of this clone is at work on it, and that it was judged as it is.

They lie below the work tree's own git directory, or in the user's folder for state, where no commit can bring them.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import JOURNAL_ENDING, JUDGED_ENDING, WRITING_ENDING, whole_file
from faber_ledger.ledger.canonical import sha256
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.private_files import is_behind_link, make_below, state_folder
from faber_ledger.runs.run import find_root

# What of a ledger's file was judged here, or written.
NOTHING, EVENTS, ALL = 0, 1, 2  # all: its checkpoint, too
THEIRS = b"checkpoint of others\n"
_stems: dict[str, str | None] = {}  # by the ledger's path


def ledger_stem(path: str) -> str | None:
    """Return the beginning of the paths of what this clone keeps of the ledger at `path`, of this work tree alone.

    None for a ledger below the git directory, where no commit can bring a file.
    """
    if path not in _stems:
        _stems[path] = _find_stem(path)
    return _stems[path]


def _find_stem(path: str) -> str | None:
    folder, name = os.path.split(os.path.abspath(path))
    folder = os.path.realpath(folder)
    tree, real = work_tree_of(folder), os.path.join(folder, name)
    if tree is None:
        folder = state_folder(find_root(folder))
    else:
        if any([real.startswith(os.path.join(os.path.realpath(one), "")) for one in {tree.own, tree.common}]):
            return None
        folder, real = os.path.join(tree.own, "faber-ledger"), os.path.relpath(real, os.path.realpath(tree.top))
    key = sha256(os.fsencode(real.replace(os.sep, "/"))).hexdigest()[:32]
    return os.path.join(folder, "ledgers", key)


def _is_led_away(stem: str) -> bool:
    """Return whether a link, as an archive may bring in its git directory, stands for the folder of a stem."""
    folder = os.path.dirname(stem)
    return is_behind_link(folder, os.path.dirname(os.path.dirname(folder)))


def make_stems_folder(stem: str) -> None:
    """Make the folder of what `ledger_stem` names; raises OSError, as where a link is in its place."""
    folder = os.path.dirname(stem)
    make_below(os.path.dirname(os.path.dirname(folder)), folder)


def note_writing(path: str) -> None:
    """Note privately that a writer of this clone is at work on the ledger at `path`: a journal beside it is its own.

    The note is a file's existence, so it needs no sync of its own: file systems with a journal keep the order of two
    such changes, and SQLite syncs its journal before it changes the ledger. Where no note can be made, the journal of a
    writer that is killed is not played.
    """
    stem = ledger_stem(path)
    if stem is None or _is_led_away(stem):
        return
    for _ in range(2):
        try:
            os.close(os.open(stem + WRITING_ENDING, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        except FileNotFoundError:
            try:
                make_stems_folder(stem)
            except OSError:
                return
        except OSError:
            return
        else:
            return


def end_writing(path: str) -> None:
    """Remove the note of `note_writing`, unless SQLite has left its journal."""
    stem = ledger_stem(path)
    if stem is not None and not os.path.lexists(path + JOURNAL_ENDING) and not _is_led_away(stem):
        whole_file.remove(stem + WRITING_ENDING)


def find_judged(path: str) -> int:
    """Return what this work tree has judged, or written, of the ledger at `path`: one of the values above.

    If nothing, git has written it, or another program: then its heads prove nothing about the events below them.
    """
    stem = ledger_stem(path)
    if stem is None:
        return NOTHING
    try:
        descriptor = os.open(stem + JUDGED_ENDING, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            note, shape = os.read(descriptor, 128), shape_of(path)[1]
        finally:
            os.close(descriptor)
    except OSError:
        return NOTHING
    if note == shape:
        return ALL
    return EVENTS if note == shape + THEIRS else NOTHING


def note_judged(path: str, inode: int | None, *, has_own_checkpoint: bool) -> None:
    """Note privately that the ledger at `path` was judged as it is, unless it is no longer the file of this inode.

    A note that cannot be made, or is lost, costs the next hook a comparison of all events.
    """
    stem = ledger_stem(path)
    if stem is None or _is_led_away(stem):
        return
    try:
        found, content = shape_of(path)
        if found != inode:
            return  # git has put another file there meanwhile
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(stem + JUDGED_ENDING, flags, 0o600)
        try:
            os.write(descriptor, content if has_own_checkpoint else content + THEIRS)
        finally:
            os.close(descriptor)
    except OSError:
        pass


def inode_of(path: str) -> int | None:
    """Return the number of a file, which no other file has while it is open; None if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def shape_of(path: str) -> tuple[int, bytes]:
    """Return a file's number, and what tells whether it was written; raises OSError."""
    found = os.stat(path)
    return found.st_ino, b"%d %d %d\n" % (found.st_ino, found.st_size, found.st_mtime_ns)
