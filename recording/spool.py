"""Deliveries that could not be recorded yet: written one by one, read in order, recorded by the next append."""

from __future__ import annotations

import json
import os
import stat
import time

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import LedgerError, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.projections.fold import fold
from faber_ledger.recording.call import MOST_BESIDES_TEXTS, Call, besides_texts
from faber_ledger.recording.incoming import Arrival
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.spooled import is_spooled
from faber_ledger.runs.clone import make_kept_folder, spool_path, writer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Spooled(TypedDict):
        """A hook call with all that is not in its delivery.

        `id` is that of its first fact; the other ids, and the salts, are made of `salt`. `at` is in seconds since 1970.
        `digest` is the SHA-256 of `delivery`, its standard input, which is kept shortened where it is long. What a
        session's start had gathered goes along: `session_id` and `loads`; `environment`, `progress` and `status` are
        None where they are not known.
        """

        spool: int
        id: str
        salt: str
        run_id: str
        hook: str
        at: float
        writer: str
        environ: dict[str, str]
        delivery: str
        digest: str
        session_id: str
        environment: Environment | None
        progress: Snapshot | None
        status: str | None
        loads: list[Draft]


SUFFIX = ".json"
ASIDE = ".malformed"
MOST_FILES = 1_000
LONGEST_DELIVERY = 64 * 1024  # what a hook sends is a few hundred bytes, and a compaction's summary some thousand
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
    if count >= MOST_FILES:
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
    if besides_texts(text) > MOST_BESIDES_TEXTS:
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


AT_ONCE = 100  # deliveries a transaction, so that a hook which is killed meanwhile has not worked for nothing


def take_in(run: Run, at: float, *, warn: Callable[[str], None]) -> None:
    """Record a run's waiting deliveries where nothing else is to be; raises as `Recording`."""
    if waiting(run):
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn, tolerant=True):
            pass  # whoever opens a recording takes them in


def drain(recording: Recording) -> None:
    """Record the waiting deliveries of an open recording's run; raises as `Recording.append`, but for state.json.

    Their facts are durable before their files go. A file that is no delivery is kept aside and told.
    """
    paths = waiting(recording.run)[:MOST_FILES]  # no hook puts more there, and a repository may
    for first in range(0, len(paths), AT_ONCE):
        taken = [path for path in paths[first : first + AT_ONCE] if _is_taken_in(recording, path)]
        try:
            recording.commit()
        except StateNotWritten as error:
            recording.warn(f"{error} - what happened is in the ledger: {error.hint}")
        for path in taken:
            remove(path)
        recording.begin()
    tidy(recording.run)


def _is_taken_in(recording: Recording, path: str) -> bool:
    """Add what a delivery means to the open transaction; tell whether its file is done with once that is durable.

    Nothing that stands in one file, and no file that cannot be read, may hold up the others.
    """
    try:
        spooled = read(path)
        if spooled["run_id"] != recording.run.run_id:
            raise Malformed(f"it is about the run {spooled['run_id']!r:.80}")
    except FileNotFoundError:
        return False
    except OSError as error:
        recording.warn(f"a waiting delivery cannot be read, and goes on waiting: {path}: {error.strerror}")
        return False
    except Malformed as error:
        return _is_put_aside(recording, path, error)
    try:
        _take_in(recording, spooled)
    except (LedgerError, OSError, sqlite3.Error):  # the log's, which the next one would meet too
        raise
    except Exception as error:  # noqa: BLE001 -- a defect of ours that this one brings out each time it is tried
        recording.view.blocks = fold(recording.view.log.stream())  # it may have stopped while they were changed
        return _is_put_aside(recording, path, error)
    return True


def _is_put_aside(recording: Recording, path: str, error: Exception) -> bool:
    """Move a file that is no delivery out of the way and tell it; it stays there, so that False is given."""
    try:
        recording.warn(f"a waiting delivery could not be taken in, and was moved to {put_aside(path)}: {error!r:.300}")
    except OSError as refusal:
        recording.warn(f"{path} is no delivery ({error!s:.300}), and cannot be moved aside: {refusal.strerror}")
    return False


def _take_in(recording: Recording, spooled: Spooled) -> None:
    call = Call(spooled["hook"], spooled["delivery"].encode("utf-8", "surrogateescape"), spooled["environ"])
    call.hook, call.digest = spooled["hook"], spooled["digest"]
    arrival = Arrival.spooled(spooled, call, recording.run, recording.warn)
    log = recording.view.log
    with log.writing():
        log.connection.execute("SAVEPOINT delivery")
        try:
            arrival.record_in(recording)
        except BaseException:
            if log.connection.in_transaction:  # what a full disk refuses, SQLite takes back as a whole
                log.connection.execute("ROLLBACK TO delivery")
            raise
        log.connection.execute("RELEASE delivery")
