"""`--fix`: make each change once, and copy the files before."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from faber_ledger.cli.doctor.finding import Finding, Fix, Warn
from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.ledger.aside import copy_private, free_name
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.clone import doctor_folder, make_below
from faber_ledger.runs.git import common_directory


class FixResult(NamedTuple):
    """A change that was made or failed: what it was, the copies made before it, and why it failed."""

    what: str
    copies: list[str]
    problem: str | None


def list_fixes(findings: Iterable[Finding]) -> list[Fix]:
    """Return the changes that fix what was found, each once, in the order of the findings."""
    return list({finding.fix.name: finding.fix for finding in findings if finding.fix is not None}.values())


def make_fixes(patient: Patient, fixes: list[Fix], warn: Warn) -> list[FixResult]:
    """Make the changes and return each with its result; one that fails does not stop the others."""
    folder = _folder_of_copies(patient)
    done = []
    for fix in fixes:
        copies: list[str] = []
        try:
            copies = [_copy(path, folder, patient.root) for path in fix.touches if os.path.isfile(path)]
            fix.make(warn)
            done.append(FixResult(fix.what, copies, None))
        except LedgerError as error:
            done.append(FixResult(fix.what, copies, error.message))
        except (OSError, sqlite3.Error) as error:
            done.append(FixResult(fix.what, copies, str(error)))
    return done


def _folder_of_copies(patient: Patient) -> str:
    """Return a new folder for copies: in the git directory, which commit and clean do not touch, or beside the log."""
    stamp = utc_text(patient.at).replace(":", "").replace("-", "")
    return free_name(os.path.join(doctor_folder(patient.root), stamp))


def _copy(path: str, folder: str, root: str) -> str:
    """Copy a file, readable only by its owner: settings and states may contain private data."""
    inside = os.path.relpath(path, root)
    name = os.path.join("outside", path.lstrip(os.sep)) if inside.startswith(os.pardir) else inside
    copy = os.path.join(folder, name)
    if os.path.exists(copy):
        return copy  # another change has touched the file: the first copy is the original
    make_below(common_directory(root) or root, os.path.dirname(copy))
    copy_private(path, copy)
    return copy
