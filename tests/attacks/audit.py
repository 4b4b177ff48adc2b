"""Run a command under strace, and find what it opens, changes or executes where it has no business.

strace sees git's and SQLite's calls too, which an audit hook of Python does not.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LONGEST_SECONDS = 60
TEXT = r'"((?:[^"\\]|\\.)*)"'
LINE = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*?)>(?:\(deleted\))?)?(?: .*)?$")
FORKS = {"clone", "clone3", "fork", "vfork"}
PLACE = re.compile(rf"(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?{TEXT}")
CHANGES = {"unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "symlink", "symlinkat"}
CHANGES |= {"link", "linkat", "truncate", "chmod", "fchmodat", "chown", "lchown", "fchownat", "mknod", "mknodat"}
CHANGES |= {"utimensat", "creat"}
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
PROGRAMS = {"git", "sh", "bash", "ssh", "uname", "less", "ldconfig", "gcc", "cc", "ld", "objdump"}


class Touched(NamedTuple):
    """A path that a process opened, changed or executed: `how` is `read`, `change` or `execute`."""

    how: str
    path: str
    line: str


class Call(NamedTuple):
    """A system call of a trace; `file` is the file that a descriptor it returned is of, without any link."""

    name: str
    words: str
    result: str
    file: str
    line: str


class Traced(NamedTuple):
    """How a traced command ended; `code` is None if it was still running after `LONGEST_SECONDS`."""

    code: int | None
    output: bytes
    errors: bytes
    touched: list[Touched]


def run_traced(command: Sequence[str], directory: Path, environment: Mapping[str, str], content: bytes = b"") -> Traced:
    """Run a command with this standard input, and list the paths that it and its children touched."""
    strace = shutil.which("strace")
    assert strace, "strace is not installed: `apt-get install strace`"
    with tempfile.TemporaryDirectory(prefix="faber-audit-") as folder:
        options = ["-ff", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", "trace=file,process,fchdir"]
        with subprocess.Popen(
            [strace, *options, "-o", f"{folder}/trace", *command],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            code: int | None
            try:
                output, errors = process.communicate(content, timeout=LONGEST_SECONDS)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, errors = process.communicate()
                code = None
        return Traced(code, output, errors, list(_read_traces(Path(folder), directory)))


def _read_traces(folder: Path, directory: Path) -> Iterator[Touched]:
    """Yield what the calls of all processes touched; one that is forked has its parent's directory."""
    calls = {trace.suffix[1:]: _calls_in(trace) for trace in folder.iterdir()}
    forked = {call.result for several in calls.values() for call in several if call.name in FORKS}
    waiting = [(pid, str(directory)) for pid in calls.keys() - forked]
    while waiting:
        pid, here = waiting.pop()
        for call in calls.get(pid, []):
            if call.name in FORKS:
                waiting.append((call.result, here))
            elif call.name == "chdir":
                here = next(_paths_in(call.words, here))
            elif call.name == "fchdir":
                here = call.words.partition("<")[2].rpartition(">")[0]
            else:
                yield from _touched_by(call, here)


def _calls_in(trace: Path) -> list[Call]:
    """Return the calls of one process that did not fail."""
    calls = []
    for line in trace.read_text("utf-8", "surrogateescape").splitlines():
        found = LINE.match(line)
        if found is not None and not found[3].startswith("-"):
            calls.append(Call(found[1], found[2], found[3], found[4] or "", line))
    return calls


def _touched_by(call: Call, here: str) -> Iterator[Touched]:
    if call.name in ("execve", "execveat"):
        yield Touched("execute", next(_paths_in(call.words, here)), call.line)
    elif call.name in ("open", "openat", "openat2"):
        how = "change" if WRITING.search(call.words.rpartition('"')[2]) else "read"
        yield Touched(how, _unescape(call.file), call.line)
    elif call.name in CHANGES:
        for path in _paths_in(call.words, here):
            yield Touched("change", path, call.line)


def _paths_in(words: str, here: str) -> Iterator[str]:
    """Yield the paths among a call's words, absolute and without links in their folders."""
    for folder, text in PLACE.findall(words):
        path = os.path.join(folder or here, _unescape(text))
        yield os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _unescape(text: str) -> str:
    return (
        text.encode("latin-1", "backslashreplace")
        .decode("unicode_escape")
        .encode("latin-1")
        .decode("utf-8", "surrogateescape")
    )


class Borders:
    """What a command may touch: its project, what it keeps for itself, and the machine's own programs and settings."""

    def __init__(self, project: Path, environment: Mapping[str, str], state_home: Path) -> None:
        temporary = environment.get("TMPDIR", tempfile.gettempdir())
        self._baits = os.path.realpath(environment["HOME"])
        self._changed = [
            os.path.realpath(str(one)) for one in (project, state_home, temporary, "/dev/null", "/dev/tty")
        ]
        settings = [os.path.join(self._baits, name) for name in (".config", ".gitconfig", ".claude", ".claude.json")]
        machine = [
            "/usr",
            "/lib",
            "/lib64",
            "/bin",
            "/etc",
            "/proc",
            "/dev/urandom",
            "/sys",
            sys.prefix,
            sys.base_prefix,
        ]
        sources = Path(__file__).parents[2]  # the program, installed as editable
        self._read = [*self._changed, *settings, *[os.path.realpath(str(one)) for one in (*machine, sources)]]
        self._programs = [os.path.realpath(one) for one in ("/usr", "/bin", sys.prefix, sys.base_prefix)]

    def broken_by(self, touched: Sequence[Touched]) -> list[str]:
        """Return the calls that went over the borders."""
        return [one.line for one in touched if self._is_broken_by(one)]

    def _is_broken_by(self, one: Touched) -> bool:
        if one.how == "execute":
            return not (_is_in(one.path, self._programs) and _is_program(one.path))
        if one.how == "change":
            return _is_in(one.path, [self._baits]) or not _is_in(one.path, self._changed)
        return one.path != "/" and not _is_in(one.path, self._read)


def _is_program(path: str) -> bool:
    name = os.path.basename(path)
    return name in PROGRAMS or name.startswith(("python", "git-", "faber-ledger"))


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
