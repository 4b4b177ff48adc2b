"""A run, its files, and the layouts: where a project keeps its runs.

`LAYOUTS` is the only table of them. The lists of file names below are the only ones, too: which files a run has, which
of them travel in git, and which copies this program makes.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.ledger import BACKUP_ENDING
from faber_ledger.ledger.errors import InvalidRunId
from faber_ledger.ledger.whole_file import is_own_name
from faber_ledger.runs.git import stranger_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


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

STATE = "state.json"
LEDGER = "ledger.db"
METADATA = "metadata.json"

# One of these makes a folder a run, and a run without both cannot be resumed on another machine.
RUN_FILES = (STATE, LEDGER)
SETTINGS = "ledger.json"
STATE_BACKUP = "state.backup.json"  # FABER's name for it (AGENT, RELOAD)
UNFINISHED_ENDINGS = (".tmp", ".migrating")  # a killed writer leaves such files
COPY_ENDINGS = (BACKUP_ENDING, *UNFINISHED_ENDINGS)

# What this clone keeps of a run in its private folder, where no checkout reaches.
LOG = "log.db"
LOCK = "lock"
PLACE = "place"  # two lines: the path of the run's state in the project, and the run's id
STRIPPED = "stripped"  # there while older copies may have a payload that was removed from the log
SUMMARY = "summary-"  # a kept summary, with the id of its event
# What FABER's own tools make in a run's folder: files, and folders.
EVENTS, CONSOLIDATED, SUMMARIES = "events", "events.jsonl", "session-summaries"
FABERS_FILES = (CONSOLIDATED, "plan.json")
FABERS_FOLDERS = (EVENTS, SUMMARIES, "summaries", "inbox")
DEVICES = ("CON", "PRN", "AUX", "NUL", *[f"{port}{number}" for port in ("COM", "LPT") for number in range(1, 10)])

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
        return self.directory if self.is_kept else private_folder_of(self.root, self.run_id)

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


def is_run_id(text: str) -> bool:
    """Return whether a text is a run id: one to three names joined by `/`, at most 255 characters."""
    names = text.split("/")
    return len(text) <= LONGEST_ID and len(names) <= 3 and all([is_name(name) for name in names])


def is_taken(run_id: str) -> bool:
    """Return whether a run's id has the name of a file that FABER's tools, or runs of a plan, have in a run's folder.

    No new run gets such an id: FABER's tools would read its state as an event of another run. An existing run, as in
    a folder of FABER's, keeps its id. A folder of theirs may have other folders: `shop/events/1` takes no place.
    """
    names = run_id.lower().split("/")[1:]
    is_folder = bool(names) and names[-1] in FABERS_FOLDERS
    return is_folder or any([_is_in_run(name) for name in names])


def _is_in_run(name: str) -> bool:
    is_suffixed = name.startswith(("state-", "ledger-")) and any([one in name for one in (".json", ".db", ".lock")])
    return is_suffixed or name.startswith(FABERS_FILES)


def is_portable(run_id: str) -> bool:
    """Return whether every system can have a folder for each name of a run id: Windows keeps some for devices."""
    names = [name.partition(".")[0].upper() for name in run_id.split("/")]
    return not any([name in DEVICES for name in names]) and "./" not in f"{run_id}/"


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
    """Return whether a path is that of a run's state, by its name."""
    return (kind_of(path.replace(os.sep, "/").rpartition("/")[2]) or ("", ""))[0] == STATE


