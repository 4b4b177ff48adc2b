"""What a session start tells the agent of a run that was worked on in other clones, in a sentence or two.

They name no number and no time: as long as nothing is fetched, pulled, set up or recorded, they are the same.
"""

from __future__ import annotations

from faber_ledger.files.text import one_line
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.set_up import SET_UP, lacks_driver
from faber_ledger.runs.uncommitted import WorkTreeQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

MAX_NAME, MAX_PATHS = 80, 3
SECONDS = 0.3  # for all that git is asked: a hook must not be noticed


class Elsewhere:
    """What happened to a run in other clones; git is asked at once, the log when it can be read."""

    def __init__(self, run: Run, *, is_last_there: bool) -> None:
        """Ask git, if the run's last session was elsewhere also what is not committed here."""
        self._root = run.root
        self._newer = _describe_newer(run)
        self._changed = _describe_changes(run) if is_last_there else None

    def describe(self, log: Log | None, client: str | None) -> list[str]:
        """Return where the run was before this client, what nobody committed, and what this clone lacks or needs."""
        last = _describe_last(log, client, writer_of(self._root)) if log is not None else None
        return [sentence for sentence in (last, self._changed, self._newer) if sentence]


def _describe_last(log: Log, client: str | None, writer: str) -> str | None:
    """Return where the last session before a client's first was, if it was in another clone than that of `writer`.

    So a conversation is told the same at each of its starts.
    """
    start = log.last_start(before=log.first_start_of(client) if client is not None else None)
    if start is None or start["writer"] == writer:
        return None
    environment = dict(start["event"]).get("environment")
    machine = environment.get("hostname") if isinstance(environment, dict) else None
    there = f"on {one_line(machine, MAX_NAME)}" if isinstance(machine, str) and machine else "on another machine"
    ended = log.checkout_after(start)
    if ended is None or dict(ended["event"]).get("uncommitted") is not True:
        return f"The session before this conversation was {there}, in another clone."
    return (
        f"The session before this conversation, {there} in another clone, ended with uncommitted changes, which are not"
        " here: ask for them before you do that work again."
    )


def _describe_changes(run: Run) -> str | None:
    """Return what is not committed here; None if nothing is, or it is not known in time."""
    tree = work_tree_of(run.root)
    paths = WorkTreeQuery(run.root, tree).list_uncommitted() if tree is not None else []
    if not paths:
        return None
    more = f" and {len(paths) - MAX_PATHS} more" if len(paths) > MAX_PATHS else ""
    named = ", ".join([one_line(path, MAX_NAME) for path in paths[:MAX_PATHS]])
    them = "them" if len(paths) > 1 else "it"
    return f"Uncommitted here, and not by that session: {named}{more}: ask the user before you change or commit {them}."


def _describe_newer(run: Run) -> str | None:
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
