"""A run and the files in its folder, where a project keeps its runs, and what their ids look like."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import InvalidRunId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# Both layouts are in use: SPEC, AGENT and RELOAD have the first, RECON and END the second. New runs go into the first.
RUNS = (".fractary/runs", ".fractary/faber/runs")
ACTIVE_FILES = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")

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


HOOK_LOG = ".fractary/faber/logs/hooks.log"
