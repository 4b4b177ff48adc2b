"""Ledgers in git refs: how this program asks git for a remote's refs, reads their commits, writes and pushes them.

A run's ref is `refs/faber-ledger/<name>` at the remote and in the clone that sent it. What is fetched goes into
`refs/faber-ledger-remotes/<remote>/<name>`, so that neither `--prune` nor a fetch changes what is unsent. Git reads and
writes all refs: they may be packed, or in a reftable. Nothing here knows what a ledger is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple
from urllib.parse import unquote

from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.encoding import sha256
from faber_ledger.runs.git_command import complaint, git, run_git
from faber_ledger.runs.git_query import GIVEN_SETTINGS, QUIET, SAFE, own_environment
from faber_ledger.runs.run import path_form

SENT = "refs/faber-ledger/"
FETCHED = "refs/faber-ledger-remotes/"
LONGEST_NAME, DIGITS = 180, 16
LEDGER, STATE, METADATA = "ledger.db", "state.json", "metadata.json"  # the files of a commit
LARGEST = {LEDGER: 1 << 30, STATE: 64 << 20, METADATA: 1 << 20}  # bytes
LONGEST_MESSAGE, LARGEST_COMMIT = 4096, 1 << 20
LONGEST_HISTORY = 1000  # commits of a ref in which a file is looked for
ANSWER_SECONDS, TRANSFER_SECONDS = 120.0, 900.0  # a silent remote is found out by the first question
WHO = "faber-ledger <faber-ledger@localhost>"
# Nothing that a user has set for his own fetches and pushes changes these: no hook runs, no tag or submodule goes
# along.
FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-prune", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap="),
    "--no-auto-maintenance",
)
WHOLE = "--no-filter"  # a partial clone gets the files, too; before a `--filter` git would miss what that leaves out
PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
OWN_SETTINGS = ("-c", "core.hooksPath=/dev/null", "-c", "push.pushOption=")
UNCHECKED = ("-c", "fetch.fsckObjects=false")  # where nothing is kept
# The words of git 2.39 and, since 2.50, of its transactions on references.
BEHIND = (
    *("fetch first", "non-fast-forward", "stale info", "cannot lock", "failed to update", "already exists"),
    *("incorrect old value", "reference does not exist"),
)
USER = re.compile(r"//[^/@\s]*@")
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
FOR_GOOD = "[remote rejected] (non-fast-forward)"  # the remote's settings refuse to replace a ref


def ref_name(run_id: str) -> str:
    """Return a run's name below `SENT`: its path form, in which `/`, `..`, a last `.` and `.lock` are quoted."""
    name = path_form(run_id).replace("/", "%2F").replace("..", "%2E%2E")
    if name.endswith("."):
        name = f"{name[:-1]}%2E"
    if name.endswith(".lock"):
        name = f"{name[:-5]}%2Elock"
    if len(name) <= LONGEST_NAME:
        return name
    return name[:LONGEST_NAME] + sha256(name.encode()).hexdigest()[:DIGITS]


def exchange_environment() -> dict[str, str]:
    """Return the environment in which git asks a remote, without settings that could name another remote."""
    return {name: value for name, value in own_environment().items() if name not in GIVEN_SETTINGS}


def quiet_environment(settings: dict[str, list[str]]) -> dict[str, str]:
    """Return the environment in which git and what it starts never ask anybody; credential helpers stay.

    `settings` are git's, as `read_settings` returns them.
    """
    fails = shutil.which("false") or os.devnull
    found = {
        **exchange_environment(),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": fails,
        "SSH_ASKPASS": fails,
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }
    own = os.environ.get("GIT_SSH_COMMAND") or settings.get("core.sshcommand", [""])[-1].strip()
    ssh = own or shlex.quote(os.environ.get("GIT_SSH") or "ssh")
    variant = os.environ.get("GIT_SSH_VARIANT") or settings.get("ssh.variant", ["auto"])[-1]
    if variant == "ssh" or (variant == "auto" and _is_ssh(ssh)):  # another program may not know the option
        found["GIT_SSH_COMMAND"] = f"{ssh} -o BatchMode=yes"
    return found


