"""What `init` tells git: files below `.fractary`, the clone's own configuration, the pre-commit hook."""

import os
import re
import shlex
from typing import NamedTuple

from faber_ledger.files import change
from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import run
from faber_ledger.runs.git_command import git, run_git, top_of
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.settings import project_settings

# The files that git reads

IGNORE_FILE = ".fractary/.gitignore"
STAYS = (
    run.STATE_BACKUP,
    run.with_suffix(run.STATE_BACKUP, "*"),
    f"*{BACKUP_ENDING}",
    "*.lock",
    f"*{JOURNAL_ENDING}",
    "*.tmp",
    "/faber/logs/",
    "/faber/writer",
    "/faber/worktrees.json*",
    *[name.removeprefix(".fractary") for name in run.ACTIVE_FILES],
)
IGNORED = change.block_lines("what stays on this machine", *STAYS)


def _patterns(name: str) -> list[str]:
    """Return git's patterns for a file of every run; in a plan's folder of FABER's its name has a suffix."""
    folders = [runs.removeprefix(".fractary") for runs in run.RUNS]
    return [*[f"{folder}/**/{name}" for folder in folders], f"{folders[1]}/**/{run.with_suffix(name, '*')}"]


# A filter, such as that of `git lfs track "*.db"`, would have git store something else, which no merge can read.
# Hosting sites fold generated files in a pull request.
OURS = "merge=faber-ledger -filter linguist-generated"
ATTRIBUTES = change.block_lines(
    "how git merges and shows a run's files",
    *[f"{path} binary diff=faber-ledger {OURS}" for path in _patterns(run.LEDGER)],
    *[f"{path} {OURS}" for path in _patterns(run.STATE)],
    *[f"{path} linguist-generated" for path in _patterns(run.METADATA)[:2]],  # it has no suffix
)
FILES = (IGNORE_FILE, run.ATTRIBUTES_FILE)


def needs_driver(root: str) -> bool:
    """Return whether git merges files of runs: not where ledgers travel in refs, and git ignores `state.json`."""
    if not carries_refs(root):
        return True
    examples = [f"{runs}/example/{run.STATE}" for runs in {run.RUNS[1], project_settings(root, os.environ).new_runs}]
    return run_git("check-ignore", "--no-index", *examples, at=root).returncode != 0  # 0: one is ignored


LEDGER_PATTERNS = _patterns(run.LEDGER)  # ignored where ledgers travel in refs


def _lines_of(root: str, name: str) -> tuple[str, ...] | None:
    """Return our lines in one of `FILES`; None if it has none."""
    if name == run.ATTRIBUTES_FILE:
        return ATTRIBUTES if needs_driver(root) else None
    if not carries_refs(root):
        return IGNORED
    beside = (
        [] if needs_driver(root) else _patterns(run.METADATA)[:2]
    )  # a project that ignores states wants no file of ours
    return change.block_lines("what stays on this machine", *STAYS, *LEDGER_PATTERNS, *beside)


def git_file_change(root: str, name: str, *, remove: bool = False) -> change.FileChange:
    """Return the change that puts our block into one of `FILES`, or removes it; raises LedgerError for a link."""
    path = os.path.join(root, *name.split("/"))
    if os.path.islink(path):
        message = f"{name} is a link, and git reads no rules through a link"
        raise LedgerError(message, hint="replace the link with a file")
    before = change.read_inside(path, root)
    lines = None if remove else _lines_of(root, name)
    if lines is None:
        return change.FileChange(path, before, change.without_block(before or b"") or None if before else before)
    return change.FileChange(path, before, change.with_block(before or b"", lines))


# The clone's own configuration

# Without it git shows a ledger too, but converts each version every time. Git keeps the text in commits: where it knows
# no name and email to commit with, `git log -p` would fail.
# Git keeps a `(not shown: …)` as well, until the cache is removed or the textconv line below changes.
CACHE = "diff.faber-ledger.cachetextconv"
DRIVER = {
    "merge.faber-ledger.name": "unites the events of a run",
    "merge.faber-ledger.driver": "faber-ledger merge-driver %O %A %B -- %P",
    "diff.faber-ledger.textconv": "faber-ledger textconv",
    CACHE: "true",
}
STASHES = ("merge.autoStash", "rebase.autoStash")  # a log changes all the time, and git refuses to pull over a change
MARK = "faber-ledger.autoStash"  # names those of STASHES that we have set, so that only these are removed


class Setting(NamedTuple):
    """A setting of the clone: its value now and the new one; None is unset."""

    key: str
    before: str | None
    after: str | None

    @property
    def command(self) -> str:
        """The git command that makes the change."""
        if self.after is None:
            return f"git config --local --unset-all {self.key}"
        return f"git config --local {self.key} '{self.after}'"


