"""A folder that is found again after a rename, and the kind of file system that a path is on."""

from __future__ import annotations

import os
import sys

MOUNTS = "/proc/self/mountinfo"
# File systems of a network, and those that a host shares with its guest.
NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "afs", "ceph", "coda", "davfs", "glusterfs", "lustre"),
    *("gpfs", "beegfs", "ncpfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"),
    *("fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.davfs2", "fuse.juicefs", "fuse.grpcfuse"),
    *("fuse.vmhgfs-fuse", "fuse.smbnetfs", "fuse.nfs"),
)


def file_system(device: int, mounts: str = MOUNTS) -> str | None:
    """Return the kind of the file system with a device number; None if it is unknown."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:  # not Linux
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        fields = line.split()  # id, parent, device, root, mount point, options, more of them, "-", type, source, …
        if len(fields) > 8 and fields[2] == number:
            return fields[fields.index("-", 6) + 1]
    return None


class TrackedFolder:
    """The folder at `path`, held open until the process ends so that a rename can be followed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:
            pass  # Windows opens no folder, and renames none in which a process has a file open

    def current_path(self) -> str | None:
        """Return the folder's path now; None if it is gone or cannot be found."""
        if self._descriptor < 0:
            return self.path if os.path.isdir(self.path) else None
        held = os.fstat(self._descriptor)
        for path in (self.path, _name_of(self._descriptor)):
            if _is(path, held):
                return path
        return None


def _name_of(descriptor: int) -> str:
    """Ask the system for the name of an open folder; empty if it does not say."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _is(path: str, held: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), held)
    except OSError:
        return False
