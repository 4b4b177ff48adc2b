"""What git says as an artifact: read-only questions that run no program, whatever a repository's settings name.

Settings can come with a repository (an embedded bare one, a copied folder), so each that starts a program is set here.
"""

from __future__ import annotations

import os
import re

from faber_ledger.context.artifact_source import NO_SOURCE
from faber_ledger.context.artifacts import MAX_BYTES, REFUSED, ArtifactError
from faber_ledger.context.git_options import SUBCOMMANDS
from faber_ledger.context.placeholders import filled_command
from faber_ledger.context.program import ProgramFailed, output_of, text_of_output
from faber_ledger.runs.git import FOREIGN, QUIET, worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact_source import Surroundings
    from faber_ledger.context.artifacts import Artifact, Content

SECONDS = 5.0
NOT_LEDGERS = ":(exclude).fractary"  # what the ledger appends there would change the answer at every turn
PARENTS = r"(\^[@!]|\^-[0-9]*)?\Z"  # what can follow a commit only at a word's end
# With one of these git looks for the branches or tags that a word names, where it would make one.
LOOKED_FOR = "--list|-l|--(no-)?(contains|merged)|--points-at"
MADE_BY_WORD = {"branch": rf"({LOOKED_FOR})(=|\Z)", "tag": rf"({LOOKED_FOR})(=|\Z)|-n[0-9]*\Z"}
OF_SHELL = r"[|&;<>]+.*|[0-9]?>.*|.*(?:`|\$\().*"
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
NOT_ENVIRONMENT = {*FOREIGN, "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "LANGUAGE"}


def read_git(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Ask git; raises ArtifactError for what is not on the list of read-only commands, or fails."""
    command = artifact["command"]
    if not command:
        raise ArtifactError(NO_SOURCE)
    arguments = git_arguments(command, surroundings)
    try:
        answer = _answer(arguments, surroundings["root"])
        text = text_of_output(answer)
    except ProgramFailed as error:
        raise ArtifactError(f"`git {arguments[0]}` failed: {error}", command) from error
    return {
        "text": text,
        "source": command,
        "resolved": filled_command(command, surroundings),
        "size_bytes": len(answer),
        "is_deferred": False,
    }


def git_arguments(command: str, surroundings: Surroundings) -> list[str]:
    """Give the arguments of a git command, checked against the list; raises ArtifactError with the reason.

    The command is split as a shell would, and no shell is asked. `.fractary` is left out where paths can be named.
    """
    words = [filled_command(word, surroundings) for word in _words(command)]
    if words[:1] == ["git"]:
        del words[0]
    if words[:1] == ["--no-pager"]:
        del words[0]
    if not words or words[0] not in SUBCOMMANDS:
        raise _refused(words[0] if words else "", f"of git, only {', '.join(SUBCOMMANDS)} can be asked")
    name, given = words[0], words[1:]
    known = SUBCOMMANDS[name]
    if name == "branch" and given == ["--show-current"]:
        return words  # git takes no --list beside it, and without one it would make a branch of any other word
    arguments = [name, *known["always"]]
    options = given[: given.index("--")] if "--" in given else [*given]
    paths = given[len(options) + 1 :]
    while options:
        word = options.pop(0)
        if not word.startswith("-"):
            if name in MADE_BY_WORD and not any([re.match(MADE_BY_WORD[name], option) for option in given]):
                raise _refused(word, f"`git {name}` would make a new one; --list {word} looks for it")
            is_path = known["names"] == "paths"
            (paths if is_path else arguments).append(word if is_path else _revision(word, of_commits=known["shows"]))
        elif word in known["flags"] or re.fullmatch(known["numbers"], word):
            arguments.append(word)
        elif word.partition("=")[0] in known["valued"]:
            arguments.append(_with_value(word, options))
        else:
            raise _refused(word, f"`git {name}` has no such option here; those that only read are on a list")
    if name == "shortlog" and all([word.startswith("-") for word in arguments[1:]]):
        arguments.append("HEAD")  # it would read its standard input
    if known["names"] == "patterns":
        if paths:
            raise _refused(paths[0], f"`git {name}` takes no paths here")
        return arguments
    return [*arguments, "--", *[_path(path, surroundings) for path in paths], NOT_LEDGERS]


def _words(command: str) -> list[str]:
    import shlex  # only who asks git pays for it

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArtifactError(f"Command cannot be split: {error}", command) from error
    for word in words:
        if re.fullmatch(OF_SHELL, word):
            raise _refused(word, "there is no shell")
    return words


def _with_value(word: str, rest: list[str]) -> str:
    """Join an option and its value, so that the value can be nothing else."""
    if "=" in word:
        return word
    if not rest:
        raise _refused(word, "it needs a value")
    return f"{word}={rest.pop(0)}" if word.startswith("--") else f"{word}{rest.pop(0)}"


def _revision(word: str, *, of_commits: bool) -> str:
    """Check a revision, and make it one of commits where git would show a file or folder by its hash alone.

    Then no pathspec leaves out what the ledger writes, and a folder inside it is compared as if it were all there is.
    """
    before, colon, path = re.sub(r"\{[^{}]*\}", lambda found: "_" * len(found[0]), word).partition(":")
    if colon and not word.startswith(":/"):
        names = path.split("/")
        if ".fractary" in re.split("[:/]", path):
            raise _refused(word, "what the ledger writes is left out")
        if ".." in path or not {*names} - {"", "."}:
            raise _refused(word, "only a file or folder of a revision can be shown, by its path in the repository")
        return f"{word[: len(before)]}^{{commit}}{word[len(before) :]}" if before and of_commits else word
    if colon or not of_commits:
        return word
    ends = re.split(r"(\.{2,3})", word)
    return "".join([end if end in ("", "..", "...") else re.sub(PARENTS, r"^{commit}\1", end, count=1) for end in ends])


def _path(path: str, surroundings: Surroundings) -> str:
    """Give a path in the project; git would compare files anywhere, and its own syntax starts with a colon."""
    path = path.removeprefix(os.path.join(surroundings["root"], "")) or "."
    if path.startswith((":", "/")) or ".." in path.split("/"):
        raise _refused(path, "a path must be one in the project")
    return path


def _answer(arguments: list[str], root: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_ENVIRONMENT} | ENVIRONMENT
    at = worktree(root)
    if at is None:
        raise ProgramFailed("not a git repository")
    environment["GIT_WORK_TREE"] = at  # whatever core.worktree says
    git = ["git", "--no-pager"]
    for name, value in SETTINGS.items():
        git += ["-c", f"{name}={value}"]
    if SUBCOMMANDS[arguments[0]]["reads_files"]:
        git += _without_filters(root, environment)
    return output_of([*git, *arguments], root, environment, seconds=SECONDS, limit=MAX_BYTES)


def _without_filters(root: str, environment: dict[str, str]) -> list[str]:
    """Give the options that keep git from running the settings' filters on a changed file; raises ProgramFailed."""
    question = ["git", "config", "--name-only", "--get-regexp", "."]
    names = output_of(question, root, environment, seconds=SECONDS, limit=MAX_BYTES).decode("utf-8", "replace")
    filters = [name[7:].rpartition(".") for name in names.split("\n") if name.startswith("filter.")]
    options = []
    for name in sorted({name for name, dot, _ in filters if dot}):
        if "=" in name or "\ufffd" in name:
            raise ProgramFailed("the repository's settings have a filter whose name cannot be set aside")
        for variable, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            options += ["-c", f"filter.{name}.{variable}={value}"]
    return options


def _refused(word: str, reason: str) -> ArtifactError:
    return ArtifactError(f"{REFUSED}{word!r:.80} - {reason}")
