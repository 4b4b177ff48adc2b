"""What a session start tells the agent of a run that was worked on in other clones, in one sentence.

It names no number and no time: as long as nothing is fetched, pulled or set up, it is the same at every start.
"""

from __future__ import annotations

from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.set_up import SET_UP, lacks_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run

SECONDS = 0.3  # for all that git is asked: a hook must not be noticed


def describe_elsewhere(run: Run) -> str | None:
    """Return what this clone lacks of a run, or needs before the next pull, with the commands; None for nothing."""
    survey = GitSurvey(run.root, [run], SECONDS, with_changes=False)
    newer = survey.find_newer(run) if survey.is_known else None
    is_set_up = not lacks_driver(run.root)
    if newer is None and is_set_up:
        return None
    if newer is None:
        why = "This clone was never set up for faber-ledger, so a pull or merge would stop at this run's files"
        return f"{why}: run `{SET_UP}` before the next one."
    commands = [*([] if is_set_up else [SET_UP]), survey.pull_command(newer)]
    why = f"This run went on elsewhere: {newer.name} has events of it that are not here yet"
    return f"{why}, so before you go on, run `{' && '.join(commands)}`."
