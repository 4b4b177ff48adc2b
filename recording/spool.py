"""Deliveries that could not be recorded yet: written one by one, read in order, recorded by the next append."""

from __future__ import annotations

import os
import time

from faber_ledger.files.untrusted import FileRefused, FileTooLarge, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.plain_json import encoder, loads
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
MAX_BYTES = 1024 * 1024
ABANDONED_SECONDS = 3600
KEPT_SECONDS = 30 * 24 * 3600  # what is no delivery
ATTEMPTS = 20
ARRIVAL = 17  # digits of a microsecond, with which the name of a delivery begins


class Malformed(Exception):
    """A file in the spool is not a delivery; the message says why."""


class Full(Exception):
    """The spool already holds as many deliveries as it may."""


def waiting(run: Run) -> list[str]:
    """Return the paths of a run's waiting deliveries, in order of arrival."""
    return _ending(spool_path(run), SUFFIX)


def moved_aside(run: Run) -> list[str]:
    """Return the paths of the files in a run's spool that were moved aside because they are not deliveries."""
    return _ending(spool_path(run), ASIDE)


def _ending(folder: str, suffix: str) -> list[str]:
    """Return the paths of a folder's files with a suffix; none if the folder is a link, which may lead anywhere."""
    try:
        names = [] if os.path.islink(folder) else os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(suffix)]


def put(run: Run, spooled: Spooled) -> str:
    """Write a delivery durably into the spool, and return its path; raises OSError and Full."""
    for _ in range(ATTEMPTS):
        try:
            return _put(run, spooled)
        except FileNotFoundError:  # whoever recorded the last delivery removed the folder meanwhile
            continue
    return _put(run, spooled)


def _put(run: Run, spooled: Spooled) -> str:
    folder = spool_path(run)
    make_kept_folder(run, folder)
    names = os.listdir(folder)
    count = len([name for name in names if name.endswith(SUFFIX)])  # files that were moved aside do not count
    if count >= MAX_FILES:
        raise Full(f"{folder} holds {count:,} deliveries, which is the limit")
    path = os.path.join(folder, f"{_arrival(spooled['at'], names)}-{spooled['id']}{SUFFIX}")
    text = _text_of(spooled)
    if _why_too_large(text):  # a state's progress, or an artifact's error, may have any length
        text = _text_of({**spooled, "progress": None, "loads": []})
    whole_file.put(path, text.encode("utf-8", "surrogatepass"), mode=whole_file.OWN)
    return path


def _text_of(spooled: Spooled) -> str:
    return encoder(separators=(",", ":"))(spooled)


def _why_too_large(text: str) -> str | None:
    """Return why a text is too large to be read; None if it is not."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return f"it is larger than {MAX_BYTES:,} bytes"
    if besides_texts(text) > MAX_BESIDES_TEXTS:
        return "it is large because of something other than its texts"
    return None


def read(path: str) -> Spooled:
    """Read a delivery; raises Malformed, and OSError if it cannot be read now."""
    try:
        content = read_regular(path, MAX_BYTES)
    except FileTooLarge as error:
        raise Malformed(f"it is larger than {MAX_BYTES:,} bytes") from error
    except FileRefused as error:
        raise Malformed("it is not a regular file") from error
    try:
        text = content.decode("utf-8", "surrogatepass")
        problem = _why_too_large(text)
        if problem is not None:
            raise Malformed(problem)
        found = loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from error
    if not is_spooled(found):
        raise Malformed("it is not a delivery of this version")
    spooled: Spooled = found
    return spooled


def move_aside(path: str) -> str:
    """Move a file that is not a delivery aside, and return its new path; raises OSError."""
    from faber_ledger.ledger.aside import free_name  # few files are moved aside

    aside = free_name(path.removesuffix(SUFFIX), ASIDE)
    os.replace(path, aside)
    return aside


def remove(path: str) -> None:
    """Remove a delivery that is in the log; one that cannot be removed now is recognised by its id the next time."""
    try:
        os.unlink(path)
    except OSError:
        pass


def tidy(run: Run) -> None:
    """Remove the half-written files of killed hooks, what was moved aside 30 days ago, and an empty folder."""
    folder = spool_path(run)
    try:
        for ending, seconds in ((".tmp", ABANDONED_SECONDS), (ASIDE, KEPT_SECONDS)):
            for path in _ending(folder, ending):
                if abs(time.time() - os.lstat(path).st_mtime) > seconds:
                    os.unlink(path)
        os.rmdir(folder)  # fails for a link
    except OSError:
        pass  # deliveries arrived meanwhile


def _arrival(at: float, names: list[str]) -> str:
    """Return the part of a name that sorts by arrival: the microsecond, or after all others if the clock went back."""
    taken = max([int(name[:ARRIVAL]) for name in names if name[:ARRIVAL].isdecimal()], default=0)
    return f"{max(int(at * 1_000_000), taken + 1):0{ARRIVAL}d}"
