"""What this clone keeps of its runs below the common git directory, where no checkout, clean or commit reaches.

In `.git/faber-ledger/`: `runs/` has a private folder for each run, with its log (`log.py`), its lock, the copy of its
`state.json`, the notes on work trees (`tree_note.py`), events that wait for a parent, and its kept summaries; `inbox/`
the deliveries that are not recorded yet, `clients/` what was seen of each client, `set-aside/` what was refused or
removed, `notices/` what the next start of a run says of that, `doctor/` the copies that `doctor --fix` makes, `writer`
the id of this clone, `key` its key, `set-up-checked` is there once a hook has looked whether `init` was run in this
clone, `sync/` what was exchanged with a team's server last; and there are the locks of what a clone does once.

Of a project in a folder below the repository's top, `runs/`, `inbox/` and `clients/` are in a folder of its own,
`projects/<key>/` (`project_key`). Without git the same is in `$XDG_STATE_HOME/faber-ledger/<key>/`, where the key is
the SHA-256 of the project's real path.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import NotWritable
from faber_ledger.ledger.lock import LOCK_SECONDS, RunLock
from faber_ledger.runs.git import clone_folder, common_directory, project_folder
from faber_ledger.runs.private_files import is_behind_link, make_below, missing_error, state_folder, write_once
from faber_ledger.runs.run import ATTRIBUTES_FILE, LARGEST_STATE, LONGEST_PATH, PLACE, STATE, quoted_form

SET_UP_CHECKED = "set-up-checked"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


def private_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project in this clone, which may not exist."""
    return project_folder(root) or state_folder(root)


def make_kept_folder(run: Run, folder: str, *, durable: bool = True) -> None:
    """Make a private folder of a run; raises OSError.

    Nothing is made for a project that was renamed under a running hook. No link is followed, since it may lead
    anywhere.
    """
    if not os.path.isdir(run.root):
        raise missing_error(run.root)
    make_below(common_directory(run.root) or run.directory, folder, durable=durable)


def lock_run(run: Run, seconds: float = LOCK_SECONDS) -> RunLock:
    """Return the lock under which a run is recorded on; its folder is made. Raises NotWritable."""
    try:
        make_kept_folder(run, run.private_folder)
    except OSError as error:
        raise NotWritable(
            f"cannot write {run.private_folder}: {error.strerror or error}",
            hint="check the permissions of the git directory",
        ) from error
    return RunLock(run.lock_path, seconds)


def state_copy_path(run: Run) -> str | None:
    """Return the path of the copy of a run's `state.json`; None for a kept run, whose state is the copy itself."""
    return None if run.is_kept else os.path.join(run.private_folder, STATE)


def keep_state(run: Run, content: bytes, warn: Callable[[str], None]) -> None:
    """Write the copy of a run's `state.json` beside its log, if there is one, for work trees that lack the run.

    Only its owner can read it. It is written whole, but need not survive a power cut. A link in its place is replaced.
    """
    path = state_copy_path(run)
    base = common_directory(run.root) or run.directory
    if path is None or not os.path.isfile(run.log_path) or is_behind_link(os.path.dirname(path), base):
        return
    try:
        keep_place(run)
        whole_file.put(path, content, mode=0o600, durable=False)
    except FileNotFoundError:
        pass  # another work tree has just written its own, under the same temporary name
    except OSError as error:
        warn(f"the copy of state.json under the git directory is not written: {error}")


def keep_place(run: Run) -> None:
    """Note where the run is in the project, and its id: it is brought back there. Raises OSError."""
    path = os.path.join(run.private_folder, PLACE)
    content = f"{run.shown(run.state_path)}\n{run.run_id}\n".encode("utf-8", "surrogateescape")
    try:
        if read_regular(path, LONGEST_PATH) == content:
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


def set_aside_folder(root: str) -> str:
    """Return the folder of what a project of this clone has set aside, which may not exist."""
    return os.path.join(private_folder(root), "set-aside")


def notices_folder(root: str) -> str:
    """Return the folder with a file for each run about which the next start has something to say."""
    return os.path.join(private_folder(root), "notices")


def notices_path(run: Run) -> str:
    """Return the path of what the next start of a run says."""
    return os.path.join(notices_folder(run.root), quoted_form(run.run_id))


def inbox_folder(root: str) -> str:
    """Return the folder that has a folder of deliveries for each run."""
    return os.path.join(private_folder(root), "inbox")


def inbox_path(run: Run) -> str:
    """Return the folder of a run's deliveries that are not recorded yet."""
    return os.path.join(inbox_folder(run.root), quoted_form(run.run_id))


def inbox_in_tree(run: Run) -> str:
    """Return where a run's deliveries are left if this clone's folder cannot be written (DECISIONS 58)."""
    return os.path.join(run.root, ".fractary", "inbox", quoted_form(run.run_id))


def clients_folder(root: str) -> str | None:
    """Return the folder that has one file for each client that was seen here; None without git."""
    folder = project_folder(root)
    return os.path.join(folder, "clients") if folder else None


def doctor_folder(root: str) -> str:
    """Return the folder in which `doctor --fix` keeps copies of what it changes."""
    return os.path.join(clone_folder(root) or state_folder(root), "doctor")


def path_in_clone(root: str, name: str) -> str | None:
    """Return the path of a file that a clone has once, for all of its projects; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, name) if folder else None


def writer_of(root: str) -> str:
    """Return the random id of this clone (32 hex digits); the first use makes it, where git never tracks it.

    Without git it is in the project, since it is not secret and has to stay the same where the project is renamed.
    """
    folder = clone_folder(root)
    path = os.path.join(folder or os.path.join(root, ".fractary", "faber"), "writer")
    known = _read_writer(path)
    if known:
        return known
    if folder is None and folder_around(os.path.dirname(path), [root]) is None:
        return os.urandom(16).hex()  # behind a link that leads out of the project: an id for this process alone
    made = os.urandom(16).hex()
    try:
        # Not the parents: a project renamed at this moment is not made again.
        try:
            if folder is not None:
                make_below(os.path.dirname(folder), folder, durable=False)
            else:
                os.mkdir(os.path.dirname(path))
        except FileExistsError:
            pass  # as nearly always; or another first hook was faster
        mode = whole_file.OWN if folder is not None else 0o666
        write_once(path, f"{made}\n".encode(), _read_writer, mode=mode)
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
    path = path_in_clone(root, "writer")
    return _read_writer(path) if path else None


def _read_writer(path: str) -> str | None:
    try:
        text = read_regular(path, 64, follow=True).decode().strip()
    except (FileRefused, OSError, ValueError):
        return None
    return text if len(text) == 32 and not text.strip("0123456789abcdef") else None


def is_empty(path: str) -> bool:
    """Return whether a file has no bytes, or cannot be looked at, as where there is none."""
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return True
