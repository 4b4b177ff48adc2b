"""The machine: the file systems that the ledger is on, and the versions of what reads it."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger import __version__
from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.files.folders import NETWORK, file_system

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


OLDEST_SQLITE = (3, 37, 0)


def file_system_is_local(patient: Patient) -> Iterator[Finding]:
    """Look for a network file system, or one shared with a virtual machine, under project, runs and git directory."""
    devices: dict[int, str] = {}
    runs = [run.directory for run in patient.runs]
    for path in (patient.root, *runs, *([patient.common] if patient.common else [])):
        try:
            devices.setdefault(os.stat(path).st_dev, path)
        except OSError:
            continue  # removed a moment ago
    kinds = []
    for device, path in devices.items():
        kind = file_system(device, patient.mounts)
        if kind in NETWORK:
            what = f"{path} is on a network file system ({kind}): its locks and syncs may not hold"
            hint = "keep the clone on a local disk, and use git to share it"
            yield Finding("warning", what, hint)
        else:
            kinds.append(kind)
    if len(kinds) == len(devices):
        names = " and ".join(dict.fromkeys([kind for kind in kinds if kind is not None]))
        yield Finding("ok", f"the file system is {names}" if names else "the file system is unknown")


def file_system_can_be_written(patient: Patient) -> Iterator[Finding]:
    """Check that the file system is writable and not full."""
    if not hasattr(os, "statvfs"):
        return
    status = os.statvfs(patient.root)
    if status.f_flag & os.ST_RDONLY:
        yield Finding("error", "the file system is mounted read-only: nothing is recorded", "mount it for writing")
    left = status.f_bavail * status.f_frsize
    if status.f_blocks and left < 50 * 1024 * 1024:
        yield Finding("warning", f"the file system has {left // (1024 * 1024)} MB left", "free space on the disk")


def versions_are_known(patient: Patient) -> Iterator[Finding]:
    """Report the versions that a bug report needs, and look for a SQLite library that is too old."""
    library = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        yield Finding(
            "warning", f"the SQLite library is {library}, but the oldest tested one is 3.37", "update Python's SQLite"
        )
    yield Finding("ok", f"faber-ledger {__version__}, Python {platform.python_version()}, SQLite {library}")
