"""What this clone keeps of its runs below the common git directory, where no checkout, clean or commit reaches.

In `.git/faber-ledger/`: `runs/` has each run's mirror, what redactions from elsewhere have removed of it
(`unaccepted.py`), a copy of its `state.json` and its kept summaries, `spool/` the
deliveries that wait, `clients/` what was seen of each client, `doctor/` the copies that `doctor --fix` makes, `writer`
the id of this clone, `key` its key, `run-list.json` what `run list` printed, `set-up-checked` is there once a hook has
looked whether `init` was run in this clone, `sync/` what was exchanged with a team's server last; and there are the
locks of what a clone does once.

Of a project in a folder below the repository's top, `runs/`, `spool/`, `clients/` and the lists are in a folder of its
own, `projects/<key>/` (`project_key`). Earlier versions kept them together with those of the repository's other
projects: what is there of a run counts as this project's while the work tree has the run, and the project at the top
does not (`is_of_project`). `older_place.py` moves it when the run is next written.

Without git there are `spool/`, `ledgers/` and `doctor/` in `$XDG_STATE_HOME/faber-ledger/<key>/`, where the
key is the SHA-256 of the project's real path. `ledgers/` has notes of writers at work and of ledgers that were judged,
and unfinished recoveries; with git it is in the work tree's own git directory.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.ledger import RECOVERED_ENDING, whole_file
from faber_ledger.ledger.errors import InvalidRunId
from faber_ledger.runs.git import (
    clone_folder,
    common_directory,
    older_folder,
    project_folder,
    work_tree_of,
)
from faber_ledger.runs.ledger_notes import ledger_stem
from faber_ledger.runs.private_files import is_behind_link, make_below, state_folder
from faber_ledger.runs.run import (
    ATTRIBUTES_FILE,
    LARGEST_STATE,
    LEDGER,
    LOGS,
    PLACE,
    RUNS,
    STATE,
    find_run,
    kept_runs_folder,
)

SET_UP_CHECKED = "set-up-checked"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def private_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project in this clone, which may not exist."""
    return project_folder(root) or state_folder(root)


def kept_folder(root: str, run_id: str) -> str | None:
    """Return the folder that has a run's mirror, the copy of its state and its kept summaries; None without git."""
    folder = kept_runs_folder(root)
    if folder is None:
        return None
    kept, older = os.path.join(folder, *run_id.split("/")), older_kept_folder(root, run_id)
    return older if older is not None and not os.path.isfile(os.path.join(kept, LEDGER)) else kept


def older_kept_folder(root: str, run_id: str) -> str | None:
    """Return the folder in which an earlier version kept a run's mirror, if it has one of this project's run."""
    return _older_place(root, "runs", run_id, LEDGER)


def is_of_project(root: str, run_id: str) -> bool:
    """Return whether a run that an earlier version kept for the whole clone is of the project below the top at `root`.

    A run whose files no project has belongs to the one at the top.
    """
    tree = work_tree_of(root)
    try:
        if tree is None or not find_run(root, run_id).is_recorded():
            return False
        return not os.path.isdir(os.path.join(tree.top, ".fractary")) or not find_run(tree.top, run_id).is_recorded()
    except InvalidRunId:
        return False


def _older_place(root: str, name: str, run_id: str, needed: str) -> str | None:
    """Return a run's folder in the `older_folder` if it has the file or folder `needed` and is this project's."""
    older = older_folder(root)
    folder = os.path.join(older, name, *run_id.split("/")) if older else ""
    return folder if older and os.path.exists(os.path.join(folder, needed)) and is_of_project(root, run_id) else None


def mirror_path(run: Run) -> str | None:
    """Return the path of a run's mirror; None without git, and for a kept run, whose log is the mirror itself."""
    folder = None if run.is_kept else kept_folder(run.root, run.run_id)
    return os.path.join(folder, LEDGER) if folder else None


def state_copy_path(run: Run) -> str | None:
    """Return the path of the copy of a run's `state.json`; None where there is no mirror."""
    mirror = mirror_path(run)
    return os.path.join(os.path.dirname(mirror), STATE) if mirror else None


def keep_state(run: Run, content: bytes) -> None:
    """Write the copy of a run's `state.json` beside its mirror, if there is one; raises OSError.

    Only its owner can read it. It is written whole, but need not survive a power cut. A link in its place is replaced.
    """
    path = state_copy_path(run)
    base = common_directory(run.root) or run.directory
    if path is None or not os.path.isfile(mirror_path(run) or "") or is_behind_link(os.path.dirname(path), base):
        return
    _keep_place(run, os.path.dirname(path))
    try:
        whole_file.put(path, content, mode=0o600, durable=False)
    except FileNotFoundError:
        pass  # another work tree has just written its own, under the same temporary name


def _keep_place(run: Run, folder: str) -> None:
    """Write where the run is in the project, if its id does not tell: it stays there, and is brought back there."""
    shown, path = run.shown(run.state_path), os.path.join(folder, PLACE)
    content = f"{shown}\n".encode("utf-8", "surrogateescape")
    if shown.startswith(f"{RUNS[0]}/"):
        if os.path.lexists(path):
            whole_file.remove(path)  # the run was moved
        return
    try:
        if read_regular(path, LARGEST_STATE) == content:
            return
    except (FileRefused, OSError):
        pass  # not written yet
    whole_file.put(path, content, mode=0o600, durable=False, locked=False)


def read_state_copy(run: Run) -> bytes | None:
    """Return the content of the copy of a run's `state.json`; None if there is none that can be read."""
    path = state_copy_path(run)
    try:
        return read_regular(path, LARGEST_STATE) if path is not None else None
    except (FileRefused, OSError):
        return None


