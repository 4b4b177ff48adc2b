"""`faber-ledger init`: add the hooks to the client's settings, and tell git how to treat a run's files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from faber_ledger.cli.setup import git, project, tracking
from faber_ledger.cli.setup.agents import add_agent_hooks, describe_agent_file
from faber_ledger.cli.setup.hooks import describe_plugins, has_plugin_instead, note_without_plugin, settings_change
from faber_ledger.cli.sync import agreement
from faber_ledger.cli.sync.arrival import required_remote
from faber_ledger.cli.ui.changes import (
    describe,
    diff_lines,
    display_path,
    dry_run_option,
    in_project,
    remove_empty_folders,
    report,
    scope_option,
)
from faber_ledger.cli.ui.output import json_option, say, show
from faber_ledger.cli.ui.words import place_lines
from faber_ledger.cli.worktrees.git import refuse_bare
from faber_ledger.files.change import FileChange, make_changes
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.agents import SET_UPS
from faber_ledger.hooks.client_settings import HOOK_PROGRAM, settings_path
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.publish import meant_carry
from faber_ledger.runs.run import ACTIVE_FILES, ATTRIBUTES_FILE, REFS, TREE, find_root
from faber_ledger.runs.settings import PATH, project_settings

OF_ALL_PROJECTS = (
    "summaries of compactions are recorded and committed, secrets masked; "
    f'a project keeps them in each clone with `{{"summaries": false}}` in {PATH}'
)
OF_HOOKS = {
    "pre-commit": "the active run goes into each commit",
    "pre-push": "a push starts the sending of ledgers, too",
}
PURPOSES = {
    git.IGNORE_FILE: "backups, logs and the active file stay out of git",
    ATTRIBUTES_FILE: "git merges and shows a run's files with faber-ledger",
    PATH: "the project's id, how ledgers travel, and whether summaries are {travel}",
}


@click.command(short_help="Add the four hooks to the client's settings.")
@scope_option
@click.option(
    "--git-only", "part", flag_value="git", help="Set up only git, as each clone needs it: no client settings."
)
@click.option(
    "--plugin", "part", flag_value="plugin", help="As --git-only, where the client's plugin faber-ledger has the hooks."
)
@click.option("--agent", type=click.Choice([*SET_UPS]), help="Add the hooks to another agent's file, not the client's.")
@click.option(
    "--pre-commit/--no-pre-commit",
    default=None,
    help="Install the lines of git's pre-commit hook, or do not. Without either they are installed unless another "
    "program owns the hook: then the line to add is printed.",
)
@click.option(
    "--commands",
    "with_commands",
    is_flag=True,
    help="Also write the slash commands /fractary-faber:session-load, session-save, prime-context and session-end, "
    "which FABER's own plugin has.",
)
@click.option(
    "--summaries/--no-summaries",
    default=None,
    help="Record summaries of compactions, so that they are committed; or keep them in their clone. Without either you "
    "are asked on a terminal; elsewhere a project that is set up for the first time records them. One that was set up "
    "before keeps its setting.",
)
@click.option(
    "--carry",
    type=click.Choice(["tree", "refs"]),
    help="How the runs' ledgers travel: with the code (tree), or each in a git ref of its own (refs), which this clone "
    "then sends to the remote and fetches from there. Without it you are asked once on a terminal.",
)
@click.option("--remote", metavar="NAME", help="With --carry refs: the remote, instead of origin or the only one.")
@click.option(
    "--auto-send/--no-auto-send",
    default=None,
    help="With --carry refs: hooks start a process that sends after each session's end; or only `sync` sends.",
)
@click.option("--fetch", is_flag=True, help="Fetch the run whose branch is checked out, where ledgers travel in refs.")
@dry_run_option
@json_option
def init(dry_run: bool, as_json: bool, **given: Any) -> None:
    """Add the four hooks to the client's settings, and tell git how to treat a run's files, also in this clone.

    Where the client's plugin runs the hooks, none are added.

    \b
    Example: faber-ledger init --dry-run
    Exit codes: 0 done, or nothing to do; 1 a file cannot be used, or git ignores
    what it must track; 2 wrong usage; 13 the remote does not answer.
    """
    root, options = find_root(os.getcwd()), Options(**given)
    scope = options.scope
    is_project = options.part is not None or in_project(root, scope)
    _check_usage(root, options, is_project=is_project)
    hooks = _plan_hooks(root, scope, options.part, options.agent)
    can_ask = is_project and not (dry_run or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    chosen = _choose_carry(root, options.carry, asks=can_ask, fetches=options.fetch)
    travel = agreement.plan_carry(root, chosen, options.remote, options.auto_send)
    files = _plan_files(root, options.summaries, travel, can_ask=can_ask) if is_project else []
    git_says = tracking.check_not_ignored(root) if is_project else None
    pre_commits, notes = _plan_git_hooks(root, options.pre_commit, travel, is_project=is_project)
    commands = project.add_commands(root) if options.with_commands else []
    shared = [*files, *pre_commits, *commands]
    changes, notes = [*hooks.own, *shared], [*hooks.notes, *notes]
    config: list[git.Setting] = []
    if is_project and top_of(root) is not None:
        config = git.settings_to_make(root)
        notes += _tracked_notes(root)
    notes += _make(root, changes, config, travel, is_project=is_project, dry_run=dry_run)
    failure = None if dry_run else _fetch(root, options, travel, notes)
    notes += _project_notes(root, git_says, travel) if is_project else []
    committed = [*(hooks.own if scope == "project" else []), *shared]
    commit = tracking.names_to_commit(committed, root) if git_says is None else []
    data = report(changes, root, dry_run=dry_run) | {
        "scope": scope if hooks.has_settings else None,
        "git_config": [one._asdict() for one in config],
        "commit": commit,
        "notes": notes,
    }
    show(data, _lines(changes, config, root, commit, dry_run=dry_run, has_settings=hooks.has_settings), as_json=as_json)
    for note in [] if as_json else notes:  # they are in the data
        say(f"note: {note}")
    if failure is not None:
        raise failure


def _make(
    root: str,
    changes: list[FileChange],
    config: list[git.Setting],
    travel: agreement.CarryPlan,
    *,
    is_project: bool,
    dry_run: bool,
) -> list[str]:
    """Make the changes unless it is a dry run, and return what to say of how ledgers travel."""
    if dry_run:
        said = f"this clone would send its ledgers to {travel.remote}, where everybody who reads it can read them"
        return [said] if travel.mode == REFS else []
    make_changes(changes)
    git.make_settings(root, config)
    remove_empty_folders(changes, root)
    return [*agreement.carry_out(root, travel, say)] if is_project else []


def _fetch(root: str, options: Options, travel: agreement.CarryPlan, notes: list[str]) -> LedgerError | None:
    """Bring the runs at work here, and note which; return what failed, since the changes are to be reported first."""
    if not options.fetch and (options.carry is not None or travel.mode != REFS):
        return None
    try:
        notes += agreement.fetch_here(root, say)
    except LedgerError as error:
        return error
    return None


class Options(NamedTuple):
    """The options that say what is set up; `part` is `git` or `plugin` for a part of it."""

    scope: str
    part: str | None
    agent: str | None
    pre_commit: bool | None
    with_commands: bool
    summaries: bool | None
    carry: str | None
    remote: str | None
    auto_send: bool | None
    fetch: bool


def _check_usage(root: str, options: Options, *, is_project: bool) -> None:
    """Raise UsageError for options that do not go together, and NoWorkTree in a bare repository."""
    needs_project = options.with_commands or options.fetch or (options.summaries, options.carry) != (None, None)
    if is_project:
        refuse_bare(root)
    elif needs_project:
        raise click.UsageError("--commands, --summaries, --carry and --fetch need a project, and there is none here.")
    if options.agent is not None and (options.part is not None or options.scope == "local"):
        raise click.UsageError("--agent goes with --scope project or user, and not with --git-only or --plugin.")
    if options.carry != REFS and (options.remote, options.auto_send) != (None, None):
        raise click.UsageError("--remote, --auto-send and --no-auto-send go with --carry refs.")
    if options.carry == TREE and options.fetch:
        raise click.UsageError("--fetch fetches from git refs, and does not go with --carry tree.")


def _project_notes(root: str, git_says: str | None, travel: agreement.CarryPlan) -> Iterator[str]:
    """Yield what is wrong with the project's settings, and what keeps git from files that must travel."""
    for problem in project_settings(root, {}).problems:
        yield f"{problem}; correct it, then run `faber-ledger init` again"
    if git_says:
        yield git_says
    elif travel.mode == TREE and tracking.is_state_left_out(root):
        yield "git ignores state.json: only the ledger travels; `faber-ledger run resume RUN` writes a state from it"
    if tracking.is_ignored(root, PATH):
        yield f"git ignores {PATH}: other clones lack that setting, and record summaries of compactions"