def settings_to_make(root: str) -> list[Setting]:
    """Return what `init` sets, including settings that are right already, but not those that the user has chosen.

    Where git merges no file of a run, ours are removed.
    """
    if not needs_driver(root):
        return settings_to_remove(root)
    local = _read_local(root)
    planned = [Setting(key, local.get(key), value) for key, value in DRIVER.items() if key != CACHE]
    cached = local.get(CACHE)
    if cached == "true" or _effective(root, CACHE) is None:
        due = "true" if _can_commit(root) else None
        planned += [Setting(CACHE, cached, due)] if cached or due else []
    marked = local.get(MARK)
    kept = [key for key in (marked or "").split() if local.get(key) != "false"]  # else the user has switched it off
    mine = [key for key in STASHES if key in kept or _effective(root, key) is None]
    planned += [Setting(key, local.get(key), "true") for key in mine]
    if mine:
        planned.append(Setting(MARK, marked, " ".join(mine)))
    return planned


def settings_to_remove(root: str) -> list[Setting]:
    """Return what `uninstall` removes: the settings that still have our values."""
    local = _read_local(root)
    ours = DRIVER | {key: "true" for key in STASHES if key in (local.get(MARK) or "").split()}
    found = [Setting(key, local.get(key), None) for key in (*ours, MARK)]
    return [
        setting
        for setting in found
        if setting.before is not None and setting.before == ours.get(setting.key, setting.before)
    ]


def describe_settings(settings: list[Setting]) -> str:
    """Return what happened to the settings as a line."""
    due = [one for one in settings if one.before != one.after]
    action = "unchanged" if not due else "changed" if any([one.after for one in due]) else "removed"
    named = dict.fromkeys([_short_name(one.key) for one in due or settings])
    return f"{action:<9}  this clone's git config: {', '.join(named)}"


def _short_name(key: str) -> str:
    return "autoStash" if key in (*STASHES, MARK) else f"the {key.partition('.')[0]} driver"


def make_settings(root: str, settings: list[Setting]) -> None:
    """Change the settings; raises GitFailed."""
    for key, before, after in settings:
        if after is None:
            git("config", "--local", "--unset-all", key, at=root)
        elif after != before:
            git("config", "--local", "--replace-all", key, after, at=root)


def _can_commit(root: str) -> bool:
    """Return whether git knows a name and an email address to commit with."""
    return all([run_git("var", f"GIT_{role}_IDENT", at=root).returncode == 0 for role in ("AUTHOR", "COMMITTER")])


def _read_local(root: str) -> dict[str, str]:
    """Return those of our settings that the clone's own configuration has; of several values the last."""
    ours = {key.lower(): key for key in (*DRIVER, *STASHES, MARK)}  # git lists names in lower case
    listed = run_git("config", "--local", "--list", "-z", at=root).stdout.decode("utf-8", "replace")
    found = [line.partition("\n") for line in listed.split("\0")]
    return {ours[name]: value for name, _, value in found if name in ours}


def _effective(root: str, key: str) -> str | None:
    output = run_git("config", "--type=bool", "--get", key, at=root).stdout
    return output.decode("utf-8", "replace").removesuffix("\n") if output else None


# Git's hooks

ALONE = b"#!/bin/sh\n"
SHELL = re.compile(rb"#! ?(/usr)?(/local)?/bin/(env (-S )?)?(ba|da|k|z)?sh\b")
LINES = {  # what each hook runs, and what its block is for
    "pre-commit": ("faber-ledger seal --pre-commit </dev/null || true", "prepares the active run for the commit"),
    "pre-push": ('faber-ledger sync --pushed-to "$1" </dev/null >/dev/null 2>&1 || true', "starts sending the ledgers"),
}
MANAGERS = (b"pre-commit.com", b"lefthook", b"husky", b"overcommit")  # what their hooks name


def _block(name: str, lines: list[str]) -> tuple[str, ...]:
    start = "if command -v faber-ledger >/dev/null 2>&1; then"
    return change.block_lines(LINES[name][1], start, *lines, "fi")


def _line_for(name: str, root: str, top: str) -> str:
    """Return a project's line in a hook; git runs the hook at the top of the repository."""
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    if inside == os.curdir:
        return f"  {LINES[name][0]}"
    folder = shlex.quote(inside)
    return f"  [ ! -d {folder}/.fractary ] || (cd ./{folder} && {LINES[name][0]})"


