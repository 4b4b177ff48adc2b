"""Where this clone keeps what no checkout touches."""

from __future__ import annotations

import os

from faber_ledger.context.git import common_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.project import Run


def mirror_path(run: Run) -> str | None:
    """Give where a run's mirror stands; None without git."""
    common = common_directory(run.root)
    return os.path.join(common, "faber-ledger", "runs", *run.run_id.split("/"), "ledger.db") if common else None
