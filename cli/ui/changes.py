"""Options that `init` and `uninstall` share, and how they show the files that they change."""

import difflib
import os
from collections.abc import Iterator
from io import StringIO

import click

from faber_ledger.files.change import FileChange
from faber_ledger.hooks.client_settings import SCOPES


def in_project(root: str, scope: str) -> bool:
    """Return whether there is a project to set up; the user's own settings need none."""
    return scope != "user" or any([os.path.lexists(os.path.join(root, name)) for name in (".git", ".fractary")])


def report(changes: list[FileChange], root: str, *, dry_run: bool) -> dict[str, object]:
    """Return what happens to each file as data, with its diff."""
    files = [
        {"path": display_path(change.path, root), "action": change.action, "diff": "".join(diff(change, root))}
        for change in changes
    ]
    return {"dry_run": dry_run, "root": root, "files": files}


def diff(change: FileChange, root: str) -> Iterator[str]:
    """Return a change as the lines of a unified diff, each with its newline."""
    name = display_path(change.path, root)
    before, after = (
        list(StringIO((content or b"").decode("utf-8", "replace"), newline="\n"))
        for content in (change.before, change.after)
    )
    old = "/dev/null" if change.before is None else f"a/{name}"
    new = "/dev/null" if change.after is None else f"b/{name}"
    for line in difflib.unified_diff(before, after, old, new):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def diff_lines(changes: list[FileChange], root: str) -> Iterator[str]:
    """Return the diffs of all changes as lines to print; of git's own files, which no patch may have, a line."""
    of_git = [change for change in changes if display_path(change.path, root).startswith(".git/")]
    for change in changes:
        for line in diff(change, root) if change not in of_git else ():
            yield from line.removesuffix("\n").split("\n")
    yield from [describe(change, root) for change in of_git if change.action != "unchanged"]


def display_path(path: str, root: str) -> str:
    """Return a path for display: relative to the project's root if it is inside, else absolute."""
    inside = path.startswith(root.rstrip(os.sep) + os.sep)
    return os.path.relpath(path, root).replace(os.sep, "/") if inside else path


def describe(change: FileChange, root: str) -> str:
    """Return what happened to a file as a line, with the target of a link."""
    linked = f" (a link to {change.target})" if os.path.islink(change.path) else ""
    return f"{change.action:<9}  {display_path(change.path, root)}{linked}"


def remove_empty_folders(changes: list[FileChange], root: str) -> None:
    """Remove the folders that removed files leave empty: those in the project but none of git's."""
    for path in [change.path for change in changes if change.action == "removed"]:
        is_gits = display_path(path, root).startswith(".git/")
        folder = os.path.dirname(path)
        while folder.startswith(os.path.join(root, "")) and not is_gits:
            try:
                os.rmdir(folder)
            except OSError:
                break  # not empty: other files are in it
            folder = os.path.dirname(folder)


scope_option = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="project",
    show_default=True,
    help="project: .claude/settings.json, shared. local: .claude/settings.local.json, this machine. "
    "user: settings.json in ~/.claude or $CLAUDE_CONFIG_DIR, all projects.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change as a diff and write nothing.")
