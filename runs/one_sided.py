"""Runs in conflict that one side does not have: which side holds, and how a run is left out of a branch.

Git calls no driver there. A single change that is brought to a branch without the run, as a backport, does not bring
the run with it; what was recorded stays in this clone. A branch that went on with a run wins over one that deleted it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import NotWritable
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.projections.blocks import NAMES
from faber_ledger.runs.clone import is_recovery_due, keep_state, mirror_path, read_state_copy
from faber_ledger.runs.conflicts import BASE, OURS, THEIRS, Conflict, read_here
from faber_ledger.runs.copies import mirror_with_events
from faber_ledger.runs.git_command import git, run_git
from faber_ledger.runs.git_operation import MERGE, REBASE, Operation
from faber_ledger.runs.in_git import GitSurvey, events_of_file
from faber_ledger.runs.kept import kept_run, note_alone
from faber_ledger.runs.recovery import recover
from faber_ledger.runs.run import LEDGER, STATE
from faber_ledger.runs.run_log import HINT, open_log
from faber_ledger.runs.state_merge import is_state, overwrite, read_members, updated_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.runs.run import Run


def find_left_out(conflicts: list[Conflict], operation: Operation, *, keep: bool | None) -> dict[str, Run]:
    """Return the runs in conflict that are left out of the branch, by id; `keep` decides unless it is None.

    A run that both sides have deleted is left out in any case.
    """
    one_sided = {one.run.run_id: one.run for one in conflicts if one.run is not None and one.is_one_sided}
    left = {}
    for run_id, run in one_sided.items():
        is_wanted = not _is_left_out(run, operation) if keep is None else keep
        if not is_wanted or _is_gone(run, conflicts):
            left[run_id] = run
    return left


def _is_gone(run: Run, conflicts: list[Conflict]) -> bool:
    """Return whether both sides have deleted a run's files in conflict, and HEAD has no other of its files."""
    own = [one for one in conflicts if one.run is not None and one.run.run_id == run.run_id]
    return all([one.is_gone for one in own]) and not any([_is_in_head(run, path) for path in run.required_paths])


def _is_left_out(run: Run, operation: Operation) -> bool:
    """Return whether HEAD lacks the run, and what stopped is no branch that goes on with a run which HEAD deleted."""
    if operation.kind == MERGE or any([_is_in_head(run, path) for path in run.required_paths]):
        return False
    return not (operation.kind == REBASE and _was_ever_in_head(run))


def _is_in_head(run: Run, path: str) -> bool:
    return run_git("cat-file", "-e", f"HEAD:./{run.shown(path)}", at=run.root).returncode == 0


def _was_ever_in_head(run: Run) -> bool:
    paths = [run.shown(path) for path in run.required_paths]
    return bool(run_git("rev-list", "--max-count=1", "HEAD", "--", *paths, at=run.root).stdout.strip())


class LeftOut(NamedTuple):
    """What became of a run that was left out: its events in this clone's mirror, or the commit that has them all.

    `state_blob` is git's name of a state that no commit and no stash has.
    """

    events: int
    commit: str | None
    state_blob: str | None


def leave_out(run: Run, conflicts: list[Conflict], operation: Operation, warn: Callable[[str], None]) -> LeftOut:
    """Remove a run's files from index and work tree, once its events are in the mirror or in a commit.

    `conflicts` are those of the run. Hooks go on with it below the git directory. Raises LedgerError: the files stay.
    """
    own = {one.kind: one for one in conflicts}
    is_used = os.path.lexists(run.lock_path)  # a lock says that something was recorded here
    os.makedirs(run.directory, exist_ok=True)
    with RunLock(run.lock_path):
        commit = _commit_with_all(run, own.get(LEDGER), operation)
        events = 0 if commit is not None else _copy_to_mirror(run, own.get(LEDGER), warn)
        state_blob = _keep_state(run, own.get(STATE), operation)
        listed = git("ls-files", "-z", "--", *run.tracked_paths, at=run.root).split(b"\0")
        paths = sorted({os.fsdecode(path) for path in listed if path})
        for path in paths:
            whole_file.remove(os.path.join(run.root, path))
        git("update-index", "--force-remove", "--", *paths, at=run.root)
        if not is_used:
            whole_file.remove(run.lock_path)
    with suppress(OSError):
        os.rmdir(run.directory)
    return LeftOut(events, commit, state_blob)


