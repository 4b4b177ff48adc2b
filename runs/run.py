"""A run, its files, and the layouts: where a project keeps its runs; and the clone's own folders.

`LAYOUTS` is the only table of them. The lists of file names below are the only ones, too: which files a run has, which
of them travel in git, and which copies this program makes.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import BACKUP_ENDING
from faber_ledger.ledger.disk import is_own_name
from faber_ledger.ledger.encoding import sha256
from faber_ledger.runs import git
from faber_ledger.runs.git import project_key, stranger_at, work_tree_of

# The folders of runs: SPEC, AGENT and RELOAD have the first; RECON, END and FABER's own tools have the second.
RUNS = (".fractary/runs", ".fractary/faber/runs")
# Every layout, in the order of search: a folder of runs, and below it the path of a run's state. FABER made the last
# two in February 2026; there a run's id is `<plan_id>-run-<suffix>`, or `<plan_id>/<suffix>`.
LAYOUTS = (
    (RUNS[0], "<run_id>/state.json"),
    (RUNS[1], "<run_id>/state.json"),
    (RUNS[1], "<plan_id>/<suffix>/state.json"),
    (RUNS[1], "<plan_id>/state-<suffix>.json"),
)
OF_PLAN = "-run-"
ACTIVE_FILES = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")
ATTRIBUTES_FILE = ".fractary/.gitattributes"  # how git merges and shows a run's files
LOGS = ".fractary/faber/logs"
HOOK_LOG = f"{LOGS}/hooks.log"

PROJECT_FILE = ".fractary/faber/ledger.json"  # the project's settings
CONSENT = "carry.json"  # what this clone's `init` has agreed to
CARRY = "carry"  # its member that says how ledgers travel (DECISIONS 57): with the code, or in git refs
TREE, REFS = "tree", "refs"

STATE = "state.json"
LEDGER = "ledger.db"
METADATA = "metadata.json"

# One of these makes a folder a run, and a run without both cannot be resumed on another machine.
RUN_FILES = (STATE, LEDGER)
SETTINGS = "ledger.json"
STATE_BACKUP = "state.backup.json"  # FABER's name for it (AGENT, RELOAD)

# What this clone keeps of a run in its private folder, where no checkout reaches.
LOG = "log.db"
LOCK = "lock"
# Lines: the path of the run's state in the project, the run's id, the work tree that wrote the copy of it, and the one
# from which that may have its files.
PLACE = "place"
STRIPPED = "stripped"  # there while older copies may have a payload that was removed from the log
SUMMARY = "summary-"  # a kept summary, with the id of its event
# What is in a run's folder: files, ours and those of FABER's own tools, and folders of these tools.
EVENTS, CONSOLIDATED, SUMMARIES = "events", "events.jsonl", "session-summaries"
FILES_IN_RUN = (STATE, LEDGER, SETTINGS, STATE_BACKUP, METADATA, CONSOLIDATED, "plan.json")
FABERS_FOLDERS = (EVENTS, SUMMARIES, "summaries", "inbox")

LONGEST_VALUE = 64  # of a value from a state, in a command or the environment
LONGEST_ID = 255
LONGEST_PATH = 4096
LARGEST_STATE = 64 * 1024 * 1024
JOINING = dict.fromkeys(map(ord, "._-"))


class Run:
    """A run and its files, which may not exist; nobody else joins their names.

    `suffix` is empty if the folder is the run's own. It may have several runs, those of a plan: then the name of each
    file has the suffix.
    """

    is_kept = False  # whether the folder is the private one, because the work tree lacks the run: `kept.py`
    _private = ""

    def __init__(self, root: str, run_id: str, directory: str, suffix: str = "") -> None:
        self.root = root
        self.run_id = run_id
        self.directory = directory
        self.suffix = suffix
        self.state_path = self._path(STATE)
        self.backup_path = self.state_path + BACKUP_ENDING
        self.ledger_path = self._path(LEDGER)

    def _path(self, name: str) -> str:
        """Return the path of a file whose name in a folder of its own is `name`: with `a`, `state-a.json`."""
        return os.path.join(self.directory, with_suffix(name, self.suffix))

    @property
    def private_folder(self) -> str:
        """The folder of what this clone keeps of the run, which may not exist."""
        if self.is_kept:
            return self.directory
        if not self._private:
            self._private = private_folder_of(self.root, self.run_id)
        return self._private

    @property
    def log_path(self) -> str:
        """The path of the clone's log of the run."""
        return os.path.join(self.private_folder, LOG)

    @property
    def lock_path(self) -> str:
        """The path of the file that is locked while something is recorded on the run."""
        return os.path.join(self.private_folder, LOCK)

    @property
    def backup_paths(self) -> tuple[str, str]:
        """The paths of the state's backups: ours, then FABER's."""
        return self.backup_path, self._path(STATE_BACKUP)

    @property
    def metadata_path(self) -> str:
        """The path of `metadata.json`."""
        return os.path.join(self.own_directory, METADATA)

    @property
    def settings_path(self) -> str:
        """The path of the run's own settings."""
        return self._path(SETTINGS)

    @property
    def required_paths(self) -> tuple[str, str]:
        """The paths of `RUN_FILES`."""
        return self.state_path, self.ledger_path

    @property
    def tracked_paths(self) -> tuple[str, ...]:
        """The paths of what `seal` stages; a run is complete without `metadata.json`."""
        return self.ledger_path, self.state_path, self.metadata_path

    @property
    def own_directory(self) -> str:
        """The folder of the run alone, which may not exist: FABER's events of a run in a plan's folder are there."""
        if not self.suffix:
            return self.directory
        return os.path.join(self.root, *RUNS[1].split("/"), *self.run_id.split("/"))

    def has_files(self) -> bool:
        """Return whether the run is there: its own folder, or its state or ledger in a folder of several runs."""
        if not self.suffix:
            return os.path.isdir(self.directory)
        return self.is_recorded()

    def is_recorded(self) -> bool:
        """Return whether the run has a state or a ledger, which may be links to nothing.

        A folder of its own may have only what git ignores, as the lock.
        """
        return os.path.lexists(self.state_path) or os.path.lexists(self.ledger_path)

    def owns(self, name: str) -> bool:
        """Return whether a file in the run's folder is the run's, or a copy: another run of the plan has its own."""
        for own in [with_suffix(one, self.suffix) for one in (STATE, LEDGER, SETTINGS, STATE_BACKUP)]:
            # The suffix of another run may begin with this one: then there is a second `.json` or `.db`.
            rest = name.removeprefix(own)
            is_copy = name.startswith(own) and not any([ending in rest for ending in (".json", ".db")])
            if is_copy or is_own_name(name, own):
                return True
        return False

    def is_beside(self, name: str) -> bool:
        """Return whether a file in a folder of several runs is another run's."""
        return (
            bool(self.suffix) and name.startswith(("state-", "ledger-", ".state-", ".ledger-")) and not self.owns(name)
        )

    def shown(self, path: str) -> str:
        """Return the path of a file of the run as reports show it: relative to the project, with slashes."""
        return os.path.relpath(path, self.root).replace(os.sep, "/")


