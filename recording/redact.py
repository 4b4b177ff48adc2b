"""Take an event's payload, or fields of it, out of a run: out of every file of this clone that holds it."""

from __future__ import annotations

import difflib
import os
import re
from contextlib import ExitStack

from faber_ledger.ledger.canonical import clean
from faber_ledger.ledger.effective import effective_redactions, replaces
from faber_ledger.ledger.errors import IntegrityError, Locked, NotFound, StateMissing, UsageFailed
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
from faber_ledger.projections.fold import fold
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs import state_file
from faber_ledger.runs.clone import mirror_path
from faber_ledger.runs.copies import mirror_with_events, runs_in_other_work_trees
from faber_ledger.runs.mirror import RunLog, open_log
from faber_ledger.runs.old_copies import remove_old_copies
from faber_ledger.runs.recovery import is_sound
from faber_ledger.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from faber_ledger.ledger.events import EventRedacted


ENVELOPE = ("seq", "id", "type", "version", "at", "writer", "session_id", "client", "parents", "salt", "hash")


class Plan:
    """A redaction as it would be: the event and its type, `fields` (empty for the whole payload), the `texts` that go.

    `event` is what would be appended; None if there is nothing more to take out.
    """

    def __init__(self, target: str, kind: str, fields: list[str], event: EventRedacted | None, texts: set[str]) -> None:
        self.target = target
        self.kind = kind
        self.fields = fields
        self.event = event
        self.texts = texts


class Outcome:
    """What was done: the redaction's id (None: it was there before), the files written anew, and those removed."""

    def __init__(self, id: str | None, rewritten: list[str], removed: list[str]) -> None:
        self.id = id
        self.rewritten = rewritten
        self.removed = removed


def plan_of(
    log: Log, name: str, fields: Iterable[str], reason: str | None, check_event: Callable[[Any], list[str]]
) -> Plan:
    """Plan the redaction of one event of a log; raises UsageFailed for what cannot be taken out."""
    wanted = sorted(set(fields))
    (recorded,) = _read(log, name)
    event: dict[str, Any] = dict(recorded["event"])
    kind, session_id = event.pop("type"), event.pop("session_id", None)
    _check_kind(kind, recorded["version"], wanted)
    found = effective_redactions(log.connection)
    # One that waits for an event which is not there takes nothing, and whatever took its place would wait as well.
    known = {
        target: [one for one in several if one.id not in found.missing] for target, several in found.standing.items()
    }
    last = {target: several for target, several in known.items() if several}
    if kind == "event_redacted":
        ours = next((one for several in last.values() for one in several if one.id == name), None)
        return _plan_of_reason(log, reason, ours, last) if ours else Plan(name, kind, ["reason"], None, set())
    several = last.get(name, [])
    if len(several) == 1 and several[0].covers(wanted):
        if reason is not None and reason != several[0].reason:
            return _plan_of_reason(log, reason, several[0], last)
        return Plan(name, kind, several[0].fields, None, set())
    all_whole = not wanted or any([not one.fields for one in several])
    before = {*united_remains(kind, several)[0], *[field for one in several for field in one.fields]}
    names = [] if all_whole else sorted({*wanted, *before})
    _check_fields(event, wanted)
    # A closed word that redactions contradict each other about is its least one already.
    left = redact_fields(event, [*wanted, *(before - least_words(kind).keys())])[0]
    left = left if wanted else redact_all(left)
    told = {**left, "type": kind} | ({"session_id": session_id} if session_id is not None else {})
    problems = check_event(told)
    if problems:
        raise UsageFailed(
            f"a {kind} must keep what it has there: {'; '.join(problems)}",
            hint="take out other fields, or the whole payload: then such words stay, which tell nothing of anybody's",
        )
    texts = texts_of(event) - texts_of(left)
    shared = shared_word(reason, texts) if reason else None
    if shared is not None:
        raise UsageFailed(
            f"the reason holds what is taken out, and would keep it: {shared!r:.80}", hint="word the reason without it"
        )
    past = [*several, *found.disproved.get(name, [])]  # whose words need not stay either
    return Plan(name, kind, names, _redaction(name, kind, names, left, past, reason), texts)


