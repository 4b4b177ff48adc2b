"""Find a run by its id or by a path, in whatever layout a project keeps its runs, and which id a place means."""

from __future__ import annotations

import os

from faber_ledger.ledger import BACKUP_ENDING, disk
from faber_ledger.ledger.disk import FileRefused, folder_around, open_regular, read_regular
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.run import (
    LARGEST_STATE,
    LOG,
    LONGEST_PATH,
    OF_PLAN,
    PLACE,
    RUN_FILES,
    RUNS,
    Run,
    is_name,
    is_run_id,
    is_taken,
    kind_of,
    path_form,
    private_folder_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


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
            f"{name!r:.80} is not the id of a new run: a run's folder has files or folders of such a name",
            hint="run `faber-ledger run list` to see the runs",
        )
    run = run or _find_folder(root, name)
    if run is None:
        run = _find_remembered(root, name) or Run(root, name, os.path.join(runs_for_new(root), *name.split("/")))
    else:
        run.run_id = _id_of(run)
    _check_inside(run)
    return run


def new_run(root: str, run_id: str, runs: str) -> Run:
    """Return a run that is to be started, in one of `RUNS`, unless it is there already; raises InvalidRunId."""
    found = find_run(root, run_id)
    if os.path.lexists(found.directory):
        return found
    return Run(root, run_id, os.path.join(root, *runs.split("/"), *run_id.split("/")))


def find_run_from(root: str, name: str, state: str) -> Run:
    """Return a run by its id as `find_run`; one that this clone never had is where another clone has it.

    `state` is the path of the run's state there, used if a layout has it for this id. Raises InvalidRunId.
    """
    run = find_run(root, name)
    if not run.is_recorded() and _read_place(root, name) is None:
        for place in places_of(root, name):
            if place.shown(place.state_path) == state:
                _check_inside(place)
                return place
    return run


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
    """Return a run whose state or ledger is there; of several places, the one that this clone has recorded on."""
    found = [run for run in places_of(root, name) if run.is_recorded()]
    if len(found) > 1:
        place = _read_place(root, name)
        found.sort(key=lambda run: place is None or run.shown(run.state_path) != place[0])
    return found[0] if found else None


def private_run_id(folder: str) -> str | None:
    """Return the id of the run whose log is in a private folder; None if there is none."""
    place = _read_place_in(folder)
    try:
        has_log = os.path.getsize(os.path.join(folder, LOG)) > 0
    except OSError:
        return None
    return place[1] if has_log and place is not None and is_run_id(place[1]) else None


def keep_place(run: Run) -> None:
    """Note where the run is in the project, its id, and this work tree: it is brought back there. Raises OSError.

    If this one has exchanged nothing yet, its files may have been moved from the work tree that was noted before.
    """
    tree, before = tree_name(run), _read_place_in(run.private_folder)
    place = (run.shown(run.state_path), run.run_id, tree)
    if before is not None and before[:3] == place:
        return
    source = before[2] if before is not None and not os.path.exists(sent_path(run, tree)) else ""
    content = "\n".join([*place, source, ""]).encode("utf-8", "surrogateescape")
    disk.put(os.path.join(run.private_folder, PLACE), content, mode=disk.OWN, durable=False, locked=False)


def copy_writers(run: Run) -> list[str]:
    """Return the work tree that wrote the copy of a run's state last, and the one from which its files may come."""
    place = _read_place_in(run.private_folder)
    return [one for one in place[2:] if one] if place is not None else []


def _read_place(root: str, name: str) -> tuple[str, str, str, str] | None:
    """Return the lines that `keep_place` noted of a run: the state's path, id, work trees; None if there are none."""
    return _read_place_in(private_folder_of(root, name))


def _read_place_in(folder: str) -> tuple[str, str, str, str] | None:
    try:
        lines = read_regular(os.path.join(folder, PLACE), LONGEST_PATH).decode().splitlines()
        state, run_id, tree, source = [*lines, "", ""][:4]
    except (FileRefused, OSError, ValueError):
        return None
    return state, run_id, tree, source


def _other_form(name: str) -> str:
    """Return the other id of the two that a place in a plan's folder allows, or the name itself."""
    plan, _, suffix = name.rpartition("/")
    return f"{plan}{OF_PLAN}{suffix}" if plan else path_form(name)


def _find_folder(root: str, name: str) -> Run | None:
    """Return a run that has only its folder."""
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
    return _named_in_state(run.state_path, named) or _named_elsewhere(run, named) or named[0 if run.suffix else 1]


def _is_unused(run: Run) -> bool:
    """Return whether a place in a plan's folder is a second one of the run that its path or its state names."""
    plan, _, suffix = run.run_id.rpartition("/")
    form = f"{plan}{OF_PLAN}{suffix}"
    if not plan or not run.directory.startswith(os.path.join(_runs_folders(run.root)[1], "")):
        return False
    if not _is_first_at(run, run.run_id):
        return True
    return not _is_first_at(run, form) and _named_in_state(run.state_path, [run.run_id, form]) == form


def _is_first_at(run: Run, name: str) -> bool:
    found = _find_recorded(run.root, name)
    return found is None or found.state_path == run.state_path


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


