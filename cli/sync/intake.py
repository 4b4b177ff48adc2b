"""Take what the server has new of a run into its log, piece by piece; what does not enter is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.ledger.gate import shown_id
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.union import OTHER_CONTENT, hash_in
from faber_ledger.postgres.ask import absurd_answer
from faber_ledger.postgres.fetch import Fetched, count_events, fetch_pieces
from faber_ledger.postgres.project import Remote
from faber_ledger.recording.insertion import Inserted, insert_passing
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.synced import write_note

if TYPE_CHECKING:
    from faber_ledger.runs.synced import Note


Progress = Callable[[int, str], Callable[[int], object]]


DOUBLED = "the server has answered with two events of its id"
WITHOUT_PAYLOAD = "it has no payload"
UNEXPLAINED = "and no redaction says so"


class Taken(NamedTuple):
    """What a run's log took of the server's events.

    `left_out`: by id, why one did not enter or not whole; `conflicts`: the ids of those of which the log has another
    content. Ids are in the form in which they may be shown.
    """

    added: int
    left_out: dict[str, str]
    conflicts: list[str]


def take_new(remote: Remote, run: Run, note: Note, warn: Callable[[str], None], progress: Progress) -> Taken:
    """Insert what the server has new into the run's log; the note, which is changed, is written after each piece.

    `progress` is called with the number of events and what is done with them, and returns what takes those done.
    Raises what the server and `insert_passing` raise.
    """
    server, project = remote.server, remote.project
    count = count_events(server, project, run.run_id, note["position"])
    if not count and not note["again"]:
        return Taken(0, {}, [])
    advance = progress(2 * count, f"fetching {run.run_id}")  # each event is fetched, then inserted
    before: Note = {**note}
    intake = _Intake(remote, run, note, warn)
    # With the first events, all clones decide alike which of several are the run's.
    for piece in fetch_pieces(server, project, run.run_id, note["position"], intake.unanswered, advance):
        with closing(piece):
            count -= piece.new_count
            intake.take(piece)
            advance(piece.new_count)
    if count > 0:
        note.update({"position": before["position"], "again": before["again"], "roots": before["roots"]})
        write_note(run.root, remote.key, run.run_id, note)
        raise absurd_answer("events_after", "fewer events than it has counted")
    if intake.unanswered:  # of an event that it had before, the server lied, then or now: all is asked again
        note.update({"position": 0, "again": [], "roots": []})
        everything = take_new(remote, run, note, warn, progress)
        return everything._replace(added=intake.added + everything.added)
    again = {*map(shown_id, note["again"])}
    return Taken(
        intake.added, {name: why for name, why in intake.left_out.items() if name in again}, sorted(intake.conflicts)
    )


class _Intake:
    """One fetch of a run, as far as it has come; what does not enter, or not whole, stays in the note to ask again.

    `unanswered`: the ids of events that were asked for by name and are in no piece yet.
    """

    def __init__(self, remote: Remote, run: Run, note: Note, warn: Callable[[str], None]) -> None:
        self._remote, self._run, self._note, self._warn = remote, run, note, warn
        self._named = {*note["again"]}
        self._bare: set[str] = set()  # those that are in the log without their payloads
        self.unanswered = {*note["again"], *note["roots"]}
        self.added = 0
        self.left_out: dict[str, str] = {}
        self.conflicts: set[str] = set()

    def take(self, piece: Fetched) -> None:
        """Insert a piece, which is changed, into the log, and write the note."""
        note = self._note
        if not note["is_due"]:
            note["is_due"] = True
            self._write_note()
        absent = {name for name in note["again"] if name not in self._bare and hash_in(piece.log, name) is None}
        self.unanswered = {name for name in self.unanswered if hash_in(piece.log, name) is None}
        found = insert_passing(self._run, piece.log, piece.first_ids, self._warn)  # takes other runs' events out of it
        self.added += found.added
        self.conflicts.update([shown_id(one.id) for one in found.conflicts])
        self._explain(piece, found)
        refused = {one.id for one in found.refused}
        note["again"] = sorted(absent | piece.doubled | refused | self._bare)
        note["roots"] = [*dict.fromkeys([*note["roots"], *piece.first_ids])]
        if piece.last is not None and piece.last[0] > note["position"]:
            note["position"], note["anchor"] = piece.last[0], piece.last
        self._write_note()

    def _explain(self, piece: Fetched, found: Inserted) -> None:
        """Note why each event of a piece that did not enter, or not whole, did not."""
        why = dict(found.dropped)
        self._bare = _find_bare(self._run, {*self._named, *self._bare, *piece.bare, *why})
        for one in found.refused:
            if one.why != OTHER_CONTENT:
                self.left_out[shown_id(one.id)] = one.why
        self.left_out |= dict.fromkeys(piece.doubled, DOUBLED)
        for name in self._bare:
            detail = f": {why[name]}" if name in why else f", {UNEXPLAINED}"
            self.left_out[name] = WITHOUT_PAYLOAD + detail

    def _write_note(self) -> None:
        write_note(self._run.root, self._remote.key, self._run.run_id, self._note)


def _find_bare(run: Run, names: set[str]) -> set[str]:
    """Return those of these events that are in a run's log without their payloads, though no redaction says so."""
    if not names or lacks_ledger(run):
        return set()
    with read_log(run) as log:
        question = "SELECT 1 FROM event WHERE id = ? AND payload IS NULL"
        missing = {name for name in names if log.connection.execute(question, (name,)).fetchone()}
        return missing and missing - effective_redactions(log.connection).keys()