def _plan_git_hooks(
    root: str, pre_commit: bool | None, travel: agreement.CarryPlan, *, is_project: bool
) -> tuple[list[FileChange], list[str]]:
    """Return the changes of git's hooks, and what to do where another program owns one."""
    commits, notes = git.plan_pre_commit(root, pre_commit, is_project=is_project)
    pushes, said = (
        git.plan_pre_push(root, is_sent=agreement.is_sent_automatically(root, travel)) if is_project else ([], [])
    )
    return [*commits, *pushes], [*notes, *said]


class Hooks(NamedTuple):
    """The changes that add the hooks to a scope's file, and what to say."""

    own: list[FileChange]
    notes: list[str]
    has_settings: bool


def _plan_hooks(root: str, scope: str, part: str | None, agent: str | None) -> Hooks:
    if agent is not None:
        changes, notes = add_agent_hooks(root, scope, agent)
        return Hooks(changes, [*notes, *_path_warnings()], has_settings=False)
    has_settings = part is None and not has_plugin_instead(root, scope)
    notes = [*note_without_plugin(root)] if part == "plugin" else []
    if part != "git":
        notes += [*describe_plugins(root, scope, are_settings_written=has_settings), *_path_warnings()]
    if not has_settings:
        return Hooks([], notes, has_settings=False)
    settings = settings_change(root, scope)
    notes += _warnings((settings.after or b"").decode(), root, scope)
    return Hooks([settings], notes, has_settings=True)