def find_run(root: str, name: str) -> Run:
    """Return a run by its id, or by the form that its path has, from the layout that it is in.

    The id is the state's: for a path `<plan_id>/<suffix>`, that or `<plan_id>-run-<suffix>`. A run that is nowhere is
    at the place that this clone remembers, else at the one for a new run. Raises InvalidRunId for a text that is not a
    run id, and for a folder that leaves the runs directory through a link.
    """
    if not is_run_id(name):
        raise InvalidRunId(
            f"{name!r:.80} is not a run id: one to three parts joined by `/`, each of letters, digits and `._-` and"
            " starting with a letter or digit, 255 characters in all",
            hint="run `faber-ledger run list` to see the runs",
        )
    run = _find_recorded(root, name)
    if run is None and is_taken(name) and _read_place(root, name) is None:
        raise InvalidRunId(
            f"{name!r:.80} is not the id of a new run: FABER's tools have files of such a name in a run's folder",
            hint="run `faber-ledger run list` to see the runs",
        )
    run = run or _find_folder(root, name)
    if run is None:
        run = _find_remembered(root, name) or Run(root, name, os.path.join(runs_for_new(root), *name.split("/")))
    else:
        run.run_id = _id_of(run)
    _check_inside(run)
    return run


def path_form(run_id: str) -> str:
    """Return a run's id in the form that its path has in a plan's layouts: `<plan_id>/<suffix>`."""
    return "/".join(run_id.rsplit(OF_PLAN, 1))


def new_run(root: str, run_id: str, runs: str) -> Run:
    """Return a run that is to be started, in one of `RUNS`, unless it is there already; raises InvalidRunId."""
    found = find_run(root, run_id)
    if os.path.lexists(found.directory):
        return found
    return Run(root, run_id, os.path.join(root, *runs.split("/"), *run_id.split("/")))


def runs_for_new(root: str) -> str:
    """Return the folder that new runs go into: FABER's where a project has only that one."""
    ours, fabers = _runs_folders(root)
    return fabers if os.path.isdir(fabers) and not os.path.lexists(ours) else ours


def places_of(root: str, name: str) -> Iterator[Run]:
    """Yield a run at every place that it may have in the layouts, in the order of search; `run_id` is the name."""
    ours, fabers = _runs_folders(root)
    parts = name.split("/")
    yield Run(root, name, os.path.join(ours, *parts))
    yield Run(root, name, os.path.join(fabers, *parts))
    plan, found, suffix = name.rpartition(OF_PLAN)
    if found and is_run_id(plan) and is_name(suffix):
        folder = os.path.join(fabers, *plan.split("/"))
        yield Run(root, name, os.path.join(folder, suffix))
        if not suffix.endswith(BACKUP_ENDING):
            yield Run(root, name, folder, suffix)
    if len(parts) > 1 and not parts[-1].endswith(BACKUP_ENDING):
        yield Run(root, name, os.path.join(fabers, *parts[:-1]), parts[-1])


def run_at(root: str, path: str) -> tuple[Run, str] | None:
    """Return the run whose state or ledger is at a path in the project, and which of `RUN_FILES` it is.

    None for any other file, and for a place that is not used, because the run has another one.
    """
    run = _run_of_path(root, path)
    kind = kind_of(path.rpartition("/")[2])
    if run is None or kind is None:
        return None
    run.run_id = _id_of(run)
    try:
        _check_inside(run)
    except InvalidRunId:
        return None
    is_used = is_run_id(run.run_id) and _is_first_at(run, run.run_id) and not _is_unused(run)
    return (run, kind[0]) if is_used else None


def _runs_folders(root: str) -> list[str]:
    return [os.path.join(root, *runs.split("/")) for runs in RUNS]


def _find_recorded(root: str, name: str) -> Run | None:
    """Return a run of which the state or the ledger is there; of several places, the one that is the run's.

    A place is another run's if its state names the other id that its path allows.
    """
    found = [run for run in places_of(root, name) if run.is_recorded()]
    if len(found) < 2:
        return found[0] if found else None
    other = _other_form(name)
    own = [run for run in found if other == name or _named_in_state(run, [name, other]) != other]
    return own[0] if len(own) == 1 else _place_in_use(root, name, own or found)


def _place_in_use(root: str, name: str, places: list[Run]) -> Run:
    """Return, of several places of a run, the one that this clone has recorded on.

    Else it is the first whose state a tool wrote here, since git does not have it: git may bring a second one at any
    time, and the run that is at work stays where it is. Else the first.
    """
    from faber_ledger.runs.git import is_tracked  # only where a run has several places

    recorded_on = _read_place(root, name)
    for run in places:
        if recorded_on is not None and run.shown(run.state_path) == recorded_on[0]:
            return run
    written = [run for run in places if os.path.lexists(run.state_path) and is_tracked(run.state_path) is False]
    return (written or places)[0]