def with_suffix(name: str, suffix: str) -> str:
    """Return the name of a file in a folder of several runs: with `a`, `state-a.json` for `state.json`."""
    if not suffix:
        return name
    stem, dot, ending = name.partition(".")
    return f"{stem}-{suffix}{dot}{ending}"


def kind_of(name: str) -> tuple[str, str] | None:
    """Return which of `RUN_FILES` a file is, by its name, and the suffix in it; None for any other file."""
    for kind in RUN_FILES:
        stem, dot, ending = kind.partition(".")
        if name == kind:
            return kind, ""
        if name.startswith(f"{stem}-") and name.endswith(dot + ending):
            suffix = name[len(stem) + 1 : -len(dot + ending)]
            # `state-a.backup.json` is FABER's backup of `state-a.json`.
            if is_name(suffix) and not suffix.endswith(BACKUP_ENDING):
                return kind, suffix
    return None


def name_part(text: str) -> str:
    """Return a text as part of a run id: other characters than letters, digits, `.`, `-` and `_` become dashes."""
    kept = "".join([letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text])
    return kept.strip("._-")[:60].rstrip("._-")


def is_name(text: str) -> bool:
    """Return whether a text has only letters, digits, `.`, `-` and `_`, and starts with a letter or digit.

    No pattern is used: compiling one takes a hook longer than the comparison of every text it looks at.
    """
    return text.isascii() and text[:1].isalnum() and text.translate(JOINING).isalnum()


def is_value(text: str, longest: int = LONGEST_VALUE) -> bool:
    """Return whether a text may enter a command, a path or the client's environment: a name, which may have `#`."""
    return len(text) <= longest and is_name(text.replace("#", "-"))


def is_run_id(text: str) -> bool:
    """Return whether a text is a run id: one to three names joined by `/`, at most 255 characters."""
    names = text.split("/")
    return len(text) <= LONGEST_ID and len(names) <= 3 and all([is_name(name) for name in names])


def is_taken(run_id: str) -> bool:
    """Return whether a run's id has the name of a file, or of a folder of FABER's tools, in another run's folder.

    No new run gets such an id: it would take the place of that file, or FABER's tools would read its state as an event
    of the other run. An existing run, as in a folder of FABER's, keeps its id. A folder of theirs may have other
    folders: `shop/events/1` takes no place.
    """
    names = run_id.lower().split("/")[1:]
    is_folder = bool(names) and names[-1] in FABERS_FOLDERS
    return is_folder or any([_is_in_run(name) for name in names])


