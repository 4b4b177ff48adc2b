"""What of a run is not in git yet, in words: one line, and the commands that bring it in."""

import os
from typing import Any

from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.cli.ui.words import join_names
from faber_ledger.files.text import one_line, quote_word
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.git import is_safe, work_tree_of
from faber_ledger.runs.in_git import REMOTE_BRANCHES, GitSurvey, Missing
from faber_ledger.runs.of_work import is_of_work
from faber_ledger.runs.on_branches import RunOnBranch, root_with_branch, runs_on_branches
from faber_ledger.runs.progress import text_of_value
from faber_ledger.runs.publish import carries_refs, stopped_command

NEW_BRANCH = "BRANCH"  # in a command: the user chooses a name
MOST_NAMED = 3  # runs of other branches, in a sentence
MAX_WORK, MAX_BRANCH = 64, 200


def in_git_line(survey: GitSurvey, missing: Missing, seal: str, folder: str) -> str | None:
    """Return what of a run is not committed, pushed or pulled, with the commands; None if all of it is.

    `seal` is the command that prepares the run, which has its own `folder`. While git rebases or bisects, nothing is to
    be committed, nor on the branch of a merged run: its log has all events.
    """
    remotes, tree = survey.remotes, work_tree_of(survey.root)
    is_unpushed = bool(remotes) and missing.is_unpushed
    names = [*missing.uncommitted, *missing.of_faber]
    if not (names or is_unpushed or missing.newer) or (tree is not None and stopped_command(tree)):
        return None
    is_merged = survey.is_merged(missing)
    if missing.newer is not None and is_merged and names:
        stash = f"`git stash push -- {quote_word(folder)}` sets {'them' if names[1:] else 'it'} aside for the pull"
        are, kept = "are" if names[1:] else "is", "what was recorded stays in this clone's log"
        return f"{missing.newer.name} has a newer version, and {join_names(names)} {are} not committed: {stash}; {kept}"
    said, steps = [], []
    if names:
        why = " (the run is untracked, and `git commit -a` leaves it out)" if missing.is_untracked else ""
        said.append(f"{join_names(names)} not committed{why}")
        of_faber = [quote_word(os.path.join(folder, name)) for name in missing.of_faber]
        adding = [f"git add {' '.join(of_faber)}"] if of_faber else []
        committing = [*adding, *([seal] if missing.uncommitted else []), "git commit"]
        steps += committing
    elif is_unpushed and not is_merged:
        said.append("committed, not pushed")
    if missing.newer is not None:
        said.append(f"{missing.newer.name} has a newer version")
        steps.append(survey.pull_command(missing.newer))
    elif survey.upstream is not None and (names or is_unpushed) and survey.is_behind():
        said.append(f"{survey.upstream.name} has newer commits")
        steps.append(survey.pull_command(survey.upstream))
    if survey.is_gone:
        said.append(f"{survey.branch} is gone at the remote, as after a merge")
    if survey.is_gone and not is_merged:
        said[-1] += ": commit on the branch that has it"
        steps.clear()
    elif remotes and (names or is_unpushed) and not is_merged:
        steps.append(_push_command(survey, remotes))
    if survey.branch is None:
        said.append("no branch is checked out")
        steps.insert(0, f"git switch -c {NEW_BRANCH}")  # an existing one is refused over a changed ledger
    return f"{', '.join(said)}{f': `{commands}`' if (commands := ' && '.join(steps)) else ''}"


def command_to_fetch(root: str) -> str:
    """Return the command that fetches the ledgers of runs that are here, where they travel in git refs."""
    return "init --carry refs --fetch" if sender_of(root) is None else "sync"


def hint_to_ask(root: str, run: str = "") -> str:
    """Return which command shows the remote's runs, or fetches the named one, where ledgers travel in git refs."""
    consent = sender_of(root)
    if consent is None:
        return "`faber-ledger init --carry refs --fetch` lets it fetch them from the remote"
    if run:
        return f"`faber-ledger run resume {quote_word(run)}` fetches it, if {consent.remote} has it"
    return "`faber-ledger run list --remote` shows those at the remote"


def no_runs_text(root: str) -> str:
    """Return what to do where neither work tree nor clone has a run, and no branch that was fetched."""
    if carries_refs(root):
        what = "no runs yet" if sender_of(root) is not None else "this clone does not fetch runs yet"
        return f"{what}: {hint_to_ask(root)}; if there is none, {START_ONE}"
    if not GitSurvey(root).remotes:
        return f"no runs yet: {START_ONE}"
    elsewhere = "if you worked on another machine, commit and push there, then `git pull` here"
    return f"this branch has no run; {elsewhere}; if not, {START_ONE}"


def runs_elsewhere(root: str) -> list[RunOnBranch]:
    """Return the runs of other branches that this clone lacks; none where ledgers travel in git refs."""
    return [] if carries_refs(root) else runs_on_branches(root)


def hint_to_switch(root: str, found: list[RunOnBranch]) -> str:
    """Return where runs of other branches are, as one sentence."""
    lead = "other branches have runs" if found[1:] else "another branch has a run"
    more = [f"{len(found) - MOST_NAMED} more"] if found[MOST_NAMED:] else []
    return f"{lead}: {'; '.join([*ways_to_runs(root, found[:MOST_NAMED]), *more])}"


def ways_to_unfinished(root: str, work_id: str | None) -> list[str]:
    """Return the way to each unfinished run that only other branches have; to those of a work item, if one is given."""
    found = [one for one in runs_elsewhere(root) if not one.is_finished]
    return ways_to_runs(root, [one for one in found if work_id is None or is_of_work(one.state, work_id)])


def ways_to_runs(root: str, found: list[RunOnBranch]) -> list[str]:
    """Return for each of these runs its branch, and the command that leads there."""
    if not found:
        return []
    survey = GitSurvey(root)
    pulled = {f"{REMOTE_BRANCHES}{one.name}": survey.pull_command(one) for one in survey.pulled}
    lines = []
    for one in found:
        work = one_line(text_of_value(one.state.get("work_id")), MAX_WORK)
        about = [f"work item {work}" if work else "", str(one.state["status"]) if one.is_finished else ""]
        way = pulled.get(one.ref) or (f"git switch {one.branch}" if is_safe(one.branch) else "")
        if (there := root_with_branch(root, one.branch)) is not None:
            way = f"cd {quote_word(os.path.relpath(there))}"
        ref = one_line(one.ref.split("/", 2)[2], MAX_BRANCH)
        known = ", ".join(filter(None, about))
        lines.append(f"{one.run_id}{f' ({known})' if known else ''} on {ref}{f': `{way}`' if way else ''}")
    return lines


def in_git_data(survey: GitSurvey, missing: Missing) -> dict[str, Any]:
    """Return the same for `--json`."""
    return {
        "uncommitted": missing.uncommitted,
        "uncommitted_of_faber": missing.of_faber,
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
