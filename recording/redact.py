"""Redact an event's payload in every file of this clone that holds it, or put it back."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from faber_ledger.ledger import disk
from faber_ledger.ledger.command_errors import NotFound, UsageFailed
from faber_ledger.ledger.encoding import HASH, ID, PAYLOAD, TYPE, WRITER, loads
from faber_ledger.ledger.errors import StateMissing
from faber_ledger.ledger.event_types import REDACTED
from faber_ledger.ledger.gate import examine
from faber_ledger.ledger.redaction import KINDS, effective_redactions, texts_of
from faber_ledger.ledger.union import rows_in_file, rows_named
from faber_ledger.projections.fold import fold
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.copies import head_copy
from faber_ledger.runs.kept_summaries import summary_paths
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import open_run_log
from faber_ledger.runs.old_copies import remove_old_copies
from faber_ledger.runs.run import HOOK_LOG, other_roots
from faber_ledger.runs.set_aside import LARGEST, forget_event, list_set_aside, read_or_empty, rows_set_aside
from faber_ledger.runs.state_file import state_copy_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.events import Draft, Event, EventRedacted, RedactionUndone
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run


class RedactionPlan(NamedTuple):
    """What a redaction would remove: the event, its type, and the `texts` in its payload.

    `event` is what would be appended; None if the payload is redacted already.
    """

    target: str
    kind: str
    event: Event | None
    texts: set[str]


class RedactionResult(NamedTuple):
    """What a redaction did: its id (None: it was there before), the files rewritten and removed, `clean`'s result."""

    id: str | None
    rewritten: list[str]
    removed: list[str]
    cleaned: dict[str, Any]


def plan_redaction(log: Log, name: str, reason: str | None, writer: str) -> RedactionPlan:
    """Plan the redaction of one event of a log by a writer; raises UsageFailed for what cannot be redacted.

    Somebody else's redaction of the event is no reason not to record one: the server asks whose it is.
    """
    (row,) = rows_named(log, name)
    kind = row[TYPE]
    if kind in KINDS:
        raise UsageFailed(f"an {kind} cannot be redacted", hint="redact the event that it names, or undo that")
    known = effective_redactions(log.connection).get(name)
    if known is not None and known.writer == writer:
        return RedactionPlan(name, kind, None, set())
    texts = texts_of(loads(row[PAYLOAD])) if row[PAYLOAD] is not None else set()
    reason = mask_text(reason) if reason else None
    if reason and any([len(text) >= MIN_LENGTH and text.casefold() in reason.casefold() for text in texts]):
        raise UsageFailed("the reason holds what is redacted, and would keep it", hint="word the reason without it")
    event: EventRedacted = {"type": "event_redacted", "event_id": name, "reason": reason}
    return RedactionPlan(name, kind, event, texts)


def runs_in_work_trees(run: Run) -> list[Run]:
    """Return the run in this work tree and in the clone's other ones that have its folder, as with a backup alone."""
    there = [find_run(root, run.run_id) for root in other_roots(run.root)]
    return [run, *[one for one in there if one.has_files()]]


