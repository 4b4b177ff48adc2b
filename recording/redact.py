"""Redact an event's payload, or fields of it, in every file of this clone that holds it."""

from __future__ import annotations

import difflib
import os
import re
from contextlib import ExitStack

from faber_ledger.ledger.canonical import clean
from faber_ledger.ledger.command_errors import NotFound, UsageFailed
from faber_ledger.ledger.effective import effective_redactions, replaces
from faber_ledger.ledger.errors import IntegrityError, Locked, StateMissing
from faber_ledger.ledger.event_types import is_known
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import (
    WHOLE_BLOCKS,
    Redaction,
    least_words,
    list_paths,
    redact_all,
    redact_fields,
    texts_of,
    united_remains,
)
from faber_ledger.ledger.row import ID
from faber_ledger.projections.fold import fold
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.clone import mirror_path
from faber_ledger.runs.copies import mirror_with_events, runs_in_other_work_trees
from faber_ledger.runs.kept import kept_run
from faber_ledger.runs.old_copies import remove_old_copies
from faber_ledger.runs.recovery import is_sound
from faber_ledger.runs.run import Run
from faber_ledger.runs.run_log import RunLog, open_log
from faber_ledger.runs.unaccepted import find_waiting, forget_kept, note_accepted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from faber_ledger.ledger.events import EventRedacted

    Row = tuple[Any, ...]


ENVELOPE = ("seq", "id", "type", "version", "at", "writer", "session_id", "client", "parents", "salt", "hash")


class RedactionPlan:
    """What a redaction would remove: the event and its type, the `fields` (empty for the whole payload), the `texts`.

    `event` is what would be appended; None if there is nothing more to remove.
    """

    def __init__(self, target: str, kind: str, fields: list[str], event: EventRedacted | None, texts: set[str]) -> None:
        self.target = target
        self.kind = kind
        self.fields = fields
        self.event = event
        self.texts = texts


class RedactionResult:
    """What a redaction did: its id (None: it was there before), the files rewritten and removed, `clean`'s result."""

    def __init__(self, id: str | None, rewritten: list[str], removed: list[str], cleaned: dict[str, Any]) -> None:
        self.id = id
        self.rewritten = rewritten
        self.removed = removed
        self.cleaned = cleaned


def plan_redaction(
    log: Log, name: str, fields: Iterable[str], reason: str | None, check_event: Callable[[Any], list[str]]
) -> RedactionPlan:
    """Plan the redaction of one event of a log; raises UsageFailed for what cannot be redacted."""
    reason = mask_text(reason) if reason else reason  # it is compared with a recorded one
    wanted = sorted(set(fields))
    (recorded,) = _read(log, name)
    event: dict[str, Any] = dict(recorded["event"])
    kind, session_id = event.pop("type"), event.pop("session_id", None)
    _check_kind(kind, recorded["version"], wanted)
    found = effective_redactions(log.connection)
    # A redaction that waits for a missing event removes nothing, and one that replaced it would wait as well.
    known = {
        target: [one for one in several if one.id not in found.missing] for target, several in found.by_event.items()
    }
    last = {target: several for target, several in known.items() if several}
    if kind == "event_redacted":
        ours = next((one for several in last.values() for one in several if one.id == name), None)
        return _plan_of_reason(log, reason, ours, last) if ours else RedactionPlan(name, kind, ["reason"], None, set())
    several = last.get(name, [])
    if len(several) == 1 and several[0].covers(wanted):
        if reason is not None and reason != several[0].reason:
            return _plan_of_reason(log, reason, several[0], last)
        return RedactionPlan(name, kind, several[0].fields, None, set())
    all_whole = not wanted or any([not one.fields for one in several])
    before = {*united_remains(kind, several)[0], *[field for one in several for field in one.fields]}
    names = [] if all_whole else sorted({*wanted, *before})
    _check_fields(event, wanted)
    # A closed word that redactions contradict each other about is its least one already.
    left = redact_fields(event, [*wanted, *(before - least_words(kind).keys())])[0]
    left = left if wanted else redact_all(left)
    remains = {**left, "type": kind} | ({"session_id": session_id} if session_id is not None else {})
    problems = check_event(remains)
    if problems and not recorded.get("redacted"):  # of a payload that is gone nothing else can be said
        raise UsageFailed(
            f"a {kind} must keep its value there: {'; '.join(problems)}",
            hint="redact other fields, or the whole payload: then such words stay, which reveal nothing about anybody",
        )
    texts = texts_of(event) - texts_of(left)
    shared = shared_word(reason, texts) if reason else None
    if shared is not None:
        raise UsageFailed(
            f"the reason holds what is redacted, and would keep it: {shared!r:.80}", hint="word the reason without it"
        )
    past = [*several, *found.disproved.get(name, [])]  # their texts need not stay either
    return RedactionPlan(name, kind, names, _redaction(name, kind, names, left, past, reason), texts)


