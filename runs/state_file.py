"""Read `state.json`, which other tools own, and its backups: what it says, what it lacks, and how to get it back."""

from __future__ import annotations

import os

from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, FileTooLarge, folder_around, read_regular, read_text
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateRefused
from faber_ledger.projections.fold import NAMES
from faber_ledger.runs.clone import is_behind_link
from faber_ledger.runs.layouts import keep_place
from faber_ledger.runs.progress import STATUSES
from faber_ledger.runs.run import LARGEST_STATE, METADATA, STATE, common_directory
from faber_ledger.runs.seen import shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from faber_ledger.runs.run import Run


CORRECT = "Recovery:\n1. Correct the field in the file\n2. Restore it from git"
LARGEST_METADATA = 1_048_576  # bytes of a `metadata.json`
# Bytes of a state that is asked for its status or branch, to find out which run is meant: no time is watched yet.
LARGEST_TO_ASK = 4 * 1024 * 1024


def read_state(run: Run) -> JsonText:
    """Read a run's state.

    Raises StateMissing; StateInvalid if it is not a JSON object or is another run's; LedgerError if it is unreadable.
    """
    return parse_state(run, read_bytes(run))


_looked_at: dict[str, tuple[list[int] | None, JsonText]] = {}  # at most one, since it may be large


def look_at_state(run: Run, limit: int = LARGEST_STATE) -> JsonText:
    """Read a run's state, which the caller does not change; one that was just looked at is not read again.

    Raises as `read_state`, and StateRefused for one of more than `limit` bytes.
    """
    shape = shape_of(run.state_path)
    before, document = _looked_at.get(run.state_path, (None, None))
    if document is None or shape is None or shape != before:
        document = parse_state(run, read_bytes(run, limit=limit))
        _looked_at.clear()
        _looked_at[run.state_path] = (shape, document)
    return document


def take_looked_at(run: Run, content: bytes) -> JsonText | None:
    """Return the state that was looked at if it has this content; from now on the caller may change it."""
    _, document = _looked_at.pop(run.state_path, (None, None))
    _looked_at.clear()
    return document if document is not None and document.text.encode() == content else None


def check_required(run: Run, state: dict[str, Any]) -> None:
    """Raise LedgerError if a state lacks a field that a load needs (RELOAD, Step 2; AGENT, Step 2).

    Fields that only the state schema requires are not checked: real states lack them.
    """
    known = {**state, "workflow_id": workflow_id_of(run, state)}
    for names in (("run_id", "workflow_id"), ("status",)):
        for name in names:
            value = known.get(name)
            if not (value is None or isinstance(value, str)):
                import json

                from faber_ledger.files.text import one_line  # a hook seldom reads a bad state

                message = f"State file has no valid {name}: it must be a text, and is {one_line(json.dumps(value), 80)}"
                hint = f"correct it in {run.shown(run.state_path)}"
                block = f"❌ ERROR: {message}\nPath: {run.shown(run.state_path)}\n\n{CORRECT}"
                raise LedgerError(message, hint=hint, block=block)
        if not all([isinstance(known.get(name), str) and known[name] for name in names]):
            message, hint, block = fields_missing(run, names)
            raise LedgerError(message, hint=hint, block=block)


def check_status(run: Run, state: dict[str, Any]) -> None:
    """Raise LedgerError if a state's status is none of those that a run may have (RECON, 0.1); none is not checked."""
    status = state.get("status")
    if status is not None and status not in STATUSES:
        from faber_ledger.files.text import one_line  # a hook seldom reads a bad state

        message, path = f"Invalid state status: {one_line(str(status), 80)}", run.shown(run.state_path)
        recovery = f"Path: {path}\n\nRecovery:\n1. Set `status` to one of {', '.join(STATUSES)}"
        hint = f"correct `status` in {path}: {', '.join(STATUSES)}"
        raise LedgerError(message, hint=hint, block=f"❌ ERROR: {message}\n{recovery}")


def workflow_id_of(run: Run, state: dict[str, Any]) -> Any:
    """Return the workflow id in a state; if it has none, the one in the run's `metadata.json`, or None."""
    if state.get("workflow_id") not in (None, ""):
        return state["workflow_id"]
    try:
        inside = folder_around(run.metadata_path, [run.directory])
        text = None if inside is None else read_text(run.metadata_path, LARGEST_METADATA)
        return JsonText(text).value.get("workflow_id") if text is not None else None
    except (FileRefused, ValueError, RecursionError):
        return None


def fields_missing(run: Run, names: tuple[str, ...]) -> tuple[str, str, str]:
    """Return message and hint for missing fields, and the block that is printed instead of both."""
    message = f"State file missing required fields ({', '.join(names)})"
    path, backup = run.shown(run.state_path), choose_backup(run)
    recovery = f"Path: {path}\n\nRecovery:\n1. Add the missing fields to the file\n2. Restore it from git"
    if os.path.exists(backup):
        recovery += f"\n3. Take its backup {run.shown(backup)}: faber-ledger project {run.run_id} --restore"
    return message, f"add them to {path}", f"❌ ERROR: {message}\n{recovery}"


def read_backup(run: Run) -> tuple[str, JsonText] | None:
    """Return the path and content of the first readable backup of a run's state, or None."""
    return next(read_backups(run), None)


def read_backups(run: Run) -> Iterator[tuple[str, JsonText]]:
    """Yield the path and content of each readable backup of a run's state."""
    for path in run.backup_paths:
        try:
            yield path, parse_state(run, read_bytes(run, path))
        except LedgerError:
            continue


def choose_backup(run: Run) -> str:
    """Return the path of the backup that exists; if none does, of the one that a write makes."""
    return next((path for path in run.backup_paths if os.path.exists(path)), run.backup_path)


