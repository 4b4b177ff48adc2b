"""Runs' files in conflict: those that a merge left in git's index, and those in which conflict markers stand."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.files.conflict_markers import has_markers, split_sides
from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.runs.git_command import git, run_git, top_of
from faber_ledger.runs.run import LARGEST_STATE, LEDGER, STATE, Run, find_run, run_at, run_ids
from faber_ledger.runs.state_file import stopped_merge

BASE, OURS, THEIRS = "1", "2", "3"  # git's stages of a file in conflict
LINK = b"120000"  # git's mode of a link


class Conflict(NamedTuple):
    """A file in conflict: its path from the project's root, its run, its blobs by stage.

    `kind` is one of `RUN_FILES`, whatever the file's name is. A file that has conflict
    markers, and is not in conflict in the index, has no blobs; `marked` is its content. Nor has a side that is a link,
    whose stages are `links`: we write none, and follow none.
    """

    path: str
    run: Run
    kind: str
    blobs: dict[str, str]
    marked: bytes | None = None
    links: frozenset[str] = frozenset()

    @property
    def is_ledger(self) -> bool:
        """Whether the file is a run's ledger."""
        return self.kind == LEDGER

    @property
    def is_state(self) -> bool:
        """Whether the file is a run's state."""
        return self.kind == STATE

    @property
    def is_gone(self) -> bool:
        """Whether both sides have deleted the file, as where each has moved it to another place."""
        return list(self.blobs) == [BASE]

    def side(self, stage: str) -> bytes | None:
        """Return the content of one side; None if that side does not have the file."""
        return git("cat-file", "blob", self.blobs[stage]) if stage in self.blobs else None

    def sides(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return base, our side and their side; both sides of markers that cannot be read are the whole file."""
        if self.marked is None:
            return self.side(BASE), self.side(OURS), self.side(THEIRS)
        return split_sides(self.marked) or (b"", self.marked, self.marked)


def find_conflicts(root: str, top: str) -> list[Conflict]:
    """Return the index's conflicts of runs' ledgers and states; other files are the user's."""
    prefix = os.path.relpath(os.path.realpath(root), os.path.realpath(top)).replace(os.sep, "/") + "/"
    prefix = prefix.removeprefix("./")
    blobs, links = _read_unmerged(top)
    found = []
    for path, sides in blobs.items():
        inside = path.removeprefix(prefix)
        if not path.startswith(prefix):
            continue
        at = run_at(root, inside)
        if at is not None:
            found.append(Conflict(inside, *at, sides, links=frozenset(links.get(path, ()))))
    return found


def find_other_projects_in_conflict(root: str, top: str) -> list[str]:
    """Return the repository's other projects that have conflicts, by the same files in the index."""
    found = set()
    for path in _read_unmerged(top)[0]:
        parts = path.split("/")
        for number in [number for number, part in enumerate(parts) if part == ".fractary"]:
            other, inside = os.path.join(top, *parts[:number]), "/".join(parts[number:])
            if run_at(other, inside) is not None:
                found.add(os.path.realpath(other))
    return sorted(found - {os.path.realpath(root)})


def _read_unmerged(top: str) -> tuple[dict[str, dict[str, str]], dict[str, set[str]]]:
    """Return the files in conflict in the index, each with its blobs by stage, and with the stages that are links."""
    blobs: dict[str, dict[str, str]] = {}
    links: dict[str, set[str]] = {}
    for entry in git("ls-files", "-u", "-z", at=top).split(b"\0"):
        described, tab, name = entry.partition(b"\t")
        if not tab or not described.startswith((b"100", LINK)):  # nor is a submodule ours
            continue
        _, blob, stage = described.decode().split(" ")
        sides = blobs.setdefault(os.fsdecode(name), {})
        if described.startswith(LINK):
            links.setdefault(os.fsdecode(name), set()).add(stage)
        else:
            sides[stage] = blob
    return blobs, links


def names_set_aside(root: str, conflict: Conflict) -> list[str]:
    """Return the other names, from the project's root, that git gave a side's file where the other side has a link."""
    listed = git("ls-files", "-u", "-z", "--", os.path.dirname(conflict.path), at=root).split(b"\0")
    names = [os.fsdecode(entry.partition(b"\t")[2]) for entry in listed]
    return [*dict.fromkeys([name for name in names if name.startswith(f"{conflict.path}~")])]


def paths_in_conflict(root: str) -> dict[str, list[str]]:
    """Return the paths of files in conflict in the index by the id of their run.

    None are known if git does not answer: reports go on without it.
    """
    top = top_of(root)
    found: dict[str, list[str]] = {}
    try:
        conflicts = find_conflicts(root, top) if top is not None else []
    except GitFailed:
        return {}
    for conflict in conflicts:
        found.setdefault(conflict.run.run_id, []).append(conflict.path)
    return found


def find_marked(root: str) -> list[Conflict]:
    """Return the states of runs in which conflict markers stand, committed or not."""
    found = []
    for run in [find_run(root, run_id) for run_id in run_ids(root)]:
        path = run.shown(run.state_path)
        content = read_here(root, path)
        if content is not None and has_markers(content):
            found.append(Conflict(path, run, STATE, {}, content))
    return found


def read_here(root: str, path: str) -> bytes | None:
    """Return a file of the project; None if there is none, it is too large, or a link leads to it."""
    at = os.path.join(root, *path.split("/"))
    try:
        return read_regular(at, LARGEST_STATE) if folder_around(os.path.dirname(at), [root]) is not None else None
    except (FileRefused, OSError):
        return None


def base_of_markers(root: str, path: str, revision: str, other: str | None = None) -> bytes:
    """Return a file with markers as it was before the two sides; empty if that is unknown, as after a rebase.

    The sides are `revision` and `other`, or else the parents of the merge that has brought the markers to `revision`.
    """
    if other is not None:
        sides = [revision, other]
    else:
        done = run_git("rev-list", "--max-count=1", "--parents", revision, "--", path, at=root)
        sides = done.stdout.decode().split()[1:]
    if len(sides) != 2:
        return b""
    base = run_git("merge-base", *sides, at=root).stdout.decode().strip()
    done = run_git("cat-file", "blob", f"{base}:./{path}", at=root)
    return done.stdout if base and done.returncode == 0 else b""


def check_not_in_conflict(run: Run) -> None:
    """Raise StateInvalid if a merge has stopped at a run's state: it is in conflict in the index, or has markers."""
    content = read_here(run.root, run.shown(run.state_path))
    is_unmerged = top_of(run.root) is not None and git("ls-files", "-u", "--", run.shown(run.state_path), at=run.root)
    if is_unmerged or (content is not None and has_markers(content)):
        raise stopped_merge(run)
