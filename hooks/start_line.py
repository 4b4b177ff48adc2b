"""What a session's start tells the user in one line: which run, its phase, and the most urgent thing alone."""

from __future__ import annotations

from faber_ledger.context.position import MOST_FAILURES, count_errors
from faber_ledger.files.text import one_line
from faber_ledger.runs.clone import is_set_up_unchecked
from faber_ledger.runs.progress import branch_name, current_phase, resume_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.hooks.hook import Start

NAME, LONGEST_LINE = "faber-ledger: ", 120


def start_line(start: Start, state: dict[str, Any], *, is_broken: bool) -> str:
    """Return the line, of at most 120 characters for ids of up to 60; the state may be a backup's."""
    run, warnings, here = start.run, start.warnings, start.arrival["checkout"] if start.arrival is not None else None
    branch = branch_name(state) or start.own_branch
    is_wrong = here is not None and isinstance(branch, str) and branch != here["branch"]
    if is_wrong:
        from faber_ledger.context.branch import has_branch  # most starts are on the run's branch

    if is_new := is_set_up_unchecked(run.root):
        from faber_ledger.runs.set_up import line_to_set_up  # only the first start of a clone looks

        is_new = line_to_set_up(run.root) is not None
    found = {  # in at most 16 letters, the most urgent first; `status` and `doctor` say all of it
        "not recorded": not start.is_recorded,
        "state unreadable": is_broken,
        "branch not here": is_wrong and not has_branch(run.root, str(branch)),  # as after a merge
        "wrong branch": is_wrong,
        "files not here": run.is_kept,
        "bad active file": start.active is not None and start.active.problem,
        "question waits": state.get("status") == "awaiting_feedback",
        "failed too often": count_errors(state, resume_point(state)) >= MOST_FAILURES,
        "artifact missing": start.lacks_artifact,
        "not set up": is_new,
        "not sent": start.unsent,
        "redacted events": any(["redacted elsewhere" in warning for warning in warnings]),
        f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}": warnings,
    }
    wrong = next((wrong for wrong, is_so in found.items() if is_so), "")
    end = f"; {wrong}: faber-ledger status" if wrong else ""
    about = f"run {one_line(run.run_id, 80)}"
    phase, room = current_phase(state), max(LONGEST_LINE - len(f"{about}, phase {end}"), 9)
    line = f"{about}{f', phase {one_line(phase, room)}' if phase else ''}{end}"
    return f"{NAME}{line}" if len(NAME) + len(line) <= LONGEST_LINE else line