def read_bytes(run: Run, path: str | None = None, limit: int = LARGEST_STATE) -> bytes:
    """Read the state or a backup, which may have come with the repository: no link, no pipe, not above `limit` bytes.

    Raises StateMissing, StateInvalid, LedgerError.
    """
    path = path or run.state_path
    try:
        return read_regular(path, limit)
    except FileNotFoundError:
        raise StateMissing(f"the run {run.run_id} has no state.json", hint=way_back(run)) from None
    except FileTooLarge as error:
        raise _invalid(
            run, f"it is larger than {limit // 1024 // 1024} MB ({error.size:,} bytes)", StateRefused
        ) from error
    except FileRefused as error:
        what = "it is a link" if os.path.islink(path) else "it is not a regular file"
        raise _invalid(run, what, StateRefused) from error
    except OSError as error:
        shown = run.shown(path)
        raise LedgerError(
            f"cannot read {shown}: {error.strerror}",
            hint="check the file's permissions",
            block=f"❌ ERROR: Cannot read state file\nPath: {shown}\nError: {error.strerror}\n\n"
            "Recovery:\n1. Check file permissions\n2. Make the file readable, then run the command again",
        ) from error


def is_state_ignored(run: Run) -> bool:
    """Return whether a run has a ledger and no state here because git ignores the state: it stays where it was written.

    That is correct (DECISIONS 1): of such a project's runs the ledger alone must travel.
    """
    if run.is_kept or os.path.lexists(run.state_path) or not os.path.lexists(run.ledger_path):
        return False
    from faber_ledger.runs.git_query import GitQuery  # only where a state is missing

    return bool(GitQuery(["check-ignore", "--", run.shown(run.state_path)], run.root).answer())


def way_back(run: Run) -> str:
    """Return the hint for a missing state."""
    if not run.has_files():
        return "run `faber-ledger run list` to see the runs of this project"
    return _from_log(run) or "restore it from git"


def way_back_from_broken(run: Run) -> str:
    """Return how to get a state back that cannot be read: from its backup if there is one, else from git."""
    backup = choose_backup(run)
    if os.path.exists(backup):
        return f"take its backup {run.shown(backup)} with `faber-ledger project {run.run_id} --restore`"
    written = _from_log(run)
    return "restore it from git" + (f", or move it aside and {written}" if written else "")


def _from_log(run: Run) -> str | None:
    """Return what writes a missing state if there is a log."""
    has_log = any(map(os.path.lexists, (run.ledger_path, run.log_path)))
    return f"run `faber-ledger project {run.run_id}`, which writes one" if has_log else None


def parse_state(run: Run, content: bytes) -> JsonText:
    """Decode a state; raises StateInvalid if it is not a JSON object, or is another run's."""
    try:
        document = JsonText(content.decode(), NAMES)
    except UnicodeDecodeError as error:
        raise _invalid(run, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        if is_unmerged(run):
            raise stopped_merge(run) from error
        raise _invalid(run, _reason(error, content)) from error
    named = document.value.get("run_id")
    if named is not None and named != run.run_id:
        raise ForeignState(
            f"it is the state of another run, {named!r:.80}",
            path=run.shown(run.state_path),
            hint="restore the run's own state.json from git, or move this one to its own run",
        )
    return document


def stopped_merge(run: Run) -> StateInvalid:
    """Return the error for a state that is in conflict."""
    hint = "run `faber-ledger resolve`, which unites the two sides"
    return StateInvalid("git has stopped at it", path=run.shown(run.state_path), hint=hint)


def is_unmerged(run: Run) -> bool:
    """Return whether a merge stopped at the file: the index has an unmerged entry."""
    from faber_ledger.runs.git_query import GitQuery  # only for a file that cannot be read

    return bool(GitQuery(["ls-files", "-u", "--", run.shown(run.state_path)], run.root).answer_bytes())


def _invalid(run: Run, reason: str, kind: type[StateInvalid] = StateInvalid) -> StateInvalid:
    return kind(reason, path=run.shown(run.state_path), hint=f"correct the file, or {way_back_from_broken(run)}")


def _reason(error: ValueError, content: bytes) -> str:
    if not content.strip():
        return "the file is empty"
    line = getattr(error, "lineno", None)
    return f"Invalid JSON at line {line}: {error}" if line else str(error)


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
        disk.put(path, content, mode=disk.OWN, durable=False)
        _keep_metadata(run)
    except FileNotFoundError:
        pass  # another work tree has just written its own, under the same temporary name
    except (FileRefused, OSError) as error:
        warn(f"the copy of state.json under the git directory is not written: {error}")


def _keep_metadata(run: Run) -> None:
    """Write the copy of a run's `metadata.json` if that is newer than the copy."""
    there, kept = shape_of(run.metadata_path), shape_of(metadata_copy_path(run))
    if there is not None and (kept is None or kept[2] < there[2]):
        content = read_regular(run.metadata_path, LARGEST_METADATA)
        disk.put(metadata_copy_path(run), content, mode=disk.OWN, durable=False)


def metadata_copy_path(run: Run) -> str:
    """Return the path of the copy of a run's `metadata.json` beside its log."""
    return os.path.join(run.private_folder, METADATA)


def read_state_copy(run: Run) -> bytes | None:
    """Return the content of the copy of a run's `state.json`; None if there is none that can be read."""
    path = state_copy_path(run)
    try:
        return read_regular(path, LARGEST_STATE) if path is not None else None
    except (FileRefused, OSError):
        return None


def look_at_copy(run: Run) -> dict[str, Any]:
    """Return the members of the copy of a run's `state.json`; none if there is none that can be read."""
    content = read_state_copy(run)
    try:
        return parse_state(run, content).value if content is not None else {}
    except LedgerError:
        return {}
