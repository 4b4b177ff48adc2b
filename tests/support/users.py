"""Other users: what belongs to them, and the installed command as one of them.

Root really gives files away and really becomes another user. Anybody else cannot: there the command takes itself for
another user, so that the test is the same and is never skipped.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STRANGER = 4711
# Python starts as root, in whose home it may lie, and becomes the user while it can still read what it needs.
BECOME = """\
import os
if os.geteuid() == 0:
    import ctypes
    import struct
    libc = ctypes.CDLL(None)
    assert libc.prctl(8, 1, 0, 0, 0) == 0  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setresgid({user}, {user}, {user})
    os.setresuid({user}, {user}, {user})
    kept = 1 << 1  # CAP_DAC_OVERRIDE: containers withhold CAP_DAC_READ_SEARCH
    assert libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", kept, kept, 0, 0, 0, 0)) == 0
else:
    os.geteuid = lambda: {user}
"""


def become(user: int, folder: Path) -> dict[str, str]:
    """Return the environment in which a command is run by another user; `folder` is for what that takes."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(BECOME.format(user=user))
    return {"PYTHONPATH": str(folder)}


def as_root(folder: Path) -> dict[str, str]:
    """Return the environment in which a command is run by root, or takes itself for root."""
    return {} if os.geteuid() == 0 else become(0, folder)


def give_away(*paths: Path, user: int = STRANGER) -> int:
    """Give files to another user, a folder with all that is in it; return who owns them, who is not root."""
    if os.geteuid() != 0:
        return os.geteuid()
    for path in paths:
        inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
        for one in (path, *inside):
            os.chown(one, user, -1, follow_symlinks=False)
    return user
