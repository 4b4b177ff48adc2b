"""The versions of a file on disk and in git's history, and the content among them that a load gave the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber_ledger.context.artifact import MAX_BYTES, content_digest, given_text, keyed
from faber_ledger.context.workflow import list_installed
from faber_ledger.files.untrusted import FileRefused, folder_around, read_text
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.run import is_state_file
from faber_ledger.runs.settings import read_user_config

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


class FoundContent(NamedTuple):
    """A content with a wanted digest, and words for where it was found."""

    text: str
    where: str


def find_contents(root: str, source: str, digests: set[str]) -> dict[str, FoundContent]:
    """Return the contents of the file `source` that have one of the digests, as loads record them, by digest.

    The file is one of the project or of a plugin root. `source` comes from a log and is not trusted: nothing outside
    these folders is read.
    """
    found: dict[str, FoundContent] = {}
    for text, where in _read_versions(root, source):
        for is_state in (False, True) if is_state_file(source) else (False,):
            given = given_text(text, is_state)
            digest = keyed(root, content_digest(given))
            if digest in digests - found.keys():
                found[digest] = FoundContent(given, where)
        if len(found) == len(digests):
            break
    return found


def _folders(root: str) -> list[str]:
    """Return the folders that a load's `source` may be relative to."""
    return [root, *read_user_config()["plugin_roots"], *[folder for folder, _, _ in list_installed(root)]]


def _read_versions(root: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file and where each is: the current ones, then those in git's history, newest first."""
    for folder in _folders(root):
        place = os.path.join(folder, *source.split("/"))
        try:
            text = read_text(place, MAX_BYTES) if folder_around(place, [folder]) is not None else None
        except FileRefused:
            text = None
        if text is not None:
            yield text, "the file as it is now" if folder == root else f"{place}, as it is now"
    try:
        versions = list(list_versions(root, "--all", f":(literal){source}"))
    except (GitFailed, ValueError):  # a NUL byte in the source
        return
    for blob, commit in versions:
        size = run_git("cat-file", "-s", blob, at=root).stdout.strip()
        if size.isdigit() and int(size) <= MAX_BYTES:
            content = run_git("cat-file", "blob", blob, at=root).stdout
            try:
                yield content.decode().removeprefix("\ufeff"), f"commit {commit[:12]}"
            except UnicodeDecodeError:
                continue
