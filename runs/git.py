"""Ask git with `os.posix_spawn`, and read where work trees are from git's own files.

This is how hooks ask git, and every library that a hook may load: read-only, without a shell, with a deadline, answered
while other work goes on, and without the module `subprocess`, which costs too much to import. Commands that need git as
the user has it, or that change something with it, call `runs/git_command.py`.
"""

from __future__ import annotations

import os
import time

from faber_ledger.ledger.canonical import sha256, without_surrogates

SECONDS = 2.0
LIMIT = 1_000_000
SIGKILL = 9  # the module `signal` costs as much as a third of `json`
QUIET = {
    "GIT_ALLOW_PROTOCOL": "none",  # an object that a partial clone lacks would be fetched, by a program of its settings
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


class GitQuery:
    """A git command that was started; it never writes and never prompts."""

    def __init__(
        self,
        arguments: list[str],
        directory: str,
        *,
        limit: int = LIMIT,
        deadline: float | None = None,
        content: bytes = b"",
    ) -> None:
        """Start `git -C directory arguments`; without git, or above `limit` bytes, its answer is None.

        `deadline` is that of `time_limit`; without one, git has two seconds. `content` is its standard input, written
        while the answer is read: a pipe may hold no more than a page.
        """
        self._pid = 0
        self._content = content
        self._limit = limit
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        environment |= QUIET
        # A bare repository that came along as files has a configuration of its own, which may name programs.
        command = ["git", "-c", "safe.bareRepository=explicit", "-C", directory, *arguments]
        self._deadline = time_limit(SECONDS) if deadline is None else deadline
        self._read, write = os.pipe()
        self._write: int | None = None
        given: int | None = None
        if content:
            given, self._write = os.pipe()
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        actions = [
            nothing if given is None else (os.POSIX_SPAWN_DUP2, given, 0),
            (os.POSIX_SPAWN_DUP2, write, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
        ]
        try:
            self._pid = os.posix_spawnp("git", command, environment, file_actions=actions)
        except OSError:
            pass
        finally:
            os.close(write)
            if given is not None and self._write is not None:
                os.close(given)
                os.set_blocking(self._write, False)

    def answer(self) -> str | None:
        """Return what git printed, without the last newline; None if it failed, was too slow or is not installed."""
        printed = self.answer_bytes()
        return None if printed is None else printed.decode("utf-8", "replace").rstrip("\n")

    def answer_bytes(self) -> bytes | None:
        """Return what git printed; None if it failed, was too slow, printed too much or is not installed."""
        import select  # imported here, while git is working

        pieces, size, is_late = [], 0, False
        try:
            while self._pid and size < self._limit:
                left = self._deadline - time.monotonic()
                writing = [] if self._write is None else [self._write]
                ready = select.select([self._read], writing, [], left) if left > 0 else ([], [], [])
                if not (ready[0] or ready[1]):
                    is_late = True  # even if git has ended well meanwhile: nobody read what it printed
                    os.kill(self._pid, SIGKILL)
                    break
                if ready[1]:
                    self._write_more()
                if not ready[0]:
                    continue
                piece = os.read(self._read, 65536)
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        finally:
            os.close(self._read)
            self._close_input()
        if not self._pid or os.waitpid(self._pid, 0)[1] != 0 or is_late:
            return None
        return b"".join(pieces)

    def _write_more(self) -> None:
        """Write what the pipe to git has room for."""
        try:
            self._content = self._content[os.write(self._write or 0, self._content) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # git has ended
            self._content = b""
        if not self._content:
            self._close_input()

    def _close_input(self) -> None:
        if self._write is not None:
            os.close(self._write)
            self._write = None


def time_limit(seconds: float) -> float:
    """Return the deadline of questions that together may take `seconds` from now on."""
    return time.monotonic() + seconds


def options_against_filters(names: str) -> list[str] | None:
    """Return options that keep git from running filters on changed files; None if one of them cannot be disabled.

    `names` is what `git config --name-only --get-regexp .` prints: the names of all settings, one a line.
    """
    filters = [name[7:].rpartition(".") for name in names.split("\n") if name.startswith("filter.")]
    options = []
    for name in sorted({name for name, dot, _ in filters if dot}):
        if "=" in name or "\ufffd" in name:
            return None
        for variable, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            options += ["-c", f"filter.{name}.{variable}={value}"]
    return options


class WorkTree:
    """A work tree: its top folder, its own git directory, and the one that all work trees of the clone share."""

    def __init__(self, top: str, own: str, common: str) -> None:
        self.top = top
        self.own = own
        self.common = common

    @property
    def is_linked(self) -> bool:
        """Whether it is a linked work tree; a submodule is not."""
        return self.own != self.common

    @property
    def main(self) -> str | None:
        """The main work tree's top; None if it cannot be found, as for a bare repository or a submodule."""
        return os.path.dirname(self.common) if os.path.basename(self.common) == ".git" else None

    def linked_tops(self) -> list[str]:
        """List the tops of the clone's linked work trees, also of those that no longer exist."""
        admin = os.path.join(self.common, "worktrees")
        try:
            names = sorted(os.listdir(admin))
        except OSError:
            return []
        files = [(os.path.join(admin, name), _line_of(os.path.join(admin, name, "gitdir"))) for name in names]
        return [os.path.dirname(os.path.normpath(os.path.join(folder, text))) for folder, text in files if text]

    def other_tops(self) -> list[str]:
        """List the tops of the clone's other work trees that exist, the main one first."""
        tops = [*([self.main] if self.main and self.main != self.top else []), *self.linked_tops()]
        here = os.path.realpath(self.top) if tops else ""
        return [top for top in tops if os.path.lexists(os.path.join(top, ".git")) and os.path.realpath(top) != here]


_known: dict[str, WorkTree] = {}  # by the folder that was asked about


def work_tree_of(folder: str) -> WorkTree | None:
    """Return the work tree that a folder lies in, read from git's files without running git; None without git.

    Git's directory is looked for once per folder and process. `forget_work_trees` is for the commands that make, move
    or remove work trees.
    """
    known = _known.get(folder)
    if known is None:
        known = _find_work_tree(folder)
        if known is not None:
            _known[folder] = known
    return known


_keys: dict[str, str] = {}  # of the projects that were asked about


def project_key(root: str) -> str:
    """Return what tells a project from the others in its repository, as part of a file's name; empty at the top.

    It is the same in each work tree and clone. A path may be longer than a name, and names may differ in case alone.
    """
    tree = work_tree_of(root)
    if tree is None or tree.top == root:
        return ""
    if root not in _keys:
        inside = os.path.relpath(os.path.realpath(root), os.path.realpath(tree.top)).replace(os.sep, "/")
        _keys[root] = "" if inside == "." else sha256(os.fsencode(inside)).hexdigest()[:32]
    return _keys[root]


def forget_work_trees() -> None:
    """Look for git's directories again from now on."""
    _known.clear()
    _keys.clear()


def _find_work_tree(folder: str) -> WorkTree | None:
    top = top_above(folder)
    if top is None:
        return None
    own = os.path.join(top, ".git")
    if os.path.isfile(own):
        own = os.path.normpath(os.path.join(top, (_line_of(own) or "").removeprefix("gitdir:").strip()))
    shared = _line_of(os.path.join(own, "commondir"))
    common = os.path.normpath(os.path.join(own, shared)) if shared else own
    return WorkTree(top, own, common) if os.path.isdir(common) else None


def top_above(folder: str) -> str | None:
    """Return the nearest folder with a `.git`, from this one upwards; None without git."""
    at = folder
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def branch_of(root: str) -> str | None:
    """Return the branch that a work tree has checked out, read from git's HEAD file without running git.

    None if it is detached or unknown: without git, and where git keeps its references in tables of its own.
    """
    tree = work_tree_of(root)
    kind, _, branch = ((_line_of(os.path.join(tree.own, "HEAD")) if tree else None) or "").partition("refs/heads/")
    # Where references are in tables, the file names a branch that cannot exist.
    return without_surrogates(branch) or None if kind == "ref: " and branch != ".invalid" else None


REMOTES = ("upstream", "origin")  # in this order, then by name: in a fork, pull requests go to `upstream`
DEFAULTS = ("HEAD", "main", "master")  # of a remote, `HEAD` is what a clone gets


def default_branch(root: str) -> str | None:
    """Return the remote's default branch as this clone last fetched it, as a full ref; None if none is known.

    It is what a pull request is compared with.
    """
    asked = [f"refs/remotes/*/{name}" for name in DEFAULTS]
    listed = GitQuery(["for-each-ref", "--format=%(refname)", *asked], root).answer()
    found = [ref.split("/") for ref in (listed or "").splitlines()]
    order = sorted(found, key=lambda ref: (*[ref[2] != name for name in REMOTES], ref[2], DEFAULTS.index(ref[-1])))
    return "/".join(order[0]) if order else None


def common_directory(root: str) -> str | None:
    """Return the git directory that all work trees of a clone share; None without git."""
    tree = work_tree_of(root)
    return tree.common if tree else None


def clone_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to the clone; None without git."""
    common = common_directory(root)
    return os.path.join(common, "faber-ledger") if common else None


def project_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to a project in this clone; None without git.

    A project at the repository's top has the clone's own folder, any other one of its own in it.
    """
    folder, key = clone_folder(root), project_key(root)
    return os.path.join(folder, "projects", key) if folder and key else folder


def older_folder(root: str) -> str | None:
    """Return where earlier versions kept a project's things, together with those of the clone's other projects.

    None for a project at the repository's top, whose folder it still is, and without git.
    """
    return clone_folder(root) if project_key(root) else None


def other_roots(root: str) -> list[str]:
    """Return a project's root in each other work tree of the clone, the main one first; none without git."""
    tree = work_tree_of(root)
    tops = tree.other_tops() if tree is not None else []
    if tree is None or not tops:
        return []
    inside = os.path.relpath(root, tree.top)
    return [os.path.normpath(os.path.join(top, inside)) for top in tops]


def is_git_at_work(root: str) -> bool:
    """Return whether git is changing the work tree at the moment, or was killed while it did: the index is locked."""
    tree = work_tree_of(root)
    return tree is not None and os.path.lexists(os.path.join(tree.own, "index.lock"))


def _line_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(4096)).strip() or None
    except OSError:
        return None


def is_tracked(path: str) -> bool | None:
    """Return whether a file is in git's index or in its last commit; None without git.

    If git does not answer, the file counts as tracked: whoever made the repository may be the reason.
    """
    folder, name = os.path.split(os.path.abspath(path))
    folder = os.path.realpath(folder)
    work_tree = work_tree_of(folder)  # of the file's own folder: it may lie in a submodule
    if work_tree is None:
        return None
    inside = os.path.relpath(os.path.join(folder, name), work_tree.top).replace(os.sep, "/")
    # Some file systems ignore case. An index may lack what the last commit has; before the first commit there is none.
    for tree in (["--with-tree=HEAD"], []):
        arguments = ["--no-literal-pathspecs", "ls-files", "-z", *tree, "--", f":(literal,icase){inside}"]
        listed = GitQuery(arguments, work_tree.top).answer_bytes()
        if listed is not None:
            return listed != b""
    return True
