"""Git artifacts: a fixed list of read-only subcommands, and which of their options are accepted."""

from __future__ import annotations

import os
import re

from faber_ledger.context.artifact import MAX_BYTES, NO_SOURCE, REFUSED, ArtifactError, fill_command
from faber_ledger.context.artifact_command import ProgramFailed, decode_output, run_program
from faber_ledger.runs.git import top_above
from faber_ledger.runs.git_query import FOREIGN, QUIET, options_against_filters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from faber_ledger.context.artifact import Content, Surroundings
    from faber_ledger.context.workflow import Artifact


SECONDS = 5.0
NOT_LEDGERS = ":(exclude).fractary"  # every append there would change the answer
PARENTS = r"(\^[@!]|\^-[0-9]*)?\Z"  # can follow a commit only at the end of a word
# With one of these options git searches for the branches or tags that a word names; without, it creates one.
SEARCHES = "--list|-l|--(no-)?(contains|merged)|--points-at"
LISTING_OPTIONS = {"branch": rf"({SEARCHES})(=|\Z)", "tag": rf"({SEARCHES})(=|\Z)|-n[0-9]*\Z"}
SHELL_SYNTAX = r"[|&;<>]+.*|[0-9]?>.*|.*(?:`|\$\().*"
SETTINGS = {
    "color.ui": "false",
    "column.ui": "never",
    "core.fsmonitor": "",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "diff.autoRefreshIndex": "false",
    "diff.external": "",
    "diff.submodule": "short",
    "gpg.openpgp.program": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.diffMerges": "separate",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
ENVIRONMENT = QUIET | {"GIT_PAGER": "cat", "LC_ALL": "C"}
REMOVED_VARIABLES = {*FOREIGN, "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "LANGUAGE"}


def read_git(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Ask git; raises ArtifactError if the command is not on the list of read-only commands, or fails."""
    command = artifact["command"]
    if not command:
        raise ArtifactError(NO_SOURCE)
    arguments = git_arguments(command, surroundings)
    try:
        answer = _ask_git(arguments, surroundings["root"])
        text = decode_output(answer)
    except ProgramFailed as error:
        raise ArtifactError(f"`git {arguments[0]}` failed: {error}", command) from error
    return {
        "text": text,
        "source": command,
        "resolved": fill_command(command, surroundings),
        "size_bytes": len(answer),
        "is_deferred": False,
    }


def git_arguments(command: str, surroundings: Surroundings) -> list[str]:
    """Return the arguments of a git command, checked against the list; raises ArtifactError with the reason.

    The command is split as a shell would split it, without a shell. `.fractary` is excluded where paths can be named.
    """
    words = [fill_command(word, surroundings) for word in _words(command)]
    if words[:1] == ["git"]:
        del words[0]
    if words[:1] == ["--no-pager"]:
        del words[0]
    if not words or words[0] not in SUBCOMMANDS:
        raise _refusal(words[0] if words else "", f"only these git commands are allowed: {', '.join(SUBCOMMANDS)}")
    name, given = words[0], words[1:]
    known = SUBCOMMANDS[name]
    if name == "branch" and given == ["--show-current"]:
        return words  # git refuses --list beside it; without --list, another word would create a branch
    arguments = [name, *known.always]
    options = given[: given.index("--")] if "--" in given else [*given]
    paths = given[len(options) + 1 :]
    while options:
        word = options.pop(0)
        if not word.startswith("-"):
            if name in LISTING_OPTIONS and not any([re.match(LISTING_OPTIONS[name], option) for option in given]):
                raise _refusal(word, f"`git {name}` would create it; --list {word} searches for it")
            is_path = known.names == "paths"
            (paths if is_path else arguments).append(word if is_path else _revision(word, of_commits=known.shows))
        elif word in known.flags or re.fullmatch(known.numbers, word):
            arguments.append(word)
        elif word.partition("=")[0] in known.valued:
            arguments.append(_join_value(word, options))
        else:
            raise _refusal(word, f"`git {name}` may not have this option here; only options that read are allowed")
    if name == "shortlog" and all([word.startswith("-") for word in arguments[1:]]):
        arguments.append("HEAD")  # it would read its standard input
    if known.names == "patterns":
        if paths:
            raise _refusal(paths[0], f"`git {name}` may not have paths here")
        return arguments
    return [*arguments, "--", *[_path(path, surroundings) for path in paths], NOT_LEDGERS]


def _words(command: str) -> list[str]:
    import shlex  # only git artifacts need it

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArtifactError(f"Command cannot be split: {error}", command) from error
    for word in words:
        if re.fullmatch(SHELL_SYNTAX, word):
            raise _refusal(word, "there is no shell")
    return words


def _join_value(word: str, rest: list[str]) -> str:
    """Return an option joined with its value, so that git cannot take the value for anything else."""
    if "=" in word:
        return word
    if not rest:
        raise _refusal(word, "it needs a value")
    return f"{word}={rest.pop(0)}" if word.startswith("--") else f"{word}{rest.pop(0)}"


def _revision(word: str, *, of_commits: bool) -> str:
    """Return a revision, limited to commits where git would show a file or folder by its hash alone.

    Shown by its hash, a folder is compared as if it were the whole tree, and no pathspec excludes the ledger's files.
    """
    before, colon, path = re.sub(r"\{[^{}]*\}", lambda found: "_" * len(found[0]), word).partition(":")
    if colon and not word.startswith(":/"):
        names = path.split("/")
        if ".fractary" in re.split("[:/]", path):
            raise _refusal(word, "what the ledger writes is excluded")
        if ".." in path or not {*names} - {"", "."}:
            raise _refusal(word, "only a file or folder of a revision can be shown, by its path in the repository")
        return f"{word[: len(before)]}^{{commit}}{word[len(before) :]}" if before and of_commits else word
    if colon or not of_commits:
        return word
    ends = re.split(r"(\.{2,3})", word)
    return "".join([end if end in ("", "..", "...") else re.sub(PARENTS, r"^{commit}\1", end, count=1) for end in ends])


def _path(path: str, surroundings: Surroundings) -> str:
    """Return a path in the project; git would compare files anywhere, and its own syntax starts with a colon."""
    path = path.removeprefix(os.path.join(surroundings["root"], "")) or "."
    if path.startswith((":", "/")) or ".." in path.split("/"):
        raise _refusal(path, "a path must be in the project")
    return path


def _ask_git(arguments: list[str], root: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES} | ENVIRONMENT
    at = top_above(root)
    if at is None:
        raise ProgramFailed("not a git repository")
    environment["GIT_WORK_TREE"] = at  # whatever core.worktree says
    git = ["git", "-C", root, "--no-pager"]  # without the shell that changes the folder, which takes 2 ms
    for name, value in SETTINGS.items():
        git += ["-c", f"{name}={value}"]
    if SUBCOMMANDS[arguments[0]].reads_files:
        git += _options_against_filters(root, environment)
    return run_program([*git, *arguments], None, environment, seconds=SECONDS, limit=MAX_BYTES)


def _options_against_filters(root: str, environment: dict[str, str]) -> list[str]:
    """Return options that keep git from running filters from its settings on changed files; raises ProgramFailed."""
    question = ["git", "-C", root, "config", "--name-only", "--get-regexp", "."]
    names = run_program(question, None, environment, seconds=SECONDS, limit=MAX_BYTES).decode("utf-8", "replace")
    options = options_against_filters(names)
    if options is None:
        raise ProgramFailed("the repository's settings have a filter with a name that cannot be disabled")
    return options


def _refusal(word: str, reason: str) -> ArtifactError:
    return ArtifactError(f"{REFUSED}{word!r:.80} - {reason}")


class Subcommand:
    """What may follow a subcommand's name.

    `always` is always added; `valued` options take a value; `numbers` matches options like `-20` and `-U3`.
    `names` says what its other words are, and so whether paths may follow; `reads_files` whether git reads the files in
    the work tree, not only what it has recorded; `shows` whether it would show a file or folder by its hash.
    """

    def __init__(
        self,
        names: Literal["revisions", "paths", "patterns"],
        flags: str,
        valued: str = "",
        numbers: str = "(?!)",
        *,
        always: str = "",
        reads_files: bool = False,
        shows: bool = False,
    ) -> None:
        self.names, self.numbers, self.reads_files, self.shows = names, numbers, reads_files, shows
        self.always, self.flags, self.valued = always.split(), flags.split(), valued.split()


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
    "log": Subcommand(
        "revisions",
        COMMITS + CHANGES + REFS + "--all",
        COMMITS_VALUED + CHANGES_VALUED + REFS,
        f"{NUMBER}|{CONTEXT}",
        always=f"{NO_PROGRAMS} --submodule=short",
    ),
    "status": Subcommand(
        "paths",
        "-s --short -b --branch --show-stash --porcelain --long --ahead-behind --no-ahead-behind --no-renames "
        "-sb -bs -uno -unormal -uall --untracked-files",
        "--porcelain --untracked-files",
        always="--ignore-submodules=all",
        reads_files=True,
    ),
    "diff": Subcommand(
        "revisions",
        CHANGES + "--cached --staged --merge-base -R",
        CHANGES_VALUED,
        CONTEXT,
        always=f"{NO_PROGRAMS} --ignore-submodules=all",
        reads_files=True,
        shows=True,
    ),
    "show": Subcommand(
        "revisions",
        COMMITS + CHANGES,
        COMMITS_VALUED + CHANGES_VALUED,
        CONTEXT,
        always=f"{NO_PROGRAMS} --submodule=short",
        shows=True,
    ),
    "branch": Subcommand(
        "patterns",
        "--list -l -a --all -r --remotes -v -vv --verbose --show-current -i --ignore-case --merged --no-merged "
        "--contains --no-contains",
        REFS_VALUED,
        always="--list",
    ),
    "rev-parse": Subcommand(
        "patterns", "--short --abbrev-ref --verify --symbolic-full-name --show-prefix -q --quiet", "--short"
    ),
    "describe": Subcommand(
        "patterns",
        "--tags --all --long --always --exact-match --first-parent",
        "--abbrev --match --exclude --candidates",
    ),
    "shortlog": Subcommand(
        "revisions",
        "-s --summary -n --numbered -e --email -sn -ns -sne -c --committer --all --no-merges --merges --branches",
        "--since --after --until --before --author --group --format --max-count",
        NUMBER,
    ),
    "tag": Subcommand(
        "patterns",
        "--list -l -n -i --ignore-case --merged --no-merged --contains --no-contains",
        REFS_VALUED,
        "-n[0-9]{1,6}",
        always="--list",
    ),
    "ls-files": Subcommand(
        "paths",
        "-c --cached -o --others -m --modified -d --deleted -s --stage -u --unmerged -i --ignored -t "
        "--exclude-standard --directory --no-empty-directory --abbrev --full-name",
        reads_files=True,
    ),
    "rev-list": Subcommand("revisions", "--count --all" + REFS + COMMITS, COMMITS_VALUED + REFS, NUMBER),
}
