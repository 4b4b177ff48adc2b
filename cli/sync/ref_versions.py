"""The versions of a run's ledger in its git refs, here and at the remote: evidence for `verify --git`.

A ref reaches a payload if any commit of its history has a ledger with it. A host may keep objects
that no ref reaches now, for a time that only it knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.sync.refs import FETCHED, LEDGER, SENT, list_commits, read, ref_name
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.encoding import PAYLOAD
from faber_ledger.ledger.union import rows_in_file
from faber_ledger.ledger.verify import LogProblem
from faber_ledger.runs.git_command import git, limit_answers
from faber_ledger.runs.run import Run
from faber_ledger.runs.sent import Sent

SECONDS = 10.0  # for the remote's answer
Compare = Callable[[str, str, str], "set[str] | None"]
HOST = "change the secret: those who host a ref may keep objects that nothing reaches"


def refs_here(top: str, name: str) -> dict[str, str]:
    """Return this clone's refs of a run by their full names, with their objects; the one that it wrote comes first."""
    form = "--format=%(objectname) %(refname)"
    listed = os.fsdecode(git("for-each-ref", form, SENT + name, FETCHED.rstrip("/"), at=top))
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    found = {ref: commit for commit, ref in rows if ref == SENT + name or ref.endswith(f"/{name}")}
    return dict(sorted(found.items(), key=lambda one: (one[0] != SENT + name, one[0])))


def may_have_event(top: str, commit: str, name: str) -> bool:
    """Return whether a commit's ledger has an event, redacted or not; also if that ledger cannot be read."""
    return any([rows is None or rows for rows in _rows_of(top, [commit], name)])


def reaches_payload(top: str, tip: str, name: str) -> bool:
    """Return whether a ledger in a tip's history has the payload of an event."""
    return any([row[PAYLOAD] is not None for rows in _rows_of(top, list_commits(top, tip), name) for row in rows or ()])


def _rows_of(top: str, commits: list[str], name: str) -> list[list[tuple[Any, ...]] | None]:
    """Return an event's rows in each commit's ledger; None where a ledger cannot be read."""
    with read(top, commits) as versions:
        return [rows_in_file(one.files.get(LEDGER, "") if one is not None else "", [name]) for one in versions]


class RemoteHeads:
    """What the remote of a clone says of its refs: `heads` are their commits, None if it was not asked or is silent."""

    def __init__(self, root: str) -> None:
        """Ask the remote, if this clone exchanges its ledgers with one."""
        self.name = ""
        self.heads: dict[str, str] | None = None
        self.problem: LogProblem | None = None
        remote = remote_of(root, is_quiet=True)
        if remote is None:
            return
        self.name = remote.name
        try:
            with limit_answers(SECONDS):
                self.heads = remote.heads()
        except GitFailed as error:
            what = f"{remote.name} does not answer, so what its refs reach is not known: {error.message}"
            hint = error.hint or "run the command again"
            self.problem = LogProblem("remote_silent", None, what, hint, is_note=True)


class RefVersions:
    """The versions in a run's refs: `checked` names those that were read, `findings` is what they show.

    `compare` compares a version's file with the log: it takes a text for the version, the path, and what an event is
    called that the log lacks; it returns the events whose payload the version has although it is `gone`, None for a
    version that cannot be read.
    """

    def __init__(self, run: Run, top: str, gone: Collection[str], compare: Compare) -> None:
        self.run = run
        self.top = top
        self.checked: list[str] = []
        self.findings: list[LogProblem] = []
        self._gone = gone
        self._compare = compare
        self._held: dict[str, set[str]] = {}  # of each commit that was read, what it has of the payloads

    def check(self, remote: RemoteHeads) -> None:
        """Compare the log with the versions in each ref, and find those that reach what is redacted."""
        name = ref_name(self.run.run_id)
        places = [(f"{ref} here", commit) for ref, commit in refs_here(self.top, name).items()]
        there = (remote.heads or {}).get(name)
        if there is not None:
            places.append((f"{SENT}{name} at {remote.name}", there))
        reaching = {}
        for where, tip in places:
            commits = list_commits(self.top, tip)
            if not commits:
                what = f"{where} has commits that are not here (at {tip[:12]}): what it reaches is not known"
                hint = f"run `faber-ledger sync {self.run.run_id}`"
                self.findings.append(LogProblem("not_absorbed", None, what, hint, is_note=True))
                continue
            self._read(where, [one for one in commits if one not in self._held])
            reaching[where] = set[str]().union(*[self._held[one] for one in commits])
        self.findings += self._reach_findings(reaching, remote, is_all=len(reaching) == len(places))

    def _read(self, where: str, commits: list[str]) -> None:
        """Read the versions that no ref before has."""
        counted = 0
        kind = "missing_event" if where.startswith(SENT) and where.endswith(" here") else "not_absorbed"
        with read(self.top, commits) as versions:
            for commit, version in zip(commits, versions, strict=True):
                found = None
                if version is not None and LEDGER in version.files:
                    found = self._compare(f"commit {commit[:12]} of {where}", version.files[LEDGER], kind)
                counted += found is not None
                self._held[commit] = found or set()
        if counted:
            beside = " beyond those" if len(self._held) > len(commits) else ""
            self.checked.append(f"{plural(counted, 'version')} in {where}{beside}")

    def _reach_findings(
        self, reaching: dict[str, set[str]], remote: RemoteHeads, *, is_all: bool
    ) -> Iterator[LogProblem]:
        if not reaching or not self._gone:
            return
        for where, held in reaching.items():
            if held:
                what = f"{where} still reaches the payload of {events_shown(len(held))} redacted by now"
                is_due = Sent(self.run).must_purge
                act = f"run `faber-ledger sync {self.run.run_id}`" if is_due else f"redact event {min(held)} again"
                hint = f"{act}, which replaces the ref where the remote allows it; {HOST}"
                yield LogProblem("unredacted_ref", None, what, hint, is_note=True)
        if is_all and not any(reaching.values()):
            places = f"here or at {remote.name}" if remote.heads is not None else "here"
            what = f"no ref {places} reaches the payload of {events_shown(len(self._gone))} redacted by now"
            yield LogProblem("purged_ref", None, what, HOST, is_note=True)
