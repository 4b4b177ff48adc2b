"""What of a run is not in git yet, in words: one line with numbers, and the commands that bring it in."""

from __future__ import annotations

from typing import Any, NamedTuple

from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.cli.ui.words import ago
from faber_ledger.ledger.clock import utc_text
from faber_ledger.runs.git import is_safe
from faber_ledger.runs.in_git import GitSurvey, InGit
from faber_ledger.runs.layouts import run_ids
from faber_ledger.runs.left_state import kept_run_ids

OLD_FETCH = 24 * 3600.0  # seconds
INTERRUPTED = " as long as git rebases or bisects"
NEW_BRANCH = "BRANCH"  # in a command: the user chooses a name


class NotInGit(NamedTuple):
    """What is not in git yet, and the commands that change that, which may be none."""

    what: str
    command: str

    @property
    def line(self) -> str:
        """Both, in one line."""
        return self.what + (f": `{self.command}`" if self.command else "")


def not_in_git(survey: GitSurvey, found: InGit, at: float, seal: str, *, is_shared: bool) -> NotInGit | None:
    """Return what of a run is not committed, pushed or pulled; None if all of it is, as far as this clone knows.

    `seal` is the command that prepares the run. Of a run that `is_shared`, on which other clones have recorded, a last
    fetch of more than a day before `at` is worth a line.
    """
    if found.is_unmerged:
        return None  # a merge has stopped: that is said elsewhere, with the command for it
    is_pushed = found.is_pushed or survey.is_interrupted
    age = at - survey.fetched_at if survey.fetched_at is not None else None
    is_old = is_shared and bool(survey.remotes) and age is not None and age > OLD_FETCH
    if found.is_committed and is_pushed and found.newer is None and not is_old:
        return None
    steps = []
    if not found.is_committed:
        steps += [seal, "git commit"]
    if found.newer is not None:
        steps.append(survey.pull_command(found.newer))
    elif is_old:
        steps.append("git fetch")
    if survey.remotes and not (found.is_committed and is_pushed):
        steps.append(_push_command(survey))
    if survey.branch is None and not (found.is_committed and is_pushed):
        steps.insert(0, f"git switch -c {NEW_BRANCH}")  # an existing one is refused over a changed ledger
    is_for_later = found.is_kept or survey.is_interrupted
    return NotInGit(", ".join(_counts(survey, found, age)), "" if is_for_later else " && ".join(steps))


def hint_without_runs(root: str) -> str | None:
    """Return what to do where the checked out branch has no run; None if work tree or clone has one.

    None without a remote, too: nothing can come from another machine.
    """
    if run_ids(root) or any(kept_run_ids(root)):
        return None
    survey = GitSurvey(root, [])
    if not (survey.is_known and survey.remotes):
        return None
    there = survey.find_runs_on_remotes()
    if there is None:
        elsewhere = "if you worked on another machine, commit and push there, then `git pull` here"
        return f"this branch has no run; {elsewhere}; if not, {START_ONE}"
    if there is survey.upstream:
        return f"this branch has no run, but {there.name} has: run `git pull`"
    name = survey.split(there)[1]
    return f"this branch has no run, but {there.name} has" + (f": run `git switch {name}`" if is_safe(name) else "")


def in_git_data(survey: GitSurvey, found: InGit) -> dict[str, Any]:
    """Return the same for `--json`."""
    fetched_at = survey.fetched_at
    return {
        "events": found.events,
        "committed": found.committed,
        "pushed": found.pushed,
        "to_pull": found.to_pull,
        "is_tracked": not found.is_untracked,
        "state_committed": found.is_state_committed,
        "state_pushed": found.is_state_pushed if survey.remotes else None,
        "branch": survey.branch,
        "upstream": survey.upstream.name if survey.upstream is not None else None,
        "fetched_at": utc_text(fetched_at) if fetched_at is not None else None,
    }


def _counts(survey: GitSurvey, found: InGit, age: float | None) -> list[str]:
    parts = []
    if found.committed is not None:
        of = " of ledger.db" if found.is_of_file else ""
        parts.append(f"{found.committed:,} of {found.events:,} events{of} committed")
    if found.is_untracked:
        parts[-1:] = [" ".join([*parts[-1:], "(the run is untracked, and `git commit -a` leaves it out)"])]
    elif not found.is_state_committed and found.committed in (None, found.events):
        parts.append("state.json is not")
    if found.pushed is not None:
        parts.append(f"{found.pushed:,} pushed")
        if not found.is_state_pushed and found.pushed == found.committed:
            parts.append("state.json is not")
    if found.is_kept:
        parts.append("all on branches that are not checked out")
    if found.newer is not None:
        count = "some" if found.to_pull is None else f"{found.to_pull:,}"
        parts.append(f"{count} to pull from {found.newer.name}")
    elif found.to_pull == 0 and not found.is_kept:
        fetched = "no fetch since the clone" if age is None else f"last fetch {ago(max(age, 0.0))}"
        parts.append(f"none to pull ({fetched})")
    if survey.branch is None and not found.is_kept:
        parts.append("no branch is checked out" + (INTERRUPTED if survey.is_interrupted else ""))
    return parts


def _push_command(survey: GitSurvey) -> str:
    if survey.upstream is not None and survey.split(survey.upstream)[1] == survey.branch:
        return "git push"
    remote = "origin" if "origin" in survey.remotes else survey.remotes[0]
    branch = NEW_BRANCH if survey.branch is None else survey.branch
    return f"git push -u {remote} {branch if is_safe(branch) else 'HEAD'}"
