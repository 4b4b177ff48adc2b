"""Where a project keeps its runs, and which of them is meant."""

from __future__ import annotations

import os

from faber_ledger.context.git import common_directory, place_of
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, NoActiveRun, RunNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Both layouts are in use: SPEC, AGENT and RELOAD have the first, RECON and END the second. New runs go into the first.
RUNS = (".fractary/runs", ".fractary/faber/runs")
ACTIVE_FILES = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")

MAX_RUN_ID = 255
PUNCTUATION = str.maketrans("._-", "000")


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


def is_run_id(text: str) -> bool:
    """Tell whether a text is one to three names joined by `/`: of ASCII letters, digits and `._-`, and 255 in all."""
    names = text.split("/", 3)
    return text.isascii() and len(text) <= MAX_RUN_ID and len(names) <= 3 and all(map(is_name, names))


def is_name(text: str) -> bool:
    """Tell whether a text is a letter or digit and then letters, digits and `._-`, in any script."""
    return text[:1].isalnum() and text.translate(PUNCTUATION).isalnum()


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

    None too in a linked worktree whose file came with the commit, while the run is active in another worktree.
    """
    run_id = named_run(root)
    place = place_of(root) if run_id else None
    if run_id and place and place.is_linked:
        from faber_ledger.context.holding import holder_elsewhere  # the main worktree, the usual one, never asks

        return None if holder_elsewhere(root, run_id) else run_id
    return run_id


def named_run(root: str) -> str | None:
    """Read which run the active file names; None if no file names one.

    White space around it, CRLF, a missing newline and a byte-order mark are tolerated; an empty or unreadable file
    is none (END, Step 1).
    """
    for name in ACTIVE_FILES:
        try:
            # No link is followed and no pipe waited for: the file may have come with the repository.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(os.path.join(root, *name.split("/")), flags)
            with open(descriptor, encoding="utf-8") as file:
                lines = file.read(4096).removeprefix("\ufeff").strip().splitlines()
        except (OSError, ValueError):
            continue
        if lines:
            return lines[0].strip()
    return None


def inherited_from(root: str) -> str:
    """Say that the active file's run goes on in another worktree, as the end of a sentence; empty if it does not."""
    from faber_ledger.context.holding import holder_elsewhere

    named = named_run(root)
    holder = holder_elsewhere(root, named) if named else None
    return f": the active file came with the commit, and {named} is active in {holder}" if holder else ""


def write_active_run(root: str, run_id: str) -> None:
    """Make a run the active one of this worktree (SPEC, Active Run ID Tracking Mechanism)."""
    path = os.path.join(root, *ACTIVE_FILES[0].split("/"))
    temporary = path + ".tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(temporary):
            os.unlink(temporary)  # left by a killed process, or a link that came with the repository: never followed
        with open(temporary, "x", encoding="utf-8", newline="\n") as file:
            file.write(run_id + "\n")
        os.replace(temporary, path)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}", hint="check the permissions of the .fractary folder"
        ) from error


def known_run(root: str, text: str) -> Run:
    """Give the run whose id is `text` or begins with it; raises InvalidRunId, and RunNotFound for none or several."""
    run = find_run(root, text)
    if os.path.isdir(run.directory):
        return run
    near = [run_id for run_id in run_ids(root) if run_id.startswith(text)]
    if len(near) == 1:
        return find_run(root, near[0])
    if near:
        raise RunNotFound(f"{text} is the beginning of several runs: {', '.join(near[:5])}", hint="give more of the id")
    raise RunNotFound(f"there is no run {text}", hint="run `faber-ledger run list` to see the runs of this project")


def chosen_run(root: str, text: str | None) -> Run:
    """Give the run that a command is about: the one named, else the active one; raises as `known_run`, NoActiveRun."""
    if text is not None:
        return known_run(root, text)
    active = read_active_run(root)
    if active is None:
        told = f"no run is active here{inherited_from(root)}"
        raise NoActiveRun(told, hint="name one; `faber-ledger run list` shows them")
    run = find_run(root, active)
    if not os.path.isdir(run.directory):
        raise RunNotFound(
            f"the active run {active} is not there",
            hint="get it with `git pull`, or make another one active with `faber-ledger run resume RUN`",
        )
    return run


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