def spools_folder(root: str) -> str:
    """Return the folder that has the waiting deliveries of the run `a/b` in `a/b/`."""
    return os.path.join(private_folder(root), "spool")


def spool_path(run: Run) -> str:
    """Return the folder of a run's waiting deliveries."""
    path, older = os.path.join(spools_folder(run.root), *run.run_id.split("/")), older_spool_path(run)
    return older if older is not None and not os.path.isdir(path) else path


def older_spool_path(run: Run) -> str | None:
    """Return the folder in which an earlier version kept a run's waiting deliveries, if it is there."""
    return _older_place(run.root, "spool", run.run_id, "")


def spool_left_in_run(run: Run) -> str | None:
    """Return the folder in which 0.1 kept a run's waiting deliveries without git, if it is there; None with git."""
    if project_folder(run.root) is not None:
        return None
    path = os.path.join(run.directory, run.spool_name)
    return path if os.path.isdir(path) and not os.path.islink(path) else None


def clients_folder(root: str) -> str | None:
    """Return the folder that has one file for each client that was seen here; None without git."""
    folder = project_folder(root)
    return os.path.join(folder, "clients") if folder else None


def doctor_folders(root: str) -> list[str]:
    """Return the folders in which `doctor --fix` keeps copies of what it changes, the one to use first.

    The last is where 0.1 kept those of a project without git.
    """
    folder = clone_folder(root) or state_folder(root)
    return [os.path.join(folder, "doctor"), os.path.join(root, *LOGS.split("/"), "doctor")]


def cleanup_lock_path(root: str) -> str | None:
    """Return the path of the lock for one `worktree cleanup` at a time; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, "cleanup.lock") if folder else None


def takeover_lock_path(root: str) -> str | None:
    """Return the path of the lock under which a run is made active; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, "takeover.lock") if folder else None


def registry_lock_path(root: str) -> str | None:
    """Return the path of the lock of the registry of work trees; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, "worktrees.lock") if folder else None


def registry_without_main(root: str) -> str | None:
    """Return where the registry of work trees is if there is no main work tree to keep it in; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, "worktrees.json") if folder else None


def writer_of(root: str) -> str:
    """Return the random id of this clone (32 hex digits); the first use makes it, where git never tracks it.

    Without git it is in the project, since it is no secret and has to stay the same where the project is renamed.
    """
    folder = clone_folder(root)
    path = os.path.join(folder or os.path.join(root, ".fractary", "faber"), "writer")
    known = _read_writer(path)
    if known:
        return known
    if folder is None and folder_around(os.path.dirname(path), [root]) is None:
        return os.urandom(16).hex()  # behind a link that leads out of the project: an id for this process alone
    made = os.urandom(16).hex()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        # Not the parents: a project renamed at this moment is not made again.
        try:
            if folder is not None:
                make_below(os.path.dirname(folder), folder, durable=False)
            else:
                os.mkdir(os.path.dirname(path))
        except FileExistsError:
            pass  # as nearly always; or another first hook was faster
        whole_file.write(temporary, f"{made}\n".encode(), durable=False)
        try:
            os.link(temporary, path)  # the first of two processes wins, and both read its id
        except FileExistsError:
            if not _read_writer(path):
                os.replace(temporary, path)
        whole_file.remove(temporary)
    except OSError:
        return _read_writer(path) or made  # the folder is not writable: an id for this process alone
    return _read_writer(path) or made


def is_set_up_unchecked(root: str) -> bool:
    """Return whether the project has attributes for git, and no hook has looked whether `init` was run in this clone.

    Two looks at files, since every start asks.
    """
    folder = clone_folder(root)
    return (
        folder is not None
        and os.path.lexists(os.path.join(root, ATTRIBUTES_FILE))
        and not os.path.lexists(os.path.join(folder, SET_UP_CHECKED))
    )


def note_set_up_checked(root: str) -> bool:
    """Note that a hook has looked; return whether this process was the first to note it."""
    folder = clone_folder(root)
    try:
        if folder is None:
            return False
        make_below(os.path.dirname(folder), folder, durable=False)
        os.close(os.open(os.path.join(folder, SET_UP_CHECKED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def known_writer(root: str) -> str | None:
    """Return this clone's id if it has one; without git none is known to be this clone's, since it may be copied."""
    folder = clone_folder(root)
    return _read_writer(os.path.join(folder, "writer")) if folder else None


def _read_writer(path: str) -> str | None:
    try:
        text = read_regular(path, 64, follow=True).decode().strip()
    except (FileRefused, OSError, ValueError):
        return None
    return text if len(text) == 32 and not text.strip("0123456789abcdef") else None


# What stands beside a log


def is_recovery_due(run: Run) -> bool:
    """Return whether a journal is beside a run's log, or a recovery of it was killed before its last step."""
    return os.path.lexists(run.journal_path) or os.path.isfile(recovered_path(run) or "") or is_older_recovery(run)


def recovered_path(run: Run) -> str | None:
    """Return the path of an unfinished recovery of a run's log; None for a kept run, which is never recovered."""
    stem = ledger_stem(run.ledger_path)
    return stem + RECOVERED_ENDING if stem is not None else None


def is_older_recovery(run: Run) -> bool:
    """Return whether 0.1 left the result of an unfinished recovery beside a run's log; `recover` looks at its worth.

    What git tracks came with a commit.
    """
    path = run.recovered_path
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    from faber_ledger.runs.git import is_tracked  # only after a kill, or with such a file in a commit

    return is_tracked(path) is False


def is_empty(path: str) -> bool:
    """Return whether a file has no bytes, or does not exist."""
    try:
        return os.path.getsize(path) == 0
    except FileNotFoundError:
        return True
