"""Where work trees and git's directories are, read from git's own files without running git."""

from __future__ import annotations

import os

from faber_ledger.ledger.plain_json import sha256

LIMIT = 1_000_000  # bytes that are read of one of git's files


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
        files = [(os.path.join(admin, name), line_of(os.path.join(admin, name, "gitdir"))) for name in names]
        return [os.path.dirname(os.path.normpath(os.path.join(folder, text))) for folder, text in files if text]

    def top_with(self, branch: str) -> str | None:
        """Return the top of the clone's other work tree that has a branch checked out, even if its folder is gone."""
        admin = os.path.join(self.common, "worktrees")
        try:
            owns = [os.path.join(admin, name) for name in sorted(os.listdir(admin))]
        except OSError:
            owns = []
        for own in [self.common, *owns]:
            if own != self.own and line_of(os.path.join(own, "HEAD")) == f"ref: refs/heads/{branch}":
                link = line_of(os.path.join(own, "gitdir")) or ""
                return os.path.dirname(os.path.normpath(os.path.join(own, link))) if link else self.main
        return None

    def other_tops(self) -> list[str]:
        """List the tops of the clone's other work trees that exist, the main one first."""
        tops = [*([self.main] if self.main and self.main != self.top else []), *self.linked_tops()]
        here = os.path.realpath(self.top) if tops else ""
        there = [top for top in tops if os.path.lexists(os.path.join(top, ".git")) and os.path.realpath(top) != here]
        strangers = [(top, stranger_at(top, os.path.join(top, ".git"))) for top in there]
        unused_tops.update({top: stranger for top, stranger in strangers if stranger is not None})
        return [top for top, stranger in strangers if stranger is None]


_known: dict[str, WorkTree] = {}  # by the folder that was asked about


def work_tree_of(folder: str) -> WorkTree | None:
    """Return the work tree that a folder lies in, read from git's files without running git; None without git.

    A work tree of another user is none, as for git itself, nor is one whose `.git` file names another's git directory;
    `unused_tops` has it.
    Git's directory is looked for once per work tree and process. `forget_work_trees` is for the commands that make,
    move or remove work trees.
    """
    known = _known.get(folder)
    if known is None:
        known = _find_work_tree(folder)
        if known is not None:
            _known[folder] = _known[known.top] = known
    return known


def project_key(root: str) -> str:
    """Return what tells a project from the others in its repository, as part of a file's name; empty at the top.

    It is the same in each work tree and clone. A path may be longer than a name, and names may differ in case alone.
    """
    tree = work_tree_of(root)
    if tree is None or tree.top == root:
        return ""
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(tree.top)).replace(os.sep, "/")
    return "" if inside == "." else sha256(os.fsencode(inside)).hexdigest()[:32]


def forget_work_trees() -> None:
    """Look for git's directories again from now on."""
    _known.clear()
    unused_tops.clear()
    _project_folders.clear()


unused_tops: dict[str, str] = {}  # work trees that are not used: what in each belongs to another user, or work tree


def stranger_at(folder: str, *inside: str) -> str | None:
    """Return which of a folder and these paths belongs to another user, as git sees it; None if the user trusts it.

    It is read from the files; the user's git is asked for its `safe.directory` only where an owner differs.
    """
    if not hasattr(os, "geteuid"):
        return None
    user = os.geteuid()
    for path in (folder, *inside):
        try:
            owner = os.stat(path).st_uid if path is folder else os.lstat(path).st_uid
        except OSError:
            continue  # it is not there, or nobody can use it
        if owner != user and not (_is_of_sudo(owner) or _is_called_safe(folder)):
            return path
    return None


