"""Which of some files git tracks: git is asked once, and a private note keeps its answer until its index changes.

The note is `tracked` in the `faber-ledger` folder of the work tree's own git directory, where no commit can bring it.
It holds hashes of the files' names, since a name may hold a secret.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, open_regular, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.canonical import sha256
from faber_ledger.runs.git import GitQuery, work_tree_of
from faber_ledger.runs.private_files import make_below

NOTE = "tracked"
LARGEST_NOTE = 256 * 1024
SHARED_INDEX = "sharedindex."  # how the files begin that hold most of a split index, which the note does not see


class TrackedQuery:
    """Which of some files git tracks in a project; it is asked in the background, from the moment this is made."""

    def __init__(self, root: str, paths: list[str]) -> None:
        """Ask for files, whose paths have no links in them; no process is started for what the note knows."""
        tree = work_tree_of(root) if paths else None
        top = os.path.realpath(tree.top) if tree is not None else ""
        self._inside = {os.path.relpath(path, top): path for path in paths if top and path.startswith(f"{top}/")}
        self._own = tree.own if tree is not None else ""
        self._note = os.path.join(self._own, "faber-ledger", NOTE)
        self._seen = _shape_of_index(self._own) if self._inside else b""
        self._known = _read_note(self._note, self._seen) if self._seen else {}
        self._listed: GitQuery | None = None
        if not self._known.keys() >= {_hash_of(name) for name in self._inside}:
            self._began = self._time_of_files() if self._seen else 0
            arguments = ["--literal-pathspecs", "ls-files", "-z", "--cached", "--", *self._inside]
            self._listed = GitQuery(arguments, top)

    def answer(self) -> set[str]:
        """Return the paths of those that are tracked: none if git does not say so in time."""
        if self._listed is not None:
            listed = self._listed.answer_bytes()
            names = {os.fsdecode(name) for name in (listed or b"").split(b"\0")}
            self._known |= {_hash_of(name): name in names for name in self._inside}
            if listed is not None:
                self._keep()
        return {path for name, path in self._inside.items() if self._known[_hash_of(name)]}

    def _time_of_files(self) -> int:
        """Return the time (ns) that a file gets which is written now, by the clock and in the steps of its file system.

        0 if none can be written: then no note is kept.
        """
        probe = f"{self._note}.{os.getpid()}.tmp"
        try:
            make_below(self._own, os.path.dirname(self._note), durable=False)
            whole_file.write(probe, b"", mode=whole_file.OWN, durable=False)
            return os.lstat(probe).st_mtime_ns
        except OSError:
            return 0
        finally:
            whole_file.remove(probe)

    def _keep(self) -> None:
        """Keep the answers, if any later index will look different from the one that git has read.

        It will if this one is older than the question, by the file system's own clock: whatever is written from then on
        has another time. An index of the same moment might be replaced by one of the same number, size and time.
        """
        if not self._began or _shape_of_index(self._own, before=self._began) != self._seen:
            return
        answers = [b"%d%s" % (is_tracked, hashed) for hashed, is_tracked in self._known.items()]
        content = b"\0".join([self._seen, *answers])
        try:
            if len(content) < LARGEST_NOTE - 65 and not _is_split(self._own):
                whole_file.put(
                    self._note, _check_of(content) + content, mode=whole_file.OWN, durable=False, locked=False
                )
        except OSError:
            pass  # git is asked again


def _shape_of_index(own: str, *, before: int | None = None) -> bytes:
    """Return what tells whether git's index was written; empty without one, and for one not written `before` a time.

    It is opened, since on a network drive only that looks for what another machine has written.
    """
    try:
        descriptor = open_regular(os.path.join(own, "index"))
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except (FileRefused, OSError):
        return b""
    if before is not None and max(found.st_mtime_ns, found.st_ctime_ns) >= before:
        return b""
    return b"%d %d %d %d %d" % (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_split(own: str) -> bool:
    return any([name.startswith(SHARED_INDEX) for name in os.listdir(own)])


def _read_note(path: str, seen: bytes) -> dict[bytes, bool]:
    """Return what the note says of an index: whether the file of each hash is tracked.

    Nothing if it is of another index, or damaged.
    """
    try:
        check, content = (note := read_regular(path, LARGEST_NOTE))[:65], note[65:]
    except (FileRefused, OSError):
        return {}
    about, *answers = content.split(b"\0")
    if about != seen or check != _check_of(content):  # a power cut may leave a part of it
        return {}
    return {answer[1:]: answer[:1] == b"1" for answer in answers}


def _hash_of(name: str) -> bytes:
    return sha256(os.fsencode(name)).hexdigest().encode()


def _check_of(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode() + b"\n"
