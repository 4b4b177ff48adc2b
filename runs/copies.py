"""The copies of a run's log: its file, what a kill left beside it, the mirror, git's, and those of other work trees."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import is_empty, is_older_recovery, mirror_path, recovered_path
from faber_ledger.runs.git import GitQuery, other_roots, work_tree_of
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from faber_ledger.runs.run import Run


LARGEST = 1 << 30  # bytes

# The names of copies, as they are printed.
FILE = "the file alone"
JOURNAL = "the file with its journal"
RECOVERY = "an earlier recovery"
OLDER_RECOVERY = "an earlier recovery by 0.1"
MIRROR = "the mirror"
HEAD = "the last commit"
INDEX = "the index"
WORK_TREE = "another work tree"
ALL = (FILE, JOURNAL, RECOVERY, OLDER_RECOVERY, MIRROR, HEAD, INDEX, WORK_TREE)
REVISIONS = {HEAD: "HEAD:", INDEX: ":"}


class Copy:
    """A copy of a run's log, which may be damaged, or not a log at all.

    `path` is its file, or where the file would be if git has the copy; `run` is the run in the copy's work tree.
    """

    def __init__(self, name: str, run: Run, path: str) -> None:
        self.name = name
        self.run = run
        self.path = path

    def write_in(self, folder: str) -> str | None:
        """Write the copy to a file in `folder`, and return its path; None if there is none. Raises OSError."""
        target = os.path.join(folder, f"{ALL.index(self.name)}.db")
        if self.name == JOURNAL:
            return target if _is_played(self.path, target) else None
        if self.name in REVISIONS:
            content = _ask_git(self.run, ["cat-file", "blob"], self.name).answer_bytes()
            if content is None:
                return None
            with open(target, "wb") as file:
                file.write(content)
        else:
            from shutil import copyfile  # hooks copy none, but after a kill

            copyfile(self.path, target)  # another process may be writing it
        return target


def copies_of(run: Run, names: Collection[str] = ALL) -> Iterator[Copy]:
    """Find the copies of a run's log, of these names and in this order; git is asked for each of its own."""
    is_file = os.path.isfile(run.ledger_path) and not os.path.islink(run.ledger_path)
    if FILE in names and is_file:
        yield Copy(FILE, run, run.ledger_path)
    if JOURNAL in names and is_file and os.path.lexists(run.journal_path):
        yield Copy(JOURNAL, run, run.ledger_path)
    recovered = recovered_path(run) if RECOVERY in names else None
    if recovered is not None and os.path.isfile(recovered):
        yield Copy(RECOVERY, run, recovered)
    if RECOVERY in names and is_older_recovery(run):
        yield Copy(OLDER_RECOVERY, run, run.recovered_path)
    mirror = mirror_with_events(run) if MIRROR in names else None
    if mirror is not None:
        yield Copy(MIRROR, run, mirror)
    for name in (HEAD, INDEX) if work_tree_of(run.root) is not None else ():
        if name in names and _ask_git(run, ["cat-file", "-e"], name).answer() is not None:
            yield Copy(name, run, run.ledger_path)
    for other in runs_in_other_work_trees(run) if WORK_TREE in names else ():
        if os.path.isfile(other.ledger_path):
            yield Copy(WORK_TREE, other, other.ledger_path)


def mirror_with_events(run: Run) -> str | None:
    """Return the path of a run's mirror if it has an event; one that cannot be read may have.

    0.1.0 made an empty one where there was nothing to record.
    """
    path = mirror_path(run)
    return path if path is not None and has_events(path) else None


def has_events(path: str) -> bool:
    """Return whether a mirror is a file with an event, or one that cannot be read."""
    if not os.path.isfile(path) or is_empty(path):
        return False
    try:
        with Log.read(path) as log:
            return bool(log.heads())
    except (LedgerError, OSError, UnicodeDecodeError, sqlite3.Error):
        return True


def is_in_head(run: Run) -> bool:
    """Return whether git's last commit has a ledger of the run."""
    return any(True for _ in copies_of(run, (HEAD,)))


def is_other_than_head(run: Run) -> bool:
    """Return whether git's last commit has another ledger than the run's file."""
    committed = _name_in_head(run)
    return committed is not None and committed != _name_of_file(run)


def is_as_in_head(run: Run) -> bool:
    """Return whether git's last commit has the ledger exactly as the run's file is."""
    committed = _name_in_head(run)
    return committed is not None and committed == _name_of_file(run)


def read_state_in_head(run: Run) -> bytes | None:
    """Return the run's state.json as git's last commit has it; None if that has none, or without git."""
    if work_tree_of(run.root) is None:
        return None
    return _ask_git(run, ["cat-file", "blob"], HEAD, run.state_path).answer_bytes()


def _name_in_head(run: Run) -> str | None:
    """Return git's name of the ledger in its last commit; None if that has none, or without git."""
    if work_tree_of(run.root) is None:
        return None
    return _ask_git(run, ["rev-parse", "--verify", "--quiet"], HEAD).answer()


def _name_of_file(run: Run) -> str | None:
    """Return the name that git gives the ledger's file as it is."""
    path = os.path.realpath(run.ledger_path)
    return GitQuery(["hash-object", "--no-filters", "--", path], _git_folder(run)).answer()


def runs_in_other_work_trees(run: Run) -> list[Run]:
    """Return the run in each of the clone's other work trees that has its folder."""
    found = [find_run(root, run.run_id) for root in other_roots(run.root)]
    return [one for one in found if one.has_files()]


def _ask_git(run: Run, arguments: list[str], name: str, path: str = "") -> GitQuery:
    """Ask git about a file of a run, by default its ledger, in HEAD or in the index."""
    folder = _git_folder(run)
    inside = os.path.relpath(path or run.ledger_path, folder).replace(os.sep, "/")
    return GitQuery([*arguments, f"{REVISIONS[name]}./{inside}"], folder, limit=LARGEST)


def _git_folder(run: Run) -> str:
    """Return the run's folder, or the nearest one above it that exists: its path may lead through a link."""
    folder = run.directory
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _is_played(path: str, target: str) -> bool:
    """Copy a log, and play the journal beside it into the copy; return whether the two belong together."""
    from faber_ledger.ledger.journal import copy_and_play  # only after a kill

    try:
        copy_and_play(path, target)
    except (LedgerError, OSError, sqlite3.Error):
        return False
    return True
