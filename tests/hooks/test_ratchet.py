"""What hooks do may only fall: modules, calls and system calls, as `ratchet.json` has them."""

from __future__ import annotations

import shutil
import sys
import warnings

from support.ratchet import OLDEST_PYTHON, list_changes, measure, read_figures


def test_no_hook_does_more_than_before() -> None:
    """A change that has to raise a figure runs `make ratchet`; its commit says why.

    How often an opened file is asked for its size is Python's own affair, which differs by version.
    """
    found, known = measure(), read_figures()
    assert set(found) == set(known)
    rose, fell = list_changes(known, found)
    is_oldest = sys.version_info[:2] == OLDEST_PYTHON
    rose = [line for line in rose if is_oldest or "stat calls" not in line]
    assert not rose, "\n".join(rose)
    if fell and is_oldest:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # pytest shows it
            warnings.warn("\n".join(["figures fell: `make ratchet` writes the new ones", *fell]), stacklevel=1)
    assert shutil.which("strace"), "system calls were not counted: strace is not installed: `apt-get install strace`"
