"""How the runs' ledgers travel: what keeps them in this clone."""

from __future__ import annotations

from collections.abc import Iterator

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.cli.worktrees.git import run_git
from faber_ledger.runs.carry import carries_refs, consent_of
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.log import has_log
from faber_ledger.runs.sent import Sent


def check_carry(patient: Patient) -> Iterator[Finding]:
    """Look for ledgers that are meant to travel in git refs, and do not."""
    if not patient.has_git or not carries_refs(patient.root):
        return
    consent = consent_of(patient.root)
    if consent is None:
        what = "this project's ledgers travel in git refs, and this clone sends and fetches none"
        yield Finding("warning", what, "run `faber-ledger init --carry refs` to let it")
        return
    if run_git("remote", "get-url", consent.remote, at=patient.root).returncode:
        what = f"the remote {consent.remote}, to which this clone sends its ledgers, does not exist"
        yield Finding("error", what, "run `faber-ledger init --carry refs --remote NAME`")
        return
    for run in runs_here(patient.root):
        sent = Sent(run)
        if sent.problem and has_log(run):
            yield Finding("warning", f"{run.run_id} was not sent: {sent.problem}", "run `faber-ledger sync`")
    listed = run_git("ls-files", "--", ".fractary/**/ledger.db", ".fractary/**/ledger-*.db", at=patient.root).stdout
    if listed:
        what = f"git tracks {len(listed.splitlines())} ledger files, which travel in refs"
        yield Finding("warning", what, "run `faber-ledger init --carry refs`, and commit")
