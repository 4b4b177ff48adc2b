"""Anchors: evidence outside a log that shows truncation or rollback, and which copy is intact."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from typing import Any

from faber_ledger.cli.reports.file_versions import list_versions
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.problems import LogProblem
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.row import HASH, ID, PAYLOAD, compute_hash
from faber_ledger.ledger.union import rows_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git_command import git, run_git, top_of
from faber_ledger.runs.layouts import places_of
from faber_ledger.runs.run import Run
from faber_ledger.runs.text_cache import TEXT_CACHE, has_cached_text

WRITER = 5
UNKNOWN = "nothing needs to be run: what it held beyond the versions that were read is not known"
COMPARED = "nothing needs to be run: what is left of them was compared"


class Anchors:
    """The anchors of one run: `checked` names those that were read, `findings` is what they show."""

    def __init__(self, run: Run) -> None:
        """Read the log's hashes; raises like `Log.read`."""
        self.run = run
        self.checked: list[str] = []
        self.findings: list[LogProblem] = []
        with Log.read(run.log_path, allow_incomplete=True) as log:
            self._hashes = dict(log.connection.execute("SELECT id, hash FROM event"))
            self._gone = {*effective_redactions(log.connection)}
        self._reported: set[str] = set()

    def check(self) -> None:
        """Compare the log with every anchor."""
        if top_of(self.run.root) is None:
            return
        self._check_versions("HEAD", "missing_event", "the history of HEAD")
        upstream = run_git("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", at=self.run.root)
        if upstream.returncode == 0:
            name = upstream.stdout.decode("utf-8", "replace").strip()
            self._check_versions("HEAD..@{upstream}", "not_pulled", f"{name}, as last fetched, beyond HEAD")

    def _check_versions(self, revisions: str, kind: str, where: str) -> None:
        # Where another layout has the run now, that is another run: this one may have been there before.
        places = [one for one in places_of(self.run.root, self.run.run_id) if not one.is_recorded()]
        there = [] if self.run.is_kept else [self.run]
        ledgers = [self.run.shown(one.ledger_path) for one in (*there, *places)]
        counted = 0
        with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
            path = os.path.join(folder, "ledger.db")
            for version in list_versions(self.run.root, revisions, *ledgers):
                with open(path, "wb") as file:
                    file.write(git("cat-file", "blob", version.blob, at=self.run.root))
                counted += self._holds(f"commit {version.commit[:12]}", path, kind, version.blob)
        versions_text = f"{counted} version{'s' * (counted != 1)} in {where}"
        if run_git("rev-parse", "--is-shallow-repository", at=self.run.root).stdout.strip() == b"true":
            versions_text += ", which this shallow clone has in part"
        self.checked.append(versions_text)

    def _holds(self, where: str, path: str, kind: str, blob: str | None = None) -> bool:
        """Find what a copy has and the log lacks; return whether the copy can be read to its end."""
        redacted, unredacted, missing = 0, set(), []
        try:
            with open_untrusted(path) as copy:
                for row in rows_of(copy):
                    redacted += row[PAYLOAD] is None and row[ID] not in self._gone
                    unredacted |= {row[ID]} if row[PAYLOAD] is not None and row[ID] in self._gone else set()
                    if self._hashes.get(row[ID]) != row[HASH]:
                        if compute_hash(row) != row[HASH]:
                            raise LedgerError(f"event {row[ID]} is not what its hash says")
                        missing.append(row)
        except (LedgerError, OSError, sqlite3.Error) as error:
            what = error.message if isinstance(error, LedgerError) else str(error)
            self._note("torn_version", f"{where} is not counted: {what.replace(path, 'its ledger')}")
            return False
        if redacted:
            self._note("redacted_version", f"{where} holds {events_shown(redacted)} without their payload", COMPARED)
        if unredacted:
            what = f"{where} still holds the payload of {events_shown(len(unredacted))} redacted by now"
            if blob is not None and has_cached_text(self.run.root, blob):
                what += f", and so does {TEXT_CACHE}, git's cache of ledgers as text"
            hint = "docs/guides/REDACTION.md shows how to rewrite history; change the secret as well"
            self._note("unredacted_version", what, hint)
        for row in missing:
            self._miss(where, row, kind)
        return True

    def _miss(self, where: str, row: tuple[Any, ...], kind: str) -> None:
        name = row[ID]
        if name in self._reported:
            return
        self._reported.add(name)
        if name in self._hashes:
            self.findings.append(
                LogProblem("changed_event", name, f"{where} has it with other content", "keep both files, and compare")
            )
        elif kind == "not_pulled" and row[WRITER] != writer_of(self.run.root):
            self._note(kind, f"event {name} of {where} is not here yet", "run `git pull`")
        else:
            hint = f"run `faber-ledger project {self.run.run_id}`; if that fails, `faber-ledger union` with that copy"
            self.findings.append(LogProblem("missing_event", name, f"{where} has it, and the log does not", hint))

    def _note(self, kind: str, what: str, hint: str = UNKNOWN) -> None:
        self.findings.append(LogProblem(kind, None, what, hint))
