"""What a work tree last published or absorbed of a run, and what its `state.json` shows: one small private file."""

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


class TreeNote:
    """The note of one work tree; without a readable one nothing is known.

    `shape` tells the published file as it was last seen here (inode, size, times), None if there was none. `heads` are
    those of the log that it holds completely, empty if it lacks something; `published` are those that this work tree
    published last, whatever git has done to the file since. `barred` says why it is never published over.
    `unmerged_at` names the commits of the remote's default branch and HEAD at which the run was not merged.
    `checkpoint` says which log the blocks in `state.json` were folded from, and their digest.
    """

    def __init__(self, run: Run) -> None:
        self.path = os.path.join(run.private_folder, f"{PREFIX}{_tree_name(run)}{ENDING}")
        self.shape: list[int] | None = None
        self.heads = ""
        self.published = ""
        self.barred = ""
        self.unmerged_at = ""
        self.checkpoint: Checkpoint | None = None
        try:
            found = loads(read_regular(self.path, LARGEST).decode())
            shape, checkpoint = found["shape"], found["checkpoint"]
            self.heads, self.barred = str(found["heads"]), str(found["barred"])
            self.published, self.unmerged_at = str(found["published"]), str(found["unmerged_at"])
            self.shape = None if shape is None else [int(one) for one in shape]
            if checkpoint is not None:
                self.checkpoint = int(checkpoint[0]), str(checkpoint[1]), str(checkpoint[2])
        except (FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
            self.shape, self.heads, self.published, self.barred = None, "", "", ""

    def save(self) -> None:
        """Write the note; one that cannot be written, or is lost, costs the next opening a comparison."""
        content = {
            "shape": self.shape,
            "heads": self.heads,
            "published": self.published,
            "barred": self.barred,
            "unmerged_at": self.unmerged_at,
            "checkpoint": None if self.checkpoint is None else [*self.checkpoint],
        }
        try:
            disk.put(self.path, dumps(content).encode(), mode=disk.OWN, durable=False, locked=False)
        except OSError:
            pass


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


def _tree_name(run: Run) -> str:
    if run.is_kept:
        return "kept"
    tree = work_tree_of(run.root)
    return os.path.basename(tree.own) if tree is not None and tree.is_linked else "main"
