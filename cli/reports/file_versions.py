"""The versions of a file on disk and in git's history, and the content among them that a load gave the agent."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber_ledger.context.artifact import MAX_BYTES, content_digest, given_text, keyed
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.disk import FileRefused, folder_around, read_text
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.run import is_state_file
from faber_ledger.runs.settings import list_installed, read_user_config

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


def find_content(root: str, source: str, digest: str) -> str | None:
    """Return the content of the file `source` that has a digest, as a load records it; None if there is none.

    The file is one of the project or of a plugin root. `source` comes from a log and is not trusted: nothing outside
    these folders is read.
    """
    for text in _read_versions(root, source):
        for is_state in (False, True) if is_state_file(source) else (False,):
            given = given_text(text, is_state)
            if keyed(root, content_digest(given)) == digest:
                return given
    return None


def _read_versions(root: str, source: str) -> Iterator[str]:
    """Yield the texts of a file: the current ones, then those in git's history, newest first."""
    for folder in (root, *read_user_config()["plugin_roots"], *[place for place, _, _ in list_installed(root)]):
        place = os.path.join(folder, *source.split("/"))
        try:
            text = read_text(place, MAX_BYTES) if folder_around(place, [folder]) is not None else None
        except FileRefused:
            text = None
        if text is not None:
            yield text
    try:
        versions = list(list_versions(root, "--all", f":(literal){source}"))
    except (GitFailed, ValueError):  # a NUL byte in the source
        return
    for blob, _ in versions:
        size = run_git("cat-file", "-s", blob, at=root).stdout.strip()
        if size.isdigit() and int(size) <= MAX_BYTES:
            content = run_git("cat-file", "blob", blob, at=root).stdout
            try:
                yield content.decode().removeprefix("\ufeff")
            except UnicodeDecodeError:
                continue
