"""What the machine brings: the file systems that the ledger lies on, and the versions of what reads it."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger import __version__
from faber_ledger.cli.checks.finding import Finding

if TYPE_CHECKING:
    from faber_ledger.cli.checks.patient import Patient

# Locks and syncs of these do not always hold, and a ledger rests on both.
NETWORK = re.compile(
    r"nfs4?|cifs|smb\w*|9p|drvfs|afs|ceph|lustre|gpfs|beegfs|ncpfs|coda|virtiofs|vboxsf|prl_fs|vmhgfs"
    r"|fuse\.(?:sshfs|rclone|s3fs|gcsfuse|glusterfs|vmhgfs-fuse|davfs|smb\w*|nfs\w*|juicefs|ceph\w*|grpcfuse)|davfs|glusterfs"
)
OLDEST_SQLITE = (3, 37, 0)


def file_system_is_local(patient: Patient) -> Iterator[Finding]:
    """Look for the project, or the git directory, on a network file system or one that is passed through to a guest."""
    try:
        with open(patient.mounts, encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file]
    except OSError:
        yield Finding("ok", "this system does not list its mounts in /proc: the file system was not looked at")
        return
    kinds: dict[str, str] = {}
    for path in dict.fromkeys([patient.root, *([patient.common] if patient.common else [])]):
        kind, at = _mounted(os.path.realpath(path), mounts)
        kinds[kind] = at
        if NETWORK.fullmatch(kind):
            told = "a folder of Windows, seen from WSL" if kind in ("9p", "drvfs") and at.startswith("/mnt/") else kind
            what = f"{path} is on a network file system ({told}, mounted at {at}): locks and syncs may not hold"
            yield Finding("warning", what, "keep the clone on a local disk, and let git carry it")
    if not any([NETWORK.fullmatch(kind) for kind in kinds]):
        yield Finding("ok", f"the file system is {' and '.join(kinds)}")


def file_system_can_be_written(patient: Patient) -> Iterator[Finding]:
    """Look for a file system that is mounted read-only, or is full."""
    if not hasattr(os, "statvfs"):
        return
    status = os.statvfs(patient.root)
    if status.f_flag & os.ST_RDONLY:
        yield Finding("error", "the file system is mounted read-only: nothing is recorded", "mount it for writing")
    left = status.f_bavail * status.f_frsize
    if status.f_blocks and left < 50 * 1024 * 1024:
        yield Finding("warning", f"the file system has {left // (1024 * 1024)} MB left", "free space on the disk")


def versions_are_known(patient: Patient) -> Iterator[Finding]:
    """Tell the versions that a report of a defect needs, and look for a SQLite library that is too old."""
    library = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        yield Finding(
            "warning", f"the SQLite library is {library}, and 3.37 is the oldest tested", "update Python's SQLite"
        )
    yield Finding("ok", f"faber-ledger {__version__}, Python {platform.python_version()}, SQLite {library}")


def _mounted(path: str, mounts: list[list[str]]) -> tuple[str, str]:
    """Give the kind of the file system that a path lies on, and where that is mounted: of the deepest the last."""
    found = ("unknown", os.sep)
    for fields in mounts:
        if len(fields) < 3:
            continue
        at = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[1])
        if (path == at or path.startswith(at.rstrip("/") + "/")) and len(at) >= len(found[1]):
            found = (fields[2], at)
    return found
