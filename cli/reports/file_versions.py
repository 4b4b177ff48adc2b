"""The versions of a file in git's history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from faber_ledger.runs.git_command import run_git

OPTIONS = ("--full-history", "-m", "--raw", "--no-abbrev", "--no-renames", "--no-color", "--format=%H")
NEW_MODE, NEW_BLOB, ABSENT = 1, 3, "0" * 40  # in a raw line; a deletion has ABSENT


class Version(NamedTuple):
    """A version of a file: its blob, and the newest commit that has it."""

    blob: str
    commit: str


def list_versions(root: str, revisions: str, *paths: str) -> Iterator[Version]:
    """Yield each version of regular files once, newest first, also those that only a merge made; raises GitFailed."""
    listed = run_git("log", *OPTIONS, revisions, "--", *paths, at=root)
    commit, seen = "", {ABSENT}
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        if not line.startswith(":"):
            commit = line or commit
        elif (blob := line.split()[NEW_BLOB]) not in seen and line.split()[NEW_MODE].startswith("100"):
            seen.add(blob)
            yield Version(blob, commit)