def _is_of_sudo(owner: int) -> bool:
    """Return whether the user is root and was `owner` before `sudo`; `SUDO_UID` means nothing to anybody else."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID", "") == str(owner)


def _is_called_safe(folder: str) -> bool:
    """Return whether `safe.directory` names a folder, or the work tree that it is in, or all.

    It counts in the system's and the user's configuration alone: a repository's own would name itself.
    """
    folders = {os.path.realpath(at) for at in (folder, top_above(folder) or folder)}
    is_safe = False
    for named in _safe_directories():
        if named.endswith("/*"):  # all below a folder
            below = os.path.join(os.path.realpath(named[:-2]), "")
            is_safe = is_safe or any([at.startswith(below) for at in folders])
        else:  # an empty value takes back what came before
            is_named = named == "*" or (os.path.isabs(named) and os.path.realpath(named) in folders)
            is_safe = named != "" and (is_safe or is_named)
    return is_safe


_safe: list[str] = []


def _safe_directories() -> list[str]:
    """List what `safe.directory` names in the system's and the user's configuration; git is asked once."""
    if not _safe:
        from faber_ledger.runs.git_query import GitQuery  # only where an owner differs

        question = ["config", "--null", "--show-scope", "--type=path", "--get-all", "safe.directory"]
        words = (GitQuery(question, os.sep).answer_bytes() or b"").split(b"\0")
        scopes = zip(words[::2], words[1::2], strict=False)
        _safe.extend(["", *[os.fsdecode(value) for scope, value in scopes if scope in (b"system", b"global")]])
    return _safe


def _find_work_tree(folder: str) -> WorkTree | None:
    top = top_above(folder)
    if top is None or top in _known:
        return _known[top] if top is not None else None
    own = link = os.path.join(top, ".git")
    if os.path.islink(link):
        own = os.path.realpath(link)
    if os.path.isfile(own):
        own = os.path.normpath(os.path.join(top, (line_of(own) or "").removeprefix("gitdir:").strip()))
    shared = line_of(os.path.join(own, "commondir"))
    common = os.path.normpath(os.path.join(own, shared)) if shared else own
    stranger = stranger_at(top, link) if own is link else stranger_at(top, link, own) or _other_tree(top, own, common)
    if stranger is not None:
        unused_tops[top] = stranger
        return None
    return WorkTree(top, own, common) if os.path.isdir(common) else None


def _other_tree(top: str, own: str, common: str) -> str | None:
    """Return the work tree that the git directory named by a `.git` file or link is of, if it is not the one at `top`.

    An archive may bring such a file, and would get what this user's clone keeps. One that was moved is gone from there.
    """
    if own != common:
        named = os.path.dirname(line_of(os.path.join(own, "gitdir")) or "")
    else:
        said = read_config(common, "core", "worktree")
        main = os.path.dirname(own) if os.path.basename(own) == ".git" else top
        named = os.path.join(own, said) if said else main
    return named if os.path.isdir(named) and os.path.realpath(named) != os.path.realpath(top) else None


def top_above(folder: str) -> str | None:
    """Return the nearest folder with a `.git`, from this one upwards; None without git."""
    at = folder
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


STOPPED = {  # what each operation leaves in a work tree's git directory while it waits for the user
    "rebase-merge": "rebase",
    os.path.join("rebase-apply", "applying"): "am",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


def stopped_command(tree: WorkTree) -> str | None:
    """Return the git command that has stopped in a work tree and waits for the user; None if none has left a trace."""
    found = [command for name, command in STOPPED.items() if os.path.exists(os.path.join(tree.own, name))]
    return found[0] if found else None


def has_remotes(common: str) -> bool:
    """Return whether a git directory's own `config` names a remote; without running git."""
    return b"[remote " in (read_git_file(os.path.join(common, "config")) or b"")


def common_directory(root: str) -> str | None:
    """Return the git directory that all work trees of a clone share; None without git."""
    tree = _known.get(root) or work_tree_of(root)
    return tree.common if tree else None


def clone_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to the clone; None without git."""
    common = common_directory(root)
    return os.path.join(common, "faber-ledger") if common else None


def project_folder(root: str) -> str | None:
    """Return the folder in which this program keeps what belongs to a project in this clone; None without git.

    A project at the repository's top has the clone's own folder, any other one of its own in it.
    """
    known = _project_folders.get(root)
    if known is not None:
        return known
    folder, key = clone_folder(root), project_key(root)
    if folder is not None:
        folder = _project_folders[root] = os.path.join(folder, "projects", key) if key else folder
    return folder


_project_folders: dict[str, str] = {}


def state_folder(root: str) -> str:
    """Return the folder of what this program keeps of a project without git, which may not exist."""
    return os.path.join(state_base(), "faber-ledger", sha256(os.fsencode(os.path.realpath(root))).hexdigest())


def state_base() -> str:
    """Return the folder of what programs keep of a user, as the XDG specification says."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):  # the specification ignores any other
        return given
    home = os.path.expanduser("~")
    return os.path.join(os.sep if home == "~" else home, ".local", "state")


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


def read_config(common: str, section: str, name: str) -> str | None:
    """Return the last value of a setting in a git directory's own `config`, in lower case; None if it is not there.

    Without running git, which a hook would wait for: includes are not followed.
    """
    found = read_setting(os.path.join(common, "config"), section, name)
    return None if found is None else found.lower()


def read_setting(path: str, section: str, name: str) -> str | None:
    """Return the last value of a setting in a configuration file; section and name are in lower case."""
    text = (read_git_file(path) or b"").decode("utf-8", "replace")
    found, is_inside = None, False
    for line in text.splitlines() if name in text.lower() else ():
        head, bracket, rest = line.partition("]")
        if bracket and head.lstrip().startswith("["):
            is_inside = head.strip(" \t[").lower() == section
        else:
            rest = line
        key, _, value = rest.partition("=")
        if is_inside and key.strip().lower() == name:
            found = value.partition("#")[0].partition(";")[0].strip().strip('"') or "true"
    return found


def line_of(path: str) -> str | None:
    """Return the text of a short file of git's; None if there is none."""
    return os.fsdecode(read_git_file(path, 4096) or b"").strip() or None


def read_git_file(path: str, limit: int = LIMIT) -> bytes | None:
    """Read a file of git's up to a limit; None if there is none. A pipe in its place is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        return os.read(descriptor, limit)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def config_paths(common: str) -> list[str]:
    """Return where a repository, its user and the system have their configuration: in this order, without includes."""
    home = os.path.expanduser("~")
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    mine = os.environ.get("GIT_CONFIG_GLOBAL")
    users = [mine] if mine else [os.path.join(home, ".gitconfig"), os.path.join(folder, "git", "config")]
    return [os.path.join(common, "config"), *users, "/etc/gitconfig"]


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
    from faber_ledger.runs.git_query import GitQuery  # few hooks ask

    # Some file systems ignore case. An index may lack what the last commit has; before the first commit there is none.
    for tree in (["--with-tree=HEAD"], []):
        arguments = ["--no-literal-pathspecs", "ls-files", "-z", *tree, "--", f":(literal,icase){inside}"]
        listed = GitQuery(arguments, work_tree.top).answer_bytes()
        if listed is not None:
            return listed != b""
    return True
