"""What `fleet` says of runs across machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from faber_ledger.cli.ui.words import project_labels, table

if TYPE_CHECKING:
    from faber_ledger.postgres.fleet import FleetRun

COLUMNS = ("run", "work item", "machine", "phase", "status", "sessions", "open", "abandoned", "compactions")
LAST = ("last event", "")
SHORT_WRITER = 8


def take_runs(found: Iterable[FleetRun], limit: int) -> tuple[list[FleetRun], bool]:
    """Return the first `limit` runs, and whether there are more."""
    runs = list(islice(found, limit + 1))
    return runs[:limit], len(runs) > limit


def lines_of(runs: list[FleetRun], names: Mapping[str, str], *, has_more: bool, is_filtered: bool) -> Iterator[str]:
    """Yield a table of runs for people; the project is named where the login sees several."""
    if not runs:
        yield "no run matches" if is_filtered else "the server has no runs yet: `faber-ledger sync --push` brings them"
        return
    with_project = len(names) > 1
    head = (*(("project",) if with_project else ()), *COLUMNS, *LAST)
    labels = project_labels(names)
    rows = [(*((labels.get(run["project"], "-"),) if with_project else ()), *_cells(run)) for run in runs]
    yield from table([head, *rows])
    if has_more:
        yield "older runs are not shown: --limit N shows more"


def _cells(run: FleetRun) -> tuple[str, ...]:
    last = run["last_event"]
    return (
        run["run_id"],
        run["work_id"] or "-",
        run["machine"] or last["writer"][:SHORT_WRITER],
        run["phase"] or "-",
        run["status"] or "unknown",
        str(run["sessions"]),
        str(len(run["open_sessions"])),
        str(run["abandoned"]),
        str(run["compactions"]),
        last["at"],
        last["type"],
    )
