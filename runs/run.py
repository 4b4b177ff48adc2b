"""A run, the files in its folder, and where a project keeps its runs.

The lists of file names below are the only ones: which files a run has, which of them travel in git, and which copies
this program makes of them. What may stand beside any ledger is in `ledger/__init__.py`.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING, RECOVERED_ENDING
from faber_ledger.ledger.errors import InvalidRunId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# Both layouts are in use: SPEC, AGENT and RELOAD have the first, RECON and END the second. New runs go into the first.
RUNS = (".fractary/runs", ".fractary/faber/runs")
ACTIVE_FILES = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")
LOGS = ".fractary/faber/logs"
HOOK_LOG = f"{LOGS}/hooks.log"

STATE = "state.json"
LEDGER = "ledger.db"
LOCK = "ledger.lock"
LEDGER_JOURNAL = LEDGER + JOURNAL_ENDING
METADATA = "metadata.json"

# One of these makes a folder a run, and a run without both cannot be resumed on another machine.
RUN_FILES = (STATE, LEDGER)
# What this program reads and writes in a run's folder: not material for the agent.
OWN_FILES = (STATE, LEDGER, LEDGER_JOURNAL, LOCK)

STATE_BACKUP = "state.backup.json"  # FABER's name for it (AGENT, RELOAD)
UNFINISHED_ENDINGS = (".tmp", RECOVERED_ENDING, ".migrating")  # a killed writer leaves such files
COPY_ENDINGS = (BACKUP_ENDING, *UNFINISHED_ENDINGS)

LONGEST_ID = 255
JOINING = dict.fromkeys(map(ord, "._-"))


class Run:
    """A run and its files, which may not exist; nobody else joins their names.

    `suffix` is not empty if the folder has several runs, those of one plan: then the name of each file has it.
    """

    is_kept = False  # whether the folder is the one below the git directory: `kept.py`

    def __init__(self, root: str, run_id: str, directory: str, suffix: str = "") -> None:
        self.root = root
        self.run_id = run_id
        self.directory = directory
        self.suffix = suffix
        self.state_path = self._path(STATE)
        self.backup_path = self.state_path + BACKUP_ENDING
        self.ledger_path = self._path(LEDGER)
        self.journal_path = self.ledger_path + JOURNAL_ENDING
        self.recovered_path = self.ledger_path + RECOVERED_ENDING
        self.lock_path = self._path(LOCK)

    def _path(self, name: str) -> str:
        """Return the path of a file whose name in a folder of its own is `name`: with `a`, `state-a.json`."""
        if self.suffix:
            stem, dot, ending = name.partition(".")
            name = f"{stem}-{self.suffix}{dot}{ending}"
        return os.path.join(self.directory, name)

    @property
    def backup_paths(self) -> tuple[str, str]:
        """The paths of the state's backups: ours, then FABER's."""
        return self.backup_path, self._path(STATE_BACKUP)

    @property
    def metadata_path(self) -> str:
        """The path of `metadata.json`."""
        return self._path(METADATA)

    @property
    def settings_path(self) -> str:
        """The path of the run's own settings."""
        return self._path("ledger.json")

    @property
    def required_paths(self) -> tuple[str, str]:
        """The paths of `RUN_FILES`."""
        return self.state_path, self.ledger_path

    @property
    def tracked_paths(self) -> tuple[str, ...]:
        """The paths of what `seal` stages; a run is complete without `metadata.json`."""
        return self.ledger_path, self.state_path, self.metadata_path

    def has_files(self) -> bool:
        """Return whether the run is there: its own folder, or its state or ledger in a folder of several runs."""
        if not self.suffix:
            return os.path.isdir(self.directory)
        return os.path.lexists(self.state_path) or os.path.lexists(self.ledger_path)

    def shown(self, path: str) -> str:
        """Return the path of a file of the run as reports show it: relative to the project, with slashes."""
        return os.path.relpath(path, self.root).replace(os.sep, "/")


def name_part(text: str) -> str:
    """Return a text as part of a run id: other characters than letters, digits, `.`, `-` and `_` become dashes."""
    kept = "".join([letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text])
    return kept.strip("._-")[:60].rstrip("._-")


def is_name(text: str) -> bool:
    """Return whether a text has only letters, digits, `.`, `-` and `_`, and starts with a letter or digit.

    No pattern is used: compiling one takes a hook longer than the comparison of every text it looks at.
    """
    return text.isascii() and text[:1].isalnum() and text.translate(JOINING).isalnum()


def is_run_id(text: str) -> bool:
    """Return whether a text is a run id: one to three names joined by `/`, at most 255 characters."""
    names = text.split("/")
    return len(text) <= LONGEST_ID and len(names) <= 3 and all([is_name(name) for name in names])


def find_root(start: str) -> str:
    """Return the project that a directory belongs to: the nearest ancestor with `.fractary` or `.git`, else itself."""
    at = start = os.path.abspath(start)
    while True:
        if os.path.isdir(os.path.join(at, ".fractary")) or os.path.lexists(os.path.join(at, ".git")):
            return at
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def find_run(root: str, run_id: str) -> Run:
    """Return a run from the layout that it is in, or at the place for a new one.

    Raises InvalidRunId for a text that is not a run id, and for a folder that leaves the runs directory through a link.
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
    """Return the ids of a project's runs, the folders with one of `RUN_FILES`, in both layouts, sorted."""
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
        if any([os.path.isfile(os.path.join(entry.path, name)) for name in RUN_FILES]):
            yield run_id
        if depth > 1:
            yield from _runs_below(entry.path, run_id + "/", depth - 1)
