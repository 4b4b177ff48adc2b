"""`faber-ledger run finish`: complete a run whose Release phase is completed."""

import os

import click

from faber_ledger.cli.ui.output import json_option, show, warn, warn_of
from faber_ledger.cli.ui.which_run import check_in_tree, choose_run, run_argument
from faber_ledger.cli.worktrees.survey import update_registry
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import NotReleased
from faber_ledger.recording.start import complete_record
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.carry import start_sending
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.progress import phase_statuses
from faber_ledger.runs.run import Run, find_root

WHEN_MERGED = "  When it is committed and merged, `faber-ledger worktree cleanup` in another worktree removes this one"


@click.command(short_help="Complete a released run.")
@run_argument
@json_option
def finish(run: str | None, as_json: bool) -> None:
    """Complete RUN (default: the active run), whose Release phase is completed.

    \b
    Example: faber-ledger run finish
    Exit codes: 0 done; 1 Release is not completed, or the state cannot be read or
    written; 2 wrong usage; 10 no such run.
    """
    root, at = find_root(os.getcwd()), now()
    chosen = check_in_tree(choose_run(root, run, records=True))
    _complete(chosen, at)
    complete_record(chosen, at=at, environ=os.environ, warn=warn)
    start_sending(root)
    update_registry(root, at=at, warn=warn)
    work_tree = work_tree_of(root)
    top = work_tree.top if work_tree and work_tree.is_linked else None
    lines = [f"✓ Workflow completed: {chosen.run_id}", *([WHEN_MERGED] if top else [])]
    show({"run_id": chosen.run_id, "worktree": top}, lines, as_json=as_json)


def _complete(run: Run, at: float) -> None:
    """Write into the state that the run is completed; raises NotReleased, and as `write_members`."""
    with lock_run(run):
        state = state_file.read_state(run).value
        if state.get("status") == "completed":
            return
        release = phase_statuses(state).get("release", "pending")
        if state.get("status") not in progress.ACTIVE or release != "completed":
            raise NotReleased(
                f"the run {run.run_id} is {state.get('status')}, and its Release phase {release}",
                hint="run the command again when its Release phase is completed",
            )
        moment = utc_text(at)
        members = {"status": "completed", "completed_at": moment, "updated_at": moment}
        state_write.write_members(run, members, warn=warn_of)
