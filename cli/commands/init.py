"""`faber-ledger init`: add the hooks to the client's settings, and tell git how to treat a run's files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from faber_ledger.cli.doctor.git import check_stays
from faber_ledger.cli.doctor.hooks import check_once, check_program, check_settings
from faber_ledger.cli.doctor.patient import Patient, run_check
from faber_ledger.cli.doctor.workflows import check_configuration
from faber_ledger.cli.setup import git, project, tracking
from faber_ledger.cli.setup.agents import add_agent_hooks
from faber_ledger.cli.setup.git import Setting
from faber_ledger.cli.setup.hooks import plugin_instead, settings_change
from faber_ledger.cli.setup.mcp_servers import SERVER_FILES, add_server
from faber_ledger.cli.sync import agreement
from faber_ledger.cli.sync.agreement import CarryPlan
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
from faber_ledger.cli.ui.words import join_names, place_lines
from faber_ledger.cli.worktrees.git import refuse_bare
from faber_ledger.files.change import FileChange, make_changes
from faber_ledger.hooks.agents import SET_UPS
from faber_ledger.ledger.clock import now
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.publish import meant_carry
from faber_ledger.runs.run import REFS, TREE, find_root
from faber_ledger.runs.settings import PATH, counts_usage, project_settings

CHECKS = (check_settings, check_once, check_program, check_stays, check_configuration)


@click.command()
@scope_option
@click.option(
    "--git-only", "is_git_only", is_flag=True, help="Set up only git, as each clone needs it: no client settings."
)
@click.option("--agent", type=click.Choice([*SET_UPS]), help="Add the hooks to another agent's file, not the client's.")
@click.option(
    "--mcp",
    type=click.Choice([*SERVER_FILES]),
    help="Register `faber-ledger mcp` in an agent's file, for one without hooks, and add no hooks.",
)
@click.option(
    "--pre-commit/--no-pre-commit",
    default=None,
    help="Install our lines in git's pre-commit hook, or not. Default: install them, unless another program owns the "
    "hook; then print the line to add.",
)
@click.option(
    "--commands",
    "with_commands",
    is_flag=True,
    help="Also write slash commands of FABER's own plugin: /fractary-faber:session-load, session-save, prime-context "
    "and session-end.",
)
@click.option(
    "--summaries/--no-summaries",
    default=None,
    help="Record summaries of compactions in the ledger, or keep them in their clone. Default: the project's setting; "
    "for a new project ask on a terminal, else record them.",
)
@click.option(
    "--usage/--no-usage",
    default=None,
    help="Count the tokens of responses, from the client's transcript, or not. Default: the project's setting, else "
    "count them.",
)
@click.option(
    "--carry",
    type=click.Choice(["tree", "refs"]),
    help="How ledgers travel: with the code (tree), or each in a git ref that this clone sends and fetches (refs). "
    "Default: ask once on a terminal.",
)
@click.option("--remote", metavar="NAME", help="With --carry refs: the remote, instead of origin or the only one.")
@click.option(
    "--auto-send/--no-auto-send",
    default=None,
    help="With --carry refs: send in the background after each session's end, or only by `sync`.",
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
    is_project = options.is_git_only or in_project(root, scope)
    _check_usage(root, options, is_project=is_project)
    hooks, notes = _plan_hooks(root, options)
    has_hooks = bool(hooks) and options.agent is None and options.mcp is None
    can_ask = is_project and not (dry_run or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    if is_project and tracking.is_ignored(root, PATH):
        notes.append(f"git ignores {PATH}: other clones lack what is chosen here, and record summaries of compactions")
    if can_ask:  # they inform the answers
        for note in notes:
            say(f"note: {note}")
        notes = []
    chosen = _choose_carry(root, options.carry, asks=can_ask, fetches=options.fetch)
    travel = agreement.plan_carry(root, chosen, options.remote, options.auto_send)
    files = _plan_files(root, options, travel, can_ask=can_ask) if is_project else []
    git_says = tracking.check_not_ignored(root) if is_project else None
    is_sent = is_project and agreement.is_sent_automatically(root, travel)
    git_hooks, said = git.plan_hooks(root, options.pre_commit, is_project=is_project, is_sent=is_sent)
    commands = project.add_commands(root) if options.with_commands else []
    shared = [*files, *git_hooks, *commands]
    changes = [*hooks, *shared]
    config = git.settings_to_make(root) if is_project and top_of(root) is not None else []
    notes += said
    notes += _make(root, changes, config, travel, is_project=is_project, dry_run=dry_run)
    notes += [git_says] if git_says else []
    notes += [] if dry_run or options.mcp else _list_findings(root)
    committed = [*(hooks if scope == "project" else []), *shared]
    commit = [] if dry_run else tracking.names_to_commit(committed, root)
    data = report(changes, root, dry_run=dry_run) | {
        "scope": scope if has_hooks else None,
        "git_config": [one._asdict() for one in config],
        "commit": commit,
        "notes": notes,
    }
    show(data, _lines(changes, config, root, commit, dry_run=dry_run, has_hooks=has_hooks), as_json=as_json)
    for note in [] if as_json else notes:  # they are in the data
        say(f"note: {note}")
    if not dry_run and (options.fetch or (options.carry is None and travel.mode == REFS)):
        for note in agreement.fetch_here(root, say):
            say(f"note: {note}")


def _make(
    root: str, changes: list[FileChange], config: list[Setting], travel: CarryPlan, *, is_project: bool, dry_run: bool
) -> list[str]:
    """Make the changes unless it is a dry run, and return what to say of how ledgers travel."""
    if dry_run:
        said = f"this clone would send its ledgers to {travel.remote}, where everybody who reads it can read them"
        return [said] if travel.mode == REFS else []
    make_changes(changes)
    git.make_settings(root, config)
    remove_empty_folders(changes, root)
    return [*agreement.carry_out(root, travel, say)] if is_project else []


class Options(NamedTuple):
    """The options that say what is set up."""

    scope: str
    is_git_only: bool
    agent: str | None
    mcp: str | None
    pre_commit: bool | None
    with_commands: bool
    summaries: bool | None
    usage: bool | None
    carry: str | None
    remote: str | None
    auto_send: bool | None
    fetch: bool


def _check_usage(root: str, options: Options, *, is_project: bool) -> None:
    """Raise UsageError for options that do not go together, and NoWorkTree in a bare repository."""
    chosen = (options.summaries, options.usage, options.carry)
    needs_project = options.with_commands or options.fetch or chosen != (None, None, None)
    if is_project:
        refuse_bare(root)
    elif needs_project:
        raise click.UsageError(
            "--commands, --summaries, --usage, --carry and --fetch need a project: there is none here."
        )
    named = [name for name, given in (("--agent", options.agent), ("--mcp", options.mcp)) if given is not None]
    if len(named) > 1 or (named and (options.is_git_only or options.scope == "local")):
        raise click.UsageError("--agent and --mcp go with --scope project or user, not with each other or --git-only.")
    if options.carry != REFS and (options.remote, options.auto_send) != (None, None):
        raise click.UsageError("--remote, --auto-send and --no-auto-send go with --carry refs.")
    if options.carry == TREE and options.fetch:
        raise click.UsageError("--fetch fetches from git refs, and does not go with --carry tree.")


def _plan_hooks(root: str, options: Options) -> tuple[list[FileChange], list[str]]:
    """Return the changes that add the hooks to the client's settings or to an agent's file, and what to say."""
    if options.agent is not None:
        return add_agent_hooks(root, options.scope, options.agent)
    if options.mcp is not None:
        return add_server(root, options.scope, options.mcp)
    if options.is_git_only:
        return [], []
    if (plugin := plugin_instead(root, options.scope)) is not None:
        return [], [f"the plugin {plugin.name} runs the hooks: none were added to the client's settings"]
    settings = settings_change(root, options.scope)
    path = display_path(settings.path, root)
    lost = f"git ignores {path}: other clones and worktrees lack the hooks; `--scope user` reaches all of yours"
    return [settings], [lost] if options.scope == "project" and tracking.is_ignored(root, path) else []


def _plan_files(root: str, options: Options, travel: CarryPlan, *, can_ask: bool) -> list[FileChange]:
    """Return the changes of what git reads and of the project's settings."""
    summaries = options.summaries
    changes = [git.git_file_change(root, name) for name in git.FILES]
    if summaries is None and can_ask and project.is_choice_due(root):
        say(project.CHOICE)
        summaries = click.confirm(
            project.QUESTION.format(travel=project.travel_word(root)), default=project.RECORDED_BY_DEFAULT, err=True
        )
    of_project = project.project_change(root, summaries, options.usage, travel.mode)
    return [*changes, *([of_project] if of_project is not None else [])]