def why_not_ours(root: str, name: str) -> str | None:
    """Return who owns a hook of git instead of us: `core.hooksPath`, or another hook manager; None if nobody."""
    if run_git("config", "core.hooksPath", at=root).returncode == 0:
        return "`core.hooksPath` is set"
    content = change.read_file(_hook_path(root, name)) or b""
    is_managed = not change.has_block(content) and any([name in content for name in MANAGERS])
    return "another program manages this repository's hooks" if is_managed else None


def hook_change(root: str, top: str, name: str, *, remove: bool = False) -> change.FileChange:
    """Return the change that puts our block at the beginning of a hook, or removes it, and the hook if it was ours.

    Each project of the repository has a line in the block.

    Raises LedgerError for a hook that is not a shell script or not executable, and for a folder outside the repository.
    """
    path = _hook_path(root, name)
    before = change.read_file(path)
    line, ours = _line_for(name, root, top), re.escape(LINES[name][0])
    pattern = re.compile(rf"  ({ours}|\[ ! -d .+ \|\| \(cd .+ && {ours}\))")
    others = [one for one in os.fsdecode(before or b"").splitlines() if pattern.fullmatch(one) and one != line]
    if remove and others and before is not None:
        return change.FileChange(
            path, before, change.with_block(before, _block(name, others), after_first_line=True), executable=True
        )
    if remove:
        after = change.without_block(before) if before is not None else None
        return change.FileChange(path, before, None if after == ALONE and before != ALONE else after)
    _check_own_folder(path, root, top, LINES[name][0])
    if before is not None and not change.has_block(before):
        if not SHELL.match(before):
            raise LedgerError(
                f"the hook {path} is not a shell script",
                hint=f"call it from a shell script that also runs `{LINES[name][0]}`, or add that call to it",
            )
        if not os.access(path, os.X_OK):
            raise LedgerError(
                f"the hook {path} is switched off: it is not executable", hint="move it aside, or make it executable"
            )
    return change.FileChange(
        path,
        before,
        change.with_block(before or ALONE, _block(name, sorted({*others, line})), after_first_line=True),
        executable=True,
    )


def _hook_path(root: str, name: str) -> str:
    """Return the hook's path from git, which follows `core.hooksPath` and knows what linked worktrees share."""
    named = os.fsdecode(git("rev-parse", "--git-path", f"hooks/{name}", at=root)).removesuffix("\n")
    return os.path.normpath(os.path.join(root, named))


def _check_own_folder(path: str, root: str, top: str, line: str) -> None:
    common = os.fsdecode(git("rev-parse", "--git-common-dir", at=root)).removesuffix("\n")
    own = [os.path.realpath(folder) + os.sep for folder in (os.path.join(root, common), top)]
    if not os.path.realpath(path).startswith(tuple(own)):
        raise LedgerError(
            f"git's {os.path.basename(path)} hook is {os.path.realpath(path)}, outside this repository",
            hint=f"add `{line}` to the hook there yourself, if all its repositories should have it",
        )


def plan_hooks(
    root: str, pre_commit: bool | None, *, is_project: bool, is_sent: bool
) -> tuple[list[change.FileChange], list[str]]:
    """Return the changes of git's hooks, and what to do where another program owns one; `pre_commit` is the option.

    A push has our lines where a clone sends its ledgers automatically, `is_sent`. Raises LedgerError if the pre-commit
    hook is requested and cannot be installed.
    """
    top = top_of(root)
    if pre_commit and top is None:
        raise LedgerError("this is not a git repository: there is no commit to prepare", hint="run `git init`")
    planned = []
    if top is not None and (pre_commit or (is_project and pre_commit is None)):
        is_wanted = bool(pre_commit) or needs_driver(root)
        planned.append(_plan_hook(root, top, "pre-commit", is_wanted=is_wanted, is_asked=bool(pre_commit)))
    if top is not None and is_project:
        planned.append(_plan_hook(root, top, "pre-push", is_wanted=is_sent, is_asked=False))
    return [one for changes, _ in planned for one in changes], [one for _, notes in planned for one in notes]


def _plan_hook(
    root: str, top: str, name: str, *, is_wanted: bool, is_asked: bool
) -> tuple[list[change.FileChange], list[str]]:
    if not is_wanted:
        removal = hook_change(root, top, name, remove=True)
        return [removal] if removal.action != "unchanged" else [], []
    why = None if is_asked else why_not_ours(root, name)
    if why is None:
        try:
            return [hook_change(root, top, name)], []
        except LedgerError as error:
            if is_asked:
                raise
            why = error.message
    return [], [f"git's {name} hook is left as it is, since {why}: add the line `{LINES[name][0]}` to it"]
