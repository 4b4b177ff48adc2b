"""What of a run is not in git yet, in words: one line, and the commands that bring it in."""

from typing import Any

from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.files.text import quote_word
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.git import is_safe, work_tree_of
from faber_ledger.runs.in_git import GitSurvey, Missing
from faber_ledger.runs.kept import kept_run_ids
from faber_ledger.runs.layouts import run_ids
from faber_ledger.runs.publish import carries_refs, stopped_command

NEW_BRANCH = "BRANCH"  # in a command: the user chooses a name


def in_git_line(survey: GitSurvey, missing: Missing, seal: str) -> str | None:
    """Return what of a run is not committed, pushed or pulled, with the commands; None if all of it is.

    `seal` is the command that prepares the run. While git rebases or bisects, nothing is to be committed.
    """
    remotes, tree = survey.remotes, work_tree_of(survey.root)
    is_unpushed = bool(remotes) and missing.is_unpushed
    if not (missing.uncommitted or is_unpushed or missing.newer) or (tree is not None and stopped_command(tree)):
        return None
    if survey.is_gone and missing.newer is not None:
        gone = f"{survey.branch} is gone at the remote, as after a merge"
        return f"{missing.newer.name} has a newer version, and {gone}: `{survey.pull_command(missing.newer)}`"
    said, steps = [], []
    if missing.uncommitted:
        why = " (the run is untracked, and `git commit -a` leaves it out)" if missing.is_untracked else ""
        said.append(f"{' and '.join(missing.uncommitted)} not committed{why}")
        steps += [seal, "git commit"]
    elif is_unpushed:
        said.append("committed, not pushed")
    if missing.newer is not None:
        said.append(f"{missing.newer.name} has a newer version")
        steps.append(survey.pull_command(missing.newer))
    if survey.is_gone:
        said.append(f"{survey.branch} is gone at the remote, as after a merge: commit on the branch that has it")
        steps.clear()
    elif remotes and (missing.uncommitted or is_unpushed):
        steps.append(_push_command(survey, remotes))
    if survey.branch is None:
        said.append("no branch is checked out")
        steps.insert(0, f"git switch -c {NEW_BRANCH}")  # an existing one is refused over a changed ledger
    return f"{', '.join(said)}{f': `{commands}`' if (commands := ' && '.join(steps)) else ''}"


def hint_without_runs(root: str) -> str | None:
    """Return what to do where the checked out branch has no run; None if work tree or clone has one.

    None without a remote, too: nothing can come from another machine.
    """
    if run_ids(root) or any(kept_run_ids(root)):
        return None
    if carries_refs(root):
        return f"this clone has no run; {hint_to_ask(root)}; if there is none, {START_ONE}"
    survey = GitSurvey(root)
    if not survey.remotes:
        return None
    there = survey.find_branch_with_runs()
    if there is None:
        elsewhere = "if you worked on another machine, commit and push there, then `git pull` here"
        return f"this branch has no run; {elsewhere}; if not, {START_ONE}"
    if there == survey.upstream:
        return f"this branch has no run, but {there.name} has: run `git pull`"
    name = there.name.partition("/")[2]
    return f"this branch has no run, but {there.name} has" + (f": run `git switch {name}`" if is_safe(name) else "")


def hint_to_ask(root: str, run: str = "") -> str:
    """Return which command shows the remote's runs, or fetches the named one, where ledgers travel in git refs."""
    consent = sender_of(root)
    if consent is None:
        return "`faber-ledger init --carry refs --fetch` lets it fetch them from the remote"
    if run:
        return f"`faber-ledger run resume {quote_word(run)}` fetches it, if {consent.remote} has it"
    return "`faber-ledger run list --remote` shows those at the remote"


def no_runs_text(root: str) -> str:
    """Return what to do where neither work tree nor clone has a run."""
    if not carries_refs(root):
        return f"no runs yet: {START_ONE}"
    what = "no runs yet" if sender_of(root) is not None else "this clone does not fetch runs yet"
    return f"{what}: {hint_to_ask(root)}; if there is none, {START_ONE}"


def in_git_data(survey: GitSurvey, missing: Missing) -> dict[str, Any]:
    """Return the same for `--json`."""
    return {
        "uncommitted": missing.uncommitted,
        "is_tracked": not missing.is_untracked,
        "is_pushed": not missing.is_unpushed,
        "to_pull": missing.newer.name if missing.newer is not None else None,
        "branch": survey.branch,
        "upstream": survey.upstream.name if survey.upstream is not None else None,
    }


def _push_command(survey: GitSurvey, remotes: list[str]) -> str:
    if survey.upstream is not None and survey.upstream.name.partition("/")[2] == survey.branch:
        return "git push"
    remote = "origin" if "origin" in remotes else remotes[0]
    branch = NEW_BRANCH if survey.branch is None else survey.branch
    return f"git push -u {remote} {branch if is_safe(branch) else 'HEAD'}"