def _is_in_run(name: str) -> bool:
    is_suffixed = name.startswith(("state-", "ledger-")) and any([one in name for one in (".json", ".db", ".lock")])
    return is_suffixed or name.startswith(FILES_IN_RUN)


def find_root(start: str) -> str:
    """Return the project that a directory belongs to: the nearest ancestor with `.fractary` or `.git`, else itself.

    Raises ForeignProject if it belongs to another user and git would not use it either: he would say what the agent
    reads, and get what is recorded.
    """
    at = start = os.path.abspath(start)
    while True:
        ours, gits = os.path.join(at, ".fractary"), os.path.join(at, ".git")
        if os.path.isdir(ours) or os.path.lexists(gits):
            if (stranger := stranger_at(at, ours, gits)) is not None:
                from faber_ledger.runs.ownership import foreign_project  # only in a folder of another user

                raise foreign_project(at, stranger)
            return at
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def is_state_file(path: str) -> bool:
    """Return whether a path names a run's state."""
    return (kind_of(path.replace(os.sep, "/").rpartition("/")[2]) or ("", ""))[0] == STATE


def path_form(run_id: str) -> str:
    """Return a run's id in the form that its path has in a plan's layouts: `<plan_id>/<suffix>`."""
    return "/".join(run_id.rsplit(OF_PLAN, 1))


def private_runs_folder(root: str) -> str:
    """Return the folder that has a private folder for each run that this clone has recorded."""
    return os.path.join(private_folder(root), "runs")


def private_folder_of(root: str, run_id: str) -> str:
    """Return the private folder of a run; its name is the run's path form, in which no id has a `+`."""
    return os.path.join(private_runs_folder(root), quoted_form(run_id))


def quoted_form(run_id: str) -> str:
    """Return a run's path form as the name of one folder."""
    return path_form(run_id).replace("/", "+")


# Where this clone keeps things


_commons: dict[str, str] = {}  # what was found, by the project
_project_folders: dict[str, str] = {}


def common_directory(root: str) -> str | None:
    """Return the git directory that all work trees of a clone share; None without git."""
    known = _commons.get(root)
    if known is None:
        tree = work_tree_of(root)
        known = tree.common if tree else None
        if known is not None:
            _commons[root] = known
    return known


def clone_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to the clone; None without git."""
    common = common_directory(root)
    return os.path.join(common, "faber-ledger") if common else None


def project_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to a project in this clone; None without git.

    A project at the repository's top has the clone's own folder, any other one of its own in it.
    """
    known = _project_folders.get(root)
    if known is not None:
        return known
    folder, key = clone_folder(root), project_key(root)
    if folder is not None:
        folder = _project_folders[root] = os.path.join(folder, "projects", key) if key else folder
    return folder


def state_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project without git, which may not exist."""
    return os.path.join(state_base(), "faber-ledger", sha256(os.fsencode(os.path.realpath(root))).hexdigest())


def state_base() -> str:
    """Return the folder of what programs keep of a user, as the XDG specification says."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):  # the specification ignores any other
        return given
    home = os.path.expanduser("~")
    return os.path.join(os.sep if home == "~" else home, ".local", "state")


def private_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project in this clone, which may not exist."""
    return project_folder(root) or state_folder(root)


def set_aside_folder(root: str) -> str:
    """Return the folder of what a project of this clone has set aside, which may not exist."""
    return os.path.join(private_folder(root), "set-aside")


def notices_folder(root: str) -> str:
    """Return the folder with a file for each run about which the next start has something to say."""
    return os.path.join(private_folder(root), "notices")


def notices_path(run: Run) -> str:
    """Return the path of what the next start of a run says."""
    return os.path.join(notices_folder(run.root), quoted_form(run.run_id))


def inbox_path(run: Run) -> str:
    """Return the folder of a run's deliveries that are not recorded yet."""
    return os.path.join(private_folder(run.root), "inbox", quoted_form(run.run_id))


def path_in_clone(root: str, name: str) -> str | None:
    """Return the path of a file that a clone has once, for all of its projects; None without git."""
    folder = clone_folder(root)
    return os.path.join(folder, name) if folder else None


def other_roots(root: str) -> list[str]:
    """Return a project's root in each other work tree of the clone, the main one first; none without git."""
    tree = work_tree_of(root)
    tops = tree.other_tops() if tree is not None else []
    if tree is None or not tops:
        return []
    inside = os.path.relpath(root, tree.top)
    return [os.path.normpath(os.path.join(top, inside)) for top in tops]


def main_root(root: str) -> str:
    """Return a project's root in the clone's main work tree, or where that lacks it, or there is none, `root`."""
    tree = work_tree_of(root)
    first = other_roots(root)[:1] if tree is not None and tree.is_linked else []
    return first[0] if first and os.path.isdir(first[0]) else root


def forget_work_trees() -> None:
    """Look for git's directories again from now on."""
    git.forget()
    _commons.clear()
    _project_folders.clear()