def read_settings(top: str) -> dict[str, list[str]]:
    """Return git's settings of ssh and of URLs, of all its files, by their names."""
    named = r"^(core\.sshcommand|ssh\.variant|remote\..*\.(push)?url|url\..*\.(push)?insteadof)$"
    asked = ("config", "-z", "--get-regexp", named)
    found: dict[str, list[str]] = {}
    for one in os.fsdecode(run_git(*asked, at=top, environment=exchange_environment()).stdout).split("\0"):
        name, _, value = one.partition("\n")
        found.setdefault(name, []).append(value)
    return found


def digest_of_url(settings: dict[str, list[str]], remote: str) -> str:
    """Return a digest of a remote's URLs, after what `insteadOf` makes of them, without users and passwords."""
    urls = [one for kind in ("url", "pushurl") for one in (kind, *settings.get(f"remote.{remote}.{kind}", ()))]
    rules = [(name, begin) for name, begins in settings.items() if name.endswith("insteadof") for begin in begins]
    used = [f"{name} {begin}" for name, begin in rules if any([url.startswith(begin) for url in urls])]
    return sha256(USER.sub("//", "\n".join([*urls, *sorted(used)])).encode()).hexdigest()


def _is_ssh(command: str) -> bool:
    """Return whether a shell command runs ssh, also after the values of variables."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    program = next((word for word in words if not VARIABLE.match(word)), "")
    return os.path.basename(program).startswith("ssh")


class Push(NamedTuple):
    """One ref to push: the commit, empty to delete the ref; `lease` is what the remote has where it is replaced."""

    name: str
    commit: str
    lease: str | None = None


class Pushed(NamedTuple):
    """What became of a pushed ref: `why` it was refused, None if it was taken; `is_behind` asks for a fetch."""

    why: str | None
    is_behind: bool = False


class Version(NamedTuple):
    """What is written as a ref's next commit: its files as bytes or paths, its message, and its parent, if any."""

    name: str
    files: dict[str, bytes | str]
    message: str
    parent: str
    at: int


