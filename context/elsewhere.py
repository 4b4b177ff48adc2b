"""What a session start tells the agent of a run that was worked on in other clones, in a sentence or two.

As long as nothing is committed, fetched, pulled, set up or recorded, they are the same.
"""

from __future__ import annotations

from faber_ledger.context.packet import has_end, place_of_session
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.git import is_tracked, may_name_filters, work_tree_of
from faber_ledger.runs.git_query import GitQuery, WorkTreeQuery, time_limit
from faber_ledger.runs.in_git import GitSurvey, command_to_pull, way_to_completed
from faber_ledger.runs.publish import carries_refs, stopped_command
from faber_ledger.runs.set_up import SET_UP, lacks_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

MAX_NAME, MAX_NAMED, MAX_PATHS = 80, 300, 3
SECONDS = 0.3  # for all that git is asked: a hook must not be noticed


class Elsewhere:
    """What happened to a run in other clones; git is asked at once, and about commits when the log can be read."""

    def __init__(self, run: Run, state: dict[str, Any], *, is_last_there: bool) -> None:
        """Ask git, if the run's last session was elsewhere also what is not committed here."""
        self._root = run.root
        self._newer, self.is_newer_there = _describe_newer(run, state)
        self._changed = _describe_changes(run) if is_last_there else None

    def describe(
        self, log: Log | None, start: Recorded | None, client: str | None, *, is_begun: bool = False
    ) -> list[str]:
        """Return what nobody committed before this client, and what this clone lacks or needs.

        `start` is as `start_before` has it. A conversation that `is_begun` knows the former.
        """
        is_here = start is not None and start["writer"] == writer_of(self._root)
        is_told = not (is_here or is_begun)
        last = self._describe_last(log, start, client) if log is not None and start is not None and is_told else None
        changed = None if is_here else self._changed  # of a session here that broke off, perhaps
        return [sentence for sentence in (last, changed, self._newer) if sentence]

    def _describe_last(self, log: Log, start: Recorded, client: str | None) -> str | None:
        """Return what the session of a start in another clone left uncommitted; None for nothing."""
        if client is not None and not has_end(log, start):
            return None  # `describe_break` says so
        ended = log.checkout_after(start)
        is_uncommitted = ended is not None and dict(ended["event"]).get("uncommitted") is True
        if ended is None or not is_uncommitted or not _is_newest(self._root, ended):
            return None
        named = _named_changes(dict(ended["event"]))
        before = "The last session" if client is None else "The session before this conversation"
        return (
            f"{before}, {place_of_session(start)} in another clone, ended with uncommitted changes{named}."
            " They are not here: ask for them before you do that work again."
        )


def _is_newest(root: str, ended: Recorded) -> bool:
    """Return whether the branch that a session ended on surely has no later commit here than that end's.

    An end of an older program names none, and an amended one is not here: then times decide. A merge may have brought
    the work of a branch that is not here: then a commit of what is checked out decides that changed one of the files.
    """
    from faber_ledger.context.branch import has_branch  # where a session elsewhere left something

    event = dict(ended["event"])
    branch, commit = event.get("branch"), str(event.get("commit") or "-")
    is_named = isinstance(branch, str) and "\0" not in branch
    is_there = is_named and has_branch(root, str(branch))
    refs = [f"refs/heads/{branch}", f"--glob=refs/remotes/*/{branch}"] if is_there else ["HEAD"]
    since = f"--since=@{max(int(seconds_of(ended['at']) or 0), 0)}"
    is_here = not commit.strip("0123456789abcdef") and _ask(root, ["cat-file", "-e", f"{commit}^{{commit}}"]) == ""
    paths = [":(top)", ":(exclude).fractary"]  # a commit of the ledger alone brings none of the work
    names = event.get("uncommitted_names")
    if is_named and not is_there and isinstance(names, list):
        paths = [f":(top,literal){name}" for name in names if "\0" not in str(name)] or paths
    after = f"^{commit}" if is_here else since
    return _ask(root, ["rev-list", "-1", "--ignore-missing", after, *refs, "--", *paths]) == ""


