"""Where else a redacted text may be: the hook log, other events, other files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from faber_ledger.ledger import disk
from faber_ledger.ledger.event_types import REDACTED
from faber_ledger.ledger.log import Log
from faber_ledger.runs.kept_summaries import summary_paths
from faber_ledger.runs.run import HOOK_LOG, Run
from faber_ledger.runs.set_aside import LARGEST, list_set_aside, read_or_empty
from faber_ledger.runs.state_file import state_copy_path

LEDGER_ENDING = ".db"
MIN_LENGTH = 4  # letters: a shorter text is found everywhere
MAX_BYTES = 64 * 1024 * 1024


def find_other_events(log: Log, texts: Iterable[str], but: Iterable[str]) -> dict[str, set[str]]:
    """Return the texts that events of a log hold, each with the ids of these events, except those in `but`."""
    found: dict[str, set[str]] = {}
    for text in texts:
        if len(text) < MIN_LENGTH:
            continue
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        twice = json.dumps(written, ensure_ascii=False)[1:-1]  # adopted blocks hold it as JSON within JSON
        rows = log.connection.execute(
            "SELECT id FROM event WHERE payload IS NOT NULL AND (instr(payload, ?) OR instr(payload, ?))",
            (written, twice),
        )
        names = {name for (name,) in rows} - set(but)
        if names:
            found[text] = names
    return found


def scrub(runs: list[Run], texts: Iterable[str]) -> list[str]:
    """Replace texts with `[redacted]` in hook logs, kept summaries, and what is set aside; return what changed.

    A ledger that was set aside is removed. A waiting delivery is not changed, since it becomes an event. Raises OSError
    for a file that cannot be rewritten.
    """
    needles = _needles(texts)
    return [path for path in _own_files(runs) if _scrub_file(path, needles)]


def find_remains(runs: list[Run], texts: Iterable[str]) -> list[str]:
    """Return the files that hold one of the texts: in the runs' folders, and the copy of a state in this clone."""
    needles = _needles(texts)
    files = [path for run in runs for path in _files_of(run)]
    copies = dict.fromkeys([path for run in runs if (path := state_copy_path(run)) is not None])
    return [path for path in (*files, *copies) if _has_any(path, needles)]


def _files_of(run: Run) -> list[str]:
    """Return the files in a run's folder; of a folder of several runs those that are not another run's."""
    found = [os.path.join(top, name) for top, _, names in sorted(os.walk(run.own_directory)) for name in sorted(names)]
    if run.suffix and os.path.isdir(run.directory):
        mine = [name for name in sorted(os.listdir(run.directory)) if not run.is_beside(name)]
        found += [path for name in mine if os.path.isfile(path := os.path.join(run.directory, name))]
    return found


def _has_any(path: str, needles: list[bytes]) -> bool:
    content = read_or_empty(path, MAX_BYTES)
    return any([needle in content for needle in needles])


def _needles(texts: Iterable[str]) -> list[bytes]:
    """Return the forms that texts may have in a file, longest first: unchanged, as JSON, and as JSON within JSON.

    A file of deliveries of another tool may have JSON within JSON.
    """
    forms = {text for text in texts if len(text) >= MIN_LENGTH}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=is_ascii)[1:-1] for form in forms for is_ascii in (True, False)}
    return sorted([form.encode("utf-8", "surrogatepass") for form in forms], key=lambda form: (-len(form), form))


def _own_files(runs: list[Run]) -> Iterator[str]:
    for run in runs:
        path = os.path.join(run.root, *HOOK_LOG.split("/"))
        yield from (path, path + ".1")
    yield from summary_paths(runs[0]).values()
    yield from list_set_aside(runs[0].root)


def _scrub_file(path: str, needles: list[bytes]) -> bool:
    is_ledger = path.endswith(LEDGER_ENDING)
    before = after = read_or_empty(path, LARGEST if is_ledger else MAX_BYTES)
    for needle in needles:
        after = after.replace(needle, REDACTED.encode())
    if after == before:
        return False
    if is_ledger:
        disk.remove(path)
    else:
        disk.put(path, after, like=os.stat(path))
    return True