def redact_event(
    run: Run,
    make_plan: Callable[[Log], RedactionPlan],
    clean: Callable[[Log, RedactionPlan], dict[str, Any]],
    *,
    at: float,
    writer: str,
    client: str | None,
    warn: Callable[[str], None],
) -> RedactionResult:
    """Redact a payload in the run's log and in the files of all work trees, and remove older copies.

    Waiting deliveries are recorded first: they may hold the texts, and as events they can be named and redacted.
    `make_plan` is called under the lock, and `clean` with its plan while the texts are still known. Raises what they,
    `lock_run`, `open_run_log` and `read_state` raise.
    """
    runs = runs_in_work_trees(run)
    for one in runs:
        record_before_projecting(one, at, warn=warn)
        with suppress(StateMissing):
            state_file.read_state(one)  # one that cannot be read would stop the redaction halfway
    rewritten, removed = [run.log_path], []
    with lock_run(run):
        with open_run_log(run, warn) as opened:
            plan = make_plan(opened.log)
            cleaned = clean(opened.log, plan)
            recorded = _append(opened.log, plan.event, at, writer, client) if plan.event is not None else None
            opened.strip([plan.target])
            opened.commit()
        forget_event(run, plan.target)
        for one in runs:
            with open_run_log(one, warn) as opened:
                with suppress(StateMissing):
                    blocks, on_purpose = fold(opened.log.stream()), os.path.lexists(one.ledger_path)
                    state_write.project_blocks(one, opened, blocks, warn=warn, on_purpose=on_purpose)
                if os.path.lexists(one.ledger_path) and not opened.note.barred:
                    rewritten.append(one.ledger_path)
                removed += remove_old_copies(one, opened.log)
    return RedactionResult(recorded, rewritten, removed, cleaned)


def undo_redaction(
    run: Run,
    name: str,
    reason: str | None,
    copies: Iterable[Row],
    *,
    at: float,
    writer: str,
    client: str | None,
    warn: Callable[[str], None],
) -> str:
    """Put the payload of an event back from any copy that has it, and return the id of the `redaction_undone`.

    `copies` are read after those of this clone.

    It may have been undone elsewhere: a team's server brings the undo, and no payload.
    Raises UsageFailed if it is not redacted, or was by its own writer elsewhere, NotFound if no copy has the payload,
    and what `lock_run` and `open_run_log` raise.
    """
    with lock_run(run), open_run_log(run, warn) as opened:
        found = effective_redactions(opened.log.connection).get(name)
        (row,) = rows_named(opened.log, name)
        if found is None and row[PAYLOAD] is not None:
            raise UsageFailed(f"event {name} is not redacted", hint="run `faber-ledger log` to see what is")
        if found is not None and found.writer == row[WRITER] != writer:
            raise UsageFailed(
                f"event {name} was redacted by the clone that wrote it, and that clone alone can undo it",
                hint=f"run `faber-ledger show {found.id}` to see who, and when",
            )
        whole = next(_copies_with_payload(run, row, copies), None)
        if whole is None:
            hint = "run the command in a clone that set it aside less than 30 days ago"
            if found is not None and found.writer == writer:
                hint = f"put {run.shown(run.ledger_path)} from an older commit in its place, and run the command again"
            raise NotFound(f"no copy of the payload of event {name} is left here", hint=hint)
        event: RedactionUndone = {
            "type": "redaction_undone",
            "event_id": name,
            "reason": mask_text(reason) if reason else None,
        }
        with opened.log.writing():
            undone = _append(opened.log, event, at, writer, client)
            opened.insert_rows([], [whole])
        state_write.project_blocks(run, opened, fold(opened.log.stream()), warn=warn)
    return undone


def _copies_with_payload(run: Run, row: Row, copies: Iterable[Row]) -> Iterator[Row]:
    """Yield the copies of an event, with its payload: set aside, in another file of the run, or of these `copies`."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        for one in chain(rows_set_aside(run), _rows_in_files(run, row[ID], folder), copies):
            if one[ID] == row[ID] and one[HASH] == row[HASH] and one[PAYLOAD] is not None:
                examined = examine(one)
                if examined.fault is None and examined.dropped is None:
                    yield examined.row


def _rows_in_files(run: Run, name: str, folder: str) -> Iterator[Row]:
    for path in (*[one.ledger_path for one in runs_in_work_trees(run)], head_copy(run, folder)):
        if path is not None and os.path.isfile(path):
            yield from rows_in_file(path, [name]) or ()


def _append(log: Log, event: Event, at: float, writer: str, client: str | None) -> str:
    draft: Draft = {"event": event, "client": client}
    (recorded,) = log.append([draft], at=at, writer=writer)
    return recorded["id"]


# Where else a redacted text may be: the hook log, other events, other files


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