def _commit_with_all(run: Run, conflict: Conflict | None, operation: Operation) -> str | None:
    """Return the commit that has all events of a run which this clone has not used; None if there is none."""
    if mirror_with_events(run) is not None or conflict is None or conflict.is_gone:
        return None
    blob = conflict.blobs.get(THEIRS) or conflict.blobs[OURS]
    commit = "HEAD" if OURS in conflict.blobs else operation.other
    found = blob
    if os.path.isfile(run.ledger_path):
        found = git("hash-object", "--no-filters", "--", run.ledger_path, at=run.root).decode().strip()
    return commit if commit is not None and blob == found == _blob(run, commit, run.ledger_path) else None


def _copy_to_mirror(run: Run, conflict: Conflict | None, warn: Callable[[str], None]) -> int:
    """Copy the events of both sides, and of the file, to the mirror, and return their number; raises NotWritable."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        if is_recovery_due(run):
            recover(run, warn)
        sources = _sources(run, conflict, folder)
        if not sources:
            return 0
        alone = _events_of_file_alone(run, sources)
        united = write_union(sources, run.ledger_path, adopts=True)
        for line in united.lines_left_out():
            warn(line)
    with open_log(run, warn, compare=True) as opened:
        opened.commit()
        heads = opened.log.heads()
    with Log.read(mirror_path(run) or "") as mirror:
        if mirror.heads() != heads:
            raise NotWritable(f"this clone's mirror lacks events of {run.run_id}, so its files stay", hint=HINT)
    kept = kept_run(run.root, run.run_id)
    if kept is not None and alone:
        note_alone(kept, sorted(alone))
    return united.count


def _events_of_file_alone(run: Run, sources: list[str]) -> set[str]:
    """Return the ids of the events that only the run's file has: no side, and no branch.

    They were recorded while git stood still. Leaving the run out takes them away, so git has not rolled them back.
    """
    sides = [path for path in sources if path != run.ledger_path]
    alone = (events_of_file(run.ledger_path) or set()).difference(*[events_of_file(path) or set() for path in sides])
    known = GitSurvey(run.root, [run]).events_on_branches(run) if alone else None
    return alone - known if known is not None else set()


def _sources(run: Run, conflict: Conflict | None, folder: str) -> list[str]:
    """Return the paths of the sides' ledgers, written in `folder`, and of the run's file."""
    paths = []
    for stage in (OURS, THEIRS) if conflict is not None else ():
        content = conflict.side(stage) if conflict is not None else None
        if content is not None:
            paths.append(os.path.join(folder, f"{stage}.db"))
            overwrite(paths[-1], content)
    return [*paths, *([run.ledger_path] if os.path.isfile(run.ledger_path) else [])]


def _keep_state(run: Run, conflict: Conflict | None, operation: Operation) -> str | None:
    """Write this clone's copy of the state, unless it is newer; return the blob if nothing else has the state."""
    here = read_here(run.root, run.shown(run.state_path))
    if conflict is None or here is None or not is_state(here):
        return None
    copy = read_state_copy(run)
    if copy is None or not is_state(copy) or updated_at(here) >= updated_at(copy):
        keep_state(run, here)
    commits = ["HEAD", "refs/stash", *([operation.other] if operation.other else [])]
    known = [conflict.side(BASE), *[_content(run, commit) for commit in commits]]
    if _others(here) in [_others(one) for one in known if one is not None and is_state(one)]:
        return None
    return git("hash-object", "-w", "--", run.state_path, at=run.root).decode().strip()


def _others(state: bytes) -> dict[str, Any]:
    """Return the members of a state that are not ours."""
    return {name: value for name, value in read_members(state).items() if name not in NAMES}


def _content(run: Run, commit: str) -> bytes | None:
    """Return a run's state in a commit."""
    done = run_git("cat-file", "blob", f"{commit}:./{run.shown(run.state_path)}", at=run.root)
    return done.stdout if done.returncode == 0 else None


def _blob(run: Run, commit: str, path: str) -> str:
    """Return git's name of a file of the run in a commit; empty if that does not have it."""
    done = run_git("rev-parse", "--verify", "--quiet", f"{commit}:./{run.shown(path)}", at=run.root)
    return done.stdout.decode().strip()
