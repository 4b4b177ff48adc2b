"""Git's cache of ledgers as text: notes that git writes with each version of a ledger that it shows.

`init` switches it on (`diff.faber-ledger.cachetextconv`). It is one ref of the clone, and a push takes it along only if
it names it, or with `--mirror`. The notes hold payloads, also those that were redacted later.
"""

from __future__ import annotations

from faber_ledger.runs.git_command import git, run_git
from faber_ledger.runs.run import common_directory

TEXT_CACHE = "refs/notes/textconv/faber-ledger"


def has_text_cache(root: str) -> bool:
    """Return whether this clone has such a cache."""
    if common_directory(root) is None:
        return False
    return run_git("show-ref", "--verify", "--quiet", TEXT_CACHE, at=root).returncode == 0


def has_cached_text(root: str, blob: str) -> bool:
    """Return whether the cache has the text of a ledger's version, given by its object's id."""
    return has_text_cache(root) and run_git("notes", f"--ref={TEXT_CACHE}", "list", blob, at=root).returncode == 0


def remove_text_cache(root: str) -> bool:
    """Remove the cache, and return whether there was one; raises GitFailed. The next `git log -p` makes a new one."""
    if not has_text_cache(root):
        return False
    git("update-ref", "-d", TEXT_CACHE, at=root)
    return True