def _redaction(
    name: str, kind: str, fields: list[str], left: dict[str, Any], several: list[Redaction], reason: str | None
) -> EventRedacted:
    """Return the redaction that replaces several of one event, and those that they replaced.

    It replaces only those that it can have been made from.
    """
    past = {past for one in several for past in (one.id, *one.supersedes)}
    made: EventRedacted = {
        "type": "event_redacted",
        "event_id": name,
        "fields": fields,
        "remains": clean(left),
        "supersedes": sorted(past),
        "reason": reason,
    }
    whole = Redaction("", dict(made))
    past = {past for one in several if replaces(whole, one, kind) for past in (one.id, *one.supersedes)}
    return {**made, "supersedes": sorted(past)}


def _plan_of_reason(log: Log, reason: str | None, ours: Redaction, last: dict[str, list[Redaction]]) -> RedactionPlan:
    """Plan a new redaction that replaces one, without its reason or with another."""
    kind, old, several = "event_redacted", ours.reason or "", last[ours.target]
    if ours.reason == reason:
        return RedactionPlan(ours.id, kind, ["reason"], None, set())
    if reason and old and old in reason:
        raise UsageFailed("the reason holds the one that is redacted", hint="word it without what must not stay")
    target = next((one["event"]["type"] for one in _read(log, ours.target)), "")
    fields, left = (ours.fields, ours.remains) if len(several) == 1 else united_remains(target, several)
    redaction = _redaction(ours.target, target, fields, left, several, reason)
    return RedactionPlan(ours.id, kind, ["reason"], redaction, {old} - {""})


def _read(log: Log, name: str) -> list[Any]:
    from faber_ledger.ledger.row import READ

    return [log.decode(row) for row in log.connection.execute(f"{READ} WHERE id = ?", (name,))]


def _check_kind(kind: str, version: int, wanted: list[str]) -> None:
    if kind == "event_redacted" and not {*wanted} <= {"reason"}:
        raise UsageFailed(
            "an event_redacted says what may stay of another event, and only its reason can be redacted",
            hint="leave out --field, or redact more of that other event: its new redaction replaces this one",
        )
    if not is_known(kind, version):
        raise UsageFailed(
            f"this program does not know the shape {kind}, version {version}, and cannot say what may stay of it",
            hint="upgrade faber-ledger on this machine, then run the command again",
        )
    if kind == "run_adopted" and (not wanted or WHOLE_BLOCKS & {*wanted}):
        raise UsageFailed(
            "the run's sessions are counted from the blocks of a run_adopted, which cannot be redacted as a whole",
            hint="name a part of them, as in `--field blocks.sessions.session_history.0.environment.hostname`",
        )


def _check_fields(event: dict[str, Any], wanted: list[str]) -> None:
    for field in wanted:
        if field.split(".")[0] in ENVELOPE:
            raise UsageFailed(
                f"{field} is in the event's envelope, which its hash covers and every reader orders by:"
                " it cannot be redacted",
                hint="name a field of its payload; `faber-ledger show EVENT --json` shows them",
            )
        if redact_fields(event, [field])[1]:
            known = list_paths(event)
            near = difflib.get_close_matches(field, known, n=4, cutoff=0.4) or known[:8]
            raise NotFound(
                f"the event has no field {field}; near it are: {', '.join(near)}",
                hint="`faber-ledger show EVENT --json` shows its fields; join them with dots",
            )


def runs_in_work_trees(run: Run) -> list[Run]:
    """Return the run in this work tree and in the clone's other work trees that have it."""
    return [run, *runs_in_other_work_trees(run)]


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
    """Redact a payload in the run's files here, in its mirror and in the other work trees, and remove older copies.

    Waiting deliveries are recorded first: they may hold the texts, and as events they can be named and redacted. Then
    everything that could stop the redaction halfway is checked, before anything more is written. `make_plan` is called
    under the lock, and `clean` with its plan while the texts are still known. Raises what they, `RunLock`, `Log.open`
    and `read_state` raise.
    """
    runs = runs_in_work_trees(run)
    for one in runs:
        record_before_projecting(one, at, warn=warn)
    kept = kept_run(run.root, run.run_id)  # another work tree, which lacks the run, may be recording on it
    with ExitStack() as stack:
        for path in sorted({one.lock_path for one in [*runs, *([kept] if kept else [])]}):
            stack.enter_context(RunLock(path))
        for one in runs:
            _check_ready(one)
        recorded, rewritten, removed = None, [], []
        cleaned: dict[str, Any] = {}
        for one in runs:
            # What a forged redaction removed comes back first, and is then redacted properly.
            with open_log(one, warn, compare=True) as opened:
                if one is run:
                    _check_mirror(run, opened)
                    plan = make_plan(opened.log)
                    cleaned = clean(opened.log, plan)
                    recorded = _append(opened, plan, at, writer, client)
                if not opened.log.heads():
                    continue
                found = effective_redactions(*opened.copies)
                applied = found.by_event.get(plan.event["event_id"] if plan.event else plan.target, [])
                note_accepted(run, {other.id for other in applied})
                opened.rewrite(found.gone, strict=True)
                forget_kept(run, {name for other in applied for name in other.names})
                try:
                    state_write.project_blocks(one, opened, fold(opened.log.stream()), warn=warn)
                except StateMissing:
                    pass  # there is nothing to write the blocks into
                rewritten.append(one.ledger_path)
                removed += remove_old_copies(one, opened.log, warn)
    mirror = mirror_path(run)
    return RedactionResult(recorded, [*rewritten, *([mirror] if mirror else [])], removed, cleaned)


