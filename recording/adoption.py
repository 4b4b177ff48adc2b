"""Take over what other tools wrote into the two blocks: a run's whole history once, later the sessions alone."""

from __future__ import annotations

from faber_ledger.files.json_text import TOO_DEEP
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import LedgerError, StateInvalid
from faber_ledger.ledger.event_types import REDACTED
from faber_ledger.projections import fold
from faber_ledger.projections.fold import blocks_of, current_session, is_named, session_history
from faber_ledger.runs import state_file
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.state_write import digest_of, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from faber_ledger.ledger.events import Draft, Recorded, RunAdopted, SessionEnded
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks, Entry
    from faber_ledger.runs.run import Run


LONGEST_ADOPTION = 1024 * 1024  # characters; what another tool adds between two hooks is far shorter
MAX_NAMED = 3
NEVER = float("inf")


def adopt_run(run: Run, known: Blocks, at: float) -> list[Draft]:
    """Return the first events of a run that has blocks but no log; raises StateInvalid for blocks nested too deeply.

    They are the blocks themselves, and the end of each session that a later one shows to be over.
    """
    if fold.is_too_deep(known):
        hint = "flatten its sessions and context_metadata"
        raise StateInvalid(TOO_DEEP, path=run.shown(run.state_path), hint=hint)
    known = _with_plain_ids(known)
    return [{"event": _adoption(run, known)}, *_earlier_ends(known, current_session(known), at)]


def take_up_if_started_here(run: Run, content: bytes) -> None:
    """Take a run up in the clone in which another tool has started it; `content` is its state's."""
    from faber_ledger.runs.clone import note_use

    if is_started_here(run, content):
        note_use(run.root, run.run_id, is_taken_up=True)


def is_started_here(run: Run, content: bytes) -> bool:
    """Return whether another tool has started a run in this clone: its state is not what git's last commit has."""
    from faber_ledger.runs.copies import read_in_head

    return not run.is_kept and read_in_head(run, run.state_path) != content


def _with_plain_ids(known: Blocks) -> Blocks:
    """Return blocks whose session ids may be in an event: another tool's may have characters that cannot be seen."""
    current, history = current_session(known), session_history(known)
    named = [entry["session_id"] for entry in history if is_named(entry)]
    if all([_plain_id(one) == one for one in [*named, *([current] if current else [])]]):
        return known
    entries = [{**one, "session_id": _plain_id(one["session_id"])} if is_named(one) else one for one in history]
    sessions = {**known["sessions"], "session_history": entries}
    if current:
        sessions["current_session_id"] = _plain_id(current)
    plain: Blocks = {**known, "sessions": sessions}
    return plain


def _plain_id(text: str) -> str:
    if text.isascii() and text.isprintable() and len(text) <= 100:
        return text
    from faber_ledger.ledger.gate import HIDDEN, LONGEST_TEXT

    return HIDDEN.sub("\ufffd", text)[:LONGEST_TEXT]


def _adoption(run: Run, known: Blocks) -> RunAdopted:
    return {"type": "run_adopted", "run_id": run.run_id, "blocks": fold.text_of(known)}


def _earlier_ends(known: Blocks, current: str | None, at: float) -> list[Draft]:
    """Return the inferred ends of the sessions that are open beside the current one: each at the next one's start.

    The last one ends at `at`, unless no session is current: then it may still be open, and has no end.
    """
    by_id = {entry["session_id"]: entry for entry in session_history(known) if is_named(entry)}
    if current is not None and current not in by_id:
        by_id[current] = {"session_id": current, "started_at": fold.last_reload(known)}
    entries = list(by_id.values())
    following: float | None = None
    ends: list[Draft] = []
    for number, entry in reversed(list(enumerate(entries))):
        started = seconds_of(entry.get("started_at"))
        is_last_sign = current is None and number == len(entries) - 1
        if not (entry.get("ended_at") or entry["session_id"] == current or is_last_sign):
            ended = at if following is None else following
            ends.append(_inferred_end(entry, ended if started is None else max(started, ended)))
        following = started if started is not None else following
    return ends[::-1]


def _inferred_end(entry: Entry, at: float) -> Draft:
    listed = entry.get("phases_completed")
    completed = listed if isinstance(listed, list) else []
    event: SessionEnded = {
        "type": "session_ended",
        "session_id": entry["session_id"],
        "reason": "abandoned",
        "client_reason": None,
        "inferred": True,
        "phase": None,
        "step": None,
        "phases_completed": [name for name in completed if isinstance(name, str)],
    }
    return {"event": event, "at": at}


