"""Put the active files back before a merge (DECISIONS 2).

Every run's branch changes the one line of an active file, so that every pull request would conflict with every other:
a hosting site runs no merge driver. Before a merge the file therefore becomes what the merge base with the remote's
default branch has. The work tree goes on with its run by its claim, and by the note beside it (`active_file.py`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.files.text import quote_word
from faber_ledger.files.untrusted import FileRefused, folder_around, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.runs.active_file import (
    ACTIVE_FILE_BYTES,
    claim_run,
    claims,
    first_line,
    is_put_back,
    note_put_back,
    read_put_back,
)
from faber_ledger.runs.git import default_branch, work_tree_of
from faber_ledger.runs.git_command import git, run_git
from faber_ledger.runs.run import ACTIVE_FILES, find_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run

LARGEST = 64 * 1024  # bytes of an active file
REGULAR = ("100644", "100755")  # git's modes of files that are no links
SKIPPED = "S"  # how `git ls-files -t` marks a file whose skip-worktree bit is set


class Entry(NamedTuple):
    """A file in git's index or in a commit: its mode, its blob's hash, and its content; None of a link or a large file.

    `is_skipped`: its skip-worktree bit is set in the index, as in a sparse checkout.
    """

    mode: str
    blob: str
    content: bytes | None
    is_skipped: bool = False


def put_back(run: Run, warn: Callable[[str], None]) -> list[str]:
    """Put the active files that name a run back, in index and work tree; return their paths in the project.

    They become what the merge base of HEAD with the remote's default branch has, byte for byte; a file that is not
    there is removed. A file that names another run, that git ignores or that is not a regular file is left alone;
    without a merge base all are, and `warn` gets a line. Raises LedgerError.
    """
    tree = work_tree_of(run.root)
    if tree is None:
        return []
    top, inside = tree.top, os.path.relpath(os.path.realpath(run.root), os.path.realpath(tree.top))
    files = [file for file in ACTIVE_FILES if _is_inside(run.root, file)]
    paths = {os.path.normpath(os.path.join(inside, file)).replace(os.sep, "/"): file for file in files}
    index = _read_entries(top, "ls-files", "-t", "--stage", "-z", "--", *paths)
    staged = [path for path in paths if path in index and _names(run, index[path].content)]
    named = [path for path, file in paths.items() if path in staged or names_run(run, file)]
    again = [*paths] if is_put_back(run.root, run.run_id) else named  # after a rebase the base is another one
    base = _find_base(run.root, tree.own) if again else None
    if named and base is None:
        warn(_why_left(run, [paths[path] for path in named]))
    if not again or base is None:
        return []
    there = _read_entries(top, "ls-tree", "-z", "--full-tree", base, "--", *again)
    carried = [path for path in again if path in index or path in there or not _is_ignored(top, path)]
    changed = [path for path in carried if _may_replace(run, paths[path], index.get(path), there.get(path))]
    for path in [path for path in carried if path in named and path in there and there[path].content is None]:
        warn(f"note: {paths[path]} still names {run.run_id}: what the branch started from has no regular file there")
    if changed:
        _claim(run, top, {paths[path]: there.get(path) for path in changed})
        written = {path: paths[path] for path in changed if not _is_absent(top, path, index)}
        _write_index(top, changed, index, there, len(base))
        _write_files(run.root, top, written, there)
    return [paths[path] for path in changed]


def _claim(run: Run, top: str, wanted: dict[str, Entry | None]) -> None:
    """Claim a run, and note what its active files are to be: from here on the claim holds, file or no file."""
    if not claims(run.root, run.run_id):
        claim_run(run.root, run.run_id)
    head = run_git("rev-parse", "--verify", "--quiet", "HEAD", at=top).stdout.decode().strip()
    names = [(head, file, _name_in(entry.content)) for file, entry in wanted.items() if entry is not None]
    note_put_back(run.root, run.run_id, names)


def names_run(run: Run, file: str) -> bool:
    """Return whether an active file in the work tree names a run; a link is not followed."""
    return _is_inside(run.root, file) and _names(run, _read_here(run.root, file))


def _is_inside(root: str, file: str) -> bool:
    """Return whether no link leads from a file's folder out of the project."""
    return folder_around(os.path.dirname(os.path.join(root, *file.split("/"))), [root]) is not None


def _may_replace(run: Run, file: str, staged: Entry | None, wanted: Entry | None) -> bool:
    """Return whether to replace an active file: it differs from `wanted`, is a regular file, and nobody else wrote it.

    Ours are the run's name, and the names that put-backs wrote.
    """
    path = os.path.join(run.root, *file.split("/"))
    if wanted is not None and (wanted.content is None or _names(run, wanted.content)):
        return False
    here = _read_here(run.root, file)
    if here is None and os.path.lexists(path):
        return False
    content = wanted.content if wanted is not None else None
    if here == content or (here is None and staged is not None and staged.is_skipped):
        return (staged.content if staged is not None else None) != content
    note = read_put_back(run.root)
    own = [name for _, where, name in note.names if where == file] if note is not None else []
    return here is None or _names(run, here) or _name_in(here) in own


