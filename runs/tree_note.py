"""Notes: small private files that save work. One of them says what a work tree last published or absorbed of a run."""

from __future__ import annotations

import os

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, read_regular
from faber_ledger.ledger.encoding import dumps, loads
from faber_ledger.runs.git import work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.log import Checkpoint
    from faber_ledger.runs.run import Run

LARGEST = 4 * 1024 * 1024  # bytes; a log of many clones has many heads
PREFIX, ENDING = "tree-", ".json"
NEWER, FOREIGN = "newer", "foreign"  # a file that is never published over


class Note:
    """A note as a JSON object: its members are the attributes that the class annotates, with what each is at first.

    One that cannot be written, or is lost or wrong, costs a comparison: a member of another type is as at first, which
    for a list is None or empty.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            found = loads(read_regular(path, LARGEST).decode())
        except (FileRefused, OSError, ValueError, RecursionError):
            return
        for name in type(self).__annotations__ if isinstance(found, dict) else ():
            first, value = getattr(self, name), found.get(name)
            if isinstance(value, type(first) if isinstance(first, (str, int, float)) else list):
                setattr(self, name, value)

    def save(self, *, durable: bool = False) -> None:
        """Write the note; raises OSError only where it must be `durable`."""
        content = dumps({name: getattr(self, name) for name in type(self).__annotations__})
        try:
            disk.put(self.path, content.encode(), mode=disk.OWN, durable=durable, locked=False)
        except OSError:
            if durable:
                raise


class TreeNote(Note):
    """The note of one work tree; without a readable one nothing is known.

    `shape` tells the published file as it was last seen here (inode, size, times), None if there was none. `heads` are
    those of the log that it holds completely, empty if it lacks something; `published` are those that this work tree
    published last, whatever git has done to the file since. `barred` says why it is never published over.
    `unmerged_at` names the commits of the remote's default branch and HEAD at which the run was not merged.
    `checkpoint` says which log the blocks in `state.json` were folded from, and their digest.
    """

    shape: list[int] | None = None
    heads: str = ""
    published: str = ""
    barred: str = ""
    unmerged_at: str = ""
    checkpoint: Checkpoint | None = None

    def __init__(self, run: Run) -> None:
        name = f"{PREFIX}{tree_name(run)}{ENDING}"
        super().__init__(os.path.join(run.private_folder, name))


def forget_checkpoints(run: Run) -> None:
    """Forget what all work trees show of a run: a payload has come back, which changes no head."""
    try:
        names = os.listdir(run.private_folder)
    except OSError:
        return
    for name in names:
        if name.startswith(PREFIX) and name.endswith(ENDING):
            disk.remove(os.path.join(run.private_folder, name))


def shape_of(file: int | str) -> list[int] | None:
    """Return what tells whether a file, open or by its path, is the one that was seen; None if there is none."""
    try:
        found = os.stat(file, follow_symlinks=False) if isinstance(file, str) else os.fstat(file)
    except OSError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def sent_path(run: Run, tree: str) -> str:
    """Return the path of the note of what a work tree has in common with the remote of a run (`sent.py`)."""
    return os.path.join(run.private_folder, f"sent-{tree}.json")


def tree_name(run: Run) -> str:
    """Return what tells the notes of a clone's work trees apart."""
    if run.is_kept:
        return "kept"
    tree = work_tree_of(run.root)
    return os.path.basename(tree.own) if tree is not None and tree.is_linked else "main"
