"""The registry of the work trees that faber-ledger has seen runs in (`worktrees.json`), also those that are gone."""

from __future__ import annotations

import json
import os

from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.errors import NotWritable
from faber_ledger.ledger.lock import RunLock
from faber_ledger.runs.clone import path_in_clone
from faber_ledger.runs.git import WorkTree, work_tree_of
from faber_ledger.runs.private_files import make_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = dict[str, Any]


FILE = ".fractary/faber/worktrees.json"
STATUSES = ("active", "completed", "failed", "abandoned", "removed")
LIMIT = 4 * 1024 * 1024


class MalformedRegistry(Exception):
    """The file is not a registry; the message says why."""


def registry_path(root: str) -> str | None:
    """Return the path of the clone's registry; None without git, or if a link on the way leads out of the project.

    It is in the main work tree, or below the git directory if there is none.
    """
    tree = work_tree_of(root)
    if tree is None:
        return None
    if tree.main is None or not os.path.isdir(tree.main):
        return path_in_clone(root, "worktrees.json")
    there = os.path.normpath(os.path.join(tree.main, os.path.relpath(root, tree.top)))
    path = os.path.join(there, *FILE.split("/"))
    return path if folder_around(os.path.dirname(path), [there]) is not None else None


def read_records(path: str) -> list[Record]:
    """Read the records, an empty list if there is no file; raises MalformedRegistry."""
    return _document(path)[1]


def update(
    root: str, change: Callable[[list[Record]], list[Record]], *, at: float, warn: Callable[[str], None]
) -> list[Record]:
    """Change the records under the clone's lock, and return them all.

    `change` takes copies of the records and returns the new ones. A malformed file is moved aside and replaced. Raises
    Locked and NotWritable, and leaves the file as it was.
    """
    lock, path = path_in_clone(root, "worktrees.lock"), registry_path(root)
    if lock is None:
        return []
    if path is None:
        warn(f"{FILE} is not written: its folder in the main work tree is behind a link that leads out of it")
        return []
    try:
        make_below(os.path.dirname(os.path.dirname(lock)), os.path.dirname(lock), durable=False)
        with RunLock(lock):
            try:
                rest, known = _document(path)
            except MalformedRegistry as error:
                aside = _free_name(path)
                os.replace(path, aside)
                warn(f"{path} is malformed ({error}); it is kept as {os.path.basename(aside)} and replaced")
                rest, known = {}, []
            records = change([dict(record) for record in known])
            if records != known:  # a clone without a run gets no file
                os.makedirs(os.path.dirname(path), exist_ok=True)
                document = {**rest, "worktrees": records, "last_updated": utc_text(at)}
                text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
                whole_file.put(path, text.encode("utf-8", "backslashreplace"))  # a lone surrogate, as JSON escapes it
            return records
    except OSError as error:
        raise NotWritable(f"cannot write {path}: {error.strerror}", hint="check the folder's permissions") from error


def merge(records: list[Record], seen: list[Record], *, at: float, present: Callable[[str], bool]) -> list[Record]:
    """Update the records with the work trees seen now; a work tree that is gone gets the status `removed`.

    A record is one run in one work tree. What another program added to it stays.
    """
    moment = utc_text(at)
    fresh = {_key(record): record for record in seen}
    result = []
    for record in records:
        now = fresh.pop(_key(record), None)
        if now is not None:
            kept = {name: value for name, value in record.items() if name not in ("removed_at", "completed_at")}
            result.append(_stamp_change(record, {**now, **kept, **_changed_members(now, record)}, moment))
        elif record["status"] != "removed" and not present(record["path"]):
            result.append({**record, "status": "removed", "removed_at": moment, "updated_at": moment})
        else:
            result.append(record)
    return [*result, *({**record, "updated_at": moment} for record in fresh.values())]


CHANGING = ("work_id", "status", "updated_at", "completed_at", "removed_at", "branch", "last_activity", "metadata")


def _changed_members(now: Record, record: Record) -> Record:
    changing = {name: now[name] for name in CHANGING if name in now}
    metadata = record.get("metadata")
    if isinstance(metadata, dict) and "metadata" in changing:
        gone = {"orphaned", "orphaned_reason"}
        changing["metadata"] = {name: metadata[name] for name in metadata if name not in gone} | changing["metadata"]
    if "completed_at" in record and now["status"] == "completed":
        changing["completed_at"] = record["completed_at"]
    return changing


def _stamp_change(record: Record, now: Record, moment: str) -> Record:
    """Return the new record with a new `updated_at`, or the old one if nothing else in it has changed."""
    before = {name: value for name, value in record.items() if name != "updated_at"}
    after = {name: value for name, value in now.items() if name != "updated_at"}
    return record if before == after else {**after, "updated_at": moment}


def _key(record: Record) -> tuple[str, str]:
    return record["path"], record["workflow_run_id"]


def created_at(tree: WorkTree) -> str:
    """Return when a linked work tree was made, by its files: git writes `commondir` once."""
    for path in (os.path.join(tree.own, "commondir"), tree.top):
        try:
            return utc_text(os.stat(path).st_mtime)
        except OSError:
            continue
    return utc_text(0)


def _document(path: str) -> tuple[dict[str, Any], list[Record]]:
    try:
        document = json.loads(read_regular(path, LIMIT).decode())
    except FileNotFoundError:
        return {}, []
    except FileRefused as error:
        raise MalformedRegistry(f"it is {error}") from error
    except OSError as error:
        raise MalformedRegistry(f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedRegistry(f"{error}") from error
    records = document.get("worktrees") if isinstance(document, dict) else None
    if not isinstance(records, list):
        raise MalformedRegistry("it has no list `worktrees`")
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise MalformedRegistry(f"its record {number + 1} is not an object")
        for name in ("path", "workflow_run_id", "status", "created_at"):
            if not isinstance(record.get(name), str):
                raise MalformedRegistry(f"its record {number + 1} has no `{name}`")
        if record["status"] not in STATUSES or seconds_of(record["created_at"]) is None:
            raise MalformedRegistry(f"its record {number + 1} has an unknown status or an invalid time")
    return {name: value for name, value in document.items() if name != "worktrees"}, records


def _free_name(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.broken-{number}"):
        number += 1
    return f"{path}.broken-{number}"


def gone_worktree(root: str, folder: str) -> str | None:
    """Return the work tree of this clone that a folder was in and that no longer exists; None if there is none."""
    at = os.path.join(os.path.abspath(folder), "")
    tree = work_tree_of(root)
    for path in (*(tree.linked_tops() if tree else []), *_recorded_paths(root)):
        if at.startswith(os.path.join(path, "")) and not os.path.lexists(path):
            return path
    return None


def _recorded_paths(root: str) -> list[str]:
    path = registry_path(root)
    try:
        return [record["path"] for record in read_records(path)] if path else []
    except MalformedRegistry:
        return []
