"""The git commands that an artifact may ask, and the options of each that neither write nor run anything.

git completes a shortened option, so that only what stands here in full is safe: everything else is refused.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    class Subcommand(TypedDict):
        """What may follow a command's name.

        `always` is put there in any case; `valued` options take a value; `numbers` are those like `-20` and `-U3`.
        `names` tells what its other words are, and whether paths may follow; `reads_files` whether git reads the files
        themselves, not only what is recorded of them; `shows` whether it would show a file or folder by its hash.
        """

        always: list[str]
        flags: frozenset[str]
        valued: frozenset[str]
        numbers: str
        names: Literal["revisions", "paths", "patterns"]
        reads_files: bool
        shows: bool


def _subcommand(
    names: Literal["revisions", "paths", "patterns"],
    flags: str,
    valued: str = "",
    numbers: str = "(?!)",
    *,
    always: str = "",
    reads_files: bool = False,
    shows: bool = False,
) -> Subcommand:
    return {
        "always": always.split(),
        "flags": frozenset(flags.split()),
        "valued": frozenset(valued.split()),
        "numbers": numbers,
        "names": names,
        "reads_files": reads_files,
        "shows": shows,
    }


CHANGES = """
    -p -u --patch -s --no-patch --raw --stat --shortstat --numstat --dirstat --summary --compact-summary --name-only
    --name-status --minimal --patience --histogram -w -b --ignore-all-space --ignore-space-change --ignore-blank-lines
    --no-renames -M -C --find-renames --find-copies --full-index --word-diff --no-prefix --abbrev
    """
CHANGES_VALUED = """
    --unified --diff-filter --stat --dirstat --find-renames --find-copies --word-diff --diff-algorithm --abbrev
    --inter-hunk-context
    """
COMMITS = """
    --oneline --graph --decorate --no-decorate --merges --no-merges --first-parent --reverse --date-order
    --author-date-order --topo-order --abbrev-commit --no-abbrev-commit --relative-date --full-history --left-right
    --cherry-pick --boundary --no-notes -i --regexp-ignore-case -E -F --fixed-strings --extended-regexp --all-match
    --invert-grep --parents --children
    """
COMMITS_VALUED = """
    -n --max-count --skip --since --after --until --before --author --committer --grep --format --pretty --date
    --decorate --min-parents --max-parents
    """
REFS = " --branches --tags --remotes "
REFS_VALUED = "--format --sort --contains --no-contains --points-at --merged --no-merged"
NUMBER = r"-[0-9]{1,6}|-n[0-9]{1,6}"
CONTEXT = r"-U[0-9]{1,6}|-[MC][0-9]{1,3}%?"
NO_PROGRAMS = "--no-ext-diff --no-textconv"

SUBCOMMANDS: dict[str, Subcommand] = {
    "log": _subcommand(
        "revisions",
        COMMITS + CHANGES + REFS + "--all",
        COMMITS_VALUED + CHANGES_VALUED + REFS,
        f"{NUMBER}|{CONTEXT}",
        always=f"{NO_PROGRAMS} --submodule=short",
    ),
    "status": _subcommand(
        "paths",
        "-s --short -b --branch --show-stash --porcelain --long --ahead-behind --no-ahead-behind --no-renames "
        "-sb -bs -uno -unormal -uall --untracked-files",
        "--porcelain --untracked-files",
        always="--ignore-submodules=all",
        reads_files=True,
    ),
    "diff": _subcommand(
        "revisions",
        CHANGES + "--cached --staged --merge-base -R",
        CHANGES_VALUED,
        CONTEXT,
        always=f"{NO_PROGRAMS} --ignore-submodules=all",
        reads_files=True,
        shows=True,
    ),
    "show": _subcommand(
        "revisions",
        COMMITS + CHANGES,
        COMMITS_VALUED + CHANGES_VALUED,
        CONTEXT,
        always=f"{NO_PROGRAMS} --submodule=short",
        shows=True,
    ),
    "branch": _subcommand(
        "patterns",
        "--list -l -a --all -r --remotes -v -vv --verbose --show-current -i --ignore-case --merged --no-merged "
        "--contains --no-contains",
        REFS_VALUED,
        always="--list",
    ),
    "rev-parse": _subcommand(
        "patterns", "--short --abbrev-ref --verify --symbolic-full-name --show-prefix -q --quiet", "--short"
    ),
    "describe": _subcommand(
        "patterns",
        "--tags --all --long --always --exact-match --first-parent",
        "--abbrev --match --exclude --candidates",
    ),
    "shortlog": _subcommand(
        "revisions",
        "-s --summary -n --numbered -e --email -sn -ns -sne -c --committer --all --no-merges --merges --branches",
        "--since --after --until --before --author --group --format --max-count",
        NUMBER,
    ),
    "tag": _subcommand(
        "patterns",
        "--list -l -n -i --ignore-case --merged --no-merged --contains --no-contains",
        REFS_VALUED,
        "-n[0-9]{1,6}",
        always="--list",
    ),
    "ls-files": _subcommand(
        "paths",
        "-c --cached -o --others -m --modified -d --deleted -s --stage -u --unmerged -i --ignored -t "
        "--exclude-standard --directory --no-empty-directory --abbrev --full-name",
        reads_files=True,
    ),
    "rev-list": _subcommand("revisions", "--count --all" + REFS + COMMITS, COMMITS_VALUED + REFS, NUMBER),
}