def accept_redactions(
    run: Run, chosen: str | None, warn: Callable[[str], None]
) -> tuple[list[tuple[Redaction, Row]], bool]:
    """Accept redactions from elsewhere: those that `chosen` names or that remove its payload; None for all.

    Return each with an event that it took out, and whether the log has changed, since what a pull has just brought is
    applied first. Raises NotFound if none waits by that name, and what `RunLock` and `open_log` raise.
    """
    with RunLock(run.lock_path), open_log(run, warn) as opened:
        opened.commit()
        opened.begin()  # other work trees write the mirror, and what is kept beside it, under its lock
        waiting = find_waiting(run, opened.log)
        accepted = [(one, row) for one, row in waiting if chosen in (None, one.id, one.target, row[ID])]
        if not accepted and chosen is not None:
            raise NotFound(
                f"no redaction from elsewhere waits for {chosen}",
                hint=f"run `faber-ledger redact --accept {run.run_id}` to see those that wait",
            )
        note_accepted(run, {one.id for one, _ in accepted})
        forget_kept(run, {row[ID] for _, row in accepted})
        if accepted:
            remove_old_copies(run, opened.log, warn)
        opened.commit()
        return accepted, opened.redacted or opened.returned > 0


def _append(opened: RunLog, plan: RedactionPlan, at: float, writer: str, client: str | None) -> str | None:
    if plan.event is None:
        return None
    with opened.log.writing():
        (recorded,) = opened.log.append([{"event": plan.event, "client": client}], at=at, writer=writer)
    return recorded["id"]


def _check_ready(run: Run) -> None:
    """Check what could stop a redaction halfway: a broken ledger or state in a work tree."""
    has_journal = os.path.lexists(run.journal_path)
    is_there = os.path.lexists(run.ledger_path) and os.path.getsize(run.ledger_path) > 0
    if is_there and not has_journal and not is_sound(run.ledger_path):
        from faber_ledger.runs.quarantine import is_quarantine_due

        due = is_quarantine_due(run)
        raise IntegrityError(
            f"{run.ledger_path} {'has refused events' if due else 'is damaged'}, and nothing was changed",
            hint=f"run `faber-ledger {'quarantine' if due else 'verify'} {run.run_id}` in {run.root}"
            + (", then run the command again" if due else ", and repair it first"),
        )
    try:
        state_file.read_state(run)
    except StateMissing:
        pass  # then there is nothing to remove from it


def _check_mirror(run: Run, opened: RunLog) -> None:
    path = mirror_with_events(run)
    if path is not None and opened.mirror.log is None:
        raise Locked(
            f"this run's mirror {path} cannot be written, and would keep the payload: nothing was changed",
            hint="run the command again when no other process uses it",
        )


LONG_WORD = 6  # letters: a shorter word is a part of many others
WORD = re.compile(r"\w+")
# Reasons use these words, and they reveal nothing.
COMMON_WORDS = frozenset(
    [
        "account",
        "address",
        "customer",
        "customers",
        "delete",
        "deleted",
        "detail",
        "details",
        "directory",
        "employee",
        "folder",
        "hostname",
        "internal",
        "leaked",
        "machine",
        "machines",
        "message",
        "mistake",
        "number",
        "passphrase",
        "password",
        "passwords",
        "people",
        "person",
        "personal",
        "private",
        "project",
        "redact",
        "redacted",
        "remove",
        "removed",
        "repository",
        "secret",
        "secrets",
        "sensitive",
        "server",
        "session",
        "should",
        "string",
        "summary",
        "username",
    ]
)


def shared_word(reason: str, texts: Iterable[str]) -> str | None:
    """Return what a reason shares with the redacted texts: a text, or a word of one; None if nothing.

    A word of six letters or more also counts as a part of a longer word, in any case: even a part of a password is too
    much. A shorter text, such as the host name `vm`, counts only as a word of its own. Words that reasons often have,
    such as `password`, may be in both.
    """
    said = reason.casefold()
    words = _long_words(said)
    for text in sorted(texts):
        gone = text.casefold()
        if len(gone) < LONG_WORD:
            if gone.strip() and re.search(rf"(?<!\w){re.escape(gone)}(?!\w)", said):
                return text
        elif gone in said:
            return text
        else:
            for word in sorted(_long_words(gone)):
                if word in said:
                    return word
            for word in sorted(words):
                if word in gone:
                    return word
    return None


def _long_words(text: str) -> set[str]:
    return {word for word in WORD.findall(text) if len(word) >= LONG_WORD} - COMMON_WORDS
