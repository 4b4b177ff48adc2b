"""Which file system a file lies on, where the system tells: on a network's, locks and syncs are promises of others."""

from __future__ import annotations

import os

MOUNTS = "/proc/self/mountinfo"
# Those of a network, and those that a host passes through to its guest.
NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "afs", "ceph", "coda", "davfs", "glusterfs", "lustre"),
    *("gpfs", "beegfs", "ncpfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"),
    *("fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.davfs2", "fuse.juicefs", "fuse.grpcfuse"),
    *("fuse.vmhgfs-fuse", "fuse.smbnetfs", "fuse.nfs"),
)


def file_system(device: int, mounts: str = MOUNTS) -> str | None:
    """Give the kind of the file system that is mounted under a device number; None if it is unknown."""
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


def network_file_system(device: int, mounts: str = MOUNTS) -> str | None:
    """Give the network file system that is mounted under a device number; None for a local one, and if unknown."""
    kind = file_system(device, mounts)
    return kind if kind in NETWORK else None
