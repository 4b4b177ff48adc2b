"""What a check finds, and what `--fix` does about it: each change once, the files copied before."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.cli.ui.changes import diff_lines, display_path
from faber_ledger.files.change import FileChange, make_changes
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.clone import make_below
from faber_ledger.runs.old_copies import doctor_folder
from faber_ledger.runs.set_aside import copy_private, free_name

Warn = Callable[[str], None]
Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error")
MOST = 10


class Fix(NamedTuple):
    """A change that fixes findings: its name (one change may fix several), what it does and how.

    `touches` are the files that are copied before; `diff` returns what a dry run shows.
    """

    name: str
    what: str
    touches: tuple[str, ...]
    make: Callable[[Warn], object]
    diff: Callable[[], Iterable[str]] = tuple


class Finding(NamedTuple):
    """One thing that a check found: somebody has to do something about it, or to decide that nothing is to be done."""

    level: Level
    what: str
    hint: str = ""
    fix: Fix | None = None


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings and a count of the others by level: hundreds of runs may have the same fault.

    A finding that `--fix` can fix is always returned.
    """
    left: dict[Level, int] = {}
    for number, finding in enumerate(findings):
        if number < MOST or finding.fix is not None:
            yield finding
        else:
            left[finding.level] = left.get(finding.level, 0) + 1
    for level, count in left.items():
        yield Finding(level, f"… and {count} more like these", "fix those above, then run `faber-ledger doctor` again")


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level among findings; `ok` for none."""
    return max([finding.level for finding in findings], key=LEVELS.index, default="ok")


def file_fix(root: str, plan: Callable[[], FileChange], what: str) -> Fix:
    """Return a fix that changes one file; `plan` is called again when it is made, as another may come first."""
    change = plan()
    return Fix(
        f"file {change.path}",
        f"{what} in {display_path(change.path, root)}",
        (change.path,),
        lambda _: make_changes([plan()]),
        lambda: diff_lines([plan()], root),
    )


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
        except (LedgerError, OSError, sqlite3.Error) as error:
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
    make_below(root, os.path.dirname(copy))
    copy_private(path, copy)
    return copy
