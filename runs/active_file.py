"""The files that name a run: the two active files, which are committed, and this work tree's claim, which is not.

Beside the claim is the note of a put-back: that this work tree goes on with a run although its active files no longer
name it (`put_back.py`). Which of these names holds is decided in `active.py`.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, append_line, folder_around, open_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git import common_directory, older_folder, project_folder, project_key, work_tree_of
from faber_ledger.runs.run import ACTIVE_FILES

CLAIM_FILE = "faber-ledger-run"  # in the work tree's own git directory; a project below the top has one of its own
CLAIM_BYTES = 4096
PUT_BACK_FILE = "faber-ledger-put-back"  # beside the claim
MOST_NAMES = 20  # that a put-back wrote are remembered, the newest
ACTIVE_FILE_BYTES = 512  # more than any run's id has


class Name:
    """A run's name in a file: its first line, whoever wrote it, and when the file was written (seconds since 1970).

    `file` is the active file's path from the root; None for the claim.
    """

    def __init__(self, run_id: str, at: float, file: str | None) -> None:
        self.run_id = run_id
        self.at = at
        self.file = file


def read_active_files(root: str, claim: Name | None) -> tuple[list[Name], list[str]]:
    """Return the names in the two active files, and what kept a file from being read.

    White space around a name, CRLF, a missing newline and a byte-order mark are tolerated; an empty or unreadable file
    counts as none (END, Step 1). The claim stands in for a file that the system cannot read at the moment
    (`_is_temporary`). Of a longer line the beginning is returned, which is not a run's id.
    """
    names: list[Name] = []
    problems: list[str] = []
    for file in ACTIVE_FILES:
        try:
            with open(open_regular(os.path.join(root, *file.split("/"))), "rb") as opened:
                at = os.fstat(opened.fileno()).st_mtime
                content = opened.read(ACTIVE_FILE_BYTES)
            run_id = first_line(content)
        except FileNotFoundError:
            continue
        except OSError as error:
            if claim is not None and _is_temporary(error):
                return [claim], problems
            problems.append(f"{file} cannot be read: {error.strerror}")
            continue
        except (FileRefused, UnicodeDecodeError) as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
            problems.append(f"{file} cannot be read: {reason}")
            continue
        if run_id:
            names.append(Name(run_id, at, file))
    return names, problems


def _is_temporary(error: OSError) -> bool:
    from errno import EIO, EMFILE, ENFILE, ENOMEM, ENOSPC  # rarely needed

    return error.errno in (EIO, EMFILE, ENFILE, ENOMEM, ENOSPC)


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


def name_active_run(root: str, run_id: str) -> None:
    """Claim a run and name it in the active files: all of them or, with a LedgerError, none.

    It ends what a put-back has noted: the active files name the run again.
    """
    take_over_claim(root)
    paths = [os.path.join(root, *name.split("/")) for name in ACTIVE_FILES]
    paths += [path for path in (_path_of(root, CLAIM_FILE), _path_of(root, PUT_BACK_FILE)) if path is not None]
    before = [(path, _content_of(path)) for path in paths]
    try:
        claim_run(root, run_id)
        _end_put_back(root)
        write_active_file(root, run_id)
    except LedgerError:
        for path, (content, times) in before:
            _restore(path, content, times)
        raise


def _content_of(path: str) -> tuple[bytes | None, tuple[int, int]]:
    """Return what a file says and its times; None if there is none that can be read."""
    try:
        with open(open_regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            return file.read(CLAIM_BYTES), (status.st_atime_ns, status.st_mtime_ns)
    except (OSError, FileRefused):
        return None, (0, 0)


def _restore(path: str, content: bytes | None, times: tuple[int, int]) -> None:
    """Restore what a file said, if that is possible; a name is as old as its file (`active.py`)."""
    if _content_of(path)[0] == content:
        return
    try:
        if content is None:
            os.unlink(path)
        else:
            whole_file.put(path, content, durable=False, locked=False)
            os.utime(path, ns=times)
    except OSError:
        pass  # the error that is raised names the folder


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


# The claim


def claims(root: str, run_id: str) -> bool:
    """Return whether a work tree's claim names a run."""
    claim = read_claim(root)
    return claim is not None and claim.run_id == run_id


def read_claim(root: str) -> Name | None:
    """Return the run that was last started, resumed or worked on in this work tree; None if none was, or without git.

    The claims of 0.1 may have a second line, which is ignored.
    """
    path = _path_to_read(root, CLAIM_FILE)
    return _read_claim_at(path) if path is not None else None


def _read_claim_at(path: str) -> Name | None:
    try:
        with open(open_regular(path), encoding="utf-8") as file:
            at = os.fstat(file.fileno()).st_mtime
            run_id = file.read(CLAIM_BYTES).strip().split("\n")[0]
    except (FileRefused, OSError, ValueError):
        return None
    return Name(run_id, at, None) if run_id else None


def claim_run(root: str, run_id: str) -> None:
    """Write in the work tree's own git directory that it is working on a run; raises LedgerError."""
    path = _path_of(root, CLAIM_FILE)
    if path is None:
        return
    take_over_claim(root)
    try:
        whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the git directory"
        ) from error
    remember_use(root, run_id)