def private_run_id(folder: str) -> str | None:
    """Return the id of the run whose log is in a private folder; None if there is none."""
    place = _read_place_in(folder)
    try:
        has_log = os.path.getsize(os.path.join(folder, LOG)) > 0
    except OSError:
        return None
    return place[1] if has_log and place is not None and is_run_id(place[1]) else None


def _read_place(root: str, name: str) -> tuple[str, str] | None:
    """Return the path of the state that this clone recorded a run with, and the run's id; None if it recorded none."""
    return _read_place_in(private_folder_of(root, name))


def _read_place_in(folder: str) -> tuple[str, str] | None:
    try:
        state, run_id = read_regular(os.path.join(folder, PLACE), LONGEST_PATH).decode().splitlines()
    except (FileRefused, OSError, ValueError):
        return None
    return state, run_id


def _other_form(name: str) -> str:
    """Return the other id of the two that a place in a plan's folder allows, or the name itself."""
    plan, _, suffix = name.rpartition("/")
    return f"{plan}{OF_PLAN}{suffix}" if plan else path_form(name)


def _find_folder(root: str, name: str) -> Run | None:
    """Return a run of which only the folder is there."""
    places = zip(RUNS, places_of(root, name), strict=False)
    return next((run for _, run in places if os.path.lexists(run.directory)), None)


def _run_of_path(root: str, path: str) -> Run | None:
    """Return the run whose state or ledger has a path in the project; `run_id` is the path's form."""
    for runs in RUNS:
        folder, _, file_name = path.removeprefix(runs + "/").rpartition("/")
        kind = kind_of(file_name)
        if not path.startswith(runs + "/") or not folder or kind is None:
            continue
        suffix = kind[1]
        name = f"{folder}/{suffix}" if suffix else folder
        if may_be_run(name, runs) and not (suffix and runs == RUNS[0]):
            return Run(root, name, os.path.join(root, *runs.split("/"), *folder.split("/")), suffix)
    return None


def may_be_run(form: str, runs: str) -> bool:
    """Return whether a path below a folder of runs may be a run's: in a plan's folder its id may be the other form."""
    return is_run_id(form) or (runs == RUNS[1] and is_run_id(_other_form(form)))


def _id_of(run: Run) -> str:
    """Return the id of a run by its place: the one that its state names, of the two that the place allows.

    A state may name any run. If the other tools' form of it belongs to a run elsewhere, that one is not this run.
    """
    fabers = os.path.join(_runs_folders(run.root)[1], "")
    form = run.directory.removeprefix(fabers).replace(os.sep, "/") + (f"/{run.suffix}" if run.suffix else "")
    plan, _, suffix = form.rpartition("/")
    if not plan or not run.directory.startswith(fabers):
        return run.run_id
    named = [name for name in (f"{plan}{OF_PLAN}{suffix}", form) if is_run_id(name) and _is_first_at(run, name)]
    if len(named) < 2:
        return named[0] if named else form
    return _named_in_state(run, named) or _named_elsewhere(run, named) or named[0 if run.suffix else 1]


def _is_unused(run: Run) -> bool:
    """Return whether a run of a plan, named after its path, is a second place of the one that its state names."""
    plan, _, suffix = run.run_id.rpartition("/")
    form = f"{plan}{OF_PLAN}{suffix}"
    in_plan = bool(plan) and run.directory.startswith(os.path.join(_runs_folders(run.root)[1], ""))
    return in_plan and not _is_first_at(run, form) and _named_in_state(run, [run.run_id, form]) == form


def _is_first_at(run: Run, name: str) -> bool:
    found = _find_recorded(run.root, name)
    return found is None or found.state_path == run.state_path


