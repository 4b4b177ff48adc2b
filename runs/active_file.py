"""What says which run is meant here, for the rule in `active.py`: two active files, and notes of the runs in use.

The active files are this work tree's own, and git ignores them (DECISIONS 2). The notes are one private file of the
clone, a line for each fact, the newest last. A line begins with a run's id: this clone has recorded on that run. If a
tab follows, a command has taken the run up here; after the tab is the branch on which `run start` or `run resume`
named the run, or nothing.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, append_line, folder_around, open_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.clone import make_below, private_folder
from faber_ledger.runs.git import common_directory
from faber_ledger.runs.run import ACTIVE_FILES

ACTIVE_FILE_BYTES = 512  # more than any run's id has
USED_FILE = "used-runs"
MOST_BYTES = 1024 * 1024  # of the notes that are read, the newest


class Name:
    """A run's name in an active file: its first line, when it was written (seconds since 1970), and in which file."""

    def __init__(self, run_id: str, at: float, file: str) -> None:
        self.run_id = run_id
        self.at = at
        self.file = file


def read_name(root: str) -> tuple[Name | None, str]:
    """Return the name in the active file that was written last, and why a file cannot be read; empty if all can.

    White space around a name, CRLF, a missing newline and a byte-order mark are tolerated; an empty file counts as
    none (END, Step 1). Of a longer line the beginning is returned, which is not a run's id.
    """
    newest: Name | None = None
    problem = ""
    for file in ACTIVE_FILES:
        try:
            with open(open_regular(os.path.join(root, *file.split("/"))), "rb") as opened:
                at = os.fstat(opened.fileno()).st_mtime
                run_id = first_line(opened.read(ACTIVE_FILE_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, FileRefused, UnicodeDecodeError) as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None)
            problem = f"{file} cannot be read: {reason or error}"
            continue
        if run_id and (newest is None or at > newest.at):
            newest = Name(run_id, at, file)
    return newest, problem


def first_line(content: bytes) -> str:
    """Return the name in an active file's first 512 bytes, empty if there is none; raises UnicodeDecodeError."""
    text = content.decode(errors="strict" if len(content) < ACTIVE_FILE_BYTES else "ignore")
    lines = text.removeprefix("\ufeff").strip().splitlines()
    return lines[0].strip() if lines else ""


def check_active_folder(root: str) -> None:
    """Raise LedgerError if a link leads from the active file's folder out of the project."""
    folder = os.path.dirname(os.path.join(root, *ACTIVE_FILES[0].split("/")))
    if folder_around(folder, [root]) is None:
        message = f"{folder} is behind a link that leads out of the project, to {os.path.realpath(folder)}"
        raise LedgerError(message, hint="put the folder itself in the link's place")


def write_active_file(root: str, run_id: str) -> None:
    """Name a run in this work tree's active file (SPEC, Active Run ID Tracking Mechanism); raises LedgerError.

    FABER's own tools read the second file alone: it is written where it or its folder exists.
    """
    check_active_folder(root)
    first, second = [os.path.join(root, *name.split("/")) for name in ACTIVE_FILES]
    is_read = os.path.isdir(os.path.dirname(second)) and folder_around(os.path.dirname(second), [root]) is not None
    for path in (second, first) if is_read else (first,):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
        except OSError as error:
            raise LedgerError(
                f"cannot write {path}: {error.strerror}", hint="check the permissions of the .fractary folder"
            ) from error


# The runs in use


class UsedRuns:
    """The runs that a clone has used."""

    def __init__(self, lines: list[str]) -> None:
        """Take the file's lines."""
        self.recorded: dict[str, None] = {}  # in the order of their first use
        self.taken_up: set[str] = set()
        self.branches: dict[str, list[str]] = {}
        for line in lines:
            run_id, *fields = line.split("\t")
            self.recorded[run_id] = None
            if fields:
                self.taken_up.add(run_id)
            if fields and fields[0]:
                self.branches.setdefault(run_id, []).append(fields[0])


def read_used_runs(root: str) -> UsedRuns:
    """Return the runs that this clone has used; none if the file cannot be read."""
    return UsedRuns(_read_lines(root))


def note_use(root: str, run_id: str, *, is_taken_up: bool = False, branch: str | None = None) -> None:
    """Note that this clone has recorded on a run; with `is_taken_up` or a `branch`, that it has taken the run up.

    A note that cannot be written is not worth an error: what was recorded is in the log.
    """
    lines = _read_lines(root)
    is_known = run_id in [line.partition("\t")[0] for line in lines]
    line = f"{run_id}\t{branch or ''}" if is_taken_up or branch else run_id
    if line in lines or (line == run_id and is_known):
        return
    folder = private_folder(root)
    try:
        make_below(common_directory(root) or folder, folder, durable=False)
        append_line(os.path.join(folder, USED_FILE), line)
    except OSError:
        pass


def _read_lines(root: str) -> list[str]:
    try:
        with open(open_regular(os.path.join(private_folder(root), USED_FILE)), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
            return file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (FileRefused, OSError):
        return []