def _read_here(root: str, file: str) -> bytes | None:
    try:
        return read_regular(os.path.join(root, *file.split("/")), LARGEST)
    except (FileRefused, OSError):
        return None


def _name_in(content: bytes | None) -> str:
    try:
        return first_line((content or b"")[:ACTIVE_FILE_BYTES])
    except UnicodeDecodeError:
        return ""


def _names(run: Run, content: bytes | None) -> bool:
    """Return whether an active file's content names a run, by its id or its path."""
    name = _name_in(content)
    try:
        return bool(name) and find_run(run.root, name).run_id == run.run_id
    except InvalidRunId:
        return False


def _find_base(root: str, own: str) -> str | None:
    """Return the merge base with the remote's default branch of the commit that comes next; None if there is none."""
    branch = default_branch(root)
    if branch is None:
        return None
    coming = ["MERGE_HEAD"] if os.path.lexists(os.path.join(own, "MERGE_HEAD")) else []
    found = run_git("merge-base", branch, "HEAD", *coming, at=root)
    return found.stdout.decode().strip() or None if found.returncode == 0 else None


def _why_left(run: Run, files: list[str]) -> str:
    """Return why the active files are left as they are, and what to do."""
    branch = default_branch(run.root)
    if branch is not None:
        why, what = f"git knows no common commit of HEAD and {branch}", "fetch the history (`git fetch --unshallow`)"
    elif remotes := os.fsdecode(run_git("remote", at=run.root).stdout).splitlines():
        why = "the remote's default branch is not known here"  # as in a clone of a single branch
        what = f"run `git remote set-branches {quote_word(remotes[0])} '*' && git fetch`"
    else:
        why, what = "this repository has no remote", "once it has one"
    before = f"{what}, then" if branch or what.startswith("run") else f"{what},"
    names = " and ".join(files)
    is_plural = len(files) > 1
    return (
        f"note: {names} still {'name' if is_plural else 'names'} {run.run_id}, since {why}:"
        f" {before} run `faber-ledger seal {run.run_id}` before a pull request"
    )


def _is_ignored(top: str, path: str) -> bool:
    return run_git("check-ignore", "--quiet", "--", path, at=top).returncode == 0


def _read_entries(top: str, *question: str) -> dict[str, Entry]:
    """Return what `git ls-files -t --stage` or `git ls-tree` prints, by path."""
    entries: dict[str, Entry] = {}
    for line in os.fsdecode(git("--literal-pathspecs", *question, at=top)).split("\0")[:-1]:
        words, _, path = line.partition("\t")
        if question[0] == "ls-files":
            flag, mode, blob, _ = words.split(" ")
        else:
            flag, (mode, _, blob) = "", words.split(" ")
        content = git("cat-file", "blob", blob, at=top) if mode in REGULAR else None
        is_short = content is not None and len(content) <= LARGEST
        entries[path] = Entry(mode, blob, content if is_short else None, flag == SKIPPED)
    return entries


def _is_absent(top: str, path: str, index: dict[str, Entry]) -> bool:
    """Return whether a sparse checkout keeps a file out of the work tree."""
    return path in index and index[path].is_skipped and not os.path.lexists(os.path.join(top, path))


def _write_index(top: str, paths: list[str], index: dict[str, Entry], there: dict[str, Entry], length: int) -> None:
    """Put files into the index as a commit has them; those that it lacks are removed."""
    absent = [path for path in paths if path in there and _is_absent(top, path, index)]
    lines = [
        f"{there[path].mode} {there[path].blob}\t{path}\0" if path in there else f"0 {'0' * length}\t{path}\0"
        for path in paths
    ]
    git("update-index", "-z", "--index-info", at=top, content=os.fsencode("".join(lines)))
    if absent:
        git("update-index", "--skip-worktree", "--", *absent, at=top)


def _write_files(root: str, top: str, paths: dict[str, str], there: dict[str, Entry]) -> None:
    """Write active files, as old as the note of their put-back, or remove those that `there` lacks; raises LedgerError.

    `paths`: each file's path from the top, and from the project's root. A later word of this work tree is younger.
    """
    note = read_put_back(root)
    for path, file in paths.items():
        here = os.path.join(root, *file.split("/"))
        content = there[path].content if path in there else None
        try:
            if content is not None:
                os.makedirs(os.path.dirname(here), exist_ok=True)
                whole_file.put(here, content, durable=False, locked=False)
                if note is not None:
                    os.utime(here, (note.at, note.at))
            elif os.path.lexists(here):
                os.unlink(here)
        except OSError as error:
            hint = "check the permissions of the .fractary folder"
            raise LedgerError(f"cannot write {here}: {error.strerror}", hint=hint) from error
    present = [path for path in paths if path in there]
    if present:
        run_git("add", "--refresh", "--", *present, at=top)  # so that no hook that runs next sees a change
