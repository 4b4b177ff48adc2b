"""What git knows about a run's branch (RECON, 0.4 Inspect Branch State). Its name comes with the repository."""

from __future__ import annotations

import re

from faber_ledger.context.reconstitution.journal import text_or_na
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.git_refs import default_ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from faber_ledger.context.reconstitution.journal import Journal

    class Branch(TypedDict):
        """A branch: its newest ten commits, one line each, and `git diff --stat` against main."""

        name: str
        commits: list[str]
        files_changed: str | None


# What git allows in a branch name, and never takes for an option, a range or another kind of revision.
REFUSED = r"\x00-\x20\x7f~^:?*\[\\\ud800-\udfff"
NAME = re.compile(rf"(?!.*(?:\.\.|@\{{|//))[^{REFUSED}/.-][^{REFUSED}]*")
LOG = ["log", "--oneline", "-10", "--no-decorate", "--no-color", "--no-show-signature"]
DIFF = ["diff", "--stat", "--no-color", "--no-ext-diff", "--no-textconv"]


def inspect_branch(root: str, name: object, journal: Journal) -> Branch | None:
    """Return what git knows about a branch; None if the state names none, or git does not have it or cannot be run."""
    if name is None:
        journal.info("no_branch", "ℹ No branch created yet")
        return None
    if _ask_git(root, ["rev-parse", "--git-dir"]) is None:
        _warn_git_failed(name, "not a git repository, or git cannot be run", journal)
        return None
    is_name = isinstance(name, str) and len(name) <= 255 and NAME.fullmatch(name) is not None
    if not is_name or not _exists(root, f"refs/heads/{name}"):
        journal.log(f"ℹ Branch {text_or_na(name)} not found locally (may need to fetch)")
        journal.warn(
            "branch_not_found",
            "Branch not found - continuing without branch details",
            {
                "Branch": text_or_na(name),
                "Error": "not found locally" if is_name else "not a valid branch name",
            },
            "Branch may not exist yet (pre-build phase)",
        )
        return None
    log = _ask_git(root, [*LOG, f"refs/heads/{name}", "--"])
    main = default_ref(root)
    diff = _ask_git(root, [*DIFF, f"{main}...refs/heads/{name}", "--"]) if main else None
    commits = log.split("\n") if log else []
    journal.log(f"✓ Branch exists: {name}")
    journal.log("  Recent commits:")
    for commit in commits:
        journal.log(f"    {text_or_na(commit)}")
    if log is None or diff is None:
        failed = "git log" if log is None else "git diff" if main else "there is no main branch to compare with"
        _warn_git_failed(name, failed, journal)
    return {"name": str(name), "commits": commits, "files_changed": diff}


def _warn_git_failed(name: object, reason: str, journal: Journal) -> None:
    journal.warn(
        "git_failed",
        "Git operations failed - continuing without branch details",
        {"Branch": text_or_na(name), "Error": reason},
        "May be outside git repo",
    )


def _exists(root: str, ref: str) -> bool:
    return _ask_git(root, ["show-ref", "--verify", "--quiet", ref]) is not None


def _ask_git(root: str, arguments: list[str]) -> str | None:
    return GitQuery(["--no-pager", *arguments], root).answer()