def _ask(root: str, arguments: list[str]) -> str | None:
    return GitQuery(arguments, root, deadline=time_limit(SECONDS)).answer()


def _named_changes(ended: dict[str, Any]) -> str:
    """Return how many changes an end had, and the first of them; empty for one of an older program."""
    count, names = ended.get("uncommitted_count"), ended.get("uncommitted_names")
    if not isinstance(count, int) or not isinstance(names, list) or not names:
        return ""
    named = one_line(", ".join([one_line(name, MAX_NAME) for name in names]), MAX_NAMED)
    return f" ({named}{f' and {count - len(names)} more' if count > len(names) else ''})"


def _describe_changes(run: Run) -> str | None:
    """Return what is not committed here; None if nothing is, or it is not known in time."""
    tree = work_tree_of(run.root)
    if tree is None:
        return None
    paths = WorkTreeQuery(run.root, tree.top, may_filter=may_name_filters(tree)).find_uncommitted()
    if not paths:
        return None
    more = f" and {len(paths) - MAX_PATHS} more" if len(paths) > MAX_PATHS else ""
    named = ", ".join([one_line(path, MAX_NAME) for path in paths[:MAX_PATHS]])
    them = "them" if len(paths) > 1 else "it"
    where = "Uncommitted here, and not by the last session, which was elsewhere"
    return f"{where}: {named}{more}: ask the user before you change or commit {them}."


def describe_newer_ref(run: Run, state: dict[str, Any]) -> tuple[str | None, bool]:
    """Return as `_describe_newer` does what a run's ref has that git tracks in an older version, or may have."""
    from faber_ledger.runs.sent import Sent, may_lack  # only where ledgers travel in git refs

    sent = Sent(run)
    is_newer = (seconds_of(sent.updated_at) or 0.0) > (seconds_of(state.get("updated_at")) or 0.0)
    if is_newer and not run.is_kept and is_tracked(run.state_path) is not False:
        survey = GitSurvey(run.root, SECONDS)
        if not sent.is_completed:
            how = f"before you go on, run `{command_to_pull(survey)}`"
            return f"This run went on elsewhere after the commit that is here: {how}.", True
        return f"This run was completed elsewhere{way_to_completed(survey, run)}.", True
    if may_lack(run, state):
        how = "run `faber-ledger sync` before you go on"
        return f"Git has fetched newer commits of this run's branch, but no ledger, so {how}.", False
    return None, False


def _describe_newer(run: Run, state: dict[str, Any]) -> tuple[str | None, bool]:
    """Return what this clone lacks of a run, or needs before the next pull, with the commands; None for nothing.

    Also return whether it lacks something.
    """
    tree = work_tree_of(run.root)
    if tree is not None and (stopped := stopped_command(tree)) is not None:
        return f"A {stopped} has stopped here: end it before you go on.", False
    by_ref = describe_newer_ref(run, state) if carries_refs(run.root) else (None, False)
    if by_ref[0] is not None:
        return by_ref
    survey = GitSurvey(run.root, SECONDS)
    newer = survey.find_newer(run)
    is_set_up = not lacks_driver(run.root)
    if newer is None and is_set_up:
        return None, False
    if newer is None:
        why = "This clone was never set up for faber-ledger, so a pull or merge would stop at this run's files"
        return f"{why}: run `{SET_UP}` before the next one.", False
    commands = [*([] if is_set_up else [SET_UP]), survey.pull_command(newer)]
    gone = ", and the branch that is checked out is gone at the remote, as after a merge" if survey.is_gone else ""
    why = f"This run went on elsewhere: {newer.name} has a newer version of it{gone}"
    return f"{why}, so before you go on, run `{' && '.join(commands)}`.", True
