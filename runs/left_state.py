"""The state of a run that a checkout took out of the work tree, as the commit that it left has it.

FABER commits a run when it has finished it, and checks main out: no hook of ours runs in between. What the commit says
is then newer than the copy of `state.json` that this clone keeps.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.runs import state_file
from faber_ledger.runs.clone import keep_state, read_state_copy, state_copy_path
from faber_ledger.runs.git import GitQuery, work_tree_of
from faber_ledger.runs.reflog import read_moves
from faber_ledger.runs.run import LARGEST_STATE

MOST_CHECKOUTS = 5  # since the copy was written, that are looked at, the newest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def bring_copy_up_to_date(run: Run) -> None:
    """Write the copy of a run's state from the commit that a checkout left, if the copy is older than the checkout.

    The work tree lacks the run. Our own blocks stay as the copy has them. Git is asked only where HEAD has moved since
    the copy was written; whatever cannot be read leaves the copy as it is.
    """
    tree, path = work_tree_of(run.root), state_copy_path(run)
    if tree is None or path is None:
        return
    log = os.path.join(tree.own, "logs", "HEAD")
    try:
        written = os.stat(path).st_mtime
        if os.stat(log).st_mtime <= written:
            return
        left = [move.old for move in read_moves(log) if move.is_checkout and move.at >= int(written)]
        for commit in left[:MOST_CHECKOUTS]:
            content = _read_state(run, commit)
            if content is not None:
                keep_state(run, content)
                break
        os.utime(path)
    except (LedgerError, OSError):
        return


def _read_state(run: Run, commit: str) -> bytes | None:
    """Return a run's state in a commit, with the blocks of the copy; raises LedgerError."""
    asked = ["cat-file", "blob", f"{commit}:./{run.shown(run.state_path)}"]
    committed, copy = GitQuery(asked, run.root, limit=LARGEST_STATE).answer_bytes(), read_state_copy(run)
    if committed is None or copy is None:
        return None
    blocks = blocks_of(state_file.parse_state(run, copy).value)
    return state_file.parse_state(run, committed).with_members(dict(blocks)).encode()
