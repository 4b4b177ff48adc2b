"""Where a project keeps its runs, and which of them is meant."""

from __future__ import annotations

import errno
import os
import stat

from faber_ledger.context.git import common_directory, place_of
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, NoActiveRun, RunNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Both layouts are in use: SPEC, AGENT and RELOAD have the first, RECON and END the second. New runs go into the first.
RUNS = (".fractary/runs", ".fractary/faber/runs")
ACTIVE_FILES = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")
OF_THE_SYSTEM = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)  # errors that pass
TAKEN_UP = "faber-ledger-run"  # in the work tree's own git directory

ACTIVE_BYTES = 512  # more than any run's id has

LONGEST_ID = 255
JOINING = dict.fromkeys(map(ord, "._-"))


class Run:
    """A run and the files in its folder; they need not exist."""

    def __init__(self, root: str, run_id: str, directory: str) -> None:
        self.root = root
        self.run_id = run_id
        self.directory = directory
        self.state_path = os.path.join(directory, "state.json")
        self.ledger_path = os.path.join(directory, "ledger.db")
        self.lock_path = os.path.join(directory, "ledger.lock")

    def shown(self, name: str) -> str:
        """Give the path of a file in the run's folder as reports show it: relative to the project, with slashes."""
        return os.path.relpath(os.path.join(self.directory, name), self.root).replace(os.sep, "/")


def project_name(root: str) -> str:
    """Give the project's name, as run ids have it: that of the folder, of a linked worktree the main one's."""
    common = common_directory(root)
    folder = os.path.dirname(common) if common and os.path.basename(common) == ".git" else root
    return name_part(os.path.basename(folder)) or "project"


def name_part(text: str) -> str:
    """Make a part of a run id of a text: its letters, digits, dots, dashes and underscores."""
    kept = "".join([letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text])
    return kept.strip("._-")[:60].rstrip("._-")


def is_name(text: str) -> bool:
    """Tell whether a text is letters, digits, dots, dashes and underscores, and starts with a letter or digit.

    Without a pattern: to compile one takes a hook longer than all that it looks at.
    """
    return text.isascii() and text[:1].isalnum() and text.translate(JOINING).isalnum()


def is_run_id(text: str) -> bool:
    """Tell whether a text is a run's id: one to three names joined by `/`, 255 characters in all."""
    names = text.split("/")
    return len(text) <= LONGEST_ID and len(names) <= 3 and all([is_name(name) for name in names])


def find_root(start: str) -> str:
    """Find the project that a directory belongs to: the nearest ancestor with `.fractary` or `.git`, else itself."""
    at = start = os.path.abspath(start)
    while True:
        if os.path.isdir(os.path.join(at, ".fractary")) or os.path.lexists(os.path.join(at, ".git")):
            return at
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def find_run(root: str, run_id: str) -> Run:
    """Give a run where it is, in either layout, else where a new one goes.

    Raises InvalidRunId for anything that is no run id or, links resolved, leaves the runs directory.
    """
    if not is_run_id(run_id):
        raise InvalidRunId(
            f"{run_id!r:.80} is not a run id: one to three parts joined by `/`, each of letters, digits and `._-` and"
            " starting with a letter or digit, 255 characters in all",
            hint=f"run `faber-ledger run list` to see the runs; the active one is named in {ACTIVE_FILES[0]}",
        )
    folders = [os.path.join(root, *runs.split("/")) for runs in RUNS]
    found = [runs for runs in folders if os.path.lexists(os.path.join(runs, *run_id.split("/")))]
    runs = [*found, folders[0]][0]
    directory = os.path.join(runs, *run_id.split("/"))
    _check_inside(root, runs, directory, run_id)
    return Run(root, run_id, directory)


def _check_inside(root: str, runs: str, directory: str, run_id: str) -> None:
    real = os.path.realpath(directory)
    for inside in (os.path.realpath(root), os.path.realpath(runs)):
        if not real.startswith(os.path.join(inside, "")):
            raise InvalidRunId(
                f"the run {run_id} is behind a link that leads out of {inside}",
                hint="put the folder itself in the link's place",
            )


def read_active_run(root: str) -> str | None:
    """Read the id of the active run, as it stands in the file; None if no file has one.

    None too where the file came with a commit or a merge, while the run is active in another worktree.
    """
    run_id = named_run(root)
    place = place_of(root) if run_id else None
    if run_id and place and (place.is_linked or os.path.isdir(os.path.join(place.common, "worktrees"))):
        from faber_ledger.context.holding import holder_elsewhere  # a clone with one work tree, the usual, never asks

        return None if holder_elsewhere(root, run_id) else run_id
    return run_id


def named_run(root: str) -> str | None:
    """Give the run that the active file names; None if no file names one.

    A merge or a pull can bring an active file that names another run: that ends nothing, and the run that was taken up
    here goes on.
    """
    run_id = run_in_file(root)
    mine = taken_up(root) if run_id else None
    if run_id is None or mine is None or mine == run_id:
        return run_id
    from faber_ledger.context.holding import own_word_counts

    return mine if own_word_counts(root, run_id, mine) else run_id


def taken_up(root: str) -> str | None:
    """Read which run was last started or resumed in this work tree; None where none was, or without git."""
    place = place_of(root)
    try:
        with open(os.path.join(place.own if place else root, TAKEN_UP), encoding="utf-8") as file:
            return (file.read(4096).strip().split("\n")[0] or None) if place else None
    except (OSError, ValueError):
        return None


