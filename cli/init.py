"""`faber-ledger init`: hooks into the client's settings, and an ignore file for what stays on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.changes import described, diff_lines, dry_run_option, in_project, report, scope_option, shown_path
from faber_ledger.cli.output import json_option, say, show
from faber_ledger.cli.travellers import check_travellers, is_ignored
from faber_ledger.context.client_settings import HOOKS, PROGRAM, decode_settings, settings_path, with_hooks
from faber_ledger.context.file_change import FileChange, make_changes, read_file
from faber_ledger.context.git_ignore import ignore_change
from faber_ledger.context.json_text import JsonText
from faber_ledger.context.project import find_root

if TYPE_CHECKING:
    from collections.abc import Iterator


KEEP_OUT = '`{"summaries": false}` in .fractary/faber/ledger.json'


@click.command(short_help="Put the four hooks into the client's settings.")
@scope_option
@dry_run_option
@json_option
def init(scope: str, dry_run: bool, as_json: bool) -> None:
    """Put the four hooks into the client's settings and make git ignore what stays on this machine.

    \b
    Example: faber-ledger init --dry-run
    Exit codes: 0 done, or nothing to do; 1 a file cannot be used, or git ignores
    what must travel; 2 wrong usage.
    """
    root = find_root(os.getcwd())
    path = settings_path(scope, root)
    before = read_file(path)
    text = with_hooks("{}\n" if before is None else decode_settings(before, shown_path(path, root)))
    changes = [FileChange(path, before, text.encode())]
    git_says = None
    if in_project(root, scope):
        changes.append(ignore_change(root))
        git_says = check_travellers(root)
    if not dry_run:
        make_changes(changes)
    notes = [note for note in (git_says, *_warnings(text, root, scope)) if note]
    commit = _to_commit(changes, root, scope) if git_says is None else []
    data = report(changes, root, dry_run=dry_run) | {"scope": scope, "commit": commit, "notes": notes}
    show(data, _lines(changes, root, commit, dry_run=dry_run), as_json=as_json)
    for note in [] if as_json else notes:  # they stand in the data
        say(f"note: {note}")


def _lines(changes: list[FileChange], root: str, commit: list[str], *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield from diff_lines(changes, root)
        if all([change.action == "unchanged" for change in changes]):
            yield "nothing to change"
        return
    settings, *others = changes
    yield f"{described(settings, root)}: hooks {', '.join(HOOKS)}"
    for change in others:
        yield f"{described(change, root)}: backups, locks, journals and logs stay out of git"
    yield ""
    yield f"note: what a compaction came to is recorded, secrets masked; {KEEP_OUT} keeps it out of git"
    if commit:
        yield f"next: commit {' and '.join(commit)}, so that every clone has them"
    yield "then: start a new session of the client, which reads its settings when it starts"


def _to_commit(changes: list[FileChange], root: str, scope: str) -> list[str]:
    """Name the files that belong into the repository: never those of one machine or user."""
    shared = changes if scope == "project" else changes[1:]
    paths = [shown_path(change.path, root) for change in shared]
    return [path for path in paths if not is_ignored(root, path)]


def _warnings(text: str, root: str, scope: str) -> Iterator[str]:
    if shutil.which(PROGRAM) is None:
        folder = os.path.dirname(os.path.abspath(sys.argv[0]))
        yield f"{PROGRAM} is not on PATH, so the hooks find nothing to run: add {folder} to PATH"
    if JsonText(text).value.get("disableAllHooks"):
        yield "these settings hold `disableAllHooks`: the client runs no hook until that is taken out"
    path = shown_path(settings_path(scope, root), root)
    if scope == "project" and is_ignored(root, path):
        yield f"git ignores {path}: other clones and worktrees lack the hooks; `--scope user` reaches all of yours"