def take_over_claim(root: str) -> None:
    """Move the claim and the note of an earlier version to the project's own if the claim names a run of it.

    The project is below the repository's top; what cannot be moved now is read where it is.
    """
    older = _older_claim(root)
    if older is None:
        return
    for name in (PUT_BACK_FILE, CLAIM_FILE):
        path = _path_of(root, name)
        try:
            if path is not None:
                os.replace(os.path.join(os.path.dirname(older), name), path)
        except OSError:
            continue


def _path_of(root: str, name: str) -> str | None:
    """Return the path of a project's claim or note in the work tree's own git directory; None without git."""
    tree, key = work_tree_of(root), project_key(root)
    if tree is None:
        return None
    return os.path.join(tree.own, f"{name}-{key}" if key else name)


def _path_to_read(root: str, name: str) -> str | None:
    """Return the path of a project's claim or note, that of an earlier version where it is this project's."""
    older = _older_claim(root) if project_key(root) else None
    return _path_of(root, name) if older is None else os.path.join(os.path.dirname(older), name)


def _older_claim(root: str) -> str | None:
    """Return the claim that an earlier version wrote for the whole work tree, if it is of this project.

    The project is below the repository's top, and has no claim of its own yet.
    """
    tree, path = work_tree_of(root), _path_of(root, CLAIM_FILE)
    if tree is None or path is None or not project_key(root) or os.path.lexists(path):
        return None
    older = os.path.join(tree.own, CLAIM_FILE)
    claim = _read_claim_at(older)
    from faber_ledger.runs.clone import is_of_project  # not for a project at the top

    return older if claim is not None and is_of_project(root, claim.run_id) else None


# The note of a put-back


class PutBack:
    """What put-backs wrote in this work tree.

    `run_id` is the run that the work tree goes on with, since the moment `at` (seconds since 1970); empty once a
    command has named the active run. `names` are the names that put-backs wrote to active files, the newest last: the
    commit at HEAD then, the file, and the name.
    """

    def __init__(self, run_id: str, at: float, names: list[tuple[str, str, str]]) -> None:
        self.run_id = run_id
        self.at = at
        self.names = names


def read_put_back(root: str) -> PutBack | None:
    """Return what put-backs wrote in a work tree; None if there was none, or it cannot be read."""
    path = _path_to_read(root, PUT_BACK_FILE)
    if path is None:
        return None
    try:
        with open(open_regular(path), encoding="utf-8") as file:
            at = os.fstat(file.fileno()).st_mtime
            first, *lines = file.read(CLAIM_BYTES * MOST_NAMES).split("\n")
    except (FileRefused, OSError, ValueError):
        return None
    names = [(one[0], one[1], one[2]) for one in [line.split("\t") for line in lines] if len(one) == 3]
    return PutBack(first.strip(), at, names)


def is_put_back(root: str, run_id: str) -> bool:
    """Return whether a work tree goes on with a run whose active files were put back."""
    note = read_put_back(root)
    return note is not None and note.run_id == run_id


def note_put_back(root: str, run_id: str, names: list[tuple[str, str, str]]) -> None:
    """Note that this work tree goes on with a run, and the `names` that are written to its active files.

    Raises LedgerError.
    """
    path, before = _path_of(root, PUT_BACK_FILE), read_put_back(root)
    if path is None:
        return
    known = [*(before.names if before is not None else []), *names]
    lines = [run_id, *["\t".join(one) for one in dict.fromkeys(known)][-MOST_NAMES:]]
    try:
        whole_file.put(path, ("\n".join(lines) + "\n").encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the git directory"
        ) from error


def _end_put_back(root: str) -> None:
    """End what the note says of the active run; the names that put-backs wrote are remembered."""
    before = read_put_back(root)
    if before is not None and before.run_id:
        note_put_back(root, "", [])


# Use


USED_FILE = "used-runs"  # in the `project_folder`: one run id a line
USED_BYTES = 1024 * 1024  # of it that are read, the newest


def was_used(root: str, run_id: str) -> bool:
    """Return whether a run was claimed in any work tree of this clone, or named to a command on purpose."""
    if run_id in _used_runs(root):
        return True
    if run_id not in _read_used_runs(older_folder(root)):
        return False
    from faber_ledger.runs.clone import is_of_project  # not for a project at the top

    return is_of_project(root, run_id)


def remember_use(root: str, run_id: str) -> None:
    """Note that a run is used in this clone: a claim is replaced, and a resumed run need not have an event."""
    folder, base = project_folder(root), common_directory(root)
    if folder is None or base is None or run_id in _used_runs(root):
        return
    from faber_ledger.runs.private_files import make_below

    try:
        make_below(base, folder, durable=False)  # not git's own directory
        append_line(os.path.join(folder, USED_FILE), run_id)
    except OSError:
        pass  # the run's log says so too once something is recorded on it


def _used_runs(root: str) -> list[str]:
    return _read_used_runs(project_folder(root))


def _read_used_runs(folder: str | None) -> list[str]:
    if folder is None:
        return []
    try:
        with open(open_regular(os.path.join(folder, USED_FILE)), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - USED_BYTES))
            return file.read(USED_BYTES).decode().splitlines()
    except (FileRefused, OSError, ValueError):
        return []