def run_in_file(root: str) -> str | None:
    """Read the id in the active file, whoever wrote it.

    White space around it, CRLF, a missing newline and a byte-order mark are tolerated; an empty or unreadable file
    is none (END, Step 1). For one that the system does not give for a moment (`OF_THE_SYSTEM`) stands the run that was
    taken up in this work tree. Of a longer text its beginning is given, which is no run's id.
    """
    return next(_names(root, []), None)


def _names(root: str, problems: list[str]) -> Iterator[str]:
    """Give what each active file names, or stands in for it as `run_in_file` says.

    What keeps one from being read is added to `problems`.
    """
    for name in ACTIVE_FILES:
        path = os.path.join(root, *name.split("/"))
        try:
            # No link is followed and no pipe waited for: the file may have come with the repository.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            text = _beginning(os.open(path, flags))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            mine = taken_up(root) if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM else None
            if mine is not None:
                yield mine  # the file is right, as far as anybody knows
            told = error.strerror if isinstance(error, OSError) else str(error)
            told = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else told
            problems.append(f"{name} cannot be read: {'a link' if os.path.islink(path) else told}")
            continue
        lines = text.removeprefix("\ufeff").strip().splitlines()
        if lines:
            yield lines[0].strip()


def _beginning(descriptor: int) -> str:
    """Read the beginning of a regular file and close it; raises ValueError for anything else."""
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ValueError("a directory" if stat.S_ISDIR(mode) else "a pipe or device, not a regular file")
        content = os.read(descriptor, ACTIVE_BYTES)
    finally:
        os.close(descriptor)
    return content.decode(errors="strict" if len(content) < ACTIVE_BYTES else "ignore")


def why_none(root: str) -> str:
    """Say why no run is active although there is an active file, as the end of a sentence; empty if there is none.

    It cannot be read, or it came with the commit while its run goes on in another worktree.
    """
    from faber_ledger.context.holding import holder_elsewhere

    problems: list[str] = []
    named = next(_names(root, problems), None)
    holder = holder_elsewhere(root, named) if named else None
    if holder:
        return f": the active file came with the commit, and {named} is active in {holder}"
    return f": {'; '.join(problems)}" if problems and not named else ""


def check_active_place(root: str) -> None:
    """Check that the active file's folder is the project's; raises LedgerError where a link leads out of it."""
    from faber_ledger.files.untrusted import folder_around  # hooks write none

    folder = os.path.dirname(os.path.join(root, *ACTIVE_FILES[0].split("/")))
    if folder_around(folder, [root]) is None:
        told = f"{folder} is behind a link that leads out of the project, to {os.path.realpath(folder)}"
        raise LedgerError(told, hint="put the folder itself in the link's place")


def write_active_run(root: str, run_id: str) -> None:
    """Make a run the active one of this worktree (SPEC, Active Run ID Tracking Mechanism)."""
    path = os.path.join(root, *ACTIVE_FILES[0].split("/"))
    check_active_place(root)
    from faber_ledger.ledger import whole_file  # hooks write none

    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        whole_file.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the .fractary folder"
        ) from error


def known_run(root: str, text: str) -> Run:
    """Give the run whose id is `text` or begins with it; raises InvalidRunId, and RunNotFound for none or several."""
    run = find_run(root, text)
    if os.path.isdir(run.directory):
        return run
    known = run_ids(root)
    near = [run_id for run_id in known if run_id.startswith(text)]
    if len(near) == 1:
        return find_run(root, near[0])
    if near:
        raise RunNotFound(f"{text} is the beginning of several runs: {', '.join(near[:5])}", hint="give more of the id")
    from difflib import get_close_matches  # only after a slip

    close = get_close_matches(text, known, n=4, cutoff=0.4)
    told = f"; near it are: {', '.join(close)}" if close else ""
    raise RunNotFound(
        f"there is no run {text}{told}", hint="run `faber-ledger run list` to see the runs of this project"
    )


def chosen_run(root: str, text: str | None) -> Run:
    """Give the run that a command is about: the one named, else the active one; raises as `known_run`, NoActiveRun."""
    if text is not None:
        return known_run(root, text)
    active = read_active_run(root)
    if active is None:
        told = f"no run is active here{why_none(root)}"
        raise NoActiveRun(told, hint=_taken_hint(root) or "name one; `faber-ledger run list` shows them")
    run = find_run(root, active)
    if not os.path.isdir(run.directory):
        raise RunNotFound(
            f"the active run {active} is not there",
            hint=_taken_hint(root)
            or "get it with `git pull`, or make another one active with `faber-ledger run resume RUN`",
        )
    return run


def _taken_hint(root: str) -> str:
    from faber_ledger.context.bring_back import run_taken_away  # only where no run is there

    taken = run_taken_away(root)
    return f"`faber-ledger run resume {taken}` brings back the run that went on here" if taken else ""


def run_ids(root: str) -> list[str]:
    """List the runs of a project that have a state.json or a ledger.db, in both layouts, in order of their names."""
    found: set[str] = set()
    for runs in RUNS:
        found.update(_runs_below(os.path.join(root, *runs.split("/")), "", depth=3))
    return sorted(found)


def _runs_below(directory: str, prefix: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        run_id = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False) or not is_run_id(run_id):
            continue
        if any([os.path.isfile(os.path.join(entry.path, name)) for name in ("state.json", "ledger.db")]):
            yield run_id
        if depth > 1:
            yield from _runs_below(entry.path, run_id + "/", depth - 1)