def _plan_files(root: str, summaries: bool | None, travel: agreement.CarryPlan, *, can_ask: bool) -> list[FileChange]:
    """Return the changes of what git reads and of the project's settings."""
    changes = [git.git_file_change(root, name) for name in git.FILES]
    if summaries is None and can_ask and project.is_choice_due(root):
        for line in project.choice_lines(root):
            say(line)
        summaries = click.confirm(
            project.QUESTION.format(travel=project.travel_word(root)), default=project.RECORDED_BY_DEFAULT, err=True
        )
    of_project = project.project_change(root, summaries, travel.mode)
    return [*changes, *([of_project] if of_project is not None else [])]


def _tracked_notes(root: str) -> list[str]:
    """Return how git stops to track each active file that it tracks."""
    tracked = [name for name in ACTIVE_FILES if is_tracked(os.path.join(root, *name.split("/"))) is True]
    return [
        f"git tracks {name}, which is each work tree's own: run `git rm --cached {name}`, and commit;"
        " a colleague's pull then removes his file"
        for name in tracked
    ]


def _choose_carry(root: str, carry: str | None, *, asks: bool, fetches: bool) -> str | None:
    """Return how ledgers are to travel, None for as before; raises LedgerError where there is nothing to fetch from."""
    chosen = carry or (_ask_for_refs(root) if asks else None)
    if fetches and chosen != REFS:
        required_remote(root)
    return chosen