def _redaction(
    name: str, kind: str, fields: list[str], left: dict[str, Any], several: list[Redaction], reason: str | None
) -> EventRedacted:
    """Give the redaction that takes the place of several of one event, and of what they took the place of.

    It takes the place of none that it cannot have been made from.
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


def _plan_of_reason(log: Log, reason: str | None, ours: Redaction, last: dict[str, list[Redaction]]) -> Plan:
    """Plan to take the reason out of a redaction, and to put another there: as a new one, which takes its place."""
    kind, old, several = "event_redacted", ours.reason or "", last[ours.target]
    if ours.reason == reason:
        return Plan(ours.id, kind, ["reason"], None, set())
    if reason and old and old in reason:
        raise UsageFailed("the reason holds the one that is taken out", hint="word it without what must not stay")
    target = next((one["event"]["type"] for one in _read(log, ours.target)), "")
    fields, left = (ours.fields, ours.remains) if len(several) == 1 else united_remains(target, several)
    redaction = _redaction(ours.target, target, fields, left, several, reason)
    return Plan(ours.id, kind, ["reason"], redaction, {old} - {""})


def _read(log: Log, name: str) -> list[Any]:
    from faber_ledger.ledger.row import READ

    return [log.decode(row) for row in log.connection.execute(f"{READ} WHERE id = ?", (name,))]


def _check_kind(kind: str, version: int, wanted: list[str]) -> None:
    if kind == "event_redacted" and not {*wanted} <= {"reason"}:
        raise UsageFailed(
            "an event_redacted says what may stay of another event, and only its reason can be taken out",
            hint="leave out --field, or redact more of that other event: its new redaction takes the place of this one",
        )
    if not is_known(kind, version):
        raise UsageFailed(
            f"this program does not know the shape {kind}, version {version}, and cannot say what may stay of it",
            hint="upgrade faber-ledger on this machine, then run the command again",
        )
    if kind == "run_adopted" and (not wanted or WHOLE_BLOCKS & {*wanted}):
        raise UsageFailed(
            "the blocks of a run_adopted are what the sessions of this run are counted from, and cannot go as a whole",
            hint="name what is in them, as `--field blocks.sessions.session_history.0.environment.hostname`",
        )


def _check_fields(event: dict[str, Any], wanted: list[str]) -> None:
    for field in wanted:
        if field.split(".")[0] in ENVELOPE:
            raise UsageFailed(
                f"{field} is of the event's envelope, which its hash covers and every reader orders by: it cannot go",
                hint="name a field of its payload; `faber-ledger show EVENT --json` shows them",
            )
        if redact_fields(event, [field])[1]:
            known = list_paths(event)
            near = difflib.get_close_matches(field, known, n=4, cutoff=0.4) or known[:8]
            raise NotFound(
                f"the event has no field {field}; near it are: {', '.join(near)}",
                hint="`faber-ledger show EVENT --json` shows its fields; join them with dots",
            )


def places_of(run: Run) -> list[Run]:
    """Return the run in this work tree and in the others of the clone that have it."""
    return [run, *runs_in_other_work_trees(run)]


def redact(
    run: Run,
    make_plan: Callable[[Log], Plan],
    clean: Callable[[Log, Plan], object],
    *,
    at: float,
    writer: str,
    client: str | None,
    warn: Callable[[str], None],
) -> Outcome:
    """Take the payload out of the run, here, in its mirror and in the other worktrees, and remove older copies.

    Waiting deliveries are recorded first. Then what could stop it halfway is looked at, before anything more is
    written. `make_plan` is asked under the lock; `clean` is called with its plan while the texts are still known.
    Raises what they, `RunLock`, `Log.open` and `read_state` raise.
    """
    drain_waiting(
        run, at, warn=warn
    )  # what waits may hold the texts too: as events they are named, and can be redacted
    places = places_of(run)
    with ExitStack() as stack:
        for place in sorted(places, key=lambda one: one.lock_path):
            stack.enter_context(RunLock(place.lock_path))
        for place in places:
            _check_ready(place)
        recorded, rewritten, removed = None, [], []
        for place in places:
            # What a forged redaction took out comes back first, and then goes as it should.
            with open_log(place, warn, compare=True) as opened:
                if place is run:
                    _check_mirror(run, opened)
                    plan = make_plan(opened.log)
                    clean(opened.log, plan)
                    recorded = _append(opened, plan, at, writer, client)
                if not opened.log.heads():
                    continue
                opened.rewrite(effective_redactions(*opened.copies).gone, strict=True)
                try:
                    state_file.project_blocks(place, opened, fold(opened.log.stream()), warn=warn)
                except StateMissing:
                    pass  # there is nothing to write the blocks into
                rewritten.append(place.ledger_path)
                removed += remove_old_copies(place, opened.log)
    mirror = mirror_path(run)
    return Outcome(recorded, [*rewritten, *([mirror] if mirror else [])], removed)


def _append(opened: RunLog, plan: Plan, at: float, writer: str, client: str | None) -> str | None:
    if plan.event is None:
        return None
    with opened.log.writing():
        (recorded,) = opened.log.append([{"event": plan.event, "client": client}], at=at, writer=writer)
    return recorded["id"]


def _check_ready(place: Run) -> None:
    """Look at what could stop a redaction halfway: a broken ledger or state in any of the worktrees."""
    has_journal = os.path.lexists(place.ledger_path + "-journal")
    is_there = os.path.lexists(place.ledger_path) and os.path.getsize(place.ledger_path) > 0
    if is_there and not has_journal and not is_sound(place.ledger_path):
        raise IntegrityError(
            f"{place.ledger_path} is damaged, and nothing was changed",
            hint=f"run `faber-ledger verify {place.run_id}` in {place.root}, and mend it first",
        )
    try:
        state_file.read_state(place)
    except StateMissing:
        pass  # there is nothing of it to be taken out of


def _check_mirror(run: Run, opened: RunLog) -> None:
    path = mirror_with_events(run)
    if path is not None and opened.mirror.log is None:
        raise Locked(
            f"this run's mirror {path} cannot be written, and would keep the payload: nothing was changed",
            hint="run the command again when no other process uses it",
        )


LONG = 6  # letters: a shorter word stands within many others
WORD = re.compile(r"\w+")
# Reasons are given in these, and they tell nothing of anybody's.
COMMON = frozenset(
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
    """Give what a reason has of the texts that are taken out: a whole text, or a word; None for nothing.

    Words of six letters and more are looked for in the other's words too, whatever their case: a part of a password is
    one that is too much. A shorter text, as the host name `vm`, must stand there as a word of its own. Words in which
    reasons are given, as `password`, may stand in both.
    """
    said = reason.casefold()
    words = _long_words(said)
    for text in sorted(texts):
        gone = text.casefold()
        if len(gone) < LONG:
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
    return {word for word in WORD.findall(text) if len(word) >= LONG} - COMMON
