"""Exchange a run's state.json with the server, as a version control system would.

One that has not changed here since it was exchanged gives way to a document that includes it. One that has changed is
pushed, and supersedes the documents that it includes; the others stay beside it, and the user chooses. One that was
exchanged before, and that git has put back, has not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.clock import event_id, now, utc_text
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.postgres.documents import (
    LARGEST,
    Document,
    NewDocument,
    choose_newest,
    fetch_content,
    find_included,
    push_document,
)
from faber_ledger.postgres.standing import Basis, Standing, choose_heads, compare, find_latest
from faber_ledger.recording.state_document import (
    content_of,
    digest_of,
    is_later,
    known_heads,
    make_content,
    replace_content,
    take_content,
)
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import LARGEST_STATE, Run
from faber_ledger.runs.state_file import parse_state
from faber_ledger.runs.synced import is_earlier, note_digest, read_state_note, write_state_note

if TYPE_CHECKING:
    from faber_ledger.postgres.documents import NotPushed
    from faber_ledger.postgres.project import Remote
    from faber_ledger.runs.synced import StateNote

    Moved = Literal["fetched", "pushed"]

NOT_PUSHED: dict[NotPushed, str] = {
    "behind": "the server has a redaction that is not fetched",
    "overtaken": "another one has just arrived on the server",
}


class Before(NamedTuple):
    """What was known before events were exchanged.

    `documents` are those of the server: all that they name has arrived here once events are fetched. `heads` are the
    log's, and `had` those of the log whose events the server had.
    """

    documents: list[Document]
    heads: frozenset[bytes]
    had: frozenset[bytes]


def exchange_state(
    remote: Remote, run: Run, before: Before, *, fetches: bool, pushes: bool, warn: Callable[[str], None]
) -> Moved | NotPushed | None:
    """Fetch or push a run's state after its events; return which was done, or why it was not pushed.

    A state that is broken or too large is left out with a warning, here and on the server. Raises as the server does.
    """
    note = read_state_note(run.root, remote.key, run.run_id)
    with read_log(run) as log:
        exchange = _Exchange(remote, run, before, note, log, fetches, warn)
        if os.path.lexists(run.state_path):
            moved = exchange.exchange(pushes=pushes)
        else:
            moved = exchange.fetch_missing() if fetches and not run.is_kept else None
        if fetches:
            note["seen"] = sorted([digest.hex() for _, digest in log.heads()])
    if note != read_state_note(run.root, remote.key, run.run_id):
        write_state_note(run.root, remote.key, run.run_id, note)
    return moved


class _Exchange(NamedTuple):
    """One exchange of a run's state; `note` is changed as it goes on, and `fetches` whether events were fetched."""

    remote: Remote
    run: Run
    before: Before
    note: StateNote
    log: Log
    fetches: bool
    warn: Callable[[str], None]

    def fetch_missing(self) -> Moved | None:
        """Write a missing state from the newest document; of several that are apart from each other none is taken."""
        run = self.run
        newest = choose_newest(self.before.documents, self.log)
        self.note["is_apart"] = len(newest) > 1
        if len(newest) > 1:
            self.warn(
                f"{run.run_id} has {len(newest)} states on the server that do not include each other: run"
                f" `faber-ledger run resume {run.run_id}` to choose one"
            )
        if len(newest) != 1:
            return None
        content = self._content_of(newest[0])
        try:
            digest = take_content(run, content, self.log) if content is not None else None
        except LedgerError as error:
            self.warn(f"{run.run_id} gets no state.json from the server: {error}")
            return None
        if digest is None:
            return None
        self._note_exchanged(newest[0].id, digest, newest[0].heads)
        return "fetched"

    def exchange(self, *, pushes: bool) -> Moved | NotPushed | None:
        """Exchange a state that is here."""
        run, note = self.run, self.note
        try:
            content = make_content(run) or "{}"
            digest = digest_of(content)
        except (LedgerError, ValueError, RecursionError) as error:
            self.warn(f"the state.json of {run.run_id} is not pushed: {error}")
            return None
        if self._is_put_back(content, digest):
            return self._replace_earlier(content, digest)
        event, at = known_heads(self.log, writer_of(run.root))
        own = event if at is not None else self.before.heads or event
        is_from_git = self._note_what_is_known(content, digest, own, has_recorded=at is not None)
        standing = compare(self.before.documents, self._basis(), self.log)
        successor = standing.successor
        if digest == note["digest"]:
            note["ids"] += [one.id for one in standing.included if one.id not in note["ids"]]
            note["heads"] = _hex(_heads(note), *[one.heads for one in standing.included])
            if successor is not None and self.fetches and not (run.is_kept or note["is_due"]):
                was_apart = note["is_apart"]
                moved = self._take(successor, content, digest, is_from_git=is_from_git)
                if moved is not None and was_apart:
                    backup = run.shown(run.backup_path)
                    self.warn(
                        f"another state of {run.run_id} was chosen: until the next change yours is in {backup}; to keep"
                        f" it, copy it back and run `faber-ledger run resume {run.run_id} --document here`"
                    )
                return moved
        note["is_apart"] = bool(standing.apart)
        if standing.apart:
            self._warn_of_apart(len(standing.apart))
        if not pushes or not self._is_to_push(standing, digest):
            return None
        heads = own.union(_heads(note), *[one.heads for one in standing.included])
        if standing.unknown and not self.fetches and self._is_included(heads, self.before.had):
            self.warn(f"the state.json of {run.run_id} is not pushed yet: the server has one that is not fetched")
            return None
        if len(content.encode()) > LARGEST:
            size = LARGEST // 1024 // 1024
            self.warn(f"the state.json of {run.run_id} is not pushed: it is larger than {size} MB")
            return None
        return self._push(content, digest, heads, at, standing)

    def _is_put_back(self, content: str, digest: str) -> bool:
        """Return whether the state is an earlier one that is neither the user's choice nor the server's newest."""
        if not is_earlier(self.note, digest):
            return False
        same = sha256(content.encode()).digest()
        newest = choose_newest(self.before.documents, self.log)
        return self.note["is_due"] or same not in [one.digest for one in newest]

    def _replace_earlier(self, content: str, digest: str) -> Moved | None:
        """Replace an earlier state, which git has put back, by the newest one of the server; it is never pushed."""
        run, newest = self.run, choose_newest(self.before.documents, self.log)
        latest = find_latest(newest, self._basis(), self.log)
        if run.is_kept:
            return None  # it is another work tree's
        if not self.fetches or not newest:
            others = "" if self.fetches else f"`faber-ledger sync {run.run_id}` for the newest one, or "
            self.warn(
                f"the state.json of {run.run_id} is not pushed, as it is an earlier one, such as git puts back: run"
                f" {others}`faber-ledger run resume {run.run_id} --document here` to keep it"
            )
            return None
        moved = self._take(latest[0], content, digest, is_from_git=False) if len(latest) == 1 else None
        self.note["is_apart"] = len(newest) > 1 or not latest
        if self.note["is_apart"]:
            self._warn_of_apart(len(newest) - (moved is not None))
        return moved

    def _warn_of_apart(self, count: int) -> None:
        self.warn(
            f"the state.json of {self.run.run_id} here and {count} on the server do not include each other, and all are"
            f" kept: run `faber-ledger run resume {self.run.run_id}` to choose one"
        )

    def _note_what_is_known(self, content: str, digest: str, own: frozenset[bytes], *, has_recorded: bool) -> bool:
        """Note what tells that the state was not changed here since it was exchanged; return whether git alone tells.

        The server has the same one, or it was never exchanged, and is git's in a clone that has recorded nothing.
        """
        note = self.note
        same = sha256(content.encode()).digest()
        equal = [one for one in self.before.documents if one.digest == same]
        if equal and not note["is_due"]:
            note["ids"] = [*{*note["ids"], *[one.id for one in equal]}]
            note["heads"] = _hex(_heads(note), *[one.heads for one in equal if self._is_included(one.heads, own)])
            note_digest(note, digest)
        if note["digest"] or has_recorded or self.run.is_kept or _digest_in_git(self.run) != digest:
            return False
        note["digest"], note["heads"] = digest, _hex(own)
        return True

    def _basis(self) -> Basis:
        seen = frozenset(map(bytes.fromhex, self.note["seen"]))
        return Basis(frozenset(self.note["ids"]), _heads(self.note), self.before.heads, seen)

    def _is_to_push(self, standing: Standing, digest: str) -> bool:
        """Return whether the server is to get the state: it has changed here, or the server has lost it."""
        note = self.note
        if note["is_due"]:
            return True
        if digest != note["digest"]:
            others = standing.apart or standing.unknown
            return not (others and self.run.is_kept and not note["digest"])  # it is another work tree's
        of_ours = [one for one in self.before.documents if one.id in note["ids"]]
        if of_ours:
            return all([one.digest is None for one in of_ours])  # a redaction has emptied it
        return not standing.apart and (self.fetches or not standing.unknown)

    def _take(self, successor: Document, content: str, digest: str, *, is_from_git: bool) -> Moved | None:
        """Replace the state, which has not changed here, by a document that includes it."""
        run = self.run
        new = self._content_of(successor)
        try:
            if new is None or (is_from_git and is_later(run, content, new)):
                return None
            digest_now = replace_content(run, new, self.log, digest, self.warn)
        except LedgerError as error:
            self.warn(f"{run.run_id} keeps its state.json, and does not get the server's: {error}")
            return None
        if digest_now is None:
            self.warn(f"the state.json of {run.run_id} has just changed here: run the command again")
            return None
        self._note_exchanged(successor.id, digest_now, successor.heads)
        return "fetched"

    def _push(
        self, content: str, digest: str, heads: frozenset[bytes], known_at: str | None, standing: Standing
    ) -> Moved | NotPushed:
        """Push the state; it supersedes the documents that it includes."""
        run, at = self.run, now()
        included = {one.id for one in standing.included} | {*self.note["ids"]}
        new = NewDocument(
            event_id(at, os.urandom(10)),
            content,
            choose_heads(heads, standing.apart, self.log) if standing.apart else heads,
            writer_of(run.root),
            known_at or utc_text(at),
            frozenset([one.id for one in self.before.documents if one.id in included]),
        )
        done = push_document(self.remote.server, self.remote.project, run.run_id, new, self.before.documents, self.log)
        if done is not None:
            return done
        known = _heads(self.note).union(*[one.heads for one in standing.included]) if standing.apart else heads
        self._note_exchanged(new.id, digest, known)
        self.note["is_apart"] = bool(standing.apart)
        return "pushed"

    def _content_of(self, document: Document) -> str | None:
        """Return a document's content; None after a warning if it is too large, or gone."""
        try:
            return fetch_content(self.remote.server, self.remote.project, self.run.run_id, document)
        except (ServerUnavailable, ServerRefused):
            raise
        except LedgerError as error:
            self.warn(f"{self.run.run_id} gets no state.json from the server: {error}")
            return None

    def _note_exchanged(self, name: str, digest: str, heads: frozenset[bytes]) -> None:
        self.note.update({"ids": [name], "heads": _hex(heads), "is_apart": False, "is_due": False})
        note_digest(self.note, digest)

    def _is_included(self, heads: frozenset[bytes], others: frozenset[bytes]) -> bool:
        return 0 in find_included(self.log, [heads, others])[1]


def _heads(note: StateNote) -> frozenset[bytes]:
    return frozenset(map(bytes.fromhex, note["heads"]))


def _hex(*groups: frozenset[bytes]) -> list[str]:
    return sorted({digest.hex() for group in groups for digest in group})


def _digest_in_git(run: Run) -> str | None:
    """Return the digest of the state that the commit has which is checked out; None if there is none."""
    asked = ["cat-file", "blob", f"HEAD:./{run.shown(run.state_path)}"]
    committed = GitQuery(asked, run.root, limit=LARGEST_STATE).answer_bytes()
    try:
        return digest_of(content_of(parse_state(run, committed))) if committed is not None else None
    except (LedgerError, ValueError, RecursionError):
        return None
