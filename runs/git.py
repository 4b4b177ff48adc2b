"""Work trees, git's directories, branches and commits, read from git's own files; git itself is seldom asked."""

from __future__ import annotations

import os

from faber_ledger.ledger.encoding import sha256, without_surrogates

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
    Git's directory is looked for once per work tree and process. `forget` is for the commands that make,
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


def forget() -> None:
    """Look for git's directories again from now on."""
    _known.clear()
    unused_tops.clear()


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
        said = read_config(common, "worktree")
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


def read_config(common: str, name: str) -> str | None:
    """Return the last value of a `core` setting in a git directory's own `config`, in lower case; None without it.

    Without running git, which a hook would wait for: includes are not followed.
    """
    found = read_setting(os.path.join(common, "config"), "core", name)
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


def branch_of(root: str) -> str | None:
    """Return the branch that a work tree has checked out, read from git's HEAD file; None if it is detached or unknown.

    Where git keeps its references in tables, the file names a branch that cannot exist, and git is asked.
    """
    tree = work_tree_of(root)
    kind, _, branch = ((line_of(os.path.join(tree.own, "HEAD")) if tree else None) or "").partition("refs/heads/")
    if kind != "ref: ":
        return None
    if tree is not None and branch == ".invalid":
        from faber_ledger.runs.git_query import GitQuery

        branch = (GitQuery(["symbolic-ref", "--quiet", "HEAD"], tree.top).answer() or "").removeprefix("refs/heads/")
    return (branch if branch.isascii() else without_surrogates(branch)) or None


def commit_of(root: str) -> str | None:
    """Return the commit that a work tree has checked out, by git's files; None without one, and with reftables."""
    tree = work_tree_of(root)
    found = line_of(os.path.join(tree.own, "HEAD")) if tree else None
    if tree is not None and found is not None and found.startswith("ref: "):
        found = named_commit(tree, found.removeprefix("ref: "))
    return found if found is not None and len(found) in (40, 64) and not found.strip("0123456789abcdef") else None


def is_safe(name: str) -> bool:
    """Return whether a branch's name may stand in a command; git also allows `$(…)`, and by a push a first `-`."""
    return name.isascii() and name[:1].isalnum() and all([sign.isalnum() or sign in "._/@+#-" for sign in name])


REMOTES = ("upstream", "origin")  # in this order, then by name: in a fork, pull requests go to `upstream`

DEFAULT_BRANCHES = ("main", "master", "develop", "trunk")  # looked for where no remote names one


def default_branch(root: str) -> str | None:
    """Return the name of the default branch, as `default_ref` finds it; None if none is known."""
    ref = default_ref(root)
    return ref.split("/", 3 if ref.startswith("refs/remotes/") else 2)[-1] if ref else None


def default_ref(root: str) -> str | None:
    """Return the default branch as a full ref, read from git's files without running git; None if none is known.

    It is the remote's HEAD as the clone has it, else the first that exists of `init.defaultBranch` and
    `DEFAULT_BRANCHES`. It is looked for once per work tree and process.
    """
    tree = work_tree_of(root)
    if tree is None:
        return None
    if tree not in _default_refs:
        _default_refs[tree] = _find_default_ref(tree)
    return _default_refs[tree]


_default_refs: dict[WorkTree, str | None] = {}


def _find_default_ref(tree: WorkTree) -> str | None:
    remotes = os.path.join(tree.common, "refs", "remotes")
    try:
        names = sorted(os.listdir(remotes), key=lambda name: (*[name != first for first in REMOTES], name))
    except OSError:
        names = []
    for remote in names:
        kind, _, ref = (line_of(os.path.join(remotes, remote, "HEAD")) or "").partition(" ")
        if kind == "ref:" and ref.startswith(f"refs/remotes/{remote}/"):
            return without_surrogates(ref)
    named = _initial_branch(tree.common)
    packed = packed_refs(tree.common).splitlines()
    for branch in (*([named] if named else []), *DEFAULT_BRANCHES):
        is_loose = os.path.isfile(os.path.join(tree.common, "refs", "heads", *branch.split("/")))
        if is_loose or any([line.endswith(os.fsencode(f" refs/heads/{branch}")) for line in packed]):
            return f"refs/heads/{branch}"
    return None