def _named_elsewhere(run: Run, ids: list[str]) -> str | None:
    """Return which of some ids the run's log names, else the one that this clone keeps; its state does not tell."""
    place = _read_place(run.root, run.run_id)
    return _named_in_log(run.ledger_path, ids) or (place[1] if place is not None and place[1] in ids else None)


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
    return sorted(_find_all(root))


def find_runs(root: str) -> list[Run]:
    """Return the same runs where `find_run` finds them, by their ids; none behind a link that leads out."""
    found = _find_all(root)
    inside = [os.path.join(runs, "") for runs in _runs_folders(root) if folder_around(runs, [root]) is not None]
    several = [run_id for run_id, run in found.items() if run is None]
    runs = [run for run in found.values() if run is not None and run.directory.startswith(tuple(inside))]
    return sorted([*runs, *[find_run(root, run_id) for run_id in several]], key=lambda run: run.run_id)


def _find_all(root: str) -> dict[str, Run | None]:
    """Return a project's runs by their ids; None for one that has several places. No link in a folder is followed."""
    found: dict[str, Run | None] = {}
    for runs, folder in zip(RUNS, _runs_folders(root), strict=True):
        for run in _runs_below(root, runs, folder):
            run_id = _id_of(run)
            # In a run's own folder, a file such as `state-old.json` is a copy, unless it says that it is a run.
            is_run = not run.suffix or not _is_own_folder(run.directory) or _named_in_state(run.state_path, [run_id])
            run.run_id = run_id
            if is_run and is_run_id(run_id) and not _is_unused(run):
                found[run_id] = None if run_id in found else run
    return found


def _is_own_folder(directory: str) -> bool:
    return any([os.path.isfile(os.path.join(directory, name)) for name in RUN_FILES])


def _runs_below(root: str, runs: str, directory: str, prefix: str = "", depth: int = 3) -> Iterator[Run]:
    """Yield what looks like a run in or below a folder of the layout `runs`; `run_id` is the path's form."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    if prefix and any([entry.name in RUN_FILES and os.path.isfile(entry.path) for entry in entries]):
        yield Run(root, prefix[:-1], directory)
    if not depth:
        return
    has_plans = bool(prefix) and runs == RUNS[1]
    suffixes = set()
    for entry in entries:
        kind = kind_of(entry.name) if has_plans else None
        if kind is not None and kind[1] and entry.is_file(follow_symlinks=False):
            suffixes.add(kind[1])
        run_id = prefix + entry.name
        if entry.is_dir(follow_symlinks=False) and may_be_run(run_id, runs):
            yield from _runs_below(root, runs, entry.path, f"{run_id}/", depth - 1)
    for suffix in sorted(suffixes):
        if may_be_run(prefix + suffix, runs):
            yield Run(root, prefix + suffix, directory, suffix)


BEGINNING = 64 * 1024  # of a state: other tools write its id first


def _named_in_state(path: str, ids: list[str]) -> str | None:
    """Return which of some ids a state names; None if none, or if it is unreadable.

    It may be broken or in conflict, so it is searched for its member `run_id` rather than decoded.
    """
    try:
        with open(open_regular(path), "rb") as file:
            text = file.read(BEGINNING).decode("utf-8", "replace")
            found = _named_in(text, ids)
            if len(found) != 1:
                text += file.read(LARGEST_STATE).decode("utf-8", "replace")
                found = _named_in(text, ids)
    except (FileRefused, OSError):
        return None
    if len(found) < 2:
        return found[0] if found else None
    from faber_ledger.ledger.encoding import loads  # a state that names both, the other one in another member

    try:
        named = loads(text)
    except (ValueError, RecursionError):
        return None
    return named["run_id"] if isinstance(named, dict) and named.get("run_id") in ids else None


def _named_in(text: str, ids: list[str]) -> list[str]:
    values = [piece.lstrip().removeprefix(":").lstrip() for piece in text.replace("\\/", "/").split('"run_id"')[1:]]
    return [one for one in ids if any([value.startswith(f'"{one}"') for value in values])]


def _named_in_log(path: str, ids: list[str]) -> str | None:
    """Return which of some ids a log names; None if none or several, or if it is missing or unreadable."""
    if not os.path.isfile(path):
        return None
    import sqlite3  # only if a state is missing or broken

    from faber_ledger.ledger.foreign import open_untrusted
    from faber_ledger.ledger.union import runs_in

    try:
        with open_untrusted(path) as log:
            named = [one for one in ids if one in runs_in(log)]
    except (LedgerError, OSError, sqlite3.Error):
        return None
    return named[0] if len(named) == 1 else None


def sent_path(run: Run, tree: str) -> str:
    """Return the path of the note of what a work tree has in common with the remote of a run (`sent.py`)."""
    return os.path.join(run.private_folder, f"sent-{tree}.json")


def tree_name(run: Run) -> str:
    """Return what tells the notes of a clone's work trees apart."""
    if run.is_kept:
        return "kept"
    tree = work_tree_of(run.root)
    return os.path.basename(tree.own) if tree is not None and tree.is_linked else "main"