def _ask_for_refs(root: str) -> str | None:
    """Ask once whether ledgers travel in git refs; None where that is decided, or there is no remote to send to."""
    remote = agreement.remote_to_offer(root)
    if remote is None:
        return None
    say(agreement.WHO_READS.format(remote=remote))
    if click.confirm(agreement.SEND.format(remote=remote), default=False, err=True):
        return REFS
    return TREE if meant_carry(root) is None else None


def _lines(
    changes: list[FileChange],
    config: list[git.Setting],
    root: str,
    commit: list[str],
    *,
    dry_run: bool,
    has_settings: bool,
) -> Iterator[str]:
    due = [setting for setting in config if setting.before != setting.after]
    if dry_run:
        yield from diff_lines(changes, root)
        yield from [setting.command for setting in due]
        if not due and all([change.action == "unchanged" for change in changes]):
            yield "nothing to change"
        return
    for change in changes:
        if change.before is not None or change.after is not None:
            yield f"{describe(change, root)}: {_purpose(change, root)}"
    if config and all([setting.after is None for setting in config]):
        yield "changed    this clone's git config: merge and diff drivers removed, since git merges no file of a run"
    elif config:
        stashes = [setting.key for setting in config if setting.key in git.STASHES and setting.after]
        why = "since git refuses to pull over a changed ledger"
        switched = f", {' and '.join(stashes)} switched on, {why}" if stashes else ""
        yield f"{'changed' if due else 'unchanged':<9}  this clone's git config: merge and diff drivers{switched}"
    yield from place_lines(root)
    yield ""
    is_shared = any([display_path(change.path, root) in git.FILES for change in changes])
    if commit or not is_shared:  # what is committed was said where it was written
        yield f"note: {_summaries_note(root) if is_shared else OF_ALL_PROJECTS}"
    if commit:
        yield f"next: commit {tracking.join_names(commit)}, so that every clone has them"
    if has_settings and changes[0].action != "unchanged":
        yield "then: start a new session of the client, which reads its settings when it starts"


def _summaries_note(root: str) -> str:
    """Return what happens to summaries of compactions in this project, and how to change that."""
    if project_settings(root, {}).summaries:
        return (
            f"summaries of compactions are recorded and {project.travel_word(root)}, secrets masked; "
            "`faber-ledger init --no-summaries` keeps them in the clone where they arose"
        )
    return (
        "summaries of compactions stay in the clone where they arose, under the git directory, secrets masked (without "
        "git they are not kept); `faber-ledger init --summaries` records them, so that they are "
        f"{project.travel_word(root)}"
    )


def _purpose(change: FileChange, root: str) -> str:
    if os.path.basename(change.path) in OF_HOOKS:
        return OF_HOOKS[os.path.basename(change.path)]
    path = display_path(change.path, root)
    purpose = PURPOSES.get(path, "").format(travel=project.travel_word(root))
    return purpose or project.describe_command(path) or describe_agent_file(path) or f"hooks {', '.join(HOOKS)}"


def _path_warnings() -> Iterator[str]:
    if shutil.which(HOOK_PROGRAM) is None:
        folder = os.path.dirname(os.path.abspath(sys.argv[0]))
        yield f"{HOOK_PROGRAM} is not on PATH, so the hooks cannot run it: add {folder} to PATH"


def _warnings(text: str, root: str, scope: str) -> Iterator[str]:
    if JsonText(text).value.get("disableAllHooks"):
        yield "these settings have `disableAllHooks`: the client runs no hooks until you remove it"
    path = display_path(settings_path(scope, root), root)
    if scope == "project" and tracking.is_ignored(root, path):
        yield f"git ignores {path}: other clones and worktrees lack the hooks; `--scope user` reaches all of yours"
