"""What was last sent to the remote of a run, or fetched: one small private file a run."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import event_id, now
from faber_ledger.ledger.event_types import RECORDED_BY_LOOKS
from faber_ledger.ledger.log import Log
from faber_ledger.runs.carry import SECONDS_TO_SEND, consent_of, is_sending
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.git import branch_of, fetched_at
from faber_ledger.runs.kept import runs_with_files
from faber_ledger.runs.layouts import copy_writers, sent_path, tree_name
from faber_ledger.runs.progress import branch_name, text_of_value
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import Note, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SENT = "sent.json"
NOT_AGREED = "nothing of this run leaves this clone: `faber-ledger init --carry refs` sends it"


class SentState(Note):
    """What a work tree has in common with the remote of a run's files.

    Of a kept run that is what the work tree had that wrote its copy; of one that has exchanged nothing, what the `tree`
    had from which its files may have been moved.

    `digest` is that of the state that it last sent or took, `base` the commit that has it, and `seen` the last commit
    whose state was compared with the one here. `state` tells the file as it was when the remote had it. `metadata`,
    `metadata_base` and `metadata_file` are digest, commit and file of the metadata.json that was last exchanged.
    """

    digest: str = ""
    base: str = ""
    seen: str = ""
    state: list[int] | None = None
    metadata: str = ""
    metadata_base: str = ""
    metadata_file: list[int] | None = None

    def __init__(self, run: Run) -> None:
        writers = copy_writers(run)
        self.tree = own = (writers or [""])[0] if run.is_kept else tree_name(run)
        if not os.path.exists(sent_path(run, own)):
            there = [tree_name(one) for one in runs_with_files(run)]
            self.tree = next((one for one in writers if one not in (own, *there)), own)
        super().__init__(sent_path(run, self.tree))
        self.path = sent_path(run, own)

    def note_files(self, run: Run) -> None:
        """Note that the remote has the files of this work tree as they are now."""
        self.state, self.metadata_file = shape_of(run.state_path), shape_of(run.metadata_path)

    def has_files_of(self, run: Run) -> bool:
        """Return whether the remote has the files of this work tree as they are now."""
        return self.state == shape_of(run.state_path) and self.metadata_file == shape_of(run.metadata_path)


class Sent(Note):
    """The note of one run; without a readable one nothing was sent.

    `commit` is the one that the remote's ref had when this clone last asked or sent, empty if there was no ref. Of
    it, `heads` are those of its log if ours has all of it, `events` counts its events that are ours, `updated_at`
    is its state's, and whether that `is_completed`. `log` tells the log as it was when the remote had all of it.
    `noted_at` is when the log was read for that, `asked_at` when the remote was last asked, and `at` when this clone
    sent last, 0 if never; `problem` is why the last attempt failed, and `hint` what to run then, if that is not `sync`.
    A run that `is_forgotten` at the remote is sent by name alone. `must_purge` says that the ref's history has a
    payload that was redacted here.
    """

    remote: str = ""
    commit: str = ""
    heads: str = ""
    events: int = 0
    updated_at: str = ""
    is_completed: bool = False
    log: list[int] | None = None
    at: float = 0.0
    noted_at: float = 0.0
    asked_at: float = 0.0
    problem: str = ""
    hint: str = ""
    is_forgotten: bool = False
    must_purge: bool = False

    def __init__(self, run: Run) -> None:
        super().__init__(os.path.join(run.private_folder, SENT))
        self._run = run
        self.here = SentState(run)

    def save(self, *, durable: bool = False, is_purged: bool = False) -> None:
        """Write what is known of the run, and of its state here.

        What must be kept from the remote is durable, and raises OSError where it cannot be written. `redact` may have
        set `must_purge` meanwhile, without a lock: it stays set unless the ref `is_purged`.
        """
        self.must_purge = not is_purged and (self.must_purge or Sent(self._run).must_purge)
        super().save(durable=durable or self.must_purge or self.is_forgotten)
        self.here.save()

    def is_whole(self, run: Run, remote: str) -> bool:
        """Return whether the remote has the run as it is here, without opening the log."""
        is_there = self.remote == remote and bool(self.commit) and not self.must_purge and self.log is not None
        return is_there and self.log == shape_of(run.log_path) and self.here.has_files_of(run)

    def note_files(self, run: Run) -> None:
        """Note that the remote has the run's files as they are now."""
        self.log = shape_of(run.log_path)
        self.here.note_files(run)

    def note_shared(self, digest: str) -> None:
        """Note which state this work tree and `commit` both have."""
        self.here.digest, self.here.base, self.here.seen = digest, self.commit, self.commit


def may_lack(run: Run, state: dict[str, Any]) -> bool:
    """Return whether the remote may have more of a run: a fetch has moved its branch since the remote was asked."""
    sent, branch = Sent(run), text_of_value(branch_name(state)) or branch_of(run.root)
    if not sent.commit or branch is None or consent_of(run.root) is None:
        return False
    return fetched_at(run.root, sent.remote, branch) > sent.asked_at


def describe_unsent(run: Run, log: Log, *, is_start: bool, is_open: bool = False) -> str | None:
    """Return what of a run, whose ledger travels in git refs, was not sent; None if nothing is due.

    A start says nothing of what was recorded since the last session's end, which is sent after the next one, nor of an
    end that a background process may be sending. Nothing is due while a session `is_open` here whose end sends.
    """
    consent = consent_of(run.root)
    if consent is None:
        return NOT_AGREED
    sent = Sent(run)
    is_there = sent.remote == consent.remote
    if sent.is_forgotten:
        again = ", and sent again by another clone" if sent.commit else ""
        what = f"deleted at {consent.remote}{again}: only `faber-ledger sync {run.run_id}` sends it from here"
        return None if is_start else what
    count = log.count_events() - (sent.events if is_there else 0)
    if count <= 0 or (is_open and consent.is_automatic and not sent.problem):
        return None
    events, them = (f"{count} events", "them") if count != 1 else ("1 event", "it")
    if not (is_start or sent.problem) and log.are_newest(RECORDED_BY_LOOKS, known_writer(run.root), count):
        return None
    if is_sending(run.root):
        return None if is_start else f"{events} on the way to {consent.remote}"
    if is_start:
        is_real = "coalesce(payload, '') NOT LIKE '%\"inferred\":true%'"  # a killed client sends nothing
        ended = f"SELECT 1 FROM event WHERE type = 'session_ended' AND id > ? AND id < ? AND {is_real} LIMIT 1"
        until = now() - (SECONDS_TO_SEND if consent.is_automatic else 0.0)
        between = [event_id(at, bytes(10)) for at in (sent.noted_at, until)]
        if not sent.problem and log.connection.execute(ended, between).fetchone() is None:
            return None
    why, hint = (f" ({sent.problem})", sent.hint) if sent.problem else ("", "")
    then = f"{'once that is mended, ' if why else ''}`faber-ledger sync` sends {them}"
    return f"{events} not sent to {consent.remote}{why}: {hint or then}"