def private_runs_folder(root: str) -> str:
    """Return the folder that has a private folder for each run that this clone has recorded."""
    from faber_ledger.runs.git import project_folder  # not needed to find a run that is there
    from faber_ledger.runs.private_files import state_folder

    return os.path.join(project_folder(root) or state_folder(root), "runs")


def private_folder_of(root: str, run_id: str) -> str:
    """Return the private folder of a run; its name is the run's path form, in which no id has a `+`."""
    return os.path.join(private_runs_folder(root), quoted_form(run_id))


def quoted_form(run_id: str) -> str:
    """Return a run's path form as the name of one folder."""
    return path_form(run_id).replace("/", "+")


def _find_remembered(root: str, name: str) -> Run | None:
    """Return a run that is not in the work tree at the place that it had here."""
    place = _read_place(root, name)
    run = _run_of_path(root, place[0]) if place is not None else None
    if place is None or run is None or not is_run_id(place[1]):
        return None
    if not any([run.state_path == one.state_path for one in places_of(root, place[1])]):
        return None
    run.run_id = place[1] if path_form(place[1]) == path_form(name) else name
    return run


def _named_in_state(run: Run, ids: list[str]) -> str | None:
    from faber_ledger.runs.naming import named_in_state  # only in a plan's folder, or where a run has several places

    return named_in_state(run.state_path, ids, LARGEST_STATE)


def _named_elsewhere(run: Run, ids: list[str]) -> str | None:
    """Return which of some ids the run's log names, else the one that this clone keeps; its state does not tell."""
    from faber_ledger.runs.naming import named_in_log  # only if a state is missing or broken

    place = _read_place(run.root, run.run_id)
    return named_in_log(run.ledger_path, ids) or (place[1] if place is not None and place[1] in ids else None)


def _check_inside(run: Run) -> None:
    runs = next(runs for runs in _runs_folders(run.root) if run.directory.startswith(os.path.join(runs, "")))
    real = os.path.realpath(run.directory)
    for inside in (os.path.realpath(run.root), os.path.realpath(runs)):
        if not real.startswith(os.path.join(inside, "")):
            raise InvalidRunId(
                f"the run {run.run_id} is behind a link that leads out of {inside}",
                hint="put the folder itself in the link's place",
            )


def run_ids(root: str) -> list[str]:
    """Return the ids of a project's runs, those with one of `RUN_FILES`, in every layout, sorted."""
    found = set()
    for runs in _runs_folders(root):
        for run in _runs_below(root, runs, "", depth=3):
            run_id = _id_of(run)
            # In a run's own folder, a file such as `state-old.json` is a copy, unless it says that it is a run.
            is_run = not run.suffix or not _is_own_folder(run.directory) or _named_in_state(run, [run_id])
            run.run_id = run_id
            if is_run and is_run_id(run_id) and not _is_unused(run):
                found.add(run_id)
    return sorted(found)


def _is_own_folder(directory: str) -> bool:
    return any([os.path.isfile(os.path.join(directory, name)) for name in RUN_FILES])


def _runs_below(root: str, directory: str, prefix: str, depth: int) -> Iterator[Run]:
    """Yield what looks like a run below a folder of runs; `run_id` is the path's form."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    runs = RUNS[0] if os.path.join(directory, "").startswith(os.path.join(_runs_folders(root)[0], "")) else RUNS[1]
    has_plans = bool(prefix) and runs == RUNS[1]
    suffixes = set()
    for entry in entries:
        kind = kind_of(entry.name) if has_plans else None
        if kind is not None and kind[1] and entry.is_file(follow_symlinks=False):
            suffixes.add(kind[1])
        run_id = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False) or not may_be_run(run_id, runs):
            continue
        if _is_own_folder(entry.path):
            yield Run(root, run_id, entry.path)
        if depth > 1:
            yield from _runs_below(root, entry.path, run_id + "/", depth - 1)
    for suffix in sorted(suffixes):
        if may_be_run(prefix + suffix, runs):
            yield Run(root, prefix + suffix, directory, suffix)
