"""The registry of the work trees that faber-ledger has seen runs in (`worktrees.json`), also those that are gone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from typing import Any

from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.disk import FileRefused, RunLock, folder_around, read_regular
from faber_ledger.ledger.errors import NotWritable
from faber_ledger.runs.clone import make_below
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.run import path_in_clone

Record = dict[str, Any]


FILE = ".fractary/faber/worktrees.json"
LIMIT = 4 * 1024 * 1024
CHANGING = ("work_id", "status", "branch", "last_activity", "removed_at", "metadata")


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


def read_known(root: str) -> list[Record]:
    """Return the records of a clone's registry; none if there is no file, or a malformed one."""
    path = registry_path(root)
    try:
        return _read(path)["worktrees"] if path else []
    except MalformedRegistry:
        return []


def update(
    root: str, seen: list[Record], there: Collection[str], *, at: float, warn: Callable[[str], None]
) -> list[Record]:
    """Take in the work trees seen now under the clone's lock, and return all records.

    A record is one run in one work tree; what another program added to it stays. One whose path is not `there` gets the
    status `removed`. A malformed file is set aside and replaced. Raises Locked and NotWritable, and leaves the file as
    it was.
    """
    lock, path = path_in_clone(root, "worktrees.lock"), registry_path(root)
    if lock is None:
        return []
    if path is None:
        warn(f"{FILE} is not written: its folder in the main work tree is behind a link that leads out of it")
        return []
    try:
        make_below(root, os.path.dirname(lock), durable=False)
        with RunLock(lock):
            try:
                document = _read(path)
            except MalformedRegistry as error:
                os.replace(path, f"{path}.broken")
                warn(f"{path} is malformed ({error}); it is kept as {os.path.basename(path)}.broken and replaced")
                document = {"worktrees": []}
            records = _merge(document["worktrees"], seen, there, utc_text(at))
            if records != document["worktrees"]:  # a clone without a run gets no file
                os.makedirs(os.path.dirname(path), exist_ok=True)
                document |= {"worktrees": records, "last_updated": utc_text(at)}
                text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
                disk.put(path, text.encode("utf-8", "backslashreplace"))  # a lone surrogate, as JSON escapes it
            return records
    except OSError as error:
        raise NotWritable(
            f"cannot write {path}: {error.strerror or error}", hint="check the folder's permissions"
        ) from error


def _merge(records: list[Record], seen: list[Record], there: Collection[str], moment: str) -> list[Record]:
    fresh = {_key(record): record for record in seen}
    result = []
    for record in records:
        now = fresh.pop(_key(record), {})
        if record["path"] not in there and record["status"] != "removed":
            now = {"status": "removed", "removed_at": moment}
        merged = {**now, **record, **{name: now[name] for name in CHANGING if name in now}}
        if merged["status"] != "removed":
            merged.pop("removed_at", None)
        result.append(record if merged == record else {**merged, "updated_at": moment})
    return [*result, *({**record, "updated_at": moment} for record in fresh.values())]


def _key(record: Record) -> tuple[str, str]:
    return record["path"], record["workflow_run_id"]


def _read(path: str) -> dict[str, Any]:
    try:
        document = json.loads(read_regular(path, LIMIT).decode())
        names = [record[name] for record in document["worktrees"] for name in ("path", "workflow_run_id", "status")]
        if not isinstance(document["worktrees"], list) or not all([isinstance(name, str) for name in names]):
            raise TypeError("its `worktrees` is not a list of records")
    except FileNotFoundError:
        return {"worktrees": []}
    except (FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise MalformedRegistry(f"{error}") from error
    return dict(document)


def gone_worktree(root: str, folder: str) -> str | None:
    """Return the work tree of this clone that a folder was in and that no longer exists; None if there is none."""
    at = os.path.join(os.path.abspath(folder), "")
    tree = work_tree_of(root)
    recorded: list[str] = [record["path"] for record in read_known(root)]
    for path in (*(tree.linked_tops() if tree else []), *recorded):
        if os.path.isabs(path) and at.startswith(os.path.join(path, "")) and not os.path.lexists(path):
            return path
    return None