# Later


def adopt_sessions(run: Run, folded: Blocks, found: Blocks) -> list[Draft]:
    """Return the event that takes over the sessions that another tool wrote into `found`.

    It has all members of the two blocks, since it becomes the blocks where nothing was folded before it.
    """
    written = list_adoptable(folded, found)
    adopted = fold.empty()
    adopted["sessions"].update(total_sessions=len(written), session_history=written)
    event = _adoption(run, _with_plain_ids(adopted))
    return [{"event": event}] if written and len(event["blocks"]) <= LONGEST_ADOPTION else []


def list_adoptable(folded: Blocks, found: Blocks) -> list[Entry]:
    """List the entries of `found` to take over: of sessions that another tool wrote.

    `folded` are the blocks that the log gives. An entry that began during a session of this machine, or that was
    redacted, is skipped.
    """
    unknown = list_unknown(folded, found)
    if not unknown:
        return []
    spans, redacted = list(_spans_of_this_machine(folded)), _redacted_starts(folded)
    return [
        entry
        for entry in unknown
        if not (_is_within(seconds_of(entry.get("started_at")), spans) or entry.get("started_at") in redacted)
    ]


def list_unknown(folded: Blocks, found: Blocks) -> list[Entry]:
    """List the entries of `found` whose sessions the log does not know."""
    known = _session_ids(folded)
    return [
        entry
        for entry in session_history(found)
        if is_named(entry) and not {entry["session_id"], _plain_id(entry["session_id"])} & known
    ]


def _redacted_starts(folded: Blocks) -> set[str]:
    """Return when the sessions began whose id was redacted; a state that git merged may still have their entries."""
    entries = [entry for entry in session_history(folded) if is_named(entry)]
    starts = [entry.get("started_at") for entry in entries if entry["session_id"] == REDACTED]
    return {start for start in starts if isinstance(start, str)}


def describe_overwritten(run: Run, log: Log, folded: Blocks, found: Blocks) -> str | None:
    """Return what in `found` comes from no event, in one line; None if nothing does.

    Nothing does in what we wrote last, in an older projection of the log, and in git's last commit, unless that has a
    session of its own: after a merge it shows one side's events. Nor does anything where git carries the state alone:
    pulls and merges change its blocks, and the events come by an exchange.
    """
    is_ours = log.checkpoint is not None and log.checkpoint[2] == digest_of(texts_of(found)).hex()
    if is_ours or found == folded or _is_older_projection(log.stream(), found):
        return None
    is_known = _session_ids(found) <= _session_ids(folded)
    if (is_known and found == _blocks_in_head(run)) or (carries_refs(run.root) and is_tracked(run.state_path)):
        return None
    from faber_ledger.projections.difference import field_text, list_changes

    names = [field_text(path) for path, _, _ in list_changes(folded, found)]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"state.json differed from the ledger in {', '.join(names[:MAX_NAMED])}{more}: the ledger's values hold"


def _is_older_projection(events: Iterable[Recorded], found: Blocks) -> bool:
    """Return whether blocks are the fold of the log's first events, as a killed write or a checkout leaves them."""
    projector = fold.Projector(fold.empty())
    for recorded in events:
        projector.apply(recorded)
        if projector.blocks == found:
            return True
    return False


def _spans_of_this_machine(known: Blocks) -> Iterator[tuple[float, float]]:
    """Yield when the sessions of this machine began and ended."""
    from faber_ledger.runs.seen import hostname

    here = hostname()
    for entry in session_history(known):
        environment = entry.get("environment") if is_named(entry) else None
        if not (isinstance(environment, dict) and environment.get("hostname") == here):
            continue
        started, ended = seconds_of(entry.get("started_at")), seconds_of(entry.get("ended_at"))
        if started is not None:
            yield started, NEVER if ended is None else ended


def _is_within(moment: float | None, spans: list[tuple[float, float]]) -> bool:
    """Return whether a session that began at a moment began within a span; at an unknown one, while one is open."""
    if moment is None:
        return any([end == NEVER for _, end in spans])
    return any([start <= moment <= end for start, end in spans])


def _blocks_in_head(run: Run) -> Blocks | None:
    from faber_ledger.runs.copies import read_in_head

    content = read_in_head(run, run.state_path)
    try:
        return blocks_of(state_file.parse_state(run, content).value) if content is not None else None
    except LedgerError:
        return None


def _session_ids(known: Blocks) -> set[str]:
    return {entry["session_id"] for entry in session_history(known) if is_named(entry)}
