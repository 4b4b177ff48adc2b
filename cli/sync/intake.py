"""Take what the server has new of a run into its log; what does not enter is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from faber_ledger.ledger.gate import shown_id
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import redactions_in
from faber_ledger.ledger.union import OTHER_CONTENT, hash_in
from faber_ledger.postgres.ask import absurd_answer
from faber_ledger.postgres.exchange import Fetched, count_events, fetch_named, fetch_new
from faber_ledger.postgres.project import ServerProject
from faber_ledger.recording.insertion import insert_passing
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.synced import SyncNote

Progress = Callable[[int, str], Callable[[int], object]]


DOUBLED = "the server has answered with two events of this id"
WITHOUT_PAYLOAD = "it has no payload"
UNEXPLAINED = "and no redaction explains that"


class Taken(NamedTuple):
    """What a run's log took of the server's events.

    `left_out`: by id, why one did not enter or not whole; `conflicts`: the ids of those of which the log has another
    content. Ids are in the form in which they may be shown.
    """

    added: int
    left_out: dict[str, str]
    conflicts: list[str]


def take_new(remote: ServerProject, run: Run, note: SyncNote, warn: Callable[[str], None], progress: Progress) -> Taken:
    """Insert what the server has new into the run's log, and write the note, which is changed.

    `progress` is called with the number of events and what is done with them, and returns what takes those done.
    Raises what the server and `insert_passing` raise.
    """
    server, project = remote.server, remote.project
    count = count_events(server, project, run.run_id, note.position)
    if not count and not note.again:
        return Taken(0, {}, [])
    advance = progress(2 * count, f"fetching {run.run_id}")  # each event is fetched, then inserted
    before = note.position, note.again, note.roots
    # With the first events, all clones decide alike which of several are the run's.
    asked = {*note.again, *note.roots}
    with closing(fetch_new(server, project, run.run_id, note.position, asked, advance)) as fetched:
        for batch in fetch_named(server, project, run.run_id, _undone_without_payload(run, fetched.log)):
            fetched.add(batch, is_repeated=True)
        count -= fetched.new_count
        is_answered = all([hash_in(fetched.log, name) is not None for name in asked])
        taken = _insert(remote, run, note, fetched, warn)
        advance(fetched.new_count)
    if count > 0:
        note.position, note.again, note.roots = before
        note.save()
        raise absurd_answer("events_after", "fewer events than it has counted")
    if not is_answered:  # of an event that it had before, the server lied, then or now: all is asked again
        note.position, note.again, note.roots = 0, (), ()
        everything = take_new(remote, run, note, warn, progress)
        return everything._replace(added=taken.added + everything.added)
    return taken


def _insert(remote: ServerProject, run: Run, note: SyncNote, fetched: Fetched, warn: Callable[[str], None]) -> Taken:
    """Insert what was fetched, which is changed, into the log; note what does not enter, or not whole, to ask again."""
    if not note.is_due:
        note.is_due = True
        note.save()
    absent = {name for name in note.again if hash_in(fetched.log, name) is None}
    first_ids = sorted(fetched.first_ids, key=fetched.first_ids.__getitem__)
    found = insert_passing(run, fetched.log, first_ids, warn)  # takes other runs' events out of it
    why = dict(found.dropped)
    bare = _find_bare(run, {*note.again, *fetched.bare, *why})
    note.again = sorted(absent | fetched.doubled | {one.id for one in found.refused} | bare)
    note.roots = [*dict.fromkeys([*note.roots, *first_ids])]
    if fetched.last is not None and fetched.last[0] > note.position:
        note.position, note.anchor = fetched.last[0], fetched.last
    note.save()
    left_out = {shown_id(one.id): one.why for one in found.refused if one.why != OTHER_CONTENT}
    left_out |= dict.fromkeys(fetched.doubled, DOUBLED)
    left_out |= {name: WITHOUT_PAYLOAD + (f": {why[name]}" if name in why else f", {UNEXPLAINED}") for name in bare}
    return Taken(found.added, left_out, sorted({shown_id(one.id) for one in found.conflicts}))


def _undone_without_payload(run: Run, fetched: Log) -> set[str]:
    """Return the events whose redaction is undone by one that was fetched, and whose payload the run's log lacks."""
    if lacks_ledger(run):
        return set()
    undone = {one.target for one in redactions_in(fetched.connection) if one.is_undo}
    with read_log(run) as log:
        return _without_payload(log, undone)


def _find_bare(run: Run, names: set[str]) -> set[str]:
    """Return those of these events that are in a run's log without their payloads, though no redaction ever said so."""
    if not names or lacks_ledger(run):
        return set()
    with read_log(run) as log:
        missing = _without_payload(log, names)
        return missing and missing - {one.target for one in redactions_in(log.connection)}


def _without_payload(log: Log, names: set[str]) -> set[str]:
    question = "SELECT 1 FROM event WHERE id = ? AND payload IS NULL"
    return {name for name in names if log.connection.execute(question, (name,)).fetchone()}
