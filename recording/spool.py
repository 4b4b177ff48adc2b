"""Deliveries that could not be recorded yet: written one by one, read in order, recorded by the next append."""

from __future__ import annotations

import json
import os
import stat
import time

from faber_ledger.ledger import whole_file
from faber_ledger.recording.call import MAX_BESIDES_TEXTS, besides_texts
from faber_ledger.recording.spooled import is_spooled
from faber_ledger.runs.clone import make_kept_folder, spool_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.recording.spooled import Spooled
    from faber_ledger.runs.run import Run


SUFFIX = ".json"
ASIDE = ".malformed"
MAX_FILES = 1_000
LARGEST = 1024 * 1024
FORGOTTEN_SECONDS = 3600
TRIES = 20


class Malformed(Exception):
    """A file in the spool is no delivery, and why."""


class Full(Exception):
    """The spool holds as many deliveries as it may."""


def waiting(run: Run) -> list[str]:
    """Give the paths of a run's waiting deliveries, in order of arrival; doctor and status tell how many they are."""
    return _ending(spool_path(run), SUFFIX)


def set_aside(run: Run) -> list[str]:
    """Give the paths of the files that were in a run's spool and are no deliveries."""
    return _ending(spool_path(run), ASIDE)


def _ending(folder: str, suffix: str) -> list[str]:
    """Give the paths of a folder's files with a suffix; none of a link's, which may lead to anybody's files."""
    try:
        names = [] if os.path.islink(folder) else os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(suffix)]


def put(run: Run, spooled: Spooled) -> str:
    """Write a delivery into the spool, durably, and give its path; raises OSError and Full."""
    for _ in range(TRIES):
        try:
            return _put(run, spooled)
        except FileNotFoundError:  # whoever took in the last delivery removed the folder meanwhile
            continue
    return _put(run, spooled)


def _put(run: Run, spooled: Spooled) -> str:
    folder = spool_path(run)
    make_kept_folder(run, folder)
    names = os.listdir(folder)
    count = len([name for name in names if name.endswith(SUFFIX)])  # what was set aside stays, and is in nobody's way
    if count >= MAX_FILES:
        raise Full(f"{folder} holds {count:,} deliveries, and no more are kept")
    path = os.path.join(folder, f"{_place(spooled['at'], names)}-{spooled['id']}{SUFFIX}")
    text = _text_of(spooled)
    if _what_is_too_large(text):  # a state's progress, or an artifact's refusal, may be of any length
        text = _text_of({**spooled, "progress": None, "loads": []})
    whole_file.put(path, text.encode("utf-8", "surrogatepass"), mode=0o600)
    return path


def _text_of(spooled: Spooled) -> str:
    return json.dumps(spooled, ensure_ascii=False, separators=(",", ":"))


def _what_is_too_large(text: str) -> str | None:
    """Say why a text is none that is read; None if it is not too large."""
    if len(text) > LARGEST or len(text.encode("utf-8", "surrogatepass")) > LARGEST:
        return f"it is larger than {LARGEST:,} bytes"
    if besides_texts(text) > MAX_BESIDES_TEXTS:
        return "it is large for something else than its texts"
    return None


def read(path: str) -> Spooled:
    """Read a delivery; raises Malformed, and OSError if it cannot be read now."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise Malformed("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise Malformed(f"it is larger than {LARGEST:,} bytes")
    try:
        text = content.decode("utf-8", "surrogatepass")
        problem = _what_is_too_large(text)
        if problem is not None:
            raise Malformed(problem)
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is no JSON: {error}") from error
    if not is_spooled(found):
        raise Malformed("it is no delivery of this version")
    spooled: Spooled = found
    return spooled


def put_aside(path: str) -> str:
    """Move a file that is no delivery out of the way of those that are, and give where it is now; raises OSError."""
    bare, number = path.removesuffix(SUFFIX), 1
    aside = bare + ASIDE
    while os.path.lexists(aside):  # brought, or set aside before: a folder there could not be replaced
        number += 1
        aside = f"{bare}-{number}{ASIDE}"
    os.replace(path, aside)
    return aside


def remove(path: str) -> None:
    """Remove a delivery that is in the log. One that cannot go is known by its id, and goes the next time."""
    try:
        os.unlink(path)
    except OSError:
        pass


def tidy(run: Run) -> None:
    """Remove what killed hooks have half written, and the folder if nothing is left."""
    folder = spool_path(run)
    try:
        for path in _ending(folder, ".tmp"):
            if abs(time.time() - os.lstat(path).st_mtime) > FORGOTTEN_SECONDS:
                os.unlink(path)
        os.rmdir(folder)  # refused for a link
    except OSError:
        pass  # deliveries that came meanwhile


def _place(at: float, names: list[str]) -> str:
    """Give the part of a name that sorts by arrival: the microsecond, and after every other if the clock went back."""
    taken = max([int(name[:17]) for name in names if name[:17].isdecimal()], default=0)
    return f"{max(int(at * 1_000_000), taken + 1):017d}"
