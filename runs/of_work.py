"""The runs of one work item: those at work first, then the newest."""

from __future__ import annotations

from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.kept import runs_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from faber_ledger.runs.run import Run

MOST_NAMED = 3  # other runs
MAX_STATUS = 20


def with_states(runs: Iterable[Run], *, has_older: bool = False) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield those of the runs whose state, or with `has_older` an older copy of it, can be read, each with it."""
    for run in runs:
        try:
            yield run, state_file.read_state(run).value
        except LedgerError:
            if has_older:
                from faber_ledger.runs.projecting import read_older_states

                yield from [(run, state.value) for _, state, _ in [*read_older_states(run)][:1]]


def is_of_work(state: dict[str, Any], work_id: str) -> bool:
    """Return whether a state belongs to a run of the work item."""
    known = state.get("work_id")
    return isinstance(known, (str, int)) and not isinstance(known, bool) and str(known) == work_id


def runs_of_work(root: str, work_id: str, *, besides: str = "") -> list[tuple[Run, dict[str, Any]]]:
    """Return the runs of a work item, besides one, with their states: those at work first, then the newest."""
    runs = [run for run in runs_here(root) if run.run_id != besides]
    found = [one for one in with_states(runs, has_older=True) if is_of_work(one[1], work_id)]
    return sorted(found, key=lambda one: (one[1].get("status") not in progress.FINISHED, *start_of(*one)), reverse=True)


def start_of(run: Run, state: dict[str, Any]) -> tuple[float, str]:
    """Return by what runs are ordered: when one was started, then its id."""
    return seconds_of(state.get("started_at")) or 0.0, run.run_id


def describe_other_runs(run: Run, state: dict[str, Any]) -> list[str]:
    """Return a sentence that names the other runs of the run's work item; nothing without any."""
    found = runs_of_work(run.root, str(state["work_id"]), besides=run.run_id) if state.get("work_id") else []
    others = [f"{one.run_id} ({one_line(of.get('status'), MAX_STATUS)})" for one, of in found]
    if not others:
        return []
    named = ", ".join([*others[:MOST_NAMED], *(["…"] if len(others) > MOST_NAMED else [])])
    command = f"faber-ledger reconstitute {found[0][0].run_id}"
    return [f"Other runs of this work item: {named}; `{command}` shows what was done there."]
