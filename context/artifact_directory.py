"""A directory as an artifact: all its files, the latest of them, or a summary (RELOAD, Step 5)."""

from __future__ import annotations

import os
import stat

from faber_ledger.context.artifact import MAX_BYTES, ArtifactError, find_place
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import check_time, utc_text
from faber_ledger.ledger.disk import FileRefused, FileTooLarge, folder_around, read_text, size_of
from faber_ledger.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.context.artifact import Content, Found, Surroundings
    from faber_ledger.context.workflow import Artifact

    # A regular file: when it was last changed (nanoseconds), its name, its size. The newest compares as the largest.
    Entry = tuple[int, str, int]


LAST_SECOND = 253_402_300_799  # of the year 9999; some file systems report later times


def read_directory(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Read a directory by its load strategy; raises ArtifactError.

    Only its regular files count, in the order of their names: no folders, hidden files, or links out of the project.
    What is read is bounded, however many files there are.
    """
    found = find_place(artifact, surroundings, _directory_size, "Directory")
    strategy = artifact["load_strategy"]
    if strategy == "latest_only":
        latest = max(_entries(found, surroundings), default=None)
        if latest is not None:
            return _file(found, latest)
    text = _all(found, surroundings) if strategy not in ("latest_only", "summary") else _summary(found, surroundings)
    return {
        "text": text,
        "source": found["source"],
        "resolved": found["resolved"],
        "size_bytes": len(text.encode("utf-8", "surrogatepass")),
    }


def _directory_size(path: str) -> int | None:
    if os.path.isdir(path):
        return 0
    if size_of(path) is not None:
        raise FileRefused("not a directory")
    return None


def _all(found: Found, surroundings: Surroundings) -> str:
    entries, size = [], 0
    for entry in _entries(found, surroundings):
        entries.append(entry)
        size += entry[2] + len(_heading(entry[1])) + 2
        if size > MAX_BYTES:
            instead = f'use load_strategy "latest_only" or "summary" for {found["source"]}'
            reason = f"Artifact is larger than 1 MB: all files of the directory together; {instead}"
            raise ArtifactError(reason, found["resolved"], has_room_in=("latest_only", "summary"))
    texts = []
    for _, name, _ in sorted(entries, key=lambda entry: entry[1]):
        texts.append(f"{_heading(name)}{_text(os.path.join(found['resolved'], name))}\n\n")
    return "".join(texts) if texts else _summary(found, surroundings)


def _file(found: Found, entry: Entry) -> Content:
    _, name, size = entry
    path = os.path.join(found["resolved"], name)
    return {"text": _only_text(path), "source": f"{found['source']}/{name}", "resolved": path, "size_bytes": size}


def _summary(found: Found, surroundings: Surroundings) -> str:
    count, latest = 0, None
    for entry in _entries(found, surroundings):
        count += 1
        latest = entry if latest is None or entry > latest else latest
    last = f"{escape(latest[1])} ({utc_text(min(max(latest[0] // 10**9, 0), LAST_SECOND))})" if latest else "none"
    return f"Directory: {found['source']}\nFiles: {count}\nLatest: {last}\n"


def _entries(found: Found, surroundings: Surroundings) -> Iterator[Entry]:
    """Yield a directory's files one at a time, since there may be any number of them.

    Hidden files and the ledger's own are left out.
    """
    directory = found["resolved"]
    # These files in the run's own folder change with every append; the state has its own artifact.
    is_run = directory == surroundings["run_dir"]
    run = Run(surroundings["root"], "", directory, surroundings.get("suffix", ""))
    folders = [surroundings["root"], *surroundings["plugin_roots"], found["folder"]]
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                check_time()
                if entry.name.startswith(".") or (is_run and (run.owns(entry.name) or run.is_beside(entry.name))):
                    continue
                status = _status(entry, folders)
                if status is not None:
                    yield status.st_mtime_ns, entry.name, status.st_size
    except OSError as error:
        raise ArtifactError(f"Cannot read {directory}: {error.strerror}", directory) from error


def _status(entry: os.DirEntry[str], folders: list[str]) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else, and for a link that leaves the folders."""
    try:
        if entry.is_symlink() and folder_around(entry.path, folders) is None:
            return None
        status = entry.stat()
    except (OSError, FileRefused):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _text(path: str) -> str:
    """Return a file's text, or the reason why it is not shown; raises ArtifactError if it has just become too large."""
    try:
        return _only_text(path)
    except ArtifactError as error:
        if error.has_room_in:
            raise
        return f"(not shown: {error.message.removeprefix(f'Cannot read {path}: ')})"


def _only_text(path: str) -> str:
    """Return the text of the one file that is read; raises ArtifactError if it has none."""
    check_time()
    try:
        text = read_text(path, MAX_BYTES)
    except FileTooLarge as error:
        raise ArtifactError(f"Artifact is larger than 1 MB: {error}", path, has_room_in=("summary",)) from error
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {path}: {error}", path) from error
    if text is None:
        raise ArtifactError(f"File not found: {path}", path, is_missing=True)
    return text


def _heading(name: str) -> str:
    return f"=== {escape(name)} ===\n"
