"""The blocks that the requirement documents prescribe, character by character, with our commands added."""

import os

from faber_ledger.context.failures import state_broken
from faber_ledger.files.text import escape
from faber_ledger.ledger.errors import NotWritable, StateInvalid, StateMissing, StateNotWritten, StateRefused
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import choose_backup, way_back

NO_WORKFLOW_TO_SAVE = """\
ℹ️  No active workflow found
   No session to end.

Possible reasons:
- No workflow is currently running in this worktree
- The .fractary/faber/.active-run-id file doesn't exist
- Workflow already completed

To start a new workflow:
  /fractary-faber:workflow-run --work-id <work-id> [faber-ledger run start --work-id <work-id>]"""

START_ONE = "start one with `faber-ledger run start --work-id ID`"


def no_workflow_to_load(run_id: str = "<run-id>") -> str:
    """Return the block for a load without a run (RELOAD, Step 1), naming a run that is there."""
    return f"""\
❌ ERROR: No active workflow found
Use /fractary-faber:run to start a new workflow [faber-ledger run start --work-id <work-id>]
Or specify run ID: /fractary-faber:prime-context --run-id {run_id} [faber-ledger session-load --run-id {run_id}]"""


def state_not_found(run: Run) -> str:
    """Return the block for a missing state in session-save (END, Step 2; AGENT, Session Save, Error Handling)."""
    path = run.shown(run.state_path)
    return f"""\
❌ ERROR: Workflow state file not found: {path}
Run ID: {run.run_id}
Expected: {path}

Recovery:
1. Verify run ID is correct
2. Check if workflow was started
3. List available runs: ls .fractary/runs/ [faber-ledger run list]{_back(run, 4)}"""


def state_not_parsed(run: Run, error: StateInvalid) -> str:
    """Return the block for a corrupted state in session-save (END, Step 2; AGENT, Session Save, Error Handling)."""
    if "faber-ledger resolve" in error.hint:
        return state_broken(run, error, choose_backup(run))
    backup = choose_backup(run)
    restore = f" [faber-ledger project {run.run_id} --restore]" if os.path.exists(backup) else ""
    return f"""\
❌ ERROR: Cannot {"read" if isinstance(error, StateRefused) else "parse"} state file: {escape(error.reason)}
Path: {run.shown(run.state_path)}
Error: {escape(error.reason)}

Recovery:
1. Check if backup exists: {os.path.basename(backup)}
2. Restore from backup if available{restore}
3. Contact support if no backup available
4. Look for an older version in git: git log --oneline -- {run.shown(run.state_path)}"""


def state_not_saved(run: Run, error: NotWritable) -> str:
    """Return the block for a state that cannot be written (END, Step 6; AGENT, Session Save, Error Handling)."""
    recorded = isinstance(error, StateNotWritten)
    failed = "" if recorded else "Failed to write state file: "
    then = f"What happened is in the ledger: when the file can be written, run faber-ledger project {run.run_id}"
    return f"""\
❌ ERROR: Failed to save state file
Path: {run.shown(run.state_path)}
Error: {failed}{escape(error.message)}

Recovery:
1. Check file permissions
2. Ensure .fractary/runs/ directory is writable
3. Check disk space
{then if recorded else "Nothing was recorded: run the command again then"}"""


def run_not_found(run: Run) -> str:
    """Return the block for an unknown run in session-load (RELOAD, Step 2; AGENT, Session Load, Error Handling)."""
    return f"""\
❌ ERROR: Run not found: {run.run_id}
Run ID: {run.run_id}
Path: {run.shown(run.state_path)}
Check available runs: ls .fractary/runs/

Recovery:
1. List active runs: find .fractary/runs -name state.json [faber-ledger run list]
2. Start new run: /fractary-faber:workflow-run <work-id> [faber-ledger run start --work-id <work-id>]{_back(run, 3)}"""


def _back(run: Run, number: int) -> str:
    """Return the step that restores a missing state; nothing if the run's folder does not exist."""
    step = way_back(run)
    return f"\n{number}. {step[0].upper()}{step[1:]}" if run.has_files() else ""


def load_failed(run: Run, error: StateMissing | StateInvalid | NotWritable) -> str:
    """Return the block for what stopped session-load: a state that is missing, broken or not writable."""
    if isinstance(error, StateMissing):
        return run_not_found(run)
    if isinstance(error, StateInvalid):
        return state_broken(run, error, choose_backup(run))
    return state_not_saved(run, error)