def _list_findings(root: str) -> Iterator[str]:
    """Yield what `doctor` finds now about what `init` sets up."""
    patient = Patient(root, at=now())
    for find in CHECKS:
        yield from [f"{one.what}; {one.hint}" for one in run_check(find, patient)]


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
    say(agreement.WHO_READS.format(there=agreement.where_it_pushes(root, remote)))
    if click.confirm(agreement.SEND.format(remote=remote), default=False, err=True):
        return REFS
    return TREE if meant_carry(root) is None else None


def _lines(
    changes: list[FileChange], config: list[Setting], root: str, commit: list[str], *, dry_run: bool, has_hooks: bool
) -> Iterator[str]:
    due = [setting for setting in config if setting.before != setting.after]
    if dry_run:
        yield from diff_lines(changes, root)
        yield from [setting.command for setting in due]
        if not due and all([change.action == "unchanged" for change in changes]):
            yield "nothing to change"
        return
    yield from [describe(change, root) for change in changes if (change.before, change.after) != (None, None)]
    yield from [git.describe_settings(config)] if config else []
    yield from place_lines(root)
    yield ""
    is_shared = any([display_path(change.path, root) in git.FILES for change in changes])
    if commit or not is_shared:  # what is committed was said where it was written
        yield f"note: summaries of compactions {_summaries_words(root)}"
        yield f"note: {_usage_words(root)}"
    if commit:
        yield f"next: commit {join_names(commit)}, so that every clone has them"
    if has_hooks and changes[0].action != "unchanged":
        yield "then: start a new session of the client, which reads its settings when it starts"


def _summaries_words(root: str) -> str:
    """Return what happens to summaries of compactions in this project, and how to change that."""
    travel = project.travel_word(root)
    if project_settings(root, {}).summaries:
        return (
            f"are recorded and {travel}, secrets masked; `faber-ledger init --no-summaries` keeps them in their clone"
        )
    return f"stay in their clone, secrets masked; `faber-ledger init --summaries` records them: they are {travel} then"


def _usage_words(root: str) -> str:
    """Return whether the tokens of responses are counted, and how to change that."""
    if counts_usage(project_settings(root, {})):
        return (
            "tokens are counted from the client's transcript, and what was said is not kept; `faber-ledger init"
            " --no-usage` counts none"
        )
    return "no tokens are counted: by `usage` in the settings, of the user or the project"
