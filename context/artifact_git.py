"""Git artifacts: a fixed list of read-only subcommands, and which of their options are accepted."""

from __future__ import annotations

import os
import re

from faber_ledger.context.artifact import MAX_BYTES, NO_SOURCE, REFUSED, ArtifactError, fill_command, text_of
from faber_ledger.ledger.clock import check_time
from faber_ledger.runs.git import top_above
from faber_ledger.runs.git_query import GitQuery, options_against_filters, time_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact import Content, Surroundings
    from faber_ledger.context.workflow import Artifact


SECONDS = 5.0
NOT_LEDGERS = ":(exclude).fractary"  # every append there would change the answer
REVISION = r"\^?[\w@][\w./@~^{}+#-]*"  # no colon: a file or folder by its hash would show the ledger's files
PARENTS = r"(\^[@!]|\^-[0-9]*)?\Z"  # can follow a commit only at the end of a word
SHELL_SYNTAX = r"[|&;<>]+.*|[0-9]?>.*|.*(?:`|\$\().*"
SETTINGS = {
    "color.ui": "false",
    "column.ui": "never",
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
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}


def read_git(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Ask git; raises ArtifactError if the command is not on the list of read-only commands, or fails."""
    command = artifact["command"]
    if not command:
        raise ArtifactError(NO_SOURCE)
    arguments = git_arguments(command, surroundings)
    try:
        answer = _ask_git(arguments, surroundings["root"])
        text = text_of(answer) or "(no output)\n"
    except ValueError as error:
        raise ArtifactError(f"`git {arguments[0]}` failed: {error}", command) from error
    return {"text": text, "source": command, "resolved": fill_command(command, surroundings), "size_bytes": len(answer)}


def git_arguments(command: str, surroundings: Surroundings) -> list[str]:
    """Return the arguments of a git command, checked against the list; raises ArtifactError with the reason.

    The command is split as a shell would split it, without a shell. `.fractary` is excluded where paths can be named.
    """
    words = [fill_command(word, surroundings) for word in _words(command)]
    for prefix in ("git", "--no-pager"):
        if words[:1] == [prefix]:
            del words[0]
    if not words or words[0] not in SUBCOMMANDS:
        raise _refusal(words[0] if words else "", f"only these git commands are allowed: {', '.join(SUBCOMMANDS)}")
    name, given = words[0], words[1:]
    always, flags, valued = [listed.split() for listed in SUBCOMMANDS[name]]
    if name == "branch" and given == ["--show-current"]:
        return words  # git refuses --list beside it; without --list, another word would create a branch
    arguments = [name, *always]
    options = given[: given.index("--")] if "--" in given else [*given]
    paths = given[len(options) + 1 :]
    while options:
        word = options.pop(0)
        if not word.startswith("-") and name in OF_REVISIONS:
            arguments.append(_revision(word) if name in SHOWING else word)
        elif word in flags or (name in SHOWING and re.fullmatch(NUMBER, word)):
            arguments.append(word)
        elif word.partition("=")[0] in valued:
            arguments.append(_join_value(word, options))
        else:
            raise _refusal(word, f"`git {name}` may not have this here; only what reads is allowed")
    if name in WITH_PATHS:
        return [*arguments, "--", *[_path(path, surroundings) for path in paths], NOT_LEDGERS]
    if paths:
        raise _refusal(paths[0], f"`git {name}` may not have paths here")
    return arguments


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


def _revision(word: str) -> str:
    """Return a revision or range, limited to commits; raises ArtifactError for a file or folder of one."""
    if not re.fullmatch(REVISION, word):
        raise _refusal(word, "only commits can be named, and paths after --")
    ends = re.split(r"(\.{2,3})", word)
    return "".join([end if end in ("", "..", "...") else re.sub(PARENTS, r"^{commit}\1", end, count=1) for end in ends])


def _path(path: str, surroundings: Surroundings) -> str:
    """Return a path in the project; git would compare files anywhere, and its own syntax starts with a colon."""
    path = path.removeprefix(os.path.join(surroundings["root"], "")) or "."
    if path.startswith((":", "/")) or ".." in path.split("/"):
        raise _refusal(path, "a path must be in the project")
    return path


def _ask_git(arguments: list[str], root: str) -> bytes:
    """Return git's answer; raises ValueError if it gives none."""
    top = top_above(root)
    if top is None:
        raise ValueError("not a git repository")
    deadline = time_limit(SECONDS)
    options = [f"--work-tree={top}", "--no-pager"]  # whatever core.worktree says
    for name, value in SETTINGS.items():
        options += ["-c", f"{name}={value}"]
    if arguments[0] in ("status", "diff"):  # they read the files in the work tree
        names = GitQuery(["config", "--name-only", "--get-regexp", "."], root, deadline=deadline).answer()
        filters = options_against_filters(names) if names is not None else None
        if filters is None:
            raise ValueError("a filter of the repository's settings cannot be disabled")
        options += filters
    answer = GitQuery([*options, *arguments], root, limit=MAX_BYTES + 1, deadline=deadline).answer_bytes()
    if answer is None:
        check_time()
        raise ValueError(f"it ended with an error, or took more than {SECONDS:g} seconds or {MAX_BYTES:,} bytes")
    return answer


def _refusal(word: str, reason: str) -> ArtifactError:
    return ArtifactError(f"{REFUSED}{word!r:.80} - {reason}")


CHANGES = "-p --patch --stat --shortstat --numstat --summary --name-only --name-status -w --no-renames"
COMMITS = "--oneline --graph --decorate --merges --no-merges --first-parent --reverse --abbrev-commit -s --no-patch"
COMMITS_VALUED = "-n --max-count --skip --since --after --until --before --author --grep --format --pretty --date"
NUMBER = r"-n?[0-9]{1,6}|-U[0-9]{1,6}"
NO_PROGRAMS = "--no-ext-diff --no-textconv"

OF_REVISIONS = ("log", "diff", "show", "rev-parse")
SHOWING = ("log", "diff", "show")
WITH_PATHS = ("log", "status", "diff", "show")

# For each subcommand the options that are always added, those without a value, and those that take one.
SUBCOMMANDS = {
    "log": (
        f"{NO_PROGRAMS} --submodule=short",
        f"{COMMITS} {CHANGES} --all --branches --tags --remotes",
        f"{COMMITS_VALUED} --diff-filter",
    ),
    "status": ("--ignore-submodules=all", "-s --short -b --branch -sb --porcelain --long -uno -unormal -uall", ""),
    "diff": (f"{NO_PROGRAMS} --ignore-submodules=all", f"{CHANGES} --cached --staged --merge-base", "--diff-filter"),
    "show": (f"{NO_PROGRAMS} --submodule=short", f"{COMMITS} {CHANGES}", f"{COMMITS_VALUED} --diff-filter"),
    "branch": (
        "--list",
        "--list -l -a --all -r --remotes -v -vv --show-current",
        "--format --sort --merged --no-merged",
    ),
    "rev-parse": ("", "--short --abbrev-ref --verify --show-prefix", "--short"),
    "describe": ("", "--tags --all --long --always --exact-match", "--abbrev --match"),
}
