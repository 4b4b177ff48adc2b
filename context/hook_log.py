"""The log of the hooks' failures: bounded, one line each, and only in a project that has `.fractary`."""

from __future__ import annotations

import os

from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.ledger.clock import utc_text
from faber_ledger.runs.run import HOOK_LOG

LIMIT = 256 * 1024


def log_line(root: str, at: float, hook: str, message: str) -> None:
    """Append one line (time, hook, what happened); a full log becomes `hooks.log.1`. Never raises."""
    if not os.path.isdir(os.path.join(root, ".fractary")):
        return
    path = os.path.join(root, *HOOK_LOG.split("/"))
    line = f"{utc_text(at)} {hook} {message}"
    line = "".join([letter if letter.isprintable() else "\ufffd" for letter in without_surrogates(line)[:2000]])
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.realpath(os.path.dirname(path)).startswith(os.path.join(os.path.realpath(root), "")):
            return  # the folder is a link that came with the repository and leads out of it
        if os.path.exists(path) and os.path.getsize(path) > LIMIT:
            os.replace(path, path + ".1")
        # No link is followed and no pipe waited for: the file may have come with the repository.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(os.open(path, flags, 0o666), "a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
    except OSError:
        pass  # there is nobody left to tell: a hook prints nothing and exits 0