class Remote:
    """A remote of a clone, asked through git in the work tree at `top`; `refusal` is why it is never asked."""

    def __init__(self, top: str, name: str, agreed: str, *, is_quiet: bool) -> None:
        """Take the remote's name, and the digest of the URL that was agreed to, if any.

        If `is_quiet`, nothing that git starts may ask; else git may ask on a terminal.
        """
        self.top = top
        self.name = name
        self.is_quiet = is_quiet
        settings = read_settings(top)
        self._environment = quiet_environment(settings) if is_quiet else exchange_environment()
        self.refusal: GitFailed | None = None
        if agreed not in ("", digest_of_url(settings, name)):
            what = f"the URL of {name} is not the one that this clone has agreed to send its ledgers to"
            what = what if f"remote.{name}.url" in settings else f"git no longer knows a remote {name} here"
            how = "`git config --show-origin --get-regexp '^(remote|url)[.]'` shows where it comes from"
            self.refusal = GitFailed(
                what, hint=f"run `faber-ledger init --carry refs --remote NAME` to agree to it; {how}"
            )
        self.known: dict[str, str] = {}  # what `heads` has returned last of all refs
        self._may_ask = not is_quiet and sys.stdin.isatty()

    def heads(self, pattern: str = "*") -> dict[str, str]:
        """Return the commits of the remote's refs by their names; raises GitFailed."""
        listed = os.fsdecode(self._git("ls-remote", "--refs", "--", self.name, SENT + pattern))
        rows = [line.split("\t") for line in listed.splitlines()]
        found = {row[1].removeprefix(SENT): row[0] for row in rows if len(row) == 2 and row[1].startswith(SENT)}
        self.known = found if pattern == "*" else self.known
        return found

    def fetch(self, names: Iterable[str]) -> None:
        """Fetch the refs of these names with their history; raises GitFailed."""
        wanted = "".join([f"+{SENT}{name}:{self.fetched(name)}\n" for name in names])
        if wanted:
            self._git(*FETCH, WHOLE, "--stdin", "--", self.name, content=wanted.encode())

    def fetched(self, name: str) -> str:
        """Return the ref into which a run's ref is fetched."""
        return f"{FETCHED}{self.name}/{name}"

    def list_newest(self) -> Iterator[tuple[str, str, int, str]]:
        """Yield name, commit, time and message of each ref of the remote: its newest commit alone is asked for.

        It is fetched into a repository that is gone afterwards: a shallow fetch would make this one shallow. It lies in
        the clone's git directory, for which the user's settings may name other ones (`includeIf`).
        """
        if not self.heads():
            return  # git's fetch of no ref at all ends with 1
        common = os.fsdecode(git("rev-parse", "--path-format=absolute", "--git-common-dir", at=self.top)).rstrip("\n")
        config = ("-c", f"include.path={os.path.join(common, 'config')}", *OWN_SETTINGS, *UNCHECKED)
        kind = os.fsdecode(git("rev-parse", "--show-object-format", at=self.top)).strip()
        with tempfile.TemporaryDirectory(prefix="faber-ledger-", dir=common) as folder:
            git("init", "--quiet", "--bare", f"--object-format={kind}", folder, at=self.top)
            there = (f"--git-dir={folder}", *config, "-c", "core.bare=true")
            self._git(*there, *FETCH, "--depth=1", "--filter=blob:none", "--", self.name, f"+{SENT}*:{SENT}*")
            form = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00"
            printed = self._git(*there, "for-each-ref", f"--format={form}", SENT)
        fields = os.fsdecode(printed).split("\0")
        for at in range(0, len(fields) - 4, 4):
            name, commit, time, message = fields[at : at + 4]
            if time.isdecimal():  # a ref may also be of something else than a commit
                yield name.strip().removeprefix(SENT), commit, int(time), message[:LONGEST_MESSAGE]

    def push(self, pushes: list[Push]) -> dict[str, Pushed]:
        """Push refs, and return what became of each; raises GitFailed where the remote cannot be reached."""
        leases = [f"--force-with-lease={SENT}{one.name}:{one.lease}" for one in pushes if one.lease is not None]
        specs = [f"{one.commit}:{SENT}{one.name}" for one in pushes]
        done = self._run("-c", f"remote.{self.name}.mirror=false", *PUSH, *leases, "--", self.name, *specs)
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("remote: ")]
        found = {}
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            flag, _, rest = line.partition("\t")
            ref, _, summary = rest.partition("\t")
            name = ref.rpartition(":")[2].removeprefix(SENT)
            if ref:
                is_behind = any([word in summary for word in BEHIND]) and FOR_GOOD not in summary
                why = f"{summary}: {said[0].strip()}" if said and "hook declined" in summary else summary
                found[name] = Pushed(why if flag == "!" else None, flag == "!" and is_behind)
        if not found:
            raise GitFailed(f"`git push` failed: {complaint(done)}", hint=f"try `git push {self.name}` by hand")
        return found

    def _git(self, *arguments: str, content: bytes | None = None) -> bytes:
        done = self._run(*arguments, content=content)
        if done.returncode:
            verb = next((word for word in arguments if word in ("ls-remote", "fetch", "push")), arguments[0])
            hint = _hint_of(done, f"try `git fetch {self.name}` by hand")
            raise GitFailed(f"`git {verb}` failed: {complaint(done)}", hint=hint)
        return done.stdout

    def _run(self, *arguments: str, content: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        if self.refusal is not None:
            raise self.refusal
        return run_git(
            *OWN_SETTINGS,
            *arguments,
            at=self.top,
            content=content,
            environment=self._environment,
            seconds=ANSWER_SECONDS if "ls-remote" in arguments else TRANSFER_SECONDS,
            asked=self.name,
            may_ask=self._may_ask,
        )


def _hint_of(done: subprocess.CompletedProcess[bytes], usual: str) -> str:
    """Return what to do after git has failed: a git that was killed leaves its lock."""
    is_locked = b".lock': File exists" in done.stderr or b"reference already exists" in done.stderr
    return "remove the `.lock` file of that ref, if no git is at work" if is_locked else usual


def write(top: str, versions: list[Version]) -> dict[str, str]:
    """Write commits into a clone, set their refs to them, and return them by the refs' names; raises GitFailed.

    One process of git does it for all of them.
    """
    command = ["git", *SAFE, "-c", "core.hooksPath=/dev/null", "fast-import", "--quiet", "--force", "--done"]
    with tempfile.TemporaryFile() as given:
        for number, version in enumerate(versions, 1):
            _write_version(given, version, number)
        given.write(b"done\n")
        given.seek(0)
        done = subprocess.run(command, cwd=top, stdin=given, capture_output=True, env=own_environment(), check=False)
    if done.returncode:
        hint = _hint_of(done, "see what `git fsck` says")
        raise GitFailed(f"`git fast-import` failed: {complaint(done)}", hint=hint)
    return dict(zip([one.name for one in versions], done.stdout.decode().split(), strict=True))


def _write_version(given: IO[bytes], version: Version, number: int) -> None:
    message = version.message.encode()
    given.write(f"commit {SENT}{version.name}\nmark :{number}\ncommitter {WHO} {version.at} +0000\n".encode())
    given.write(b"data %d\n%b\n" % (len(message), message))
    if version.parent:
        given.write(f"from {version.parent}\n".encode())
    given.write(b"deleteall\n")
    for name, content in version.files.items():
        size = os.path.getsize(content) if isinstance(content, str) else len(content)
        given.write(f"M 100644 inline {name}\ndata {size}\n".encode())
        if isinstance(content, str):
            with open(content, "rb") as file:
                shutil.copyfileobj(file, given)
        else:
            given.write(content)
        given.write(b"\n")
    given.write(f"get-mark :{number}\n".encode())


class Commit(NamedTuple):
    """A commit of a ref: its name, its message, and the paths of its files by name."""

    name: str
    message: str
    files: dict[str, str]


@contextmanager
def read(top: str, commits: list[str], names: Iterable[str] = tuple(LARGEST)) -> Iterator[Iterator[Commit | None]]:
    """Read commits, or what refs have now, with their files: yield an iterator of them, None for what is not a commit.

    The files are private copies of `names`; what is not a file, or larger than `LARGEST`, is left out. One
    process of git does it for all of them. The iterator raises GitFailed.
    """
    if not commits:
        yield iter(())
        return
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        command = ["git", *SAFE, "cat-file", "--batch"]
        pipe, nowhere, environment = subprocess.PIPE, subprocess.DEVNULL, own_environment() | QUIET
        with subprocess.Popen(
            command, cwd=top, stdin=pipe, stdout=pipe, stderr=nowhere, env=environment, bufsize=0
        ) as process:
            yield (_read_commit(process, folder, commit, names) for commit in commits)


def _read_commit(process: subprocess.Popen[bytes], folder: str, commit: str, names: Iterable[str]) -> Commit | None:
    path = os.path.join(folder, "commit")
    name = _read_object(process, commit, b"commit", path, LARGEST_COMMIT)
    if not name:
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        found = Commit(name, file.read().partition("\n\n")[2][:LONGEST_MESSAGE], {})
    for file_name in names:
        path = os.path.join(folder, file_name)
        if _read_object(process, f"{name}:{file_name}", b"blob", path, LARGEST[file_name]):
            found.files[file_name] = path
    return found


def list_commits(top: str, tip: str, most: int = -1) -> list[str]:
    """Return at most so many commits that a tip reaches, the newest first; none if some of them are not here."""
    done = run_git("rev-list", f"--max-count={most}", tip, "--", at=top)
    return os.fsdecode(done.stdout).split() if done.returncode == 0 else []


def _read_object(process: subprocess.Popen[bytes], name: str, kind: bytes, path: str, largest: int) -> str:
    """Write an object into a file, and return its id, empty if it is of another kind or too large; raises GitFailed."""
    given, printed = process.stdin, process.stdout
    assert given is not None
    assert printed is not None
    try:
        given.write(f"{name}\n".encode())
        words = printed.readline().split()
    except BrokenPipeError:
        words = []
    if not words:
        raise GitFailed("`git cat-file` failed", hint="see what `git fsck` says")
    if len(words) != 3 or not words[2].isdigit():
        return ""  # the object does not exist
    is_wanted, left = words[1] == kind and int(words[2]) <= largest, int(words[2]) + 1
    with open(path if is_wanted else os.devnull, "wb") as file:
        while left:
            piece = printed.read(min(left, 1 << 20))
            if not piece:
                raise GitFailed("`git cat-file` failed", hint="see what `git fsck` says")
            left -= len(piece)
            file.write(piece if left else piece[:-1])
    return words[0].decode() if is_wanted else ""


def delete_refs(top: str, refs: Iterable[str]) -> None:
    """Delete refs of a clone, those that exist; raises GitFailed."""
    wanted = "".join([f"delete {ref}\n" for ref in refs])
    git("update-ref", "--stdin", at=top, content=wanted.encode())


def decoded_name(name: str) -> str | None:
    """Return the path form that a ref's name encodes; None if the name was cut."""
    form = unquote(name)
    return form if ref_name(form) == name else None