def named_commit(tree: WorkTree, ref: str) -> str | None:
    """Return the commit that a full ref names, read from git's files; None if they do not say it."""
    found = line_of(os.path.join(tree.common, *ref.split("/")))
    if found is not None:
        return found
    ending = b" " + os.fsencode(ref)
    lines = [line for line in packed_refs(tree.common).splitlines() if line.endswith(ending)]
    return lines[0].partition(b" ")[0].decode("ascii", "replace") if lines else None


def may_be_behind(root: str) -> bool:
    """Return whether the upstream of the branch that is checked out may have what HEAD lacks, by git's files.

    So it is if a fetch moved it last, or if it is gone, as after a merge; not if it is HEAD, or was pushed from here.
    """
    tree, ref = work_tree_of(root), _upstream_of(root)
    here = commit_of(root) if ref is not None else None
    if tree is None or here is None or ref is None:
        return False
    commit = named_commit(tree, ref)
    return commit is None or (commit != here and _fetched_at(tree, ref) > 0)


def fetched_at(root: str, remote: str, branch: str) -> float:
    """Return when a fetch moved a remote's branch; 0 if a push from here did since, or the branch is not known."""
    tree, ref = work_tree_of(root), f"refs/remotes/{remote}/{branch}"
    return _fetched_at(tree, ref) if tree is not None and named_commit(tree, ref) is not None else 0.0


def _upstream_of(root: str) -> str | None:
    """Return the ref of the upstream of the branch that is checked out, which may be gone; None without one."""
    tree, branch = work_tree_of(root), branch_of(root)
    if tree is None or branch is None:
        return None
    config, section = os.path.join(tree.common, "config"), f'branch "{branch}"'
    if os.fsencode(section) not in (read_git_file(config) or b""):
        return None
    remote, merged = [read_setting(config, section.lower(), name) for name in ("remote", "merge")]
    if remote is None or merged is None or not os.path.isdir(f"{tree.common}/refs/remotes/{remote}"):
        return None
    return f"refs/remotes/{remote}/{merged.removeprefix('refs/heads/')}"


def _fetched_at(tree: WorkTree, ref: str) -> float:
    moves = (read_git_file(os.path.join(tree.common, "logs", *ref.split("/"))) or b"").splitlines()
    head, _, why = moves[-1].partition(b"\t") if moves else (b"", b"", b"")  # none since the clone was made
    words = head.split()
    return float(words[-2]) if why != b"update by push" and len(words) > 3 and words[-2].isdigit() else 0.0


def _initial_branch(common: str) -> str | None:
    """Return `init.defaultBranch` of the repository, else of the user, else of the system."""
    for path in config_paths(common):
        found = read_setting(path, "init", "defaultbranch")
        if found is not None:
            return found
    return None


def packed_refs(common: str) -> bytes:
    """Return git's file of packed references, at most `LIMIT` bytes of it."""
    return read_git_file(os.path.join(common, "packed-refs")) or b""


MORE_CONFIGURATION = ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_SYSTEM")  # besides `config_paths`


def may_name_filters(tree: WorkTree) -> bool:
    """Return whether a configuration that git reads may name a filter; one of a system elsewhere is the user's own."""
    if any([name in os.environ for name in MORE_CONFIGURATION]):
        return True
    paths = (*config_paths(tree.common), os.path.join(tree.own, "config.worktree"))
    texts = [text.lower() for text in map(read_git_file, paths) if text]
    return any([b"filter" in text or b"include" in text or len(text) == LIMIT for text in texts])


def has_remotes(common: str) -> bool:
    """Return whether a git directory's own `config` names a remote; without running git."""
    return b"[remote " in (read_git_file(os.path.join(common, "config")) or b"")


def is_git_at_work(root: str) -> bool:
    """Return whether git is changing the work tree at the moment, or was killed while it did: the index is locked."""
    tree = work_tree_of(root)
    return tree is not None and os.path.lexists(os.path.join(tree.own, "index.lock"))
